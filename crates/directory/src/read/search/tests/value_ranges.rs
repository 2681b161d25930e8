//! Tests of ranges of values: `member;range=0-9`.

use ldap::{ResultCode, Scope};

use crate::testing::{SUFFIX, TestDirectory};

/// Number of members of the group that have entries. The group has one more member, a name without an entry. Two
/// answers of ten values each, the maximum in tests, do not contain all members.
const MEMBERS: usize = 23;

fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let mut members: Vec<String> = (0..MEMBERS).map(|number| format!("cn=p{number},{SUFFIX}")).collect();
    for dn in &members {
        let person: &[(&str, &[&str])] = &[("objectClass", &["person"]), ("sn", &["s"])];
        assert_eq!(directory.add(dn, person).code, ResultCode::SUCCESS);
    }
    members.push(format!("cn=ghost,{SUFFIX}"));
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let group: &[(&str, &[&str])] =
        &[("objectClass", &["groupOfNames"]), ("member", &members), ("description", &["a", "b", "c"])];
    assert_eq!(directory.add(&group_dn(), group).code, ResultCode::SUCCESS);
    directory
}

fn group_dn() -> String {
    format!("cn=group,{SUFFIX}")
}

/// Returns the attributes of a result: name, number of values, first value and last value.
fn run(directory: &mut TestDirectory, dn: &str, wanted: &[&str]) -> Vec<(String, usize, String, String)> {
    let found = directory.search(dn, Scope::BaseObject, "(objectClass=*)", wanted);
    assert_eq!(found.code, ResultCode::SUCCESS, "{}", found.diagnostic);
    let entry = &found.entries[0];
    let of = |name: &String| {
        let values: Vec<String> =
            entry.texts(name).iter().map(|value| value.split(',').next().unwrap().to_owned()).collect();
        (name.clone(), values.len(), values.first().unwrap().clone(), values.last().unwrap().clone())
    };
    entry.attributes.keys().map(of).collect()
}

#[test]
fn a_group_is_read_range_by_range() {
    let mut directory = sample();
    for (wanted, expected) in [
        ("member;range=0-*", ("member;range=0-9", 10, "cn=p0", "cn=p9")),
        ("Member;Range=10-19", ("member;range=10-19", 10, "cn=p10", "cn=p19")),
        ("member;range=20-*", ("member;range=20-*", 4, "cn=p20", "cn=ghost")),
        ("member;range=20-29", ("member;range=20-*", 4, "cn=p20", "cn=ghost")),
        ("member;range=3-3", ("member;range=3-3", 1, "cn=p3", "cn=p3")),
        ("member;range=23-23", ("member;range=23-*", 1, "cn=ghost", "cn=ghost")),
        ("member;range=22-22", ("member;range=22-22", 1, "cn=p22", "cn=p22")),
        ("description;range=1-1", ("description;range=1-1", 1, "b", "b")),
        ("description;range=1-*", ("description;range=1-*", 2, "b", "c")),
    ] {
        let (name, count, first, last) = expected;
        let expected = (name.to_owned(), count, first.to_owned(), last.to_owned());
        assert_eq!(run(&mut directory, &group_dn(), &[wanted]), [expected], "{wanted}");
    }
    let several = run(&mut directory, &group_dn(), &["cn", "member;range=0-4", "description;range=0-*"]);
    let names: Vec<&str> = several.iter().map(|of| of.0.as_str()).collect();
    assert_eq!(names, ["cn", "description;range=0-*", "member;range=0-4"]);
}

#[test]
fn an_invalid_range_selects_nothing() {
    let mut directory = sample();
    for wanted in [
        "member;range=24-*",
        "member;range=5-4",
        "member;range=-4",
        "member;range=+1-4",
        "member;range=0",
        "member;range=*-0",
        "member;range=0-1;range=2-3",
        "nonsense;range=0-*",
        "seeAlso;range=0-*",
        "member;lang-en;range=0-*",
        "range=0-*",
    ] {
        assert_eq!(run(&mut directory, &group_dn(), &[wanted]), [], "{wanted}");
    }
}

#[test]
fn ranges_of_computed_attributes_are_returned() {
    let mut directory = sample();
    for number in 0..12 {
        let dn = format!("cn=g{number},{SUFFIX}");
        let member = format!("cn=p1,{SUFFIX}");
        let group: &[(&str, &[&str])] = &[("objectClass", &["groupOfNames"]), ("member", &[&member])];
        assert_eq!(directory.add(&dn, group).code, ResultCode::SUCCESS);
    }
    let member = format!("cn=p1,{SUFFIX}");
    let expected = |name: &str, count, first: &str, last: &str| {
        (name.to_owned(), count, first.to_owned(), last.to_owned())
    };
    assert_eq!(
        run(&mut directory, &member, &["memberOf;range=0-*"]),
        [expected("memberOf;range=0-9", 10, "cn=group", "cn=g8")]
    );
    assert_eq!(
        run(&mut directory, &member, &["memberOf;range=10-*"]),
        [expected("memberOf;range=10-*", 3, "cn=g9", "cn=g11")]
    );
}

/// A range returns only values that the attribute itself would return.
#[test]
fn access_rules_cover_ranges() {
    let mut directory = sample();
    let anna = format!("cn=p0,{SUFFIX}");
    for (rules, expected) in [
        (
            vec!["a: allow read of * to authenticated"],
            vec![("description;range=0-*", 3), ("member;range=0-9", 10)],
        ),
        (vec!["a: allow read of cn to authenticated"], vec![]),
        (vec!["a: allow read of * but not of member to authenticated"], vec![("description;range=0-*", 3)]),
        (
            vec![
                "a: allow read of * to authenticated",
                "b: deny read of description values matching '(description=b)' to authenticated",
            ],
            vec![("description;range=0-*", 2), ("member;range=0-9", 10)],
        ),
    ] {
        let rules: Vec<String> = rules.into_iter().map(str::to_owned).collect();
        directory.change_settings(|settings| settings.general.access_rules = rules.clone());
        let administrator = directory.requester.clone();
        directory.requester =
            crate::access::Requester::User { id: crate::model::rows::EntryId(2), dn: anna.clone() };
        let found = run(&mut directory, &group_dn(), &["member;range=0-*", "description;range=0-*"]);
        let found: Vec<(&str, usize)> = found.iter().map(|of| (of.0.as_str(), of.1)).collect();
        assert_eq!(found, expected, "{rules:?}");
        directory.requester = administrator;
    }
}
