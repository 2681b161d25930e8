//! Faults of system calls for a limited time, for each thread and each kind of call. Such failures occur on a machine
//! without descriptors, memory or disk space, or with a bad disk.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use client::Connection;
use ldap::{ChangeOperation, Scope};
use powercut::{Fault, FaultCall};

use super::{Tally, each_in_turn};
use crate::plan::Plan;
use crate::process::wait_until;
use crate::report::Finding;
use test_support::pando::{Pando, Start};
use test_support::writers::{Writer, plant_suffix};
use test_support::{SUFFIX, Scratch};

const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Expected behavior of the server after the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedBehavior {
    /// Changes must continue, because nothing of a group had been written when the call failed.
    GoesOn,
    /// Changes must stop with an error message, because the state of the disk is unknown.
    Stops,
    /// Changes may continue or stop.
    Either,
}

/// File calls of a thread, and the errors with which they fail in turn.
struct Case {
    call: FaultCall,
    /// Pattern for the name of the thread, as in [`Fault`].
    thread: &'static str,
    path: &'static str,
    errors: &'static [i32],
    wanted: ExpectedBehavior,
}

const CASES: &[Case] = &[
    // The writer needs another segment of the redo log. Nothing of the group has been written yet.
    Case {
        call: FaultCall::Open,
        thread: "pando-writer",
        path: "*/redo-*",
        errors: &[EMFILE, ENFILE, ENOMEM, ENOSPC],
        wanted: ExpectedBehavior::GoesOn,
    },
    Case {
        call: FaultCall::Open,
        thread: "pando-writer",
        path: "*/redo-*",
        errors: &[EIO],
        wanted: ExpectedBehavior::Either,
    },
    // The write of a group fails. After an error, the state of the kernel's pages is unknown.
    Case {
        call: FaultCall::Sync,
        thread: "pando-writer",
        path: "*/redo-*",
        errors: &[EIO, ENOSPC, ENOMEM, EDQUOT],
        wanted: ExpectedBehavior::Stops,
    },
    Case {
        call: FaultCall::Write,
        thread: "pando-writer",
        path: "*/redo-*",
        errors: &[EIO, ENOSPC, EDQUOT],
        wanted: ExpectedBehavior::Either,
    },
    // A checkpoint of the redo log into the data file fails.
    Case {
        call: FaultCall::Write,
        thread: "store-fold",
        path: "*/data.mdb",
        errors: &[EIO, ENOSPC],
        wanted: ExpectedBehavior::Either,
    },
    Case {
        call: FaultCall::Sync,
        thread: "store-fold",
        path: "*",
        errors: &[EIO, ENOMEM],
        wanted: ExpectedBehavior::Either,
    },
    Case {
        call: FaultCall::Rename,
        thread: "*",
        path: "*",
        errors: &[EIO, ENOSPC],
        wanted: ExpectedBehavior::Either,
    },
    // The system cannot create a thread, or has no descriptors or memory for the threads that serve clients.
    Case {
        call: FaultCall::Accept,
        thread: "*",
        path: "*",
        errors: &[EMFILE, ENFILE, ENOMEM],
        wanted: ExpectedBehavior::GoesOn,
    },
    Case {
        call: FaultCall::Thread,
        thread: "*",
        path: "*",
        errors: &[EAGAIN],
        wanted: ExpectedBehavior::GoesOn,
    },
    Case {
        call: FaultCall::Random,
        thread: "pando-*",
        path: "*",
        errors: &[EIO],
        wanted: ExpectedBehavior::GoesOn,
    },
    Case {
        call: FaultCall::Open,
        thread: "*",
        path: "*",
        errors: &[EMFILE, ENFILE, ENOMEM],
        wanted: ExpectedBehavior::GoesOn,
    },
    Case {
        call: FaultCall::Mmap,
        thread: "*",
        path: "*/data.mdb",
        errors: &[ENOMEM],
        wanted: ExpectedBehavior::GoesOn,
    },
];

/// Duration of a fault. Long enough for a checkpoint, which runs every two seconds.
const FAULT: Duration = Duration::from_millis(2_600);

/// Maximum time until the server continues after the fault.
const RECOVERY: Duration = Duration::from_secs(10);

/// Size in octets of some changes, so large that the redo log needs new segments.
const FILLING: usize = 12_000;

/// Runs each case with each of its errors, on its own server.
pub(super) fn every_thread_and_call(plan: &Plan) -> Finding {
    let mut trials: Vec<(&Case, i32)> = Vec::new();
    for case in CASES {
        // The quick run uses only the first error of each case.
        let errors = if plan.is_quick() { &case.errors[..1] } else { case.errors };
        trials.extend(errors.iter().map(|error| (case, *error)));
    }
    let seed = plan.random("resources/faults").u64(..);
    let name_of = |(case, error): &(&Case, i32)| {
        format!("{:?} of {} on {}, error {error}", case.call, case.thread, case.path)
    };
    let Tally { came, went_on, stopped, complaints, .. } =
        each_in_turn(&trials, name_of, |(case, error)| attack(case, *error, seed));
    let done = format!(
        "{} servers of which calls fail for {:.1} s, by thread, call and error ({came} came to such a call): {went_on} \
         go on, {stopped} stop changes",
        trials.len(),
        FAULT.as_secs_f64()
    );
    let finding = Finding::of(done).bounded(
        complaints.is_empty() && came > 0,
        format!("{} false acknowledgements, silent stops, or needless stops", complaints.len()),
        "0",
    );
    complaints.into_iter().fold(finding, Finding::noted)
}

