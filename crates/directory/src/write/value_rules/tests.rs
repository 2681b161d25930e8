//! Tests of value rules: what each kind of change may do, and what an error reveals.

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::ResultCode as Code;

use crate::model::outcome::Outcome;
use crate::read::identity::identify;
use crate::testing::{SUFFIX, TestDirectory, ok};

const PEOPLE: &str = "ou=people,dc=example,dc=com";
const OTHER: &str = "ou=other,dc=example,dc=com";

fn dn(name: &str, parent: &str) -> String {
    format!("cn={name},{parent}")
}

fn refused(outcome: Outcome, text: &str) {
    assert_eq!(outcome.code, Code::CONSTRAINT_VIOLATION, "{}", outcome.diagnostic);
    assert!(outcome.diagnostic.contains(text), "{:?} does not say {text:?}", outcome.diagnostic);
}

fn directory(rules: &[&str]) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for dn in [PEOPLE, OTHER] {
        ok(directory.add(dn, &[("objectClass", &["organizationalUnit"])]));
    }
    set(&mut directory, rules);
    directory
}

fn set(directory: &mut TestDirectory, rules: &[&str]) {
    directory.change_settings(|settings| {
        settings.general.unique = rules.iter().map(|rule| (*rule).to_owned()).collect();
    });
}

fn add(directory: &mut TestDirectory, name: &str, parent: &str, values: &[(&str, &[&str])]) -> Outcome {
    let mut attributes = vec![("objectClass", &["inetOrgPerson"][..]), ("sn", &["x"])];
    attributes.extend_from_slice(values);
    directory.add(&dn(name, parent), &attributes)
}

