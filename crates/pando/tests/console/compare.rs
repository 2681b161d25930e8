//! Comparison of entries with the server's backup, and restoring values of an earlier moment.

use std::time::Duration;

use ldap::{ChangeOperation, ResultCode};
use serde_json::Value;

use crate::start;
use test_support::cluster::{until, until_within};
use test_support::http::{Answer, Browser, quoted};
use test_support::pando::command;
use test_support::tree::{bind, person_dn, plant, replace, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Returns the `[backup]` table of the node file.
pub(crate) fn backup_table(scratch: &Scratch) -> String {
    format!("[backup]\nfolder = {:?}", scratch.join("backup").to_str().unwrap())
}

/// A moment in the future, which selects the end of the backup. Changes after the backup are not included.
pub(crate) const NEWEST: &str = "2100-01-01T00:00:00Z";

/// Maximum time for a backup, and for restoring it.
const RESTORE_TIME_MAX: Duration = Duration::from_secs(600);

const KEY_HOLDER: &str = "attributetype ( 1.3.6.1.4.1.7165.2.1.25 NAME 'sambaNTPassword' EQUALITY \
                          caseIgnoreIA5Match SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n\
                          objectclass ( 1.3.6.1.4.1.99999.9.1 NAME 'keyHolder' AUXILIARY MAY sambaNTPassword )\n";
/// A secret of one-time codes, and a password hash for another service.
const CODES: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
const HASH: &str = "8846F7EAEE8FB117AD06BDD830B7586C";

/// Backs up all changes made so far.
pub(crate) fn back_up(scratch: &Scratch) {
    let folder = scratch.join("backup");
    let arguments = ["backup", "make", folder.to_str().unwrap()];
    // The server may be writing its own first backup.
    until_within(RESTORE_TIME_MAX, "a backup is made", || {
        (command(&arguments, Some(&Pando::data(scratch))).code == Some(0)).then_some(())
    });
}

/// Returns the comparison of an entry with an earlier moment, as soon as the server has restored that moment.
pub(crate) fn compared(browser: &Browser, dn: &str, at: &str) -> Value {
    until_within(RESTORE_TIME_MAX, "the moment is restored", || {
        let model = browser.json(&format!("/compare?dn={}&at={}", quoted(dn), quoted(at)));
        Some(model["compared"].clone()).filter(|compared| !compared.is_null())
    })
}

fn model(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

/// Returns the values of an attribute on one side of a comparison.
fn side<'m>(compared: &'m Value, attribute: &str, side: &str) -> Vec<&'m str> {
    let mut differences = compared["differences"].as_array().unwrap().iter();
    let found = differences.find(|one| one["attribute"] == attribute);
    let values = found.and_then(|one| one[side]["values"].as_array()).map(Vec::as_slice).unwrap_or_default();
    values.iter().map(|value| value["text"].as_str().or(value["kind"].as_str()).unwrap()).collect()
}

