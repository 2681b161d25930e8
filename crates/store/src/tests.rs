//! Tests of transient states: a checkpoint in progress, and the files that a crash leaves.
//!
//! Holding the engine's writing transaction stops the checkpointer. The frozen layer then remains, and the files do not
//! change. So a copy of the files equals the files that a killed process would leave.

use std::fs;
use std::sync::Arc;

use fastrand::Rng;

use crate::lmdb::{Txn, TxnKind};
use crate::model_state::{Model, apply, compare, compare_some, operation};
use crate::pending::Pending;
use crate::scratch::{MAPS, ROWS, SETS, Scratch};
use crate::{BulkStore, Direction, MapId, MapKind, MapSpec, Options, Store, Writer, compact};

/// Returns a transaction that prevents the checkpointer from writing until it is dropped.
fn block_checkpoints(store: &Store) -> Txn {
    Txn::begin(&store.shared().env, TxnKind::Write).unwrap()
}

fn pending(store: &Store) -> &Arc<Pending> {
    store.shared().pending().unwrap()
}

fn change(writer: &mut Writer, model: &mut Model, random: &mut Rng, count: usize) {
    let mut batch = writer.begin().unwrap();
    for _ in 0..count {
        let operation = operation(random);
        assert_eq!(apply(&mut batch, &operation).unwrap(), model.apply(&operation), "{operation:?}");
        if random.u32(0..30) == 0 {
            compare_some(&batch, model, random);
        }
    }
    if random.bool() {
        compare(&batch, model);
    }
    batch.commit().unwrap();
}

#[test]
fn reads_agree_with_a_model_while_a_checkpoint_is_blocked() {
    for seed in 1..=8 {
        let mut random = Rng::with_seed(seed);
        let scratch = Scratch::new();
        let (store, mut writer) = scratch.open();
        let mut model = Model::default();
        let mut view = store.view().unwrap();
        for round in 0..14 {
            change(&mut writer, &mut model, &mut random, 60);
            let held = block_checkpoints(&store);
            pending(&store).freeze_now();
            assert!(pending(&store).lock().overlay.frozen.is_some(), "round {round}");
            view.renew().unwrap();
            compare(&view, &model);
            for _ in 0..random.usize(0..4) {
                change(&mut writer, &mut model, &mut random, 40);
                view.renew().unwrap();
                compare(&view, &model);
            }
            let before = (store.view().unwrap(), model.clone());
            drop(held);
            // The view's snapshot of the data file may be older than the checkpoint.
            compare_some(&view, &model, &mut random);
            change(&mut writer, &mut model, &mut random, 20);
            store.checkpoint().unwrap();
            view.renew().unwrap();
            compare(&view, &model);
            compare(&before.0, &before.1);
            assert!(pending(&store).lock().overlay.is_empty());
        }
    }
}

