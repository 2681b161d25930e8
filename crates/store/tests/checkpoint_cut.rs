//! Tests of failures while batches are committed and checkpointed at the same time, and while a store with a redo log
//! is opened and closed. The power fails, the process is killed, or the disk is full. Afterwards the store must contain
//! every acknowledged batch, and the batch in progress completely or not at all.
//!
//! The limit of pending changes is low here, so checkpoints begin often, and segments of the redo log are released and
//! reused.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;
mod trial;

use std::path::Path;

use fastrand::Rng;
use model_state::compare;
use powercut::{Counted, FailKind};
use scratch::{MAPS, retry_while_in_use};
use store::{Options, Store};
use trial::{
    EIO, ENOSPC, Task, Trial, assert_whole, commit, last_batch, model_after, reported, write_batches,
    write_on_a_full_disk,
};

/// Number of batches that one run of a process commits. The batches fill about three segments of the redo log.
const BATCHES: u64 = 150;
/// Number of batches in a run without checkpoints.
const PILED_UP: u64 = 15;
/// File, next to the data directory, that contains the available room.
const ROOM: &str = "room";
const PLENTY: &str = "999999999999";

/// Checkpoints begin at a quarter of the limit of pending changes. Some batches exceed half of the limit and bypass the
/// redo log.
fn options() -> Options {
    Options { pending_bytes_max: 200 << 10, ..Options::default() }
}

/// Runs as the process under test. Otherwise does nothing.
#[test]
fn run_as_child_process() {
    let Some(task) = trial::task() else { return };
    match task.role.as_str() {
        "compact" => {
            retry_while_in_use(|| store::compact(&task.directory, MAPS, &options())).unwrap();
            return;
        }
        "try to open" => return try_to_open(&task),
        _ => {}
    }
    let (store, writer) = retry_while_in_use(|| Store::open(&task.directory, MAPS, &options())).unwrap();
    match task.role.as_str() {
        "write" => write_batches(&store, writer, task.seed, BATCHES),
        "pile up" => {
            drop((store, writer));
            commit_without_checkpoint(&task);
        }
        "open" => println!("opened {}", last_batch(&store)),
        "full disk" => write_on_a_full_disk(&store, writer, task.seed, BATCHES, || {
            std::fs::write(task.directory.with_file_name(ROOM), PLENTY).unwrap();
        }),
        role => panic!("no such role: {role}"),
    }
}

/// Opens a store on a disk that fails once. The store opens with all data, or `open` returns an error that names the
/// reason.
fn try_to_open(task: &Task) {
    match retry_while_in_use(|| Store::open(&task.directory, MAPS, &options())) {
        Ok((store, _)) => {
            let batches = last_batch(&store);
            compare(&store.view().unwrap(), &model_after(task.seed, batches));
            println!("opened {batches}");
        }
        Err(error) => {
            let text = error.to_string();
            // The engine returns MDB_PANIC for every call after a failed write of the root, until the store is opened
            // again.
            assert!(
                ["os error", " is full: ", "MDB_PANIC"].iter().any(|words| text.contains(words)),
                "{text}"
            );
        }
    }
}

/// Commits batches without a checkpoint, and ends without closing the store.
fn commit_without_checkpoint(task: &Task) {
    let (_store, mut writer) =
        retry_while_in_use(|| Store::open(&task.directory, MAPS, &Options::default())).unwrap();
    for number in 1..=PILED_UP {
        commit(&mut writer, task.seed, number).unwrap();
    }
    println!("piled up {PILED_UP}");
    std::process::exit(0);
}

/// Returns the number of calls of one run without failures.
fn count_calls(trial: &Trial, role: &str) -> Counted {
    let count = trial.scratch.path().join("count");
    let output = trial.run(role, |plan| plan.count(&count));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    powercut::counted(&count).unwrap()
}

#[test]
fn a_power_cut_during_a_checkpoint_loses_no_acknowledged_batch() {
    let calls = count_calls(&Trial::new(1), "write").calls;
    println!("{calls} calls");
    let (mut cuts, mut losses, mut highest_segment) = (0, 0, 0);
    for seed in (1..=8).chain([fastrand::u64(..)]) {
        println!("seed {seed}");
        let (trial, mut random) = (Trial::new(seed), Rng::with_seed(seed));
        let mut there = 0;
        for life in 0..4 {
            let call = random.u64(1..calls);
            let output = trial.run("write", |plan| plan.cut_at(call));
            losses += u32::from(trial.discard_lost_data(&output, random.u64(..)));
            cuts += u32::from(!output.status.success());
            highest_segment = highest_segment.max(redo_segments(&trial.data()).last().copied().unwrap_or(0));
            let acknowledged = reported(&output, "acknowledged ").unwrap_or(there);
            there = trial.check();
            assert_whole(there, acknowledged, format_args!("life {life}, call {call}"));
        }
    }
    println!("{cuts} cuts, {losses} of them with losses");
    assert!(highest_segment > 3, "segments must be reused: {highest_segment}");
    assert!(cuts > 20 && losses * 4 > cuts, "most lives should lose something: {losses} of {cuts}");
}

