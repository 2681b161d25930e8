//! Faults of the server are reported to its operator and not only to the affected client: in the log, to the service
//! manager, below `cn=monitor`, and by the exit code. Faults are injected into the real binary; most occur while the
//! file `on` exists.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Instant;

use client::{Connection, Outcome};
use ldap::{ChangeOperation, ResultCode, Scope};
use powercut::{Fault, FaultCall};
use test_support::cluster::until;
use test_support::metrics;
use test_support::pando::Start;
use test_support::tree::plant;
use test_support::{DEADLINE, Pando, SUFFIX, Scratch};

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EMFILE: i32 = 24;

/// Beginning of the log line when the server stops accepting changes.
const STOPPED: &str = "ERROR no more changes until a restart, reading goes on: ";
/// Number of searches that find damage: more than the log reports.
const FLOOD: usize = 200;

struct Trial {
    scratch: Scratch,
    manager: UnixDatagram,
}

impl Trial {
    fn new(name: &str) -> Trial {
        let scratch = Scratch::new(name);
        let manager = UnixDatagram::bind(scratch.join("notify")).unwrap();
        manager.set_read_timeout(Some(DEADLINE)).unwrap();
        Trial { scratch, manager }
    }

    fn switch(&self) -> PathBuf {
        self.scratch.join("on")
    }

    fn switch_on(&self) {
        std::fs::write(self.switch(), b"").unwrap();
    }

    /// Starts a server with the sample tree. The fault occurs while the switch is on.
    fn start(&self, fault: Fault) -> (Pando, Connection) {
        let faults = [fault.only_while(&self.switch())];
        let node = self.scratch.write("node.toml", metrics::NODE_FILE);
        let start = Start::new(&self.scratch)
            .arguments(&["--node", node.to_str().unwrap()])
            .environment("NOTIFY_SOCKET", self.scratch.join("notify"));
        let pando = start.with_faults(&faults, &self.scratch.join("faults")).ready();
        let mut admin = pando.administrator();
        plant(&mut admin);
        (pando, admin)
    }

    /// Waits until the service manager receives a certain state.
    fn wait_for(&self, what: &str) -> String {
        loop {
            let mut bytes = [0; 4_096];
            let length = self.manager.recv(&mut bytes).expect(what);
            let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if said.contains(what) {
                return said;
            }
        }
    }

    fn fault_count(&self) -> usize {
        std::fs::read_to_string(self.scratch.join("faults")).unwrap_or_default().lines().count()
    }
}

fn describe(connection: &mut Connection, text: &str) -> Outcome {
    connection.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &[text])]).unwrap()
}

