//! Tests of building a data file in bulk over an existing store. At a random file call the power fails, the disk fails,
//! or the disk is full. Afterwards the directory contains the complete old content or the complete new content, and no
//! leftovers.
//!
//! The crate `powercut` injects the failures. The process under test is this binary again, running
//! [`run_as_child_process`].

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod model_state;
mod scratch;

use std::path::Path;
use std::process::{Command, Output};

use fastrand::Rng;
use model_state::{Model, compare};
use powercut::{FailKind, PowerCut, discard_unsynced};
use scratch::{MAPS, ROWS, SETS, Scratch, retry_while_in_use};
use store::{BulkStore, OpenError, Options, Read, Sorter, Store, StoreError};

const CHILD_DIRECTORY: &str = "STORE_BULK_CUT_DIRECTORY";
const CHILD_ROLE: &str = "STORE_BULK_CUT_ROLE";
const VERSION: &[u8] = b"version";
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Returns the content of a version, the same every time.
fn content(version: u64) -> Model {
    let mut random = Rng::with_seed(version);
    let mut model = Model::default();
    for number in 0..random.u32(1..3_000) {
        model.rows.insert(number.to_be_bytes().to_vec(), vec![random.u8(..); random.usize(0..1_500)]);
    }
    model.rows.insert(VERSION.to_vec(), version.to_be_bytes().to_vec());
    model.sets.insert(b"ids".to_vec(), (0..random.u64(1..100_000)).map(|id| id * version).collect());
    model.counts.insert(b"count".to_vec(), version as i64);
    model.log.extend((version..version + random.u64(1..200)).map(|position| (position, vec![1; 700])));
    model
}

fn version(read: &Read) -> u64 {
    u64::from_be_bytes(read.get(ROWS, VERSION).unwrap().unwrap().try_into().unwrap())
}

#[derive(Debug)]
enum Failure {
    Open(OpenError),
    Store(StoreError),
}

/// Builds the version after the present version. The rows pass through a sorter, which also writes files in the
/// directory.
fn build_next(directory: &Path) -> Result<(), Failure> {
    let mut bulk = retry_while_in_use(|| BulkStore::create(directory, MAPS, &Options::default()))
        .map_err(Failure::Open)?;
    let old = bulk.old_view().map_err(Failure::Open)?;
    let model = content(old.as_ref().map_or(1, |old| version(old) + 1));
    drop(old);
    let append = || {
        let mut sorter = Sorter::new(directory, 400_000);
        for (key, value) in model.rows.iter().rev() {
            sorter.push(key, value)?;
        }
        let mut rows = sorter.finish()?;
        while let Some((key, value)) = rows.next()? {
            bulk.append(ROWS, key, value)?;
        }
        for (key, ids) in &model.sets {
            bulk.append_ids(SETS, key, &ids.iter().copied().collect::<Vec<u64>>())?;
        }
        for (key, count) in &model.counts {
            bulk.append_counter(key, *count)?;
        }
        bulk.start_log_at(*model.log.keys().next().unwrap())?;
        for record in model.log.values() {
            bulk.append_record(record)?;
        }
        bulk.finish()
    };
    append().map_err(Failure::Store)
}

/// Runs as the process under test. Otherwise does nothing.
#[test]
fn run_as_child_process() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else { return };
    match (build_next(Path::new(&directory)), std::env::var(CHILD_ROLE).unwrap().as_str()) {
        (Ok(()), role @ ("build" | "build or fail")) => {
            println!("\nfinished");
            // Add calls at which the power can fail after the build has ended. Each opening writes the lock file.
            for _ in 0..5 {
                let opened =
                    retry_while_in_use(|| Store::open(Path::new(&directory), MAPS, &Options::default()));
                // The injected sync failure may have occurred while the store was opened.
                assert!(opened.is_ok() || role == "build or fail", "{:?}", opened.err());
            }
        }
        (Err(Failure::Store(StoreError::DiskFull { .. })), "meet a full disk") => println!("\nrefused"),
        (Err(Failure::Open(error)), "meet a full disk") => {
            assert!(error.to_string().contains("os error 28"), "{error}");
            println!("\nrefused");
        }
        (Err(Failure::Store(StoreError::Engine { code: EIO, .. })), "build or fail") => println!("\nrefused"),
        (outcome, role) => panic!("{role}: {outcome:?}"),
    }
}

