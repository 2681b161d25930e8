//! Rules about single values.

use std::fmt::Write as _;

use ldap::{ChangeOperation, DerefAliases, FilterBuf, ResultCode, Scope, SearchRequest, SelectionBuf};

use super::{PEOPLE, STAFF, act_as, compared, directory_with, ok, person, sample, search_all, set_rules};
use crate::controls::{RareControls, RequestControls};
use crate::testing::{Found, SUFFIX, TestDirectory};

const NONE_ALLOWS: ResultCode = ResultCode::INSUFFICIENT_ACCESS_RIGHTS;

/// Returns a directory in which bert has three addresses, one of which all requesters see. No requester sees the
/// addresses of carl.
fn addresses(rules: &[&str]) -> TestDirectory {
    let mut directory = sample();
    let more = [(ChangeOperation::Add, "mail", &["bert@home.example", "B.Person@Example.com"][..])];
    ok(&mut directory, |of| of.modify(&person("bert", STAFF), &more));
    let other = [(ChangeOperation::Replace, "mail", &["carl@home.example"][..])];
    ok(&mut directory, |of| of.modify(&person("carl", STAFF), &other));
    set_rules(&mut directory, rules);
    act_as(&mut directory, &person("anna", PEOPLE));
    directory
}

#[test]
fn unreadable_values_are_absent_from_every_answer() {
    let bert = person("bert", STAFF);
    for rules in [
        &[
            "all: allow read of uid, cn to authenticated",
            "work: allow read of mail values matching '(mail=*@EXAMPLE.com)' to authenticated",
        ][..],
        &[
            "all: allow read to authenticated",
            "home: deny read of mail values matching '(!(mail=*@example.com))' to authenticated",
        ],
    ] {
        let mut directory = addresses(rules);
        let mut texts = search_all(&mut directory, "(uid=bert)").entries[0].texts("mail");
        texts.sort();
        assert_eq!(texts, ["B.Person@Example.com", "bert@example.com"], "{rules:?}");
        let carl = directory.search(&person("carl", STAFF), Scope::BaseObject, "(objectClass=*)", &["mail"]);
        assert!(carl.entries[0].attributes.is_empty(), "{rules:?}");
        let of_bert = [bert.as_str()];
        for (filter, expected) in [
            ("(&(uid=bert)(mail=BERT@example.com))", &of_bert[..]),
            ("(&(uid=bert)(mail=*.person@*))", &of_bert),
            ("(&(uid=bert)(mail=*))", &of_bert),
            ("(&(uid=bert)(mail:caseIgnoreIA5Match:=bert@example.com))", &of_bert),
            ("(mail=bert@home.example)", &[]),
            ("(mail=*home*)", &[]),
            ("(&(uid=carl)(mail=*))", &[]),
            ("(&(uid=carl)(!(mail=*)))", &[]),
            ("(&(uid=bert)(!(mail=bert@home.example)))", &[]),
            ("(&(uid=bert)(!(mail=nobody@example.com)))", &[]),
            ("(&(uid=bert)(|(mail=bert@home.example)(cn=bert)))", &of_bert),
        ] {
            assert_eq!(search_all(&mut directory, filter).dns(), expected, "{filter} under {rules:?}");
        }
        let is_like = |value: &str| compared(&directory, &bert, "mail", value).0;
        assert_eq!(is_like("b.person@example.com"), ResultCode::COMPARE_TRUE);
        assert_eq!(is_like("nobody@example.com"), ResultCode::COMPARE_FALSE);
        assert_eq!(
            is_like("bert@home.example"),
            ResultCode::COMPARE_FALSE,
            "the same result as for a value that does not exist"
        );
        let of_carl = |value: &str| compared(&directory, &person("carl", STAFF), "mail", value);
        assert_eq!(of_carl("carl@home.example").0, ResultCode::NO_SUCH_ATTRIBUTE);
        assert_eq!(of_carl("carl@home.example"), of_carl("carl@example.com"));
    }
}

