//! Random changes of dynamic entries (RFC 2589), compared with a simple list of entries. A dynamic entry is in a
//! subtree that the settings allow, and has no static entries below it. A dynamic entry expires at the time that its
//! last add, refresh or undelete set. The log contains the deletes of expired entries in the order of these times.

use std::collections::BTreeMap;

use directory::record::{Change, Record};
use directory::{Outcome, csn::generalized_time};
use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode, Scope};

use crate::places::{is_at_or_below, moved, parent, take_tree};
use crate::testing::{SUFFIX, TestDirectory, for_seeds};

const SEEDS: u64 = 4;
const OPERATIONS: usize = 400;
const DEPTH_MAX: usize = 6;

/// Base of the first value of `dynamic_subtrees`.
const MEETINGS: &str = "cn=meetings,dc=example,dc=com";
/// Base of the second value of `dynamic_subtrees`. The base entry often does not exist.
const ROOM: &str = "cn=a,cn=b,dc=example,dc=com";

/// Longest time to live that a request may contain.
const LIMIT: u32 = 31_557_600;

#[derive(Clone, Debug)]
struct Entry {
    /// Place of the entry in the order of the adds.
    number: usize,
    /// Time at which a dynamic entry ends, in seconds since 1970.
    end: Option<u64>,
}

type Entries = BTreeMap<String, Entry>;

#[derive(Default)]
struct Plain {
    /// All entries except the suffix entry.
    entries: Entries,
    /// Entries of each delete that have not been restored.
    deleted: Vec<Entries>,
    subtrees: Vec<&'static str>,
    ttl_min: u32,
    ttl_max: u32,
    count: usize,
}

impl Plain {
    fn exists(&self, dn: &str) -> bool {
        dn == SUFFIX || self.entries.contains_key(dn)
    }

    fn is_leaf(&self, dn: &str) -> bool {
        !self.entries.keys().any(|other| other != dn && is_at_or_below(other, dn))
    }

    /// Returns success if an entry, dynamic or static, may be below `parent`.
    fn place(&self, is_dynamic: bool, parent: &str) -> ResultCode {
        let is_open = |base: &&str| self.exists(base) && is_at_or_below(parent, base);
        let is_allowed = match is_dynamic {
            true => self.subtrees.iter().any(is_open),
            false => self.entries.get(parent).is_none_or(|above| above.end.is_none()),
        };
        if is_allowed { ResultCode::SUCCESS } else { ResultCode::OBJECT_CLASS_VIOLATION }
    }

    /// Deletes the entries that have expired, and returns their names in the order of the deletes.
    fn expire(&mut self, now: u64) -> Vec<String> {
        let mut expired = Vec::new();
        loop {
            let ended = self.entries.iter().filter(|(dn, of)| of.end <= Some(now) && self.is_leaf(dn));
            let first = ended.filter(|(_, of)| of.end.is_some()).min_by_key(|(_, of)| (of.end, of.number));
            let Some((dn, _)) = first else { return expired };
            let dn = dn.clone();
            let gone = take_tree(&mut self.entries, &dn);
            self.deleted.push(gone);
            expired.push(dn);
        }
    }
}

struct Run {
    directory: TestDirectory,
    plain: Plain,
    rng: Rng,
    /// Numbers of the cases that a run must contain.
    counts: BTreeMap<&'static str, usize>,
}

impl Run {
    fn count(&mut self, case: &'static str) {
        *self.counts.entry(case).or_default() += 1;
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        self.rng.choice(all).cloned()
    }

    fn entry(&mut self) -> Option<String> {
        self.rng.choice(self.plain.entries.keys()).cloned()
    }

    /// Returns an entry, often the base of the first subtree.
    fn superior(&mut self) -> String {
        match self.rng.u32(..4) {
            0 if self.plain.exists(MEETINGS) => MEETINGS.to_owned(),
            1 => SUFFIX.to_owned(),
            _ => self.entry().unwrap_or_else(|| SUFFIX.to_owned()),
        }
    }

