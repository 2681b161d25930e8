//! `pando bench peers`, end to end: it starts servers, loads them, sends them the same requests, and stops them. The
//! tests check the result.
//!
//! `./dev test` compares with slapd only; `./dev test-peers` installs the other servers and runs the ignored test too.

use bench::peers::measure::BULK_LOAD;
use bench::result::{RunResult, WorkloadResult};
use std::process::Command;
use test_support::Scratch;
use test_support::pando::program;

const SEARCH: &str = r#"
title = "Search by uid"
[data]
template = "people"
rdn = "uid"
dn = "uid=user.{n},ou=people,dc=example,dc=com"
first = 0
[needs]
indexes = ["uid:eq"]
[[job]]
clients = 2
[[job.operation]]
kind = "search"
base = "dc=example,dc=com"
scope = "sub"
filter = "(uid=user.{n})"
attributes = ["1.1"]
dn = "uid=user.{n},ou=people,dc=example,dc=com"
"#;

const MODIFY: &str = r#"
title = "Modify"
[data]
template = "people"
rdn = "uid"
dn = "uid=user.{n},ou=people,dc=example,dc=com"
first = 0
[needs]
indexes = ["uid:eq"]
[[job]]
clients = 2
[[job.operation]]
kind = "modify"
dn = "uid=user.{n},ou=people,dc=example,dc=com"
changes = ["replace description: {random:alphanumeric:20}"]
"#;

/// Runs a comparison in the scratch folder. Returns the saved result and the output.
#[track_caller]
fn compare(scratch: &Scratch, arguments: &[&str]) -> (RunResult, String) {
    let output = scratch.join("result.json");
    let run = Command::new(program())
        .args(["bench", "peers", "--folder"])
        .arg(scratch.path())
        .arg("-o")
        .arg(&output)
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}\n{said}", run.status);
    // No data of the servers is left.
    let is_servers = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("pando-peers");
    let mut left = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.any(|name| is_servers(&name)), "{said}");
    (RunResult::read(&output).unwrap(), String::from_utf8(run.stdout).unwrap())
}

/// Checks that every server has loaded all entries, and gives the same answers as Pando.
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

