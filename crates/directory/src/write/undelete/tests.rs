use ldap::{ChangeOperation, ResultCode, Scope};

use crate::access::Requester;
use crate::model::rows::{DELETED, EntryId};
use crate::testing::{SUFFIX, TestDirectory};

const ANN: &str = "cn=ann,ou=people,dc=example,dc=com";
const PEOPLE: &str = "ou=people,dc=example,dc=com";
const TEAM: &str = "cn=team,dc=example,dc=com";
const PERSON: &[(&str, &[&str])] =
    &[("objectClass", &["inetOrgPerson"]), ("sn", &["Ann"]), ("userPassword", &["{SSHA}x"])];

/// Creates a directory that keeps deleted entries for an hour. The directory contains a person who is a member of a
/// group and the manager of another entry.
fn sample(has_integrity: bool) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.change_settings(|settings| {
        settings.general.keep_deleted_seconds = 3_600;
        if !has_integrity {
            settings.general.integrity_attributes.clear();
        }
    });
    let unit = |directory: &mut TestDirectory, dn: &str| {
        ok(directory.add(dn, &[("objectClass", &["organizationalUnit"])]));
    };
    unit(&mut directory, PEOPLE);
    unit(&mut directory, "ou=other,dc=example,dc=com");
    ok(directory.add(ANN, PERSON));
    ok(directory.add(TEAM, &[("objectClass", &["groupOfNames"]), ("member", &[ANN])]));
    let bob = [("objectClass", &["inetOrgPerson"][..]), ("sn", &["Bob"]), ("manager", &[ANN])];
    ok(directory.add("cn=bob,dc=example,dc=com", &bob));
    directory
}

#[track_caller]
fn ok(outcome: crate::Outcome) {
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
}

#[track_caller]
fn texts(directory: &mut TestDirectory, dn: &str, attribute: &str) -> Vec<String> {
    let found = directory.search(dn, Scope::BaseObject, "(objectClass=*)", &[attribute]);
    found.entries.first().map_or_else(Vec::new, |entry| entry.texts(attribute))
}

fn tombstone_count(directory: &TestDirectory) -> usize {
    directory.snapshot.state().read.scan_below(DELETED, b"").count()
}

