//! Attacks with TLS: handshakes that stop or are slow, octets that are not TLS, octets after StartTLS, storms of
//! handshakes and of key updates, and clients with TLS that do not read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use client::{Connection, Tls};
use ldap::ResultCode;

use crate::data::{self, MANY};
use crate::plan::Plan;
use crate::process::{MIB, connections_possible};
use crate::report::{Finding, Report};
use crate::under_attack::{Bounds, under_attack};
use crate::wire::{bind, closed, endings, open, search, secure_address, start_tls};
use test_support::pando::{Pando, Start};
use test_support::{SUFFIX, Scratch};

/// Timeout of the attacked server, in seconds. It applies to a handshake, and then to a first request.
const FIRST_REQUEST: u64 = 3;

/// Additional time until idle connections are closed, because the server checks them once a second.
const GRACE: Duration = Duration::from_secs(5);

/// Maximum time until a faulty connection is closed, far shorter than a timeout.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Number of entries of one search: the size limit of users other than the administrator.
const ENTRIES: usize = 1_000;

/// Memory cost of a TLS connection whose client does not read: 256 KiB of searches and one more search, 336 KiB of
/// answers, 64 KiB of encrypted data, and its TLS session.
const UNREAD_COST: u64 = MIB;

const BOUNDS: Bounds = Bounds { cost: 64 * MIB, slowest: Duration::from_secs(2) };

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names =
        ["half-done", "octet-by-octet", "garbage", "behind-start-tls", "start-tls-again", "storm", "unread"]
            .map(|name| format!("tls/{name}"));
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample_and_many("assault-tls", ENTRIES);
    let count = plan.count(300, 2_000).min(connections_possible());
    let unread = plan.count(30, 300);
    let unread_bounds = Bounds { cost: BOUNDS.cost + unread as u64 * UNREAD_COST, ..BOUNDS };
    let attack = |attack: fn(&Pando, usize) -> Finding, count: usize, seconds: u64, bounds: Bounds| {
        under_attack(&scratch, start(&scratch, seconds), bounds, |pando| attack(pando, count))
    };
    let usual = 30;
    report.attack(&names[0], || attack(half_done, count, FIRST_REQUEST, BOUNDS));
    report.attack(&names[1], || attack(octet_by_octet, plan.count(20, 200), usual, BOUNDS));
    report.attack(&names[2], || attack(garbage, plan.count(4, 50), usual, BOUNDS));
    report.attack(&names[3], || attack(after_start_tls, plan.count(20, 200), usual, BOUNDS));
    report.attack(&names[4], || attack(start_tls_again, plan.count(500, 20_000), usual, BOUNDS));
    report.attack(&names[5], || attack(storm, plan.count(400, 10_000), usual, BOUNDS));
    report.attack(&names[6], || attack(unread_answers, unread, usual, unread_bounds));
}

/// Returns a server with this timeout, in seconds, for the first request of attackers.
fn start(scratch: &Scratch, first_request: u64) -> Start {
    let node = format!("trusted_networks = [\"127.0.0.0/24\"]\nfirst_request_seconds = {first_request}\n");
    let node = scratch.write("node.toml", node);
    let listen = ["--listen", "ldaps://127.0.0.1:0", "--anonymous-read", "--node", node.to_str().unwrap()];
    Start::new(scratch).arguments(&listen)
}

fn tls() -> Tls {
    Tls::insecure().unwrap()
}

/// Returns the first message of a client.
fn client_hello() -> Vec<u8> {
    let mut hello = Vec::new();
    tls().session("localhost").unwrap().write_tls(&mut hello).unwrap();
    hello
}

/// A socket with a TLS session. Each write is sent immediately.
struct Secured<S> {
    socket: S,
    session: rustls::ClientConnection,
}

impl<S: Read + Write> Secured<S> {
    /// Performs the handshake.
    fn over(socket: S) -> std::io::Result<Secured<S>> {
        let mut secured = Secured { socket, session: tls().session("localhost")? };
        while secured.session.is_handshaking() {
            secured.session.complete_io(&mut secured.socket)?;
        }
        Ok(secured)
    }

