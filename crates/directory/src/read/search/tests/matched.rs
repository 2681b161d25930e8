//! Tests of the matched values control (RFC 3876).

use ldap::{FilterBuf, ResultCode, Scope};

use super::large::with_large_group;
use super::{Question, add, sample};
use crate::catalog::Shown;
use crate::filter::{Compiler, InMemory, Matcher, Truth};
use crate::model::limits::GATHERED_MAX;
use crate::read::controls::{RareControls, RequestControls};
use crate::testing::{Entry, Found, SUFFIX, TestDirectory};

fn with_matched_values(items: &[&str]) -> RequestControls {
    let matched_values = items.iter().map(|item| FilterBuf::parse(item).unwrap()).collect();
    let seldom = Some(Box::new(RareControls { matched_values, ..RareControls::default() }));
    RequestControls { seldom, ..RequestControls::default() }
}

fn run(directory: &TestDirectory, filter: &str, attributes: &[&str], items: &[&str]) -> Found {
    let controls = with_matched_values(items);
    let found = Question { controls, ..Question::everywhere(filter).attributes(attributes) }.run(directory);
    assert_eq!(found.code, ResultCode::SUCCESS, "{}", found.diagnostic);
    found
}

/// Returns the entry with this uid or cn.
fn find_one(directory: &TestDirectory, name: &str, attributes: &[&str], items: &[&str]) -> Entry {
    let mut found = run(directory, &format!("(|(uid={name})(cn={name}))"), attributes, items);
    assert_eq!(found.entries.len(), 1);
    found.entries.remove(0)
}

#[test]
fn only_values_that_match_an_item_are_returned() {
    let mut directory = sample();
    // The first example of RFC 3876.
    let sean = [
        ("objectClass", &["inetOrgPerson"][..]),
        ("sn", &["Mullan"]),
        ("mail", &["sean.mullan@hotmail.com", "mullan@east.sun.com"]),
        ("telephoneNumber", &["+ 781 442 0926", "555-9999"]),
    ];
    add(&mut directory, "cn=Sean Mullan,ou=people,dc=example,dc=com", &sean);
    let items = ["(mail=*hotmail.com)", "(telephoneNumber=*)"];
    for attributes in [&["mail", "telephoneNumber"][..], &["*"], &[], &["*", "+"]] {
        let found = find_one(&directory, "Sean Mullan", attributes, &items);
        assert_eq!(found.attributes.len(), 2, "{found:?}");
        assert_eq!(found.texts("mail"), ["sean.mullan@hotmail.com"]);
        assert_eq!(found.texts("telephoneNumber"), ["+ 781 442 0926", "555-9999"]);
    }
    // The control does not change which entries the filter selects. It does not change results without attributes or
    // with types only.
    assert_eq!(run(&directory, "(mail=*sun.com)", &["1.1"], &items).entries.len(), 1);
    let controls = with_matched_values(&items);
    let question =
        Question { types_only: true, ..Question::everywhere("(sn=Mullan)").attributes(&["cn", "mail"]) };
    let types = Question { controls, ..question }.run(&directory);
    assert_eq!(types.entries[0].attributes.keys().collect::<Vec<_>>(), ["cn", "mail"]);

    let ada = |attributes: &[&str], items: &[&str]| find_one(&directory, "ada", attributes, items).attributes;
    let texts = |attributes: &[&str], items: &[&str], name: &str| {
        find_one(&directory, "ada", attributes, items).texts(name)
    };
    assert_eq!(
        texts(&["*"], &["(description=*daughter)", "(description=MATHEMATICIAN)"], "description").len(),
        2
    );
    assert_eq!(texts(&["*"], &["(givenName=augusta)"], "givenName"), ["Augusta"]);
    // Subtypes and options are included with their type, and keep their names.
    let named = ada(&["name", "cn;lang-fr"], &["(name=*ada*)"]);
    assert_eq!(named.keys().collect::<Vec<_>>(), ["cn", "cn;lang-fr", "givenName"]);
    assert_eq!(ada(&["cn"], &["(cn;lang-fr=*)"]).keys().collect::<Vec<_>>(), ["cn;lang-fr"]);
    // An item on objectClass matches the stored value, not a superclass of it.
    assert_eq!(texts(&["objectClass"], &["(objectClass=inetOrgPerson)"], "objectClass"), ["inetOrgPerson"]);
    assert!(ada(&["objectClass"], &["(objectClass=person)"]).is_empty());
    assert!(!ada(&["objectClass"], &["(objectClass=*)"]).is_empty());
    // Items on virtual attributes match values too. Items that are Undefined, or that no value meets, match nothing.
    let groups = ["(memberOf=CN=few,ou=groups,dc=example,dc=com)"];
    assert_eq!(texts(&["memberOf"], &groups, "memberOf"), ["cn=few,ou=groups,dc=example,dc=com"]);
    assert_eq!(texts(&["entryDN", "sn"], &["(entryDN=*)"], "entryDN").len(), 1);
    for items in [&["(nonsense=*)"][..], &["(sn=Lovelace*x)", "(uidNumber>=0)"], &["(userPassword=*)"]] {
        assert!(ada(&["sn", "cn"], items).is_empty(), "{items:?}");
    }
    // An item with only a rule tests all types to which the rule applies.
    let by_rule = ada(&["*"], &["(:caseExactMatch:=Lovelace)"]);
    assert_eq!(by_rule.keys().collect::<Vec<_>>(), ["sn"]);
}

