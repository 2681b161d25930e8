//! Random changes under uniqueness rules, compared with a simple list of entries. A change succeeds if and only if no
//! two entries covered by a rule have a common value afterwards.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode};

use crate::places::{is_at_or_below, moved, take_tree};
use crate::testing::{SUFFIX, TestDirectory, for_seeds};

const SEEDS: u64 = 6;
const OPERATIONS: usize = 400;

/// Base of the second rule.
const BASE: &str = "ou=one,dc=example,dc=com";

fn rules() -> Vec<String> {
    vec![
        "names: uid, employeeNumber matching '(!(employeeType=guest))'".to_owned(),
        format!("mail: mail in '{BASE}' matching '(|(employeeType=staff)(objectClass=organizationalUnit))'"),
    ]
}

/// Values of an entry, by attribute type.
type Values = BTreeMap<&'static str, BTreeSet<String>>;

/// Entries by DN, except the suffix entry.
type Entries = BTreeMap<String, Values>;

fn has(values: &Values, name: &str, value: &str) -> bool {
    values.get(name).is_some_and(|all| all.contains(value))
}

fn are_unique(entries: &Entries) -> bool {
    let (mut names, mut mails) = (BTreeSet::new(), BTreeSet::new());
    let none = BTreeSet::new();
    entries.iter().all(|(dn, values)| {
        let of = |name: &str| values.get(name).unwrap_or(&none);
        let in_base = is_at_or_below(dn, BASE);
        let own: BTreeSet<_> = of("uid").union(of("employeeNumber")).cloned().collect();
        (has(values, "employeeType", "guest") || own.into_iter().all(|name| names.insert(name)))
            && (!in_base
                || !has(values, "employeeType", "staff")
                || of("mail").iter().all(|mail| mails.insert(mail.clone())))
    })
}

/// Returns the entries after a rename or a move of `top`.
fn after_move(entries: &Entries, top: &str, to: &str) -> Entries {
    let mut after = entries.clone();
    let tree = take_tree(&mut after, top);
    after.extend(moved(tree, top, to));
    after
}

fn pick<'v, T>(rng: &mut Rng, all: &'v [T]) -> &'v T {
    &all[rng.usize(0..all.len())]
}

fn random_values(rng: &mut Rng) -> Values {
    let mut values = Values::new();
    for name in ["uid", "employeeNumber", "mail", "employeeType"] {
        let given = (0..rng.usize(0..3)).map(|_| random_value(rng, name)).collect::<BTreeSet<_>>();
        if !given.is_empty() {
            values.insert(name, given);
        }
    }
    if let Some(number) = values.get_mut("employeeNumber").and_then(BTreeSet::pop_first) {
        values.insert("employeeNumber", BTreeSet::from([number]));
    }
    values
}

fn random_value(rng: &mut Rng, name: &str) -> String {
    match name {
        "employeeType" => (*pick(rng, &["guest", "staff"])).to_owned(),
        _ => rng.u32(0..25).to_string(),
    }
}

struct Run {
    directory: TestDirectory,
    entries: Entries,
    refused: usize,
    rng: Rng,
}

impl Run {
    fn execute(&mut self, after: Entries, change: impl FnOnce(&mut TestDirectory) -> directory::Outcome) {
        let expected = match are_unique(&after) {
            true => ResultCode::SUCCESS,
            false => ResultCode::CONSTRAINT_VIOLATION,
        };
        let outcome = change(&mut self.directory);
        assert_eq!(outcome.code, expected, "{}\n{:#?}\n{after:#?}", outcome.diagnostic, self.entries);
        if outcome.code == ResultCode::SUCCESS {
            self.entries = after;
        } else {
            self.refused += 1;
        }
    }

    fn units(&self) -> Vec<String> {
        self.entries.keys().filter(|dn| dn.starts_with("ou=")).cloned().chain([SUFFIX.to_owned()]).collect()
    }

    fn people(&self) -> Vec<String> {
        self.entries.keys().filter(|dn| !dn.starts_with("ou=")).cloned().collect()
    }

