//! Tests of a data file built in bulk: a store reads the appended rows, rows out of order are refused, and the old data
//! remains until the new file is finished.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fastrand::Rng;
use model_state::{Model, compare};
use scratch::{MAPS, ROWS, SETS, Scratch};
use store::{BulkStore, OpenError, Options, StoreError, move_data_file};

fn create(scratch: &Scratch) -> BulkStore {
    BulkStore::create(scratch.path(), MAPS, &Options::default()).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns rows of every size, and sets of one id up to many pages of ids.
fn model(random: &mut Rng) -> Model {
    let mut model = Model::default();
    for _ in 0..2_000 {
        let key = (0..random.usize(1..20)).map(|_| random.u8(..)).collect();
        let length = match random.u32(0..50) {
            0 => random.usize(0..100_000),
            1..5 => random.usize(1_900..2_100),
            _ => random.usize(0..300),
        };
        model.rows.insert(key, vec![random.u8(..); length]);
    }
    for _ in 0..300 {
        let count = match random.u32(0..20) {
            0 => random.usize(1_000..50_000),
            1..10 => 1,
            _ => random.usize(2..400),
        };
        let key = (0..random.usize(1..=511)).map(|_| random.u8(..)).collect();
        model.sets.insert(key, (0..count).map(|_| random.u64(..) >> random.u32(0..64)).collect());
    }
    for number in 0..500u32 {
        model.counts.insert(number.to_be_bytes().to_vec(), random.i64(-3..=3));
    }
    let start = random.u64(1..1_000);
    for position in start..start + random.u64(0..500) {
        model.log.insert(position, vec![7; random.usize(0..5_000)]);
    }
    model
}

fn append_set(bulk: &mut BulkStore, random: &mut Rng, key: &[u8], ids: &BTreeSet<u64>) {
    let ids: Vec<u64> = ids.iter().copied().collect();
    let mut rest = &ids[..];
    while !rest.is_empty() {
        let (some, others) = rest.split_at(random.usize(1..=rest.len()));
        bulk.append_ids(SETS, key, some).unwrap();
        bulk.append_ids(SETS, key, &[]).unwrap();
        rest = others;
    }
}

/// Appends the model's content, alternating between the maps.
fn append(bulk: &mut BulkStore, random: &mut Rng, model: &Model) {
    if let Some(&first) = model.log.keys().next() {
        bulk.start_log_at(first).unwrap();
    }
    let (mut rows, mut sets) = (model.rows.iter().peekable(), model.sets.iter().peekable());
    let (mut counts, mut log) = (model.counts.iter().peekable(), model.log.iter().peekable());
    while rows.peek().is_some() || sets.peek().is_some() || counts.peek().is_some() || log.peek().is_some() {
        for (key, value) in rows.by_ref().take(random.usize(0..100)) {
            bulk.append(ROWS, key, value).unwrap();
        }
        for (key, ids) in sets.by_ref().take(random.usize(0..100)) {
            append_set(bulk, random, key, ids);
        }
        for (key, count) in counts.by_ref().take(random.usize(0..100)) {
            bulk.append_counter(key, *count).unwrap();
        }
        for (position, record) in log.by_ref().take(random.usize(0..100)) {
            assert_eq!(bulk.append_record(record).unwrap(), *position);
        }
    }
}

#[test]
fn reads_back_appended_rows() {
    for seed in 0..4 {
        let mut random = Rng::with_seed(seed);
        let scratch = Scratch::new();
        let model = model(&mut random);
        let mut bulk = create(&scratch);
        append(&mut bulk, &mut random, &model);
        bulk.finish().unwrap();
        assert_eq!(names(scratch.path()), ["data.mdb", "lock"]);
        let (store, mut writer) = scratch.open();
        compare(&store.view().unwrap(), &model);
        // The log continues after the appended records.
        let mut batch = writer.begin().unwrap();
        assert_eq!(batch.append_record(b"next").unwrap(), model.position() + 1);
        batch.put(ROWS, b"new", b"row").unwrap();
        batch.commit().unwrap();
    }
}

#[test]
fn a_file_written_at_a_limited_speed_is_complete_and_moves_once() {
    let mut random = Rng::with_seed(9);
    let (making, scratch) = (Scratch::new(), Scratch::new());
    let model = model(&mut random);
    let options = Options { bulk_bytes_per_second: Some(1 << 30), ..Options::default() };
    let mut bulk = BulkStore::create(making.path(), MAPS, &options).unwrap();
    append(&mut bulk, &mut random, &model);
    bulk.finish().unwrap();
    assert!(move_data_file(making.path(), scratch.path(), MAPS).unwrap());
    assert_eq!(names(scratch.path()), ["data.mdb", "lock"]);
    compare(&scratch.open().0.view().unwrap(), &model);
    // The source is empty now, and existing data is not replaced.
    assert!(move_data_file(making.path(), Scratch::new().path(), MAPS).is_err());
    let mut other = create(&making);
    append(&mut other, &mut random, &Model::default());
    other.finish().unwrap();
    assert!(!move_data_file(making.path(), scratch.path(), MAPS).unwrap());
    compare(&scratch.open().0.view().unwrap(), &model);
}

#[test]
fn rows_beyond_the_size_of_a_transaction_are_read_back() {
    let scratch = Scratch::new();
    let mut bulk = create(&scratch);
    let value = [5; 3_000];
    for id in 0..60_000u64 {
        bulk.append(ROWS, &id.to_be_bytes(), &value).unwrap();
    }
    let ids: Vec<u64> = (0..10_000_000).map(|id| id * 3).collect();
    bulk.append_ids(SETS, b"many", &ids[..1]).unwrap();
    bulk.append_ids(SETS, b"many", &ids[1..]).unwrap();
    bulk.finish().unwrap();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    assert_eq!(view.row_count(ROWS).unwrap(), 60_000);
    for id in (0..60_000u64).step_by(977) {
        assert_eq!(view.get(ROWS, &id.to_be_bytes()).unwrap(), Some(&value[..]));
    }
    let mut read = Vec::new();
    view.ids(SETS, b"many").unwrap().next_block(&mut read, usize::MAX).unwrap();
    assert!(read == ids);
}

#[test]
fn a_row_can_be_removed_from_any_place() {
    let scratch = Scratch::new();
    let mut bulk = create(&scratch);
    let mut model = Model::default();
    for id in 0..40_000u64 {
        let key = id.to_be_bytes();
        bulk.append(ROWS, &key, &[5; 300]).unwrap();
        model.rows.insert(key.to_vec(), vec![5; 300]);
    }
    // Removes whole pages, and more rows than one transaction holds. Also removes the last row, whose key may not be
    // used again.
    for id in (0..40_000u64).filter(|id| id % 37 == 0 || (700..2_000).contains(id) || *id == 39_999) {
        assert!(bulk.remove(ROWS, &id.to_be_bytes()).unwrap());
        assert!(!bulk.remove(ROWS, &id.to_be_bytes()).unwrap());
        model.rows.remove(&id.to_be_bytes()[..]);
    }
    let again = bulk.append(ROWS, &39_999u64.to_be_bytes(), b"");
    assert_eq!(again, Err(StoreError::OutOfOrder { map: "rows" }));
    bulk.append(ROWS, &[1], b"next").unwrap();
    model.rows.insert(vec![1], b"next".to_vec());
    bulk.finish().unwrap();
    compare(&scratch.open().0.view().unwrap(), &model);
}

#[test]
fn a_build_without_rows_is_an_empty_store() {
    let scratch = Scratch::new();
    create(&scratch).finish().unwrap();
    compare(&scratch.open().0.view().unwrap(), &Model::default());
}

#[test]
fn refuses_rows_out_of_order_and_accepts_the_others() {
    let scratch = Scratch::new();
    let mut bulk = create(&scratch);
    let refused = |outcome: store::Result<()>, map: &'static str| {
        assert_eq!(outcome, Err(StoreError::OutOfOrder { map }));
    };
    bulk.append(ROWS, b"b", b"1").unwrap();
    refused(bulk.append(ROWS, b"a", b"2"), "rows");
    refused(bulk.append(ROWS, b"b", b"2"), "rows");
    bulk.append(ROWS, b"b\0", b"3").unwrap();
    bulk.append_ids(SETS, b"k", &[3, 5]).unwrap();
    refused(bulk.append_ids(SETS, b"k", &[5]), "sets");
    refused(bulk.append_ids(SETS, b"k", &[7, 7]), "sets");
    refused(bulk.append_ids(SETS, b"k", &[9, 8]), "sets");
    refused(bulk.append_ids(SETS, b"j", &[9]), "sets");
    bulk.append_ids(SETS, b"k", &[6]).unwrap();
    bulk.append_ids(SETS, b"l", &[1]).unwrap();
    refused(bulk.append_ids(SETS, b"k", &[10]), "sets");
    bulk.append_counter(b"c", 4).unwrap();
    refused(bulk.append_counter(b"c", 4), "store.counts");
    refused(bulk.append_counter(b"b", 0), "store.counts");
    refused(bulk.start_log_at(0), "store.log");
    bulk.start_log_at(5).unwrap();
    assert_eq!(bulk.append_record(b"r"), Ok(5));
    refused(bulk.start_log_at(9), "store.log");
    // Invalid rows are refused too.
    assert_eq!(bulk.append(ROWS, b"", b""), Err(StoreError::EmptyKey { map: "rows" }));
    let too_long = StoreError::KeyTooLong { map: "rows", length: 512 };
    assert_eq!(bulk.append(ROWS, &[255; 512], b""), Err(too_long));
    assert_eq!(bulk.append(SETS, b"z", b""), Err(StoreError::WrongMapKind { map: "sets" }));
    assert_eq!(bulk.append_ids(ROWS, b"z", &[1]), Err(StoreError::WrongMapKind { map: "rows" }));
    bulk.finish().unwrap();

    let mut model = Model::default();
    model.rows.extend([(b"b".to_vec(), b"1".to_vec()), (b"b\0".to_vec(), b"3".to_vec())]);
    model.sets.extend([(b"k".to_vec(), BTreeSet::from([3, 5, 6])), (b"l".to_vec(), BTreeSet::from([1]))]);
    model.counts.insert(b"c".to_vec(), 4);
    model.log.insert(5, b"r".to_vec());
    compare(&scratch.open().0.view().unwrap(), &model);
}

