//! A directory whose data is not in memory. Prefetch threads read the pages that requests need, or perform dry runs.
//! Every answer must be the same as without prefetching.
//!
//! Each test runs alone: other tests would keep the disk busy, and the server measures the time that it waits for the
//! disk.

use std::fmt::Write as _;
use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;

use bench::cgroup::forget_pages;
use client::Connection;
use ldap::{
    Authentication, BindRequest, CompareRequest, Controls, ControlsBuf, FilterBuf, Message, MessageId,
    Request, ResultCode, Scope, SearchRequest, SelectionBuf,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use test_support::pando::{Start, command};
use test_support::{Pando, SUFFIX, Scratch, positions};

/// Number of people in the directory. Their entries fill many pages.
const PEOPLE: usize = 10_000;

/// Number of connections that send requests at the same time.
const CONNECTIONS: usize = 8;

/// Number of requests that each connection sends in one write.
const PIPELINED: usize = 64;

/// Number of rounds without any prefetch after which the test fails. A server detects within a tenth of a second that
/// it waits for the disk, and prefetches for the next two seconds.
const ROUNDS: usize = 1_000;

/// Maximum number of requests until the server's data is in memory. Reading the data takes a fraction of a second.
const REQUESTS_MAX: usize = 100_000;

/// Creates the data of a stopped server: people with a long description each.
fn people(scratch: &Scratch) {
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..PEOPLE {
        let text = "x".repeat(1_000);
        let entry = "objectClass: inetOrgPerson\ncn: x\nsn: x\ndescription: ";
        writeln!(ldif, "dn: uid=p{number},{SUFFIX}\n{entry}{number} {text}\n").unwrap();
    }
    let file = scratch.join("people.ldif");
    std::fs::write(&file, ldif).unwrap();
    command(&["import", "--suffix", SUFFIX, file.to_str().unwrap()], Some(&Pando::data(scratch)))
        .expect_code(0);
}

/// Returns the figure `cn=NAME,cn=Read Ahead,cn=monitor`.
fn figure(connection: &mut Connection, name: &str) -> u64 {
    let dn = format!("cn={name},cn=Read Ahead,cn=monitor");
    let entry = connection.entry(&dn, &["monitorCounter"]).unwrap().unwrap();
    entry.text("monitorCounter").unwrap().parse().unwrap()
}

/// Returns true if the request for this person traverses several rows.
fn is_traversal(number: usize) -> bool {
    number % 100 == 99
}

/// Sends a request for each person. The kind of request depends on the number.
fn send(connection: &mut Connection, numbers: &[usize]) {
    let mut bytes = Vec::new();
    for number in numbers {
        let id = MessageId(1_000_000 + *number as i32);
        let (dn, text) = (format!("uid=p{number},{SUFFIX}"), format!("p{number}"));
        let star = if is_traversal(*number) { "*" } else { "" };
        let filter = FilterBuf::parse(&format!("(uid={text}{star})")).unwrap();
        let selection = SelectionBuf::from_iter(["uid"]);
        let request = match number % 3 {
            0 if !is_traversal(*number) => {
                Request::Compare(CompareRequest { entry: &dn, description: "uid", value: text.as_bytes() })
            }
            kind if kind == 1 || is_traversal(*number) => Request::Search(SearchRequest::new(
                SUFFIX,
                Scope::WholeSubtree,
                filter.as_filter(),
                selection.as_selection(),
            )),
            _ => Request::Search(SearchRequest::new(
                &dn,
                Scope::BaseObject,
                filter.as_filter(),
                selection.as_selection(),
            )),
        };
        let controls =
            if requests_position(*number) { positions::controls(None) } else { ControlsBuf::new() };
        Message { id, request, controls: controls.as_controls() }.encode(&mut bytes);
    }
    connection.send_bytes(&bytes).unwrap();
}

/// Returns true if the request for this person contains the control that asks for the log position of the answer.
///
/// Regression test: in an event loop that waited for the disk, three of four answers lacked the position that their
/// request had asked for. Their results came from dry runs, which ignored the control. So clients of a cluster could
/// not read their own changes.
fn requests_position(number: usize) -> bool {
    number.is_multiple_of(2)
}

fn check(connection: &mut Connection, numbers: &[usize]) {
    for number in numbers {
        let reply = connection.reply(MessageId(1_000_000 + *number as i32)).unwrap();
        assert_eq!(reply.position().is_some(), requests_position(*number), "{number}: {reply:?}");
        if is_traversal(*number) {
            let expected = Some(format!("p{number}"));
            assert!(reply.entries.iter().any(|entry| entry.text("uid") == expected), "{number}");
        } else if number % 3 == 0 {
            assert_eq!(reply.outcome.code, ResultCode::COMPARE_TRUE, "{number}");
        } else {
            assert_eq!(reply.entries.len(), 1, "{number}: {:?}", reply.outcome);
            assert_eq!(reply.entries[0].text("uid"), Some(format!("p{number}")));
        }
    }
}

#[test]
fn cold_pages_are_read_by_other_threads() {
    let _alone = crate::alone();
    let scratch = Scratch::new("cold");
    people(&scratch);
    std::fs::write(scratch.join("node.toml"), "threads = 1\nread_ahead_threads = 8\nwarm_up_bytes = 0\n")
        .unwrap();
    let node_file = scratch.join("node.toml");
    let start = || Start::new(&scratch).arguments(&["--node", node_file.to_str().unwrap()]);
    for attempt in 1.. {
        assert!(attempt < 4, "nothing was read ahead, however often the data was not in memory");
        forget_pages(&Pando::data(&scratch)).unwrap();
        let pando = start().ready();
        let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| pando.administrator()).collect();
        let mut number = 0;
        for _ in 0..ROUNDS {
            let asked: Vec<Vec<usize>> = (0..CONNECTIONS)
                .map(|_| {
                    // Cover all numbers, in an order in which neighboring numbers are far apart.
                    (0..PIPELINED)
                        .map(|_| {
                            number = (number + 7_919) % PEOPLE;
                            number
                        })
                        .collect()
                })
                .collect();
            for (connection, asked) in connections.iter_mut().zip(&asked) {
                send(connection, asked);
            }
            for (connection, asked) in connections.iter_mut().zip(&asked) {
                check(connection, asked);
            }
            if figure(&mut connections[0], "Pages") > 20 && figure(&mut connections[0], "Requests") > 0 {
                assert_eq!(figure(&mut connections[0], "Threads"), 8);
                writes_and_binds_work_during_cold_searches(&pando);
                return;
            }
        }
    }
}

