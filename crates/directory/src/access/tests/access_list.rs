//! Lists of the rules about a right, for all requesters.

use ldap::{ALL_REQUESTERS, AccessQuestion, ResultCode};

use super::{PEOPLE, STAFF, act_as, ok, person, sample, set_rules};
use crate::read::access_question;
use crate::testing::{SUFFIX, TestDirectory};

fn question<'a>(right: &'a str, entry: &'a str, attribute: Option<&'a str>) -> AccessQuestion<'a> {
    AccessQuestion {
        requester: ALL_REQUESTERS,
        right,
        entry,
        attribute,
        address: None,
        over_tls: false,
        bound_by: None,
        time: None,
        listener: None,
    }
}

/// Returns the lines about rules and requesters, without the texts of the rules. Also returns the notes.
#[track_caller]
fn listed(
    directory: &TestDirectory,
    right: &str,
    entry: &str,
    attribute: Option<&str>,
) -> (Vec<String>, String) {
    let question = question(right, entry, attribute);
    let list = access_question::list(directory.snapshot.state(), &directory.requester, &question).unwrap();
    let lines = list.to_lines();
    let notes: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("note\t")).collect();
    let shown = lines.lines().skip(1).filter(|line| !line.starts_with("note\t"));
    let short = |line: &str| {
        let fields = if line.starts_with("who\t") { 4 } else { 3 };
        line.split('\t').take(fields).collect::<Vec<_>>().join(" ")
    };
    (shown.map(short).collect(), notes.join("; "))
}

#[test]
fn an_access_list_contains_each_rule_of_a_right_and_its_targets() {
    let mut directory = sample();
    let anna = person("anna", PEOPLE);
    set_rules(
        &mut directory,
        &[
            "names: allow read of cn, sn to anyone",
            &format!("pay: allow read of employeeNumber in '{PEOPLE}' to user '{anna}', authenticated"),
            &format!(
                "staff: allow read of employeeNumber in '{STAFF}' to group 'cn=inner,ou=groups,{SUFFIX}'"
            ),
            "own: allow read of employeeNumber to self, named by manager",
            "guests: deny read of employeeNumber to anonymous, user 'uid=guest,dc=example,dc=com'",
            &format!("others: allow write of employeeNumber in '{SUFFIX}' but not in '{STAFF}' to anyone"),
        ],
    );
    act_as(&mut directory, "cn=admin");
    let number = Some("employeeNumber");
    let (rules, notes) = listed(&directory, "read", PEOPLE, number);
    let expected = [
        "allow here 2".to_owned(),
        format!("who user {anna} "),
        "who authenticated  ".to_owned(),
        "allow below 3".to_owned(),
        format!("who group cn=inner,ou=groups,{SUFFIX} "),
        "allow here 4".to_owned(),
        "who self  ".to_owned(),
        "who named  ".to_owned(),
        "deny here 5".to_owned(),
        "who anonymous  ".to_owned(),
        "who user uid=guest,dc=example,dc=com ".to_owned(),
    ];
    assert_eq!((rules, notes.as_str()), (expected.to_vec(), ""));
    // A rule is not listed for an entry outside the rule's place. A rule for the entries below is not listed for a
    // leaf.
    let of = |entry: &str, right: &str| {
        let rules = listed(&directory, right, entry, number).0;
        rules.into_iter().filter(|line| !line.starts_with("who")).collect::<Vec<_>>()
    };
    assert_eq!(of(&format!("ou=groups,{SUFFIX}"), "read"), ["allow here 4", "deny here 5"]);
    assert_eq!(of(&person("bert", STAFF), "write"), [""; 0]);
    assert_eq!(of(PEOPLE, "write"), ["allow here 6"]);
    assert_eq!(of(SUFFIX, "search"), ["allow below 2", "allow below 3", "allow here 4", "deny here 5"]);
}

