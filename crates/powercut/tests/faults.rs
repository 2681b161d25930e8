//! Faults by rules: matching calls fail, as often as requested, and no other call fails.
//!
//! The process under test is this binary again, with [`SCRIPT`] set.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use powercut::{Fault, FaultCall, inject_logged};

const SCRIPT: &str = "POWERCUT_TEST_FAULTS";
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// Runs as the process under test. Otherwise does nothing.
#[test]
fn process_under_test() {
    let Some(folder) = std::env::var_os(SCRIPT).map(PathBuf::from) else { return };
    thread::scope(|scope| {
        let run = thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, || steps(&folder));
        run.unwrap();
    });
}

fn steps(folder: &Path) {
    let started = Instant::now();
    if started.elapsed() > Duration::from_secs(500) {
        println!("failed: clock");
    }
    for name in ["one", "two", "three"] {
        match File::create(folder.join(name)) {
            Ok(file) => {
                say("write", (&file).write_all(b"written"));
                say("sync", file.sync_data());
                say("write at", file.write_all_at(b"W", 0));
            }
            Err(error) => say(name, Err(error)),
        }
    }
    say("rename", fs::rename(folder.join("one"), folder.join("other")));
    say("thread", thread::Builder::new().spawn(|| ()).map(drop));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    say("accept", listener.accept().map(drop));
}

fn say(what: &str, outcome: io::Result<()>) {
    if let Err(error) = outcome {
        println!("failed: {what} {}", error.raw_os_error().unwrap());
    }
}

/// Runs the script with these faults. Returns the failures that the script reports, and the failures that the
/// library reports.
fn run(name: &str, faults: &[Fault]) -> (Vec<String>, Vec<String>) {
    let folder = std::env::temp_dir().join(format!("powercut-faults-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("log");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["process_under_test", "--exact", "--nocapture"]).env(SCRIPT, &folder);
    inject_logged(&mut command, faults, &log);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let failed = stdout.lines().filter_map(|line| line.strip_prefix("failed: ")).map(str::to_owned).collect();
    let logged = fs::read_to_string(&log).unwrap_or_default();
    let logged = logged.replace(folder.to_str().unwrap(), "").lines().map(str::to_owned).collect();
    fs::remove_dir_all(&folder).unwrap();
    (failed, logged)
}

#[test]
fn only_calls_that_match_fail() {
    let check = |name, fault: Fault, expected: &[&str]| {
        let (failed, logged) = run(name, &[fault.clone().thread("work*")]);
        assert_eq!(failed, expected, "{fault}");
        assert_eq!(logged.len(), expected.len(), "{logged:?}");
        let (failed, logged) = run(name, &[fault.thread("another")]);
        assert!(failed.is_empty() && logged.is_empty(), "{failed:?} {logged:?}");
    };
    check("open", Fault::new(FaultCall::Open, EMFILE).path("*/t[wh]*"), &["two 24", "three 24"]);
    check("write", Fault::new(FaultCall::Write, ENOSPC).path("*/two"), &["write 28", "write at 28"]);
    check("sync", Fault::new(FaultCall::Sync, EIO).path("*/o*"), &["sync 5"]);
    check("second", Fault::new(FaultCall::Sync, EIO).path("/*").from(2), &["sync 5", "sync 5"]);
    check("once", Fault::new(FaultCall::Sync, EIO).path("/*").from(2).times(1), &["sync 5"]);
    check("rename", Fault::new(FaultCall::Rename, EIO).path("*/other"), &["rename 5"]);
    check("thread", Fault::new(FaultCall::Thread, EAGAIN), &["thread 11"]);
    check("accept", Fault::new(FaultCall::Accept, ENOMEM), &["accept 12"]);
    let missing = std::env::temp_dir().join("powercut-no-such-file");
    check("off", Fault::new(FaultCall::Sync, EIO).only_while(&missing), &[]);
    check("on", Fault::new(FaultCall::Rename, EIO).only_while(Path::new("/proc")), &["rename 5"]);
}

#[test]
fn calls_are_delayed_and_the_clock_is_ahead() {
    let delay = Duration::from_millis(30);
    let started = Instant::now();
    let (failed, logged) = run("delay", &[Fault::delay(FaultCall::Sync, delay).path("*-delay/t*")]);
    assert!(failed.is_empty() && started.elapsed() >= 2 * delay, "{failed:?}");
    assert_eq!(logged, ["sync 0 worker /two", "sync 0 worker /three"]);
    let (failed, logged) = run("clock", &[Fault::clock_ahead(600).thread("work*").from(2)]);
    assert_eq!((failed, logged.len()), (vec!["clock".to_owned()], 0));
}

#[test]
fn several_rules_apply_and_the_log_lists_the_faults() {
    let (failed, logged) = run(
        "several",
        &[
            Fault::new(FaultCall::Open, EMFILE).path("*/two"),
            Fault::new(FaultCall::Rename, EIO).path("*/other"),
        ],
    );
    assert_eq!(failed, ["two 24", "rename 5"]);
    assert_eq!(logged, ["open 24 worker /two", "rename 5 worker /other"]);
}

#[test]
fn an_invalid_rule_ends_the_process() {
    for rules in [
        "call=sync",
        "errno=EIO",
        "call=syncing,errno=EIO",
        "call=sync,errno=EWHAT",
        "call=sync,errno=5,on=1",
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo x > /dev/null"]);
        shell.env("LD_PRELOAD", powercut::library()).env("POWERCUT_FAULTS", rules);
        assert!(!shell.output().unwrap().status.success(), "{rules}");
    }
}
