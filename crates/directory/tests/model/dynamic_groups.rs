//! Random changes of dynamic groups and of the entries that they describe, compared with a simple list of entries. The
//! groups of an entry are the same in memberOf and isMemberOf, in filters with and without indexes, and in compares.

use std::collections::{BTreeMap, BTreeSet};

use directory::compare::{CompareOutcome, compare};
use directory::controls::RequestControls;
use directory::{DirectorySettings, Outcome};
use fastrand::Rng;
use ldap::{ChangeOperation, CompareRequest, ResultCode, Scope};

use crate::places::{is_at_or_below, parent};
use crate::testing::{SUFFIX, TestDirectory, for_seeds};

const SEEDS: u64 = 2;
const OPERATIONS: usize = 200;
const UNITS: [&str; 2] = ["ou=one,dc=example,dc=com", "ou=two,ou=one,dc=example,dc=com"];
const IN_CHAIN: &str = "1.2.840.113556.1.4.1941";

/// Filter of a URL.
#[derive(Clone, Debug)]
enum Test {
    Any,
    Title(&'static str),
    NotTitle(&'static str),
    /// Tests memberOf for a group, and title for a value.
    Group(String, &'static str),
    NotGroup(String),
    /// Tests isMemberOf.
    NestedGroup(String),
}

impl Test {
    fn text(&self) -> String {
        match self {
            Test::Any => "(objectClass=*)".to_owned(),
            Test::Title(title) => format!("(title={title})"),
            Test::NotTitle(title) => format!("(!(title={title}))"),
            Test::Group(group, title) => format!("(&(title={title})(memberOf={group}))"),
            Test::NotGroup(group) => format!("(!(memberOf={group}))"),
            Test::NestedGroup(group) => format!("(isMemberOf={group})"),
        }
    }
}

/// A value of memberURL.
#[derive(Clone, Debug)]
struct Url {
    base: String,
    scope: Scope,
    test: Test,
    is_valid: bool,
}

impl Url {
    fn text(&self) -> String {
        let scope = match self.scope {
            Scope::BaseObject => "",
            Scope::SingleLevel => "one",
            _ => "sub",
        };
        let host = if self.is_valid { "" } else { "elsewhere" };
        format!("ldap://{host}/{}??{scope}?{}", self.base, self.test.text())
    }
}

#[derive(Clone, Debug)]
struct Entry {
    dn: String,
    title: Option<&'static str>,
    /// Numbers of the entries that are stored members.
    members: BTreeSet<usize>,
    urls: Vec<Url>,
}

/// A plain directory: entries by number.
#[derive(Debug)]
struct Plain {
    entries: BTreeMap<usize, Entry>,
    /// Whether memberOf contains nested groups.
    is_nested: bool,
    next: usize,
}

impl Plain {
    fn find(&self, dn: &str) -> Option<usize> {
        self.entries.iter().find(|(_, entry)| entry.dn == dn).map(|(number, _)| *number)
    }

    /// Returns the groups with an entry of `of` as a stored member. If `is_nested` is true, also returns the groups of
    /// these groups.
    fn stored_groups(&self, of: &BTreeSet<usize>, is_nested: bool) -> BTreeSet<usize> {
        let (mut found, mut pending): (BTreeSet<usize>, _) = (BTreeSet::new(), of.clone());
        while let Some(member) = pending.pop_first() {
            for (group, _) in self.entries.iter().filter(|(_, entry)| entry.members.contains(&member)) {
                if found.insert(*group) && is_nested {
                    pending.insert(*group);
                }
            }
        }
        found
    }

    /// Returns true if an entry has the title and stored groups that a URL requires.
    fn passes(&self, number: usize, test: &Test) -> bool {
        let title = self.entries[&number].title;
        let is_in = |group: &str, is_nested: bool| {
            let groups = self.stored_groups(&BTreeSet::from([number]), is_nested);
            self.find(group).is_some_and(|group| groups.contains(&group))
        };
        match test {
            Test::Any => true,
            Test::Title(asked) => title == Some(asked),
            Test::NotTitle(asked) => title != Some(asked),
            Test::Group(group, asked) => title == Some(asked) && is_in(group, self.is_nested),
            Test::NotGroup(group) => !is_in(group, self.is_nested),
            Test::NestedGroup(group) => is_in(group, true),
        }
    }

    fn describes(&self, group: usize, number: usize) -> bool {
        let dn = &self.entries[&number].dn;
        self.entries[&group].urls.iter().any(|url| {
            let is_in_scope = match url.scope {
                Scope::BaseObject => *dn == url.base,
                Scope::SingleLevel => parent(dn) == url.base,
                _ => is_at_or_below(dn, &url.base),
            };
            let exists = self.find(&url.base).is_some();
            url.is_valid && exists && is_in_scope && self.passes(number, &url.test)
        })
    }

    /// Returns the groups of an entry, including groups that describe the entry. Groups that only describe another
    /// group of the entry are not included.
    fn groups(&self, number: usize, is_nested: bool) -> BTreeSet<usize> {
        let described: BTreeSet<usize> =
            self.entries.keys().copied().filter(|group| self.describes(*group, number)).collect();
        let mut starts = BTreeSet::from([number]);
        if is_nested {
            starts.extend(&described);
        }
        described.union(&self.stored_groups(&starts, is_nested)).copied().collect()
    }

    fn dns(&self, numbers: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
        numbers.into_iter().map(|number| self.entries[&number].dn.clone()).collect()
    }
}

struct Run {
    directory: TestDirectory,
    plain: Plain,
    rng: Rng,
    /// Numbers of described memberships that were compared, without and with nested groups.
    described: [usize; 2],
}

impl Run {
    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        self.rng.choice(all).unwrap().clone()
    }

    fn title(&mut self) -> &'static str {
        self.pick(&["a", "b", "c"])
    }

    /// Returns the number of an entry that is neither the suffix entry nor a unit.
    fn leaf(&mut self) -> Option<usize> {
        let all: Vec<usize> = self.plain.entries.keys().copied().skip(1 + UNITS.len()).collect();
        self.rng.choice(all)
    }

    fn any(&mut self) -> usize {
        *self.rng.choice(self.plain.entries.keys()).unwrap()
    }

    fn group(&mut self) -> Option<usize> {
        let groups = self.plain.entries.iter().filter(|(_, entry)| entry.dn.starts_with("cn=g"));
        let groups: Vec<usize> = groups.map(|(number, _)| *number).collect();
        (!groups.is_empty()).then(|| self.pick(&groups))
    }

    fn group_dn(&mut self) -> String {
        match self.group().filter(|_| self.rng.u32(..5) > 0) {
            Some(group) => self.plain.entries[&group].dn.clone(),
            None => format!("cn=none,{SUFFIX}"),
        }
    }

    fn urls(&mut self) -> Vec<Url> {
        let mut urls: Vec<Url> = (0..self.rng.usize(..3)).map(|_| self.url()).collect();
        let mut seen = BTreeSet::new();
        urls.retain(|url| seen.insert(url.text()));
        urls
    }

    fn url(&mut self) -> Url {
        let test = match self.rng.u32(..9) {
            0 => Test::Any,
            1..4 => Test::Title(self.title()),
            4 => Test::NotTitle(self.title()),
            5 => Test::Group(self.group_dn(), self.title()),
            6 => Test::NotGroup(self.group_dn()),
            _ => Test::NestedGroup(self.group_dn()),
        };
        let base = match self.rng.u32(..4) {
            0 => SUFFIX.to_owned(),
            1 => format!("ou=none,{SUFFIX}"),
            _ => {
                let entry = self.any();
                self.plain.entries[&entry].dn.clone()
            }
        };
        let scope =
            self.pick(&[Scope::BaseObject, Scope::SingleLevel, Scope::WholeSubtree, Scope::WholeSubtree]);
        Url { base, scope, test, is_valid: self.rng.u32(..10) > 0 }
    }

    fn members(&mut self) -> BTreeSet<usize> {
        (0..self.rng.usize(..3)).map(|_| self.any()).collect()
    }

    fn new_dn(&mut self, kind: &str) -> Option<String> {
        let superior = self.plain.entries[&self.rng.usize(..=UNITS.len())].dn.clone();
        let dn = format!("cn={kind}{},{superior}", self.rng.u32(..6));
        self.plain.find(&dn).is_none().then_some(dn)
    }

    fn add(&mut self) {
        let is_group = self.rng.bool();
        let Some(dn) = self.new_dn(if is_group { "g" } else { "p" }) else { return };
        let title = (self.rng.u32(..4) > 0).then(|| self.title());
        let (mut members, mut urls) = (BTreeSet::new(), Vec::new());
        let classes = [if is_group { "groupOfURLs" } else { "device" }, "extensibleObject"];
        if is_group {
            (members, urls) = (self.members(), self.urls());
        }
        let texts: Vec<String> = urls.iter().map(Url::text).collect();
        let names: Vec<String> = self.plain.dns(members.iter().copied()).into_iter().collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let titles: Vec<&str> = title.into_iter().collect();
        let mut attributes: Vec<(&str, &[&str])> = vec![("objectClass", &classes)];
        let given = [("memberURL", &texts), ("member", &names), ("title", &titles)];
        attributes
            .extend(given.iter().filter(|(_, all)| !all.is_empty()).map(|(name, all)| (*name, &all[..])));
        assert_eq!(self.directory.add(&dn, &attributes), Outcome::success(), "{dn} {attributes:?}");
        self.plain.next += 1;
        self.plain.entries.insert(self.plain.next, Entry { dn, title, members, urls });
    }

    fn modify(&mut self) {
        let Some(number) = self.leaf() else { return };
        let (title, members, urls) = (self.title(), self.members(), self.urls());
        let names: Vec<String> = self.plain.dns(members.iter().copied()).into_iter().collect();
        let texts: Vec<String> = urls.iter().map(Url::text).collect();
        let entry = self.plain.entries.get_mut(&number).unwrap();
        let (name, values) = match self.rng.u32(..3) {
            1 if entry.dn.starts_with("cn=g") => {
                entry.members = members;
                ("member", names)
            }
            2 if entry.dn.starts_with("cn=g") => {
                entry.urls = urls;
                ("memberURL", texts)
            }
            _ => {
                entry.title = Some(title);
                ("title", vec![title.to_owned()])
            }
        };
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let outcome = self.directory.modify(&entry.dn, &[(ChangeOperation::Replace, name, &values)]);
        assert_eq!(outcome, Outcome::success());
    }

    fn delete(&mut self) {
        let Some(number) = self.leaf() else { return };
        let gone = self.plain.entries.remove(&number).unwrap();
        assert_eq!(self.directory.delete(&gone.dn), Outcome::success());
        self.plain.entries.values_mut().for_each(|entry| {
            entry.members.remove(&number);
        });
    }

    /// Renames or moves an entry. Stored members follow the rename. Names in URLs do not.
    fn rename(&mut self) {
        let (top, unit) = match self.rng.u32(..4) {
            0 => (1 + self.rng.usize(..UNITS.len()), true),
            _ => match self.leaf() {
                Some(leaf) => (leaf, false),
                None => return,
            },
        };
        let dn = self.plain.entries[&top].dn.clone();
        let to = match unit {
            true => format!("ou={},{}", self.pick(&["one", "two", "three"]), parent(&dn)),
            false => match self.new_dn(&dn[3..4]) {
                Some(to) => to,
                None => return,
            },
        };
        if self.plain.find(&to).is_some() {
            return;
        }
        let (rdn, superior) = to.split_once(',').unwrap();
        assert_eq!(self.directory.modify_dn(&dn, rdn, true, Some(superior)), Outcome::success());
        for entry in self.plain.entries.values_mut().filter(|entry| is_at_or_below(&entry.dn, &dn)) {
            entry.dn = [entry.dn.strip_suffix(&dn).unwrap(), &to].concat();
        }
    }

    fn compare(&mut self) {
        let names = ["memberOf", "isMemberOf"];
        let nesting = [self.plain.is_nested, true];
        let found = self.directory.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &names);
        assert_eq!(found.entries.len(), self.plain.entries.len());
        for entry in &found.entries {
            let number = self.plain.find(&entry.dn).unwrap();
            for (name, is_nested) in names.into_iter().zip(nesting) {
                let expected = self.plain.dns(self.plain.groups(number, is_nested));
                let found: BTreeSet<String> = entry.texts(name).into_iter().collect();
                assert_eq!(found, expected, "{name} of {} in {:#?}", entry.dn, self.plain);
            }
        }
        let Some(group) = self.group() else { return };
        let group_dn = self.plain.entries[&group].dn.clone();
        let chain = format!("memberOf:{IN_CHAIN}:");
        for (name, is_nested) in [(names[0], nesting[0]), (names[1], true), (&chain, true)] {
            let members = |number: &usize| self.plain.groups(*number, is_nested).contains(&group);
            let members: Vec<usize> = self.plain.entries.keys().copied().filter(members).collect();
            let described = members.iter().filter(|number| self.plain.describes(group, **number)).count();
            self.described[0] += described;
            self.described[1] += members.len() - described;
            let members = self.plain.dns(members);
            let others: BTreeSet<String> =
                self.plain.dns(self.plain.entries.keys().copied()).difference(&members).cloned().collect();
            let item = format!("({name}={group_dn})");
            self.directory.use_indexes = self.rng.bool();
            for (filter, expected) in [(item.clone(), &members), (format!("(!{item})"), &others)] {
                let found = self.directory.search(SUFFIX, Scope::WholeSubtree, &filter, &["1.1"]);
                let found: BTreeSet<String> = found.dns().into_iter().map(str::to_owned).collect();
                assert_eq!(&found, expected, "{filter} in {:#?}", self.plain);
            }
        }
        for _ in 0..4 {
            let number = self.any();
            self.compare_values(group, number);
        }
    }

