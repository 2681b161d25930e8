//! Runs a store in a process whose disk fails. Each batch that the process commits follows from a seed and a number, so
//! the state can be checked afterwards.
//!
//! The process under test is the test binary again, running the test `run_as_child_process` in a given role.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::{Command, Output};

use fastrand::Rng;
use powercut::{PowerCut, discard_unsynced};
use store::{Batch, Options, Store, StoreError, Writer};

use crate::model_state::{Model, Operation, apply, compare, operation};
use crate::scratch::{MAPS, ROWS, Scratch, retry_while_in_use};

const CHILD_DIRECTORY: &str = "STORE_TRIAL_DIRECTORY";
const CHILD_SEED: &str = "STORE_TRIAL_SEED";
const CHILD_ROLE: &str = "STORE_TRIAL_ROLE";
/// Key of the row with the number of the last batch.
const LAST_BATCH: &[u8] = b"last batch";
pub(crate) const EIO: i32 = 5;
pub(crate) const ENOSPC: i32 = 28;

/// Returns the operations of a batch, the same every time.
fn operations(seed: u64, batch: u64) -> Vec<Operation> {
    let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003) ^ batch);
    let mut operations: Vec<_> = (0..random.usize(1..60)).map(|_| operation(&mut random)).collect();
    operations.push(Operation::Put(LAST_BATCH.to_vec(), batch.to_be_bytes().to_vec()));
    operations.push(Operation::Append(batch.to_be_bytes().to_vec()));
    operations
}

pub(crate) fn last_batch(store: &Store) -> u64 {
    let view = store.view().unwrap();
    view.get(ROWS, LAST_BATCH).unwrap().map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// Returns the model of a store after a number of batches.
pub(crate) fn model_after(seed: u64, batches: u64) -> Model {
    let mut model = Model::default();
    for operation in (1..=batches).flat_map(|batch| operations(seed, batch)) {
        model.apply(&operation);
    }
    model
}

pub(crate) fn fill(batch: &mut Batch<'_>, seed: u64, number: u64) -> store::Result<()> {
    operations(seed, number).iter().try_for_each(|operation| apply(batch, operation).map(drop))
}

/// Commits one batch, from its beginning to its acknowledgement.
pub(crate) fn commit(writer: &mut Writer, seed: u64, number: u64) -> store::Result<()> {
    let mut batch = writer.begin()?;
    fill(&mut batch, seed, number)?;
    batch.commit().map(drop)
}

/// Commits `batches` more batches, and prints the number of each batch after its commit.
pub(crate) fn write_batches(store: &Store, mut writer: Writer, seed: u64, batches: u64) {
    let from = last_batch(store) + 1;
    for number in from..from + batches {
        commit(&mut writer, seed, number).unwrap();
        println!("acknowledged {number}");
    }
}

/// Commits up to the batch `last`. Continues after batches refused because of a full disk, unless the disk's content is
/// in doubt. A refused batch must leave no trace. `make_room` is called after a refusal and may free space for the next
/// batch.
pub(crate) fn write_on_a_full_disk(
    store: &Store,
    mut writer: Writer,
    seed: u64,
    last: u64,
    make_room: impl Fn(),
) {
    let (mut number, mut refused) = (last_batch(store), 0);
    while number < last {
        match commit(&mut writer, seed, number + 1) {
            Ok(()) => number += 1,
            Err(StoreError::DiskFull { .. }) => {
                refused += 1;
                compare(&store.view().unwrap(), &model_after(seed, number));
                make_room();
            }
            Err(StoreError::WritesStopped { .. }) => return println!("stopped {number}"),
            Err(error) => panic!("{error:?}"),
        }
    }
    compare(&store.view().unwrap(), &model_after(seed, number));
    println!("refused {refused}");
}

/// Checks that the store contains all acknowledged batches, and the batch in progress completely or not at all.
pub(crate) fn assert_whole(there: u64, acknowledged: u64, about: impl Display) {
    let is_whole = there == acknowledged || there == acknowledged + 1;
    assert!(is_whole, "{about}: {acknowledged} acknowledged, {there} there");
}

/// Instructions for a process under test.
pub(crate) struct Task {
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    pub(crate) role: String,
}

/// Returns the task of this process, if it is a process under test.
pub(crate) fn task() -> Option<Task> {
    let directory = PathBuf::from(std::env::var_os(CHILD_DIRECTORY)?);
    let seed = std::env::var(CHILD_SEED).unwrap().parse().unwrap();
    Some(Task { directory, seed, role: std::env::var(CHILD_ROLE).unwrap() })
}

pub(crate) struct Trial {
    pub(crate) scratch: Scratch,
    pub(crate) seed: u64,
}

impl Trial {
    pub(crate) fn new(seed: u64) -> Trial {
        let scratch = Scratch::in_memory();
        std::fs::create_dir(scratch.path().join("data")).unwrap();
        Trial { scratch, seed }
    }

    /// Creates another trial with the same files.
    pub(crate) fn copy(&self) -> Trial {
        let copy = Trial::new(self.seed);
        for entry in std::fs::read_dir(self.data()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.data().join(entry.file_name())).unwrap();
        }
        copy
    }

    pub(crate) fn data(&self) -> PathBuf {
        // The preloaded library compares paths, so none may contain a symbolic link.
        self.scratch.path().canonicalize().unwrap().join("data")
    }

    fn journal(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join("journal")
    }

    pub(crate) fn run(&self, role: &str, plan: impl Fn(PowerCut) -> PowerCut) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["run_as_child_process", "--exact", "--nocapture"]);
        let seed = OsString::from(self.seed.to_string());
        command.env(CHILD_DIRECTORY, self.data()).env(CHILD_SEED, seed).env(CHILD_ROLE, role);
        plan(PowerCut::new(&self.data(), &self.journal())).apply(&mut command);
        command.output().unwrap()
    }

    /// If the power was cut, discards a random part of the unsynced data. Returns true if any data is lost.
    pub(crate) fn discard_lost_data(&self, output: &Output, chance: u64) -> bool {
        match output.status.code() {
            Some(powercut::EXIT_STATUS) => {
                discard_unsynced(&self.journal(), chance).unwrap().discarded_sectors > 0
            }
            // The process ended by itself, or was killed.
            Some(0) | None => false,
            Some(_) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Opens the store, compares it with the model of as many batches as the store claims to contain, and returns this
    /// number of batches.
    pub(crate) fn check(&self) -> u64 {
        let (store, mut writer) =
            retry_while_in_use(|| Store::open(&self.data(), MAPS, &Options::default())).unwrap();
        let number = last_batch(&store);
        compare(&store.view().unwrap(), &model_after(self.seed, number));
        // The store also accepts writes.
        let mut batch = writer.begin().unwrap();
        fill(&mut batch, self.seed, number + 1).unwrap();
        compare(&batch, &model_after(self.seed, number + 1));
        number
    }
}

/// Returns the number that follows `head` in the last line of a child's output that contains `head`.
pub(crate) fn reported(output: &Output, head: &str) -> Option<u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    // The test harness may have written the beginning of the line.
    let mut lines = text.lines().rev().filter_map(|line| line.split_once(head).map(|(_, rest)| rest.trim()));
    lines.next().map(|number| number.parse().unwrap())
}
