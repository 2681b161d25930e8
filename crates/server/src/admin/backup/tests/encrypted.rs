//! Tests of encrypted backups, for operations with and without an identity.

use std::path::Path;

use age::secrecy::ExposeSecret as _;

use super::*;
use crate::backup::name::Part;
use crate::config::backup::BackupRecipient;
use crate::error::Fault;

/// Returns a public key, and a file with its private key.
fn keys(place: &Place, name: &str) -> (BackupRecipient, PathBuf) {
    let identity = age::x25519::Identity::generate();
    let file = place.0.join(name);
    fs::write(&file, format!("# a key\n{}\n", identity.to_string().expose_secret())).unwrap();
    (BackupRecipient(identity.to_public()), file)
}

fn rules_for(recipients: &[&BackupRecipient]) -> BackupRules {
    BackupRules { recipients: recipients.iter().map(|recipient| (*recipient).clone()).collect(), ..RULES }
}

fn restored_with(place: &Place, identity: Option<&Path>, position: u64) -> Result<u64, ServeError> {
    let identities = identity.map_or_else(|| Ok(BackupIdentities::default()), BackupIdentities::read)?;
    let data = place.0.join("restored");
    let until = Until { position, ..Until::END };
    let restored = restore_backup(&Config::new(&data), &place.backup(), &identities, until);
    assert_eq!(store::has_data_file(&data).unwrap(), restored.is_ok(), "a restore writes all data or none");
    let _ = fs::remove_dir_all(&data);
    restored.map(|restored| restored.position)
}

#[test]
fn an_encrypted_backup_continues_without_the_identity() {
    let place = Place::new("encrypted");
    let ((anna, annas), (bert, berts)) = (keys(&place, "anna"), keys(&place, "bert"));
    let mut opened = Opened::open(place.data()).unwrap();
    // Encrypted changes never follow unencrypted rows.
    run_backup(&place, &opened, BEGIN, &RULES);
    let plain = opened.directory().newest_position().unwrap();
    expect_rows(&run_backup(&place, &opened, BEGIN + 1, &rules_for(&[&anna])), "before are not encrypted");
    assert_eq!(run_backup(&place, &opened, BEGIN + 1, &rules_for(&[&anna])).written, WrittenPart::Nothing);
    let first = change(&mut opened);
    assert_eq!(run_backup(&place, &opened, BEGIN + 2, &rules_for(&[&anna])).written, WrittenPart::Changes(1));
    let second = change(&mut opened);
    assert_eq!(run_backup(&place, &opened, BEGIN + 3, &rules_for(&[&anna])).written, WrittenPart::Changes(1));
    let files = place.files();
    assert_eq!(files.iter().filter(|name| name.ends_with(".pando.age")).count(), 3, "{files:?}");
    for file in files.iter().filter(|name| name.ends_with(".age")) {
        let bytes = fs::read(place.folder().join(file)).unwrap();
        assert!(bytes.starts_with(b"age-encryption.org/v1\n-> pando-backup "));
        assert!(zstd::decode_all(&bytes[..]).is_err());
    }
    for moment in [first, second, u64::MAX] {
        assert_eq!(restored_with(&place, Some(&annas), moment).unwrap(), moment.min(second));
    }
    assert_eq!(check_backup(&place.backup()).unwrap(), 4);
    let identities = BackupIdentities::read(&annas).unwrap();
    // Decrypted data is not written to the folder of the backup.
    let scratch = scratch_folder(&place.backup(), &identities, "verify").unwrap();
    assert!(!scratch.starts_with(place.folder()), "{scratch:?}");
    let tried = try_backup(&place.backup(), &identities, &place.0.join("scratch"), &mut |_| {}).unwrap();
    assert_eq!((tried.files, tried.checked.findings, tried.restored.position), (4, 0, second));
    // An encrypted file cannot be read without an identity, or with another recipient's identity. An unencrypted file
    // can be read in both cases.
    for (identity, why) in [(None, "--identity"), (Some(berts.as_path()), "other recipients")] {
        let refused = restored_with(&place, identity, u64::MAX).unwrap_err();
        assert!(refused.to_string().contains(why) && refused.to_string().contains(".pando.age"), "{refused}");
        assert_eq!(refused.fault(), Fault::Settings);
    }
    let refused = try_backup(&place.backup(), &NONE, &place.0.join("scratch"), &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("--identity"), "{refused}");
    assert!(list_backup(&place.backup()).unwrap().iter().all(|chain| chain.verified.is_some()));
    assert_eq!(plain + 2, second);
    // New recipients are used from the next backup on. That backup writes all rows.
    change(&mut opened);
    let both = rules_for(&[&bert, &anna]);
    expect_rows(&run_backup(&place, &opened, BEGIN + 4, &both), "the recipients are others");
    let third = change(&mut opened);
    let turned = rules_for(&[&anna, &bert]);
    assert_eq!(run_backup(&place, &opened, BEGIN + 5, &turned).written, WrittenPart::Changes(1));
    for identity in [&annas, &berts] {
        assert_eq!(restored_with(&place, Some(identity), u64::MAX).unwrap(), third);
    }
    // Without recipients, nothing is added to an encrypted backup by mistake.
    let source = BackupSource::of(opened.directory()).unwrap();
    let outcome = make(&*place.storage(), (BEGIN + 6) * 1_000_000, &RULES, &source, &Pace::default());
    let refused = ServeError::from(outcome.unwrap_err());
    assert!(refused.to_string().contains("is encrypted: name its recipients"), "{refused}");
    assert_eq!(refused.fault(), Fault::Settings);
    drop(source);
    let full = BackupRules { is_full: true, keep: Some(Duration::ZERO), ..RULES };
    let pruned = run_backup(&place, &opened, BEGIN + 7, &full);
    expect_rows(&pruned, "asked");
    let later = run_backup(&place, &opened, BEGIN + 8, &BackupRules { keep: full.keep, ..RULES });
    assert_eq!((pruned.removed, later.removed), (4, 2));
    let left: Vec<_> = fs::read_dir(place.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().contains(".age")), "{left:?}");
    assert_eq!(restored_with(&place, None, u64::MAX).unwrap(), third);
}

