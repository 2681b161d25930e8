//! Tests of dynamic entries: their places, refreshes and expiry.

use ldap::ChangeOperation::{Add, Delete};
use ldap::{ResultCode, Scope};

use crate::model::limits::TOMBSTONES_BYTES_MAX;
use crate::model::outcome::Outcome;
use crate::model::stamp::Stamp;
use crate::read::identity::identify;
use crate::testing::{SUFFIX, TestDirectory, ok, refused};

const MEETINGS: &str = "ou=meetings,dc=example,dc=com";
const MEETING: &str = "cn=m,ou=meetings,dc=example,dc=com";
const PERSON: &str = "cn=ann,dc=example,dc=com";

fn directory() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for dn in [MEETINGS, "ou=other,dc=example,dc=com"] {
        ok(directory.add(dn, &[("objectClass", &["organizationalUnit"])]));
    }
    let person: &[(&str, &[&str])] = &[("objectClass", &["person"]), ("sn", &["x"])];
    ok(directory.add(PERSON, person));
    directory.define_index("entryExpireTimestamp", "equality");
    directory.finish_indexes();
    directory.change_settings(|settings| {
        settings.general.dynamic_subtrees = vec![MEETINGS.to_owned()];
        settings.general.dynamic_ttl_min_seconds = 60;
        settings.general.dynamic_ttl_max_seconds = 1_000;
    });
    directory
}

fn add(directory: &mut TestDirectory, dn: &str, classes: &[&str]) -> Outcome {
    directory.add(dn, &[("objectClass", classes)])
}

fn add_dynamic(directory: &mut TestDirectory, dn: &str) -> Outcome {
    add(directory, dn, &["device", "dynamicObject"])
}

fn code(refreshed: Result<u32, Outcome>) -> ResultCode {
    refreshed.map_or_else(|outcome| outcome.code, |_| ResultCode::SUCCESS)
}

#[test]
fn refuses_dynamic_entries_outside_subtrees_and_static_ones_below() {
    let mut directory = directory();
    let violation = ResultCode::OBJECT_CLASS_VIOLATION;
    refused(add_dynamic(&mut directory, "cn=m,ou=other,dc=example,dc=com"), violation, "dynamic_subtrees");
    ok(add_dynamic(&mut directory, MEETING));
    let below = format!("cn=below,{MEETING}");
    refused(add(&mut directory, &below, &["device"]), violation, "a dynamic entry");
    ok(add_dynamic(&mut directory, &below));
    let text = "neither be added to an entry nor removed";
    refused(directory.modify(MEETING, &[(Delete, "objectClass", &["dynamicObject"])]), violation, text);
    refused(directory.modify(PERSON, &[(Add, "objectClass", &["dynamicObject"])]), violation, text);
    let moved = directory.modify_dn(&below, "cn=below", true, Some("ou=other,dc=example,dc=com"));
    refused(moved, violation, "dynamic_subtrees");
    refused(directory.modify_dn(PERSON, "cn=ann", true, Some(MEETING)), violation, "a dynamic entry");
    ok(directory.modify_dn(&below, "cn=beside", true, Some(MEETINGS)));
    let root = directory.search("", Scope::BaseObject, "(objectClass=*)", &["dynamicSubtrees"]);
    assert_eq!(root.entries[0].texts("dynamicSubtrees"), [MEETINGS]);
}

#[test]
fn entries_end_unless_they_are_refreshed() {
    let mut directory = directory();
    let below = format!("cn=below,{MEETING}");
    ok(add_dynamic(&mut directory, MEETING));
    ok(add_dynamic(&mut directory, &below));
    assert!(!directory.make_due_changes(900));
    // The requested time to live is adjusted to the limits in the settings.
    for (asked, given) in [(1, 60), (300, 300), (5_000, 1_000)] {
        assert_eq!(directory.refresh(&below, asked), Ok(given));
    }
    let before = directory.snapshot.position().unwrap();
    assert_eq!(directory.refresh(&below, 1_000), Ok(1_000));
    assert!(directory.snapshot.position().unwrap() <= before + 1);
    // The superior stays until it has no subordinates.
    let mut directory = directory.reopen();
    assert_eq!(directory.refresh(MEETING, 60), Ok(60));
    assert!(!directory.make_due_changes(500));
    assert!(directory.read(MEETING).is_some());
    assert!(directory.make_due_changes(1_100));
    assert!(directory.read(MEETING).is_none() && directory.read(&below).is_none());
    assert!(directory.read(MEETINGS).is_some());
    assert!(!directory.make_due_changes(100_000));
}

