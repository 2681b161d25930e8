//! Servers that lack descriptors, memory, disk space, or a working disk.
//!
//! Changes must either continue, or stop with an ERROR line that states the cause; in that case, the exit code after
//! SIGTERM is 1. An acknowledged change must exist after a restart, whatever failed.

mod faults;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use client::Connection;
use ldap::{ChangeOperation, Scope};
use powercut::{FailKind, PowerCut};

use crate::hostile_connections::{connect_from, hostile_source};
use crate::plan::Plan;
use crate::process::{descriptors, wait_until};
use crate::report::{Finding, Report};
use test_support::pando::{Pando, Start};
use test_support::writers::{Writer, plant_suffix};
use test_support::{DEADLINE, SUFFIX, Scratch};

/// Hard limit of descriptors for a server that must run out of them.
const DESCRIPTORS: usize = 128;

/// Number of connections, each of which needs a descriptor.
const CONNECTIONS: usize = 300;

/// Number of changes without free descriptors. In total, they exceed two segments of the redo log.
const CHANGES: usize = 400;
const FILLING: usize = 12_000;

/// Maximum time until the server notices that there is disk space again.
const RECOVERY: Duration = Duration::from_secs(5);

/// Number of calls among which the failing write or sync is chosen. A server makes about that many such calls while it
/// starts and makes changes.
const CALLS_MAX: u64 = 300;

/// Number of acknowledgements after which a trial ends even if the failure did not occur.
const ACKNOWLEDGEMENTS: usize = 400;

/// Number of servers that are attacked concurrently.
const AT_A_TIME: usize = 6;

/// System errors: name and number on Linux.
const ERRORS: [(&str, i32); 6] =
    [("EIO", 5), ("ENOSPC", 28), ("ENOMEM", 12), ("EMFILE", 24), ("ENFILE", 23), ("EDQUOT", 122)];

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    report.attack("resources/descriptors", descriptors_used_up);
    report.attack("resources/failing-writes", || failing(plan, "writes", FailKind::Write));
    report.attack("resources/failing-syncs", || failing(plan, "syncs", FailKind::Sync));
    report.attack("resources/faults", || faults::every_thread_and_call(plan));
}

/// Opens connections up to the hard limit, then makes durable changes.
fn descriptors_used_up() -> Finding {
    let scratch = Scratch::new("assault-descriptors");
    let pando = Start::new(&scratch).open_files_max(DESCRIPTORS as u64).ready();
    let mut admin = pando.administrator();
    plant_suffix(&mut admin);
    let connect = |index| {
        let mut connection = Connection::over_tcp(connect_from(hostile_source(index), pando.address())?)?;
        connection.set_timeout(Duration::from_millis(300))?;
        // A connection in the kernel's queue may not be accepted yet. A connection that receives an answer is accepted.
        connection.entry("", &["1.1"]).map(|_| connection)
    };
    let mut accepted = Vec::new();
    let mut refused = 0;
    for index in 0..CONNECTIONS {
        match connect(index) {
            Ok(connection) => accepted.push(connection),
            Err(_) => refused += 1,
        }
        // Some connections are refused only because others have not been closed yet, so continue until several are
        // refused.
        if refused > 4 {
            break;
        }
    }
    let used = descriptors(pando.id());
    let filling = "x".repeat(FILLING);
    let mut acknowledged = 0;
    let mut refusal = None;
    for number in 0..CHANGES {
        let attributes = [("objectClass", "device"), ("description", &filling[..])];
        let outcome = admin.add(&format!("cn={number},{SUFFIX}"), &attributes).unwrap();
        if !outcome.is_success() {
            refusal = Some(outcome);
            break;
        }
        acknowledged += 1;
    }
    let accepted_count = accepted.len();
    drop(accepted);
    let again = wait_until(RECOVERY, || connect(CONNECTIONS).is_ok());
    let warned = pando.log().contains("connections instead of");
    pando.kill();
    let pando = Start::new(&scratch).ready();
    let there = count(&mut pando.administrator());
    let changes = match refusal {
        None => format!("{acknowledged} of {CHANGES} changes acknowledged"),
        Some(outcome) => format!("change {acknowledged} refused: {} {}", outcome.code, outcome.diagnostic),
    };
    Finding::of(format!(
        "{accepted_count} connections on a server with {DESCRIPTORS} descriptors, {used} in use, then {CHANGES} \
         changes of {FILLING} octets"
    ))
    .bounded(acknowledged == CHANGES, changes, "all")
    .bounded(there >= acknowledged, format!("{there} there after kill -9"), "all that were acknowledged")
    .bounded(again, "a connection when those are gone", format!("within {} s", RECOVERY.as_secs()))
    .bounded(warned, "a line in the log says how many connections there can be", "there is one")
}

fn count(admin: &mut Connection) -> usize {
    admin.search(SUFFIX, Scope::SingleLevel, "(objectClass=device)", &["1.1"]).unwrap().entries.len()
}

