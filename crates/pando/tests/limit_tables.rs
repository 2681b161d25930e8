//! Limits for some of all clients: by identity, group, network and listener.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use client::Connection;
use ldap::{ResultCode, Scope};
use support::pando::Start;
use support::tree::{add_person, person_dn, plant};
use support::{Pando, SUFFIX, Scratch};

/// Sizes of searches, then what all limits of a table are for.
const LIMITS: &str = r#"
listen = ["ldap://127.0.0.1:0", "ldap://127.0.0.2:0"]

[[limit]]
for = ["uid=anna,ou=people,dc=example,dc=com"]
size = 4

[[limit]]
for = ["members of cn=staff,ou=groups,dc=example,dc=com"]
size = 3
examined = 0

[[limit]]
for = ["users"]
size = 2

[[limit]]
for = ["network 127.0.0.2/32", "anonymous"]
message_size = 200
"#;

fn start(scratch: &Scratch) -> Pando {
    let node = scratch.write("node.toml", LIMITS);
    let pando = Start::new(scratch).arguments(&["--node", node.to_str().unwrap()]).ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    (1..=5).for_each(|number| add_person(&mut administrator, &format!("other{number}")));
    pando
}

/// How many people a search finds, and how it ends.
fn people(connection: &mut Connection) -> (usize, ResultCode) {
    let found = connection.search(SUFFIX, Scope::WholeSubtree, "(uid=*)", &["1.1"]).unwrap();
    (found.entries.len(), found.outcome.code)
}

fn bound(pando: &Pando, uid: &str) -> Connection {
    let mut connection = pando.connect();
    let outcome = connection.bind(&person_dn(uid), &format!("{uid}-secret")).unwrap();
    assert!(outcome.is_success(), "{uid}: {outcome:?}");
    connection
}

#[test]
fn the_first_table_that_fits_decides() {
    let scratch = Scratch::new("limit-tables");
    let pando = start(&scratch);
    let cut = |count| (count, ResultCode::SIZE_LIMIT_EXCEEDED);
    assert_eq!(people(&mut bound(&pando, "anna")), cut(4));
    assert_eq!(people(&mut bound(&pando, "bert")), cut(3), "a member of the group");
    let mut other = bound(&pando, "other1");
    assert_eq!(people(&mut other), cut(2));
    assert_eq!(
        people(&mut pando.administrator()),
        (7, ResultCode::SUCCESS),
        "no limit binds the administrator"
    );
    // Another bind on the same connection has its own limits.
    assert!(other.bind(&person_dn("bert"), "bert-secret").unwrap().is_success());
    assert_eq!(people(&mut other), cut(3));
}

#[test]
fn a_message_that_is_too_large_for_its_client_ends_the_connection() {
    let scratch = Scratch::new("limit-message");
    let pando = start(&scratch);
    let ends = |connection: &mut TcpStream, octets: u8| {
        // An extended request that announces so many octets.
        connection.write_all(&[0x30, 0x81, octets]).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).map(|_| answer)
    };
    let mut anonymous = TcpStream::connect(pando.address()).unwrap();
    let notice = ends(&mut anonymous, 250).unwrap();
    assert!(String::from_utf8_lossy(&notice).contains("1.3.6.1.4.1.1466.20036"), "a notice of disconnection");
    // Who has bound comes from a network without a limit of its own.
    let mut anna = bound(&pando, "anna");
    let long = format!("(|{})", "(uid=somebody-else)".repeat(30));
    let found = anna.search(SUFFIX, Scope::WholeSubtree, &long, &["1.1"]).unwrap();
    assert_eq!(found.outcome.code, ResultCode::SUCCESS);
}
