//! Random changes under rules of `auto_members` and `next_numbers`, compared with a simple list of entries. Groups have
//! exactly the members that result from the rules, from changes by clients, and from renames and deletes. `{next}` is
//! the number after the highest number in use. If no higher number is in the range, `{next}` is the lowest free number.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use directory::Outcome;
use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode};

use crate::testing::{SUFFIX, TestDirectory, for_seeds};

const SEEDS: u64 = 3;
const OPERATIONS: usize = 500;

const ONE: &str = "ou=one,dc=example,dc=com";
const TWO: &str = "ou=two,dc=example,dc=com";

/// The two groups that entries join, with their attributes.
const GROUPS: [(&str, &str, &str); 2] = [
    ("cn=bosses,dc=example,dc=com", "groupOfNames", "member"),
    ("cn=clerks,dc=example,dc=com", "groupOfUniqueNames", "uniqueMember"),
];

const NUMBERS: [&str; 2] = ["uidNumber", "gidNumber"];
const NEXT: &str = "{next}";

/// Range of the rule for uidNumber of entries below [`ONE`], and range of the rule for all other numbers.
const NARROW: RangeInclusive<i64> = 100..=106;
const WIDE: RangeInclusive<i64> = 100..=118;

/// Returns the rules of both settings. A different `name` makes rules of `auto_members` new.
fn rules(name: u32) -> [Vec<String>; 2] {
    let [bosses, clerks] = GROUPS.map(|(dn, ..)| dn);
    [
        vec![
            format!("b{name}: into '{bosses}' also modified in '{ONE}' matching '(title=boss)'"),
            format!("c{name}: into '{clerks}' by uniqueMember matching '(title=clerk)'"),
        ],
        vec![
            format!("narrow: uidNumber from {} to {} in '{ONE}'", NARROW.start(), NARROW.end()),
            format!("wide: uidNumber, gidNumber from {} to {}", WIDE.start(), WIDE.end()),
        ],
    ]
}

#[derive(Clone, Debug)]
struct Person {
    title: &'static str,
    /// The values of uidNumber and gidNumber.
    numbers: [i64; 2],
}

/// A plain directory: people and members by DN.
#[derive(Default)]
struct Plain {
    people: BTreeMap<String, Person>,
    /// Members of each group; `None` if the group does not exist.
    members: [Option<BTreeSet<String>>; 2],
    /// True for each rule whose group does not exist, so that existing entries have not joined it yet.
    is_pending: [bool; 2],
}

impl Plain {
    fn covers(&self, rule: usize, dn: &str) -> bool {
        let title = self.people[dn].title;
        match rule {
            0 => dn.ends_with(&format!(",{ONE}")) && title == "boss",
            _ => title == "clerk",
        }
    }

    fn join(&mut self, rule: usize, dn: &str) {
        if let Some(members) = &mut self.members[rule] {
            members.insert(dn.to_owned());
        }
    }

    /// Adds existing entries to groups, by the pending rules whose groups exist now.
    fn join_existing(&mut self) {
        for rule in 0..2 {
            if self.members[rule].is_some() && std::mem::take(&mut self.is_pending[rule]) {
                let covered: Vec<_> =
                    self.people.keys().filter(|dn| self.covers(rule, dn)).cloned().collect();
                covered.iter().for_each(|dn| self.join(rule, dn));
            }
        }
    }

    /// Returns the number that replaces `{next}` in an attribute of the entry; `None` if no number is free.
    fn next(&self, dn: &str, attribute: usize) -> Option<i64> {
        let is_narrow = attribute == 0 && dn.ends_with(&format!(",{ONE}"));
        let (range, count) = if is_narrow { (NARROW, 1) } else { (WIDE, 2) };
        let all = self.people.values().flat_map(|person| person.numbers.iter().take(count).copied());
        let used: BTreeSet<i64> = all.filter(|number| range.contains(number)).collect();
        match used.last() {
            None => Some(*range.start()),
            Some(highest) if highest < range.end() => Some(highest + 1),
            Some(_) => range.into_iter().find(|number| !used.contains(number)),
        }
    }

    /// Returns the numbers that an entry receives; `None` if no number is free.
    fn numbers(&self, dn: &str, texts: &[String; 2]) -> Option<[i64; 2]> {
        let number = |attribute: usize| match texts[attribute].as_str() {
            NEXT => self.next(dn, attribute),
            text => text.parse().ok(),
        };
        Some([number(0)?, number(1)?])
    }
}