#[test]
fn an_access_list_names_the_overriding_denial_and_evaluates_filters() {
    let mut directory = sample();
    let bert = person("bert", STAFF);
    set_rules(
        &mut directory,
        &[
            "all: allow read to anyone, self",
            "office: deny read of mail to anyone from '10.0.0.0/8'",
            "work: deny read of mail values matching '(mail=*@example.com)' to anyone",
            "bert: deny read of mail matching '(uid=bert)' to authenticated",
            "hidden: deny browse at 'cn=inner,ou=groups,dc=example,dc=com' to anyone",
        ],
    );
    act_as(&mut directory, "cn=admin");
    let (rules, _) = listed(&directory, "read", &bert, Some("mail"));
    let expected =
        ["allow here 1", "who anyone  ", "who self  4", "deny here 2", "who anyone  ", "deny here 3"];
    assert_eq!(rules[..6], expected, "{rules:?}");
    let (rules, _) = listed(&directory, "read", &person("carl", STAFF), Some("mail"));
    assert!(
        rules.contains(&"who self  ".to_owned()) && !rules.contains(&"deny here 4".to_owned()),
        "{rules:?}"
    );
    let (rules, _) = listed(&directory, "browse", &format!("cn=inner,ou=groups,{SUFFIX}"), None);
    assert_eq!(rules[..3], ["allow here 1", "who anyone  5", "who self  5"]);
}

#[test]
fn an_access_list_notes_limits_that_are_not_access_rules() {
    let mut directory = sample();
    act_as(&mut directory, "cn=admin");
    // Without rules in the settings, the default rules are listed.
    let (rules, notes) = listed(&directory, "write", SUFFIX, Some("userPassword"));
    assert_eq!(rules, ["allow here 0", "who self  "]);
    assert!(notes.contains("anonymous clients cannot change") && notes.contains("by reset"), "{notes}");
    for (right, attribute, note) in [
        ("read", "userPassword", "is a secret: no rule permits to read it"),
        ("compare", "userPassword", "password_comparers"),
    ] {
        let (rules, notes) = listed(&directory, right, SUFFIX, Some(attribute));
        assert!(rules.is_empty() && notes.contains(note), "{right}: {notes}");
    }
    assert!(listed(&directory, "search", SUFFIX, Some("objectClass")).1.contains("wherever"));
    let seen = "seen: allow read of cn where seen to authenticated";
    set_rules(&mut directory, &[seen, "all: allow browse to authenticated"]);
    assert!(listed(&directory, "read", SUFFIX, Some("cn")).1.contains("entries that are seen"));
}

#[test]
fn an_access_list_requires_the_right_to_explain_the_entry() {
    let mut directory = sample();
    let (anna, bert) = (person("anna", PEOPLE), person("bert", STAFF));
    set_rules(
        &mut directory,
        &[
            &format!("anna: allow explain, read at '{PEOPLE}' to user '{anna}'"),
            &format!("staff: allow read in '{STAFF}' to authenticated"),
        ],
    );
    act_as(&mut directory, &anna);
    let (rules, _) = listed(&directory, "read", PEOPLE, Some("mail"));
    assert_eq!(rules, ["allow here 1".to_owned(), format!("who user {anna} ")], "only of the entry itself");
    let refused = |entry: &str, right: &str| {
        let question = question(right, entry, Some("mail").filter(|_| right == "read"));
        access_question::list(directory.snapshot.state(), &directory.requester, &question).unwrap_err().code
    };
    assert_eq!(refused(&bert, "read"), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    assert_eq!(refused(SUFFIX, "read"), ResultCode::NO_SUCH_OBJECT);
    assert_eq!(refused(PEOPLE, "use"), ResultCode::PROTOCOL_ERROR);
    act_as(&mut directory, "cn=admin");
    ok(&mut directory, |of| of.delete(&person("carl", STAFF)));
    let missing = question("read", "uid=carl,ou=staff,ou=people,dc=example,dc=com", Some("mail"));
    let found = access_question::list(directory.snapshot.state(), &directory.requester, &missing);
    assert_eq!(found.unwrap_err().code, ResultCode::NO_SUCH_OBJECT);
}
