//! Tests of opening a store: exclusive use, checks of the contents, and leftovers of a crash.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use std::fs;
use std::io::IoSliceMut;
use std::os::unix::fs::PermissionsExt;

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use scratch::{MAPS, ROWS, Scratch};
use store::{MapKind, MapSpec, OpenError, Options, Store};

fn open_error(scratch: &Scratch, maps: &'static [MapSpec]) -> OpenError {
    match Store::open(scratch.path(), maps, &Options::default()) {
        Ok(_) => panic!("the store opened"),
        Err(error) => error,
    }
}

/// Symptom: if data.mdb was missing, a start created an empty store and deleted the redo log, and with it acknowledged
/// changes. Cause: the log did not have the new data file's identity. Now the start is refused and nothing is changed.
#[test]
fn a_redo_log_without_its_data_file_is_refused_and_left_unchanged() {
    let scratch = Scratch::new();
    drop(scratch.open());
    fs::remove_file(scratch.path().join("data.mdb")).unwrap();
    let segment = scratch.path().join("redo-0000000000000003");
    fs::write(&segment, b"acknowledged changes").unwrap();
    let check = |error: OpenError| {
        let text = error.to_string();
        assert!(matches!(error, OpenError::DataFileMissing { .. }), "{text}");
        assert!(text.contains("redo-0000000000000003") && text.contains("put data.mdb back"), "{text}");
        assert_eq!(fs::read(&segment).unwrap(), b"acknowledged changes");
        assert!(!scratch.path().join("data.mdb").exists());
    };
    check(open_error(&scratch, MAPS));
    check(store::BulkStore::create(scratch.path(), MAPS, &Options::default()).err().unwrap());
    check(store::has_data_file(scratch.path()).err().unwrap());
}

#[test]
fn a_second_open_names_the_owner_of_the_store() {
    let scratch = Scratch::new();
    let opened = scratch.open();
    let error = open_error(&scratch, MAPS);
    assert!(matches!(error, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()));
    let text = error.to_string();
    assert!(text.contains("is in use by process"), "{text}");
    drop(opened);
    scratch.open();
}

/// Symptom: without its lock file, a directory was opened twice, and both writers acknowledged changes.
#[test]
fn the_lock_survives_removal_of_its_file_and_renaming_of_the_directory() {
    let scratch = Scratch::new();
    let _opened = scratch.open();
    let is_in_use = |error: OpenError| assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    fs::remove_file(scratch.path().join("lock")).unwrap();
    is_in_use(open_error(&scratch, MAPS));
    is_in_use(store::BulkStore::create(scratch.path(), MAPS, &Options::default()).err().unwrap());
    is_in_use(store::compact(scratch.path(), MAPS, &Options::default()).err().unwrap());
    is_in_use(store::salvage(scratch.path(), MAPS).err().unwrap());
    is_in_use(store::move_data_file(scratch.path(), scratch.path(), MAPS).err().unwrap());
    // A lock file that was created again is refused in the same way.
    fs::write(scratch.path().join("lock"), "").unwrap();
    is_in_use(open_error(&scratch, MAPS));
    let moved = scratch.path().with_extension("moved");
    fs::rename(scratch.path(), &moved).unwrap();
    is_in_use(Store::open(&moved, MAPS, &Options::default()).err().unwrap());
    // Replace the directory by another directory that has a hard link to the data file.
    fs::create_dir(scratch.path()).unwrap();
    fs::hard_link(moved.join("data.mdb"), scratch.path().join("data.mdb")).unwrap();
    is_in_use(open_error(&scratch, MAPS));
    is_in_use(store::salvage(scratch.path(), MAPS).err().unwrap());
    is_in_use(store::BulkStore::create(scratch.path(), MAPS, &Options::default()).err().unwrap());
    fs::remove_dir_all(&moved).unwrap();
}

#[test]
fn a_lock_file_left_by_a_dead_owner_is_taken_over() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("lock"), "4194304\nleft over").unwrap();
    let _opened = scratch.open();
    let text = fs::read_to_string(scratch.path().join("lock")).unwrap();
    assert_eq!(text, format!("{}\n", std::process::id()));
}

