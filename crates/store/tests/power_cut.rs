//! The power goes at a random file call while batches are written, the disk keeps a random part of what was not synced, and the store is
//! opened again: every acknowledged batch is there, and of the one under way everything or nothing. Then writing goes on from there.
//!
//! Also what the store does when the disk itself fails. The crate `powercut` cuts and fails; the process under test is this binary again,
//! running [`child`].

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fastrand::Rng;
use model_state::{Model, Operation, apply, compare, operation};
use powercut::{FailKind, PowerCut, discard_unsynced};
use scratch::{MAPS, ROWS, Scratch};
use store::{Batch, Options, Store, StoreError, Writer};

const CHILD_DIRECTORY: &str = "STORE_POWER_CUT_DIRECTORY";
const CHILD_SEED: &str = "STORE_POWER_CUT_SEED";
const CHILD_ROLE: &str = "STORE_POWER_CUT_ROLE";
/// The row that says which batch was the last.
const LAST_BATCH: &[u8] = b"last batch";
const CHILD_BATCHES: u64 = 30;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The operations of a batch, the same every time.
fn operations(seed: u64, batch: u64) -> Vec<Operation> {
    let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003) ^ batch);
    let mut operations: Vec<_> = (0..random.usize(1..60)).map(|_| operation(&mut random)).collect();
    operations.push(Operation::Put(LAST_BATCH.to_vec(), batch.to_be_bytes().to_vec()));
    operations.push(Operation::Append(batch.to_be_bytes().to_vec()));
    operations
}

fn last_batch(store: &Store) -> u64 {
    let view = store.view().unwrap();
    view.get(ROWS, LAST_BATCH).unwrap().map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// The state after a number of batches.
fn model_after(seed: u64, batches: u64) -> Model {
    let mut model = Model::default();
    for operation in (1..=batches).flat_map(|batch| operations(seed, batch)) {
        model.apply(&operation);
    }
    model
}

/// Runs as the process under test, or not at all.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else { return };
    let seed = std::env::var(CHILD_SEED).unwrap().parse().unwrap();
    let (store, writer) = Store::open(Path::new(&directory), MAPS, &Options::default()).unwrap();
    match std::env::var(CHILD_ROLE).unwrap().as_str() {
        "write" => write_on(&store, writer, seed),
        "failing disk" => write_on_a_failing_disk(&store, writer, seed),
        "full disk" => write_on_a_full_disk(&store, writer, seed),
        role => panic!("no such role: {role}"),
    }
}

fn fill(batch: &mut Batch<'_>, seed: u64, number: u64) {
    for operation in operations(seed, number) {
        apply(batch, &operation).unwrap();
    }
}

fn write_on(store: &Store, mut writer: Writer, seed: u64) {
    let from = last_batch(store) + 1;
    for number in from..from + CHILD_BATCHES {
        let mut batch = writer.begin().unwrap();
        fill(&mut batch, seed, number);
        batch.commit().unwrap();
        println!("acknowledged {number}");
    }
}