#[test]
fn an_entry_is_compared_with_the_backup_and_restored() {
    let scratch = Scratch::new("console-compare");
    let pando = start(&scratch, &backup_table(&scratch));
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let (anna, bert, staff) = (person_dn("anna"), person_dn("bert"), format!("cn=staff,ou=groups,{SUFFIX}"));
    replace(&mut administrator, &anna, "title", &["Engineer"]);
    let schema = [("objectClass", "pandoSchema"), ("cn", "keys"), ("pandoSchemaText", KEY_HOLDER)];
    assert!(administrator.add("cn=keys,cn=schema,cn=config", &schema).unwrap().is_success());
    let class = [(ChangeOperation::Add, "objectClass", ["keyHolder"].as_slice())];
    assert!(administrator.modify(&anna, &class).unwrap().is_success());
    replace(&mut administrator, &anna, "sambaNTPassword", &[HASH]);
    replace(&mut administrator, &anna, "pandoTotpSecret", &[CODES]);
    back_up(&scratch);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let same = compared(&browser, &anna, NEWEST);
    assert_eq!(
        (same["differences"].as_array().map(Vec::len), &same["can_restore"]),
        (Some(0), &false.into())
    );

    replace(&mut administrator, &anna, "title", &["Boss"]);
    replace(&mut administrator, &anna, "sambaNTPassword", &["00000000000000000000000000000000"]);
    replace(&mut administrator, &anna, "pandoTotpSecret", &["MFRGGZDFMZTWQ2LKMFRGGZDFMZTWQ2LK"]);
    replace(&mut administrator, &anna, "description", &["new"]);
    set_password(&mut administrator, "anna", "another-secret");
    assert!(administrator.delete(&bert).unwrap().is_success());
    let found = compared(&browser, &anna, NEWEST);
    assert_eq!(
        (side(&found, "title", "then"), side(&found, "title", "now")),
        (vec!["Engineer"], vec!["Boss"])
    );
    assert_eq!(side(&found, "description", "now"), ["new"]);
    assert_eq!(side(&found, "userPassword", "then"), ["secret"]);
    assert!(found["same"].as_u64() >= Some(3), "{found}");
    let page = browser.get(&format!("/compare?dn={}&at={}", quoted(&anna), quoted(NEWEST))).text();
    assert!(page.contains("(secret)") && !page.contains("argon2") && page.contains("Only then"), "{page}");

    assert!(page.contains("sambaNTPassword") && !page.contains(&HASH[..8]), "{page}");
    assert!(!page.contains("pandoTotpSecret") && !page.contains(CODES), "{page}");

    let path = format!("/compare?dn={}&at={}", quoted(&anna), quoted(NEWEST));
    assert_eq!(browser.json(&path)["place"], scratch.join("backup").to_str().unwrap());

    // A preview of the change comes first. The change is refused if the entry has changed since.
    let fields = [("dn", anna.as_str()), ("at", NEWEST)];
    let preview = model(&browser.post_json("/compare", &fields));
    let ldif = preview["ldif"].as_str().unwrap();
    assert!(
        ldif.contains("title: Engineer") && ldif.contains("(not shown)") && !ldif.contains("argon2"),
        "{ldif}"
    );
    assert!(!ldif.contains(&HASH[..8]) && !ldif.contains("pandoTotpSecret"), "{ldif}");
    let csn = preview["csn"].as_str().unwrap().to_owned();
    let apply = [("dn", anna.as_str()), ("at", NEWEST), ("csn", &csn), ("step", "apply")];
    replace(&mut administrator, &anna, "title", &["Chief"]);
    assert_eq!(browser.post("/compare", &apply).status, 409);
    let csn = model(&browser.post_json("/compare", &fields))["csn"].as_str().unwrap().to_owned();
    let apply = [("dn", anna.as_str()), ("at", NEWEST), ("csn", &csn), ("step", "apply")];
    let made = browser.post("/compare", &apply);
    assert_eq!(made.status, 303, "{}", made.text());
    let entry = administrator.entry(&anna, &["title", "description"]).unwrap().unwrap();
    assert_eq!((entry.texts("title"), entry.texts("description").len()), (vec!["Engineer".to_owned()], 0));
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);

    // A deleted entry is restored, and afterwards its membership in a group.
    let uuid = |found: &Value| found["existed"] == true && found["exists"] == false;
    assert!(uuid(&compared(&browser, &bert, NEWEST)));
    let made = browser.post("/compare", &[("dn", bert.as_str()), ("at", NEWEST), ("step", "apply")]);
    assert_eq!(made.status, 303, "{}", made.text());
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::SUCCESS);
    assert_eq!(side(&compared(&browser, &staff, NEWEST), "member", "then"), [bert.as_str()]);
    assert_eq!(compared(&browser, &bert, NEWEST)["is_another"], false);
    assert!(pando.stop().success());
    let left = scratch.join("backup").join("moment-for-clients");
    assert!(!left.exists(), "the copy is removed");
}

