//! Tests of the dereference control (draft-masarati-ldap-deref).

use std::collections::BTreeMap;

use ldap::{DecodeLimits, Dereferenced, Response, ResponseMessage, ResultCode, oids};

use super::large::{GHOSTS, with_large_group};
use super::{Question, add, sample};
use crate::model::limits::{DEREFERENCED_AT_ONCE_MAX, GATHERED_MAX, MESSAGE_BYTES_MAX};
use crate::read::controls::{DereferenceOptions, RareControls, RequestControls};
use crate::read::search::{Budget, Step};
use crate::testing::{SUFFIX, TestDirectory};

const ALL: &str = "cn=all,ou=groups,dc=example,dc=com";
const ADA: &str = "uid=ada,ou=people,dc=example,dc=com";
const BOB: &str = "uid=bob,ou=people,dc=example,dc=com";

fn dereference_of(is_critical: bool, specs: &[(&str, &[&str])]) -> RequestControls {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let specs = specs.iter().map(|(attribute, wanted)| ((*attribute).to_owned(), owned(wanted))).collect();
    let dereference = Some(DereferenceOptions { is_critical, specs });
    let seldom = Some(Box::new(RareControls { dereference, ..RareControls::default() }));
    RequestControls { seldom, ..RequestControls::default() }
}

/// Returns the values of the response controls by the DN of the result, with one line for each dereferenced DN.
fn dereferenced(
    directory: &TestDirectory,
    filter: &str,
    controls: RequestControls,
) -> BTreeMap<String, Vec<String>> {
    lines_of(&Question { controls, ..Question::everywhere(filter) }.answer(directory, false).unwrap())
}

fn lines_of(messages: &[u8]) -> BTreeMap<String, Vec<String>> {
    let (mut dereferenced, mut rest) = (BTreeMap::new(), messages);
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
        dereferenced.insert(entry.object_name.to_owned(), all.iter().map(line).collect());
    }
    dereferenced
}

fn response_for(dn: &str, lines: &[String]) -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([(dn.to_owned(), lines.to_vec())])
}

#[test]
fn each_name_has_the_requested_attributes_of_its_entry() {
    let directory = sample();
    let member = |wanted: &[&str]| dereference_of(true, &[("member", wanted)]);
    let expected = response_for(
        ALL,
        &[format!("member {ADA}: givenName=Ada|Augusta uid=ada"), format!("member {BOB}: uid=bob")],
    );
    assert_eq!(dereferenced(&directory, "(cn=all)", member(&["uid", "givenName"])), expected);
    // Subtypes and further options of the requested attributes are not returned, nor are attributes unknown to the
    // schema.
    let expected =
        response_for(ALL, &[format!("member {ADA}: cn;lang-fr=Ada de Lovelace"), format!("member {BOB}:")]);
    assert_eq!(dereferenced(&directory, "(cn=all)", member(&["name", "cn;lang-fr", "nonsense"])), expected);
    let nothing = response_for(ALL, &[format!("member {ADA}:"), format!("member {BOB}:")]);
    for wanted in [&[][..], &["nonsense"], &["*"], &["1.1"]] {
        assert_eq!(dereferenced(&directory, "(cn=all)", member(wanted)), nothing, "{wanted:?}");
    }
    // A DN without an entry has no attributes.
    let expected = response_for(
        "cn=odd,ou=groups,dc=example,dc=com",
        &[format!("member {ALL}: cn=all"), "member cn=ghost,dc=example,dc=com:".to_owned()],
    );
    assert_eq!(dereferenced(&directory, "(cn=odd)", member(&["cn"])), expected);
    // Virtual attributes can name entries, and virtual attributes of these entries can be requested.
    let groups = dereferenced(
        &directory,
        "(uid=bob)",
        dereference_of(true, &[("memberOf", &["cn"]), ("manager", &["entryDN"])]),
    );
    let expected =
        response_for(BOB, &[format!("memberOf {ALL}: cn=all"), format!("manager {ADA}: entryDN={ADA}")]);
    assert_eq!(groups, expected);
    // Results without DNs have no control.
    assert_eq!(dereferenced(&directory, "(objectClass=domain)", member(&["uid"])), BTreeMap::new());
    let both = dereferenced(&directory, "(objectClass=groupOfNames)", member(&["uid"]));
    assert_eq!(both.len(), 3);
}

