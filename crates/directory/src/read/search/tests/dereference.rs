//! What entries are like that results name (draft-masarati-ldap-deref).

use std::collections::BTreeMap;

use ldap::{DecodeLimits, Dereferenced, Response, ResponseMessage, ResultCode, oids};

use super::{Question, add, sample};
use crate::model::limits::{DEREFERENCED_ENTRIES_MAX, GATHERED_MAX};
use crate::read::controls::{DereferenceAsked, RequestControls, SeldomControls};
use crate::testing::{SUFFIX, TestDirectory};

const ALL: &str = "cn=all,ou=groups,dc=example,dc=com";
const ADA: &str = "uid=ada,ou=people,dc=example,dc=com";
const BOB: &str = "uid=bob,ou=people,dc=example,dc=com";

fn asked(is_critical: bool, specs: &[(&str, &[&str])]) -> RequestControls {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let specs = specs.iter().map(|(attribute, wanted)| ((*attribute).to_owned(), owned(wanted))).collect();
    let dereference = Some(DereferenceAsked { is_critical, specs });
    let seldom = Some(Box::new(SeldomControls { dereference, ..SeldomControls::default() }));
    RequestControls { seldom, ..RequestControls::default() }
}

/// What is told with each result: by its name, a line for each value of an attribute with names.
fn told(directory: &TestDirectory, filter: &str, controls: RequestControls) -> BTreeMap<String, Vec<String>> {
    let messages = Question { controls, ..Question::everywhere(filter) }.answer(directory, false).unwrap();
    let (mut told, mut rest) = (BTreeMap::new(), messages.as_slice());
    while let Some(length) = ldap::frame_len(rest).unwrap() {
        let (message, after) = rest.split_at(length);
        rest = after;
        let message = ResponseMessage::decode(message, &DecodeLimits::default()).unwrap();
        let Response::SearchEntry(entry) = message.response else { continue };
        let Some(control) = message.controls.find(oids::DEREFERENCE) else { continue };
        let all = Dereferenced::decode_list(control.value.unwrap()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let line = |one: &Dereferenced<'_>| {
            let values = |(name, values): &(&str, Vec<&[u8]>)| {
                let values: Vec<_> = values.iter().map(|value| text(value)).collect();
                format!(" {name}={}", values.join("|"))
            };
            let attributes: String = one.attributes.iter().map(values).collect();
            format!("{} {}:{attributes}", one.attribute, text(one.value))
        };
        told.insert(entry.object_name.to_owned(), all.iter().map(line).collect());
    }
    told
}

fn of(dn: &str, lines: &[String]) -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([(dn.to_owned(), lines.to_vec())])
}

#[test]
fn each_name_comes_with_what_is_wanted_of_its_entry() {
    let directory = sample();
    let member = |wanted: &[&str]| asked(true, &[("member", wanted)]);
    let expected =
        of(ALL, &[format!("member {ADA}: givenName=Ada|Augusta uid=ada"), format!("member {BOB}: uid=bob")]);
    assert_eq!(told(&directory, "(cn=all)", member(&["uid", "givenName"])), expected);
    // Neither subtypes nor other options of what is wanted, and nothing that the schema does not know.
    let expected = of(ALL, &[format!("member {ADA}: cn;lang-fr=Ada de Lovelace"), format!("member {BOB}:")]);
    assert_eq!(told(&directory, "(cn=all)", member(&["name", "cn;lang-fr", "nonsense"])), expected);
    let nothing = of(ALL, &[format!("member {ADA}:"), format!("member {BOB}:")]);
    for wanted in [&[][..], &["nonsense"], &["*"], &["1.1"]] {
        assert_eq!(told(&directory, "(cn=all)", member(wanted)), nothing, "{wanted:?}");
    }
    // A name that no entry has.
    let expected = of(
        "cn=odd,ou=groups,dc=example,dc=com",
        &[format!("member {ALL}: cn=all"), "member cn=ghost,dc=example,dc=com:".to_owned()],
    );
    assert_eq!(told(&directory, "(cn=odd)", member(&["cn"])), expected);
    // Who is named by no attribute of theirs, and attributes that are made.
    let groups =
        told(&directory, "(uid=bob)", asked(true, &[("memberOf", &["cn"]), ("manager", &["entryDN"])]));
    let expected = of(BOB, &[format!("memberOf {ALL}: cn=all"), format!("manager {ADA}: entryDN={ADA}")]);
    assert_eq!(groups, expected);
    // Results that name nobody have no control.
    assert_eq!(told(&directory, "(objectClass=domain)", member(&["uid"])), BTreeMap::new());
    let both = told(&directory, "(objectClass=groupOfNames)", member(&["uid"]));
    assert_eq!(both.len(), 3);
}