#[test]
fn other_users_and_moments_without_a_backup_are_refused() {
    let scratch = Scratch::new("console-compare-refused");
    let pando = start(&scratch, &backup_table(&scratch));
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let anna = person_dn("anna");
    back_up(&scratch);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let status = |browser: &Browser, dn: &str, at: &str| {
        browser.get(&format!("/compare?dn={}&at={}", quoted(dn), quoted(at))).status
    };
    assert_eq!(status(&browser, &anna, "yesterday"), 400);
    assert!(!compared(&browser, &anna, NEWEST).is_null());
    assert_eq!(status(&browser, &format!("cn=nobody,{SUFFIX}"), NEWEST), 404);
    until("another moment is restored, or refused", || {
        let answer = browser.get(&format!("/compare?dn={}&at=2001-01-01", quoted(&anna)));
        (answer.status != 200).then(|| assert_eq!(answer.status, 422, "{}", answer.text()))
    });
    // A different entry with the same name is left alone.
    assert!(administrator.delete(&anna).unwrap().is_success());
    test_support::tree::add_person(&mut administrator, "anna");
    let found = compared(&browser, &anna, NEWEST);
    assert_eq!((&found["is_another"], &found["can_restore"]), (&true.into(), &false.into()));
    assert_eq!(
        browser.post("/compare", &[("dn", anna.as_str()), ("at", NEWEST), ("step", "apply")]).status,
        409
    );

    // Readers of the monitor see the page, but only the administrator can read the backup.
    let outcome = administrator
        .modify("cn=config", &[(ChangeOperation::Add, "pandoMonitorReader", [anna.as_str()].as_slice())])
        .unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!((own.get("/compare").status, status(&own, &anna, NEWEST)), (200, 403));
    assert_eq!(own.post("/compare", &[("dn", anna.as_str()), ("at", NEWEST)]).status, 403);
    assert!(!own.get("/compare").text().contains("cn=admin"));
    let other = Browser::signed_in(&pando, "bert", "bert-secret");
    assert_eq!(other.get("/compare").status, 403);
    assert!(pando.stop().success());
}

/// Returns the changes that restore a tree, as soon as the server has restored the moment.
pub(crate) fn tree(browser: &Browser, dn: &str) -> Value {
    until("the moment is restored", || {
        let model = browser.json(&format!("/compare/tree?dn={}&at={}", quoted(dn), quoted(NEWEST)));
        Some(model["tree"].clone()).filter(|tree| !tree.is_null())
    })
}

