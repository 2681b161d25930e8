//! Random changes under DIT content rules, name forms and structure rules, compared with a simple list of entries. Each
//! rule refuses exactly the entries that it does not permit, and governingStructureRule is the rule with the lowest
//! number that fits.

use std::collections::{BTreeMap, BTreeSet};

use directory::{Outcome, violations};
use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode, Scope};

use crate::places::{is_at_or_below, moved, parent, take_tree};
use crate::testing::{SUFFIX, TestDirectory, for_seeds};

const SEEDS: u64 = 3;
const OPERATIONS: usize = 250;
const DEPTH_MAX: usize = 6;

const CLASSES: &str = "objectclass ( 1.3.6.1.4.1.32473.2.1 NAME 'eduThing' SUP eduBase AUXILIARY )
objectclass ( 1.3.6.1.4.1.32473.2.2 NAME 'eduBase' AUXILIARY )
ditcontentrule ( 2.5.6.14 OBSOLETE NOT description )
";
const CONTENT: &str =
    "ditcontentrule ( 2.16.840.1.113730.3.2.2 AUX eduThing MUST mail MAY buildingName NOT pager )
";
const FORMS: &str = "nameform ( 1.3.6.1.4.1.32473.5.1 NAME 'domainForm' OC domain MUST dc )
nameform ( 1.3.6.1.4.1.32473.5.2 NAME 'unitForm' OC organizationalUnit MUST ou )
nameform ( 1.3.6.1.4.1.32473.5.3 NAME 'personForm' OC inetOrgPerson MUST uid MAY cn )
nameform ( 1.3.6.1.4.1.32473.5.4 NAME 'placeForm' OC organizationalUnit MUST l )
nameform ( 1.3.6.1.4.1.32473.5.5 NAME 'oldForm' OBSOLETE OC device MUST serialNumber )
";
const STRUCTURE: &str = "ditstructurerule ( 7 FORM personForm SUP ( 2 5 ) )
ditstructurerule ( 6 FORM personForm SUP 5 )
ditstructurerule ( 1 FORM domainForm )
ditstructurerule ( 2 FORM unitForm SUP ( 1 2 ) )
ditstructurerule ( 3 FORM personForm SUP 2 )
ditstructurerule ( 4 OBSOLETE FORM personForm SUP 1 )
ditstructurerule ( 5 FORM placeForm SUP 1 )
";

/// Attributes of persons. Only some are allowed.
const OPTIONAL: [&str; 3] = ["mail", "pager", "buildingName"];

/// Auxiliary classes of persons. Only the first is always allowed.
const AUXILIARY: [&[&str]; 3] = [&["eduThing", "eduBase"], &["labeledURIObject"], &["extensibleObject"]];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unit,
    Person,
    Device,
}

#[derive(Clone, Debug)]
struct Entry {
    kind: Kind,
    present: BTreeSet<&'static str>,
    /// Indexes in [`AUXILIARY`].
    auxiliary: BTreeSet<usize>,
}

type Entries = BTreeMap<String, Entry>;

impl Entry {
    fn classes(&self) -> Vec<&'static str> {
        let structural = match self.kind {
            Kind::Unit => "organizationalUnit",
            Kind::Person => "inetOrgPerson",
            Kind::Device => "device",
        };
        let auxiliary = self.auxiliary.iter().flat_map(|place| AUXILIARY[*place]);
        std::iter::once(structural).chain(auxiliary.copied()).collect()
    }
}

/// Rules in force.
#[derive(Clone, Copy, Debug)]
struct Rules {
    content: bool,
    forms: bool,
    structure: bool,
}

impl Rules {
    /// Returns true if the content of an entry is permitted.
    fn permit_content(self, entry: &Entry) -> bool {
        let has = |name| entry.present.contains(name);
        match self.content && entry.kind == Kind::Person {
            true => has("mail") && !has("pager") && entry.auxiliary.iter().all(|place| *place == 0),
            false => !has("buildingName") || entry.auxiliary.contains(&2),
        }
    }