#[track_caller]
fn assert_sound(directory: &TestDirectory) {
    assert_eq!(crate::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn undelete_restores_uuid_values_and_memberships() {
    for has_integrity in [true, false] {
        let mut directory = sample(has_integrity);
        let before = directory.read(ANN).unwrap();
        ok(directory.delete(ANN));
        assert!(directory.read(ANN).is_none());
        let found = directory.search(SUFFIX, Scope::WholeSubtree, "(sn=Ann)", &["*"]);
        assert!(found.entries.is_empty());
        assert_sound(&directory);
        // The superior moves before the entry is restored.
        ok(directory.modify_dn(PEOPLE, "ou=folk", true, Some("ou=other,dc=example,dc=com")));
        let now = "cn=ann,ou=folk,ou=other,dc=example,dc=com";
        let answer = directory.undelete(ANN, None).unwrap();
        assert_eq!((answer.dn.as_str(), answer.entries), (now, 1));
        let after = directory.read(now).unwrap();
        for attribute in ["entryUUID", "sn", "cn", "createTimestamp", "userPassword"] {
            assert_eq!(after.texts(attribute), before.texts(attribute), "{attribute}");
        }
        assert!(after.texts("entryCSN") > before.texts("entryCSN"));
        assert_eq!(texts(&mut directory, TEAM, "member"), [now]);
        assert_eq!(texts(&mut directory, "cn=bob,dc=example,dc=com", "manager"), [now]);
        assert_eq!(texts(&mut directory, now, "memberOf"), [TEAM]);
        assert_eq!(tombstone_count(&directory), 0);
        assert_sound(&directory);
        assert_eq!(directory.undelete(ANN, None).unwrap_err().code, ResultCode::NO_SUCH_OBJECT);
    }
}

#[test]
fn a_tree_is_restored_whole_or_in_part() {
    for has_integrity in [true, false] {
        let mut directory = sample(has_integrity);
        let inner = "cn=inner,ou=people,dc=example,dc=com";
        ok(directory.add(inner, &[("objectClass", &["groupOfNames"]), ("member", &[ANN, TEAM])]));
        ok(directory.delete_tree(PEOPLE));
        let refused = directory.undelete(ANN, None).unwrap_err();
        assert_eq!(refused.code, ResultCode::UNWILLING_TO_PERFORM);
        assert!(refused.diagnostic.contains("superior"), "{}", refused.diagnostic);
        let restored = directory.undelete(ANN, Some("ou=other,dc=example,dc=com")).unwrap();
        assert_eq!(restored.dn, "cn=ann,ou=other,dc=example,dc=com");
        ok(directory.delete(&restored.dn));
        let rest = directory.undelete(PEOPLE, None).unwrap();
        assert_eq!((rest.dn.as_str(), rest.entries), (PEOPLE, 2));
        // The person did not exist when the group was restored, so the group lost this member.
        assert_eq!(texts(&mut directory, inner, "member"), [TEAM]);
        assert_sound(&directory);
        ok(directory.delete_tree(PEOPLE));
        assert_eq!(directory.undelete(PEOPLE, None).unwrap().entries, 2);
        let back = directory.undelete("cn=ann,ou=other,dc=example,dc=com", Some(PEOPLE)).unwrap();
        assert_eq!(back.dn, ANN);
        assert_eq!(texts(&mut directory, TEAM, "member"), [ANN]);
        assert_sound(&directory);
        let directory = directory.reopen();
        assert_eq!(tombstone_count(&directory), 0);
    }
}

#[test]
fn names_that_are_taken_are_refused() {
    let mut directory = sample(true);
    ok(directory.delete(ANN));
    ok(directory.add(ANN, PERSON));
    let refused = directory.undelete(ANN, None).unwrap_err();
    assert_eq!(refused.code, ResultCode::ENTRY_ALREADY_EXISTS, "{}", refused.diagnostic);
    let other = directory.undelete(ANN, Some("ou=other,dc=example,dc=com")).unwrap();
    assert_eq!(texts(&mut directory, &other.dn, "memberOf"), [TEAM]);
    assert_sound(&directory);
}

#[test]
fn values_that_must_be_unique_are_refused() {
    let mut directory = sample(true);
    directory.define_index("sn", "equality");
    directory.finish_indexes();
    directory.change_settings(|settings| settings.general.unique = vec!["names: sn".to_owned()]);
    ok(directory.delete_tree(PEOPLE));
    ok(directory.add("cn=eve,dc=example,dc=com", &[("objectClass", &["person"]), ("sn", &["Ann"])]));
    let refused = directory.undelete(PEOPLE, None).unwrap_err();
    assert_eq!(refused.code, ResultCode::CONSTRAINT_VIOLATION, "{}", refused.diagnostic);
    ok(directory.delete("cn=eve,dc=example,dc=com"));
    assert_eq!(directory.undelete(PEOPLE, None).unwrap().entries, 2);
}

/// Regression test: a uniqueness rule with a base was checked with the DN before the delete. A move by undelete
/// therefore put a second entry with the value into the base.
#[test]
fn values_that_must_be_unique_are_refused_at_the_new_place() {
    const OTHER: &str = "ou=other,dc=example,dc=com";
    let mut directory = sample(true);
    directory.define_index("sn", "equality");
    directory.finish_indexes();
    directory.change_settings(|settings| settings.general.unique = vec![format!("names: sn in '{OTHER}'")]);
    let eve = format!("cn=eve,{OTHER}");
    ok(directory.add(&eve, &[("objectClass", &["person"]), ("sn", &["Ann"])]));
    ok(directory.delete_tree(PEOPLE));
    let refused = directory.undelete(PEOPLE, Some(OTHER)).unwrap_err();
    assert_eq!(refused.code, ResultCode::CONSTRAINT_VIOLATION, "{}", refused.diagnostic);
    ok(directory.delete(&eve));
    assert_eq!(directory.undelete(PEOPLE, Some(OTHER)).unwrap().entries, 2);
    // An entry that leaves the base may have a value of the base.
    let ann = format!("cn=ann,ou=people,{OTHER}");
    ok(directory.delete(&ann));
    ok(directory.add(&eve, &[("objectClass", &["person"]), ("sn", &["Ann"])]));
    assert_eq!(directory.undelete(&ann, Some(SUFFIX)).unwrap().dn, "cn=ann,dc=example,dc=com");
}

/// Regression test: the entries of one undelete were not checked against each other.
#[test]
fn entries_that_are_restored_together_may_not_share_a_unique_value() {
    let mut directory = sample(true);
    directory.define_index("sn", "equality");
    directory.finish_indexes();
    ok(directory.add(&format!("cn=eve,{PEOPLE}"), &[("objectClass", &["person"]), ("sn", &["ANN"])]));
    ok(directory.delete_tree(PEOPLE));
    for (rule, expected) in [
        ("names: sn in 'ou=people,dc=example,dc=com'", Err(ResultCode::CONSTRAINT_VIOLATION)),
        ("names: sn matching '(objectClass=inetOrgPerson)'", Ok(3)),
    ] {
        directory.change_settings(|settings| settings.general.unique = vec![rule.to_owned()]);
        let found = directory.undelete(PEOPLE, None);
        assert_eq!(found.map(|answer| answer.entries).map_err(|refused| refused.code), expected, "{rule}");
    }
}

/// Regression test: value limits were checked only in a directory that also had a uniqueness rule.
#[test]
fn values_beyond_a_limit_are_not_restored() {
    let mut directory = sample(true);
    ok(directory.delete_tree(PEOPLE));
    directory.change_settings(|settings| {
        settings.general.value_limits = vec!["names: sn at most 2 octets".to_owned()];
    });
    let refused = directory.undelete(PEOPLE, None).unwrap_err();
    assert_eq!(refused.code, ResultCode::CONSTRAINT_VIOLATION, "{}", refused.diagnostic);
    directory.change_settings(|settings| settings.general.value_limits.clear());
    assert_eq!(directory.undelete(PEOPLE, None).unwrap().entries, 2);
}

#[test]
fn only_currently_allowed_values_are_restored() {
    let mut directory = sample(true);
    ok(directory.delete(ANN));
    // The delete of the group's last member left the empty DN in the group. Now the group gets another member.
    ok(directory.modify(TEAM, &[(ChangeOperation::Add, "member", &["cn=bob,dc=example,dc=com"])]));
    // The deleted manager became text, which an administrator now removes.
    ok(directory.modify("cn=bob,dc=example,dc=com", &[(ChangeOperation::Delete, "manager", &[])]));
    directory.undelete(ANN, None).unwrap();
    let mut members = texts(&mut directory, TEAM, "member");
    members.sort();
    assert_eq!(members, [ANN, "cn=bob,dc=example,dc=com"]);
    assert!(texts(&mut directory, "cn=bob,dc=example,dc=com", "manager").is_empty());
    assert_sound(&directory);
}

#[test]
fn tombstones_are_removed_when_they_are_due() {
    let mut directory = sample(true);
    ok(directory.delete(ANN));
    assert!(!directory.make_due_changes(3_000));
    assert_eq!(tombstone_count(&directory), 2);
    assert!(directory.make_due_changes(3_600));
    assert_eq!(tombstone_count(&directory), 0);
    assert!(!directory.make_due_changes(3_600));
    assert_eq!(directory.undelete(ANN, None).unwrap_err().code, ResultCode::NO_SUCH_OBJECT);
    // The CSNs of the new deletes are just after second 3,600, so their tombstones have expired at second 8,000. One
    // record removes only a limited number of tombstones.
    for number in 0..15 {
        ok(directory.add(&format!("cn={number},{PEOPLE}"), PERSON));
    }
    ok(directory.delete_tree(PEOPLE));
    assert_eq!(tombstone_count(&directory), 32);
    assert!(directory.make_due_changes(8_000));
    assert_eq!(tombstone_count(&directory), 12);
    assert!(directory.make_due_changes(8_000));
    assert!(!directory.make_due_changes(8_000));
    // Without the setting, deletes create no tombstones, and existing tombstones are removed.
    ok(directory.delete("cn=bob,dc=example,dc=com"));
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 0);
    ok(directory.delete(TEAM));
    assert_eq!(tombstone_count(&directory), 2);
    assert!(directory.make_due_changes(8_000));
    assert_eq!(tombstone_count(&directory), 0);
}

#[test]
fn deletes_that_are_too_large_to_keep_are_refused() {
    let mut directory = sample(true);
    let large = "l".repeat(600_000);
    for name in ["a", "b"] {
        let attributes = [("objectClass", &["organizationalUnit"][..]), ("description", &[&large])];
        ok(directory.add(&format!("ou={name},{PEOPLE}"), &attributes));
    }
    let refused = directory.delete_tree(PEOPLE);
    assert_eq!(refused.code, ResultCode::ADMIN_LIMIT_EXCEEDED, "{}", refused.diagnostic);
    ok(directory.delete(&format!("ou=a,{PEOPLE}")));
    ok(directory.delete_tree(PEOPLE));
    assert_eq!(directory.undelete(PEOPLE, None).unwrap().entries, 3);
}

#[test]
fn users_need_a_rule_that_allows_use_of_undelete() {
    let mut directory = sample(true);
    ok(directory.delete(ANN));
    let bob = "cn=bob,dc=example,dc=com".to_owned();
    let id = directory.read(&bob).map(|_| EntryId(7)).unwrap();
    let rule = |text: &str| text.to_owned();
    for (rules, expected) in [
        (vec![], Err(ResultCode::INSUFFICIENT_ACCESS_RIGHTS)),
        (vec![rule("all: allow add, read to authenticated")], Err(ResultCode::INSUFFICIENT_ACCESS_RIGHTS)),
        (vec![rule("u: allow use of undelete to authenticated")], Err(ResultCode::NO_SUCH_OBJECT)),
        (
            vec![
                rule("u: allow use of undelete to authenticated"),
                rule("all: allow add, read to authenticated"),
            ],
            Ok(()),
        ),
    ] {
        directory.change_settings(|settings| settings.general.access_rules = rules.clone());
        directory.requester = Requester::User { id, dn: bob.clone() };
        let found = directory.undelete(ANN, None).map(drop).map_err(|outcome| outcome.code);
        assert_eq!(found, expected, "{rules:?}");
        directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    }
}

/// Regression test: the superior in a request was found without regard to access rules. A requester with
/// `use of undelete` learned which hidden entries exist, and the URLs of hidden referrals.
#[test]
fn a_hidden_superior_is_like_a_missing_one() {
    const OTHER: &str = "ou=other,dc=example,dc=com";
    let mut directory = sample(true);
    ok(directory.delete(ANN));
    let (alias, away) = (format!("cn=alias,{OTHER}"), format!("cn=away,{OTHER}"));
    let any = "extensibleObject";
    ok(directory.add(&alias, &[("objectClass", &["alias", any]), ("aliasedObjectName", &[PEOPLE])]));
    ok(directory.add(&away, &[("objectClass", &["referral", any]), ("ref", &["ldap://other.example/"])]));
    let bob = "cn=bob,dc=example,dc=com".to_owned();
    let id = directory.read(&bob).map(|_| EntryId(7)).unwrap();
    let rules = [
        "u: allow use of undelete to authenticated".to_owned(),
        "a: allow add, read to authenticated".to_owned(),
        format!("d: deny browse, add in '{OTHER}' to authenticated"),
    ];
    directory.change_settings(|settings| settings.general.access_rules = rules.to_vec());
    directory.requester = Requester::User { id, dn: bob };
    let missing = format!("cn=missing,{OTHER}");
    for superior in [OTHER, &alias, &away, &missing, "ou=missing,dc=example,dc=com", &format!("cn=x,{away}")]
    {
        let refused = directory.undelete(ANN, Some(superior)).unwrap_err();
        assert_eq!((refused.code, &*refused.matched_dn), (ResultCode::NO_SUCH_OBJECT, SUFFIX), "{superior}");
        let expected = format!("{superior:?} does not exist, or you may not see it");
        assert_eq!((refused.diagnostic, refused.referrals.len()), (expected, 0), "{superior}");
    }
}
