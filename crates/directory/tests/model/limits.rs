//! Random changes under rules of `value_limits`, compared with a simple list of entries. A change is refused in
//! exactly two cases: an entry that begins to match a rule violates the rule, or an entry that already matches a rule
//! gains a value that violates the rule.

use std::collections::{BTreeMap, BTreeSet};

use directory::Outcome;
use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode};

use crate::testing::{TestDirectory, for_seeds};

const SEEDS: u64 = 4;
const OPERATIONS: usize = 400;

const UNITS: [&str; 2] = ["ou=people,dc=example,dc=com", "ou=rooms,dc=example,dc=com"];

/// A limit in the settings.
struct Rule {
    text: &'static str,
    types: &'static [&'static str],
    count_max: usize,
    covers: fn(&Values) -> bool,
    allows: fn(&Entries, &str) -> bool,
}

/// Values by attribute description.
type Values = BTreeMap<&'static str, BTreeSet<String>>;

/// Entries by DN, except the suffix entry and the units.
type Entries = BTreeMap<String, Values>;

const RULES: [Rule; 5] = [
    Rule {
        text: "logins: uid like '[a-c]' matching '(description=*)'",
        types: &["uid"],
        count_max: usize::MAX,
        covers: |values| values.contains_key("description"),
        allows: |_, value| ["a", "b", "c"].contains(&value),
    },
    Rule {
        text: "phones: telephoneNumber at most 2 values like '[0-9]{2,3}'",
        types: &["telephoneNumber"],
        count_max: 2,
        covers: |_| true,
        allows: |_, value| {
            (2..=3).contains(&value.len()) && value.bytes().all(|octet| octet.is_ascii_digit())
        },
    },
    Rule {
        text: "texts: description, title at most 5 octets matching '(employeeType=staff)'",
        types: &["description", "title"],
        count_max: usize::MAX,
        covers: |values| has(values, "employeeType", "staff"),
        allows: |_, value| value.len() <= 5,
    },
    Rule {
        text: "rooms: roomNumber from 'ldap:///ou=rooms,dc=example,dc=com?cn?one?(!(title=shut))' \
               matching '(!(employeeType=guest))'",
        types: &["roomNumber"],
        count_max: usize::MAX,
        covers: |values| !has(values, "employeeType", "guest"),
        allows: |entries, value| {
            let room = |(dn, values): (&String, &Values)| {
                dn.ends_with(UNITS[1]) && !has(values, "title", "shut") && has(values, "cn", value)
            };
            entries.iter().any(room)
        },
    },
    Rule {
        text: "units: departmentNumber at most 1 value \
               from 'ldap:///dc=example,dc=com?uid?sub?(employeeType=staff)'",
        types: &["departmentNumber"],
        count_max: 1,
        covers: |_| true,
        allows: |entries, value| {
            entries.values().any(|of| has(of, "employeeType", "staff") && has(of, "uid", value))
        },
    },
];

/// Attributes that change, with their values.
const ATTRIBUTES: [(&str, &[&str]); 8] = [
    ("telephoneNumber", &["12", "123", "456", "78", "1", "1234"]),
    ("telephoneNumber;x-home", &["12", "789", "5"]),
    ("description", &["short", "längst", "xüüx", "longer"]),
    ("title", &["shut", "open", "üüü"]),
    ("roomNumber", &["a", "B", "c", "d"]),
    ("departmentNumber", &["a", "b", "c", "D"]),
    ("uid", &["a", "b", "c", "d", "e", "f"]),
    ("employeeType", &["staff", "guest"]),
];

fn has(values: &Values, name: &str, value: &str) -> bool {
    values.get(name).is_some_and(|all| all.iter().any(|own| own.eq_ignore_ascii_case(value)))
}

/// Returns the values of a type, with any options.
fn of_type<'v>(values: &'v Values, name: &str) -> Vec<(&'static str, &'v String)> {
    let of_type = values.iter().filter(|(description, _)| description.split(';').next() == Some(name));
    of_type.flat_map(|(description, all)| all.iter().map(|value| (*description, value))).collect()
}