#[test]
fn what_names_no_entries_is_refused_or_ignored() {
    let directory = sample();
    for attribute in ["cn", "nonsense", "", "uid"] {
        assert_eq!(told(&directory, "(cn=all)", asked(false, &[(attribute, &["cn"])])), BTreeMap::new());
        let controls = asked(true, &[("member", &["cn"]), (attribute, &["cn"])]);
        let found = Question { controls, ..Question::everywhere("(cn=all)") }.ask(&directory);
        assert_eq!((found.code, found.entries.len()), (ResultCode::PROTOCOL_ERROR, 0), "{attribute:?}");
        assert!(found.diagnostic.contains("does not name entries"), "{}", found.diagnostic);
    }
    let controls = asked(false, &[("member", &["cn"]), ("2.5.4.31", &["uid"])]);
    let found = Question { controls, ..Question::everywhere("(cn=all)") }.ask(&directory);
    assert_eq!(found.code, ResultCode::PROTOCOL_ERROR);
    assert!(found.diagnostic.contains("is given twice"), "{}", found.diagnostic);
}

#[test]
fn it_tells_what_a_search_for_the_entry_would_tell() {
    let mut directory = sample();
    directory.change_settings(|settings| {
        settings.general.access_rules = vec![
            "groups: allow read of member, cn in 'ou=groups,dc=example,dc=com' to authenticated".to_owned(),
            format!("ada: allow read of uid at '{ADA}' to authenticated"),
        ];
    });
    let requester = crate::read::identity::identify(&directory.snapshot, &format!("dn:{BOB}"));
    directory.requester = requester.unwrap().unwrap().requester;
    let controls = || asked(true, &[("member", &["uid", "cn", "userPassword"])]);
    let expected = of(ALL, &[format!("member {ADA}: uid=ada"), format!("member {BOB}:")]);
    assert_eq!(told(&directory, "(cn=all)", controls()), expected);
    // Who may not read the names is not told of them.
    directory.change_settings(|settings| {
        settings.general.access_rules = vec!["all: allow read of cn, uid to authenticated".to_owned()];
    });
    assert_eq!(told(&directory, "(cn=all)", controls()), BTreeMap::new());
    // Nobody reads passwords, with rules and without.
    directory.change_settings(|settings| settings.general.access_rules = Vec::new());
    let line = format!("member {ADA}: cn=Ada Lovelace uid=ada");
    assert_eq!(told(&directory, "(cn=all)", controls())[ALL][0], line);
}

#[test]
fn more_than_is_gathered_is_not_told() {
    let mut directory = sample();
    let long = "x".repeat(60_000);
    let members: Vec<String> = (0..6).map(|number| format!("cn=m{number},{SUFFIX}")).collect();
    assert!(members.len() * long.len() > GATHERED_MAX);
    for member in &members {
        add(&mut directory, member, &[("objectClass", &["device"]), ("description", &[&long])]);
    }
    let group = |name: &str, members: &[String], directory: &mut TestDirectory| {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        add(
            directory,
            &format!("cn={name},{SUFFIX}"),
            &[("objectClass", &["groupOfNames"]), ("member", &members)],
        );
    };
    group("few", &members[..3], &mut directory);
    group("many", &members, &mut directory);
    let names: Vec<String> =
        (0..=DEREFERENCED_ENTRIES_MAX).map(|number| format!("cn=n{number},{SUFFIX}")).collect();
    group("names", &names, &mut directory);
    group("fewer", &names[1..], &mut directory);
    let told = told(&directory, "(cn=*)", asked(true, &[("member", &["description"])]));
    assert!(!told.contains_key(&format!("cn=names,{SUFFIX}")));
    assert_eq!(told[&format!("cn=fewer,{SUFFIX}")].len(), DEREFERENCED_ENTRIES_MAX as usize);
    let few = format!("cn=few,{SUFFIX}");
    assert_eq!(told[&few].len(), 3);
    assert!(!told.contains_key(&format!("cn=many,{SUFFIX}")), "{:?}", told.keys());
}
