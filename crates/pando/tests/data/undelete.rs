//! Deleted entries that the server keeps. `pando undelete` lists them and restores them, even after a restart. No other
//! request shows them.

use client::Connection;
use ldap::{ResultCode, Scope};
use test_support::clients::Run;
use test_support::pando::command;
use test_support::tree::{add_person, person_dn, plant, set_password};
use test_support::{Pando, SUFFIX, Scratch};

fn undelete(scratch: &Scratch, arguments: &[&str]) -> Run {
    command(&[&["undelete"], arguments].concat(), Some(&Pando::data(scratch)))
}

fn keep_for(admin: &mut Connection, seconds: &str) {
    let change = (ldap::ChangeOperation::Replace, "pandoKeepDeletedSeconds", &[seconds][..]);
    assert!(admin.modify("cn=config", &[change]).unwrap().is_success());
}

/// Returns the DNs of all entries.
fn names(admin: &mut Connection) -> Vec<String> {
    let found = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    let mut names: Vec<String> = found.entries.into_iter().map(|entry| entry.dn).collect();
    names.sort();
    names
}

#[test]
fn undelete_restores_entries_and_their_memberships() {
    let scratch = Scratch::new("undelete");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    assert!(admin.delete(&anna).unwrap().is_success());
    undelete(&scratch, &[&anna]).expect_code(1).expect_error("no deleted entry");
    add_person(&mut admin, "anna");
    let group = format!("cn=kept,ou=groups,{SUFFIX}");
    let attributes = [("objectClass", "groupOfNames"), ("cn", "kept"), ("member", &anna)];
    test_support::tree::add(&mut admin, &group, &attributes);
    keep_for(&mut admin, "3600");
    let before = names(&mut admin);
    let uuid = admin.entry(&anna, &["entryUUID"]).unwrap().unwrap().text("entryUUID").unwrap();
    assert!(admin.delete(&anna).unwrap().is_success());
    let listed = undelete(&scratch, &[]).expect_code(0);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    listed.expect_output(&uuid).expect_output(&anna);
    for hidden in [format!("(entryUUID={uuid})"), "(uid=anna)".to_owned()] {
        let found = admin.search(SUFFIX, Scope::WholeSubtree, &hidden, &["*", "+"]).unwrap();
        assert!(found.entries.is_empty(), "{hidden}");
    }
    let exported = command(&["export", "--operational"], Some(&Pando::data(&scratch))).expect_code(0);
    assert!(!exported.stdout.contains("anna") && !exported.stdout.contains(&uuid), "{}", exported.stdout);
    // Other users can neither list nor undelete entries.
    let mut user = pando.connect();
    for name in ["1.3.6.1.4.1.99999.5.4", "1.3.6.1.4.1.99999.5.5"] {
        let request = ldap::UndeleteRequest { uuid: [7; 16], superior: None }.encode();
        let reply = user.extended(name, Some(&request)).unwrap();
        assert_eq!(reply.outcome.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS, "{name}");
    }
    // Clients cannot send the writer's internal request.
    let own = admin.extended("1.3.6.1.4.1.99999.5.6", None).unwrap();
    assert_eq!(own.outcome.code, ResultCode::PROTOCOL_ERROR);
    drop((admin, user));
    pando.stop();

    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    undelete(&scratch, &[&anna]).expect_code(0).expect_output(&format!("{anna} is back"));
    assert_eq!(names(&mut admin), before);
    assert_eq!(admin.entry(&anna, &["entryUUID"]).unwrap().unwrap().text("entryUUID"), Some(uuid));
    assert_eq!(
        admin.entry(&group, &["member"]).unwrap().unwrap().texts("member"),
        std::slice::from_ref(&anna)
    );
    // Deleted entries are removed after the configured time.
    assert!(admin.delete(&anna).unwrap().is_success());
    keep_for(&mut admin, "1");
    let begun = std::time::Instant::now();
    while !undelete(&scratch, &[]).expect_code(0).stdout.is_empty() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the deleted entry is still kept");
    }
    undelete(&scratch, &[&anna]).expect_code(1).expect_error("no deleted entry");
    drop(admin);
    pando.stop();
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
}

/// The control of Active Directory that shows deleted entries (LDAP_SERVER_SHOW_DELETED_OID), as ldapsearch and ldap3
/// send it. The administrator gets values. A user with the right to undelete gets entries without values. For other
/// users the control does not exist.
#[test]
fn searches_show_deleted_entries_to_those_who_may_undelete() {
    let scratch = Scratch::new("show-deleted");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    for name in ["anna", "bert"] {
        set_password(&mut admin, name, &format!("{name}-secret"));
    }
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let control = format!("!{}", ldap::oids::SHOW_DELETED);
    let supported = |admin: &mut Connection| {
        let root = admin.entry("", &["supportedControl"]).unwrap().unwrap();
        root.texts("supportedControl").contains(&ldap::oids::SHOW_DELETED.to_owned())
    };
    let search = |(name, password): (&str, &str), options: &[&str]| {
        let url = format!("ldap://{}", pando.address());
        let fixed = ["-LLL", "-x", "-H", &url, "-D", name, "-w", password, "-E", &control, "-b", SUFFIX];
        test_support::clients::run("ldapsearch", &[&fixed[..], options].concat(), "")
    };
    let administrator = (test_support::ADMIN_DN, test_support::ADMIN_PASSWORD);
    // At first, the server keeps no deleted entries.
    assert!(!supported(&mut admin));
    search(administrator, &["(uid=anna)"]).expect_code(12);
    keep_for(&mut admin, "3600");
    assert!(supported(&mut admin));
    let carl = person_dn("carl");
    add_person(&mut admin, "carl");
    let uuid = admin.entry(&carl, &["entryUUID"]).unwrap().unwrap().text("entryUUID").unwrap();
    assert!(admin.delete(&carl).unwrap().is_success());
    let found = search(administrator, &["(objectClass=person)", "uid", "isDeleted", "lastKnownParent"]);
    let found = found.expect_code(0).stdout.replace("\n ", "");
    let parent = carl.split_once(',').unwrap().1;
    let deleted = format!("dn: entryUUID={uuid},{carl}\nisDeleted: TRUE\nlastKnownParent: {parent}\n");
    assert!(found.contains(&deleted) && found.contains("\nuid: carl\n"), "{found}");
    assert!(found.contains(&format!("dn: {anna}\n")), "{found}");
    let paged = search(administrator, &["-E", "pr=1/noprompt", "(isDeleted=TRUE)", "uid"]);
    paged.expect_code(0).expect_output("uid: carl");
    // Other users cannot use the control.
    search((&bert, "bert-secret"), &["(uid=carl)"]).expect_code(12);
    let rules = [
        "all: allow read to authenticated".to_owned(),
        format!("helpdesk: allow use of undelete to user '{anna}'"),
    ];
    test_support::tree::replace(
        &mut admin,
        "cn=config",
        "pandoAccessRule",
        &rules.each_ref().map(String::as_str),
    );
    search((&bert, "bert-secret"), &["(uid=carl)"]).expect_code(12);
    let listed = search((&anna, "anna-secret"), &["(isDeleted=TRUE)", "*", "+"]).expect_code(0).stdout;
    let listed = listed.replace("\n ", "");
    assert!(listed.contains(&uuid) && !listed.contains("\nsn:") && !listed.contains("\nuid:"), "{listed}");
    let by_value = search((&anna, "anna-secret"), &["(&(isDeleted=TRUE)(uid=carl))"]).expect_code(0);
    assert_eq!(by_value.stdout.trim(), "");
}