struct Run {
    directory: TestDirectory,
    plain: Plain,
    rng: Rng,
    /// Counts of three kinds of cases. Each kind must occur in a run.
    joined: usize,
    reused: usize,
    without_free: usize,
}

impl Run {
    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        self.rng.choice(all).cloned()
    }

    fn person(&mut self) -> Option<String> {
        let all: Vec<String> = self.plain.people.keys().cloned().collect();
        self.pick(&all)
    }

    fn free_name(&mut self) -> Option<String> {
        let dn = format!("uid=u{},{}", self.rng.u32(..30), if self.rng.bool() { ONE } else { TWO });
        (!self.plain.people.contains_key(&dn)).then_some(dn)
    }

    fn title(&mut self) -> &'static str {
        ["boss", "clerk", "guest"][self.rng.usize(..3)]
    }

    fn number(&mut self) -> String {
        match self.rng.u32(..4) {
            0 => self.rng.i64(95..122).to_string(),
            _ => NEXT.to_owned(),
        }
    }

    /// Records the numbers that an entry received. Checks that a number chosen by the server was free and is in its
    /// range.
    fn note(&mut self, texts: &[String; 2], numbers: [i64; 2]) {
        let used = |number: i64| self.plain.people.values().any(|person| person.numbers[0] == number);
        if texts[0] == NEXT {
            assert!(WIDE.contains(&numbers[0]) && !used(numbers[0]), "{} is in use", numbers[0]);
            let is_below = self.plain.people.values().any(|person| person.numbers[0] > numbers[0]);
            self.reused += usize::from(is_below && WIDE.contains(&numbers[0]));
        }
    }

    fn add(&mut self) {
        let Some(dn) = self.free_name() else { return };
        let (title, texts) = (self.title(), [self.number(), self.number()]);
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson", "posixAccount"]),
            ("cn", &["x"]),
            ("sn", &["x"]),
            ("homeDirectory", &["/"]),
            ("title", &[title]),
            (NUMBERS[0], &[&texts[0]]),
            (NUMBERS[1], &[&texts[1]]),
        ];
        let outcome = self.directory.add(&dn, attributes);
        let Some(numbers) = self.plain.numbers(&dn, &texts) else { return self.refused(&outcome) };
        assert_eq!(outcome, Outcome::success(), "{dn}");
        self.note(&texts, numbers);
        self.plain.people.insert(dn.clone(), Person { title, numbers });
        for rule in 0..2 {
            if self.plain.covers(rule, &dn) {
                self.joined += 1;
                self.plain.join(rule, &dn);
            }
        }
    }

    fn refused(&mut self, outcome: &Outcome) {
        assert_eq!(outcome.code, ResultCode::CONSTRAINT_VIOLATION, "{outcome:?}");
        self.without_free += 1;
    }

    fn modify(&mut self) {
        let Some(dn) = self.person() else { return };
        let before = self.plain.people[&dn].clone();
        let title = if self.rng.bool() { self.title() } else { before.title };
        let mut texts = before.numbers.map(|number| number.to_string());
        let mut changes = vec![(ChangeOperation::Replace, "title", vec![title.to_owned()])];
        for attribute in 0..2 {
            if self.rng.u32(..3) == 0 {
                texts[attribute] = self.number();
                let values = vec![texts[attribute].clone()];
                changes.push((ChangeOperation::Replace, NUMBERS[attribute], values));
            }
        }
        let values: Vec<Vec<&str>> =
            changes.iter().map(|(.., values)| values.iter().map(String::as_str).collect()).collect();
        let all: Vec<_> = changes
            .iter()
            .zip(&values)
            .map(|((kind, name, _), values)| (*kind, *name, &values[..]))
            .collect();
        let outcome = self.directory.modify(&dn, &all);
        let Some(numbers) = self.plain.numbers(&dn, &texts) else { return self.refused(&outcome) };
        assert_eq!(outcome, Outcome::success(), "{dn}");
        self.note(&texts, numbers);
        let was_covered = self.plain.covers(0, &dn);
        self.plain.people.insert(dn.clone(), Person { title, numbers });
        if !was_covered && self.plain.covers(0, &dn) {
            self.joined += 1;
            self.plain.join(0, &dn);
        }
    }

    /// Renames a person, and moves it in half of the cases. Memberships follow.
    fn rename(&mut self) {
        let (Some(dn), Some(to)) = (self.person(), self.free_name()) else { return };
        let (rdn, superior) = to.split_once(',').unwrap();
        assert_eq!(self.directory.modify_dn(&dn, rdn, true, Some(superior)), Outcome::success());
        let person = self.plain.people.remove(&dn).unwrap();
        self.plain.people.insert(to.clone(), person);
        for members in self.plain.members.iter_mut().flatten() {
            if members.remove(&dn) {
                members.insert(to.clone());
            }
        }
    }

    fn delete(&mut self) {
        let Some(dn) = self.person() else { return };
        assert_eq!(self.directory.delete(&dn), Outcome::success());
        self.plain.people.remove(&dn);
        self.plain.members.iter_mut().flatten().for_each(|members| {
            members.remove(&dn);
        });
    }

    /// Adds or removes a member as a client.
    fn change_members(&mut self) {
        let rule = self.rng.usize(..2);
        let (Some(dn), Some(members)) = (self.person(), &mut self.plain.members[rule]) else { return };
        let operation = match members.insert(dn.clone()) {
            true => ChangeOperation::Add,
            false => ChangeOperation::Delete,
        };
        if operation == ChangeOperation::Delete {
            members.remove(&dn);
        }
        let (group, _, member) = GROUPS[rule];
        assert_eq!(self.directory.modify(group, &[(operation, member, &[&dn])]), Outcome::success());
    }

    /// Deletes a group, or adds it again with the suffix entry as its only member.
    fn change_group(&mut self) {
        let rule = self.rng.usize(..2);
        let (group, class, member) = GROUPS[rule];
        let outcome = match self.plain.members[rule].take() {
            Some(_) => self.directory.delete(group),
            None => {
                self.plain.members[rule] = Some(BTreeSet::from([SUFFIX.to_owned()]));
                self.directory.add(group, &[("objectClass", &[class]), (member, &[SUFFIX])])
            }
        };
        assert_eq!(outcome, Outcome::success());
    }

    fn change_rules(&mut self) {
        let [auto_members, next_numbers] = rules(self.rng.u32(..));
        self.directory.change_settings(|settings| {
            settings.general.auto_members = auto_members;
            settings.general.next_numbers = next_numbers;
        });
        self.plain.is_pending = [true; 2];
    }

    fn compare(&mut self) {
        for (dn, person) in &self.plain.people {
            let entry = self.directory.read(dn).unwrap();
            let numbers = NUMBERS.map(|name| entry.texts(name));
            assert_eq!(numbers, person.numbers.map(|number| vec![number.to_string()]), "{dn}");
        }
        for ((group, _, member), members) in GROUPS.iter().zip(&self.plain.members) {
            let found = self.directory.read(group).map(|entry| entry.texts(member).into_iter().collect());
            assert_eq!(&found, members, "{group}");
        }
    }
}

