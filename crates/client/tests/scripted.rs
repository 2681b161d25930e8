//! Tests of the client against servers that run a script.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use client::{ClientError, Connection};
use ldap::{Controls, LdapResult, MessageId, Request, ResponseOp, ResultCode, Scope, response};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Starts a server that accepts one connection and runs a script. Returns its address.
fn server(script: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || script(listener.accept().unwrap().0));
    address
}

/// Reads `count` messages.
fn read_requests(stream: &mut TcpStream, count: usize) {
    let (mut input, mut seen) = (Vec::new(), 0);
    while seen < count {
        let mut octet = [0];
        stream.read_exact(&mut octet).unwrap();
        input.push(octet[0]);
        if ldap::frame_len(&input).unwrap() == Some(input.len()) {
            input.clear();
            seen += 1;
        }
    }
}

fn done(id: i32, op: ResponseOp, code: ResultCode) -> Vec<u8> {
    let mut out = Vec::new();
    response::encode_result(&mut out, MessageId(id), op, &LdapResult::new(code, "said"), Controls::NONE);
    out
}

fn entry(id: i32, dn: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let lens = response::SearchEntryLens { dn_len: dn.len(), attributes_len: 0, controls_len: 0 };
    response::put_search_entry_header(&mut out, MessageId(id), lens);
    out.extend_from_slice(dn.as_bytes());
    response::put_attributes_header(&mut out, 0);
    out
}

#[test]
fn answers_are_matched_by_id_in_any_order_and_any_pieces() {
    let address = server(|mut stream| {
        read_requests(&mut stream, 2);
        let mut bytes = entry(2, "o=two");
        bytes.extend(entry(1, "o=one"));
        bytes.extend(done(2, ResponseOp::SearchDone, ResultCode::SUCCESS));
        bytes.extend(done(1, ResponseOp::SearchDone, ResultCode::SIZE_LIMIT_EXCEEDED));
        bytes.iter().for_each(|octet| stream.write_all(&[*octet]).unwrap());
        read_requests(&mut stream, 1);
    });
    let mut connection = Connection::open(address).unwrap();
    let filter = ldap::FilterBuf::parse("(o=*)").unwrap();
    let request = Request::Search(ldap::SearchRequest::new(
        "",
        Scope::WholeSubtree,
        filter.as_filter(),
        Default::default(),
    ));
    let first = connection.send(request, Controls::NONE).unwrap();
    let second = connection.send(request, Controls::NONE).unwrap();
    let reply = connection.reply(first).unwrap();
    assert_eq!(
        (reply.entries[0].dn.as_str(), reply.outcome.code),
        ("o=one", ResultCode::SIZE_LIMIT_EXCEEDED)
    );
    let reply = connection.reply(second).unwrap();
    assert_eq!((reply.entries[0].dn.as_str(), reply.outcome.diagnostic.as_str()), ("o=two", "said"));
}

#[test]
fn reports_a_notice_of_disconnection_with_the_end() {
    let address = server(|mut stream| {
        read_requests(&mut stream, 1);
        let mut out = Vec::new();
        response::encode_notice_of_disconnection(&mut out, ResultCode::UNAVAILABLE, "going home");
        stream.write_all(&out).unwrap();
    });
    let error = Connection::open(address).unwrap().delete("o=x").unwrap_err();
    let ClientError::Closed { notice } = error else { panic!("{error}") };
    assert_eq!(notice.as_deref(), Some("unavailable: going home"));
}

#[test]
fn a_silent_server_causes_a_timeout() {
    let address = server(|mut stream| while stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {});
    let mut connection = Connection::open(address).unwrap();
    connection.set_timeout(Duration::from_millis(1)).unwrap();
    assert!(matches!(connection.delete("o=x"), Err(ClientError::TimedOut)));
}

#[test]
fn rejects_bytes_that_are_not_ldap() {
    for nonsense in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[0x30, 3, 2, 1, 1], &[0x30, 5, 2, 1, 1, 0x42, 0]] {
        let address = server(|mut stream| {
            read_requests(&mut stream, 1);
            stream.write_all(nonsense).unwrap();
        });
        let error = Connection::open(address).unwrap().delete("o=x").unwrap_err();
        let expected = matches!(
            error,
            ClientError::Decode(_)
                | ClientError::Framing(_)
                | ClientError::Closed { .. }
                | ClientError::Io(_)
        );
        assert!(expected, "{nonsense:?}: {error}");
    }
}