/// Runs the steps of the suite of access rules with few entries. Some settings change while Pando runs. The audit trail
/// needs a restart.
#[test]
fn a_workload_is_measured_with_other_settings() {
    let scratch = Scratch::new("peers-settings");
    let suites = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/suites");
    let file = |name: &str| format!("{suites}/{name}.toml");
    let (search, rules, all) = (file("access-search"), file("access-500"), file("access-together"));
    let what = ["--peers", "pando", "--workload", &search, "--settings", &rules, "--settings", &all];
    let how = ["--entries", "300", "--rounds", "2", "--clients", "4", "--no-limit"];
    let times = ["--duration", "500ms", "--warmup", "0s", "--server-cpus", "0", "--load-cpus", "0"];
    let (result, _) = compare(&scratch, &[&what[..], &how, &times].concat());
    let names: Vec<_> = result.workloads.iter().map(|measured| measured.workload.as_str()).collect();
    let round = ["access-search", "access-search@access-500", "access-search@access-together"];
    assert_eq!(names, [&["bulk-load"][..], &round, &round].concat());
    let are_right = |measured: &WorkloadResult| {
        measured.is_clean() && (measured.workload == BULK_LOAD || measured.operations_total() > 0)
    };
    assert!(result.workloads.iter().all(are_right), "{:?}", result.workloads);
    // Settings of Pando cannot be set on other servers.
    let refused = Command::new(program())
        .args(["bench", "peers", "--peers", "openldap", "--workload", &search, "--settings", &rules])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// Measures binds on new connections, because TLS costs most there. slapd gets a certificate too.
#[test]
fn servers_are_measured_over_tls() {
    let scratch = Scratch::new("peers-tls");
    let what =
        ["--peers", "openldap", "--workloads", "people-bind-new-connection", "--start-tls", "--tls-resume"];
    let how = ["--entries", "300", "--rounds", "1", "--clients", "2", "--no-limit"];
    let times = ["--duration", "1s", "--warmup", "0s", "--server-cpus", "0", "--load-cpus", "0"];
    let (result, _) = compare(&scratch, &[&what[..], &how, &times].concat());
    check_loads(&result, &["Pando", "OpenLDAP"]);
    for measured in result.workloads.iter().filter(|measured| measured.workload != BULK_LOAD) {
        assert!(measured.is_clean() && measured.operations_total() > 0, "{measured:?}");
        let session = measured.server.setting("TLS").expect("the negotiated TLS parameters");
        assert!(session.contains("StartTLS") && session.ends_with("sessions resumed"), "{session}");
    }
    let refused = Command::new(program())
        .args(["bench", "peers", "--peers", "opendj", "--start-tls", "--no-limit"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn workloads_alternate_between_slapd_and_pando() {
    let scratch = Scratch::new("peers-workloads");
    let (search, modify) = (scratch.write("search.toml", SEARCH), scratch.write("modify.toml", MODIFY));
    let files = ["--workload", search.to_str().unwrap(), "--workload", modify.to_str().unwrap()];
    let how = ["--peers", "openldap", "--entries", "300", "--rounds", "2"];
    // The duration must be long enough for a durable change, even on a busy machine.
    let times = ["--duration", "2s", "--warmup", "0s", "--server-cpus", "0", "--load-cpus", "0"];
    let (result, table) = compare(&scratch, &[&files[..], &how, &times].concat());
    check_loads(&result, &["Pando", "OpenLDAP"]);
    for workload in ["search", "modify"] {
        let rounds: Vec<_> =
            result.workloads.iter().filter(|measured| measured.workload == workload).collect();
        let product = |number: usize| rounds[number].server.product.split(' ').next().unwrap();
        let order: Vec<_> = (0..rounds.len()).map(|number| (rounds[number].round, product(number))).collect();
        assert_eq!(order.len(), 4, "{order:?}");
        for measured in &rounds {
            assert!(measured.is_clean() && measured.operations_total() > 0, "{:?}", measured.failures);
            assert!(measured.cost.as_ref().unwrap().cpu_micros_per_operation > 0.0);
            assert_eq!(measured.server.bind_identity, "cn=admin,dc=example,dc=com");
        }
        let ratio = result.ratios.iter().find(|ratio| ratio.workload == workload).unwrap();
        assert!(ratio.server.starts_with("Pando") && ratio.by.starts_with("OpenLDAP"), "{ratio:?}");
        let figures = [ratio.per_second, ratio.cpu_per_operation, ratio.p50, ratio.p99];
        assert!(figures.iter().all(|figure| figure.unwrap() > 0.0), "{ratio:?}");
    }
    // With two workloads, two rounds and two servers, each server is first in two measurements.
    let begins: Vec<_> = result
        .workloads
        .iter()
        .filter(|measured| measured.workload != BULK_LOAD)
        .step_by(2)
        .map(|measured| &measured.server.product[..5])
        .collect();
    assert_eq!(begins, ["Pando", "OpenL", "Pando", "OpenL"]);
    assert_eq!(result.limits[0].server.product, "Null responder");
    assert!(table.contains("Pando's / theirs"), "{table}");
}

/// An interrupted comparison continues: results in the file are kept, and missing and failed measurements are made.
#[test]
fn an_interrupted_comparison_continues() {
    let scratch = Scratch::new("peers-resume");
    let search = scratch.write("search.toml", SEARCH);
    let fresh = scratch.write("fresh.toml", SEARCH.replace("[needs]", "[needs]\nfresh_start = true"));
    let output = scratch.join("result.json");
    let how = |duration: &str| {
        let mut command = Command::new(program());
        command.args([
            "bench",
            "peers",
            "--peers",
            "openldap",
            "--entries",
            "100",
            "--rounds",
            "1",
            "--no-limit",
        ]);
        command.args([
            "--duration",
            duration,
            "--warmup",
            "0s",
            "--server-cpus",
            "0",
            "--load-cpus",
            "0",
            "--resume",
        ]);
        command.arg("--workload").arg(&search).arg("--workload").arg(&fresh);
        command.arg("--folder").arg(scratch.path()).arg("-o").arg(&output);
        command
    };
    let run = how("200ms").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let whole = RunResult::read(&output).unwrap();
    // Six measurements: a load, a search, and a search after a fresh start, on two servers each.
    assert_eq!(whole.workloads.len(), 6);
    let fresh_rows = whole.workloads.iter().filter(|measured| measured.workload == "fresh");
    for measured in fresh_rows {
        assert!(measured.is_clean() && measured.parameters.duration_seconds == Some(10.0));
        assert!(
            measured.notes.iter().any(|note| note.contains("started just before")),
            "{:?}",
            measured.notes
        );
    }
    // The result file already has all measurements, so the next run loads no entries.
    let run = how("200ms").output().unwrap();
    assert!(run.status.success() && !String::from_utf8_lossy(&run.stderr).contains("loading"));
    // Remove one measurement, and mark another one as failed.
    let mut part = whole.clone();
    part.workloads
        .retain(|measured| measured.workload != "search" || !measured.server.product.starts_with("Pando"));
    let failed = part.workloads.iter_mut().find(|measured| measured.workload == "search").unwrap();
    failed.complete = false;
    part.write(&output).unwrap();
    let run = how("200ms").output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && !said.contains("fresh:"), "{said}");
    let again = RunResult::read(&output).unwrap();
    assert_eq!(again.workloads.len(), 6, "{said}");
    assert!(again.workloads.iter().all(|measured| measured.is_clean()));
    let times = |result: &RunResult| -> Vec<String> {
        let fresh = result.workloads.iter().filter(|measured| measured.workload == "fresh");
        fresh.map(|measured| measured.started.clone()).collect()
    };
    assert_eq!(times(&again), times(&whole));
    // Results of commands that differ are not combined.
    let run = how("300ms").output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("another command") && said.contains("200ms"), "{said}");
}

/// With --one-at-a-time, a server runs everything before the next server is loaded, and a finished server is not loaded
/// again.
#[test]
fn one_at_a_time_finishes_a_server_before_loading_the_next() {
    let scratch = Scratch::new("peers-one");
    let search = scratch.write("search.toml", SEARCH);
    let output = scratch.join("result.json");
    let run = || {
        let mut command = Command::new(program());
        command.args(["bench", "peers", "--peers", "openldap", "--entries", "100", "--rounds", "2"]);
        command.args([
            "--one-at-a-time",
            "--resume",
            "--no-limit",
            "--duration",
            "200ms",
            "--warmup",
            "100ms",
        ]);
        command.args(["--server-cpus", "0", "--load-cpus", "0"]).arg("--workload").arg(&search);
        let run = command.arg("--folder").arg(scratch.path()).arg("-o").arg(&output).output().unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.success(), "{said}");
        (RunResult::read(&output).unwrap(), said)
    };
    let (mut result, said) = run();
    let place = |row: &WorkloadResult| {
        let product = row.server.product.split(' ').next().unwrap();
        format!("{product} {} {}", row.workload, row.round)
    };
    let places: Vec<_> = result.workloads.iter().map(place).collect();
    let of = |product: &str| [1, 2].map(|round| format!("{product} search {round}"));
    let load = |product: &str| format!("{product} {BULK_LOAD} 1");
    let expected =
        [vec![load("Pando")], of("Pando").to_vec(), vec![load("OpenLDAP")], of("OpenLDAP").to_vec()];
    assert_eq!(places, expected.concat(), "{said}");
    // A server is warmed up once after each start, and the result says so.
    for row in result.workloads.iter().filter(|row| row.workload == "search") {
        assert_eq!(row.warm_up.is_some(), row.round == 1, "{row:?}");
        let told =
            row.notes.iter().any(|note| note.contains("warm after") || note.contains("NOT STEADY after"));
        assert_eq!(told, row.round == 1, "{:?}", row.notes);
        let windows = row.warm_up.as_ref().map_or(4, |warm_up| warm_up.cpu_micros.len());
        assert!((4..=20).contains(&windows), "{:?}", row.warm_up);
    }
    assert!(said.contains("warm after") || said.contains("NOT STEADY after"), "{said}");
    check_loads(&result, &["Pando", "OpenLDAP"]);

    result.workloads.pop();
    result.write(&output).unwrap();
    let (again, said) = run();
    assert!(!said.contains("Pando 0") && said.contains("OpenLDAP 2") && said.contains("loading"), "{said}");
    assert_eq!(again.workloads.iter().map(place).collect::<Vec<_>>(), expected.concat(), "{said}");
}

#[test]
fn a_missing_peer_is_reported_in_the_result() {
    let scratch = Scratch::new("peers-missing");
    let run = Command::new(program())
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
    // One template has a schema, and the other one has groups.
    for template in ["edirectory", "oid"] {
        let scratch = Scratch::new("peers-all");
        let (result, _) = compare(&scratch, &["--load-only", "--entries", "200", "--template", template]);
        check_loads(&result, &["Pando", "OpenLDAP", "389", "OpenDJ"]);
    }
}