    fn rdn(&mut self) -> &'static str {
        ["cn=meetings", "cn=a", "cn=b", "cn=c", "cn=d", "cn=e"][self.rng.usize(..6)]
    }

    /// Returns the time of the last operation in seconds since 1970.
    fn now(&self) -> u64 {
        self.directory.now_micros() / 1_000_000
    }

    fn check(&mut self, outcome: &Outcome, expected: ResultCode, what: &str) -> bool {
        assert_eq!(outcome.code, expected, "{what}: {}\n{:#?}", outcome.diagnostic, self.plain.entries);
        if expected == ResultCode::OBJECT_CLASS_VIOLATION {
            self.count(if what.starts_with("undelete") { "refused undelete" } else { "refused place" });
        }
        expected == ResultCode::SUCCESS
    }

    fn add(&mut self) {
        let (superior, is_dynamic) = (self.superior(), self.rng.bool());
        let dn = format!("{},{superior}", self.rdn());
        if self.plain.exists(&dn) || dn.matches(',').count() > DEPTH_MAX {
            return;
        }
        let classes: &[&str] = if is_dynamic { &["device", "dynamicObject"] } else { &["device"] };
        let outcome = self.directory.add(&dn, &[("objectClass", classes)]);
        let expected = self.plain.place(is_dynamic, &superior);
        if self.check(&outcome, expected, &format!("add {dn} {is_dynamic}")) {
            let end = is_dynamic.then(|| self.now() + u64::from(self.plain.ttl_max));
            self.plain.count += 1;
            self.plain.entries.insert(dn, Entry { number: self.plain.count, end });
        }
    }

    fn refresh(&mut self) {
        let dynamic = self.plain.entries.iter().filter(|(_, entry)| entry.end.is_some());
        let dynamic: Vec<String> = dynamic.map(|(dn, _)| dn.clone()).collect();
        let dn = match self.rng.u32(..8) {
            0 => format!("cn=none,{SUFFIX}"),
            1 => self.superior(),
            _ => self.pick(&dynamic).unwrap_or_else(|| SUFFIX.to_owned()),
        };
        let asked = [0, 1, 90, 120, 300, 5_000, LIMIT, LIMIT + 1][self.rng.usize(..8)];
        let given = asked.clamp(self.plain.ttl_min, self.plain.ttl_max);
        let is_dynamic = self.plain.entries.get(&dn).map(|entry| entry.end.is_some());
        let expected = match (is_dynamic, asked) {
            (None, _) if dn != SUFFIX => Err(ResultCode::NO_SUCH_OBJECT),
            (None | Some(false), _) => Err(ResultCode::OBJECT_CLASS_VIOLATION),
            (_, 0) => Err(ResultCode::PROTOCOL_ERROR),
            (_, asked) if asked > LIMIT => Err(ResultCode::SIZE_LIMIT_EXCEEDED),
            _ => Ok(given),
        };
        let answer = self.directory.refresh(&dn, asked).map_err(|outcome| outcome.code);
        assert_eq!(answer, expected, "refresh {dn} {asked}");
        let now = self.now();
        if answer.is_ok() {
            self.count("refresh");
            self.plain.entries.get_mut(&dn).unwrap().end = Some(now + u64::from(given));
        }
    }

    /// Changes an entry without changing its expiry time, or tries to make it static or dynamic.
    fn modify(&mut self) {
        let Some(dn) = self.entry() else { return };
        let (name, value, operation, expected) = match self.rng.bool() {
            true => ("description", "x", ChangeOperation::Replace, ResultCode::SUCCESS),
            false => {
                let is_dynamic = self.plain.entries[&dn].end.is_some();
                let operation = if is_dynamic { ChangeOperation::Delete } else { ChangeOperation::Add };
                ("objectClass", "dynamicObject", operation, ResultCode::OBJECT_CLASS_VIOLATION)
            }
        };
        let outcome = self.directory.modify(&dn, &[(operation, name, &[value])]);
        self.check(&outcome, expected, &format!("modify {dn} {name}"));
    }

    /// Renames or moves an entry and all entries below it. Only the new superior of the top entry is checked.
    fn rename(&mut self) {
        let (Some(dn), superior) = (self.entry(), self.superior()) else { return };
        let rdn = self.rdn();
        let (to, is_inside) = (format!("{rdn},{superior}"), is_at_or_below(&superior, &dn));
        if self.plain.exists(&to) || is_inside || to.matches(',').count() > DEPTH_MAX - 2 {
            return;
        }
        let stays = parent(&dn) == superior;
        let expected = match stays {
            true => ResultCode::SUCCESS,
            false => self.plain.place(self.plain.entries[&dn].end.is_some(), &superior),
        };
        let outcome = self.directory.modify_dn(&dn, rdn, true, Some(&superior));
        if self.check(&outcome, expected, &format!("move {dn} to {to}")) {
            let tree = take_tree(&mut self.plain.entries, &dn);
            self.plain.entries.extend(moved(tree, &dn, &to));
        }
    }

    fn delete(&mut self) {
        let (Some(dn), with_tree) = (self.entry(), self.rng.u32(..3) == 0) else { return };
        let outcome = if with_tree { self.directory.delete_tree(&dn) } else { self.directory.delete(&dn) };
        let expected = match with_tree || self.plain.is_leaf(&dn) {
            true => ResultCode::SUCCESS,
            false => ResultCode::NOT_ALLOWED_ON_NON_LEAF,
        };
        if self.check(&outcome, expected, &format!("delete {dn}")) {
            let gone = take_tree(&mut self.plain.entries, &dn);
            self.plain.deleted.push(gone);
        }
    }

    /// Restores an entry and all entries below it. If the top entry is dynamic, all restored entries are dynamic and
    /// begin a new time to live.
    fn undelete(&mut self) {
        let all: Vec<String> = self.plain.deleted.iter().flat_map(BTreeMap::keys).cloned().collect();
        let (Some(dn), superior) = (self.pick(&all), self.superior()) else { return };
        let to = format!("{},{superior}", dn.split_once(',').unwrap().0);
        if to.matches(',').count() > DEPTH_MAX - 2 {
            return;
        }
        let newest = self.plain.deleted.iter().rposition(|of| of.contains_key(&dn)).unwrap();
        let is_dynamic = self.plain.deleted[newest][&dn].end.is_some();
        let expected = match self.plain.exists(&to) {
            true => ResultCode::ENTRY_ALREADY_EXISTS,
            false => self.plain.place(is_dynamic, &superior),
        };
        let answer = self.directory.undelete(&dn, Some(&superior));
        let outcome = answer.as_ref().err().cloned().unwrap_or_else(Outcome::success);
        if self.check(&outcome, expected, &format!("undelete {dn} to {to}")) {
            let mut tree = moved(take_tree(&mut self.plain.deleted[newest], &dn), &dn, &to);
            assert_eq!(answer.unwrap().entries, tree.len() as u64, "{dn}");
            if is_dynamic {
                self.count("undelete");
                let end = self.now() + u64::from(self.plain.ttl_max);
                tree.values_mut().for_each(|entry| entry.end = Some(end));
            }
            self.plain.entries.extend(tree);
        }
    }

    fn pass(&mut self) {
        self.directory.pass(30 * self.rng.u64(..6));
        let before = self.directory.snapshot.position().unwrap();
        while self.directory.make_due_changes(0) {}
        let state = self.directory.snapshot.state();
        let rows = state.read.log_records(before + 1).map(Result::unwrap);
        let names = rows.map(|(_, bytes)| match Record::decode(bytes).unwrap().change {
            Change::Delete(delete) => delete.dn,
            change => panic!("{change:?}"),
        });
        let names: Vec<String> = names.collect();
        let expected = self.plain.expire(self.now());
        assert_eq!(names, expected);
        if expected.iter().any(|dn| !self.plain.is_leaf(parent(dn))) {
            self.count("expiry before others");
        }
        for _ in &expected {
            self.count("expiry");
        }
    }

    fn change_settings(&mut self) {
        let all: [&[&'static str]; 4] = [&[MEETINGS], &[MEETINGS, ROOM], &[ROOM], &[SUFFIX]];
        self.plain.subtrees = all[self.rng.usize(..4)].to_vec();
        (self.plain.ttl_min, self.plain.ttl_max) = [(1, 150), (90, 300), (120, 120)][self.rng.usize(..3)];
        let Plain { subtrees, ttl_min, ttl_max, .. } = &self.plain;
        self.directory.change_settings(|settings| {
            settings.general.dynamic_subtrees = subtrees.iter().map(|dn| (*dn).to_owned()).collect();
            settings.general.dynamic_ttl_min_seconds = *ttl_min;
            settings.general.dynamic_ttl_max_seconds = *ttl_max;
        });
    }

    fn compare(&mut self) {
        let attributes = ["entryExpireTimestamp", "entryTtl"];
        let found = self.directory.search(SUFFIX, Scope::Subordinate, "(objectClass=*)", &attributes);
        let now = self.directory.now_micros();
        let found: BTreeMap<_, _> = found
            .entries
            .iter()
            .map(|entry| (entry.dn.clone(), attributes.map(|name| entry.texts(name))))
            .collect();
        let expected: BTreeMap<_, _> = self
            .plain
            .entries
            .iter()
            .map(|(dn, Entry { end, .. })| {
                let left = |end: u64| (end * 1_000_000).saturating_sub(now) / 1_000_000;
                let times = end.map(|end| [generalized_time(end), left(end).to_string()]);
                (dn.clone(), times.map_or([vec![], vec![]], |times| times.map(|text| vec![text])))
            })
            .collect();
        assert_eq!(found, expected);
    }
}

fn run(seed: u64) {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.define_index("entryExpireTimestamp", "equality");
    directory.finish_indexes();
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 10_000_000);
    let (plain, rng, counts) = (Plain::default(), Rng::with_seed(seed), BTreeMap::new());
    let mut run = Run { directory, plain, rng, counts };
    run.change_settings();
    for _ in 0..OPERATIONS {
        match run.rng.u32(..40) {
            0..16 => run.add(),
            16..20 => run.refresh(),
            20 | 21 => run.modify(),
            22 | 23 => run.rename(),
            24 | 25 => run.delete(),
            26..31 => run.undelete(),
            31..35 => run.pass(),
            35 => run.change_settings(),
            36 if run.rng.u32(..4) == 0 => run.directory = run.directory.reopen(),
            _ => run.compare(),
        }
    }
    run.compare();
    for case in ["refused place", "refused undelete", "refresh", "undelete", "expiry", "expiry before others"]
    {
        assert!(run.counts.contains_key(case), "{case}: {:?}", run.counts);
    }
    assert_eq!(directory::check::check(&run.directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn dynamic_entries_expire_as_in_a_model() {
    for_seeds(SEEDS, run);
}