    /// Returns the rule that governs an entry whose superior is governed by `above`; `None` without structure rules.
    /// Fails if the name or the superior is not permitted.
    fn place(self, kind: Kind, rdn: &str, above: Option<u32>) -> Result<Option<u32>, ()> {
        let types: Vec<&str> = rdn.split('+').map(|part| part.split('=').next().unwrap()).collect();
        let forms: &[&str] = match (kind, types.as_slice()) {
            _ if !self.forms => return Ok(None),
            (Kind::Unit, ["ou"]) => &["unit"],
            (Kind::Unit, ["l"]) => &["place"],
            (Kind::Person, ["uid"] | ["uid", "cn"]) => &["person"],
            (Kind::Device, _) => &[],
            _ => return Err(()),
        };
        if !self.structure {
            return Ok(None);
        }
        let all: [(u32, &str, &[u32]); 5] = [
            (2, "unit", &[1, 2]),
            (3, "person", &[2]),
            (5, "place", &[1]),
            (6, "person", &[5]),
            (7, "person", &[2, 5]),
        ];
        let fits = |(_, form, superiors): &&(u32, &str, &[u32])| {
            forms.contains(form) && above.is_some_and(|above| superiors.contains(&above))
        };
        all.iter().find(fits).map(|(number, ..)| Some(*number)).ok_or(())
    }

    fn of_suffix(self) -> Option<u32> {
        self.structure.then_some(1)
    }

    /// Returns the governing rules of all entries; `None` if an entry is not permitted below its superior.
    fn govern(self, entries: &Entries) -> Option<BTreeMap<String, Option<u32>>> {
        let mut governing = BTreeMap::from([(SUFFIX.to_owned(), self.of_suffix())]);
        let mut dns: Vec<&String> = entries.keys().collect();
        dns.sort_by_key(|dn| dn.matches(',').count());
        for dn in dns {
            let rdn = dn.split_once(',')?.0;
            let rule = self.place(entries[dn].kind, rdn, governing[parent(dn)]).ok()?;
            governing.insert(dn.clone(), rule);
        }
        Some(governing)
    }
}

struct Run {
    directory: TestDirectory,
    rules: Rules,
    entries: Entries,
    /// Entries of each delete that have not been restored.
    deleted: Vec<Entries>,
    rng: Rng,
    /// Numbers of successes and refusals, by operation.
    counts: BTreeMap<(&'static str, u32), usize>,
}

impl Run {
    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        self.rng.choice(all).unwrap().clone()
    }

    fn entry(&mut self) -> Option<String> {
        self.rng.choice(self.entries.keys()).cloned()
    }

    /// Returns an entry that is not a person in most cases.
    fn superior(&mut self) -> String {
        let is_likely = |dn: &&String| self.entries[*dn].kind != Kind::Person;
        let mut all: Vec<String> = self.entries.keys().filter(is_likely).cloned().collect();
        all.extend(std::iter::repeat_n(SUFFIX.to_owned(), 4));
        match self.rng.u32(..6) {
            0 => self.entry().unwrap_or_else(|| SUFFIX.to_owned()),
            _ => self.pick(&all),
        }
    }

    fn rdn(&mut self, kind: Kind) -> String {
        let forms = match kind {
            Kind::Unit => ["ou=@", "ou=@", "l=@", "ou=@+l=@"],
            Kind::Person => ["uid=@", "uid=@+cn=@", "cn=@", "uid=@+ou=@"],
            Kind::Device => ["cn=@", "cn=@", "ou=@", "cn=@+l=@"],
        };
        self.pick(&forms).replace('@', ["a", "b", "c", "d"][self.rng.usize(..4)])
    }

