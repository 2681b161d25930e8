//! `pando bench peers`, end to end: servers set up, loaded, asked the same and stopped again, and the result that is left.
//!
//! slapd is here for every `./dev test`; `./dev test-peers` installs the others and runs the ignored test too.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use bench::peers::comparison::BULK_LOAD;
use bench::result::RunResult;
use std::process::Command;
use support::Scratch;
use support::pando::PROGRAM;

/// Runs a comparison in a folder of its own; what it saved and printed.
#[track_caller]
fn compare(scratch: &Scratch, arguments: &[&str]) -> (RunResult, String) {
    let output = scratch.join("result.json");
    let run = Command::new(PROGRAM)
        .args(["bench", "peers", "--folder"])
        .arg(scratch.path())
        .arg("-o")
        .arg(&output)
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}\n{said}", run.status);
    // Nothing stays but the result.
    let left: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["result.json"], "{said}");
    (RunResult::read(&output).unwrap(), String::from_utf8(run.stdout).unwrap())
}

/// Every server took all entries and gave the answers that Pando gives.
#[track_caller]
fn check_loads(result: &RunResult, products: &[&str]) {
    let loads: Vec<_> = result.workloads.iter().filter(|measured| measured.workload == BULK_LOAD).collect();
    let names: Vec<_> = loads.iter().map(|load| load.server.product.split(' ').next().unwrap()).collect();
    assert_eq!(names, products);
    for load in loads {
        let loaded = load.server.bulk_load.as_ref().unwrap();
        assert!(load.is_clean() && loaded.disk_bytes.unwrap() > 0 && loaded.seconds > 0.0, "{load:?}");
        assert!(load.server.setting("durability").unwrap().contains("synced"), "{load:?}");
        assert_eq!(load.server.setting("password scheme"), Some("{SSHA}"));
    }
    let comparison = &result.comparisons[0];
    assert_eq!(comparison.servers.len(), products.len());
    assert!(comparison.requests > 50, "{comparison:?}");
    assert_eq!(comparison.differing, 0, "{:#?}", comparison.examples);
}

#[test]
fn slapd_and_pando_load_the_same_and_answer_the_same() {
    let scratch = Scratch::new("peers");
    let (result, table) = compare(&scratch, &["--load-only", "--peers", "openldap", "--entries", "300"]);
    check_loads(&result, &["Pando", "OpenLDAP"]);
    assert!(table.contains("Pando 0") && table.contains("OpenLDAP 2"), "{table}");
}

#[test]
fn a_peer_that_is_not_there_is_in_the_result() {
    let scratch = Scratch::new("peers-missing");
    let run = Command::new(PROGRAM)
        .args(["bench", "peers", "--load-only", "--peers", "opendj", "--entries", "10"])
        .args(["--opendj", "/nowhere", "--folder"])
        .arg(scratch.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(7));
    let table = String::from_utf8(run.stdout).unwrap();
    assert!(table.contains("not measured") && table.contains("./dev peers"), "{table}");
}

#[test]
#[ignore = "needs 389 DS and OpenDJ, which ./dev test-peers installs"]
fn all_peers_load_the_same_and_answer_the_same() {
    // One with schema of its own, one with groups.
    for template in ["edirectory", "oid"] {
        let scratch = Scratch::new("peers-all");
        let (result, _) = compare(&scratch, &["--load-only", "--entries", "200", "--template", template]);
        check_loads(&result, &["Pando", "OpenLDAP", "389", "OpenDJ"]);
    }
}
