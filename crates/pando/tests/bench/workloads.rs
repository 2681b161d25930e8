//! The load driver's counts compared with those of servers, and every shipped workload against Pando.

use bench::driver::{self, Options, Targets};
use bench::peers::Amendments;
use bench::result::{OperationKind, WorkloadResult};
use bench::template::{Parameters, Template};
use bench::workload::{self, Workload};
use client::Connection;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::Command;
use std::time::Duration;
use test_support::slapd::Slapd;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

const PEOPLE: u64 = 100;

fn bound(address: SocketAddr) -> Connection {
    let mut connection = Connection::open(address).unwrap();
    assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    connection
}

/// Adds the people that the shipped workloads request.
fn add_people(connection: &mut Connection) {
    let parameters = Parameters { entries: Some(PEOPLE), ..Parameters::default() };
    let mut ldif = Vec::new();
    Template::read("people", &parameters).unwrap().generate(1, NonZeroUsize::MIN, &mut ldif).unwrap();
    // Join continuation lines (RFC 2849).
    let ldif = String::from_utf8(ldif).unwrap().replace("\n ", "");
    for entry in ldif.split("\n\n").filter(|entry| !entry.trim().is_empty()) {
        let pairs: Vec<(&str, &str)> = entry
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| line.split_once(": ").unwrap())
            .collect();
        let outcome = connection.add(pairs[0].1, &pairs[1..]).unwrap();
        assert!(outcome.is_success(), "{}: {outcome:?}", pairs[0].1);
    }
}

/// Returns the number of completed operations of a kind, from slapd's monitor.
fn completed(connection: &mut Connection, kind: &str) -> u64 {
    let dn = format!("cn={kind},cn=Operations,cn=Monitor");
    let entry = connection.entry(&dn, &["monitorOpCompleted"]).unwrap().unwrap();
    entry.text("monitorOpCompleted").unwrap().parse().unwrap()
}

/// Runs a workload as an open loop. The driver must send as many requests as it reports, and report how many it could
/// not send. Some requests may remain unsent, because a busy machine may suspend this process at the end of the run.
fn run(workload: &Workload, address: SocketAddr) -> WorkloadResult {
    let options = Options {
        entries: Some(PEOPLE),
        clients: Some(5),
        threads: 2,
        rate: Some(400.0),
        warm_up: Some(Duration::ZERO),
        duration: Some(Duration::from_secs(1)),
        bind: Some((ADMIN_DN.to_owned(), ADMIN_PASSWORD.to_owned())),
        check_data: false,
        ..Options::default()
    };
    let targets = Targets::resolve(&[format!("ldap://{address}")]).unwrap();
    let result = driver::run(workload, &targets, &options).unwrap();
    let is_right = result.complete
        && result
            .failures
            .iter()
            .all(|failure| failure.starts_with("the server did not keep up with the rate"))
        && (result.errors_total(), result.wrong_answers_total(), result.connections_closed) == (0, 0, 0);
    assert!(is_right, "{}: {:?} {:?}", workload.name, result.failures, result.operations);
    result
}

#[test]
fn the_driver_counts_what_slapd_counts() {
    let scratch = Scratch::new("bench-slapd");
    let monitor =
        "access to * by * write\nmoduleload back_monitor\ndatabase monitor\naccess to * by * read".to_owned();
    let slapd = Slapd::amended(&scratch, &[], Amendments { rules: Some(monitor), ..Amendments::default() });
    let mut connection = bound(slapd.address());
    add_people(&mut connection);
    for (workload, kind, operation) in [
        ("people-search", OperationKind::Search, "Search"),
        ("people-compare", OperationKind::Compare, "Compare"),
        ("people-modify", OperationKind::Modify, "Modify"),
        ("people-bind", OperationKind::Bind, "Bind"),
        ("people-bind-new-connection", OperationKind::ConnectBind, "Bind"),
    ] {
        let before = completed(&mut connection, operation);
        let result = run(&workload::shipped(workload).unwrap(), slapd.address());
        // slapd also counts requests that are not part of the workload: the driver's bind, its search of the root DSE,
        // and this test's search for the previous count. That search was completed only after the count was read.
        let own = match operation {
            "Search" => 2,
            "Bind" => 1,
            _ => 0,
        };
        let counted = completed(&mut connection, operation) - before - own;
        let totals = &result.operations[&kind];
        // Every request that was sent has a latency, even if its answer came after the measured time.
        assert_eq!(counted, totals.latency.count(), "{workload}");
        assert_eq!(counted + result.unanswered, 400, "{workload}");
        assert!((200..=counted).contains(&totals.operations), "{workload}: {} operations", totals.operations);
        let entries = if kind == OperationKind::Search { totals.operations } else { 0 };
        assert_eq!(totals.entries, entries, "{workload}");
    }
}

