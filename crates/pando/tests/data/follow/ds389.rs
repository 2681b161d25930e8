//! Copies of a real 389 DS, by its content synchronization plug-in and from its retro change log.

use super::*;
use test_support::ds389::RunningDs389;

/// The plug-in of the retro change log. It records the nsUniqueId of each changed entry, because a copy needs this id.
pub(super) const RETRO: (&str, &[(&str, &str)]) =
    ("Retro Changelog Plugin", &[("nsslapd-attribute", "nsuniqueid:targetUniqueId")]);

/// Attributes that only 389 DS has, and attributes that identify its entries differently.
pub(super) const OWN: [&str; 6] = ["nsUniqueId", "entryid", "parentid", "entryUUID", "dsEntryDN", "aci"];

fn source(folder: &Scratch, plugins: &[(&str, &[(&str, &str)])]) -> RunningDs389 {
    RunningDs389::with_plugins(folder, &["uid:equality", "member:equality"], plugins)
}

#[test]
#[ignore = "needs 389 DS, which ./dev test-peers installs"]
fn a_copy_follows_the_content_synchronization_of_ds389() {
    let folder = Scratch::new("follow-389-sync-source");
    let source = source(&folder, &[RETRO, ("Content Synchronization", &[])]);
    // After an interruption, 389 DS 2.3 sends changed entries without these attributes.
    let lost = ["createTimestamp", "modifyTimestamp", "creatorsName", "modifiersName"];
    let own = [&OWN[..], &lost].concat();
    let traits = Traits { cookie: ":(objectClass=*)#", own: &own, has_deaf_refresh: true };
    follows("follow-389-sync", source, &traits);
}

#[test]
#[ignore = "needs 389 DS, which ./dev test-peers installs"]
fn a_copy_follows_the_retro_change_log_of_ds389() {
    let folder = Scratch::new("follow-389-retro-source");
    let traits = Traits { cookie: "number ", own: &OWN, has_deaf_refresh: false };
    follows("follow-389-retro", source(&folder, &[RETRO]), &traits);
}
