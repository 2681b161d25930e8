//! Copies of a real 389 DS, by its content synchronization plug-in and from its retro change log.

use super::*;
use test_support::ds389::RunningDs389;

const RETRO: (&str, &[(&str, &str)]) =
    ("Retro Changelog Plugin", &[("nsslapd-attribute", "nsuniqueid:targetUniqueId")]);

/// Makes random changes while the copy runs and while it is stopped. Compares both servers each time, except attributes
/// that the source does not send after an interruption.
#[track_caller]
fn follows(name: &str, plugins: &[(&str, &[(&str, &str)])], cookie: &str, lost: &[&str]) {
    let (scratch, folder) = (Scratch::new(name), Scratch::new(&format!("{name}-source")));
    let source = RunningDs389::with_plugins(&folder, &["uid:equality", "member:equality"], plugins);
    let mut theirs = Connection::open(source.address()).unwrap();
    assert!(theirs.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    plant_more(&mut theirs);
    // 389 DS does not check that members exist.
    let dangling = |theirs: &mut Connection, name: &str| {
        let member = person_dn(&format!("never-{name}"));
        let attributes = [("objectClass", "groupOfNames"), ("member", member.as_str())];
        add(theirs, &format!("cn={name},ou=groups,{SUFFIX}"), &attributes);
    };
    dangling(&mut theirs, "dangling-at-first");
    // Attributes that only 389 DS has, and attributes that identify its entries differently.
    let own = ["nsUniqueId", "entryid", "parentid", "entryUUID", "dsEntryDN", "aci"];
    let own = [&own[..], lost].concat();
    let mut copy = follower(&scratch, source.address());
    dangling(&mut theirs, "dangling-later");
    equal(&scratch, source.address(), &copy, &own);
    assert_eq!(test_support::tree::bind(&copy, "p7", "p7-secret"), ResultCode::SUCCESS);
    let mut changes = source_changes(theirs, false);
    for round in 0..rounds(5) {
        (0..40).for_each(|_| changes.make());
        copy.kill();
        (0..60).for_each(|_| changes.make());
        copy = follower(&scratch, source.address());
        (0..40).for_each(|_| changes.make());
        equal(&scratch, source.address(), &copy, &own);
        assert_eq!(figure(&copy, "Rejected"), "0", "round {round}: {}", copy.log());
    }
    assert!(figure(&copy, "Cookie").contains(cookie), "{}", figure(&copy, "Cookie"));
    assert!(copy.stop().success());
    command(&["verify", "--data", Pando::data(&scratch).to_str().unwrap()], None).expect_code(0);
}

#[test]
#[ignore = "needs 389 DS, which ./dev test-peers installs"]
fn content_synchronization_of_ds389() {
    // After an interruption, 389 DS 2.3 sends changed entries without these attributes.
    let lost = ["createTimestamp", "modifyTimestamp", "creatorsName", "modifiersName"];
    follows("follow-389-sync", &[RETRO, ("Content Synchronization", &[])], ":(objectClass=*)#", &lost);
}

#[test]
#[ignore = "needs 389 DS, which ./dev test-peers installs"]
fn the_retro_change_log_of_ds389() {
    follows("follow-389-retro", &[RETRO], "number ", &[]);
}
