//! Compacting retains every row and returns space to the file system.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;

use std::fs;

use fastrand::Rng;
use model_state::{Model, Operation, apply, compare, operation};
use scratch::{MAPS, ROWS, SETS, Scratch};
use store::{MapSpec, OpenError, Options, StoreError, compact};

fn compacted(scratch: &Scratch) -> store::Compacted {
    compact(scratch.path(), MAPS, &Options::default()).unwrap()
}

#[test]
fn compaction_keeps_every_row() {
    std::thread::scope(|scope| {
        for seed in 0..5 {
            scope.spawn(move || check_rows(seed));
        }
    });
}

fn check_rows(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let scratch = Scratch::new();
    let mut model = Model::default();
    for _ in 0..3 {
        let (store, mut writer) = scratch.open();
        compare(&store.view().unwrap(), &model);
        let mut batch = writer.begin().unwrap();
        for _ in 0..random.usize(0..3_000) {
            let operation = operation(&mut random);
            assert_eq!(apply(&mut batch, &operation).unwrap(), model.apply(&operation));
        }
        let set = Operation::Insert(b"many".to_vec(), 0);
        apply(&mut batch, &set).unwrap();
        model.apply(&set);
        for id in (0..70_000).map(|id| id * 7) {
            batch.insert_id(SETS, b"many", id).unwrap();
            model.sets.get_mut(&b"many"[..]).unwrap().insert(id);
        }
        batch.commit().unwrap();
        drop((store, writer));
        compacted(&scratch);
    }
    compare(&scratch.open().0.view().unwrap(), &model);
}

#[test]
fn a_store_shrinks_after_many_deletes_and_not_again() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let mut random = Rng::with_seed(1);
    let mut batch = writer.begin().unwrap();
    let keys: Vec<[u8; 8]> = (0..20_000).map(|_| random.u64(..).to_be_bytes()).collect();
    for key in &keys {
        batch.put(ROWS, key, &[3; 500]).unwrap();
    }
    batch.commit().unwrap();
    // Without this call, one checkpoint could write both batches, and the data file would never contain the deleted
    // rows.
    store.checkpoint().unwrap();
    let mut batch = writer.begin().unwrap();
    for key in &keys[1_000..] {
        batch.delete(ROWS, key).unwrap();
    }
    batch.commit().unwrap();
    store.checkpoint().unwrap();
    let facts = store.facts().unwrap();
    assert!(facts.free_bytes > 9_000_000 && facts.free_bytes < facts.used_bytes, "{facts:?}");
    drop((store, writer));
    let first = compacted(&scratch);
    assert!(first.bytes_after + facts.free_bytes <= facts.used_bytes, "{first:?} {facts:?}");
    assert!(first.bytes_before > 10_000_000 && first.bytes_after < 800_000, "{first:?}");
    assert_eq!(fs::metadata(scratch.path().join("data.mdb")).unwrap().len(), first.bytes_after);
    let second = compacted(&scratch);
    assert_eq!((second.bytes_before, second.bytes_after), (first.bytes_after, first.bytes_after));
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    assert_eq!(view.row_count(ROWS).unwrap(), 1_000);
    for key in &keys[..1_000] {
        assert_eq!(view.get(ROWS, key).unwrap(), Some(&[3; 500][..]));
    }
}

#[test]
fn refuses_to_compact_when_data_would_be_lost() {
    static FEWER: [MapSpec; 1] = [MAPS[0]];
    let scratch = Scratch::new();
    let options = Options::default();
    let error = compact(&scratch.path().join("missing"), MAPS, &options).unwrap_err();
    assert!(matches!(error, OpenError::File { .. }), "{error:?}");
    assert!(!scratch.path().join("missing").exists());

    let (store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    for record in [&b"one"[..], b"to be damaged", b"three"] {
        batch.append_record(record).unwrap();
    }
    batch.commit().unwrap();
    let error = compact(scratch.path(), MAPS, &options).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    drop((store, writer));
    let error = compact(scratch.path(), &FEWER, &options).unwrap_err();
    assert!(matches!(&error, OpenError::Map { name, .. } if name == "sets"), "{error:?}");

    let file = scratch.path().join("data.mdb");
    let mut bytes = fs::read(&file).unwrap();
    for at in 0..bytes.len() - 13 {
        if bytes[at..].starts_with(b"to be damaged") {
            bytes[at] = b'T';
        }
    }
    fs::write(&file, &bytes).unwrap();
    let error = compact(scratch.path(), MAPS, &options).unwrap_err();
    assert!(matches!(error, OpenError::Store(StoreError::DamagedLog { position: 2, .. })), "{error:?}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
    assert!(!scratch.path().join("data.new").exists());
}