    fn add(&mut self) {
        let (mut after, units) = (self.entries.clone(), self.units());
        let parent = pick(&mut self.rng, &units).clone();
        if self.rng.u32(0..5) == 0 {
            let name = *pick(&mut self.rng, &["one", "two", "three"]);
            let dn = format!("ou={name},{parent}");
            if after.insert(dn.clone(), Values::new()).is_none() && dn.matches("ou=").count() < 4 {
                self.execute(after, |directory| {
                    directory.add(&dn, &[("objectClass", &["organizationalUnit"])])
                });
            }
            return;
        }
        let dn = format!("cn={},{parent}", self.rng.u32(0..30));
        let values = random_values(&mut self.rng);
        if after.insert(dn.clone(), values.clone()).is_none() {
            self.execute(after, |directory| {
                let texts: Vec<(&str, Vec<&str>)> = values
                    .iter()
                    .map(|(name, all)| (*name, all.iter().map(String::as_str).collect()))
                    .collect();
                let mut attributes = vec![("objectClass", &["inetOrgPerson"][..]), ("sn", &["x"])];
                attributes.extend(texts.iter().map(|(name, all)| (*name, all.as_slice())));
                directory.add(&dn, &attributes)
            });
        }
    }

    fn modify(&mut self) {
        let people = self.people();
        if people.is_empty() {
            return;
        }
        let dn = pick(&mut self.rng, &people).clone();
        let mut after = self.entries.clone();
        let replaced = random_values(&mut self.rng);
        let own = after.get_mut(&dn).unwrap();
        let mut given = Vec::new();
        for name in ["uid", "employeeNumber", "mail", "employeeType"] {
            let is_name = dn.starts_with(&format!("{name}="));
            if is_name || self.rng.bool() {
                continue;
            }
            let values: Vec<String> = replaced.get(name).into_iter().flatten().cloned().collect();
            match values.is_empty() {
                true => drop(own.remove(name)),
                false => drop(own.insert(name, values.iter().cloned().collect())),
            }
            given.push((name, values));
        }
        self.execute(after, |directory| {
            let texts: Vec<(&str, Vec<&str>)> =
                given.iter().map(|(name, all)| (*name, all.iter().map(String::as_str).collect())).collect();
            let changes: Vec<_> =
                texts.iter().map(|(name, all)| (ChangeOperation::Replace, *name, all.as_slice())).collect();
            directory.modify(&dn, &changes)
        });
    }

    /// Renames a person to `uid=N`, which adds a value of uid. In some cases also moves the person to another superior.
    fn rename(&mut self) {
        let people = self.people();
        if people.is_empty() {
            return;
        }
        let dn = pick(&mut self.rng, &people).clone();
        let units = self.units();
        let superior = pick(&mut self.rng, &units).clone();
        let value = self.rng.u32(0..25).to_string();
        let rdn = format!("uid={value}");
        let to = format!("{rdn},{superior}");
        if self.entries.contains_key(&to) {
            return;
        }
        let mut after = after_move(&self.entries, &dn, &to);
        after.get_mut(&to).unwrap().entry("uid").or_default().insert(value);
        self.execute(after, |directory| directory.modify_dn(&dn, &rdn, false, Some(&superior)));
    }

    fn move_unit(&mut self) {
        let units = self.units();
        let (top, superior) = (pick(&mut self.rng, &units).clone(), pick(&mut self.rng, &units).clone());
        let rdn = format!("ou={}", pick(&mut self.rng, &["one", "two", "three"]));
        let to = format!("{rdn},{superior}");
        let is_inside = is_at_or_below(&superior, &top);
        if top == SUFFIX || is_inside || self.entries.contains_key(&to) {
            return;
        }
        let after = after_move(&self.entries, &top, &to);
        self.execute(after, |directory| directory.modify_dn(&top, &rdn, true, Some(&superior)));
    }

    fn delete(&mut self) {
        let people = self.people();
        if !people.is_empty() {
            let dn = pick(&mut self.rng, &people).clone();
            let mut after = self.entries.clone();
            after.remove(&dn);
            self.execute(after, |directory| directory.delete(&dn));
        }
    }
}

fn run(seed: u64) {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.change_settings(|settings| {
        settings.indexes.insert("employeeNumber".to_owned(), "equality".parse().unwrap());
    });
    directory.finish_indexes();
    directory.change_settings(|settings| settings.general.unique = rules());
    let mut run = Run { directory, entries: Entries::new(), refused: 0, rng: Rng::with_seed(seed) };
    for _ in 0..OPERATIONS {
        match run.rng.u32(0..20) {
            0..8 => run.add(),
            8..13 => run.modify(),
            13..16 => run.rename(),
            16..18 => run.move_unit(),
            18 => run.delete(),
            _ if run.rng.u32(0..10) == 0 => run.directory = run.directory.reopen(),
            _ => {}
        }
    }
    assert!(run.refused > 20, "only {} changes were refused", run.refused);
    assert_eq!(directory::check::check(&run.directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn no_two_entries_share_a_unique_value() {
    for_seeds(SEEDS, run);
}