#[test]
fn each_kind_of_change_is_checked() {
    let mut directory = directory(&["mail: mail", "names: uid, cn"]);
    ok(add(&mut directory, "a", PEOPLE, &[("mail", &["a@x", "a2@x"]), ("uid", &["A1"])]));
    let a = dn("a", PEOPLE);
    let text = "mail: the uniqueness rule \"mail\" allows each value in one entry";
    refused(add(&mut directory, "b", OTHER, &[("mail", &["b@x", "A2@X"])]), text);
    refused(add(&mut directory, "b", OTHER, &[("mail;x-home", &["a@x"])]), text);
    // All types of one rule share the same set of values, including values in RDNs.
    refused(
        add(&mut directory, "b", OTHER, &[("uid", &["a"])]),
        "\"cn=a,ou=people,dc=example,dc=com\" has it in cn",
    );
    refused(add(&mut directory, "a1", OTHER, &[]), "cn: the uniqueness rule \"names\"");
    ok(add(&mut directory, "b", OTHER, &[("mail", &["b@x"])]));
    let b = dn("b", OTHER);
    refused(directory.modify(&b, &[(Add, "mail", &["a@x"])]), text);
    refused(directory.modify(&b, &[(Replace, "mail", &["c@x", "a@x"])]), text);
    refused(directory.modify_dn(&b, "cn=a", false, None), "cn: the uniqueness rule");
    refused(directory.modify_dn(&b, "uid=a1", false, None), "uid: the uniqueness rule");
    // The values of one entry do not conflict with each other, so an entry may have one value in two types.
    ok(directory.modify(&a, &[(Replace, "mail", &["A@x", "a3@x"]), (Add, "uid", &["a"])]));
    ok(directory.modify(&b, &[(Add, "mail", &["a2@x"])]));
    ok(directory.modify(&a, &[(Delete, "mail", &["a@x"])]));
    ok(directory.modify(&b, &[(Add, "mail", &["a@x"])]));
    ok(directory.delete(&b));
    ok(directory.modify(&a, &[(Add, "mail", &["a@x", "a2@x"])]));
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn base_and_filter_apply_to_the_entry_after_the_change() {
    let rule = format!("mail: mail in '{PEOPLE}' matching '(employeeType=staff)'");
    let mut directory = directory(&[&rule]);
    let mail: &[&str] = &["a@x"];
    let staff: &[&str] = &["staff"];
    ok(add(&mut directory, "a", PEOPLE, &[("mail", mail), ("employeeType", staff)]));
    ok(add(&mut directory, "guest", PEOPLE, &[("mail", mail)]));
    ok(add(&mut directory, "out", OTHER, &[("mail", mail), ("employeeType", staff)]));
    let (guest, out) = (dn("guest", PEOPLE), dn("out", OTHER));
    refused(directory.modify(&guest, &[(Add, "employeeType", staff)]), "mail");
    refused(directory.modify_dn(&out, "cn=out", false, Some(PEOPLE)), "mail");
    // The mail and the value that the rule's filter tests change together.
    ok(directory.modify(&guest, &[(Add, "employeeType", staff), (Replace, "mail", &["g@x"])]));
    ok(directory.modify(&guest, &[(Delete, "employeeType", &[]), (Replace, "mail", mail)]));
    // A subtree enters the rule's base by a move or by a rename.
    let team = dn("in", &format!("ou=team,{OTHER}"));
    ok(directory.add(&format!("ou=team,{OTHER}"), &[("objectClass", &["organizationalUnit"])]));
    ok(add(&mut directory, "in", &format!("ou=team,{OTHER}"), &[("mail", mail), ("employeeType", staff)]));
    refused(directory.modify_dn(&format!("ou=team,{OTHER}"), "ou=team", true, Some(PEOPLE)), "mail");
    ok(directory.modify_dn(PEOPLE, "ou=former", true, None));
    refused(directory.modify_dn(OTHER, "ou=people", true, None), "mail");
    ok(directory.modify(&team, &[(Replace, "mail", &["t@x"])]));
    ok(directory.modify_dn(OTHER, "ou=people", true, None));
    let a = dn("a", "ou=former,dc=example,dc=com");
    refused(directory.modify_dn(&a, "cn=a", true, Some(PEOPLE)), "mail");
    ok(directory.modify(&a, &[(Replace, "mail", &["a9@x"])]));
    ok(directory.modify_dn(&a, "cn=a", true, Some(PEOPLE)));
}

#[test]
fn older_duplicates_stay_until_they_change() {
    let mut directory = directory(&[]);
    for name in ["a", "b"] {
        ok(add(&mut directory, name, PEOPLE, &[("mail", &["a@x"])]));
    }
    set(&mut directory, &["mail: mail"]);
    ok(directory.modify(&dn("a", PEOPLE), &[(Add, "description", &["x"])]));
    ok(directory.modify(&dn("a", PEOPLE), &[(Add, "mail", &["c@x"])]));
    ok(directory.modify(&dn("a", PEOPLE), &[(Delete, "mail", &["a@x"])]));
    refused(directory.modify(&dn("a", PEOPLE), &[(Add, "mail", &["a@x"])]), "mail");
}

/// The index contains only a hash and the beginning of a long value, so whole values must be compared.
#[test]
fn long_values_are_compared_whole() {
    let mut directory = directory(&["mail: mail"]);
    let long = |end: &str| format!("{}{end}", "x".repeat(3_000));
    ok(add(&mut directory, "a", PEOPLE, &[("mail", &[&long("a")])]));
    ok(add(&mut directory, "b", PEOPLE, &[("mail", &[&long("b")])]));
    refused(add(&mut directory, "c", PEOPLE, &[("mail", &[&long("B")])]), "mail");
}

#[test]
fn a_unique_rule_requires_a_complete_equality_index() {
    let mut directory = directory(&[]);
    ok(add(&mut directory, "a", PEOPLE, &[("employeeNumber", &["1"])]));
    let rule = |settings: &mut crate::DirectorySettings| {
        settings.general.unique = vec!["number: employeeNumber".to_owned()];
    };
    let text = |error: crate::settings::SettingsError| error.to_string();
    let without = directory.try_change_settings(rule).map_err(text).unwrap_err();
    assert!(without.contains("employeeNumber has no equality index"), "{without}");
    directory.define_index("employeeNumber", "equality");
    let early = directory.try_change_settings(rule).map_err(text).unwrap_err();
    assert!(early.contains("is not built yet"), "{early}");
    directory.finish_indexes();
    directory.change_settings(rule);
    refused(add(&mut directory, "b", PEOPLE, &[("employeeNumber", &["1"])]), "employeeNumber");
    let dropped = directory.try_change_settings(|settings| {
        settings.indexes.remove("employeeNumber");
    });
    assert!(dropped.is_err());
}

#[test]
fn wrong_rules_are_refused() {
    let mut directory = directory(&[]);
    for (rule, what) in [
        ("mail", "begins with its name and a colon"),
        ("a: nope", "nope is not defined"),
        ("a: userPassword", "is a secret"),
        ("a: member", "names of entries"),
        ("a: entryUUID", "determined by the server"),
        ("a: objectClass", "determined by the server"),
        ("a: mail, uid", "compared by different rules"),
        ("a: mail below 'o=x'", "unexpected \"below\""),
        ("a: mail in 'x'", "x"),
        ("a: mail matching '(nope=1)'", "nope"),
        ("a: mail matching '(memberOf=cn=x)'", "maintained by the server or names other entries"),
        ("a: mail matching '(cn:dn:=x)'", "may not test the names"),
        ("a: mail matching '(modifyTimestamp>=2020)'", ""),
        ("a: mail matching '(userPassword=*)'", "is a secret"),
    ] {
        let refused =
            directory.try_change_settings(|settings| settings.general.unique = vec![rule.to_owned()]);
        let refused = refused.expect_err(rule).to_string();
        assert!(refused.starts_with("unique[0]: ") && refused.contains(what), "{rule}: {refused}");
    }
    let twice = ["a: mail", "A: uid"].map(str::to_owned).to_vec();
    let refused = directory.try_change_settings(|settings| settings.general.unique = twice).unwrap_err();
    assert!(refused.to_string().contains("there is another rule"), "{refused}");
}

/// The error names the other entry only if the requester may read the value there. Otherwise the error reveals only
/// that an entry has the value.
#[test]
fn a_refusal_names_no_hidden_entry() {
    let mut directory = directory(&["mail: mail"]);
    ok(add(&mut directory, "seen", PEOPLE, &[("mail", &["seen@x"])]));
    ok(add(&mut directory, "half", PEOPLE, &[("mail", &["half@x"])]));
    ok(add(&mut directory, "hidden", OTHER, &[("mail", &["hidden@x"])]));
    ok(add(&mut directory, "me", PEOPLE, &[]));
    let (me, half) = (dn("me", PEOPLE), dn("half", PEOPLE));
    let rules = [
        "own: allow read, write to self".to_owned(),
        format!("people: allow read in '{PEOPLE}' to authenticated"),
        format!("half: deny read of mail at '{half}' to authenticated"),
    ];
    directory.change_settings(|settings| settings.general.access_rules = rules.to_vec());
    directory.requester = identify(&directory.snapshot, &format!("dn:{me}")).unwrap().unwrap().requester;
    let mut text = |value: &str| {
        let outcome = directory.modify(&me, &[(Add, "mail", &[value])]);
        assert_eq!(outcome.code, Code::CONSTRAINT_VIOLATION);
        outcome.diagnostic
    };
    assert!(text("seen@x").contains("\"cn=seen,"));
    let hidden = text("hidden@x");
    assert_eq!(hidden, text("half@x"));
    assert!(!hidden.contains("cn=") && !hidden.contains(SUFFIX), "{hidden}");
}

#[test]
fn values_beyond_limits_and_invalid_limits_are_refused() {
    let mut directory = directory(&[]);
    directory.change_settings(|settings| {
        settings.general.value_limits = [
            "phones: telephoneNumber, mobile at most 2 values like '[+][0-9 ]+'",
            "staff: description at most 5 octets matching '(employeeType=staff)'",
        ]
        .map(str::to_owned)
        .to_vec();
    });
    let many: &[&str] = &["+1", "+2", "+3"];
    refused(add(&mut directory, "a", PEOPLE, &[("mobile", many)]), "\"phones\" allows at most 2 values");
    refused(
        add(&mut directory, "a", PEOPLE, &[("mobile", &["+1x"])]),
        "allows only values like \"[+][0-9 ]+\"",
    );
    let values: &[(&str, &[&str])] = &[("mobile", &["+1", "+2"]), ("description", &["longer"])];
    ok(add(&mut directory, "a", PEOPLE, values));
    let a = dn("a", PEOPLE);
    refused(directory.modify(&a, &[(Add, "mobile;x-b", &["+3"])]), "mobile: the value limit");
    ok(directory.modify(&a, &[(Add, "telephoneNumber", &["+3"]), (Delete, "mobile", &["+1"])]));
    ok(directory.modify(&a, &[(Add, "mobile", &["+3"])]));
    ok(directory.modify(&a, &[(Add, "description", &["longer still"])]));
    refused(directory.modify(&a, &[(Add, "employeeType", &["staff"])]), "values of at most 5 octets");
    ok(directory.modify(&a, &[(Add, "employeeType", &["staff"]), (Replace, "description", &["short"])]));
    refused(directory.modify(&a, &[(Replace, "description", &["longer"])]), "\"staff\"");
    for (rule, what) in [
        ("a: mail", "expected \"at most\", \"like\" or \"from\""),
        ("a: mail at most x values", "is not a number"),
        ("a: mail like '('", "mail"),
        ("a: member at most 3 values", "names other entries"),
        ("a: mail at most 3 values in 'o=x'", "use a filter"),
        ("a: mail from 'mail'", "is not an LDAP URL"),
        ("a: mail from 'ldap://host/o=x?uid?sub'", "has a host"),
        ("a: mail from 'ldap:///o=x??sub'", "does not name one attribute"),
        ("a: mail from 'ldap:///?uid?one'", "has the empty DN"),
        ("a: mail from 'ldap:///o=x?member?sub'", "names other entries"),
        ("a: mail from 'ldap:///o=x?title?sub'", "title has no equality index"),
    ] {
        let rules = vec![rule.to_owned()];
        let refused = directory.try_change_settings(|settings| settings.general.value_limits = rules);
        let refused = refused.expect_err(rule).to_string();
        assert!(refused.starts_with("value_limits[0]: ") && refused.contains(what), "{rule}: {refused}");
    }
}

/// Values that violate a new limit are counted before the limit takes effect.
#[test]
fn older_values_beyond_limits_are_counted() {
    let mut directory = directory(&[]);
    for name in ["a", "b", "c", "d"] {
        let values: &[(&str, &[&str])] = &[("mobile", &["+1", "x"]), ("employeeType", &[name])];
        ok(add(&mut directory, name, PEOPLE, values));
    }
    let mut settings = crate::DirectorySettings::of(directory.snapshot.state().catalog);
    let rules =
        ["phones: mobile like '[+][0-9]+' matching '(!(employeeType=d))'", "few: mobile at most 1 value"];
    settings.general.value_limits = rules.map(str::to_owned).to_vec();
    let texts = crate::violations::violations(directory.snapshot.state(), &settings).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| dn(name, PEOPLE));
    let examples = format!("\"{a}\", \"{b}\", \"{c}\"");
    assert_eq!(
        texts,
        [
            format!(
                "4 entries break a rule: mobile: the value limit \"few\" allows at most 1 values: {examples}, and so on"
            ),
            format!(
                "3 entries break a rule: mobile: the value limit \"phones\" allows only values like \
                 \"[+][0-9]+\": {examples}"
            ),
        ]
    );
}