/// Writes until a commit fails, which must stop the writes and nothing else.
fn write_on_a_failing_disk(store: &Store, mut writer: Writer, seed: u64) {
    let (mut old, mut parked) = (store.view().unwrap(), store.view().unwrap());
    parked.park();
    let mut number = 0;
    let error = loop {
        let mut batch = writer.begin().unwrap();
        fill(&mut batch, seed, number + 1);
        match batch.commit() {
            Ok(_) => number += 1,
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

/// Writes on past a commit that finds the disk full, unless that leaves in doubt what is on it.
fn write_on_a_full_disk(store: &Store, mut writer: Writer, seed: u64) {
    let (mut number, mut refused) = (0, 0);
    while number < CHILD_BATCHES {
        let mut batch = writer.begin().unwrap();
        fill(&mut batch, seed, number + 1);
        match batch.commit() {
            Ok(_) => number += 1,
            Err(StoreError::DiskFull { .. }) => refused += 1,
            Err(StoreError::WritesStopped { .. }) => return println!("stopped {number}"),
            Err(error) => panic!("{error:?}"),
        }
        compare(&store.view().unwrap(), &model_after(seed, number));
    }
    println!("refused {refused}");
}

struct Trial {
    scratch: Scratch,
    seed: u64,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path().join("data")).unwrap();
        Trial { scratch, seed }
    }

    fn journal(&self) -> PathBuf {
        self.scratch.path().join("journal")
    }

    fn run(&self, role: &str, plan: impl Fn(PowerCut) -> PowerCut) -> Output {
        // The layer compares paths, so none may go through a symbolic link.
        let root = self.scratch.path().canonicalize().unwrap();
        let data = root.join("data");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child", "--exact", "--nocapture"]);
        command.env(CHILD_DIRECTORY, &data).env(CHILD_SEED, self.seed.to_string()).env(CHILD_ROLE, role);
        plan(PowerCut::new(&data, &root.join("journal"))).apply(&mut command);
        command.output().unwrap()
    }

    /// Opens the store, compares it with the model of as many batches as it says it has, and returns that number.
    fn check(&self) -> u64 {
        let data = self.scratch.path().join("data");
        let (store, mut writer) = Store::open(&data, MAPS, &Options::default()).unwrap();
        let number = last_batch(&store);
        compare(&store.view().unwrap(), &model_after(self.seed, number));
        // It can also be written to.
        let mut batch = writer.begin().unwrap();
        fill(&mut batch, self.seed, number + 1);
        compare(&batch, &model_after(self.seed, number + 1));
        number
    }
}

/// The number behind a line's head in a child's output, of the last such line.
fn said(output: &Output, head: &str) -> Option<u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    // The test harness may have begun the line.
    let mut lines = text.lines().rev().filter_map(|line| line.split_once(head).map(|(_, rest)| rest.trim()));
    lines.next().map(|number| number.parse().unwrap())
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_and_nothing_is_there_by_half() {
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
        // A few lives of one store, each ended by a cut; the first often while the store is made.
        for life in 0..5 {
            let call = if life == 0 { random.u64(1..40) } else { random.u64(1..500) };
            let output = trial.run("write", |plan| plan.cut_at(call));
            let acknowledged = said(&output, "acknowledged ").unwrap_or(there);
            if output.status.code() == Some(powercut::EXIT_STATUS) {
                let discarded = discard_unsynced(&trial.journal(), random.u64(..)).unwrap();
                cuts += 1;
                losses += usize::from(discarded.discarded_sectors > 0);
            } else {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
            there = trial.check();
            assert!(
                there == acknowledged || there == acknowledged + 1,
                "life {life}, call {call}: {acknowledged} acknowledged, {there} there"
            );
        }
    }
    println!("{cuts} cuts, {losses} of them with losses");
    assert!(losses * 4 > cuts, "most cuts should lose something: {losses} of {cuts}");
}

#[test]
fn a_failed_sync_stops_writes_until_restart_and_reads_go_on() {
    let mut random = Rng::with_seed(9);
    for seed in 0..12 {
        let trial = Trial::new(seed);
        // The syncs of making the store come first; from then on each batch has two, of its pages and of its root.
        let sync = random.u64(8..30);
        let output = trial.run("failing disk", |plan| plan.fail_at(FailKind::Sync, sync, EIO));
        assert!(output.status.success(), "sync {sync}: {}", String::from_utf8_lossy(&output.stderr));
        let acknowledged = said(&output, "reads go on at ").unwrap();
        let there = trial.check();
        assert!(there == acknowledged || there == acknowledged + 1, "sync {sync}");
    }
}

#[test]
fn a_failed_sync_and_then_a_power_cut_lose_nothing_acknowledged() {
    for seed in 0..12 {
        let trial = Trial::new(seed);
        let mut random = Rng::with_seed(seed);
        let (sync, call) = (random.u64(8..30), random.u64(50..300));
        let output = trial.run("failing disk", |plan| plan.fail_at(FailKind::Sync, sync, EIO).cut_at(call));
        let acknowledged = said(&output, "acknowledged ").unwrap_or(0);
        if output.status.code() == Some(powercut::EXIT_STATUS) {
            discard_unsynced(&trial.journal(), seed).unwrap();
        }
        let there = trial.check();
        assert!(there == acknowledged || there == acknowledged + 1, "sync {sync}, call {call}");
    }
}

#[test]
fn a_disk_full_in_mid_commit_refuses_that_batch_only() {
    let mut random = Rng::with_seed(5);
    let mut refusals = 0;
    for seed in 0..10 {
        let trial = Trial::new(seed);
        let write = random.u64(40..150);
        let output = trial.run("full disk", |plan| plan.fail_at(FailKind::Write, write, ENOSPC));
        assert!(output.status.success(), "write {write}: {}", String::from_utf8_lossy(&output.stderr));
        let there = trial.check();
        match said(&output, "stopped ") {
            // The write of a root, of which nobody knows whether it arrived.
            Some(acknowledged) => {
                assert!(there == acknowledged || there == acknowledged + 1, "write {write}")
            }
            None => {
                assert_eq!(said(&output, "refused "), Some(1), "write {write}");
                assert_eq!(there, CHILD_BATCHES, "write {write}");
                refusals += 1;
            }
        }
    }
    assert!(refusals > 5, "only {refusals} of 10");
}