/// Creates a store with one row and closes it.
fn create_old_data(scratch: &Scratch) {
    let (_store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    batch.put(ROWS, b"old", b"row").unwrap();
    batch.append_record(b"old").unwrap();
    batch.commit().unwrap();
}

fn check_old_data(scratch: &Scratch) {
    assert_eq!(scratch.open().0.view().unwrap().get(ROWS, b"old").unwrap(), Some(&b"row"[..]));
}

#[test]
fn a_build_dropped_before_its_end_leaves_the_old_data_and_no_trace() {
    let scratch = Scratch::new();
    create_old_data(&scratch);
    let before = fs::read(scratch.path().join("data.mdb")).unwrap();
    let mut bulk = create(&scratch);
    for id in 0..100_000u64 {
        bulk.append(ROWS, &id.to_be_bytes(), &[1; 700]).unwrap();
    }
    assert!(names(scratch.path()).contains(&"data.new".to_owned()));
    drop(bulk);
    assert_eq!(names(scratch.path()), ["data.mdb", "data.mdb-lock", "lock"]);
    assert_eq!(fs::read(scratch.path().join("data.mdb")).unwrap(), before);
    check_old_data(&scratch);

    let empty = Scratch::new();
    drop(create(&empty));
    assert_eq!(names(empty.path()), ["lock"]);
}

#[test]
fn the_old_data_can_be_read_and_copied() {
    let scratch = Scratch::new();
    assert!(create(&scratch).old_view().unwrap().is_none());
    create_old_data(&scratch);
    let mut bulk = create(&scratch);
    let old = bulk.old_view().unwrap().unwrap();
    bulk.append(ROWS, b"new", old.get(ROWS, b"old").unwrap().unwrap()).unwrap();
    bulk.start_log_at(old.position().unwrap() + 1).unwrap();
    bulk.append_record(b"imported").unwrap();
    bulk.finish().unwrap();
    // The view continues with its data, and the directory remains locked.
    assert_eq!(old.get(ROWS, b"old").unwrap(), Some(&b"row"[..]));
    let error = BulkStore::create(scratch.path(), MAPS, &Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    drop(old);
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    assert_eq!(view.get(ROWS, b"old").unwrap(), None);
    assert_eq!(view.get(ROWS, b"new").unwrap(), Some(&b"row"[..]));
    assert_eq!((view.first_position().unwrap(), view.position().unwrap()), (Some(2), 2));
}

#[test]
fn an_open_store_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    create_old_data(&scratch);
    let opened = scratch.open();
    let error = BulkStore::create(scratch.path(), MAPS, &Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()));
    drop(opened);
    let bulk = create(&scratch);
    let error = store::Store::open(scratch.path(), MAPS, &Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    drop(bulk);
    check_old_data(&scratch);
}

#[test]
fn a_full_disk_ends_a_build_and_leaves_the_old_data() {
    let scratch = Scratch::new();
    create_old_data(&scratch);
    let is_full = |error: &StoreError| matches!(error, StoreError::DiskFull { .. });
    // The size of the map simulates a full disk.
    let options = Options { map_bytes: Some(32 << 20), ..Options::default() };
    let mut bulk = BulkStore::create(scratch.path(), MAPS, &options).unwrap();
    let error = (0..100_000u64).find_map(|id| bulk.append(ROWS, &id.to_be_bytes(), &[1; 700]).err()).unwrap();
    assert!(is_full(&error), "{error:?}");
    // After the failure, every call returns this error.
    assert_eq!(bulk.append(ROWS, &[255], b"").unwrap_err(), error);
    assert_eq!(bulk.append_ids(SETS, b"k", &[1]).unwrap_err(), error);
    assert_eq!(bulk.finish().unwrap_err(), error);
    assert_eq!(names(scratch.path()), ["data.mdb", "data.mdb-lock", "lock"]);
    check_old_data(&scratch);

    let options = Options { reserve_bytes: u64::MAX, ..Options::default() };
    let error = BulkStore::create(scratch.path(), MAPS, &options).err().unwrap();
    assert!(matches!(&error, OpenError::Store(error) if is_full(error)), "{error:?}");
    check_old_data(&scratch);
}

#[test]
fn removes_leftovers_of_a_dead_process_and_nothing_else() {
    let ours = ["data.new", "data.new-lock", "data.sort-0", "data.sort-17"];
    let others = ["data.sort-x", "data.sort-", "data.newest", "notes"];
    let open = |scratch: &Scratch| drop(scratch.open());
    let create = |scratch: &Scratch| drop(create(scratch));
    for begin in [&open as &dyn Fn(&Scratch), &create] {
        let scratch = Scratch::new();
        create_old_data(&scratch);
        for name in ours.iter().chain(&others) {
            fs::write(scratch.path().join(name), "left").unwrap();
        }
        fs::create_dir(scratch.path().join("data.sort-3")).unwrap();
        begin(&scratch);
        let left = names(scratch.path());
        assert!(ours.iter().all(|name| !left.iter().any(|left| left == name)), "{left:?}");
        assert!(others.iter().chain(&["data.sort-3"]).all(|name| left.iter().any(|left| left == name)));
        check_old_data(&scratch);
    }
}
