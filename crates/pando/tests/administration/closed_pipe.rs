//! Output whose reader stops before the end, as in `pando index list | head -1`. Neither a command nor a thread of a
//! server may panic because it cannot print.

use std::process::{Command, Stdio};

use ldap::Scope;
use test_support::pando::{Start, program};
use test_support::tree::{add_person, plant};
use test_support::{Pando, SUFFIX, Scratch};

/// Returns a pipe whose other end is closed.
fn closed_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

/// Runs a command whose standard output is a closed pipe. Expects this exit code, and no message about the pipe.
#[track_caller]
fn run_with_closed_output(arguments: &[&str], code: i32) {
    let mut command = Command::new(program());
    let output =
        command.args(arguments).stdin(Stdio::null()).stdout(closed_pipe()).stderr(Stdio::piped()).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "pando {}: {errors}", arguments.join(" "));
    assert!(!errors.contains("panicked") && !errors.contains("roken pipe"), "{arguments:?}: {errors}");
}

/// Runs a command whose standard output and standard error are closed pipes. Expects this exit code.
#[track_caller]
fn run_with_closed_output_and_errors(arguments: &[&str], code: i32) {
    let mut command = Command::new(program());
    let status =
        command.args(arguments).stdin(Stdio::null()).stdout(closed_pipe()).stderr(closed_pipe()).status();
    assert_eq!(status.unwrap().code(), Some(code), "pando {}", arguments.join(" "));
}

#[test]
fn commands_end_quietly_when_the_pipe_is_closed() {
    let scratch = Scratch::new("closed-pipe");
    let server = Pando::start(&scratch);
    plant(&mut server.administrator());
    let data = Pando::data(&scratch);
    let data = data.to_str().unwrap();
    // These commands ask the running server. Commands that read the files of the stopped directory follow below.
    run_with_closed_output(&["explain", "--data", data, "(uid=anna)"], 0);
    run_with_closed_output(&["apply", "--data", data, settings(&scratch, data).as_str()], 0);
    assert!(server.stop().success());

    let settings = settings(&scratch, data);
    let bad = scratch.write("bad.ldif", "dn: o=a\nobjectClass: nothing\n");
    let good = scratch.write("good.ldif", "dn: o=a\nobjectClass: organization\no: a\n");
    let (bad, good) = (bad.to_str().unwrap(), good.to_str().unwrap());
    let saved = scratch.join("saved.ldif");
    for (arguments, code) in [
        (&["--help"][..], 0),
        (&["--version"], 0),
        (&["version"], 0),
        (&["help", "serve"], 0),
        (&["completions", "bash"], 0),
        (&["index", "list", "--data", data], 0),
        (&["index", "add", "--data", data, "title"], 0),
        (&["index", "drop", "--data", data, "title"], 0),
        (&["explain", "--data", data, "(uid=anna)"], 0),
        (&["plan", "--data", data, &settings], 0),
        (&["apply", "--data", data, &settings], 0),
        (&["verify", "--data", data], 0),
        (&["verify", "--data", data, "--repair"], 0),
        (&["verify", "--data", data, "--salvage", saved.to_str().unwrap()], 0),
        (&["compact", "--data", data], 0),
        (&["generate", "--list"], 0),
        (&["generate", "oid", "--print"], 0),
        (&["bench", "list"], 0),
        (&["bench", "list", "oid-search-random"], 0),
        (&["ldif", "count", good], 0),
        (&["ldif", "check", good], 0),
        // These commands fail: incomplete output is not a success. Some also fail because they have findings.
        (&["ldif", "check", bad], 1),
        (&["ldif", "diff", good, bad], 1),
        (&["generate", "oid", "--entries", "1000"], 1),
        (&["export", "--data", data], 1),
        (&["export", "--data", data, "--settings-only"], 1),
    ] {
        run_with_closed_output(arguments, code);
    }
    let fresh = scratch.join("fresh");
    run_with_closed_output_and_errors(
        &["import", "--data", fresh.to_str().unwrap(), "--suffix", "o=a", good],
        0,
    );
    run_with_closed_output_and_errors(&["index", "add", "--data", data, "title"], 0);
    run_with_closed_output_and_errors(&["verify", "--data", scratch.join("none").to_str().unwrap()], 4);
    run_with_closed_output_and_errors(&["nonsense"], 2);
}

fn settings(scratch: &Scratch, data: &str) -> String {
    let run =
        test_support::pando::command(&["export", "--settings-only"], Some(data.as_ref())).expect_code(0);
    scratch.write("settings.toml", run.stdout).to_str().unwrap().to_owned()
}

#[test]
fn a_server_keeps_running_if_the_reader_of_its_log_ends() {
    let scratch = Scratch::new("closed-log");
    let server = Start::new(&scratch).arguments(&["--log-operations"]).with_closed_log().ready();
    let mut admin = server.administrator();
    plant(&mut admin);
    for number in 0..20 {
        add_person(&mut admin, &format!("new{number}"));
        // Give each event loop, the writer and the worker threads something to log.
        let found = server.administrator().search(SUFFIX, Scope::WholeSubtree, "(uid=*)", &["1.1"]).unwrap();
        assert_eq!(found.entries.len(), 3 + number);
    }
    assert!(server.stop().success());
}