fn code_of(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

/// Checks that the server serves only reads, and that this is reported in every place.
fn check_stopped(trial: &Trial, pando: Pando, mut admin: Connection, cause: &str) {
    let heard = trial.wait_for("STATUS=reading only");
    assert!(heard.contains(cause), "{heard}");
    let log = pando.log();
    assert_eq!(log.matches(STOPPED).count(), 1, "logged once: {log}");
    let line = log.lines().find(|line| line.contains(STOPPED)).unwrap();
    assert!(line.contains(cause) && line.contains("restart the server"), "{line}");
    let outcome = describe(&mut admin, "afterwards");
    assert_eq!(outcome.code, ResultCode::UNWILLING_TO_PERFORM, "{outcome:?}");
    assert!(admin.entry(SUFFIX, &["dc"]).unwrap().is_some(), "reads are still answered");
    let monitored = admin.entry("cn=Writes Stopped Cause,cn=Log,cn=monitor", &["monitoredInfo"]).unwrap();
    let monitored = monitored.unwrap().text("monitoredInfo").unwrap();
    assert!(monitored.contains(cause), "{monitored}");
    metrics::expect_not_ready_now(&pando, cause);
    let (status, text) = metrics::page(&pando, "/ready/read");
    assert!(status == 200 && text.contains("for reads only") && text.contains(cause), "{text}");
    assert_eq!(code_of(pando.stop()), 1);
    let log = std::fs::read_to_string(trial.scratch.join("pando.log")).unwrap();
    assert!(log.contains("ERROR stopped error=changes were stopped: "), "{log}");
    assert!(log.contains("pando: changes were stopped: "), "{log}");
    std::fs::remove_file(trial.switch()).unwrap();
    let node = trial.scratch.join("node.toml");
    let pando = Start::new(&trial.scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
    metrics::wait_for_ready(&pando, 200);
    let outcome = describe(&mut pando.administrator(), "again");
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(code_of(pando.stop()), 0);
}

/// Regression test: after a failed checkpoint, all changes were refused, but the log had no line about it, and SIGTERM
/// ended the server with exit code 0.
#[test]
fn a_failed_checkpoint_is_reported_without_a_request() {
    let trial = Trial::new("fold-eio");
    let (pando, mut admin) =
        trial.start(Fault::new(FaultCall::Sync, EIO).path("*/data.mdb").thread("store-fold"));
    trial.switch_on();
    let outcome = describe(&mut admin, "to be checkpointed");
    assert!(outcome.is_success(), "{outcome:?}");
    check_stopped(&trial, pando, admin, "mdb_txn_commit: Input/output error");
}

#[test]
fn a_hanging_event_loop_is_not_ready_within_five_seconds() {
    let trial = Trial::new("loop-hangs");
    let (pando, _admin) = trial.start(Fault::new(FaultCall::Wait, EINTR).thread("pando-loop-0"));
    assert_eq!(metrics::page(&pando, "/ready").0, 200);
    trial.switch_on();
    // The next health probe wakes the loop. The loop's next wait then fails.
    until("the loop hangs", || (trial.fault_count() > 0).then_some(()));
    metrics::expect_not_ready(&pando, Instant::now(), "event loop 0 has not answered for");
    assert_eq!(metrics::page(&pando, "/ready/read").0, 503);
    assert_eq!(metrics::page(&pando, "/live").0, 200);
    std::fs::remove_file(trial.switch()).unwrap();
    metrics::wait_for_ready(&pando, 200);
    assert_eq!(code_of(pando.stop()), 0);
}

#[test]
fn a_failed_commit_stops_changes_and_is_reported() {
    let trial = Trial::new("sync-eio");
    let (pando, mut admin) =
        trial.start(Fault::new(FaultCall::Sync, EIO).path("*/redo-*").thread("pando-writer"));
    trial.switch_on();
    let outcome = describe(&mut admin, "not to be synced");
    assert_eq!(outcome.code, ResultCode::UNWILLING_TO_PERFORM, "{outcome:?}");
    check_stopped(&trial, pando, admin, "sync the redo log: Input/output error");
}

#[test]
fn changes_are_refused_while_no_descriptor_is_free() {
    let trial = Trial::new("segment-emfile");
    let (pando, mut admin) = trial.start(Fault::new(FaultCall::Open, EMFILE).path("*/redo-*"));
    trial.switch_on();
    let text = |number: u32| format!("{number:08}").repeat(10_000);
    let refused = (0..100).map(|n| describe(&mut admin, &text(n))).find(|outcome| !outcome.is_success());
    let refused = refused.expect("a change that needs a segment");
    assert_eq!(refused.code, ResultCode::BUSY, "{refused:?}");
    assert!(refused.diagnostic.contains("try again"), "{refused:?}");
    assert_eq!(describe(&mut admin, &text(100)).code, ResultCode::BUSY);
    let log = pando.log();
    let line = log.lines().find(|line| line.contains("modify failed with busy")).expect("a line in the log");
    assert!(line.contains(" WARN conn=") && line.contains("Too many open files"), "{line}");
    assert_eq!(log.matches("failed with busy").count(), 1, "not for every change: {log}");
    std::fs::remove_file(trial.switch()).unwrap();
    for number in 200..300 {
        let outcome = describe(&mut admin, &text(number));
        assert!(outcome.is_success(), "{outcome:?}");
    }
    assert!(trial.fault_count() >= 2);
    assert_eq!(code_of(pando.stop()), 0);
}

#[test]
fn a_password_hash_that_fails_without_random_numbers_is_logged() {
    let trial = Trial::new("no-random");
    let (pando, mut admin) = trial.start(Fault::new(FaultCall::Random, EIO).thread("pando-*"));
    // The hash threads have a stock of random numbers, so the fault shows only after some hashes.
    trial.switch_on();
    let mut hash = || {
        let changes = [(ChangeOperation::Replace, "userPassword", &["fresh-and-secret"][..])];
        admin.modify("uid=anna,ou=people,dc=example,dc=com", &changes).unwrap()
    };
    let refused = (0..10_000).map(|_| hash()).find(|outcome| !outcome.is_success());
    println!("{refused:?}, {} faults", trial.fault_count());
    let refused = refused.expect("random numbers run out");
    assert!([ResultCode::OTHER, ResultCode::UNAVAILABLE].contains(&refused.code), "{refused:?}");
    let log = pando.log();
    assert!(log.contains("modify failed with ") && log.contains(&refused.diagnostic), "{log}");
    assert!(!log.contains("fresh-and-secret"), "{log}");
}

/// Overwrites `length` octets before each occurrence of `text` in the file.
fn damage_before(file: &Path, text: &[u8], length: usize) -> usize {
    let mut bytes = std::fs::read(file).unwrap();
    let places: Vec<usize> =
        bytes.windows(text.len()).enumerate().filter(|(_, found)| *found == text).map(|(at, _)| at).collect();
    for at in &places {
        bytes[at - length..*at].fill(0xFF);
    }
    std::fs::write(file, bytes).unwrap();
    places.len()
}

/// Regression test: searches that met damage were answered with *other*. The documentation refers to the log, but the
/// log had no line about them.
#[test]
fn damage_that_a_search_finds_is_logged_a_limited_number_of_times() {
    let scratch = Scratch::new("damaged-row");
    let marker = "a description that is in one entry only".repeat(4);
    {
        let pando = Pando::start(&scratch);
        let mut admin = pando.administrator();
        plant(&mut admin);
        assert!(describe(&mut admin, &marker).is_success());
        assert!(pando.stop().success());
    }
    let places = damage_before(&Pando::data(&scratch).join("data.mdb"), marker.as_bytes(), 6);
    assert!(places > 0, "the entry is in the data file");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    let mut ask = |scope, filter| admin.search(SUFFIX, scope, filter, &["*"]).unwrap();
    for _ in 0..FLOOD {
        let found = ask(Scope::BaseObject, "(objectClass=*)");
        assert_eq!(found.outcome.code, ResultCode::OTHER, "{found:?}");
    }
    assert_eq!(ask(Scope::WholeSubtree, "(uid=anna)").entries.len(), 1, "others are found");
    let log = pando.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("search failed with other")).collect();
    assert!(!lines.is_empty() && lines.len() <= 4, "{log}");
    assert!(lines[0].contains("ERROR conn=") && lines[0].contains("pando verify"), "{log}");
    assert!(!log.contains(&marker), "values are not in the log");
    pando.stop();
}

#[test]
fn a_start_without_threads_or_descriptors_fails_and_spares_the_data() {
    for fault in [
        Fault::new(FaultCall::Thread, EAGAIN),
        Fault::new(FaultCall::Thread, EAGAIN).from(4),
        Fault::new(FaultCall::Open, EMFILE).path("*/redo-*"),
        Fault::new(FaultCall::Open, EMFILE).path("*/data.mdb"),
    ] {
        let scratch = Scratch::new("start-fault");
        let log = scratch.join("faults");
        let (status, said) = Start::new(&scratch).with_faults(std::slice::from_ref(&fault), &log).refused();
        assert_eq!(code_of(status), 1, "{fault}: {said}");
        assert!(said.lines().any(|line| line.starts_with("pando: ")), "{fault}: {said}");
        // The data is intact, so a start without the fault succeeds.
        assert_eq!(code_of(Pando::start(&scratch).stop()), 0);
    }
}