/// Regression test: an undelete restored dynamic entries outside the subtrees of the settings, and static entries
/// below dynamic entries. A restored entry whose time to live had ended was deleted again immediately.
#[test]
fn deleted_entries_are_restored_only_if_they_could_be_added() {
    let mut directory = directory();
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 100_000);
    let below = format!("cn=below,{MEETING}");
    ok(add_dynamic(&mut directory, MEETING));
    ok(add_dynamic(&mut directory, &below));
    ok(directory.delete_tree(MEETING));
    let violation = ResultCode::OBJECT_CLASS_VIOLATION;
    let moved = directory.undelete(MEETING, Some("ou=other,dc=example,dc=com"));
    refused(moved.unwrap_err(), violation, "dynamic_subtrees");
    directory.pass(5_000);
    assert_eq!(directory.undelete(MEETING, None).unwrap().entries, 2);
    ok(directory.delete(PERSON));
    refused(directory.undelete(PERSON, Some(MEETING)).unwrap_err(), violation, "a dynamic entry");
    assert!(!directory.make_due_changes(900));
    assert!(directory.make_due_changes(1_000));
    assert!(directory.read(&below).is_none());
}

/// Regression test: a move and an undelete examined only the top entry. With a static top entry, its dynamic entries
/// left the subtrees of the settings, or ended immediately after they were restored.
#[test]
fn dynamic_entries_below_a_static_entry_stay_in_the_subtrees() {
    let mut directory = directory();
    let (room, other) = (format!("ou=room,{MEETINGS}"), format!("ou=other,{SUFFIX}"));
    let below = format!("cn=m,{room}");
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 100_000);
    ok(add(&mut directory, &room, &["organizationalUnit"]));
    ok(add_dynamic(&mut directory, &below));
    let violation = ResultCode::OBJECT_CLASS_VIOLATION;
    refused(directory.modify_dn(&room, "ou=room", true, Some(&other)), violation, "dynamic_subtrees");
    refused(directory.modify_dn(MEETINGS, "ou=renamed", true, None), violation, "dynamic_subtrees");
    ok(directory.modify_dn(&room, "ou=hall", true, None));
    ok(directory.modify_dn(&format!("ou=hall,{MEETINGS}"), "ou=room", true, None));
    ok(directory.modify_dn(&other, "ou=beside", true, None));
    ok(directory.modify_dn(&format!("ou=beside,{SUFFIX}"), "ou=other", true, None));

    ok(directory.delete_tree(&room));
    refused(directory.undelete(&room, Some(&other)).unwrap_err(), violation, "dynamic_subtrees");
    directory.pass(5_000);
    assert_eq!(directory.undelete(&room, None).unwrap().entries, 2);
    assert!(!directory.make_due_changes(900));
    assert!(directory.read(&room).unwrap().texts("entryExpireTimestamp").is_empty());
    // The base of a subtree may be restored together with the entries below it.
    ok(directory.delete_tree(MEETINGS));
    assert_eq!(directory.undelete(MEETINGS, None).unwrap().entries, 3);
    assert!(directory.make_due_changes(1_001));
    assert!(directory.read(&below).is_none() && directory.read(&room).is_some());
    assert_eq!(crate::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());

    // Both names of the base can be in the settings.
    ok(add_dynamic(&mut directory, &below));
    let renamed = format!("ou=renamed,{SUFFIX}");
    directory.change_settings(|settings| settings.general.dynamic_subtrees.push(renamed.clone()));
    ok(directory.modify_dn(MEETINGS, "ou=renamed", true, None));
}

/// Regression test: the writer deleted an expired entry as a client without ManageDsaIT. An expired referral was
/// therefore refused for ever, and with it all later due changes.
#[test]
fn a_referral_ends_like_another_entry() {
    let mut directory = directory();
    let referral: &[(&str, &[&str])] = &[
        ("objectClass", &["referral", "extensibleObject", "dynamicObject"]),
        ("ref", &["ldap://other.example/"]),
    ];
    let away = format!("cn=away,{MEETINGS}");
    ok(directory.add(&away, referral));
    ok(add_dynamic(&mut directory, MEETING));
    assert!(directory.make_due_changes(1_001));
    assert!(directory.read(MEETING).is_none());
    assert!(!directory.make_due_changes(1_001));
    ok(directory.add(&away, referral));
}