/// Returns true if each page of the data file can be read without waiting for the disk.
fn is_in_memory(data: &Path) -> bool {
    let file = File::open(data.join("data.mdb")).unwrap();
    let len = file.metadata().unwrap().len();
    let mut page = [0; 4096];
    (0..len).step_by(page.len()).all(|offset| {
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut page)], offset, ReadWriteFlags::NOWAIT);
        match read {
            Ok(_) => true,
            Err(Errno::AGAIN) => false,
            Err(error) => panic!("{error}"),
        }
    })
}

#[test]
fn data_that_fits_into_memory_is_loaded_at_the_start() {
    let _alone = crate::alone();
    let scratch = Scratch::new("warm-up");
    people(&scratch);
    let data = Pando::data(&scratch);
    forget_pages(&data).unwrap();
    assert!(!is_in_memory(&data));
    let pando = Start::new(&scratch).ready();
    let mut connection = pando.administrator();
    for _ in 0..REQUESTS_MAX {
        // This request reads none of the pages with people.
        assert!(connection.entry(SUFFIX, &["dc"]).unwrap().is_some());
        if is_in_memory(&data) {
            return;
        }
    }
    panic!("it was not read in");
}

/// Checks an add and binds while the server still prefetches, which it does for two seconds.
fn writes_and_binds_work_during_cold_searches(pando: &Pando) {
    let mut connection = pando.administrator();
    let entry = format!("uid=late,{SUFFIX}");
    let password = ("userPassword", "a password");
    let attributes = [("objectClass", "inetOrgPerson"), ("cn", "x"), ("sn", "x"), password];
    assert!(connection.add(&entry, &attributes).unwrap().is_success());
    assert_eq!(connection.bind(&entry, "another").unwrap().code, ResultCode::INVALID_CREDENTIALS);
    assert!(connection.bind(&entry, "a password").unwrap().is_success());
    assert_eq!(connection.entry(&entry, &["sn"]).unwrap().unwrap().text("sn"), Some("x".to_owned()));
    a_pipelined_search_has_the_identity_of_its_bind(&mut connection, &entry);
}

/// The result of a dry run applies only to the identity with which it was performed.
fn a_pipelined_search_has_the_identity_of_its_bind(connection: &mut Connection, entry: &str) {
    let (filter, selection) = (FilterBuf::parse("(sn=x)").unwrap(), SelectionBuf::from_iter(["sn"]));
    let search = SearchRequest::new(entry, Scope::BaseObject, filter.as_filter(), selection.as_selection());
    let bind = BindRequest { version: 3, name: "", authentication: Authentication::Simple(b"") };
    let requests = [Request::Search(search), Request::Bind(bind), Request::Search(search)];
    let mut bytes = Vec::new();
    for (id, request) in (1..).map(|id| MessageId(2_000_000 + id)).zip(requests) {
        Message { id, request, controls: Controls::NONE }.encode(&mut bytes);
    }
    connection.send_bytes(&bytes).unwrap();
    let replies = [1, 2, 3].map(|id| connection.reply(MessageId(2_000_000 + id)).unwrap());
    let [before, bound, after] = replies.map(|reply| (reply.outcome.code, reply.entries.len()));
    assert_eq!((before, bound), ((ResultCode::SUCCESS, 1), (ResultCode::SUCCESS, 0)));
    assert_eq!(after.1, 0, "an anonymous client reads nothing here, but received {}", after.0);
    assert_ne!(after.0, ResultCode::SUCCESS);
}