/// The second example of RFC 3876, and the root DSE.
#[test]
fn matched_values_apply_to_the_root_dse_and_the_subschema() {
    let directory = sample();
    let read = |base, attributes: &[&str], items: &[&str]| {
        let controls = with_matched_values(items);
        let question = Question::new(base, Scope::BaseObject, "(objectClass=*)").attributes(attributes);
        Question { controls, ..question }.run(&directory).entries.remove(0)
    };
    let found = read("cn=subschema", &["attributeTypes", "objectClasses"], &["(attributeTypes=2.5.4.3)"]);
    assert_eq!(found.attributes.len(), 1);
    let types = found.texts("attributeTypes");
    assert!(types.len() == 1 && types[0].contains("'cn'"), "{types:?}");
    let root = read(
        "",
        &["supportedControl", "namingContexts"],
        &["(namingContexts=*)", "(supportedControl=1.2.3)"],
    );
    assert_eq!(root.texts("namingContexts"), [SUFFIX]);
    assert_eq!(root.attributes.len(), 1);
}

#[test]
fn a_member_of_a_large_group_is_found_by_its_key() {
    let mut directory = with_large_group();
    let numbers: Vec<String> = (0..100).map(|number| format!("{number:05}{}", "x".repeat(5_000))).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    assert!(numbers.iter().map(|number| number.len()).sum::<usize>() > GATHERED_MAX);
    let device = [("objectClass", &["device"][..]), ("description", &numbers)];
    add(&mut directory, "cn=box,dc=example,dc=com", &device);
    let members =
        |items: &[&str]| find_one(&directory, "large", &["member", "description"], items).texts("member");
    let ghost = "cn=ghost number 00001,ou=nowhere,dc=example,dc=com";
    let bob = "uid=bob,ou=people,dc=example,dc=com";
    assert_eq!(members(&["(member=UID=Bob, ou=People,dc=example,dc=com)"]), [bob]);
    assert_eq!(members(&["(member=cn=Ghost Number 00001,ou=nowhere,dc=example,dc=com)"]), [ghost]);
    let both = [
        "(member=uid=bob,ou=people,dc=example,dc=com)",
        "(member=cn=ghost number 00001,ou=nowhere,dc=example,dc=com)",
    ];
    assert_eq!(members(&both), [bob, ghost]);
    assert_eq!(members(&[both[0], both[0], "(uniqueMember=*)"]), [bob], "once");
    assert!(members(&["(member=cn=nobody,dc=example,dc=com)"]).is_empty());
    assert!(members(&["(member=cn=all,ou=groups,dc=example,dc=com)"]).is_empty(), "an entry, and no member");
    // If all values match, or if values must be scanned, the result is sent as a stream.
    let all = members(&["(member=*)"]);
    assert_eq!(all.len(), 6_003);
    let found = find_one(&directory, "large", &["*"], &["(member=*)", "(description=D)"]);
    assert_eq!((found.attributes.len(), found.texts("member")), (2, all));
    let some =
        members(&["(member:distinguishedNameMatch:=cn=ghost number 00001,ou=nowhere,dc=example,dc=com)"]);
    assert_eq!(some, [ghost]);
    let texts = |items: &[&str]| find_one(&directory, "box", &["*"], items);
    let found = texts(&["(description=0004*)", "(cn=box)"]);
    assert_eq!((found.texts("description").len(), found.texts("cn").len()), (10, 1));
    assert_eq!(texts(&["(description=nothing*)"]).attributes.len(), 0);
    assert_eq!(texts(&[&format!("(description={})", numbers[7])]).texts("description"), [numbers[7]]);
}

/// A value is returned if and only if a filter item matches an entry that has only this value.
#[test]
fn matched_values_agree_with_filters() {
    let directory = sample();
    let state = directory.snapshot.state();
    let items = [
        "(cn=ada*)",
        "(sn>=l)",
        "(sn<=baker)",
        "(sn~=bakker)",
        "(member=uid=ada,ou=people,dc=example,dc=com)",
        "(gidNumber=-5)",
        "(uidNumber>=100)",
        "(manager=*)",
        "(:caseIgnoreMatch:=baker)",
        "(telephoneNumber=+493012345)",
        "(description=*\\28all\\29*)",
        "(name=groups)",
        "(createTimestamp>=20000101000000Z)",
    ];
    let whole = Question::everywhere("(objectClass=*)").attributes(&["*", "+"]).run(&directory);
    for pair in items.windows(2).chain(items.chunks(1)) {
        let compiler = Compiler { catalog: state.catalog, shown: Shown::Secrets, known: None };
        let terms: Vec<_> =
            pair.iter().map(|item| compiler.compile(FilterBuf::parse(item).unwrap().as_filter())).collect();
        let found = run(&directory, "(objectClass=*)", &["*", "+"], pair);
        assert_eq!(found.dns(), whole.dns());
        for (entry, all) in found.entries.iter().zip(&whole.entries) {
            for (name, values) in &all.attributes {
                let description = state.catalog.schema.parse_description(name).unwrap();
                let is_passing = |value: &&Vec<u8>| {
                    let value = std::slice::from_ref(*value);
                    let alone = InMemory { dn: &all.dn, attributes: vec![(description.clone(), value)] };
                    let mut matcher = Matcher::new(Shown::Secrets);
                    let truth = |term| matcher.truth_in_memory(term, state.catalog, &alone);
                    terms.iter().map(truth).any(|truth| truth == Truth::True)
                };
                let expected: Vec<_> = values.iter().filter(is_passing).cloned().collect();
                let passing = entry.attributes.get(name).cloned().unwrap_or_default();
                assert_eq!(passing, expected, "{name} of {} under {pair:?}", all.dn);
            }
        }
    }
}