/// Outcomes of the servers.
#[derive(Debug, Default)]
struct Tally {
    /// Number of servers that did not start, and reported the reason.
    not_started: usize,
    /// Number of servers whose changes continued, or that never made the call that should fail.
    went_on: usize,
    /// Number of servers whose changes stopped.
    stopped: usize,
    /// Number of servers that are known to have made the call that should fail.
    came: usize,
    complaints: Vec<String>,
}

/// Attacks one server for each trial. Several trials run concurrently, because each trial mostly waits. A panic is
/// recorded as a fault.
fn each_in_turn<T: Sync>(
    trials: &[T],
    name: impl Fn(&T) -> String + Sync,
    attack: impl Fn(&T) -> Tally + Sync,
) -> Tally {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || {
        while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
            let tally = catch_unwind(AssertUnwindSafe(|| attack(trial))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                let line = text.lines().collect::<Vec<_>>().join(" | ");
                Tally { complaints: vec![line], ..Tally::default() }
            });
            let mut all = all.lock().unwrap();
            all.not_started += tally.not_started;
            all.went_on += tally.went_on;
            all.stopped += tally.stopped;
            all.came += tally.came;
            let complaints = tally.complaints.into_iter();
            all.complaints.extend(complaints.map(|complaint| format!("{}: {complaint}", name(trial))));
        }
    };
    std::thread::scope(|scope| (0..AT_A_TIME).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().unwrap()
}

/// Makes one random write or sync of a server fail. The trials use the errors in turn.
fn failing(plan: &Plan, name: &str, kind: FailKind) -> Finding {
    let mut random = plan.random(&format!("resources/failing-{name}"));
    let trials: Vec<_> = (0..plan.count(12, 150))
        .map(|trial| (ERRORS[trial % ERRORS.len()], random.u64(1..CALLS_MAX), random.u64(..)))
        .collect();
    let name_of = |((error, _), call, _): &_| format!("{error} at call {call}");
    let Tally { not_started, went_on, stopped, complaints, .. } =
        each_in_turn(&trials, name_of, |((_, number), call, seed)| fail_once((kind, *call, *number), *seed));
    let done = format!(
        "{} servers of which one of the {name} fails: {not_started} refuse to start, {went_on} go on, {stopped} stop \
         changes",
        trials.len()
    );
    let finding = Finding::of(done).bounded(
        complaints.is_empty(),
        format!("{} acknowledged wrongly or stopped without an ERROR line and exit code 1", complaints.len()),
        "0",
    );
    complaints.into_iter().fold(finding, Finding::noted)
}

fn fail_once(failure: (FailKind, u64, i32), seed: u64) -> Tally {
    let mut tally = Tally::default();
    let scratch = Scratch::new("assault-failing");
    let mut writer = Writer::new("w", seed);
    {
        let pando = Start::new(&scratch).ready();
        let mut admin = pando.administrator();
        plant_suffix(&mut admin);
        writer.plant(&mut admin);
        assert!(pando.stop().success());
    }
    let data = Pando::data(&scratch).canonicalize().unwrap();
    let power = PowerCut::new(&data, &scratch.join("journal")).fail_at(failure.0, failure.1, failure.2);
    match Start::new(&scratch).with(&power).ready_or_ended() {
        Err((status, _)) => {
            tally.not_started += 1;
            if status.code().is_none_or(|code| code == 0) {
                tally.complaints.push(format!("the start ended with {status}"));
            }
        }
        Ok(pando) => write_and_stop(pando, &mut writer, &mut tally),
    }
    let pando = Start::new(&scratch).ready();
    writer.check_with_refused(&mut pando.administrator());
    tally
}

/// Writes until a change is refused or enough changes are acknowledged, and then stops the server. If changes stopped,
/// the server must have reported that.
fn write_and_stop(pando: Pando, writer: &mut Writer, tally: &mut Tally) {
    let address = pando.address();
    let (sender, receiver) = mpsc::channel();
    let refusal = std::thread::scope(|scope| {
        // The channel closes when the writer ends, which it does after its first refusal.
        let writing = scope.spawn(move || writer.write_until_refused(address, &sender));
        let _ = (0..ACKNOWLEDGEMENTS).take_while(|_| receiver.recv_timeout(DEADLINE).is_ok()).count();
        drop(receiver);
        writing.join().unwrap()
    });
    let mut admin = pando.administrator();
    let again = admin.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &["again"])]).unwrap();
    let log_file = pando.log();
    let status = pando.stop();
    if again.is_success() {
        tally.went_on += 1;
        return;
    }
    tally.stopped += 1;
    if !log_file.contains("ERROR") {
        tally.complaints.push(format!("changes stopped ({again:?}, first {refusal:?}) and no ERROR line"));
    }
    if status.code() != Some(1) {
        tally.complaints.push(format!("changes had stopped, and it ends with {status}"));
    }
}