#[test]
fn creates_the_directory_with_search_permission_only_for_others() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("deep/data");
    // A path with a missing parent directory creates nothing.
    let error = Store::open(&directory, MAPS, &Options::default()).err().unwrap();
    assert!(matches!(&error, OpenError::File { action: "create", .. }), "{error:?}");
    assert!(!directory.parent().unwrap().exists());
    fs::create_dir(directory.parent().unwrap()).unwrap();
    let _opened = Store::open(&directory, MAPS, &Options::default()).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(directory.clone()), 0o711);
    assert_eq!(mode(directory.join("data.mdb")), 0o600);
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["data.mdb", "data.mdb-lock", "lock", "redo.mark"]);
}

#[test]
fn recreates_a_directory_whose_creation_was_interrupted() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("data.new"), "torn").unwrap();
    fs::write(scratch.path().join("data.new-lock"), "torn").unwrap();
    scratch.open();
    assert!(!scratch.path().join("data.new").exists());
}

/// Returns the bytes of a data file with its format version replaced.
fn with_format(mut bytes: Vec<u8>, format: u8) -> Vec<u8> {
    let row = b"format\0\0\0\x03";
    for at in 0..bytes.len() - row.len() {
        if bytes[at..].starts_with(row) {
            bytes[at + row.len() - 1] = format;
        }
    }
    bytes
}

#[test]
fn opening_upgrades_a_store_without_a_mark() {
    let scratch = Scratch::new();
    drop(scratch.open());
    let file = scratch.path().join("data.mdb");
    let old = with_format(fs::read(&file).unwrap(), 2);
    assert!(old != fs::read(&file).unwrap());
    fs::write(&file, &old).unwrap();
    drop(Store::open_read_only(scratch.path(), MAPS).unwrap());
    assert_eq!(fs::read(&file).unwrap(), old, "reading changes nothing");
    let opened = scratch.open();
    assert!(scratch.path().join("redo.mark").exists());
    drop(opened);
    assert!(!scratch.path().join("redo.mark").exists());
    let bytes = fs::read(&file).unwrap();
    assert!(with_format(bytes.clone(), 2) != bytes, "a program for format 2 refuses it");
}

#[test]
fn another_format_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    drop(scratch.open());
    let file = scratch.path().join("data.mdb");
    let bytes = with_format(fs::read(&file).unwrap(), 77);
    fs::write(&file, &bytes).unwrap();
    let error = open_error(&scratch, MAPS);
    assert!(matches!(error, OpenError::Format { found: 77, supported: 3 }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("the store has format 77, this program reads format 3; a newer build"),
        "{text}"
    );
    assert!(text.ends_with("`pando version` lists store version 77"), "{text}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    for content in [&b"not a store"[..], &[0; 8_192]] {
        let scratch = Scratch::new();
        fs::write(scratch.path().join("data.mdb"), content).unwrap();
        let error = open_error(&scratch, MAPS);
        assert!(matches!(error, OpenError::NotAStore { .. }), "{error:?}");
        assert!(error.to_string().contains("data.mdb is not a store"), "{error}");
    }
}

#[test]
fn maps_may_be_added_but_not_change_their_kind() {
    static MORE: [MapSpec; 3] = [
        MapSpec { name: "sets", kind: MapKind::IdSet },
        MapSpec { name: "more", kind: MapKind::Plain },
        MapSpec { name: "rows", kind: MapKind::Plain },
    ];
    static CHANGED: [MapSpec; 1] = [MapSpec { name: "rows", kind: MapKind::IdSet }];
    static RESERVED: [MapSpec; 1] = [MapSpec { name: "store.log", kind: MapKind::Plain }];
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    batch.put(ROWS, b"k", b"v").unwrap();
    batch.commit().unwrap();
    drop((store, writer));
    let (store, writer) = Store::open(scratch.path(), &MORE, &Options::default()).unwrap();
    assert_eq!(store.view().unwrap().get(store::MapId::new(2), b"k").unwrap(), Some(&b"v"[..]));
    drop((store, writer));
    let error = open_error(&scratch, &CHANGED);
    assert!(matches!(&error, OpenError::Map { name, .. } if name == "rows"), "{error:?}");
    let error = open_error(&scratch, &RESERVED);
    assert!(matches!(&error, OpenError::Map { name, .. } if name == "store.log"), "{error:?}");
    scratch.open();
}

