//! Random trees with collective attribute subentries, against a plain model of RFC 3671 and RFC 3672.

use std::collections::BTreeSet;

use fastrand::Rng;
use ldap::ChangeOperation::Replace;
use ldap::{CompareRequest, ResultCode, Scope};

use super::{Question, add};
use crate::read::compare::{CompareOutcome, compare};
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory, ok};
use crate::tree::collective::read_collective;

const TYPES: [&str; 3] = ["c-l", "c-o", "c-ou"];
const VALUES: [&str; 4] = ["Oslo", "oslo", "Rome", "Paris"];
const ROLES: [&str; 3] = ["collectiveAttributeInnerArea", "collectiveAttributeSpecificArea", "2.5.23.1"];

/// RDNs from the child of the suffix entry down to an entry; empty for the suffix entry.
type Path = Vec<String>;

struct Entry {
    path: Path,
    class: &'static str,
    own: Option<&'static str>,
    exclusions: Vec<&'static str>,
    role: Option<&'static str>,
}

struct Subentry {
    point: Path,
    name: String,
    base: Path,
    minimum: usize,
    maximum: usize,
    chops: Vec<(Path, bool)>,
    filter: Option<(&'static str, bool)>,
    values: Vec<(&'static str, &'static str)>,
}

fn dn(path: &[String]) -> String {
    path.iter().rev().map(|name| format!("{name},")).collect::<String>() + SUFFIX
}

fn local(path: &[String]) -> String {
    path.iter().rev().cloned().collect::<Vec<_>>().join(",")
}

impl Subentry {
    fn specification(&self) -> String {
        let chop = |(path, is_before): &(Path, bool)| {
            let kind = if *is_before { "chopBefore" } else { "chopAfter" };
            format!("{kind}:\"{}\"", local(path))
        };
        let chops: Vec<String> = self.chops.iter().map(chop).collect();
        let mut parts = vec![format!("base \"{}\"", local(&self.base))];
        if !chops.is_empty() {
            parts.push(format!("specificExclusions {{ {} }}", chops.join(", ")));
        }
        parts.push(format!("minimum {}, maximum {}", self.minimum, self.maximum));
        if let Some((class, is_negated)) = self.filter {
            parts.push(format!("specificationFilter {}item:{class}", if is_negated { "not:" } else { "" }));
        }
        format!("{{ {} }}", parts.join(", "))
    }

    fn covers(&self, entry: &Entry, all: &[Entry]) -> bool {
        let root = [&self.point[..], &self.base].concat();
        let Some(below) = entry.path.strip_prefix(&root[..]) else { return false };
        // Every entry below the administrative point, down to `entry` itself, may end the area.
        let is_end = |other: &Entry| {
            let is_between = entry.path.starts_with(&other.path) && other.path.len() > self.point.len();
            is_between && other.role.is_some_and(|role| role != ROLES[0])
        };
        let is_chopped = |(path, is_before): &(Path, bool)| {
            below.starts_with(path) && (*is_before || below.len() > path.len())
        };
        (self.minimum..=self.maximum).contains(&below.len())
            && !all.iter().any(is_end)
            && !self.chops.iter().any(is_chopped)
            && self.filter.is_none_or(|(class, is_negated)| (entry.class == class) != is_negated)
    }
}

struct Model {
    rng: Rng,
    entries: Vec<Entry>,
    subentries: Vec<Subentry>,
    count: usize,
}

impl Model {
    /// Returns the values of a type at an entry, without regard to case.
    fn values(&self, entry: &Entry, name: &str) -> BTreeSet<String> {
        let is_excluded = |of: &&str| *of == name || *of == "excludeAllCollectiveAttributes";
        if entry.exclusions.iter().any(is_excluded) {
            return BTreeSet::new();
        }
        let covering = self.subentries.iter().filter(|subentry| subentry.covers(entry, &self.entries));
        let values = covering.flat_map(|subentry| &subentry.values).filter(|(of, _)| *of == name);
        values.map(|(_, value)| value.to_lowercase()).collect()
    }

    fn any_path(&mut self) -> Path {
        let place = self.rng.usize(..self.entries.len());
        self.entries[place].path.clone()
    }

    /// Returns a random name relative to `root`. The name need not denote an entry.
    fn any_local(&mut self, root: &[String]) -> Path {
        let path = self.any_path();
        path.strip_prefix(root).map_or_else(|| vec!["ou=none".to_owned()], <[String]>::to_vec)
    }

    fn some_values(&mut self) -> Vec<(&'static str, &'static str)> {
        let count = self.rng.usize(1..5);
        let mut values: Vec<(&str, &str)> = Vec::new();
        for _ in 0..count {
            let (name, value) = (*self.rng.choice(&TYPES).unwrap(), *self.rng.choice(&VALUES).unwrap());
            if !values.iter().any(|(of, other)| *of == name && other.eq_ignore_ascii_case(value)) {
                values.push((name, value));
            }
        }
        values
    }