#[test]
fn a_refused_due_change_does_not_prevent_the_others() {
    let mut directory = directory();
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 3_600);
    ok(directory.delete(PERSON));
    let large = "l".repeat(TOMBSTONES_BYTES_MAX);
    let too_large_to_keep: &[(&str, &[&str])] =
        &[("objectClass", &["device", "dynamicObject"]), ("description", &[&large])];
    ok(directory.add(&format!("cn=large,{MEETINGS}"), too_large_to_keep));
    ok(add_dynamic(&mut directory, MEETING));
    let stamp = Stamp { now_micros: directory.now_micros() + 8_000_000_000, ..directory.stamp() };
    let mut batch = directory.writer.begin().unwrap();
    let refusal = batch.make_due_changes(&stamp).unwrap_err();
    assert_eq!(refusal.code, ResultCode::ADMIN_LIMIT_EXCEEDED, "{}", refusal.diagnostic);
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
    assert!(directory.read(MEETING).is_none());
    assert!(directory.undelete(PERSON, None).is_err(), "the tombstone is purged");
}

#[test]
fn refreshes_are_refused_as_the_rfc_says() {
    let mut directory = directory();
    ok(add_dynamic(&mut directory, MEETING));
    assert_eq!(code(directory.refresh(PERSON, 60)), ResultCode::OBJECT_CLASS_VIOLATION);
    let missing = format!("cn=none,{MEETINGS}");
    assert_eq!(code(directory.refresh(&missing, 60)), ResultCode::NO_SUCH_OBJECT);
    assert_eq!(code(directory.refresh(MEETING, 31_557_601)), ResultCode::SIZE_LIMIT_EXCEEDED);
    assert_eq!(code(directory.refresh(MEETING, 0)), ResultCode::PROTOCOL_ERROR);
    let rules = [
        "all: allow read, search, add to authenticated",
        "a: allow write of entryTtl to user 'cn=ann,dc=example,dc=com'",
    ];
    let denied = ResultCode::INSUFFICIENT_ACCESS_RIGHTS;
    for (rules, ann, other) in [(&rules[..0], denied, denied), (&rules[..], ResultCode::SUCCESS, denied)] {
        let administrator = directory.requester.clone();
        directory.change_settings(|settings| {
            settings.general.access_rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        });
        for (dn, expected) in [(PERSON, ann), (SUFFIX, other)] {
            directory.requester =
                identify(&directory.snapshot, &format!("dn:{dn}")).unwrap().unwrap().requester;
            assert_eq!(code(directory.refresh(MEETING, 60)), expected, "{dn} {rules:?}");
        }
        directory.requester = administrator;
    }
    // The creator of an entry may refresh it, even without access rules.
    directory.requester = identify(&directory.snapshot, &format!("dn:{PERSON}")).unwrap().unwrap().requester;
    let own = format!("cn=own,{MEETINGS}");
    ok(add_dynamic(&mut directory, &own));
    directory.requester = crate::access::Requester::Administrator { dn: "cn=admin".to_owned() };
    directory.change_settings(|settings| settings.general.access_rules.clear());
    directory.requester = identify(&directory.snapshot, &format!("dn:{PERSON}")).unwrap().unwrap().requester;
    assert_eq!(directory.refresh(&own, 60), Ok(60));
}

#[test]
fn settings_of_dynamic_entries_are_checked() {
    let mut directory = TestDirectory::with_suffix_entry();
    let refused = directory.try_change_settings(|of| of.general.dynamic_subtrees = vec![SUFFIX.to_owned()]);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("entryExpireTimestamp has no equality index"), "{text}");
    for (min, max) in [(0, 10), (11, 10), (1, 31_557_601)] {
        let refused = directory.try_change_settings(|of| {
            (of.general.dynamic_ttl_min_seconds, of.general.dynamic_ttl_max_seconds) = (min, max);
        });
        assert!(refused.unwrap_err().to_string().contains("dynamic_ttl_min_seconds"), "{min} {max}");
    }
    let outcome = add_dynamic(&mut directory, "cn=m,dc=example,dc=com");
    assert_eq!(outcome.code, ResultCode::OBJECT_CLASS_VIOLATION, "{}", outcome.diagnostic);
}
