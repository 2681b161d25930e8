//! Groups whose members are the results of a search, and groups that entries join by rules, over LDAP.

use client::Connection;
use ldap::{ChangeOperation, ResultCode, Scope};
use test_support::cluster::until;
use test_support::pando::command;
use test_support::tree::{person_dn, plant, replace};
use test_support::{Pando, SUFFIX, Scratch};

fn found(connection: &mut Connection, filter: &str) -> Vec<String> {
    let found = connection.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).unwrap();
    let mut names: Vec<String> = found.entries.into_iter().map(|entry| entry.dn).collect();
    names.sort();
    names
}

fn values(connection: &mut Connection, dn: &str, name: &str) -> Vec<String> {
    connection.entry(dn, &[name]).unwrap().unwrap().texts(name)
}

#[test]
fn members_by_url_are_found_after_a_restart_and_exported() {
    let scratch = Scratch::new("described");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let group = format!("cn=tall,ou=groups,{SUFFIX}");
    let url = format!("ldap:///{SUFFIX}??sub?(title=tall)");
    let attributes = [("objectClass", "groupOfURLs"), ("memberURL", url.as_str())];
    test_support::tree::add(&mut admin, &group, &attributes);
    let anna = person_dn("anna");
    assert!(found(&mut admin, &format!("(memberOf={group})")).is_empty());
    replace(&mut admin, &anna, "title", &["tall"]);
    drop(pando);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    for attribute in ["memberOf", "isMemberOf", "memberOf:1.2.840.113556.1.4.1941:"] {
        assert_eq!(found(&mut admin, &format!("({attribute}={group})")), [anna.as_str()], "{attribute}");
    }
    for attribute in ["member", "uniqueMember", "member:1.2.840.113556.1.4.1941:"] {
        assert!(found(&mut admin, &format!("({attribute}={anna})")).contains(&group), "{attribute}");
    }
    let others = format!("(&(objectClass=groupOfURLs)(!(member={anna})))");
    assert!(found(&mut admin, &others).is_empty());
    assert!(values(&mut admin, &anna, "memberOf").contains(&group));
    let compared = |admin: &mut Connection, value: &str| admin.compare(&group, "member", value).unwrap().code;
    assert_eq!(compared(&mut admin, &anna), ResultCode::COMPARE_TRUE);
    assert_eq!(compared(&mut admin, SUFFIX), ResultCode::COMPARE_FALSE);
    let wanted = ["export", "--attributes", "memberOf", "--filter", "(title=tall)"];
    let exported = command(&wanted, Some(&Pando::data(&scratch))).expect_code(0);
    assert!(exported.stdout.contains("cn=tall"), "{}", exported.stdout);
}

#[test]
fn entries_join_groups_by_rules_of_the_settings() {
    let scratch = Scratch::new("auto-members");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (group, anna) = (format!("cn=bosses,ou=groups,{SUFFIX}"), person_dn("anna"));
    test_support::tree::add(&mut admin, &group, &[("objectClass", "groupOfNames"), ("member", SUFFIX)]);
    let rule = format!("bosses: into '{group}' also modified matching '(title=boss)'");
    replace(&mut admin, "cn=config", "pandoAutoMember", &[&rule]);
    replace(&mut admin, &anna, "title", &["boss"]);
    assert_eq!(values(&mut admin, &group, "member"), [SUFFIX, &anna]);
    assert_eq!(values(&mut admin, &group, "modifiersName"), ["cn=auto members,cn=config"]);
    // If the group refuses the member, the whole change is refused.
    let rule = format!("units: into 'ou=groups,{SUFFIX}' matching '(title=clerk)'");
    replace(&mut admin, "cn=config", "pandoAutoMember", &[&rule]);
    let outcome = admin.modify(&anna, &[(ChangeOperation::Replace, "title", &["clerk"])]).unwrap();
    assert!(outcome.is_success(), "only adds are covered: {outcome:?}");
    let clerk = format!("cn=clerk,{SUFFIX}");
    let attributes =
        [("objectClass", "person"), ("objectClass", "extensibleObject"), ("sn", "x"), ("title", "clerk")];
    let outcome = admin.add(&clerk, &attributes).unwrap();
    assert_eq!(outcome.code, ResultCode::UNWILLING_TO_PERFORM, "{outcome:?}");
    assert!(admin.entry(&clerk, &["1.1"]).unwrap().is_none());

    // When a rule is added, existing entries join its group.
    let rule = format!("all: into '{group}' in 'ou=people,{SUFFIX}' matching '(objectClass=person)'");
    replace(&mut admin, "cn=config", "pandoAutoMember", &[&rule]);
    let bert = person_dn("bert");
    let has_joined = |admin: &mut Connection| values(admin, &group, "member").contains(&bert);
    until("an existing entry joins", || has_joined(&mut admin).then_some(()));

    // The monitor shows the progress of rules that wait, and the reason if a group refuses members.
    let missing = format!("waits: into 'cn=none,{SUFFIX}' matching '(title=boss)'");
    let wrong = format!("wrong: into 'ou=groups,{SUFFIX}' in 'ou=people,{SUFFIX}'");
    replace(&mut admin, "cn=config", "pandoAutoMember", &[&missing, &wrong]);
    let of_monitor = |admin: &mut Connection, name: &str| {
        let dn = format!("cn={name},cn=Automatic Members,cn=monitor");
        let entry = admin.entry(&dn, &["monitoredInfo", "monitorCounter"]).unwrap().unwrap();
        entry.text("monitoredInfo").or_else(|| entry.text("monitorCounter")).unwrap()
    };
    let refused = |admin: &mut Connection| of_monitor(admin, "Failing").contains("wrong: into").then_some(());
    until("the group refuses an entry", || refused(&mut admin));
    assert_eq!(of_monitor(&mut admin, "Pending"), "1");
    let rule = of_monitor(&mut admin, "Rule 1");
    assert!(rule.starts_with("0 entries joined, up to entry 0 of ") && rule.ends_with(&missing), "{rule}");
}
