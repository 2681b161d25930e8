//! Connections that use up all file descriptors. The store and the administrator must still get a descriptor.

use std::time::Duration;

use client::Connection;
use ldap::ChangeOperation;
use test_support::pando::Start;
use test_support::tree::plant;
use test_support::{Pando, SUFFIX, Scratch};

/// Maximum number of open files of the server.
const OPEN_FILES: u64 = 128;
/// Maximum wait for an answer. A server that accepts more connections than it can serve does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of changes. With values of [`VALUE_LEN`] octets, they fill several segments of the redo log (256 KiB, 512 KiB
/// and so on).
const CHANGES: usize = 60;
const VALUE_LEN: usize = 100_000;

/// Opens connections until one is not answered. Returns the connections, and the reason why the last one was not
/// answered.
fn open_all(pando: &Pando) -> (Vec<Connection>, String) {
    let mut open = Vec::new();
    loop {
        let mut connection = pando.connect();
        connection.set_timeout(PATIENCE).unwrap();
        match connection.entry("", &["vendorName"]) {
            Ok(Some(_)) => open.push(connection),
            Ok(None) => panic!("no root DSE"),
            Err(error) => return (open, error.to_string()),
        }
        assert!(open.len() < OPEN_FILES as usize, "more connections than descriptors");
    }
}

/// Regression test: with 1,024 connections without a bind, the next segment of the redo log could not be created. All
/// writes stopped until a restart, and the administrator's socket was not answered, because connections were accepted
/// as long as there was a descriptor.
#[test]
fn connections_leave_descriptors_for_the_store_and_the_administrator() {
    let scratch = Scratch::new("descriptors");
    let pando = Start::new(&scratch).open_files_max(OPEN_FILES).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (open, why) = open_all(&pando);
    println!("{} connections, then {why}", open.len());

    for number in 0..CHANGES {
        let value = number.to_string().repeat(VALUE_LEN / 2);
        let changes = [(ChangeOperation::Replace, "description", &[value.as_str()][..])];
        let outcome = admin.modify(SUFFIX, &changes).unwrap();
        assert!(outcome.is_success(), "change {number}: {outcome:?}\n{}", pando.log());
    }
    let mut local = Connection::open_local(&Pando::data(&scratch).join("pando.sock")).unwrap();
    local.set_timeout(PATIENCE).unwrap();
    assert!(local.bind_external(None).unwrap().is_success());
    let max = local.entry("cn=Max,cn=Connections,cn=monitor", &["monitorCounter"]).unwrap().unwrap();
    let max = max.text("monitorCounter").unwrap().parse::<usize>().unwrap();
    // The exact number of other open files is not known.
    assert!(max.abs_diff(open.len()) < 10 && open.len() > 40, "{max} {}", open.len());
    let log = pando.log();
    assert!(log.contains(&format!("WARN at most {max} connections instead of 100000")), "{log}");
    assert!(log.contains("connections are refused"), "{log}");

    // When some connections are closed, others are accepted.
    drop(open);
    let (open, _) = open_all(&pando);
    assert!(open.len() > 40, "{}", open.len());
    assert!(pando.stop().success());
}

/// If the limit of descriptors is high enough, no message is logged.
#[test]
fn a_sufficient_descriptor_limit_is_not_logged() {
    let scratch = Scratch::new("descriptors-enough");
    std::fs::write(scratch.join("pando.toml"), "[limits]\nconnections = 20\n").unwrap();
    let config = scratch.join("pando.toml");
    let pando = Start::new(&scratch)
        .arguments(&["--node", config.to_str().unwrap()])
        .open_files_max(OPEN_FILES)
        .ready();
    assert!(pando.stop().success());
    let log = std::fs::read_to_string(scratch.join("pando.log")).unwrap();
    assert!(!log.contains("WARN"), "{log}");
}
