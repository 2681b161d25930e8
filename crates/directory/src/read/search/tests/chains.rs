//! Tests of the rule inchainMatch: chains of links in filters.

use std::collections::HashSet;

use ldap::{ChangeOperation, CompareRequest, ResultCode, Scope};

use super::{Question, leaves};
use crate::access::Requester;
use crate::model::client_link::{ClientLink, ListenerName};
use crate::model::limits::CHAIN_LINKS_MAX;
use crate::model::rows::EntryId;
use crate::read::compare::{CompareOutcome, compare};
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory};

const IN_CHAIN: &str = "1.2.840.113556.1.4.1941";

fn group_dn(number: usize) -> String {
    format!("cn=g{number},{SUFFIX}")
}

fn add(directory: &mut TestDirectory, name: &str, attributes: &[(&str, &[&str])]) {
    let dn = format!("cn={name},{SUFFIX}");
    let outcome = directory.add(&dn, attributes);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{dn}: {}", outcome.diagnostic);
}

fn add_group(directory: &mut TestDirectory, name: &str, members: &[&str]) {
    let members: Vec<String> = members.iter().map(|name| format!("cn={name},{SUFFIX}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    add(directory, name, &[("objectClass", &["groupOfNames"]), ("member", &members)]);
}

fn add_person(directory: &mut TestDirectory, name: &str, managers: &[&str]) {
    let managers: Vec<String> = managers.iter().map(|name| format!("cn={name},{SUFFIX}")).collect();
    let managers: Vec<&str> = managers.iter().map(String::as_str).collect();
    let mut attributes: Vec<(&str, &[&str])> = vec![("objectClass", &["inetOrgPerson"]), ("sn", &["s"])];
    if !managers.is_empty() {
        attributes.push(("manager", &managers));
    }
    add(directory, name, &attributes);
}

fn check(directory: &TestDirectory, cases: &[(&str, &str, &[&str])]) {
    for (attribute, target, expected) in cases {
        let filter = format!("({attribute}:{IN_CHAIN}:={target})");
        let found = Question::everywhere(&filter).run(directory);
        assert_eq!(leaves(&found), *expected, "{filter}");
    }
}

/// Groups and their members: staff has dev and ann; dev has web and bob; web has cid, a name without an entry, and
/// staff. The membership of staff in web makes a cycle.
fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    add_person(&mut directory, "ann", &[]);
    add_person(&mut directory, "bob", &["ann"]);
    add_person(&mut directory, "cid", &["bob", "ghost"]);
    add_person(&mut directory, "dan", &["cid"]);
    add_group(&mut directory, "staff", &["dev", "ann"]);
    add_group(&mut directory, "dev", &["web", "bob"]);
    add_group(&mut directory, "web", &["staff", "cid", "ghost"]);
    let unique = ("uniqueMember", &["cn=web,dc=example,dc=com"] as &[&str]);
    add(&mut directory, "all", &[("objectClass", &["groupOfUniqueNames"]), unique]);
    directory
}

#[test]
fn chains_lead_to_the_asserted_entry_in_both_directions() {
    let everyone: &[&str] = &["cn=ann", "cn=bob", "cn=cid", "cn=dev", "cn=staff", "cn=web"];
    check(
        &sample(),
        &[
            ("member", "cn=cid,dc=example,dc=com", &["cn=dev", "cn=staff", "cn=web"]),
            ("member", "CN=Cid, dc=example,dc=com", &["cn=dev", "cn=staff", "cn=web"]),
            ("member", "cn=dan,dc=example,dc=com", &[]),
            // Groups of the cycle contain themselves.
            ("member", "cn=dev,dc=example,dc=com", &["cn=dev", "cn=staff", "cn=web"]),
            ("memberOf", "cn=dev,dc=example,dc=com", everyone),
            ("memberOf", "cn=staff,dc=example,dc=com", everyone),
            // memberOf follows the values of member and of uniqueMember. A test of a stored attribute follows only the
            // values of that attribute.
            ("memberOf", "cn=all,dc=example,dc=com", everyone),
            ("uniqueMember", "cn=web,dc=example,dc=com", &["cn=all"]),
            ("uniqueMember", "cn=cid,dc=example,dc=com", &[]),
            ("manager", "cn=ann,dc=example,dc=com", &["cn=bob", "cn=cid", "cn=dan"]),
            ("manager", "cn=cid,dc=example,dc=com", &["cn=dan"]),
            // No entry has these asserted names.
            ("manager", "cn=ghost,dc=example,dc=com", &["cn=cid", "cn=dan"]),
            ("member", "cn=ghost,dc=example,dc=com", &["cn=dev", "cn=staff", "cn=web"]),
            ("memberOf", "cn=ghost,dc=example,dc=com", &[]),
            ("member;lang-en", "cn=cid,dc=example,dc=com", &[]),
            ("memberOf;lang-en", "cn=dev,dc=example,dc=com", &[]),
        ],
    );
}

#[test]
fn nested_groups_are_in_is_member_of_and_optionally_in_member_of() {
    let mut directory = sample();
    let values = |directory: &mut TestDirectory, of: &str, name: &str| {
        let found = directory.search(&format!("cn={of},{SUFFIX}"), Scope::BaseObject, "(cn=*)", &[name]);
        found.entries[0].texts(name).iter().map(|dn| dn.replace(",dc=example,dc=com", "")).collect::<Vec<_>>()
    };
    let nested = ["cn=staff", "cn=dev", "cn=web", "cn=all"];
    for member in ["cid", "ann", "dev"] {
        assert_eq!(values(&mut directory, member, "isMemberOf"), nested);
    }
    assert_eq!(values(&mut directory, "dan", "isMemberOf"), [] as [&str; 0]);
    assert_eq!(values(&mut directory, "cid", "memberOf"), ["cn=web"]);
    let compared = |directory: &TestDirectory, name: &str, group: &str| {
        let value = format!("CN={group},{SUFFIX}");
        let request =
            CompareRequest { entry: "cn=cid,dc=example,dc=com", description: name, value: value.as_bytes() };
        let controls = RequestControls::default();
        match compare(&directory.snapshot, &directory.requester.context(), &request, &controls) {
            CompareOutcome::Done(outcome) => outcome.code,
            other => panic!("{other:?}"),
        }
    };
    let filter = |name: &str| format!("(&(objectClass=person)({name}=cn=all,{SUFFIX}))");
    let everyone = ["cn=ann", "cn=bob", "cn=cid"];
    for (is_nested, name) in [(false, "memberOf"), (true, "isMemberOf"), (true, "memberOf")] {
        if is_nested && name == "memberOf" {
            directory.change_settings(|settings| settings.general.nested_member_of = true);
        }
        let yes = if is_nested { ResultCode::COMPARE_TRUE } else { ResultCode::COMPARE_FALSE };
        assert_eq!(compared(&directory, name, "all"), yes);
        assert_eq!(compared(&directory, name, "staff"), yes);
        assert_eq!(compared(&directory, name, "web"), ResultCode::COMPARE_TRUE);
        assert_eq!(compared(&directory, name, "nobody"), ResultCode::COMPARE_FALSE);
        let found = Question::everywhere(&filter(name)).run(&directory);
        assert_eq!(leaves(&found), if is_nested { &everyone[..] } else { &[] }, "{name}");
    }
    assert_eq!(values(&mut directory, "cid", "memberOf"), nested);
    assert_eq!(values(&mut directory, "ann", "memberOf"), nested);
}

#[test]
fn member_of_is_returned_with_user_attributes_to_configured_clients() {
    let mut directory = sample();
    let bob = |directory: &mut TestDirectory, wanted: &[&str]| {
        let found = directory.search(&format!("cn=bob,{SUFFIX}"), Scope::BaseObject, "(cn=*)", wanted);
        found.entries[0].texts("memberOf")
    };
    let url = ("memberURL", &["ldap:///dc=example,dc=com??one?(cn=c*)"] as &[&str]);
    add(&mut directory, "described", &[("objectClass", &["groupOfURLs"]), url]);
    let administrator = directory.requester.clone();
    let groups = [format!("cn=dev,{SUFFIX}")];
    for (clients, is_one) in [
        (vec![], false),
        (vec!["users"], true),
        (vec!["anonymous"], false),
        (vec!["cn=ann,dc=example,dc=com"], false),
        (vec!["CN=Cid, dc=example,dc=com"], true),
        // cid is a member of web, which is a member of all.
        (vec!["members of cn=all,dc=example,dc=com"], true),
        (vec!["members of cn=cid,dc=example,dc=com"], false),
        (vec!["members of cn=described,dc=example,dc=com"], true),
        (vec!["listener ldap"], false),
        (vec!["listener ldaps", "cn=ann,dc=example,dc=com"], true),
    ] {
        let clients: Vec<String> = clients.into_iter().map(str::to_owned).collect();
        directory.requester = administrator.clone();
        directory.change_settings(|settings| settings.general.member_of_clients = clients.clone());
        directory.requester = Requester::User { id: EntryId(4), dn: format!("cn=cid,{SUFFIX}") };
        directory.link = Some(ClientLink { listener: Some(ListenerName::LDAPS), ..ClientLink::default() });
        for wanted in [&["*"][..], &[], &["cn", "*"]] {
            let expected: &[String] = if is_one { &groups } else { &[] };
            assert_eq!(bob(&mut directory, wanted), expected, "{clients:?} {wanted:?}");
        }
        assert_eq!(bob(&mut directory, &["cn"]), [] as [&str; 0]);
        assert_eq!(bob(&mut directory, &["*", "memberOf"]), groups);
    }
}

#[test]
fn filters_that_are_not_chains_are_undefined() {
    let directory = sample();
    for filter in [
        format!("(cn:{IN_CHAIN}:=cn=dev,dc=example,dc=com)"),
        format!("(creatorsName:{IN_CHAIN}:=cn=dev,dc=example,dc=com)"),
        format!("(distinguishedName:{IN_CHAIN}:=cn=dev,dc=example,dc=com)"),
        format!("(:{IN_CHAIN}:=cn=dev,dc=example,dc=com)"),
        format!("(member:dn:{IN_CHAIN}:=cn=dev,dc=example,dc=com)"),
        format!("(member:{IN_CHAIN}:=no name)"),
        format!("(uniqueMember:{IN_CHAIN}:=cn=web,dc=example,dc=com#'01'B)"),
    ] {
        for filter in [filter.clone(), format!("(!{filter})")] {
            assert_eq!(leaves(&Question::everywhere(&filter).run(&directory)), [] as [&str; 0], "{filter}");
        }
    }
}

#[test]
fn chain_items_combine_with_other_filter_items() {
    let directory = sample();
    let within = format!("(memberOf:inchainMatch:=cn=all,{SUFFIX})");
    for (filter, expected) in [
        (format!("(&{within}(objectClass=person))"), &["cn=ann", "cn=bob", "cn=cid"] as &[&str]),
        (format!("(&(objectClass=person)(!{within}))"), &["cn=dan"]),
        (
            format!("(|{within}(cn=dan))"),
            &["cn=ann", "cn=bob", "cn=cid", "cn=dan", "cn=dev", "cn=staff", "cn=web"],
        ),
        (format!("(&{within}(member:{IN_CHAIN}:=cn=bob,{SUFFIX})(cn=d*))"), &["cn=dev"]),
    ] {
        assert_eq!(leaves(&Question::everywhere(&filter).run(&directory)), expected, "{filter}");
    }
}

/// Twenty members are more than the planner follows at once in tests, so the remaining ids are gathered in slices.
#[test]
fn a_large_group_is_followed_in_slices() {
    let mut directory = TestDirectory::with_suffix_entry();
    let names: Vec<String> = (0..20).map(|number| format!("p{number:02}")).collect();
    names.iter().for_each(|name| add_person(&mut directory, name, &[]));
    (0..60).for_each(|number| add_person(&mut directory, &format!("other{number}"), &[]));
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    add_group(&mut directory, "half", &members[..10]);
    add_group(&mut directory, "whole", &[&["half"], &members[10..]].concat());
    add_group(&mut directory, "outer", &["whole"]);
    let filter = format!("(memberOf:{IN_CHAIN}:=cn=outer,{SUFFIX})");
    let found = Question::everywhere(&filter).run(&directory);
    let mut expected: Vec<String> = names.iter().map(|name| format!("cn={name}")).collect();
    expected.splice(0..0, ["cn=half".to_owned()]);
    expected.push("cn=whole".to_owned());
    assert_eq!(leaves(&found), expected);
}

/// The tested group has many members, and many other groups name the asserted entry. Therefore following the chain from
/// either end is costly.
#[test]
fn a_costly_chain_test_is_refused() {
    let mut directory = TestDirectory::with_suffix_entry();
    let count = usize::try_from(CHAIN_LINKS_MAX).unwrap() + 10;
    let ghosts: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
    ghosts.iter().for_each(|name| add_person(&mut directory, name, &[]));
    add_person(&mut directory, "x", &[]);
    (0..count).for_each(|number| add_group(&mut directory, &format!("g{number}"), &["x"]));
    let members: Vec<&str> = ghosts.iter().map(String::as_str).collect();
    add_group(&mut directory, "big", &members);
    let filter = format!("(member:{IN_CHAIN}:=cn=x,{SUFFIX})");
    let found = directory.search(&format!("cn=big,{SUFFIX}"), Scope::BaseObject, &filter, &["1.1"]);
    assert_eq!(found.code, ResultCode::ADMIN_LIMIT_EXCEEDED, "{}", found.diagnostic);
    assert!(found.diagnostic.contains("inchainMatch would read more than"), "{}", found.diagnostic);
    let filter = format!("(|(member:dnSuperiorMatch:={SUFFIX})(member:dnSubordinateMatch:={SUFFIX}))");
    let found = directory.search(&format!("cn=big,{SUFFIX}"), Scope::BaseObject, &filter, &["1.1"]);
    assert_eq!(found.code, ResultCode::ADMIN_LIMIT_EXCEEDED, "{}", found.diagnostic);
    assert!(found.diagnostic.contains("dnSuperiorMatch would read more than"), "{}", found.diagnostic);
    // The test is permitted if the chain is short from one end.
    for (base, filter, count) in [
        ("p0", format!("(memberOf:{IN_CHAIN}:=cn=big,{SUFFIX})"), 1),
        ("p0", format!("(memberOf:{IN_CHAIN}:=cn=g0,{SUFFIX})"), 0),
        ("x", format!("(memberOf:{IN_CHAIN}:=cn=g0,{SUFFIX})"), 1),
        ("big", format!("(member:{IN_CHAIN}:=cn=p1,{SUFFIX})"), 1),
    ] {
        let found = directory.search(&format!("cn={base},{SUFFIX}"), Scope::BaseObject, &filter, &["1.1"]);
        assert_eq!((found.code, found.entries.len()), (ResultCode::SUCCESS, count), "{base} {filter}");
    }
}

/// Regression test: a filter has up to 4,096 items, and each item could use the whole limit for one entry. The test of
/// one entry took minutes on an event loop or, in an assertion, on the writer.
#[test]
fn all_items_of_a_filter_share_the_limit_of_an_entry() {
    let mut directory = TestDirectory::with_suffix_entry();
    let count = usize::try_from(CHAIN_LINKS_MAX).unwrap();
    let ghosts: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
    ghosts.iter().for_each(|name| add_person(&mut directory, name, &[]));
    let members: Vec<&str> = ghosts.iter().map(String::as_str).collect();
    add_group(&mut directory, "big", &members);
    let asserted = ["x", "y", "z"];
    for name in asserted {
        add_person(&mut directory, name, &[]);
        (0..count / 5).for_each(|number| add_group(&mut directory, &format!("{name}{number}"), &[name]));
    }
    let item = |name: &str| format!("(member:{IN_CHAIN}:=cn={name},{SUFFIX})");
    let mut code = |base: &str, filter: &str| {
        directory.search(&format!("cn={base},{SUFFIX}"), Scope::BaseObject, filter, &["1.1"]).code
    };
    for name in asserted {
        assert_eq!(code("big", &item(name)), ResultCode::SUCCESS);
    }
    let all = format!("(|{})", asserted.map(item).concat());
    assert_eq!(code("big", &all), ResultCode::ADMIN_LIMIT_EXCEEDED);
}

/// After 10,000 random changes of links, nested memberships equal the memberships in a plain model, including cycles.
#[test]
fn nested_memberships_agree_with_a_model_after_random_changes() {
    const GROUPS: usize = 30;
    let mut rng = fastrand::Rng::with_seed(1941);
    let mut directory = TestDirectory::with_suffix_entry();
    let members = [SUFFIX];
    for number in 0..GROUPS {
        let attributes: &[(&str, &[&str])] = &[("objectClass", &["groupOfNames"]), ("member", &members)];
        add(&mut directory, &format!("g{number}"), attributes);
    }
    let mut links: HashSet<(usize, usize)> = HashSet::new();
    for round in 0..100 {
        for _ in 0..100 {
            // Only a few links exist at a time, so that chains are long and cycles appear and disappear.
            let (group, member) = (rng.usize(..GROUPS), rng.usize(..GROUPS));
            let is_there = links.contains(&(group, member));
            let (operation, dn) = match is_there {
                true => (ChangeOperation::Delete, group_dn(member)),
                false if links.len() > GROUPS => continue,
                false => (ChangeOperation::Add, group_dn(member)),
            };
            let outcome = directory.modify(&group_dn(group), &[(operation, "member", &[&dn])]);
            assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
            if !links.remove(&(group, member)) {
                links.insert((group, member));
            }
        }
        let target = rng.usize(..GROUPS);
        let reached = |next: &dyn Fn(usize) -> Vec<usize>| {
            let (mut open, mut seen) = (vec![target], Vec::new());
            while let Some(at) = open.pop() {
                for end in next(at) {
                    if !seen.contains(&end) {
                        seen.push(end);
                        open.push(end);
                    }
                }
            }
            let mut names: Vec<String> = seen.iter().map(|number| format!("cn=g{number}")).collect();
            names.sort();
            names
        };
        let containing = reached(&|at| links.iter().filter(|link| link.1 == at).map(|link| link.0).collect());
        let contained = reached(&|at| links.iter().filter(|link| link.0 == at).map(|link| link.1).collect());
        for (attribute, expected) in [("member", containing), ("memberOf", contained)] {
            let filter = format!("(&(cn=g*)({attribute}:{IN_CHAIN}:={}))", group_dn(target));
            let found = Question::everywhere(&filter).run(&directory);
            assert_eq!(leaves(&found), expected, "{filter} in round {round} of {links:?}");
        }
    }
}