    /// Compares memberOf and isMemberOf of an entry with a group, and members of the group with the entry.
    fn compare_values(&self, group: usize, number: usize) {
        let has = |has_any: bool, is_there: bool| match (has_any, is_there) {
            (_, true) => ResultCode::COMPARE_TRUE,
            (true, false) => ResultCode::COMPARE_FALSE,
            (false, false) => ResultCode::NO_SUCH_ATTRIBUTE,
        };
        let (plain, of_group) = (&self.plain, &self.plain.entries[&group]);
        let direct = plain.groups(number, plain.is_nested);
        let nested = plain.groups(number, true);
        let is_member = of_group.members.contains(&number) || plain.describes(group, number);
        let has_members = !of_group.members.is_empty() || of_group.urls.iter().any(|url| url.is_valid);
        let dn = &plain.entries[&number].dn;
        for (entry, description, value, expected) in [
            (dn, "memberOf", &of_group.dn, has(!direct.is_empty(), direct.contains(&group))),
            (dn, "isMemberOf", &of_group.dn, has(!nested.is_empty(), nested.contains(&group))),
            (&of_group.dn, "member", dn, has(has_members, is_member)),
        ] {
            let request = CompareRequest { entry, description, value: value.as_bytes() };
            let (context, controls) = (self.directory.requester.context(), RequestControls::default());
            let CompareOutcome::Done(outcome) =
                compare(&self.directory.snapshot, &context, &request, &controls)
            else {
                panic!("{request:?} waits")
            };
            assert_eq!(outcome.code, expected, "{request:?} in {plain:#?}");
        }
    }
}