/// Returns true if the rule permits an entry to change from `before` to `after`, or to be added as `after`, in a
/// directory with these entries.
fn is_allowed(rule: &Rule, entries: &Entries, before: Option<&Values>, after: &Values) -> bool {
    if !(rule.covers)(after) {
        return true;
    }
    let checks_all = before.is_none_or(|before| !(rule.covers)(before));
    rule.types.iter().all(|name| {
        let all = of_type(after, name);
        let is_new = |(description, value): &(&'static str, &String)| {
            before.is_none_or(|before| !has(before, description, value))
        };
        let checked: Vec<_> = all.iter().filter(|value| checks_all || is_new(value)).collect();
        checked.is_empty()
            || (all.len() <= rule.count_max && checked.iter().all(|(_, value)| (rule.allows)(entries, value)))
    })
}

struct Run {
    directory: TestDirectory,
    entries: Entries,
    /// Rules in force.
    rules: Vec<&'static Rule>,
    rng: Rng,
    /// Numbers of refusals by each rule.
    refused: [usize; RULES.len()],
}

impl Run {
    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        self.rng.choice(all).unwrap().clone()
    }

    fn entry(&mut self) -> Option<String> {
        self.rng.choice(self.entries.keys()).cloned()
    }

    fn values(&mut self, all: &[&str]) -> BTreeSet<String> {
        (0..self.rng.usize(1..3)).map(|_| self.pick(all).to_owned()).collect()
    }

    /// Makes a change after which an entry has the values `after`.
    fn execute(
        &mut self,
        (from, to): (Option<&str>, String),
        after: Values,
        change: impl FnOnce(&mut TestDirectory) -> Outcome,
    ) {
        let before = from.map(|dn| &self.entries[dn]);
        let violated =
            self.rules.iter().find(|rule| !is_allowed(rule, &self.entries, before, &after)).copied();
        let outcome = change(&mut self.directory);
        let expected = match violated {
            Some(_) => ResultCode::CONSTRAINT_VIOLATION,
            None => ResultCode::SUCCESS,
        };
        let what = || format!("{}\n{before:#?}\nto {to} {after:#?}\n{:#?}", outcome.diagnostic, self.entries);
        assert_eq!(outcome.code, expected, "{}", what());
        match violated {
            Some(rule) => {
                let name = format!("value limit {:?}", rule.text.split(':').next().unwrap());
                assert!(outcome.diagnostic.contains(&name), "{name} is not in {}", what());
                self.refused[RULES.iter().position(|other| other.text == rule.text).unwrap()] += 1;
            }
            None => {
                if let Some(dn) = from {
                    self.entries.remove(dn);
                }
                self.entries.insert(to, after);
            }
        }
    }

    fn add(&mut self) {
        let name = self.pick(&["a", "b", "c", "d", "e", "f"]);
        let dn = format!("cn={name},{}", self.pick(&UNITS));
        if self.entries.contains_key(&dn) {
            return;
        }
        let mut after = Values::from([("cn", BTreeSet::from([name.to_owned()]))]);
        for (description, all) in ATTRIBUTES {
            if self.rng.u32(..3) == 0 {
                after.insert(description, self.values(all));
            }
        }
        let given = after.clone();
        self.execute((None, dn.clone()), after, |directory| {
            let texts: Vec<(&str, Vec<&str>)> =
                given.iter().map(|(name, all)| (*name, all.iter().map(String::as_str).collect())).collect();
            let mut attributes = vec![("objectClass", &["inetOrgPerson"][..]), ("sn", &["x"])];
            attributes.extend(texts.iter().map(|(name, all)| (*name, all.as_slice())));
            directory.add(&dn, &attributes)
        });
    }

    fn modify(&mut self) {
        let Some(dn) = self.entry() else { return };
        let mut after = self.entries[&dn].clone();
        let mut changes: Vec<(ChangeOperation, &str, BTreeSet<String>)> = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let (name, all) = self.pick(&ATTRIBUTES);
            let now = after.get(name).cloned().unwrap_or_default();
            let given = self.values(all);
            let (operation, given, then): (_, BTreeSet<String>, BTreeSet<String>) = match self.rng.u32(..3) {
                0 => (ChangeOperation::Replace, given.clone(), given),
                1 => {
                    let new: BTreeSet<_> = given.difference(&now).cloned().collect();
                    (ChangeOperation::Add, new.clone(), now.union(&new).cloned().collect())
                }
                _ => {
                    let old: BTreeSet<_> = given.intersection(&now).cloned().collect();
                    (ChangeOperation::Delete, old.clone(), now.difference(&old).cloned().collect())
                }
            };
            if given.is_empty() {
                continue;
            }
            match then.is_empty() {
                true => drop(after.remove(name)),
                false => drop(after.insert(name, then)),
            }
            changes.push((operation, name, given));
        }
        let naming = dn.split([',', '=']).nth(1).unwrap();
        if dn.starts_with("uid=") && !has(&after, "uid", naming) {
            return;
        }
        self.execute((Some(&dn), dn.clone()), after, |directory| {
            let texts: Vec<Vec<&str>> =
                changes.iter().map(|(.., all)| all.iter().map(String::as_str).collect()).collect();
            let all: Vec<_> = changes
                .iter()
                .zip(&texts)
                .map(|((operation, name, _), texts)| (*operation, *name, texts.as_slice()))
                .collect();
            directory.modify(&dn, &all)
        });
    }

    /// Renames an entry. The rename adds a value. In some cases also moves the entry.
    fn rename(&mut self) {
        let Some(dn) = self.entry() else { return };
        let (naming, value) = (self.pick(&["cn", "uid"]), self.pick(&["a", "b", "c", "d"]));
        let (rdn, superior) = (format!("{naming}={value}"), self.pick(&UNITS));
        let to = format!("{rdn},{superior}");
        if self.entries.contains_key(&to) {
            return;
        }
        let mut after = self.entries[&dn].clone();
        let deletes = dn.starts_with("uid=") && self.rng.bool();
        if deletes {
            let all = after.get_mut("uid").unwrap();
            all.remove(dn.split([',', '=']).nth(1).unwrap());
            if all.is_empty() {
                after.remove("uid");
            }
        }
        let own = after.entry(naming).or_default();
        if !own.iter().any(|own| own.eq_ignore_ascii_case(value)) {
            own.insert(value.to_owned());
        }
        self.execute((Some(&dn), to), after, |directory| {
            directory.modify_dn(&dn, &rdn, deletes, Some(superior))
        });
    }

    fn delete(&mut self) {
        let Some(dn) = self.entry() else { return };
        assert_eq!(self.directory.delete(&dn), Outcome::success());
        self.entries.remove(&dn);
    }

    /// Puts other rules in force. Existing entries may violate these rules.
    fn change_rules(&mut self) {
        self.rules = RULES.iter().filter(|_| self.rng.u32(..4) > 0).collect();
        let texts = self.rules.iter().map(|rule| rule.text.to_owned()).collect();
        self.directory.change_settings(|settings| settings.general.value_limits = texts);
    }
}