#[test]
fn a_deleted_tree_is_restored_with_passwords_and_memberships() {
    let scratch = Scratch::new("console-compare-tree");
    let trail = format!("[audit]\nfolder = {:?}\n", scratch.join("trail").to_str().unwrap());
    let pando = start(&scratch, &(trail + &backup_table(&scratch)));
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let (people, anna, bert) = (format!("ou=people,{SUFFIX}"), person_dn("anna"), person_dn("bert"));
    let staff = format!("cn=staff,ou=groups,{SUFFIX}");
    replace(&mut administrator, &anna, "title", &["Engineer"]);
    let uuid = |administrator: &mut client::Connection, dn: &str| {
        administrator.entry(dn, &["entryUUID"]).unwrap().and_then(|entry| entry.text("entryUUID"))
    };
    // If the last member of a group is deleted, the group gets an empty member value and keeps it. This function leaves
    // out the empty value.
    let members = |administrator: &mut client::Connection| {
        let entry = administrator.entry(&staff, &["member"]).unwrap().unwrap();
        entry.texts("member").into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>()
    };
    let before = (uuid(&mut administrator, &people), uuid(&mut administrator, &bert));
    let all_members = members(&mut administrator);
    back_up(&scratch);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let same = tree(&browser, &people);
    assert_eq!(
        (same["changes"].as_array().map(Vec::len), same["same"].as_u64()),
        (Some(0), Some(3)),
        "{same}"
    );

    // An entry that differs gets its earlier values. An entry with another UUID is left alone, and so is everything
    // below it.
    replace(&mut administrator, &anna, "title", &["Boss"]);
    assert!(administrator.delete(&bert).unwrap().is_success());
    let found = tree(&browser, &people);
    assert_eq!((&found["added"], &found["modified"], &found["named"]), (&1.into(), &1.into(), &1.into()));
    let old = found["version"].as_str().unwrap().to_owned();
    test_support::tree::add_person(&mut administrator, "bert");
    let left = tree(&browser, &people);
    assert_eq!((&left["left"][0]["dn"], &left["added"]), (&bert.as_str().into(), &0.into()), "{left}");
    let restore = |version: &str| {
        browser.post("/compare/tree", &[("dn", people.as_str()), ("at", NEWEST), ("version", version)])
    };
    assert_eq!(restore(&old).status, 409, "the changes are others than were shown");
    assert_eq!(restore("").status, 409);

    // The whole department is deleted.
    for dn in [&anna, &bert, &people] {
        assert!(administrator.delete(dn).unwrap().is_success(), "{dn}");
    }
    let found = tree(&browser, &people);
    assert_eq!((&found["added"], &found["named"], &found["modified"]), (&3.into(), &1.into(), &0.into()));
    let page = browser.get(&format!("/compare/tree?dn={}&at={}", quoted(&people), quoted(NEWEST))).text();
    assert!(page.contains("3 entries would be added") && page.contains(&staff) && !page.contains("argon2"));
    let superior = format!("ou=more,{people}");
    let made = restore(found["version"].as_str().unwrap());
    assert_eq!(made.status, 303, "{}", made.text());
    assert!(made.headers("location")[0].contains("notice=tree_restored"), "{}", made.head);
    assert_eq!((uuid(&mut administrator, &people), uuid(&mut administrator, &bert)), before);
    assert_eq!(members(&mut administrator), all_members);
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::SUCCESS);
    assert_eq!(tree(&browser, &people)["changes"].as_array().map(Vec::len), Some(0));
    let missing = browser.get(&format!("/compare/tree?dn={}&at={}", quoted(&superior), quoted(NEWEST)));
    assert_eq!(missing.status, 404, "{}", missing.text());
    assert!(pando.stop().success());
    let folder = scratch.join("trail");
    let trail =
        command(&["audit", "--folder", folder.to_str().unwrap(), "--json"], None).expect_code(0).stdout;
    let adds = trail.lines().filter(|line| line.contains("by the console") || line.contains("\"console\""));
    assert!(adds.count() > 0 && trail.contains(&bert), "{trail}");
}

#[test]
fn a_refused_change_prevents_the_restore_of_a_tree() {
    let scratch = Scratch::new("console-compare-tree-refused");
    let pando = start(&scratch, &backup_table(&scratch));
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let (people, anna) = (format!("ou=people,{SUFFIX}"), person_dn("anna"));
    back_up(&scratch);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    for dn in [&anna, &person_dn("bert")] {
        assert!(administrator.delete(dn).unwrap().is_success(), "{dn}");
    }
    let version = tree(&browser, &people)["version"].as_str().unwrap().to_owned();
    // A rule of the settings refuses one of the changes.
    replace(&mut administrator, "cn=config", "pandoUnique", &["names: uid"]);
    let other = [("objectClass", "account"), ("uid", "bert")];
    assert!(administrator.add(&format!("uid=bert,{SUFFIX}"), &other).unwrap().is_success());
    let fields = [("dn", people.as_str()), ("at", NEWEST), ("version", version.as_str())];
    let refused = browser.post("/compare/tree", &fields);
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("uid=bert"), "{}", refused.text());
    assert!(administrator.entry(&anna, &["1.1"]).unwrap().is_none(), "none of the changes is made");

    test_support::tree::add_person(&mut administrator, "anna");
    let outcome = administrator
        .modify("cn=config", &[(ChangeOperation::Add, "pandoMonitorReader", [anna.as_str()].as_slice())])
        .unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    let path = format!("/compare/tree?dn={}&at={}", quoted(&people), quoted(NEWEST));
    assert_eq!((own.get("/compare/tree").status, own.get(&path).status), (200, 403));
    assert_eq!(own.post("/compare/tree", &fields).status, 403);
    assert!(pando.stop().success());
}