    /// Compares the outcome of a change that results in the entries `after`. If `changed` contains a DN, the content of
    /// this entry is checked, too.
    fn check(
        &mut self,
        operation: &'static str,
        outcome: &Outcome,
        (after, changed): (Entries, Option<&str>),
    ) {
        let mut expected = Vec::new();
        if changed.is_some_and(|dn| !self.rules.permit_content(&after[dn])) {
            expected.push(ResultCode::OBJECT_CLASS_VIOLATION);
        }
        if self.rules.govern(&after).is_none() {
            expected.push(ResultCode::NAMING_VIOLATION);
        }
        if expected.is_empty() {
            expected.push(ResultCode::SUCCESS);
            self.entries = after;
        }
        assert!(
            expected.contains(&outcome.code),
            "{operation} {changed:?}: {expected:?} expected, {outcome:?} found under {:?}\n{:#?}",
            self.rules,
            self.entries
        );
        *self.counts.entry((operation, outcome.code.0)).or_default() += 1;
    }

    fn is_usable(&self, dn: &str) -> bool {
        !self.entries.contains_key(dn) && dn.matches(',').count() <= DEPTH_MAX
    }

    fn add(&mut self) {
        let (superior, kind) =
            (self.superior(), self.pick(&[Kind::Unit, Kind::Unit, Kind::Person, Kind::Device]));
        let dn = format!("{},{superior}", self.rdn(kind));
        if !self.is_usable(&dn) {
            return;
        }
        let mut entry = Entry { kind, present: BTreeSet::new(), auxiliary: BTreeSet::new() };
        if kind == Kind::Person {
            entry.present =
                OPTIONAL.into_iter().filter(|name| self.rng.u32(..4) == 0 || *name == "mail").collect();
            entry.auxiliary = (0..3).filter(|_| self.rng.u32(..5) == 0).collect();
        }
        let classes = entry.classes();
        let mut attributes = vec![("objectClass", classes.as_slice())];
        match kind {
            Kind::Unit => attributes.push(("ou", &["x"])),
            Kind::Person => attributes.extend([("cn", &["x"][..]), ("sn", &["x"])]),
            Kind::Device => attributes.extend([("cn", &["x"][..]), ("description", &["x"])]),
        }
        attributes.extend(entry.present.iter().map(|name| (*name, &["1"][..])));
        let outcome = self.directory.add(&dn, &attributes);
        let mut after = self.entries.clone();
        after.insert(dn.clone(), entry.clone());
        self.check("add", &outcome, (after, Some(&dn)));
    }

    /// Adds or deletes an attribute or an auxiliary class of a person.
    fn modify(&mut self) {
        let people = self.entries.iter().filter(|(_, entry)| entry.kind == Kind::Person);
        let people: Vec<String> = people.map(|(dn, _)| dn.clone()).collect();
        if people.is_empty() {
            return;
        }
        let dn = self.pick(&people);
        let mut after = self.entries.clone();
        let entry = after.get_mut(&dn).unwrap();
        let outcome = if self.rng.bool() {
            let name = OPTIONAL[self.rng.usize(..3)];
            let operation = match entry.present.insert(name) {
                true => ChangeOperation::Add,
                false => ChangeOperation::Delete,
            };
            if operation == ChangeOperation::Delete {
                entry.present.remove(name);
            }
            self.directory.modify(&dn, &[(operation, name, &["1"])])
        } else {
            entry.auxiliary = (0..3).filter(|_| self.rng.u32(..3) == 0).collect();
            self.directory.modify(&dn, &[(ChangeOperation::Replace, "objectClass", &entry.classes())])
        };
        self.check("modify", &outcome, (after, Some(&dn)));
    }

    fn rename(&mut self) {
        let Some(dn) = self.entry() else { return };
        let (rdn, superior) = (self.rdn(self.entries[&dn].kind), self.superior());
        let to = format!("{rdn},{superior}");
        if !self.is_usable(&to) || is_at_or_below(&superior, &dn) {
            return;
        }
        let outcome = self.directory.modify_dn(&dn, &rdn, false, Some(&superior));
        let mut after = self.entries.clone();
        let tree = take_tree(&mut after, &dn);
        after.extend(moved(tree, &dn, &to));
        self.check("rename", &outcome, (after, Some(&to)));
    }

    fn delete(&mut self) {
        let Some(dn) = self.entry() else { return };
        assert_eq!(self.directory.delete_tree(&dn), Outcome::success());
        let gone = take_tree(&mut self.entries, &dn);
        self.deleted.push(gone);
    }