#[test]
fn attributes_without_links_are_refused_or_ignored() {
    let directory = sample();
    for attribute in ["cn", "nonsense", "", "uid"] {
        assert_eq!(
            dereferenced(&directory, "(cn=all)", dereference_of(false, &[(attribute, &["cn"])])),
            BTreeMap::new()
        );
        let controls = dereference_of(true, &[("member", &["cn"]), (attribute, &["cn"])]);
        let found = Question { controls, ..Question::everywhere("(cn=all)") }.run(&directory);
        assert_eq!((found.code, found.entries.len()), (ResultCode::PROTOCOL_ERROR, 0), "{attribute:?}");
        assert!(found.diagnostic.contains("does not name entries"), "{}", found.diagnostic);
    }
    let controls = dereference_of(false, &[("member", &["cn"]), ("2.5.4.31", &["uid"])]);
    let found = Question { controls, ..Question::everywhere("(cn=all)") }.run(&directory);
    assert_eq!(found.code, ResultCode::PROTOCOL_ERROR);
    assert!(found.diagnostic.contains("is given twice"), "{}", found.diagnostic);
}

#[test]
fn dereferencing_returns_the_values_that_a_search_returns() {
    let mut directory = sample();
    directory.change_settings(|settings| {
        settings.general.access_rules = vec![
            "groups: allow read of member, cn in 'ou=groups,dc=example,dc=com' to authenticated".to_owned(),
            format!("ada: allow read of uid at '{ADA}' to authenticated"),
        ];
    });
    let requester = crate::read::identity::identify(&directory.snapshot, &format!("dn:{BOB}"));
    directory.requester = requester.unwrap().unwrap().requester;
    let controls = || dereference_of(true, &[("member", &["uid", "cn", "userPassword"])]);
    let expected = response_for(ALL, &[format!("member {ADA}: uid=ada"), format!("member {BOB}:")]);
    assert_eq!(dereferenced(&directory, "(cn=all)", controls()), expected);
    // A requester who may not read the DNs does not receive them.
    directory.change_settings(|settings| {
        settings.general.access_rules = vec!["all: allow read of cn, uid to authenticated".to_owned()];
    });
    assert_eq!(dereferenced(&directory, "(cn=all)", controls()), BTreeMap::new());
    // Passwords are never returned, with or without rules.
    directory.change_settings(|settings| settings.general.access_rules = Vec::new());
    let line = format!("member {ADA}: cn=Ada Lovelace uid=ada");
    assert_eq!(dereferenced(&directory, "(cn=all)", controls())[ALL][0], line);
}

/// Adds a group with these members.
fn add_group(directory: &mut TestDirectory, name: &str, members: &[String]) -> String {
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let dn = format!("cn={name},{SUFFIX}");
    add(directory, &dn, &[("objectClass", &["groupOfNames"]), ("member", &members)]);
    dn
}

/// Adds devices, each with this description.
fn add_devices(directory: &mut TestDirectory, name: &str, count: usize, description: &str) -> Vec<String> {
    let dns: Vec<String> = (0..count).map(|number| format!("cn={name}{number},{SUFFIX}")).collect();
    for dn in &dns {
        add(directory, dn, &[("objectClass", &["device"]), ("description", &[description])]);
    }
    dns
}

/// Regression test: a result with many DNs, or with large entries, was returned with success and without the control,
/// so that it seemed to name no entries. Such a result is now sent as a stream.
#[test]
fn large_results_are_streamed() {
    let mut directory = sample();
    let long = "x".repeat(60_000);
    let members = add_devices(&mut directory, "m", 6, &long);
    assert!(members.len() * long.len() > GATHERED_MAX);
    let few = add_group(&mut directory, "few-octets", &members[..3]);
    let many = add_group(&mut directory, "many-octets", &members);
    // Some DNs have entries. The other DNs have no entries and are stored as text.
    let mut names = add_devices(&mut directory, "n", DEREFERENCED_AT_ONCE_MAX, "short");
    names.extend((0..DEREFERENCED_AT_ONCE_MAX).map(|number| format!("cn=nobody{number},{SUFFIX}")));
    let some = add_group(&mut directory, "some-names", &names[1..DEREFERENCED_AT_ONCE_MAX]);
    let all = add_group(&mut directory, "many-names", &names);
    let dereferenced = dereferenced(
        &directory,
        "(objectClass=groupOfNames)",
        dereference_of(true, &[("member", &["description"])]),
    );
    let line = |dn: &String| match dn.contains("nobody") {
        true => format!("member {dn}:"),
        false if dn.contains("cn=m") => format!("member {dn}: description={long}"),
        false => format!("member {dn}: description=short"),
    };
    let lines = |members: &[String]| {
        let mut lines: Vec<_> = members.iter().map(line).collect();
        lines.sort();
        lines
    };
    for (group, members) in
        [(few, &members[..3]), (many, &members), (some, &names[1..DEREFERENCED_AT_ONCE_MAX]), (all, &names)]
    {
        let mut found = dereferenced[&group].clone();
        found.sort();
        assert!(found == lines(members), "{group}: {} names", found.len());
    }
    assert_eq!(dereferenced.len(), 3 + 4);
}