#[test]
fn paged_searches_request_every_page() {
    let scratch = Scratch::new("bench-pages");
    let (slapd, pando) = (Slapd::start(&scratch, &[]), Pando::start(&scratch));
    let search = "kind = 'search'\nbase = 'ou=people,dc=example,dc=com'\nscope = 'one'\npage = 30";
    let workload = Workload::parse("pages.toml", &job(search)).unwrap();
    for address in [slapd.address(), pando.address()] {
        add_people(&mut bound(address));
        let result = run(&workload, address);
        let totals = &result.operations[&OperationKind::Search];
        let pages = totals.operations;
        assert!((200..=400).contains(&pages), "{pages}: each page is an operation");
        // Each search returns pages of 30, 30, 30 and 10 entries, except for the last search of each client.
        let entries = totals.entries as f64 / pages as f64;
        assert!((23.75..=27.0).contains(&entries), "{entries} entries a page");
    }
}

/// Runs shipped workloads on the command line, against a Pando that is loaded with the data they need.
fn measure(names: &[&str]) {
    let mut arguments = vec!["bench", "run"];
    arguments.extend(names);
    arguments.extend(["--serve", "--entries", "500", "--clients", "4", "--duration", "100ms"]);
    arguments.extend(["--warmup", "0", "--pause", "0", "--no-limit"]);
    let output = Command::new(test_support::pando::program()).args(&arguments).output().unwrap();
    let (said, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}\n{said}\n{complaints}");
    for name in names {
        let name = name.trim_end_matches('*');
        assert!(said.contains(name), "{name} is missing:\n{said}");
    }
}

#[test]
fn every_shipped_workload_gets_right_answers_from_pando() {
    measure(&["oid-*"]);
    measure(&["salford-s*", "salford-a*", "salford-m*", "salford-x*", "prescriptions"]);
    measure(&["m-vault-*"]);
    measure(&["sun-*", "edirectory-*", "people-*"]);
}

#[test]
fn errors_of_a_workload_file_have_their_line() {
    for (text, line, part) in [
        ("title = 'x'\nclients = 1\n", 2, "clients"),
        ("title = 'x'\n[data]\nrdn = 'uid'\ndn = 'uid={n}'\n", 0, "[[job]]"),
        (&job("kind = 'serch'"), 8, "serch"),
        (&job("kind = 'search'"), 8, "base"),
        (&job("kind = 'search'\nbase = 'dc=x'\nfilter = '(uid={n}'"), 10, "filter"),
        (&job("kind = 'search'\nbase = 'dc=x'\nfilter = '(uid={random:words:3})'"), 10, "random:words:3"),
        (&job("kind = 'modify'\ndn = 'uid={n}'\nchanges = ['set a: b']"), 10, "replace NAME: VALUE"),
        (&job("kind = 'search'\nbase = 'dc=x'\nexpect_entries = 'many'"), 10, "many"),
        (&job("kind = 'search'\nbase = 'dc=x'\nshare = 2.0"), 8, "share"),
        (&job("kind = 'search'\nbase = 'dc=x'\npage = 0"), 10, "nonzero"),
        (&job("kind = 'search'\nbase = 'dc=x'\npage = 9\nfilter = '(cn={random:hex:2})'"), 8, "random"),
        (&job("kind = 'authentication'\nbase = 'dc=x'\npage = 9"), 8, "searches"),
        (&job("kind = 'delete'\ndn = 'uid={n}'\nkeys = 'added'"), 8, "add operation"),
    ] {
        let error = Workload::parse("w.toml", text).unwrap_err();
        assert_eq!(error.line, line, "{error}\n{text}");
        assert!(error.message.contains(part), "{error}");
    }
}

fn job(operation: &str) -> String {
    let data = "title = 'x'\n[data]\nrdn = 'uid'\ndn = 'uid={n}'";
    format!("{data}\n[[job]]\nclients = 1\n[[job.operation]]\n{operation}\n")
}
