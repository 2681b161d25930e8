//! The power fails at a random file call while batches are written, the disk retains a random part of the unsynced
//! data, and the store is opened again. The store must contain every acknowledged batch, and the batch in progress
//! completely or not at all. Writing then continues.
//!
//! Also tests the store when the disk itself fails. The crate `powercut` injects the failures. The process under test
//! is this binary again, running [`run_as_child_process`].

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;
mod trial;

use fastrand::Rng;
use model_state::compare;
use powercut::FailKind;
use scratch::{MAPS, retry_while_in_use};
use store::{Options, Store, StoreError, Writer};
use trial::{
    EIO, ENOSPC, Trial, assert_whole, commit, model_after, reported, write_batches, write_on_a_full_disk,
};

const CHILD_BATCHES: u64 = 30;

/// Runs as the process under test. Otherwise does nothing.
#[test]
fn run_as_child_process() {
    let Some(task) = trial::task() else { return };
    let (store, writer) =
        retry_while_in_use(|| Store::open(&task.directory, MAPS, &Options::default())).unwrap();
    match task.role.as_str() {
        "write" => write_batches(&store, writer, task.seed, CHILD_BATCHES),
        "failing disk" => write_on_a_failing_disk(&store, writer, task.seed),
        "full disk" => write_on_a_full_disk(&store, writer, task.seed, CHILD_BATCHES, || ()),
        role => panic!("no such role: {role}"),
    }
}

/// Writes until a commit fails. The failure must stop writes and nothing else.
fn write_on_a_failing_disk(store: &Store, mut writer: Writer, seed: u64) {
    let (mut old, mut parked) = (store.view().unwrap(), store.view().unwrap());
    parked.park();
    let mut number = 0;
    let error = loop {
        match commit(&mut writer, seed, number + 1) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        println!("acknowledged {number}");
        assert!(number < 100, "no commit fails");
    };
    assert!(
        matches!(&error, StoreError::WritesStopped { cause } if cause.contains("os error 5")),
        "{error:?}"
    );
    assert_eq!(writer.begin().err(), Some(error.clone()));
    assert_eq!(writer.begin_in_reserve().err(), Some(error));
    assert!(store.facts().unwrap().writes_stopped);
    let model = model_after(seed, number);
    for view in [&mut old, &mut parked, &mut store.view().unwrap()] {
        view.renew().unwrap();
        compare(view, &model);
        view.park();
        view.renew().unwrap();
        compare(view, &model);
    }
    println!("reads go on at {number}");
}

#[test]
fn acknowledged_batches_survive_a_power_cut_and_none_is_partial() {
    let seeds = match std::env::var("STORE_POWER_CUT") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=14).chain([fastrand::u64(..)]).collect::<Vec<u64>>(),
    };
    let (mut cuts, mut losses) = (0, 0);
    for seed in seeds {
        println!("STORE_POWER_CUT={seed}");
        let trial = Trial::new(seed);
        let mut random = Rng::with_seed(seed);
        let mut there = 0;
        // The store is opened several times, and each run ends with a power cut. The first cut often happens while the
        // store is created.
        for life in 0..5 {
            let call = if life == 0 { random.u64(1..40) } else { random.u64(1..500) };
            let output = trial.run("write", |plan| plan.cut_at(call));
            let acknowledged = reported(&output, "acknowledged ").unwrap_or(there);
            losses += u32::from(trial.discard_lost_data(&output, random.u64(..)));
            cuts += u32::from(!output.status.success());
            there = trial.check();
            assert_whole(there, acknowledged, format_args!("life {life}, call {call}"));
        }
    }
    println!("{cuts} cuts, {losses} of them with losses");
    assert!(losses * 4 > cuts, "most cuts should lose something: {losses} of {cuts}");
}

#[test]
fn a_failed_sync_stops_writes_until_restart_but_not_reads() {
    let mut random = Rng::with_seed(9);
    for seed in 0..12 {
        let trial = Trial::new(seed);
        // The syncs of creating the store come first, then the syncs of the batches.
        let sync = random.u64(8..30);
        let output = trial.run("failing disk", |plan| plan.fail_at(FailKind::Sync, sync, EIO));
        assert!(output.status.success(), "sync {sync}: {}", String::from_utf8_lossy(&output.stderr));
        let acknowledged = reported(&output, "reads go on at ").unwrap();
        let there = trial.check();
        assert_whole(there, acknowledged, format_args!("sync {sync}"));
    }
}

#[test]
fn a_failed_sync_and_then_a_power_cut_lose_nothing_acknowledged() {
    for seed in 0..12 {
        let trial = Trial::new(seed);
        let mut random = Rng::with_seed(seed);
        let (sync, call) = (random.u64(8..30), random.u64(50..300));
        let output = trial.run("failing disk", |plan| plan.fail_at(FailKind::Sync, sync, EIO).cut_at(call));
        let acknowledged = reported(&output, "acknowledged ").unwrap_or(0);
        trial.discard_lost_data(&output, seed);
        let there = trial.check();
        assert_whole(there, acknowledged, format_args!("sync {sync}, call {call}"));
    }
}

#[test]
fn a_disk_full_in_mid_commit_refuses_that_batch_only() {
    let mut random = Rng::with_seed(5);
    let mut refusals = 0;
    for seed in 0..10 {
        let trial = Trial::new(seed);
        // The writes of creating the store come first, then the writes of the batches.
        let write = random.u64(20..45);
        let output = trial.run("full disk", |plan| plan.fail_at(FailKind::Write, write, ENOSPC));
        assert!(output.status.success(), "write {write}: {}", String::from_utf8_lossy(&output.stderr));
        let there = trial.check();
        match reported(&output, "stopped ") {
            // The write of the root may or may not have reached the disk.
            Some(acknowledged) => assert_whole(there, acknowledged, format_args!("write {write}")),
            None => {
                // If the failure hit a write of the final checkpoint, no commit was refused, and the redo log contains
                // the changes.
                refusals += reported(&output, "refused ").unwrap();
                assert_eq!(there, CHILD_BATCHES, "write {write}");
            }
        }
    }
    assert!(refusals > 5, "only {refusals} of 10");
}
