//! Limits on the memory of requests: for a connection, for a source, and in total. Clients that use little memory are
//! not affected by other clients.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure we want to see")]

mod running;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use client::Connection;
use ldap::{
    AddRequest, AttributesBuf, Controls, FilterBuf, Message, MessageId, Request, ResultCode, Scope,
    SearchRequest, SelectionBuf,
};
use running::{Folder, Running, SUFFIX, config};
use socket2::{Domain, Socket, Type};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Returns a filter of 8 KB that no entry matches. It must be evaluated for every entry.
fn long_filter() -> String {
    format!("(|{})", (0..600).map(|number| format!("(cn=*q{number}*)")).collect::<String>())
}

fn encode(id: i32, request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { id: MessageId(id), request, controls: Controls::NONE }.encode(&mut bytes);
    bytes
}

fn search_message(id: i32, filter: &str) -> Vec<u8> {
    let (filter, attributes) = (FilterBuf::parse(filter).unwrap(), SelectionBuf::new());
    let (filter, attributes) = (filter.as_filter(), attributes.as_selection());
    encode(id, Request::Search(SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter, attributes)))
}

fn add_message(id: i32, name: &str) -> Vec<u8> {
    let (dn, mut attributes) = (format!("cn={name},{SUFFIX}"), AttributesBuf::new());
    attributes.push("objectClass", ["device"]);
    encode(id, Request::Add(AddRequest { entry: &dn, attributes: attributes.as_attributes() }))
}

/// Adds entries whose description has `letters` letters.
fn add_devices(running: &Running, count: usize, letters: usize) {
    let mut admin = running.administrator();
    let text = "x".repeat(letters);
    for number in 0..count {
        let attributes = [("objectClass", "device"), ("description", text.as_str())];
        let outcome = admin.add(&format!("cn=device {number},{SUFFIX}"), &attributes).unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
    }
}

/// Returns the figure with this name below `cn=Request Memory,cn=monitor`.
fn figure(admin: &mut Connection, name: &str) -> u64 {
    let dn = format!("cn={name},cn=Request Memory,cn=monitor");
    let entry = admin.entry(&dn, &["*", "+"]).unwrap().unwrap();
    entry.text("monitorCounter").unwrap().parse().unwrap()
}

/// Reads a figure repeatedly until `is_reached` returns true for it. Waits at most 60 seconds.
fn wait_for(admin: &mut Connection, name: &str, is_reached: impl Fn(u64) -> bool) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let value = figure(admin, name);
        if is_reached(value) {
            return value;
        }
        assert!(Instant::now() < deadline, "{name} remains {value}");
    }
}

