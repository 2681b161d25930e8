//! Tests of backups: the files that are written, the restored data, and refusals.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::*;
use crate::backup::make::WrittenPart;
use crate::open::Opened;

mod encrypted;

/// An empty set of identities, for unencrypted backups.
static NONE: LazyLock<BackupIdentities> = LazyLock::new(BackupIdentities::default);

const DAY: u64 = 86_400;
/// Time of the first backup, in seconds.
const BEGIN: u64 = 1_800_000_000;

/// Folder of a test, which is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = std::env::temp_dir().join(format!("pando-backup-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        Place(place)
    }

    fn data(&self) -> Config {
        Config::new(self.0.join("data"))
    }

    fn folder(&self) -> PathBuf {
        self.0.join("backup")
    }

    fn backup(&self) -> BackupPlace {
        BackupPlace::Folder(self.folder())
    }

    fn storage(&self) -> Box<dyn crate::backup::storage::Storage> {
        crate::backup::open(&self.backup(), None).unwrap()
    }

    fn files(&self) -> Vec<String> {
        list_backup(&self.backup()).unwrap().into_iter().flat_map(|chain| chain.files).collect()
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder().join(&self.files()[number])
    }

    /// Restores a position into a new folder.
    fn restored(&self, position: u64) -> Result<u64, ServeError> {
        let data = self.0.join(format!("restored-{position}"));
        let until = Until { position, ..Until::END };
        let restored = restore_backup(&Config::new(&data), &self.backup(), &NONE, until);
        let has_data = store::has_data_file(&data).unwrap();
        assert_eq!(has_data, restored.is_ok(), "all or nothing");
        assert!(!data.join("restore-in-progress").exists());
        let _ = fs::remove_dir_all(&data);
        restored.map(|restored| restored.position)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const RULES: BackupRules = BackupRules {
    is_full: false,
    full_after: Duration::from_secs(7 * DAY),
    keep: None,
    recipients: Vec::new(),
};

/// Changes an entry. Returns the log position of the change.
fn change(opened: &mut Opened) -> u64 {
    let (writer, random) = opened.writer();
    let stamp = new_stamp(random).unwrap();
    writer.set_administrator_password(b"{CLEAR}x".to_vec(), &stamp).unwrap();
    opened.directory().newest_position().unwrap()
}

fn run_backup(place: &Place, opened: &Opened, seconds: u64, rules: &BackupRules) -> BackupOutcome {
    let source = BackupSource::of(opened.directory()).unwrap();
    make(&*place.storage(), seconds * 1_000_000, rules, &source, &Pace::default()).unwrap()
}

#[track_caller]
fn expect_rows(done: &BackupOutcome, reason: &str) {
    match &done.written {
        WrittenPart::Rows(why) if why.contains(reason) => {}
        other => panic!("{other:?}, not rows because {reason}"),
    }
}

#[test]
fn a_backup_writes_rows_then_changes_and_rows_again_when_due() {
    let place = Place::new("order");
    let mut opened = Opened::open(place.data()).unwrap();
    expect_rows(&run_backup(&place, &opened, BEGIN, &RULES), "the first");
    assert_eq!(run_backup(&place, &opened, BEGIN, &RULES).written, WrittenPart::Nothing);
    change(&mut opened);
    let position = change(&mut opened);
    let second = run_backup(&place, &opened, BEGIN + 1, &RULES);
    assert_eq!((second.written, second.position), (WrittenPart::Changes(2), position));
    for moment in position - 2..=position {
        assert_eq!(place.restored(moment).unwrap(), moment);
    }
    assert_eq!(place.restored(u64::MAX).unwrap(), position);
    let refused = place.restored(position + 1).unwrap_err().to_string();
    assert!(refused.contains(&format!("ends at position {position}")), "{refused}");
    let refused = place.restored(position - 3).unwrap_err().to_string();
    assert!(refused.contains("the oldest moment"), "{refused}");
    // Seven days after the last file with all rows, the next file contains all rows again, even without a change.
    assert_eq!(run_backup(&place, &opened, BEGIN + 7 * DAY - 1, &RULES).written, WrittenPart::Nothing);
    expect_rows(
        &run_backup(&place, &opened, BEGIN + 7 * DAY, &RULES),
        "the last rows are of 2027-01-15T08:00:00Z",
    );
    expect_rows(
        &run_backup(&place, &opened, BEGIN + 7 * DAY + 1, &BackupRules { is_full: true, ..RULES }),
        "asked",
    );
    assert_eq!(list_backup(&place.backup()).unwrap().len(), 3);
    // The retained files begin with the last full rows written before the requested day.
    let keep = |days| BackupRules { keep: Some(Duration::from_secs(days * DAY)), ..RULES };
    assert_eq!(
        run_backup(&place, &opened, BEGIN + 8 * DAY, &keep(2)).removed,
        0,
        "of before the second rows"
    );
    let removed_count = run_backup(&place, &opened, BEGIN + 8 * DAY, &keep(1)).removed;
    assert_eq!(removed_count, 0, "rows of the second in which that day began may have later changes");
    assert_eq!(run_backup(&place, &opened, BEGIN + 8 * DAY + 1, &keep(1)).removed, 2, "rows and changes");
    assert_eq!(run_backup(&place, &opened, BEGIN + 8 * DAY + 1, &keep(0)).removed, 1);
    assert_eq!(place.restored(u64::MAX).unwrap(), position);
    let chains = list_backup(&place.backup()).unwrap();
    assert_eq!((chains.len(), chains[0].files.len(), chains[0].last_position), (1, 1, position));
}

/// Files are never combined if their histories differ or a file between them is missing. In these cases the next backup
/// writes all rows.
#[test]
fn a_backup_writes_all_rows_if_the_history_or_a_file_is_missing() {
    let place = Place::new("history");
    let mut opened = Opened::open(place.data()).unwrap();
    run_backup(&place, &opened, BEGIN, &RULES);
    let mut positions = vec![];
    for second in 1..4 {
        positions.push(change(&mut opened));
        run_backup(&place, &opened, BEGIN + second, &RULES);
    }
    let missing = place.file(2);
    let backup_file = fs::read(&missing).unwrap();
    fs::remove_file(&missing).unwrap();
    assert_eq!(
        place.restored(positions[0]).unwrap(),
        positions[0],
        "moments before the missing file can be restored"
    );
    let refused = place.restored(u64::MAX).unwrap_err();
    assert!(refused.to_string().contains("one is missing"), "{refused}");
    assert_eq!(refused.fault(), crate::error::Fault::Data);
    change(&mut opened);
    expect_rows(&run_backup(&place, &opened, BEGIN + 4, &RULES), "a file is missing");
    fs::write(&missing, &backup_file).unwrap();
    assert_eq!(place.restored(positions[2]).unwrap(), positions[2]);
    // The last file is replaced by a file that is not a backup file.
    let last = place.folder().join(place.files().last().unwrap());
    let whole = fs::read(&last).unwrap();
    fs::write(&last, b"nothing of the sort").unwrap();
    let text = place.restored(u64::MAX).unwrap_err().to_string();
    assert!(text.contains("no file of a backup") || text.contains("cannot read"), "{text}");
    expect_rows(&run_backup(&place, &opened, BEGIN + 5, &RULES), "the last file cannot be used");
    fs::write(&last, &whole).unwrap();
    // Restored data has a new history. Its backup is added after the old one.
    drop(opened);
    fs::remove_dir_all(place.0.join("data")).unwrap();
    let until = Until { position: positions[1], ..Until::END };
    assert_eq!(restore_backup(&place.data(), &place.backup(), &NONE, until).unwrap().position, positions[1]);
    let mut opened = Opened::open(place.data()).unwrap();
    expect_rows(&run_backup(&place, &opened, BEGIN + 6, &RULES), "another since the last time");
    let position = change(&mut opened);
    assert_eq!(run_backup(&place, &opened, BEGIN + 7, &RULES).written, WrittenPart::Changes(1));
    assert_eq!(place.restored(u64::MAX).unwrap(), position);
    // The log of an older copy of the same data continues differently.
    let copy = place.0.join("copy");
    fs::create_dir(&copy).unwrap();
    drop(opened);
    for file in fs::read_dir(place.0.join("data")).unwrap().map(Result::unwrap) {
        if file.metadata().unwrap().is_file() {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    let mut opened = Opened::open(place.data()).unwrap();
    change(&mut opened);
    run_backup(&place, &opened, BEGIN + 8, &RULES);
    drop(opened);
    let mut opened = Opened::open(Config::new(&copy)).unwrap();
    change(&mut opened);
    change(&mut opened);
    expect_rows(&run_backup(&place, &opened, BEGIN + 9, &RULES), "another history");
    drop(opened);
    let tried = try_backup(&place.backup(), &NONE, &place.0.join("scratch"), &mut |_| {}).unwrap();
    assert_eq!((tried.checked.findings, tried.files), (0, place.files().len()));
    assert!(!place.0.join("scratch").exists());
}

#[test]
fn a_backup_writes_all_rows_if_the_log_lacks_older_records() {
    let place = Place::new("trimmed");
    let mut opened = Opened::open(place.data()).unwrap();
    run_backup(&place, &opened, BEGIN, &RULES);
    change(&mut opened);
    assert_eq!(run_backup(&place, &opened, BEGIN, &RULES).written, WrittenPart::Changes(1));
    let (writer, random) = opened.writer();
    let stamp = new_stamp(random).unwrap();
    let mut settings = directory::DirectorySettings::default();
    settings.general.log_records_kept = 1;
    writer.change_settings("cn=admin", &settings, &stamp).unwrap();
    change(&mut opened);
    let position = change(&mut opened);
    expect_rows(&run_backup(&place, &opened, BEGIN, &RULES), "does not reach back");
    assert_eq!(place.restored(u64::MAX).unwrap(), position);
}

/// Every octet of every file is verified. A damaged file is refused, and an attempt to restore it leaves no data.
#[test]
fn a_damaged_file_is_reported_and_restores_nothing() {
    let place = Place::new("damage");
    let mut opened = Opened::open(place.data()).unwrap();
    run_backup(&place, &opened, BEGIN, &RULES);
    change(&mut opened);
    run_backup(&place, &opened, BEGIN, &RULES);
    drop(opened);
    for number in 0..2 {
        let file = place.file(number);
        let whole = fs::read(&file).unwrap();
        let mut meaningless = 0;
        let content = zstd::decode_all(&whole[..]).unwrap();
        for place_of_bit in (0..whole.len()).step_by(whole.len() / 60 + 1) {
            let mut bytes = whole.clone();
            bytes[place_of_bit] ^= 0x10;
            // Some bits of a zstd frame have no effect, or only set the memory that a decoder needs. If the
            // decompressed content is unchanged, the file is not damaged.
            if zstd::decode_all(&bytes[..]).is_ok_and(|found| found == content) {
                meaningless += 1;
                continue;
            }
            fs::write(&file, &bytes).unwrap();
            let restored = place.restored(u64::MAX);
            let error = restored.expect_err(&format!("octet {place_of_bit} of {}", whole.len())).to_string();
            assert!(error.contains(file.to_str().unwrap()), "octet {place_of_bit}: {error}");
            let tried = try_backup(&place.backup(), &NONE, &place.0.join("scratch"), &mut |_| {});
            assert!(tried.is_err(), "octet {place_of_bit}");
        }
        assert!(meaningless <= 3, "{meaningless} octets mean nothing");
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            fs::write(&file, &whole[..length]).unwrap();
            assert!(place.restored(u64::MAX).is_err(), "cut at {length}");
        }
        fs::write(&file, [&whole[..], b"more"].concat()).unwrap();
        assert!(place.restored(u64::MAX).is_err(), "more after it");
        fs::write(&file, &whole).unwrap();
    }
    assert!(place.restored(u64::MAX).is_ok());
}

#[test]
fn only_one_process_writes_and_interrupted_files_are_removed() {
    let place = Place::new("claim");
    let opened = Opened::open(place.data()).unwrap();
    run_backup(&place, &opened, BEGIN, &RULES);
    let partial = place.folder().join("00000002-20270115T080000Z-changes-9.pando.partial");
    fs::write(&partial, b"half").unwrap();
    fs::write(place.folder().join("note.txt"), b"mine").unwrap();
    let claim = place.storage().claim().unwrap();
    assert!(!partial.exists());
    let source = BackupSource::of(opened.directory()).unwrap();
    let refused = make(&*place.storage(), BEGIN * 1_000_000, &RULES, &source, &Pace::default())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("another process is writing"), "{refused}");
    drop(claim);
    assert_eq!(run_backup(&place, &opened, BEGIN, &RULES).written, WrittenPart::Nothing);
    assert!(place.folder().join("note.txt").exists());
    let refused = restore_backup(&place.data(), &place.backup(), &NONE, Until::END).unwrap_err();
    assert!(refused.to_string().contains("has data already"), "{refused}");
    // The files that an interrupted restore has left do not count as data, and are removed.
    let half = Config::new(place.0.join("half"));
    let work = half.data.join("restore-in-progress");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("data.mdb"), b"half").unwrap();
    restore_backup(&half, &place.backup(), &NONE, Until::END).unwrap();
    assert!(!work.exists());
    assert_eq!(verify(&half, &mut |_| {}).unwrap().findings, 0);
}

#[test]
fn only_the_owner_can_access_a_restored_copy() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("copy");
    let opened = Opened::open(place.data()).unwrap();
    run_backup(&place, &opened, BEGIN, &RULES);
    let paths = [0; 2].map(|_| scratch_folder(&place.backup(), &NONE, "recover").unwrap());
    assert_ne!(paths[0], paths[1]);
    let copy = RestoredCopy::make(&place.backup(), &NONE, &paths[0], Until::END).unwrap();
    assert_eq!(fs::metadata(&paths[0]).unwrap().permissions().mode() & 0o777, 0o700);
    // A folder that already exists is neither used nor removed.
    std::os::unix::fs::symlink(&paths[0], &paths[1]).unwrap();
    for path in &paths {
        let refused = RestoredCopy::make(&place.backup(), &NONE, path, Until::END).unwrap_err().to_string();
        assert!(refused.contains("is there already") && path.exists(), "{refused}");
    }
    drop(copy);
    assert!(!paths[0].exists());
    let bucket = scratch_folder(&"s3://b".parse().unwrap(), &NONE, "recover").unwrap();
    assert!(bucket.file_name().unwrap().to_str().unwrap().starts_with("pando-recover-"), "{bucket:?}");
}
