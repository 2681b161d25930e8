//! Long and short searches at the same time, with the real binary. `crates/server/tests/in_process/scans.rs` tests the
//! use of threads.

use std::fmt::Write as _;

use client::Connection;
use ldap::{
    Control, Controls, ControlsBuf, FilterBuf, Message, MessageId, Request, Scope, SearchRequest,
    SelectionBuf,
};
use test_support::cluster::until;
use test_support::pando::{Start, command};
use test_support::{Pando, SUFFIX, Scratch, positions};

/// Number of people, so large that a search without an index takes long.
const PEOPLE: usize = 6_000;

/// Number of long searches sent at once.
const SCANS: usize = 50;

/// Maximum number of attempts, because all long searches may be answered before the test can check.
const ATTEMPTS: usize = 100;

/// Starts a server with one event loop, one scan thread, and people who each have a description.
fn people(scratch: &Scratch) -> Pando {
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..PEOPLE {
        let entry = "objectClass: inetOrgPerson\ncn: x\nsn: x\ndescription: A person with the number";
        writeln!(ldif, "dn: uid=p{number},{SUFFIX}\n{entry} {number}.\n").unwrap();
    }
    std::fs::write(scratch.join("people.ldif"), ldif).unwrap();
    let file = scratch.join("people.ldif");
    command(&["import", "--suffix", SUFFIX, file.to_str().unwrap()], Some(&Pando::data(scratch)))
        .expect_code(0);
    Start::with_node(scratch, "threads = 1\nscan_threads = 1\n").ready()
}

/// Returns a figure of `cn=monitor`.
fn figure(connection: &mut Connection, dn: &str) -> u64 {
    let entry = connection.entry(dn, &["monitorCounter"]).unwrap().unwrap();
    entry.text("monitorCounter").unwrap().parse().unwrap()
}

fn running(connection: &mut Connection) -> u64 {
    figure(connection, "cn=Running,cn=Scans,cn=monitor")
}

#[test]
fn short_searches_of_others_are_answered_while_long_ones_run() {
    let scratch = Scratch::new("scans");
    let pando = people(&scratch);
    let (mut long, mut short) = (pando.administrator(), pando.administrator());
    let filter = FilterBuf::parse("(description=*number 59?9.*)").unwrap();
    let selection = SelectionBuf::from_iter(["1.1"]);
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    for _ in 0..ATTEMPTS {
        let ids = (0..SCANS as i32).map(|place| MessageId(1_000 + place));
        let mut bytes = Vec::new();
        for id in ids.clone() {
            Message { id, request: Request::Search(request), controls: Controls::NONE }.encode(&mut bytes);
        }
        long.send_bytes(&bytes).unwrap();
        // A scan runs before and after the short search, so it also runs while the only event loop answers the short
        // search.
        let before = running(&mut short);
        let found = short.search(SUFFIX, Scope::WholeSubtree, "(uid=p59)", &["description"]).unwrap();
        let after = running(&mut short);
        assert_eq!(found.entries.len(), 1);
        for id in ids {
            let reply = long.reply(id).unwrap();
            assert!(reply.outcome.is_success() && reply.entries.is_empty(), "{:?}", reply.outcome);
        }
        if before > 0 && after > 0 {
            return;
        }
    }
    panic!("no scan was seen running in {ATTEMPTS} attempts");
}

#[test]
fn an_explanation_names_scan_threads() {
    const EXPLAIN: &str = "1.3.6.1.4.1.99999.4.1";
    let scratch = Scratch::new("scans-explained");
    let pando = people(&scratch);
    let mut admin = pando.administrator();
    let filter = FilterBuf::parse("(description=*number 59*)").unwrap();
    let selection = SelectionBuf::from_iter(["1.1"]);
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let controls = ControlsBuf::from_iter([Control { oid: EXPLAIN, critical: true, value: None }]);
    let id = admin.send(Request::Search(request), controls.as_controls()).unwrap();
    let mut entries = 0;
    let done = loop {
        let received = admin.receive(id).unwrap();
        if received.outcome().is_some() {
            break received;
        }
        entries += 1;
    };
    // The numbers 59, 590 to 599, and 5900 to 5999 match.
    assert_eq!(entries, 111);
    let message = done.message();
    let control = message.controls.iter().find(|control| control.oid == EXPLAIN).unwrap();
    let text = String::from_utf8_lossy(control.value.unwrap());
    assert!(text.contains(&format!("examined: {}, returned: 111", PEOPLE + 1)), "{text}");
    assert!(text.contains("of them on scan threads"), "{text}");
}

/// Regression test: a persistent search outlived its client. Other long operations must not outlive their clients
/// either: scans, sorted results that are not read, passwords that wait to be hashed, and waits for a position.
#[test]
fn nothing_outlives_its_connection() {
    let scratch = Scratch::new("outlives");
    let pando = people(&scratch);
    let mut admin = pando.administrator();
    let connections = "cn=Current,cn=Connections,cn=monitor";
    assert_eq!(figure(&mut admin, connections), 1);
    let filter = FilterBuf::parse("(description=*number*)").unwrap();
    let selection = SelectionBuf::from_iter(["*"]);
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let sort =
        ldap::SortKey::encode_list(&[ldap::SortKey { attribute: "description", rule: None, reverse: true }]);
    let sorted = Control { oid: ldap::oids::SORT_REQUEST, critical: true, value: Some(&sort) };
    let sorted: ControlsBuf = [sorted].into_iter().collect();
    let mut gone = Vec::new();
    for controls in [Controls::NONE, sorted.as_controls()] {
        let mut unread = pando.administrator();
        for _ in 0..20 {
            unread.send(Request::Search(request), controls).unwrap();
        }
        gone.push(unread);
    }
    let used = "cn=Used Bytes of Administrators,cn=Request Memory,cn=monitor";
    until("unread answers wait", || (figure(&mut admin, used) > 64 << 10).then_some(()));
    let mut compares = pando.administrator();
    let dn = format!("uid=p1,{SUFFIX}");
    let change = (ldap::ChangeOperation::Replace, "userPassword", &["secret"][..]);
    assert!(admin.modify(&dn, &[change]).unwrap().is_success());
    for _ in 0..20 {
        let compare = ldap::CompareRequest { entry: &dn, description: "userPassword", value: b"wrong" };
        compares.send(Request::Compare(compare), Controls::NONE).unwrap();
    }
    gone.push(compares);
    let mut waits = pando.administrator();
    let token = positions::position_of(&positions::read(&mut waits, SUFFIX, None));
    positions::send_read(&mut waits, SUFFIX, positions::at_least(token, 1_000, 200));
    gone.push(waits);
    drop(gone);
    until("their connections are gone", || (figure(&mut admin, connections) == 1).then_some(()));
    until("no scan runs", || (running(&mut admin) == 0).then_some(()));
    until("nothing is held for them", || (figure(&mut admin, used) < 64 << 10).then_some(()));
}