fn run(seed: u64) {
    let mut directory = TestDirectory::with_suffix_entry();
    for unit in UNITS {
        assert_eq!(directory.add(unit, &[("objectClass", &["organizationalUnit"])]), Outcome::success());
    }
    let (entries, rng) = (Entries::new(), Rng::with_seed(seed));
    let mut run = Run { directory, entries, rules: Vec::new(), rng, refused: Default::default() };
    for _ in 0..OPERATIONS {
        match run.rng.u32(..40) {
            0..12 => run.add(),
            12..28 => run.modify(),
            28..33 => run.rename(),
            33..36 => run.delete(),
            36 | 37 => run.change_rules(),
            _ if run.rng.u32(..10) == 0 => run.directory = run.directory.reopen(),
            _ => {}
        }
    }
    assert!(run.refused.iter().all(|count| *count > 0), "refusals by rule: {:?}", run.refused);
    for (dn, values) in &run.entries {
        let entry = run.directory.read(dn).unwrap();
        for (description, values) in values {
            let found: BTreeSet<String> = entry.texts(description).into_iter().collect();
            assert_eq!(&found, values, "{description} of {dn}");
        }
    }
    assert_eq!(directory::check::check(&run.directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn value_limits_agree_with_a_model() {
    for_seeds(SEEDS, run);
}
