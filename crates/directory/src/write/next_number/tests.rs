//! Tests of the value `{next}`: ranges with different bases, several numbers in a batch, and the end of a range.

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::ResultCode as Code;

use crate::access::Requester;
use crate::model::outcome::Outcome;
use crate::testing::{SUFFIX, TestDirectory};

const NEXT: &[&str] = &["{next}"];

fn directory(rules: &[&str]) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for unit in ["people", "hosts"] {
        let added =
            directory.add(&format!("ou={unit},{SUFFIX}"), &[("objectClass", &["organizationalUnit"])]);
        assert_eq!(added, Outcome::success());
    }
    let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
    directory.change_settings(|settings| settings.general.next_numbers = rules);
    directory
}

fn dn(name: &str, unit: &str) -> String {
    format!("uid={name},ou={unit},{SUFFIX}")
}

fn add(directory: &mut TestDirectory, dn: &str, uid_number: &[&str], gid_number: &[&str]) -> Outcome {
    let attributes = [
        ("objectClass", &["account", "posixAccount"][..]),
        ("cn", &["x"]),
        ("homeDirectory", &["/"]),
        ("uidNumber", uid_number),
        ("gidNumber", gid_number),
    ];
    directory.add(dn, &attributes)
}

fn numbers(directory: &mut TestDirectory, dn: &str) -> [Vec<String>; 2] {
    let entry = directory.read(dn).unwrap();
    [entry.texts("uidNumber"), entry.texts("gidNumber")]
}

#[track_caller]
fn check_numbers(directory: &mut TestDirectory, name: &str, unit: &str, expected: &str) {
    let dn = dn(name, unit);
    assert_eq!(add(directory, &dn, NEXT, NEXT), Outcome::success());
    assert_eq!(numbers(directory, &dn), [[expected], [expected]]);
}

#[test]
fn numbers_ascend_and_gaps_are_used_after_the_end_of_the_range() {
    let mut directory = directory(&["posix: uidNumber, gidNumber from 100 to 104"]);
    check_numbers(&mut directory, "a", "people", "100");
    // A number outside the range does not count. A number in the other attribute of the rule counts.
    assert_eq!(add(&mut directory, &dn("b", "people"), &["7"], &["102"]), Outcome::success());
    check_numbers(&mut directory, "c", "people", "103");
    check_numbers(&mut directory, "d", "people", "104");
    check_numbers(&mut directory, "e", "people", "101");
    let full = add(&mut directory, &dn("f", "people"), NEXT, &["1"]);
    assert_eq!(full.code, Code::CONSTRAINT_VIOLATION);
    assert!(full.diagnostic.contains("\"posix\" of the setting next_numbers has no free number"));
    assert_eq!(directory.delete(&dn("c", "people")), Outcome::success());
    check_numbers(&mut directory, "f", "people", "103");
}

#[test]
fn each_change_of_a_batch_gets_its_own_number() {
    use crate::access::RequestContext;
    use crate::read::controls::RequestControls;
    use ldap::{AddRequest, AttributesBuf, Request};

    let mut directory = directory(&["posix: uidNumber from 1 to 50"]);
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["account", "posixAccount"]);
    for (name, value) in [("cn", "x"), ("homeDirectory", "/"), ("gidNumber", "1"), ("uidNumber", "{next}")] {
        attributes.push(name, [value]);
    }
    let stamps: Vec<_> = (0..20).map(|_| directory.stamp()).collect();
    let requester = directory.requester.clone();
    let mut batch = directory.writer.begin().unwrap();
    for (number, stamp) in stamps.iter().enumerate() {
        let entry = dn(&number.to_string(), "people");
        let request = Request::Add(AddRequest { entry: &entry, attributes: attributes.as_attributes() });
        let context = RequestContext::new(&requester, None);
        let outcome = batch.execute(&context, &request, &RequestControls::default(), stamp);
        assert_eq!(outcome, Outcome::success());
    }
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
    for number in 0..20 {
        let [uid_number, _] = numbers(&mut directory, &dn(&number.to_string(), "people"));
        assert_eq!(uid_number, [(number + 1).to_string()]);
    }
}

#[test]
fn the_base_selects_the_range_for_adds_and_modifies() {
    let people = format!("people: uidNumber from 100 to 199 in 'ou=people,{SUFFIX}'");
    let mut directory = directory(&[&people, "others: uidNumber, gidNumber from 500 to 599"]);
    let (a, b) = (dn("a", "people"), dn("b", "hosts"));
    assert_eq!(add(&mut directory, &a, NEXT, NEXT), Outcome::success());
    assert_eq!(numbers(&mut directory, &a), [["100"], ["500"]]);
    check_numbers(&mut directory, "b", "hosts", "501");
    let changes = [(Replace, "uidNumber", NEXT), (Delete, "gidNumber", &[][..]), (Add, "gidNumber", NEXT)];
    assert_eq!(directory.modify(&b, &changes), Outcome::success());
    assert_eq!(numbers(&mut directory, &b), [["502"], ["502"]]);
    // In an attribute without a rule, `{next}` is ordinary text.
    let refused = directory.modify(&b, &[(Delete, "uidNumber", NEXT)]);
    assert_eq!(refused.code, Code::INVALID_ATTRIBUTE_SYNTAX);
    assert_eq!(directory.modify(&b, &[(Add, "description", NEXT)]), Outcome::success());
    assert_eq!(directory.read(&b).unwrap().texts("description"), NEXT);
    directory.change_settings(|settings| settings.general.next_numbers.clear());
    assert_eq!(add(&mut directory, &dn("c", "hosts"), NEXT, &["1"]).code, Code::INVALID_ATTRIBUTE_SYNTAX);
}

#[test]
fn wrong_ranges_are_refused() {
    let mut directory = directory(&[]);
    for (rule, what) in [
        ("a: uid from 1 to 2", "not integers"),
        ("a: uidNumber from 2 to 1", "is empty"),
        ("a: uidNumber from -1 to 1", "is not a whole number"),
        ("a: uidNumber to 1", "expected \"from\""),
        ("a: uidNumber from 1 to 9223372036854775807", "is not a whole number"),
        ("a: uidNumber from 1 to 2 matching '(cn=x)'", "no filter"),
        ("a: shadowMax from 1 to 2", "has no equality index"),
    ] {
        let refused =
            directory.try_change_settings(|settings| settings.general.next_numbers = vec![rule.to_owned()]);
        let refused = refused.expect_err(rule).to_string();
        assert!(refused.starts_with("next_numbers[0]: ") && refused.contains(what), "{rule}: {refused}");
    }
}

/// The search for a free number examines up to 100,000 numbers on the writer. Therefore the search is made only for
/// requesters that may make the change.
#[test]
fn requesters_without_the_right_get_no_number() {
    let mut directory = directory(&["posix: uidNumber, gidNumber from 100 to 101"]);
    check_numbers(&mut directory, "a", "people", "100");
    check_numbers(&mut directory, "b", "people", "101");
    let full = add(&mut directory, &dn("c", "people"), NEXT, &["1"]);
    assert_eq!(full.code, Code::CONSTRAINT_VIOLATION);
    directory.requester = Requester::Anonymous;
    let refused = add(&mut directory, &dn("c", "people"), NEXT, &["1"]);
    assert_eq!(refused.code, Code::STRONGER_AUTH_REQUIRED, "{}", refused.diagnostic);
    let refused = directory.modify(&dn("a", "people"), &[(Replace, "uidNumber", NEXT)]);
    assert_eq!(refused.code, Code::STRONGER_AUTH_REQUIRED, "{}", refused.diagnostic);
}