fn run(scratch: &Scratch, role: &str, plan: impl Fn(PowerCut) -> PowerCut) -> Output {
    // The preloaded library compares paths, so no path may contain a symbolic link.
    let root = scratch.path().canonicalize().unwrap();
    let data = root.join("data");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["run_as_child_process", "--exact", "--nocapture"]);
    command.env(CHILD_DIRECTORY, &data).env(CHILD_ROLE, role);
    plan(PowerCut::new(&data, &root.join("journal"))).apply(&mut command);
    command.output().unwrap()
}

fn reported(output: &Output, word: &str) -> bool {
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line == word)
}

/// Opens the store, compares it with the version that it claims to be, and returns the version.
fn check(scratch: &Scratch) -> u64 {
    let data = scratch.path().join("data");
    let (store, _writer) = retry_while_in_use(|| Store::open(&data, MAPS, &Options::default())).unwrap();
    let view = store.view().unwrap();
    let version = version(&view);
    compare(&view, &content(version));
    let entries = std::fs::read_dir(&data).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        ["data.mdb", "data.mdb-lock", "lock", "redo.mark"],
        "open it has a mark, and no redo log yet"
    );
    version
}

fn with_first_version() -> Scratch {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path().join("data")).unwrap();
    let output = run(&scratch, "build", |plan| plan);
    assert!(reported(&output, "finished"), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(check(&scratch), 1);
    scratch
}

#[test]
fn a_power_cut_leaves_the_old_content_or_the_new() {
    let seeds = match std::env::var("STORE_BULK_CUT") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=6).chain([fastrand::u64(..)]).collect::<Vec<u64>>(),
    };
    let (mut cuts, mut replaced) = (0, 0);
    for seed in seeds {
        println!("STORE_BULK_CUT={seed}");
        let mut random = Rng::with_seed(seed);
        let scratch = with_first_version();
        let mut there = 1;
        for life in 0..8 {
            // Half of the cuts occur near the end, when the new file replaces the old file.
            let calls = if random.bool() { 60 } else { 24 };
            let call = random.u64(1..calls);
            let output = run(&scratch, "build", |plan| plan.cut_at(call));
            let finished = reported(&output, "finished");
            if output.status.code() == Some(powercut::EXIT_STATUS) {
                discard_unsynced(&scratch.path().join("journal"), random.u64(..)).unwrap();
                cuts += 1;
            } else {
                assert!(finished, "{}", String::from_utf8_lossy(&output.stderr));
            }
            let now = check(&scratch);
            assert!(
                now == there + u64::from(finished) || now == there + 1,
                "life {life}, call {call}: {now}"
            );
            replaced += u32::from(now > there);
            there = now;
        }
    }
    println!("{cuts} cuts, {replaced} replacements");
    assert!(cuts > 20, "only {cuts} cuts");
    assert!(replaced > 2, "only {replaced} replacements");
}

#[test]
fn a_full_disk_at_any_write_leaves_the_old_content() {
    let mut random = Rng::with_seed(3);
    let scratch = with_first_version();
    let mut refused = 0;
    for _ in 0..15 {
        // The first two writes go to the lock file, and may fail.
        let write = random.u64(3..15);
        let output = run(&scratch, "meet a full disk", |plan| plan.fail_at(FailKind::Write, write, ENOSPC));
        assert!(output.status.success(), "write {write}: {}", String::from_utf8_lossy(&output.stderr));
        refused += u32::from(reported(&output, "refused"));
        assert_eq!(check(&scratch), 1, "write {write}");
    }
    assert_eq!(refused, 15);
}

#[test]
fn a_failed_sync_leaves_the_old_content_or_the_new() {
    let scratch = with_first_version();
    let mut there = 1;
    for sync in 1..6 {
        let output = run(&scratch, "build or fail", |plan| plan.fail_at(FailKind::Sync, sync, EIO));
        assert!(output.status.success(), "sync {sync}: {}", String::from_utf8_lossy(&output.stderr));
        let now = check(&scratch);
        // A refused build may have reached its last sync, which is the sync of the directory.
        assert!(now == there + 1 || (now == there && reported(&output, "refused")), "sync {sync}: {now}");
        there = now;
    }
}