fn run(seed: u64) {
    let mut directory = TestDirectory::with_suffix_entry();
    for unit in [ONE, TWO] {
        assert_eq!(directory.add(unit, &[("objectClass", &["organizationalUnit"])]), Outcome::success());
    }
    let (plain, rng) = (Plain::default(), Rng::with_seed(seed));
    let mut run = Run { directory, plain, rng, joined: 0, reused: 0, without_free: 0 };
    run.change_rules();
    for _ in 0..OPERATIONS {
        match run.rng.u32(..40) {
            0..12 => run.add(),
            12..20 => run.modify(),
            20..24 => run.rename(),
            24..31 => run.delete(),
            31..35 => run.change_members(),
            35 | 36 => run.change_group(),
            37 => run.change_rules(),
            38 if run.rng.u32(..4) == 0 => run.directory = run.directory.reopen(),
            _ => run.compare(),
        }
        while run.directory.make_due_changes(0) {}
        run.plain.join_existing();
    }
    run.compare();
    assert!(run.joined > 20 && run.reused > 5, "{} joined, {} numbers again", run.joined, run.reused);
    assert!(run.without_free > 0, "a number was always free");
    assert_eq!(directory::check::check(&run.directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn groups_and_numbers_agree_with_a_model() {
    for_seeds(SEEDS, run);
}