#[test]
fn a_kill_during_a_checkpoint_loses_no_acknowledged_batch() {
    let calls = count_calls(&Trial::new(1), "write").calls;
    for seed in 1..=6 {
        let (trial, mut random) = (Trial::new(seed), Rng::with_seed(seed));
        let mut there = 0;
        for life in 0..3 {
            let call = random.u64(1..calls);
            let output = trial.run("write", |plan| plan.kill_at(call));
            trial.discard_lost_data(&output, 0);
            let acknowledged = reported(&output, "acknowledged ").unwrap_or(there);
            there = trial.check();
            assert_whole(there, acknowledged, format_args!("life {life}, call {call}"));
        }
    }
}

/// Creates a directory whose redo log contains all batches, none of them checkpointed.
fn trial_with_redo_log(seed: u64) -> Trial {
    let trial = Trial::new(seed);
    let output = trial.run("pile up", |plan| plan);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!redo_segments(&trial.data()).is_empty());
    trial
}

/// Returns the numbers of the redo log's segments.
fn redo_segments(data: &Path) -> Vec<u64> {
    let names = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name());
    let numbers =
        names.filter_map(|name| name.to_string_lossy().strip_prefix("redo-").map(|n| n.parse().unwrap()));
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_power_cut_at_any_call_of_open_or_close_loses_no_batch() {
    let template = trial_with_redo_log(3);
    let counting = template.copy();
    let calls = count_calls(&counting, "open").calls;
    println!("{calls} calls");
    assert!(redo_segments(&counting.data()).is_empty(), "closing a store checkpoints all groups");
    assert_eq!(counting.check(), PILED_UP);
    for call in 1..=calls {
        let trial = template.copy();
        // The second run opens the remaining redo log, and is killed.
        let output = trial.run("open", |plan| plan.cut_at(call));
        trial.discard_lost_data(&output, call);
        let output = trial.run("open", |plan| plan.kill_at(calls - call));
        trial.discard_lost_data(&output, call);
        assert_eq!(trial.check(), PILED_UP, "call {call}");
    }
}

#[test]
fn a_disk_that_fails_while_a_store_is_opened_and_closed_loses_nothing() {
    let template = trial_with_redo_log(5);
    let mut opened = 0;
    for (kind, errno) in [(FailKind::Write, ENOSPC), (FailKind::Write, EIO), (FailKind::Sync, EIO)] {
        for call in 1..25 {
            let trial = template.copy();
            let output = trial.run("try to open", |plan| plan.fail_at(kind, call, errno));
            trial.discard_lost_data(&output, 0);
            if let Some(batches) = reported(&output, "opened ") {
                assert_eq!(batches, PILED_UP, "{kind:?} {call}, {errno}");
                opened += 1;
            }
            assert_eq!(trial.check(), PILED_UP, "{kind:?} {call}, {errno}");
        }
    }
    assert!(opened > 20, "{opened} opened nevertheless");
}

#[test]
fn a_power_cut_at_any_call_of_compaction_loses_no_batch() {
    let template = trial_with_redo_log(4);
    let counting = template.copy();
    let calls = count_calls(&counting, "compact").calls;
    println!("{calls} calls");
    assert!(redo_segments(&counting.data()).is_empty(), "the new data file contains all groups");
    assert_eq!(counting.check(), PILED_UP);
    for call in 1..=calls {
        let trial = template.copy();
        let output = trial.run("compact", |plan| plan.cut_at(call));
        trial.discard_lost_data(&output, call);
        assert_eq!(trial.check(), PILED_UP, "call {call}");
    }
}

#[test]
fn a_disk_full_at_any_write_refuses_batches_and_nothing_else() {
    let calls = count_calls(&Trial::new(1), "full disk").calls;
    let mut random = Rng::with_seed(5);
    let mut refusals = 0;
    for seed in 0..12 {
        let trial = Trial::new(seed);
        // The first calls create the store.
        let write = random.u64(20..calls / 2);
        let output = trial.run("full disk", |plan| plan.fail_at(FailKind::Write, write, ENOSPC));
        trial.discard_lost_data(&output, 0);
        let there = trial.check();
        match reported(&output, "stopped ") {
            // The failed write may be the write of a root, which may or may not have reached the disk.
            Some(acknowledged) => assert_whole(there, acknowledged, format_args!("write {write}")),
            None => {
                refusals += reported(&output, "refused ").unwrap();
                assert_eq!(there, BATCHES, "write {write}");
            }
        }
    }
    println!("{refusals} batches refused");
}

#[test]
fn a_full_disk_refuses_batches_until_space_is_free() {
    let grown = count_calls(&Trial::new(2), "full disk").grown_bytes as u64;
    let mut random = Rng::with_seed(6);
    for round in 0..8 {
        let trial = Trial::new(2);
        let room = trial.data().with_file_name(ROOM);
        // Creating the store needs some room: the data file with its maps, and the first segment.
        let bytes = random.u64(100_000..grown);
        std::fs::write(&room, bytes.to_string()).unwrap();
        let output = trial.run("full disk", |plan| plan.room(&room));
        trial.discard_lost_data(&output, 0);
        let refused = reported(&output, "refused ");
        println!("round {round}: room for {bytes} of {grown} bytes, {refused:?} refused");
        assert!(refused.is_some(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(trial.check(), BATCHES);
    }
}