/// A named entry may be as large as the largest result.
#[test]
fn large_named_entries_are_dereferenced() {
    let mut directory = with_large_group();
    let large = "cn=large,ou=groups,dc=example,dc=com".to_owned();
    let outer = add_group(&mut directory, "outer", &[large.clone(), ADA.to_owned(), BOB.to_owned()]);
    let dereferenced =
        dereferenced(&directory, "(cn=outer)", dereference_of(true, &[("member", &["uid", "cn", "member"])]));
    let [ada, bob, nested] = dereferenced[&outer].as_slice() else { panic!("{dereferenced:?}") };
    assert_eq!(*ada, format!("member {ADA}: cn=Ada Lovelace uid=ada"));
    assert_eq!(*bob, format!("member {BOB}: cn=Bob  Baker uid=bob"));
    assert!(nested.starts_with(&format!("member {large}: ")) && nested.ends_with(" cn=large"));
    assert_eq!(nested.split('|').count(), GHOSTS + 3);
}

/// A stream is measured and then written. Both passes see the same entries, whatever changes in between, and apply the
/// requester's rights to each entry.
#[test]
fn a_stream_obeys_access_rules_and_reads_one_snapshot() {
    let mut directory = sample();
    let members = add_devices(&mut directory, "m", 3 * DEREFERENCED_AT_ONCE_MAX, "told");
    let hidden = members[7].clone();
    let group = add_group(&mut directory, "streamed", &members);
    directory.change_settings(|settings| {
        settings.general.access_rules = vec![
            format!("all: allow read of cn, member, description in '{SUFFIX}' to authenticated"),
            format!("one: deny browse at '{hidden}' to authenticated"),
            format!("two: deny read of description at '{}' to authenticated", members[8]),
        ];
    });
    let requester = crate::read::identity::identify(&directory.snapshot, &format!("dn:{BOB}"));
    directory.requester = requester.unwrap().unwrap().requester;
    let controls = dereference_of(true, &[("member", &["description", "userPassword"])]);
    let question = Question { controls, ..Question::everywhere("(cn=streamed)") };
    let expected: Vec<String> = members
        .iter()
        .map(|dn| match *dn == hidden || *dn == members[8] {
            true => format!("member {dn}:"),
            false => format!("member {dn}: description=told"),
        })
        .collect();
    let (mut search, mut out, mut slices, mut heap_max) = (question.start(&directory), Vec::new(), 0, 0);
    let budget = Budget { entries_examined_max: 10, out_bytes_max: 1_000 };
    while search.run(&directory.snapshot, &mut out, &budget) == Step::More {
        heap_max = heap_max.max(search.memory_bytes());
        slices += 1;
        if search.is_streaming() && slices % 4 == 0 {
            let number = slices % members.len();
            let change = [(ldap::ChangeOperation::Replace, "description", &["changed meanwhile"][..])];
            directory.modify(&members[number], &change);
        }
    }
    assert!(slices > 60 && heap_max < 32 << 10, "{slices} {heap_max}");
    assert_eq!(lines_of(&out)[&group], expected);
}

/// A result whose control exceeds the maximum message size makes the search fail, whether the control is critical or
/// not.
#[test]
fn results_too_large_for_a_message_fail() {
    let mut directory = sample();
    let long = "x".repeat(100_000);
    let members = add_devices(&mut directory, "m", MESSAGE_BYTES_MAX / long.len() + 1, &long);
    add_group(&mut directory, "huge", &members);
    for is_critical in [true, false] {
        let controls = dereference_of(is_critical, &[("member", &["description"])]);
        let found = Question { controls, ..Question::everywhere("(cn=huge)") }.run(&directory);
        assert_eq!((found.code, found.entries.len()), (ResultCode::ADMIN_LIMIT_EXCEEDED, 0));
        assert!(found.diagnostic.contains("dereference control"), "{}", found.diagnostic);
    }
    let controls = dereference_of(true, &[("member", &["cn"])]);
    assert_eq!(
        dereferenced(&directory, "(cn=huge)", controls)[&format!("cn=huge,{SUFFIX}")].len(),
        members.len()
    );
}
