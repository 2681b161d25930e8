//! Tests of faults. Some faults stop writes, such as failed writes and syncs. A temporary lack of descriptors or memory
//! before a group is written does not stop writes.
//!
//! The process under test is this binary again, with [`SCRIPT`] set to the name of a script. Faults occur while the
//! file `on` exists.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use powercut::{Fault, FaultCall, inject_logged};
use scratch::{MAPS, ROWS, Scratch};
use store::{Event, Observer, Options, Store, StoreError, Writer};

const SCRIPT: &str = "STORE_FAULTS_SCRIPT";
const FOLDER: &str = "STORE_FAULTS_FOLDER";
/// Time limit, longer than any test takes.
const DEADLINE: Duration = Duration::from_secs(60);
/// Rows of this size fill the first segment of the redo log, of 256 KiB, after a few dozen commits.
const VALUE_LEN: usize = 8_000;

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// Observer that records the events that it receives.
#[derive(Debug, Default)]
struct EventRecorder {
    events: Mutex<Vec<String>>,
    changed: Condvar,
}

impl Observer for EventRecorder {
    fn notice(&self, event: &Event<'_>) {
        self.events.lock().unwrap().push(format!("{event:?}"));
        self.changed.notify_all();
    }
}

impl EventRecorder {
    /// Waits until an event beginning with `what` was received, and returns it.
    fn wait_for(&self, what: &str) -> String {
        let mut events = self.events.lock().unwrap();
        loop {
            if let Some(event) = events.iter().find(|event| event.starts_with(what)) {
                return event.clone();
            }
            let (guard, waited) = self.changed.wait_timeout(events, DEADLINE).unwrap();
            assert!(!waited.timed_out(), "no {what}: {guard:?}");
            events = guard;
        }
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

struct Script {
    folder: PathBuf,
    recorder: Arc<EventRecorder>,
    store: Store,
    writer: Writer,
    /// Keys of rows that were acknowledged.
    acknowledged: Vec<u32>,
    next: u32,
}

impl Script {
    fn open(folder: &Path) -> Script {
        let recorder = Arc::new(EventRecorder::default());
        let observer: Option<Arc<dyn Observer>> = Some(Arc::clone(&recorder) as Arc<dyn Observer>);
        let options = Options { observer, ..Options::default() };
        let (store, writer) = Store::open(&folder.join("data"), MAPS, &options).unwrap();
        Script { folder: folder.to_owned(), recorder, store, writer, acknowledged: Vec::new(), next: 0 }
    }

    fn faults(&self, on: bool) {
        let file = self.folder.join("on");
        if on { fs::write(file, b"").unwrap() } else { fs::remove_file(file).unwrap() }
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let mut batch = self.writer.begin()?;
        self.next += 1;
        batch.put(ROWS, &self.next.to_be_bytes(), &[7; VALUE_LEN])?;
        batch.commit()?;
        self.acknowledged.push(self.next);
        Ok(())
    }

    /// Commits until a commit fails, and returns its error.
    fn commit_until_refused(&mut self) -> StoreError {
        (0..10_000).find_map(|_| self.commit().err()).expect("a commit that fails")
    }

    /// Checks that exactly the acknowledged rows exist. If `reopens` is true, also checks this after opening the store
    /// again.
    fn check(self, reopens: bool) {
        let Script { folder, store, writer, acknowledged, next, .. } = self;
        let check = |store: &Store| {
            let view = store.view().unwrap();
            for key in 1..=next {
                let is_there = view.get(ROWS, &key.to_be_bytes()).unwrap().is_some();
                assert_eq!(is_there, acknowledged.contains(&key), "row {key}");
            }
        };
        check(&store);
        drop((store, writer));
        if reopens {
            check(&Store::open(&folder.join("data"), MAPS, &Options::default()).unwrap().0);
        }
    }
}

/// Runs as the process under test. Otherwise does nothing.
#[test]
fn run_script_as_child_process() {
    let (Ok(name), Some(folder)) = (std::env::var(SCRIPT), std::env::var_os(FOLDER)) else { return };
    let mut script = Script::open(Path::new(&folder));
    script.commit().unwrap();
    script.faults(true);
    match name.as_str() {
        "passes" => {
            let error = script.commit_until_refused();
            assert!(matches!(error, StoreError::Exhausted { .. }), "{error:?}");
            assert!(matches!(script.commit(), Err(StoreError::Exhausted { .. })), "again");
            let stopped = script.store.facts().unwrap().writes_stopped;
            script.faults(false);
            assert!(!stopped);
            (0..100).for_each(|_| script.commit().unwrap());
            assert!(script.recorder.events().iter().all(|event| !event.contains("WritesStopped")));
            script.check(true);
        }
        "stops" => {
            let error = script.commit_until_refused();
            script.faults(false);
            assert!(matches!(error, StoreError::WritesStopped { .. }), "{error:?}");
            assert!(matches!(script.commit(), Err(StoreError::WritesStopped { .. })), "writes stay stopped");
            let stopped = script.recorder.wait_for("WritesStopped");
            assert!(stopped.contains("redo log") || stopped.contains("is full"), "{stopped}");
            assert_eq!(script.recorder.events().len(), 1, "reported once: {:?}", script.recorder.events());
            script.check(false);
        }
        "checkpoint stops" => {
            // The event arrives without any further request.
            let stopped = script.recorder.wait_for("WritesStopped");
            script.faults(false);
            assert!(stopped.contains("mdb_txn_commit"), "{stopped}");
            assert!(script.store.facts().unwrap().writes_stopped);
            assert!(matches!(script.commit(), Err(StoreError::WritesStopped { .. })));
            script.check(true);
        }
        "checkpoint waits" => {
            let failed = script.recorder.wait_for("CheckpointFailed");
            script.commit().unwrap();
            script.faults(false);
            script.recorder.wait_for("CheckpointRecovered");
            assert!(failed.contains("DiskFull"), "{failed}");
            script.commit().unwrap();
            script.check(true);
        }
        other => panic!("no script {other}"),
    }
}

/// Runs a script with a fault. Returns the number of times that the fault occurred.
#[track_caller]
fn run(script: &str, fault: Fault) -> usize {
    let scratch = Scratch::new();
    let log = scratch.path().join("faults.log");
    let fault = fault.only_while(&scratch.path().join("on"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["run_script_as_child_process", "--exact", "--nocapture"]).stdin(Stdio::null());
    command.env(SCRIPT, script).env(FOLDER, scratch.path());
    inject_logged(&mut command, std::slice::from_ref(&fault), &log);
    let output = command.output().unwrap();
    let reported =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} with {fault}:\n{reported}");
    let count = fs::read_to_string(&log).unwrap_or_default().lines().count();
    assert!(count > 0, "{script}: {fault} never occurred");
    count
}

/// Symptom: connections used all descriptors when the redo log needed its next segment. After that no change was
/// accepted until a restart, although nothing had been written. Cause: every error of creating a segment, except a full
/// disk, stopped writes.
#[test]
fn a_resource_shortage_for_a_new_segment_refuses_only_the_batch() {
    for errno in [EMFILE, ENFILE, ENOMEM] {
        run("passes", Fault::new(FaultCall::Open, errno).path("*/redo-*"));
    }
    // An error other than a shortage of resources stops writes, because another attempt would fail in the same way.
    run("stops", Fault::new(FaultCall::Open, EIO).path("*/redo-*"));
}

/// Any failed write or sync of a group stops writes. A second attempt could acknowledge pages that the kernel has
/// dropped.
#[test]
fn any_failed_write_or_sync_of_a_group_stops_writes() {
    for errno in [EIO, ENOMEM, EMFILE, ENFILE, EAGAIN] {
        let group = |call| Fault::new(call, errno).path("*/redo-*").times(1);
        assert_eq!(run("stops", group(FaultCall::Sync)), 1, "{errno}");
        assert_eq!(run("stops", group(FaultCall::Write)), 1, "{errno}");
    }
    // A sync that reports a full disk has dropped pages like any other failed sync.
    run("stops", Fault::new(FaultCall::Sync, ENOSPC).path("*/redo-*").times(1));
}

#[test]
fn a_failed_write_or_sync_of_a_new_segment_stops_writes() {
    for call in [FaultCall::Sync, FaultCall::Write] {
        for errno in [EIO, ENOMEM] {
            run("stops", Fault::new(call, errno).path("*/redo-*2").times(1));
        }
    }
}

/// Symptom: changes were refused, and the server's log did not say why. Cause: the checkpoint had failed on the
/// checkpointer's thread, and only the next client received the error.
#[test]
fn reports_a_failed_checkpoint_at_once() {
    let data_file = |call, errno| Fault::new(call, errno).path("*/data.mdb").thread("store-fold");
    let syncs =
        [EIO, ENOMEM, EINTR].map(|errno| ("checkpoint stops", data_file(FaultCall::Sync, errno).times(1)));
    let write = ("checkpoint stops", data_file(FaultCall::Write, EIO).times(1));
    let full = ("checkpoint waits", data_file(FaultCall::Write, ENOSPC));
    // Each run waits for a checkpoint, so run all of them in parallel.
    std::thread::scope(|scope| {
        for (script, fault) in syncs.into_iter().chain([write, full]) {
            scope.spawn(move || run(script, fault));
        }
    });
}