/// Creates a store with changes of all kinds that are only in the redo log. Returns the files that a crash at that
/// moment would leave, and their content.
fn crashed(seed: u64) -> (Scratch, Model) {
    let mut random = Rng::with_seed(seed);
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let mut model = Model::default();
    change(&mut writer, &mut model, &mut random, 300);
    store.checkpoint().unwrap();
    let held = block_checkpoints(&store);
    for _ in 0..10 {
        change(&mut writer, &mut model, &mut random, 50);
    }
    let copy = Scratch::new();
    for file in fs::read_dir(scratch.path()).unwrap() {
        let file = file.unwrap();
        if file.file_name() != "data.mdb-lock" {
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    drop(held);
    (copy, model)
}

fn names(scratch: &Scratch) -> Vec<String> {
    let names =
        fs::read_dir(scratch.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn has_redo_log(scratch: &Scratch) -> bool {
    names(scratch).iter().any(|name| name.starts_with("redo-"))
}

#[test]
fn opening_restores_the_redo_log_that_a_crash_left() {
    for seed in 0..6 {
        let (scratch, model) = crashed(seed);
        assert!(has_redo_log(&scratch));
        let (store, mut writer) = scratch.open();
        assert!(pending(&store).lock().overlay.is_empty(), "it is in the data file");
        compare(&store.view().unwrap(), &model);
        let mut model = model;
        change(&mut writer, &mut model, &mut Rng::with_seed(seed), 50);
        drop((store, writer));
        assert_eq!(
            names(&scratch),
            ["data.mdb", "data.mdb-lock", "lock"],
            "a closed store has only its data file"
        );
        compare(&scratch.open().0.view().unwrap(), &model);
    }
}

#[test]
fn a_reader_sees_changes_left_by_a_crash_and_writes_nothing() {
    let (scratch, model) = crashed(11);
    let before = names(&scratch);
    let store = Store::open_read_only(scratch.path(), MAPS).unwrap();
    let mut view = store.view().unwrap();
    compare(&view, &model);
    view.park();
    let version = view.version();
    view.renew().unwrap();
    assert_eq!(view.version(), version);
    compare(&view, &model);
    drop((store, view));
    let after: Vec<String> = names(&scratch).into_iter().filter(|name| name != "data.mdb-lock").collect();
    assert_eq!(after, before);
    compare(&scratch.open().0.view().unwrap(), &model);
}

#[test]
fn a_new_data_file_replaces_data_left_by_a_crash_and_its_redo_log() {
    let (scratch, model) = crashed(12);
    compact(scratch.path(), MAPS, &Options::default()).unwrap();
    assert!(!has_redo_log(&scratch));
    compare(&scratch.open().0.view().unwrap(), &model);

    // The redo log is removed even if a crash leaves it next to the new data.
    let (scratch, _) = crashed(13);
    let redo: Vec<_> = names(&scratch).into_iter().filter(|name| name.starts_with("redo-")).collect();
    let bytes: Vec<Vec<u8>> = redo.iter().map(|name| fs::read(scratch.path().join(name)).unwrap()).collect();
    let mut bulk = BulkStore::create(scratch.path(), MAPS, &Options::default()).unwrap();
    bulk.append(ROWS, b"new", b"row").unwrap();
    bulk.finish().unwrap();
    for (name, bytes) in redo.iter().zip(bytes) {
        fs::write(scratch.path().join(name), bytes).unwrap();
    }
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    assert_eq!(
        (view.row_count(ROWS).unwrap(), view.row_count(SETS).unwrap(), view.position().unwrap()),
        (1, 0, 0)
    );
    assert!(!has_redo_log(&scratch));
}

#[test]
fn a_bulk_store_that_is_dropped_leaves_the_redo_log() {
    let (scratch, model) = crashed(14);
    let bulk = BulkStore::create(scratch.path(), MAPS, &Options::default()).unwrap();
    compare(&bulk.old_view().unwrap().unwrap(), &model);
    drop(bulk);
    compare(&scratch.open().0.view().unwrap(), &model);
}

#[test]
fn replay_finds_maps_by_name_if_the_program_defines_others() {
    static OTHERS: [MapSpec; 3] = [
        MapSpec { name: "more", kind: MapKind::Plain },
        MapSpec { name: "sets", kind: MapKind::IdSet },
        MapSpec { name: "rows", kind: MapKind::Plain },
    ];
    let (scratch, model) = crashed(15);
    let (store, mut writer) = Store::open(scratch.path(), &OTHERS, &Options::default()).unwrap();
    let view = store.view().unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let rows = view.scan(MapId::new(2), all, Direction::Forward).map(|row| row.unwrap());
    assert!(rows.eq(model.rows.iter().map(|(key, value)| (&key[..], &value[..]))));
    assert_eq!(view.row_count(MapId::new(0)).unwrap(), 0);
    let mut batch = writer.begin().unwrap();
    batch.put(MapId::new(0), b"k", b"v").unwrap();
    batch.commit().unwrap();
    drop((view, store, writer));
    compare(&scratch.open().0.view().unwrap(), &model);
}

#[test]
fn batches_wait_at_the_limit_and_large_ones_bypass_the_redo_log() {
    for seed in 0..4 {
        let mut random = Rng::with_seed(seed);
        let scratch = Scratch::new();
        let options = Options { pending_bytes_max: 40_000, ..Options::default() };
        let (store, mut writer) = scratch.open_with(&options);
        let mut model = Model::default();
        let mut view = store.view().unwrap();
        for _ in 0..60 {
            let (version, before) = (view.version(), model.clone());
            let count = random.usize(1..120);
            change(&mut writer, &mut model, &mut random, count);
            view.renew().unwrap();
            assert!(view.version() != version || model == before);
            compare(&view, &model);
        }
        let facts = store.facts().unwrap();
        assert!(!facts.writes_stopped);
        drop((store, writer, view));
        compare(&scratch.open().0.view().unwrap(), &model);
    }
}

#[test]
fn a_data_file_of_the_previous_format_is_refused_unchanged() {
    use crate::layout::{DATA_FILE, FORMAT_KEY};
    use crate::lmdb::{Env, EnvOptions, Mode, PutKind};
    use crate::maps::{self, Map};
    let scratch = Scratch::new();
    let data_file = scratch.path().join(DATA_FILE);
    let env_options = EnvOptions {
        data_file: &data_file,
        map_bytes: 1 << 20,
        readers_max: 3,
        maps_max: maps::map_count(MAPS),
        mode: Mode::Making,
        read_ahead: false,
    };
    let mut env = Env::open(&env_options, Box::new(())).unwrap();
    env.open_maps(&[Map::META.spec], true).unwrap();
    env.open_maps(&maps::other_maps(MAPS), true).unwrap();
    let mut txn = Txn::begin(&Arc::new(env), TxnKind::Write).unwrap();
    txn.put(Map::META.index, FORMAT_KEY, &1u32.to_be_bytes(), PutKind::Set).unwrap();
    txn.commit().unwrap();

    // The file is unchanged, so that the program that wrote it can still export it.
    let before = std::fs::read(&data_file).unwrap();
    let refused = |error| matches!(error, Some(crate::OpenError::Format { found: 1, supported: 3 }));
    assert!(refused(Store::open(scratch.path(), MAPS, &crate::Options::default()).err()));
    assert!(refused(Store::open_read_only(scratch.path(), MAPS).err()));
    assert!(std::fs::read(&data_file).unwrap() == before);
}

#[test]
fn a_checkpoint_without_memory_stops_writes_only_during_its_commit() {
    use crate::StoreError;
    use crate::lmdb::Failure;
    const ENOMEM: i32 = 12;
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    for operation in ["mdb_txn_begin", "mdb_put", "mdb_del"] {
        let error = pending(&store).write_failed(Failure { operation, code: ENOMEM });
        assert!(matches!(error, StoreError::Exhausted { .. }), "{operation}: {error:?}");
    }
    assert!(writer.begin().is_ok());
    let error = pending(&store).write_failed(Failure { operation: "mdb_txn_commit", code: ENOMEM });
    assert!(matches!(error, StoreError::WritesStopped { .. }), "{error:?}");
    assert!(writer.begin().is_err());
}