    fn undelete(&mut self) {
        let all: Vec<String> = self.deleted.iter().flat_map(BTreeMap::keys).cloned().collect();
        if all.is_empty() {
            return;
        }
        let (dn, superior) = (self.pick(&all), self.superior());
        let to = format!("{},{superior}", dn.split_once(',').unwrap().0);
        if !self.is_usable(&to) {
            return;
        }
        let newest = self.deleted.iter().rposition(|of| of.contains_key(&dn)).unwrap();
        let mut kept = self.deleted[newest].clone();
        let tree = take_tree(&mut kept, &dn);
        let mut after = self.entries.clone();
        after.extend(moved(tree, &dn, &to));
        let outcome = self.directory.undelete(&dn, Some(&superior));
        let outcome = outcome.map_or_else(|outcome| outcome, |_| Outcome::success());
        // The content of restored entries is not checked.
        self.check("undelete", &outcome, (after, None));
        if outcome.code == ResultCode::SUCCESS {
            self.deleted[newest] = kept;
        }
    }

    /// Puts the rules in force.
    fn define(&mut self) {
        let Rules { content, forms, structure } = self.rules;
        let parts = [(true, CLASSES), (content, CONTENT), (forms, FORMS), (structure, STRUCTURE)];
        let text: String =
            parts.into_iter().filter(|(is_in_force, _)| *is_in_force).map(|(_, text)| text).collect();
        self.directory.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), text)));
    }

    fn compare(&mut self) {
        let name = "governingStructureRule";
        let found = self.directory.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &[name]);
        let rules = found.entries.iter().map(|entry| (entry.dn.clone(), entry.texts(name)));
        let expected = self.rules.govern(&self.entries).unwrap().into_iter();
        let expected =
            expected.map(|(dn, rule)| (dn, rule.map(|rule| rule.to_string()).into_iter().collect()));
        assert_eq!(rules.collect::<BTreeMap<_, Vec<_>>>(), expected.collect());
    }
}

fn run(seed: u64) {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 1_000_000);
    let kind = seed % 3;
    let (has_forms, has_structure) = (kind > 0, kind > 1);
    let rules = Rules { content: false, forms: has_forms, structure: has_structure };
    let (entries, deleted, counts) = Default::default();
    let mut run = Run { directory, rules, entries, deleted, rng: Rng::with_seed(seed), counts };
    run.define();
    for _ in 0..OPERATIONS {
        match run.rng.u32(..40) {
            0..15 => run.add(),
            15..23 => run.modify(),
            23..31 => run.rename(),
            31 => run.delete(),
            32..35 => run.undelete(),
            35 if run.rng.bool() => {
                run.rules.content = !run.rules.content;
                run.define();
            }
            36 if run.rng.u32(..6) == 0 => run.directory = run.directory.reopen(),
            _ => run.compare(),
        }
    }
    run.compare();
    let naming = if has_forms { &["add", "rename"][..] } else { &[] };
    let naming = naming.iter().map(|operation| (*operation, ResultCode::NAMING_VIOLATION));
    let content = ["add", "modify"].map(|operation| (operation, ResultCode::OBJECT_CLASS_VIOLATION));
    let success = ["add", "modify", "rename", "undelete"].map(|operation| (operation, ResultCode::SUCCESS));
    for (operation, code) in naming.chain(content).chain(success) {
        assert!(run.counts.contains_key(&(operation, code.0)), "{operation} {code:?}: {:?}", run.counts);
    }
    let settings = run.directory.directory.directory_settings();
    let faults = violations::violations(run.directory.snapshot.state(), &settings).unwrap();
    let has_wrong = run.entries.values().any(|entry| !run.rules.permit_content(entry));
    assert_eq!(!faults.is_empty(), has_wrong, "{faults:?}");
    assert_eq!(directory::check::check(&run.directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn content_name_and_structure_rules_agree_with_a_model() {
    for_seeds(SEEDS, run);
}