fn attack(case: &Case, error: i32, seed: u64) -> Tally {
    let scratch = Scratch::new("assault-faults");
    let (switch, log) = (scratch.join("on"), scratch.join("faults.log"));
    let fault = Fault::new(case.call, error).thread(case.thread).path(case.path).only_while(&switch);
    let pando = Start::new(&scratch).with_faults(&[fault], &log).ready();
    let mut writer = Writer::new("w", seed);
    let mut admin = pando.administrator();
    plant_suffix(&mut admin);
    writer.plant(&mut admin);
    let mut bulk = pando.administrator();
    let acknowledged = write_meanwhile(&pando, &mut writer, &mut bulk, &switch);
    // The fault is over. Reads must have continued; changes may have stopped.
    assert!(admin.entry(SUFFIX, &["dc"]).unwrap().is_some(), "reads go on");
    let mut last = None;
    let goes_on = wait_until(RECOVERY, || {
        let outcome = admin.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &["again"])]).unwrap();
        let is_done = outcome.is_success();
        last = Some(outcome);
        // If changes have stopped until a restart, do not wait any longer.
        is_done || last.as_ref().is_some_and(|outcome| outcome.diagnostic.contains("restart"))
    }) && last.as_ref().is_some_and(client::Outcome::is_success);
    let (log_text, came) = (pando.log(), fs::read_to_string(&log).is_ok_and(|log| !log.is_empty()));
    let status = pando.stop();
    let mut complaints = Vec::new();
    match (goes_on, case.wanted) {
        (true, ExpectedBehavior::Stops) if came => {
            complaints.push("changes go on, and they must not".to_owned())
        }
        (false, ExpectedBehavior::GoesOn) => complaints.push(format!("changes have stopped: {last:?}")),
        _ => {}
    }
    if !goes_on && !log_text.contains("ERROR") {
        complaints.push(format!("changes have stopped without an ERROR line: {last:?}"));
    }
    if !goes_on && status.code() != Some(1) {
        complaints.push(format!("changes had stopped, and it ends with {status}"));
    }
    let pando = Start::new(&scratch).ready();
    let mut admin = pando.administrator();
    writer.check_with_refused(&mut admin);
    let there = there(&mut admin);
    if let Some(lost) = acknowledged.iter().find(|name| !there.contains(*name)) {
        complaints.push(format!("{lost} was acknowledged and is not there"));
    }
    let (came, went_on, stopped) = (usize::from(came), usize::from(goes_on), usize::from(!goes_on));
    Tally { came, went_on, stopped, complaints, ..Tally::default() }
}

/// Makes changes during the fault, and searches on new connections. Returns the names of large entries that were
/// acknowledged.
fn write_meanwhile(pando: &Pando, writer: &mut Writer, bulk: &mut Connection, switch: &Path) -> Vec<String> {
    let address = pando.address();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_until_refused(address, &sender));
        // The writer is bound and working when the fault begins.
        receiver.recv_timeout(test_support::DEADLINE).unwrap();
        fs::write(switch, "").unwrap();
        let started = Instant::now();
        let (filling, mut acknowledged) = ("x".repeat(FILLING), Vec::new());
        // Each entry has a new name, because a refused entry may exist.
        for number in 0.. {
            if started.elapsed() > FAULT {
                break;
            }
            let name = format!("large-{number}");
            let attributes = [("objectClass", "device"), ("description", &filling[..])];
            match bulk.add(&format!("cn={name},{SUFFIX}"), &attributes).unwrap() {
                outcome if outcome.is_success() => acknowledged.push(name),
                // Changes are refused during the fault, or have stopped. The other requests of this loop are still
                // sent.
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
            // A new client may have to wait, but must be served.
            if let Ok(mut other) = Connection::open(address) {
                let _ = other.set_timeout(Duration::from_millis(50));
                let _ = other.search(SUFFIX, Scope::WholeSubtree, "(cn=*arge*)", &["1.1"]);
            }
            while receiver.try_recv().is_ok() {}
        }
        fs::remove_file(switch).unwrap();
        drop(receiver);
        acknowledged
    })
}

fn there(admin: &mut Connection) -> Vec<String> {
    let reply = admin.search(SUFFIX, Scope::SingleLevel, "(objectClass=device)", &["cn"]).unwrap();
    assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    reply.entries.iter().filter_map(|entry| entry.text("cn")).collect()
}