fn run(seed: u64) {
    let mut directory = TestDirectory::with_suffix_entry();
    let is_nested = seed % 2 == 1;
    directory
        .change_settings(|settings: &mut DirectorySettings| settings.general.nested_member_of = is_nested);
    let mut plain = Plain { entries: BTreeMap::new(), is_nested, next: UNITS.len() };
    for (number, dn) in [SUFFIX, UNITS[0], UNITS[1]].into_iter().enumerate() {
        if number > 0 {
            let outcome = directory.add(dn, &[("objectClass", &["organizationalUnit"])]);
            assert_eq!(outcome, Outcome::success());
        }
        let entry = Entry { dn: dn.to_owned(), title: None, members: BTreeSet::new(), urls: Vec::new() };
        plain.entries.insert(number, entry);
    }
    let mut run = Run { directory, plain, rng: Rng::with_seed(seed), described: [0; 2] };
    for _ in 0..OPERATIONS {
        match run.rng.u32(..40) {
            0..12 => run.add(),
            12..21 => run.modify(),
            21..25 => run.rename(),
            25..30 => run.delete(),
            30 if run.rng.u32(..2) == 0 => run.directory = run.directory.reopen(),
            _ => run.compare(),
        }
    }
    run.compare();
    assert!(run.described.iter().all(|count| *count > 20), "described, nested: {:?}", run.described);
    assert_eq!(directory::check::check(&run.directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn described_members_agree_with_a_model() {
    for_seeds(SEEDS, run);
}