/// Connects to the server from the loopback address `source`.
fn connect_from(source: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn anonymous(folder: &Folder) -> server::Config {
    server::Config { anonymous_read: true, threads: 1, ..config(folder) }
}

/// Eight connections send 1,024 searches each. The filter of each has 600 terms. Without a limit in octets, each search
/// would occupy 130 KB for its compiled filter, and all of them a gigabyte.
#[test]
fn a_connection_reads_no_more_searches_once_its_memory_is_used() {
    let folder = Folder::new();
    let running = Running::start(anonymous(&folder));
    add_devices(&running, 100, 10);
    let mut admin = running.administrator();
    let message = search_message(7, &long_filter());
    let mut hostile: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    for stream in &mut hostile {
        stream.set_nonblocking(true).unwrap();
        for number in 0..1_024_u32 {
            let mut bytes = message.clone();
            // The first element of the message is the message id, which has one octet.
            let place = bytes.iter().position(|byte| *byte == 7).unwrap();
            bytes[place] = 1 + (number % 100) as u8;
            if stream.write(&bytes).is_ok_and(|count| count == bytes.len()) {
                continue;
            }
            break;
        }
    }
    let held = wait_for(&mut admin, "Used Bytes", |used| used > 512 * KIB);
    assert!(held <= 8 * MIB, "{held}");
    let slow = search_message(1, "(objectClass=*)");
    let mut other = Connection::open(running.address).unwrap();
    other.send_bytes(&slow).unwrap();
    assert!(other.reply(MessageId(1)).unwrap().outcome.is_success());
    drop(hostile);
    wait_for(&mut admin, "Used Bytes", |used| used == 0);
}

#[test]
fn the_memory_of_slow_readers_is_limited() {
    let folder = Folder::new();
    let running = Running::start(anonymous(&folder));
    add_devices(&running, 100, 900);
    let mut admin = running.administrator();
    let searches: Vec<u8> = (1..=1_000).flat_map(|id| search_message(id, "(objectClass=device)")).collect();
    let mut slow: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    for stream in &mut slow {
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write(&searches);
    }
    let mut most = 0;
    for _ in 0..200 {
        most = most.max(figure(&mut admin, "Used Bytes"));
    }
    assert!(most > 50 * 100 * KIB, "{most}");
    // A connection may occupy this memory for its requests, its responses and its input buffer.
    assert!(most <= 50 * (256 + 320 + 32) * KIB, "{most}");
    drop(slow);
    wait_for(&mut admin, "Used Bytes", |used| used == 0);
}

#[test]
fn abandon_and_unbind_are_read_after_a_waiting_request() {
    let folder = Folder::new();
    let mut config = anonymous(&folder);
    config.online.outstanding_max = 1;
    let running = Running::start(config);
    // The result has 12 MB. That is more than the buffers of the sockets can contain.
    add_devices(&running, 60, 200_000);
    let (all, one) = (search_message(10, "(objectClass=device)"), search_message(11, "(cn=device 1)"));
    let abandon = encode(12, Request::Abandon(MessageId(10)));
    let mut connection = running.administrator();
    connection.send_bytes(&[&all[..], &one, &abandon].concat()).unwrap();
    loop {
        let received = connection.receive_any().unwrap();
        assert!(
            received.id() != MessageId(10) || received.outcome().is_none(),
            "the search went on to its end"
        );
        if received.id() == MessageId(11) && received.outcome().is_some() {
            break;
        }
    }

    let unbind = encode(12, Request::Unbind);
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream.write_all(&[&all[..], &one, &unbind].concat()).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    assert!(answers.len() < 6 << 20, "{}: the search went on to its end", answers.len());
}

/// Changes that a client sends before its Unbind are made. An Unbind has no response and does not wait for one.
/// Therefore the server may make the last change after it has closed the connection.
#[test]
fn an_unbind_does_not_overtake_changes() {
    let folder = Folder::new();
    let mut config = config(&folder);
    config.online.outstanding_max = 1;
    let running = Running::start(config);
    let mut connection = running.administrator();
    let mut bytes: Vec<u8> = (0..50).flat_map(|id| add_message(100 + id, &format!("a{id}"))).collect();
    bytes.extend(encode(200, Request::Unbind));
    connection.send_bytes(&bytes).unwrap();
    while connection.receive_any().is_ok() {}
    let mut admin = running.administrator();
    let deadline = Instant::now() + Duration::from_secs(60);
    for id in 0..50 {
        while admin.entry(&format!("cn=a{id},{SUFFIX}"), &["1.1"]).unwrap().is_none() {
            assert!(Instant::now() < deadline, "{id} is lost");
        }
    }
}

/// Sources that use much memory are answered `busy` as soon as all memory is in use. A source that uses less than its
/// share is served, and so is the administrator.
#[test]
fn an_exhausted_budget_refuses_only_sources_above_their_share() {
    let folder = Folder::new();
    let mut config = anonymous(&folder);
    config.request_memory_bytes = 0;
    let running = Running::start(config);
    let mut admin = running.administrator();
    assert_eq!(figure(&mut admin, "Max Bytes"), 128 * MIB);
    // The header of a message of 2,000,000 octets. Its last octet is never sent.
    let mut unfinished = vec![0x30, 0x83, 0x1e, 0x84, 0x80, 0x02, 0x01, 0x01];
    unfinished.resize(2_000_000, 0);
    let mut hostile: Vec<TcpStream> = Vec::new();
    'filling: for source in 2..=6 {
        for _ in 0..15 {
            let mut stream = connect_from(Ipv4Addr::new(127, 0, 0, source), running.address);
            if stream.write_all(&unfinished).is_err() {
                break 'filling;
            }
            hostile.push(stream);
            if figure(&mut admin, "Used Bytes") >= 128 * MIB {
                break 'filling;
            }
        }
    }
    wait_for(&mut admin, "Used Bytes", |used| used >= 128 * MIB);
    let mut greedy = connect_from(Ipv4Addr::new(127, 0, 0, 2), running.address);
    greedy.write_all(&search_message(1, "(cn=x)")).unwrap();
    let mut answer = [0; 64];
    let count = greedy.read(&mut answer).unwrap();
    // The response follows the message id. It consists of the tag of SearchResultDone, the length and the result code.
    let code = answer[..count].iter().skip_while(|octet| **octet != 0x65).nth(4);
    assert_eq!(code.copied(), Some(ResultCode::BUSY.0 as u8), "{answer:?}");
    let mut modest = Connection::open(running.address).unwrap();
    modest.send_bytes(&search_message(1, "(objectClass=*)")).unwrap();
    assert!(modest.reply(MessageId(1)).unwrap().outcome.is_success());
    assert!(running.administrator().entry(SUFFIX, &[]).unwrap().is_some());
    assert!(figure(&mut admin, "Used Bytes") <= 2 * 128 * MIB);
    assert!(figure(&mut admin, "Refused") >= 1);
    drop((hostile, greedy));
    wait_for(&mut admin, "Used Bytes", |used| used == 0);
}