#[test]
fn a_backup_writes_rows_if_the_log_does_not_continue_an_encrypted_file() {
    let place = Place::new("encrypted-history");
    let (anna, annas) = keys(&place, "anna");
    let rules = rules_for(&[&anna]);
    let mut opened = Opened::open(place.data()).unwrap();
    run_backup(&place, &opened, BEGIN, &rules);
    change(&mut opened);
    run_backup(&place, &opened, BEGIN + 1, &rules);
    let last = place.file(1);
    let whole = fs::read(&last).unwrap();
    fs::write(&last, b"nothing of the sort").unwrap();
    expect_rows(&run_backup(&place, &opened, BEGIN + 2, &rules), "the last file cannot be used");
    fs::write(&last, &whole).unwrap();
    drop(opened);
    fs::remove_dir_all(place.0.join("data")).unwrap();
    let identities = BackupIdentities::read(&annas).unwrap();
    restore_backup(&place.data(), &place.backup(), &identities, Until::END).unwrap();
    let mut opened = Opened::open(place.data()).unwrap();
    expect_rows(&run_backup(&place, &opened, BEGIN + 3, &rules), "another");
    let position = change(&mut opened);
    assert_eq!(run_backup(&place, &opened, BEGIN + 4, &rules).written, WrittenPart::Changes(1));
    // The checksum of a file that was never completed is removed.
    let part = Part::of_name("00000099-20270115T080000Z-rows-9.pando.age").unwrap();
    let idle = place.folder().join(part.checksum_name());
    fs::write(&idle, b"0").unwrap();
    run_backup(&place, &opened, BEGIN + 5, &rules);
    assert!(!idle.exists());
    assert_eq!(restored_with(&place, Some(&annas), u64::MAX).unwrap(), position);
    drop(opened);
    let mut opened = Opened::open(place.data()).unwrap();
    let (writer, random) = opened.writer();
    let stamp = new_stamp(random).unwrap();
    let mut settings = directory::DirectorySettings::default();
    settings.general.log_records_kept = 1;
    writer.change_settings("cn=admin", &settings, &stamp).unwrap();
    change(&mut opened);
    change(&mut opened);
    expect_rows(&run_backup(&place, &opened, BEGIN + 6, &rules), "does not reach back");
}

/// Damage to any octet is found, with the identity by decryption and without it by the checksum.
#[test]
fn a_damaged_encrypted_file_is_found_with_and_without_the_identity() {
    let place = Place::new("encrypted-damage");
    let (anna, annas) = keys(&place, "anna");
    let mut opened = Opened::open(place.data()).unwrap();
    run_backup(&place, &opened, BEGIN, &rules_for(&[&anna]));
    change(&mut opened);
    run_backup(&place, &opened, BEGIN, &rules_for(&[&anna]));
    drop(opened);
    for number in 0..2 {
        let file = place.file(number);
        let whole = fs::read(&file).unwrap();
        let expect_damage = |bytes: &[u8], what: &str| {
            fs::write(&file, bytes).unwrap();
            for found in
                [restored_with(&place, Some(&annas), u64::MAX), check_backup(&place.backup()).map(|_| 0)]
            {
                let error = found.expect_err(what).to_string();
                assert!(error.contains(file.to_str().unwrap()), "{what}: {error}");
            }
        };
        for octet in (0..whole.len()).step_by(whole.len() / 60 + 1) {
            let mut bytes = whole.clone();
            bytes[octet] ^= 0x10;
            expect_damage(&bytes, &format!("octet {octet} of {}", whole.len()));
        }
        for length in [0, 1, 30, whole.len() / 2, whole.len() - 1] {
            expect_damage(&whole[..length], &format!("cut at {length}"));
        }
        expect_damage(&[&whole[..], b"more"].concat(), "more after it");
        fs::write(&file, &whole).unwrap();
    }
    let checksum = PathBuf::from(format!("{}.sha256", place.file(0).display()));
    fs::remove_file(checksum).unwrap();
    let error = check_backup(&place.backup()).unwrap_err();
    assert!(error.to_string().contains("is missing: only an identity"), "{error}");
    assert_eq!(error.fault(), Fault::Data);
    assert!(restored_with(&place, Some(&annas), u64::MAX).is_ok());
}
