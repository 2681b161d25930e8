//! Tests on the bytes of entry rows agree with the matcher, for random filters on values in every storage layout.

use std::fmt::Write as _;
use std::ops::Bound;

use fastrand::Rng;
use ldap::FilterBuf;
use store::Direction;

use super::{add, sample};
use crate::catalog::Shown;
use crate::filter::prefilter::{locate_others, others_refuse};
use crate::filter::{Candidate, Matcher};
use crate::filter::{Compiler, Truth};
use crate::model::entry::{EntryRow, Place};
use crate::model::limits::{INLINE_VALUE_COUNT_MAX, INLINE_VALUE_MAX};
use crate::model::rows::{ENTRIES, EntryId, id_key};
use crate::testing::TestDirectory;
use crate::tree::node;

const PEOPLE: &str = "ou=people,dc=example,dc=com";

const FILTERS: usize = 3_000;

/// Texts that are equal under some rule: by case, spaces, mapping, composition, compatibility, control characters.
const TEXTS: [&str; 22] = [
    "abc",
    "ABC",
    "aXbXc",
    " ab  c",
    "ab c",
    "a\u{ad}bc",
    "a\tb",
    "a\u{1}bc",
    "\u{e9}t\u{e9}",
    "e\u{301}te\u{301}",
    "ETE",
    "\u{fb03}x",
    "ffix",
    "Stra\u{df}e",
    "STRASSE 12",
    "\u{ff41}\u{ff22}\u{ff43}",
    "+49 30-12",
    "493012",
    "x",
    "The quick brown fox jumps over the lazy dog, again and again.",
    "the QUICK brown f\u{f6}x jumps over",
    "over the lazy",
];

/// Types with several rules: `name` has subtypes, `manager` and `member` are links, `carLicense` occurs nowhere.
const ATTRIBUTES: [&str; 12] = [
    "description",
    "description",
    "title",
    "cn",
    "name",
    "cn;lang-fr",
    "telephoneNumber",
    "employeeNumber",
    "mail",
    "manager",
    "carLicense",
    "member",
];

/// Returns the sample with additional people. They have the texts in several attributes: inline, with options, and in
/// rows of their own.
fn directory(rng: &mut Rng) -> TestDirectory {
    let mut directory = sample();
    let long: Vec<String> =
        TEXTS.iter().map(|text| format!("{}{text}", "-".repeat(INLINE_VALUE_MAX))).collect();
    let many: Vec<String> = (0..=INLINE_VALUE_COUNT_MAX)
        .map(|number| format!("{} {number}", TEXTS[number % TEXTS.len()]))
        .collect();
    for number in 0..60 {
        let mut pick = || vec![*rng.choice(&TEXTS).unwrap()];
        let (cn, sn, title, mut descriptions) = (pick(), pick(), pick(), pick());
        match number % 10 {
            0 => descriptions.clear(),
            1 => descriptions = many.iter().map(String::as_str).collect(),
            2 => descriptions.push(&long[number % long.len()]),
            3 => descriptions = vec![&long[number % long.len()]],
            4 => descriptions = vec!["The lazy", "dogs", "jump over", "f\u{f6}xes"],
            _ => {}
        }
        let required: [(&str, &[&str]); 4] =
            [("objectClass", &["inetOrgPerson"]), ("cn", &cn), ("sn", &sn), ("employeeNumber", &["+49 30"])];
        let mut attributes = required.to_vec();
        if number % 2 == 0 {
            attributes.push(("title", &title));
        }
        if !descriptions.is_empty() {
            attributes.push(("description", &descriptions));
        }
        if number % 3 == 0 {
            attributes.push(("cn;lang-fr", &["Abc  d\u{e9}"]));
            attributes.push(("telephoneNumber", &["+49 (30) 12-3 4"]));
        }
        if number % 4 == 0 {
            attributes.push(("manager", &["uid=ada,ou=people,dc=example,dc=com"]));
        }
        add(&mut directory, &format!("uid=r{number},{PEOPLE}"), &attributes);
    }
    directory
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        write!(out, "\\{byte:02x}").unwrap();
        out
    })
}