    fn change(&mut self, directory: &mut TestDirectory) {
        self.count += 1;
        match self.rng.u32(..12) {
            0..=2 => self.add_entry(directory),
            3 | 4 => self.add_subentry(directory),
            5 if !self.subentries.is_empty() => {
                let place = self.rng.usize(..self.subentries.len());
                let subentry = self.subentries.swap_remove(place);
                ok(directory.delete(&format!("cn={},{}", subentry.name, dn(&subentry.point))));
            }
            6 if !self.subentries.is_empty() => {
                let (place, values) = (self.rng.usize(..self.subentries.len()), self.some_values());
                let subentry = &mut self.subentries[place];
                subentry.values = values;
                let of = |name| {
                    let own = subentry.values.iter().filter(move |(of, _)| *of == name);
                    own.map(|(_, value)| *value).collect::<Vec<_>>()
                };
                let values = TYPES.map(of);
                let changes: Vec<_> =
                    TYPES.iter().zip(&values).map(|(name, values)| (Replace, *name, &values[..])).collect();
                ok(directory.modify(&format!("cn={},{}", subentry.name, dn(&subentry.point)), &changes));
            }
            7 | 8 => {
                let place = self.rng.usize(..self.entries.len());
                let choices: [&[&str]; 4] =
                    [&[], &["c-l"], &["c-o", "c-ou"], &["excludeAllCollectiveAttributes", "c-l"]];
                let chosen = self.rng.choice(choices).unwrap();
                self.entries[place].exclusions = chosen.to_vec();
                let changes = [(Replace, "collectiveExclusions", chosen)];
                ok(directory.modify(&dn(&self.entries[place].path), &changes));
            }
            9 => {
                let place = self.rng.usize(..self.entries.len());
                let role = if self.rng.bool() { self.rng.choice(ROLES) } else { None };
                self.entries[place].role = role;
                let values: Vec<&str> = role.into_iter().collect();
                ok(directory
                    .modify(&dn(&self.entries[place].path), &[(Replace, "administrativeRole", &values)]));
            }
            _ => self.rename(directory),
        }
    }

    fn add_entry(&mut self, directory: &mut TestDirectory) {
        let mut path = self.any_path();
        if path.len() > 3 {
            return;
        }
        let is_unit = self.rng.bool();
        path.push(if is_unit { format!("ou=u{}", self.count) } else { format!("cn=p{}", self.count) });
        let own = if self.rng.bool() { self.rng.choice(VALUES) } else { None };
        let values: Vec<&str> = own.into_iter().collect();
        let class = if is_unit { "organizationalUnit" } else { "person" };
        let classes = [class, "extensibleObject"];
        let mut attributes = vec![("objectClass", &classes[..]), ("sn", &["s"])];
        if own.is_some() {
            attributes.push(("l", &values));
        }
        add(directory, &dn(&path), &attributes);
        self.entries.push(Entry { path, class, own, exclusions: Vec::new(), role: None });
    }

    fn add_subentry(&mut self, directory: &mut TestDirectory) {
        if self.subentries.len() > 6 {
            return;
        }
        let point = self.any_path();
        let base = if self.rng.bool() { Vec::new() } else { self.any_local(&point) };
        let root = [&point[..], &base].concat();
        let chops = (0..self.rng.usize(..3)).map(|_| (self.any_local(&root), self.rng.bool())).collect();
        let filter = self.rng.choice(["person", "organizationalUnit"]).filter(|_| self.rng.u8(..3) == 0);
        let filter = filter.map(|class| (class, self.rng.bool()));
        let (minimum, maximum) = (self.rng.usize(..2), self.rng.usize(1..6));
        let (name, values) = (format!("s{}", self.count), self.some_values());
        let subentry = Subentry { point, name, base, minimum, maximum, chops, filter, values };
        let specification = subentry.specification();
        let of = |name| {
            let own = subentry.values.iter().filter(move |(of, _)| *of == name);
            own.map(|(_, value)| *value).collect::<Vec<_>>()
        };
        let (values, fixed) = (TYPES.map(of), [specification.as_str()]);
        let mut attributes = vec![
            ("objectClass", &["subentry", "collectiveAttributeSubentry"][..]),
            ("subtreeSpecification", &fixed),
        ];
        let some = TYPES.iter().zip(&values).filter(|(_, values)| !values.is_empty());
        attributes.extend(some.map(|(name, values)| (*name, &values[..])));
        add(directory, &format!("cn={},{}", subentry.name, dn(&subentry.point)), &attributes);
        self.subentries.push(subentry);
    }