/// A value is allowed if an entry of the source has the same value when the value is added.
#[test]
fn values_are_limited_to_those_of_other_entries() {
    let mut directory = directory(&[]);
    let rule = |scope: &str| {
        format!("places: l from 'ldap:///{OTHER}?cn?{scope}?(title=place)' matching '(!(employeeType=free))'")
    };
    directory.change_settings(|settings| settings.general.value_limits = vec![rule("one")]);
    let place: &[(&str, &[&str])] = &[("title", &["place"]), ("cn", &["Bern", "Basel"])];
    let text = "l: the value limit \"places\" allows only values that cn has in certain entries";
    refused(add(&mut directory, "a", PEOPLE, &[("l", &["Bern"])]), text);
    ok(add(&mut directory, "Bern", OTHER, place));
    ok(add(&mut directory, "Chur", OTHER, &[]));
    ok(add(&mut directory, "Genf", PEOPLE, &[("title", &["place"])]));
    ok(add(&mut directory, "a", PEOPLE, &[("l", &["BERN", "basel"])]));
    for wrong in ["Chur", "Genf", "Sion"] {
        refused(directory.modify(&dn("a", PEOPLE), &[(Add, "l", &[wrong])]), text);
    }
    ok(add(&mut directory, "b", PEOPLE, &[("l", &["Sion"]), ("employeeType", &["free"])]));
    refused(directory.modify(&dn("b", PEOPLE), &[(Delete, "employeeType", &[])]), text);
    // A value stays after the entry that allowed it is deleted. Such a value is counted as a violation.
    ok(directory.delete(&dn("Bern", OTHER)));
    ok(directory.modify(&dn("a", PEOPLE), &[(Add, "title", &["x"])]));
    refused(directory.modify(&dn("a", PEOPLE), &[(Replace, "l", &["basel", "bern"])]), text);
    let settings = crate::DirectorySettings::of(directory.snapshot.state().catalog);
    let texts = crate::violations::violations(directory.snapshot.state(), &settings).unwrap();
    assert_eq!(texts, [format!("1 entry breaks a rule: {text}: \"{}\"", dn("a", PEOPLE))]);
    for (scope, allows) in [("base", false), ("sub", true), ("subord", true)] {
        directory.change_settings(|settings| settings.general.value_limits = vec![rule(scope)]);
        let name = format!("in-{scope}");
        ok(add(&mut directory, &name, OTHER, &[("title", &["place"])]));
        let outcome = add(&mut directory, &format!("of-{scope}"), PEOPLE, &[("l", &[name.as_str()])]);
        assert_eq!(outcome.code == Code::SUCCESS, allows, "{scope}: {}", outcome.diagnostic);
    }
}