/// Returns a random substring of a random text, at character boundaries.
fn piece(rng: &mut Rng) -> String {
    let characters: Vec<char> = rng.choice(&TEXTS).unwrap().chars().collect();
    let start = rng.usize(..characters.len());
    let end = rng.usize(start + 1..=characters.len().min(start + 6));
    escaped(&characters[start..end].iter().collect::<String>())
}

fn item(rng: &mut Rng) -> String {
    let attribute = *rng.choice(&ATTRIBUTES).unwrap();
    match rng.u8(..14) {
        0 => "(objectClass=person)".to_owned(),
        1 => "(nonsense=x)".to_owned(),
        2 => format!("({attribute}=*)"),
        3 => format!("({attribute}={})", escaped(rng.choice(&TEXTS).unwrap())),
        4 => format!("({attribute}>={})", piece(rng)),
        5 => format!("({attribute}<={})", piece(rng)),
        6 => format!("({attribute}:caseExactMatch:={})", escaped(rng.choice(&TEXTS).unwrap())),
        7 => format!("({attribute}:dn:={})", piece(rng)),
        8 => format!("({attribute}={}*)", piece(rng)),
        9 => format!("({attribute}=*{})", piece(rng)),
        10 => format!("({attribute}=*{}*{}*)", piece(rng), piece(rng)),
        11 => format!("(entryDN=*{}*)", piece(rng)),
        _ => format!("({attribute}=*{}*)", piece(rng)),
    }
}

fn filter(rng: &mut Rng, depth: u32) -> String {
    let kind = if depth == 0 { 9 } else { rng.u8(..10) };
    match kind {
        0 | 1 => format!("(&{}{})", filter(rng, depth - 1), filter(rng, depth - 1)),
        2 | 3 => format!("(|{}{})", filter(rng, depth - 1), filter(rng, depth - 1)),
        4 => format!("(!{})", filter(rng, depth - 1)),
        _ => item(rng),
    }
}

#[test]
fn rows_agree_with_the_evaluator() {
    let mut rng = Rng::with_seed(11);
    let directory = directory(&mut rng);
    let snapshot = &directory.snapshot;
    let state = snapshot.state();
    let mut matcher = Matcher::new(Shown::Secrets);
    let (mut key, mut passed, mut guarded, mut decided) = (Vec::new(), 0, 0, 0);
    for _ in 0..FILTERS {
        let text = filter(&mut rng, 3);
        let parsed = FilterBuf::parse(&text).unwrap();
        let mut term = Compiler { catalog: state.catalog, shown: Shown::Secrets, known: Some(snapshot) }
            .compile(parsed.as_filter());
        term.find_targets(snapshot).unwrap();
        let (guard, mut place) = (term.guard(), Place::default());
        let mut other_tests = guard.map(|guard| guard.other_tests()).unwrap_or_default();
        for row in state.read.scan(ENTRIES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (id, bytes) = row.unwrap();
            let id = EntryId(u64::from_be_bytes(id.try_into().unwrap()));
            assert_eq!(state.read.get(ENTRIES, &id_key(id)).unwrap(), Some(bytes));
            let candidate = Candidate::new(id, node(state.read, id).unwrap().unwrap());
            let truth = matcher.truth(&term, state, &candidate).unwrap();
            let row = EntryRow::decode(bytes).unwrap();
            passed += usize::from(truth == Truth::True);
            let mut others = Vec::new();
            locate_others(&mut other_tests, bytes, |looked| others.push(looked));
            if let Some(guard) = guard
                && guard.refuses(&state.catalog.schema, guard.locate(bytes, &mut place), &mut key)
                && others_refuse(&other_tests, &state.catalog.schema, &others, &mut key)
            {
                assert_ne!(truth, Truth::True, "{text} is refused for entry {}", id.0);
                guarded += 1;
            }
            if let Some(row_truth) = term.row_truth(&state.catalog.schema, &row, &mut key) {
                assert_eq!(row_truth, truth, "{text} of entry {}", id.0);
                decided += 1;
            }
        }
    }
    // The test is meaningful only if each case occurs often enough.
    assert!(passed > 10_000 && guarded > 10_000 && decided > 50_000, "{passed} {guarded} {decided}");
}