    fn send(&mut self, octets: &[u8]) -> std::io::Result<()> {
        self.session.writer().write_all(octets)?;
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Reads some octets; returns 0 at the end.
    fn receive(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        rustls::Stream::new(&mut self.session, &mut self.socket).read(buffer)
    }
}

/// A socket that sends one octet at a time.
struct Dripping(TcpStream);

impl Read for Dripping {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Dripping {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.0.write(octets.get(..1).unwrap_or(octets))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Opens connections whose clients stop at different stages of the handshake: in the middle of their first message,
/// after it, in the middle of the next message, or after the handshake. The server must close each connection.
fn half_done(pando: &Pando, count: usize) -> Finding {
    let (server, hello) = (secure_address(pando), client_hello());
    let first_record = [&hello[..], &[0x17, 3, 3, 0x40, 0], &[7; 100]].concat();
    let connect = |index: usize| {
        let mut stream = open(server, index);
        match index % 4 {
            0 => stream.write_all(&hello[..hello.len() / 2]).unwrap(),
            1 => stream.write_all(&hello).unwrap(),
            2 => stream.write_all(&first_record).unwrap(),
            _ => stream = Secured::over(stream).unwrap().socket,
        }
        stream
    };
    let mut streams: Vec<TcpStream> = (0..count).map(connect).collect();
    let longest = Duration::from_secs(FIRST_REQUEST) + GRACE;
    let closed = closed(&endings(&mut streams, longest));
    Finding::of(format!("{count} connections stop before, in or after their handshake")).bounded(
        closed == count,
        format!("{closed} closed"),
        format!("all within {} s, at most {FIRST_REQUEST} s", longest.as_secs()),
    )
}

/// Handshake, search and answer are transferred octet by octet. All must succeed.
fn octet_by_octet(pando: &Pando, count: usize) -> Finding {
    let server = secure_address(pando);
    let request = search(1, SUFFIX, "(uid=ahuber)");
    let handshake = |index: usize| {
        let mut secured = Secured::over(Dripping(open(server, index))).unwrap();
        secured.send(&request).unwrap();
        secured.receive(&mut [0; 4_096]).unwrap()
    };
    let answered = (0..count).map(handshake).filter(|octets| *octets > 0).count();
    Finding::of(format!("{count} connections shake hands and ask one octet at a time")).bounded(
        answered == count,
        format!("{answered} answered"),
        "all",
    )
}

/// Returns sequences of malformed records, and of too many records, each with a description.
fn broken_records() -> Vec<(&'static str, Vec<u8>)> {
    let hello = client_hello();
    let record = |kind: u8, body: &[u8]| {
        let size = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind, 3, 3], &size[..], body].concat()
    };
    // A first message that announces 16 MiB, of which 2 MiB are sent.
    let endless = [record(0x16, &[&[1, 0xff, 0xff, 0xff], &[0; 16_000][..]].concat())]
        .into_iter()
        .chain(std::iter::repeat_n(record(0x16, &[0; 16_384]), 128));
    vec![
        ("a record of 65,535 octets", [&[0x16, 3, 1, 0xff, 0xff], &[0; 70_000][..]].concat()),
        ("a first message of 16 MiB", endless.flatten().collect()),
        ("empty records", record(0x16, &[]).repeat(20_000)),
        ("warnings", record(0x15, &[1, 90]).repeat(20_000)),
        ("changes of the cipher", record(0x14, &[1]).repeat(20_000)),
        ("data before the handshake", record(0x17, &[7; 1_000])),
        ("garbage after the first message", [hello, record(0x17, &[7; 1_000])].concat()),
        ("SSL of version 2", [&[0x80, 0x2e, 1, 0, 2], &[0; 60][..]].concat()),
        ("LDAP in the clear", bind(1, "", "")),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
    ]
}

/// Sends octets that are not TLS. The server must close the connection immediately, and send at most an alert.
fn garbage(pando: &Pando, each: usize) -> Finding {
    let (server, shapes) = (secure_address(pando), broken_records());
    let (mut left, mut not_tls) = (Vec::new(), Vec::new());
    for (shape, (what, octets)) in shapes.iter().enumerate() {
        let connect = |index| {
            let mut stream = open(server, shape * each + index);
            // A server that closes early reads no more.
            let _ = stream.write_all(octets);
            stream
        };
        let mut streams: Vec<TcpStream> = (0..each).map(connect).collect();
        for ending in endings(&mut streams, AT_ONCE) {
            if !ending.is_closed {
                left.push(*what);
            }
            // Only alerts (0x15) and messages of a handshake (0x16) are expected.
            if !matches!(ending.received.first(), None | Some(0x15 | 0x16)) {
                not_tls.push(*what);
            }
        }
    }
    let named =
        |names: &[&str]| names.first().map_or(String::new(), |first| format!(", first after {first}"));
    Finding::of(format!("{each} times each of {} kinds of records that are none", shapes.len()))
        .bounded(
            left.is_empty(),
            format!("{} still open{}", left.len(), named(&left)),
            format!("none after {} s", AT_ONCE.as_secs()),
        )
        .bounded(
            not_tls.is_empty(),
            format!("{} answered by something else than TLS{}", not_tls.len(), named(&not_tls)),
            "none",
        )
}

/// Appends octets to the StartTLS request, as an attacker in the network can. The server must never process these
/// octets.
fn after_start_tls(pando: &Pando, each: usize) -> Finding {
    let behind = [
        search(2, SUFFIX, "(uid=ahuber)"),
        bind(2, data::PERSON, data::PERSON_PASSWORD),
        start_tls(2),
        client_hello(),
        vec![0x30],
    ];
    let connect = |index: usize| {
        let mut stream = open(pando.address(), index);
        stream.write_all(&[start_tls(1), behind[index % behind.len()].clone()].concat()).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..each * behind.len()).map(connect).collect();
    let endings = endings(&mut streams, AT_ONCE);
    let refused = [(0, Some(ResultCode::PROTOCOL_ERROR))];
    let refused = endings.iter().filter(|ending| ending.is_closed && ending.answers() == refused).count();
    Finding::of(format!("{} connections send something after StartTLS, before TLS", streams.len())).bounded(
        refused == streams.len(),
        format!("{refused} told protocolError and closed, and nothing else"),
        format!("all within {} s", AT_ONCE.as_secs()),
    )
}

/// Requests StartTLS again over TLS. Each request must be refused, and the connection must continue.
fn start_tls_again(pando: &Pando, count: usize) -> Finding {
    let mut connection = pando.connect().start_tls(&tls(), "localhost").unwrap();
    let again = |_: &usize| {
        connection.extended(ldap::oids::START_TLS, None).unwrap().outcome.code == ResultCode::OPERATIONS_ERROR
    };
    let refused = (0..count).filter(again).count();
    let goes_on = connection.entry(data::PERSON, &["cn"]).unwrap().is_some();
    Finding::of(format!("StartTLS {count} times under TLS"))
        .bounded(refused == count, format!("{refused} refused"), "all")
        .bounded(goes_on, if goes_on { "an answer afterwards" } else { "no answer afterwards" }, "one")
}

/// Clients drop connections in the middle of the handshake or after it, or send a closing alert or up to a thousand key
/// updates.
fn storm(pando: &Pando, count: usize) -> Finding {
    const NEW_KEYS: usize = 1_000;
    let (server, hello) = (secure_address(pando), client_hello());
    for index in 0..count {
        let mut stream = open(server, index);
        if index % 4 == 0 {
            stream.write_all(&hello).unwrap();
            continue;
        }
        let mut secured = Secured::over(stream).unwrap();
        match index % 4 {
            1 => {}
            2 => {
                secured.session.send_close_notify();
                secured.send(&[]).unwrap();
            }
            // The server may have closed the connection.
            _ => drop((0..if index % 40 == 3 { NEW_KEYS } else { 1 }).try_for_each(|_| {
                secured.session.refresh_traffic_keys().map_err(std::io::Error::other)?;
                secured.send(&[])
            })),
        }
    }
    let another = Connection::open_tls(server, &tls(), "localhost");
    let served = another.and_then(|mut another| another.entry("", &[])).is_ok_and(|entry| entry.is_some());
    Finding::of(format!("{count} handshakes dropped, ended, or followed by new keys up to {NEW_KEYS} times"))
        .bounded(served, if served { "another is served" } else { "another is not served" }, "by TLS")
}

/// Each client requests far more data under TLS than its socket holds, and reads nothing.
fn unread_answers(pando: &Pando, count: usize) -> Finding {
    const SEARCHES: i32 = 100;
    /// Time for the server to produce answers.
    const ANSWERED: Duration = Duration::from_millis(1_500);
    let server: SocketAddr = secure_address(pando);
    let requests: Vec<u8> = (1..=SEARCHES).flat_map(|id| search(id, MANY, "(objectClass=device)")).collect();
    let connect = |index: usize| {
        let mut secured = Secured::over(open(server, index)).unwrap();
        secured.send(&requests).unwrap();
        secured
    };
    let unread: Vec<Secured<TcpStream>> = (0..count).map(connect).collect();
    std::thread::sleep(ANSWERED);
    drop(unread);
    Finding::of(format!("{count} connections ask {SEARCHES} times for {ENTRIES} entries and read nothing"))
}