#[test]
fn facts_are_plausible() {
    let scratch = Scratch::new();
    let (store, _writer) = scratch.open();
    let facts = store.facts().unwrap();
    assert!(facts.map_bytes >= facts.disk_bytes.max(1 << 30), "{facts:?}");
    assert!(facts.used_bytes >= 2 * 4096 && facts.used_bytes < 1 << 20, "{facts:?}");
    assert!(facts.disk_free_bytes > 0 && facts.disk_free_bytes <= facts.disk_bytes, "{facts:?}");
    assert!(!facts.writes_stopped);
}

/// Page size of the system and of the data file.
const PAGE: usize = 4096;

/// Returns the number of pages of the data file that are not in memory.
fn pages_on_disk(scratch: &Scratch) -> usize {
    let file = fs::File::open(scratch.path().join("data.mdb")).unwrap();
    let mut page = [0; PAGE];
    let is_absent = |offset: &u64| {
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut page)], *offset, ReadWriteFlags::NOWAIT);
        read == Err(Errno::AGAIN)
    };
    (0..file.metadata().unwrap().len()).step_by(PAGE).filter(is_absent).count()
}

#[test]
fn a_data_file_is_read_in_unless_it_is_too_large() {
    let scratch = Scratch::new();
    let (_, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    for number in 0..2_000_u32 {
        batch.put(ROWS, &number.to_be_bytes(), &[7; 1_000]).unwrap();
    }
    batch.commit().unwrap();
    drop(writer);
    let (store, _writer) = scratch.open();
    let file = fs::File::open(scratch.path().join("data.mdb")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert_eq!(store.warm_up(1_000_000, || true).unwrap(), 0);
    assert_eq!(store.warm_up(u64::MAX, || false).unwrap(), 0);
    // Count the pages only once, because a query about an absent page makes the system fetch the page.
    let absent = pages_on_disk(&scratch);
    assert!(absent > 100, "{absent}");
    assert!(store.warm_up(u64::MAX, || true).unwrap() > 2_000_000);
    assert_eq!(pages_on_disk(&scratch), 0);
}

/// Returns all files except those that opening always modifies.
fn files(scratch: &Scratch) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap());
    let named =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    let mut files: Vec<_> = named.filter(|(name, _)| name != "lock" && name != "data.mdb-lock").collect();
    files.sort();
    files
}

#[test]
fn a_data_file_cut_short_or_emptied_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    for number in 0..200_u32 {
        let mut batch = writer.begin().unwrap();
        batch.put(ROWS, &number.to_be_bytes(), &[7; 1_000]).unwrap();
        batch.commit().unwrap();
    }
    drop((store, writer));
    let path = scratch.path().join("data.mdb");
    let whole = fs::read(&path).unwrap();
    // The file may be complete without its last pages, because these pages may be free.
    for length in [0, PAGE, whole.len() / 4, whole.len() / 2] {
        fs::write(&path, &whole[..length]).unwrap();
        let before = files(&scratch);
        for error in [open_error(&scratch, MAPS), Store::open_read_only(scratch.path(), MAPS).err().unwrap()]
        {
            assert!(matches!(error, OpenError::DataFileCut { .. }), "{length}: {error:?}");
            assert!(error.to_string().contains("data.mdb is damaged"), "{error}");
        }
        assert_eq!(files(&scratch), before);
    }
    fs::write(&path, &whole).unwrap();
    let (store, _writer) = scratch.open();
    assert_eq!(store.view().unwrap().row_count(ROWS).unwrap(), 200);
}
