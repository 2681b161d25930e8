//! Tests of delete: its effects, and each error.

use ldap::{AddRequest, AttributesBuf, DeleteRequest, Request, ResultCode as Code, Scope};

use crate::access::Requester;
use crate::model::limits::TREE_DELETED_MAX;
use crate::model::settings::GeneralSettings;
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory, ok, refused, refused_at, tree_delete};

#[test]
fn deletes_only_leaves_and_a_suffix_entry_can_be_added_again() {
    let mut directory = TestDirectory::with_suffix_entry();
    ok(directory.add("ou=a,dc=example,dc=com", &[("objectClass", &["organizationalUnit"])]));
    refused(directory.delete(SUFFIX), Code::NOT_ALLOWED_ON_NON_LEAF, "has 1 entry directly below it");
    ok(directory.delete("OU=A,dc=example,dc=com"));
    refused_at(directory.delete("ou=a,dc=example,dc=com"), Code::NO_SUCH_OBJECT, SUFFIX, "does not exist");
    ok(directory.delete(SUFFIX));
    refused(directory.delete(SUFFIX), Code::NO_SUCH_OBJECT, "has no entry yet");
    ok(directory.add(SUFFIX, &[("objectClass", &["domain"])]));
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn refuses_names_without_an_entry_on_this_server() {
    let mut directory = TestDirectory::with_suffix_entry();
    let referral = [("objectClass", &["referral", "extensibleObject"][..]), ("ref", &["ldap://other/"])];
    ok(directory.add("cn=there,dc=example,dc=com", &referral));
    refused(directory.delete("cn"), Code::INVALID_DN_SYNTAX, "not a distinguished name");
    refused(directory.delete("dc=org"), Code::NO_SUCH_OBJECT, "no suffix of this server");
    refused(directory.delete(""), Code::UNWILLING_TO_PERFORM, "the root DSE");
    refused(directory.delete("cn=subschema"), Code::UNWILLING_TO_PERFORM, "subschema");
    let there = "cn=there,dc=example,dc=com";
    refused_at(directory.delete(there), Code::REFERRAL, there, "");
    let manage = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
    let stamp = directory.stamp();
    ok(directory.execute_with(&Request::Delete(DeleteRequest { entry: there }), &manage, &stamp));
    directory.requester = Requester::Anonymous;
    refused(directory.delete(SUFFIX), Code::STRONGER_AUTH_REQUIRED, "bind first");
}

#[test]
fn deletes_an_alias_and_not_its_target() {
    let mut directory = TestDirectory::with_suffix_entry();
    let alias = [("objectClass", &["alias", "extensibleObject"][..]), ("aliasedObjectName", &[SUFFIX])];
    ok(directory.add("cn=alias,dc=example,dc=com", &alias));
    ok(directory.delete("cn=alias,dc=example,dc=com"));
    assert!(directory.read(SUFFIX).is_some());
}

#[test]
fn links_to_a_deleted_entry_become_text_or_are_removed() {
    let integrity_attributes = vec!["manager".to_owned()];
    let settings = GeneralSettings { integrity_attributes, ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    ok(directory.add(SUFFIX, &[("objectClass", &["domain"])]));
    let (boss, clerk) = ("cn=boss,dc=example,dc=com", "cn=clerk,dc=example,dc=com");
    let person = [("objectClass", &["inetOrgPerson"][..]), ("sn", &["x"])];
    ok(directory.add(boss, &person));
    let links =
        [("manager", &["CN=Boss,dc=example,dc=com"][..]), ("seeAlso", &["cn=BOSS,dc=example,dc=com"])];
    ok(directory.add(clerk, &[person, links].concat()));
    ok(directory.delete(boss));
    let entry = directory.read(clerk).unwrap();
    assert_eq!(entry.texts("seeAlso"), [boss]);
    assert_eq!(entry.texts("manager"), Vec::<String>::new());
}

/// Regression test: a deleted person stayed in groups as text. An entry added later with the same DN immediately
/// became a member. The group's class requires a member, so the last member stayed even with referential integrity.
#[test]
fn a_new_entry_of_a_deleted_dn_is_in_no_group() {
    let mut directory = TestDirectory::with_suffix_entry();
    let ann = "cn=ann,dc=example,dc=com";
    let person = [("objectClass", &["person"][..]), ("sn", &["x"])];
    let groups = [("groupOfNames", "member"), ("groupOfUniqueNames", "uniqueMember")];
    let members: [&[&str]; 3] = [&[ann], &[ann, SUFFIX], &[ann, "cn=nobody,dc=example,dc=com"]];
    let left: [&[&str]; 3] = [&[""], &[SUFFIX], &["cn=nobody,dc=example,dc=com"]];
    let named = |class: &str, number: usize| format!("cn={class}{number},{SUFFIX}");
    for tree in [false, true] {
        ok(directory.add(ann, &person));
        for ((class, attribute), number) in groups.iter().flat_map(|group| (0..3).map(move |n| (group, n))) {
            let values = [("objectClass", &[*class][..]), (attribute, members[number])];
            ok(directory.add(&named(class, number), &values));
        }
        match tree {
            false => ok(directory.delete(ann)),
            true => {
                ok(directory.add("ou=top,dc=example,dc=com", &[("objectClass", &["organizationalUnit"])]));
                ok(directory.modify_dn(ann, "cn=ann", true, Some(TOP)));
                ok(directory.delete_tree(TOP));
            }
        }
        ok(directory.add(ann, &person));
        assert!(directory.search(ann, Scope::BaseObject, "(memberOf=*)", &["1.1"]).dns().is_empty());
        for ((class, attribute), number) in groups.iter().flat_map(|group| (0..3).map(move |n| (group, n))) {
            assert_eq!(directory.read(&named(class, number)).unwrap().texts(attribute), left[number]);
            ok(directory.delete(&named(class, number)));
        }
        ok(directory.delete(ann));
    }
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

/// Adds `ou=top` with two units. The second unit has `count` people.
fn tree(directory: &mut TestDirectory, count: usize) {
    let unit = [("objectClass", &["organizationalUnit"][..])];
    for dn in ["ou=top", "ou=a,ou=top", "ou=b,ou=top"] {
        ok(directory.add(&format!("{dn},{SUFFIX}"), &unit));
    }
    let mut person = AttributesBuf::new();
    person.push("objectClass", ["inetOrgPerson"]);
    person.push("sn", ["x"]);
    let stamps: Vec<_> = (0..count).map(|_| directory.stamp()).collect();
    let mut batch = directory.writer.begin().unwrap();
    for (number, stamp) in stamps.iter().enumerate() {
        let entry = format!("cn={number},ou=b,ou=top,{SUFFIX}");
        let add = Request::Add(AddRequest { entry: &entry, attributes: person.as_attributes() });
        ok(batch.execute(&directory.requester.context(), &add, &RequestControls::default(), stamp));
    }
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
}

const TOP: &str = "ou=top,dc=example,dc=com";

#[test]
fn tree_delete_removes_all_entries_and_frees_their_names() {
    let mut directory = TestDirectory::with_suffix_entry();
    tree(&mut directory, 3);
    let group =
        [("objectClass", &["groupOfNames"][..]), ("member", &["CN=1,ou=b,ou=top,dc=example,dc=com", SUFFIX])];
    ok(directory.add("cn=group,dc=example,dc=com", &group));
    refused(directory.delete(TOP), Code::NOT_ALLOWED_ON_NON_LEAF, "2 entries directly below");
    let position = directory.snapshot.position().unwrap();
    ok(directory.delete_tree(TOP));
    assert_eq!(directory.snapshot.position().unwrap(), position + 1, "one record");
    let members = directory.read("cn=group,dc=example,dc=com").unwrap().texts("member");
    assert_eq!(members, [SUFFIX]);
    refused_at(directory.delete_tree(TOP), Code::NO_SUCH_OBJECT, SUFFIX, "does not exist");
    tree(&mut directory, 3);
    // A leaf can also be deleted as a tree, and the suffix entry can be the top of a tree.
    ok(directory.delete_tree("cn=2,ou=b,ou=top,dc=example,dc=com"));
    ok(directory.delete_tree(SUFFIX));
    assert!(directory.read(SUFFIX).is_none());
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn tree_delete_refuses_a_tree_with_referrals_or_too_many_entries() {
    let mut directory = TestDirectory::with_suffix_entry();
    tree(&mut directory, 2);
    let referral = [("objectClass", &["referral", "extensibleObject"][..]), ("ref", &["ldap://other/"])];
    ok(directory.add("cn=there,ou=a,ou=top,dc=example,dc=com", &referral));
    refused(directory.delete_tree(TOP), Code::AFFECTS_MULTIPLE_DSAS, "manageDsaIT");
    let manage = RequestControls { manage_dsa_it: true, ..tree_delete() };
    let stamp = directory.stamp();
    ok(directory.execute_with(&Request::Delete(DeleteRequest { entry: TOP }), &manage, &stamp));

    tree(&mut directory, TREE_DELETED_MAX - 1);
    refused(directory.delete_tree(TOP), Code::ADMIN_LIMIT_EXCEEDED, "more than 100 entries");
    ok(directory.delete("cn=0,ou=b,ou=top,dc=example,dc=com"));
    ok(directory.delete_tree(TOP));
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn tree_delete_requires_the_right_to_delete_every_entry() {
    let mut directory = TestDirectory::with_suffix_entry();
    tree(&mut directory, 2);
    let reader = [("objectClass", &["inetOrgPerson"][..]), ("sn", &["x"])];
    ok(directory.add("cn=asker,dc=example,dc=com", &reader));
    let mut rules = vec![
        "all: allow read, delete to authenticated".to_owned(),
        "one: deny delete at 'cn=1,ou=b,ou=top,dc=example,dc=com' to authenticated".to_owned(),
    ];
    directory.change_settings(|settings| settings.general.access_rules = rules.clone());
    let requester = crate::read::identity::identify(&directory.snapshot, "dn:cn=asker,dc=example,dc=com");
    let administrator = std::mem::replace(&mut directory.requester, requester.unwrap().unwrap().requester);
    let below = "delete everything below";
    refused(directory.delete_tree(TOP), Code::INSUFFICIENT_ACCESS_RIGHTS, below);
    assert!(directory.read("cn=0,ou=b,ou=top,dc=example,dc=com").is_some());
    rules[1] = "one: deny browse at 'cn=1,ou=b,ou=top,dc=example,dc=com' to authenticated".to_owned();
    directory.change_settings(|settings| settings.general.access_rules = rules.clone());
    refused(directory.delete_tree(TOP), Code::INSUFFICIENT_ACCESS_RIGHTS, below);
    rules.truncate(1);
    directory.change_settings(|settings| settings.general.access_rules = rules);
    ok(directory.delete_tree(TOP));
    directory.requester = administrator;
    assert!(directory.read(TOP).is_none());
}

#[test]
fn tree_delete_is_refused_while_a_node_does_not_know_its_record() {
    let mut directory = TestDirectory::with_suffix_entry();
    tree(&mut directory, 0);
    let stamps = [directory.stamp(), directory.stamp()];
    let mut batch = directory.writer.begin().unwrap();
    batch.refuse_trees();
    let delete = Request::Delete(DeleteRequest { entry: TOP });
    let outcome = batch.execute(&directory.requester.context(), &delete, &tree_delete(), &stamps[0]);
    refused(outcome, Code::UNAVAILABLE, "runs a version without tree delete");
    let leaf = Request::Delete(DeleteRequest { entry: "ou=a,ou=top,dc=example,dc=com" });
    ok(batch.execute(&directory.requester.context(), &leaf, &RequestControls::default(), &stamps[1]));
}

#[test]
fn a_policy_in_a_deleted_tree_no_longer_applies() {
    let mut directory = TestDirectory::with_suffix_entry();
    tree(&mut directory, 0);
    let policy = [
        ("objectClass", &["device", "pwdPolicy"][..]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdMinLength", &["9"]),
        ("pwdCheckQuality", &["1"]),
    ];
    ok(directory.add("cn=policy,ou=a,ou=top,dc=example,dc=com", &policy));
    let policies = |directory: &TestDirectory| directory.snapshot.state().catalog.policies.entries.len();
    assert_eq!(policies(&directory), 1);
    ok(directory.delete_tree(TOP));
    assert_eq!(policies(&directory), 0);
}