/// Regression test: compare checked the rights over the named type only, and revealed its subtypes.
#[test]
fn a_supertype_reveals_nothing_of_denied_subtypes() {
    let mut directory =
        directory_with(&["all: allow read to authenticated", "cn: deny compare of cn to authenticated"]);
    act_as(&mut directory, &person("anna", PEOPLE));
    let bert = person("bert", STAFF);
    assert_eq!(compared(&directory, &bert, "name", "bert").0, ResultCode::COMPARE_FALSE);
    assert_eq!(compared(&directory, &bert, "name", "person").0, ResultCode::COMPARE_TRUE, "its sn");
    set_rules(
        &mut directory,
        &["all: allow read to authenticated", "names: deny compare of cn, sn, ou to authenticated"],
    );
    assert_eq!(compared(&directory, &bert, "name", "person").0, ResultCode::NO_SUCH_ATTRIBUTE);
}

#[test]
fn only_values_that_match_the_rule_may_be_written() {
    let mut directory = addresses(&[
        "all: allow read to authenticated",
        "work: allow write of mail values matching '(mail=*@example.com)' to authenticated",
        "classes: allow write of objectClass values matching '(objectClass=posixAccount)' to authenticated",
        "numbers: allow write of uidNumber, gidNumber, homeDirectory to authenticated",
    ]);
    let bert = person("bert", STAFF);
    let mut code = |operation, attribute, values: &[&str]| {
        directory.modify(&bert, &[(operation, attribute, values)]).code
    };
    use ChangeOperation::{Add, Delete, Replace};
    assert_eq!(code(Add, "mail", &["new@example.com"]), ResultCode::SUCCESS);
    assert_eq!(code(Add, "mail", &["new@elsewhere.example"]), NONE_ALLOWS);
    assert_eq!(code(Add, "mail", &["newer@example.com", "new@elsewhere.example"]), NONE_ALLOWS);
    assert_eq!(code(Delete, "mail", &["NEW@EXAMPLE.COM"]), ResultCode::SUCCESS);
    assert_eq!(code(Delete, "mail", &["bert@home.example"]), NONE_ALLOWS);
    assert_eq!(code(Delete, "mail", &["nobody@home.example"]), NONE_ALLOWS, "the value does not exist");
    assert_eq!(code(Delete, "mail", &[]), NONE_ALLOWS, "one of the values may not be written");
    assert_eq!(code(Replace, "mail", &["bert@example.com"]), NONE_ALLOWS, "it removes a value");
    // A replace may keep a value that the requester may not write, but only in its present spelling.
    assert_eq!(code(Replace, "mail", &["bert@home.example", "b@example.com"]), ResultCode::SUCCESS);
    assert_eq!(code(Replace, "mail", &["BERT@home.example", "b@example.com"]), NONE_ALLOWS);
    assert_eq!(code(Add, "objectClass", &["domainRelatedObject"]), NONE_ALLOWS);
    let account = [
        (Add, "objectClass", &["posixAccount"][..]),
        (Add, "uidNumber", &["1"]),
        (Add, "gidNumber", &["1"]),
        (Add, "homeDirectory", &["/home/bert"]),
    ];
    ok(&mut directory, |of| of.modify(&bert, &account));
    // The same applies to values that the requester may not read. A replace that contains a hidden value reveals
    // nothing.
    set_rules(
        &mut directory,
        &[
            "all: allow read of uid to authenticated",
            "work: allow read, write of mail values matching '(mail=*@example.com)' to authenticated",
        ],
    );
    let mut code = |values: &[&str]| directory.modify(&bert, &[(Replace, "mail", values)]).code;
    assert_eq!(code(&["bert@home.example", "b@example.com"]), NONE_ALLOWS);
    assert_eq!(code(&["nobody@home.example", "b@example.com"]), NONE_ALLOWS);
    // A replace of more values than the server compares one by one is refused.
    act_as(&mut directory, "cn=admin");
    let many: Vec<String> = (0..1_001).map(|number| format!("{number}@example.com")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    ok(&mut directory, |of| of.modify(&bert, &[(Replace, "mail", &many)]));
    act_as(&mut directory, &person("anna", PEOPLE));
    let outcome = directory.modify(&bert, &[(Replace, "mail", &["b@example.com"])]);
    assert_eq!(outcome.code, NONE_ALLOWS);
    assert!(outcome.diagnostic.contains("more than 1000 values"), "{}", outcome.diagnostic);
    ok(&mut directory, |of| of.modify(&bert, &[(Delete, "mail", &many[1..])]));
    ok(&mut directory, |of| of.modify(&bert, &[(Replace, "mail", &["b@example.com"])]));
}

#[test]
fn increments_need_the_right_to_write_both_values() {
    let mut directory = sample();
    let bert = person("bert", STAFF);
    let account = [
        (ChangeOperation::Add, "objectClass", &["posixAccount"][..]),
        (ChangeOperation::Add, "uidNumber", &["8"]),
        (ChangeOperation::Add, "gidNumber", &["1"]),
        (ChangeOperation::Add, "homeDirectory", &["/home/bert"]),
    ];
    ok(&mut directory, |of| of.modify(&bert, &account));
    set_rules(
        &mut directory,
        &[
            "all: allow read to authenticated",
            "few: allow write of uidNumber values matching '(uidNumber<=9)' to authenticated",
        ],
    );
    act_as(&mut directory, &person("anna", PEOPLE));
    let up = [(ChangeOperation::Increment, "uidNumber", &["1"][..])];
    ok(&mut directory, |of| of.modify(&bert, &up));
    assert_eq!(directory.modify(&bert, &up).code, NONE_ALLOWS, "to 10");
    assert_eq!(search_all(&mut directory, "(uid=bert)").entries[0].texts("uidNumber"), ["9"]);
}

fn names_only(directory: &mut TestDirectory, dn: &str) -> Found {
    let filter = FilterBuf::parse("(objectClass=*)").unwrap();
    let mut selection = SelectionBuf::new();
    selection.push("*");
    let mut request = SearchRequest::new(dn, Scope::BaseObject, filter.as_filter(), selection.as_selection());
    request.types_only = true;
    request.deref_aliases = DerefAliases::Never;
    directory.search_request(&request, &RequestControls::default())
}

#[test]
fn an_entry_with_many_values_returns_those_that_match() {
    // In the first case, the values are in the entry row. In the second case, each value has a row. In the third case,
    // the values are so large that the response is sent as a stream.
    for (count, pad) in [(10, 1), (3_000, 1), (3_000, 900)] {
        let mut directory = sample();
        let bert = person("bert", STAFF);
        let value = |kind: &str, number: usize| {
            let mut text = format!("{kind} {number} ");
            write!(text, "{:x>pad$}", "").unwrap();
            text
        };
        let values: Vec<String> =
            (0..count).flat_map(|number| [value("open", number), value("secret", number)]).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        ok(&mut directory, |of| of.modify(&bert, &[(ChangeOperation::Replace, "description", &values)]));
        let no_title = [(ChangeOperation::Replace, "title", &["secret"][..])];
        ok(&mut directory, |of| of.modify(&bert, &no_title));
        set_rules(
            &mut directory,
            &[
                "all: allow read to authenticated",
                "d: deny read of description values matching '(description=secret*)' to authenticated",
                "t: deny read of title values matching '(title=secret)' to authenticated",
            ],
        );
        act_as(&mut directory, &person("anna", PEOPLE));
        let found = directory.search(&bert, Scope::BaseObject, "(objectClass=*)", &["*"]);
        let mut shown = found.entries[0].texts("description");
        let mut expected: Vec<String> = (0..count).map(|number| value("open", number)).collect();
        shown.sort();
        expected.sort();
        assert!(shown == expected, "{count} of {pad}: {} shown", shown.len());
        assert!(found.entries[0].texts("title").is_empty(), "{count} of {pad}");
        assert_eq!(found.entries[0].texts("mail"), ["bert@example.com"]);
        let names = names_only(&mut directory, &bert);
        let named = |name: &str| names.entries[0].attributes.contains_key(name);
        assert!(named("description") && named("mail") && !named("title"), "{count} of {pad}");
        for (kind, count) in [("open", 1), ("secret", 0)] {
            let filter = format!("(description={})", value(kind, 7).trim_end());
            assert_eq!(search_all(&mut directory, &filter).dns().len(), count, "{kind}");
        }
        // If no value is visible, the attribute seems absent.
        set_rules(
            &mut directory,
            &[
                "all: allow read to authenticated",
                "d: allow read of description values matching '(description=none*)' to authenticated",
                "not: deny read of description values matching '(!(description=none*))' to authenticated",
            ],
        );
        let found = directory.search(&bert, Scope::BaseObject, "(objectClass=*)", &["*"]);
        assert!(!found.entries[0].attributes.contains_key("description"), "{count} of {pad}");
        let names = names_only(&mut directory, &bert);
        assert!(!names.entries[0].attributes.contains_key("description"), "{count} of {pad}");
        assert_eq!(directory.search(SUFFIX, Scope::WholeSubtree, "(description=*)", &["1.1"]).dns().len(), 0);
    }
}

#[test]
fn invalid_value_filters_in_rules_are_refused() {
    let mut directory = sample();
    for (of, expected) in [
        ("mail values matching '(cn=a)'", "cn is not the attribute of the rule, mail"),
        ("mail values matching '(mail;lang-en=a)'", "mail;lang-en is not the attribute"),
        ("mail values matching '(mail=*)'", "can use equality, substrings, >= and <="),
        ("cn values matching '(cn~=a)'", "can use equality"),
        ("cn values matching '(cn:caseExactMatch:=a)'", "can use equality, substrings, >= and <="),
        ("mail values matching '(&(mail=a)(uid=b))'", "uid is not the attribute"),
        ("userPassword values matching '(userPassword=a)'", "secret"),
        ("member values matching '(member=cn=a)'", "names of entries"),
        ("memberOf values matching '(memberOf=cn=a)'", "computed on demand"),
        ("distinguishedName values matching '(distinguishedName=cn=a)'", "names of entries"),
        ("objectClass values matching '(objectClass=person)'", "every filter may test objectClass"),
        ("nonsense values matching '(nonsense=a)'", "nonsense is not an attribute type"),
        ("mail values matching 'mail=a'", "not a filter"),
    ] {
        let text = format!("x: allow read of {of} to anyone");
        let error = directory
            .try_change_settings(|settings| settings.general.access_rules = vec![text.clone()])
            .expect_err(&text);
        assert!(format!("{error:?}").contains(expected), "{text}: {error:?}");
    }
}

#[test]
fn matched_values_are_limited_to_readable_ones() {
    let mut directory = addresses(&[
        "all: allow read of uid to authenticated",
        "work: allow read of mail values matching '(mail=*@example.com)' to authenticated",
        "groups: allow browse, search, compare of member to authenticated",
    ]);
    let mut read = |items: &[&str]| {
        let matched_values = items.iter().map(|item| FilterBuf::parse(item).unwrap()).collect();
        let seldom = Some(Box::new(RareControls { matched_values, ..RareControls::default() }));
        let controls = RequestControls { seldom, ..RequestControls::default() };
        let filter = FilterBuf::parse("(uid=bert)").unwrap();
        let selection = SelectionBuf::from_iter(["*", "+"]);
        let request =
            SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
        let found = directory.search_request(&request, &controls);
        assert_eq!((found.code, found.entries.len()), (ResultCode::SUCCESS, 1));
        found.entries.into_iter().next().unwrap()
    };
    assert_eq!(read(&["(mail=*)"]).texts("mail").len(), 2);
    assert_eq!(read(&["(mail=b.person@example.com)"]).texts("mail"), ["B.Person@Example.com"]);
    for hidden in ["(mail=*home*)", "(mail=bert@home.example)", "(cn=*)", "(sn=person)", "(memberOf=*)"] {
        assert!(read(&[hidden]).attributes.is_empty(), "{hidden}");
    }
}