    /// Renames or moves an entry with all entries below it.
    fn rename(&mut self, directory: &mut TestDirectory) {
        let (from, superior) = (self.any_path(), self.any_path());
        if from.is_empty() || superior.starts_with(&from) || superior.len() > 3 {
            return;
        }
        let kind = if from.last().unwrap().starts_with("ou=") { "ou=u" } else { "cn=p" };
        let to = [&superior[..], &[format!("{kind}{}", self.count)]].concat();
        ok(directory.modify_dn(&dn(&from), to.last().unwrap(), true, Some(&dn(&superior))));
        let moved = |path: &mut Path| {
            if let Some(rest) = path.strip_prefix(&from[..]) {
                *path = [&to[..], rest].concat();
            }
        };
        self.entries.iter_mut().for_each(|entry| moved(&mut entry.path));
        self.subentries.iter_mut().for_each(|subentry| moved(&mut subentry.point));
    }

    /// Compares all entries with the model. Returns the number of collective values found.
    fn check_entries(&self, directory: &TestDirectory) -> usize {
        let mut count = 0;
        for entry in &self.entries {
            let dn = dn(&entry.path);
            let question = Question::new(&dn, Scope::BaseObject, "(objectClass=*)").attributes(&TYPES);
            let found = question.run(directory);
            for name in TYPES {
                let (values, expected) = (found.entries[0].texts(name), self.values(entry, name));
                count += values.len();
                let as_set: BTreeSet<String> = values.iter().map(|value| value.to_lowercase()).collect();
                assert_eq!((as_set.len(), &as_set), (values.len(), &expected), "{name} of {dn}");
                let request = CompareRequest { entry: &dn, description: name, value: b"OSLO" };
                let context = directory.requester.context();
                let outcome = compare(&directory.snapshot, &context, &request, &RequestControls::default());
                let code = match (expected.is_empty(), expected.contains("oslo")) {
                    (true, _) => ResultCode::NO_SUCH_ATTRIBUTE,
                    (_, true) => ResultCode::COMPARE_TRUE,
                    (_, false) => ResultCode::COMPARE_FALSE,
                };
                let CompareOutcome::Done(outcome) = outcome else { panic!("{outcome:?}") };
                assert_eq!(outcome.code, code, "{name} of {dn}");
            }
        }
        count
    }

    fn check_filters(&self, directory: &TestDirectory) {
        let places = |entry: &Entry| {
            let own = entry.own.map(str::to_lowercase);
            self.values(entry, "c-l").into_iter().chain(own).collect::<BTreeSet<String>>()
        };
        type Matches<'m> = Box<dyn Fn(&Entry) -> bool + 'm>;
        let cases: [(&str, Matches<'_>); 7] = [
            ("(c-l=Oslo)", Box::new(|entry| self.values(entry, "c-l").contains("oslo"))),
            ("(l=oslo)", Box::new(|entry| places(entry).contains("oslo"))),
            ("(l=*)", Box::new(|entry| !places(entry).is_empty())),
            (
                "(&(l=rome)(sn=s)(c-o=*a*))",
                Box::new(|entry| {
                    let other = self.values(entry, "c-o");
                    places(entry).contains("rome") && other.iter().any(|value| value.contains('a'))
                }),
            ),
            ("(!(c-o=paris))", Box::new(|entry| !self.values(entry, "c-o").contains("paris"))),
            (
                "(|(c-ou=rome)(cn=p1*))",
                Box::new(|entry| {
                    let is_named = entry.path.last().is_some_and(|name| name.starts_with("cn=p1"));
                    is_named || self.values(entry, "c-ou").contains("rome")
                }),
            ),
            (
                "(!(|(l=oslo)(c-ou=*)))",
                Box::new(|entry| !places(entry).contains("oslo") && self.values(entry, "c-ou").is_empty()),
            ),
        ];
        for (filter, matches) in cases {
            let both = format!("(&(objectClass=extensibleObject){filter})");
            let found = Question::everywhere(&both).run(directory);
            let found: BTreeSet<String> = found.dns().into_iter().map(str::to_owned).collect();
            let expected = self.entries.iter().filter(|entry| !entry.path.is_empty() && matches(entry));
            let expected: BTreeSet<String> = expected.map(|entry| dn(&entry.path)).collect();
            assert_eq!(found, expected, "{filter}");
        }
    }
}

#[test]
fn collective_values_agree_with_a_model_after_random_changes() {
    let mut count = 0;
    for seed in 0..12 {
        let mut directory = TestDirectory::with_suffix_entry();
        directory.define_index("l", "equality, presence");
        directory.define_index("o", "substring");
        directory.finish_indexes();
        let root = Entry { path: Vec::new(), class: "domain", own: None, exclusions: Vec::new(), role: None };
        let mut model =
            Model { rng: Rng::with_seed(seed), entries: vec![root], subentries: Vec::new(), count: 0 };
        for round in 0..90 {
            model.change(&mut directory);
            let state = directory.snapshot.state();
            let read = read_collective(state.read, state.catalog).unwrap();
            assert_eq!(state.catalog.collective, read, "as after a restart");
            if round % 6 == 5 {
                count += model.check_entries(&directory);
                model.check_filters(&directory);
            }
        }
        directory = directory.reopen();
        count += model.check_entries(&directory);
    }
    assert!(count > 1_000, "{count} values");
}
