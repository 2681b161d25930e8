//! Attacks with PROXY protocol headers that are malformed, have a wrong size, never end, or come from networks without
//! proxies.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use ldap::ResultCode;

use crate::data;
use crate::hostile_connections::connect_from;
use crate::plan::Plan;
use crate::process::{MIB, connections_possible};
use crate::report::{Finding, Report};
use crate::under_attack::{Bounds, under_attack};
use crate::wire::{closed, endings, open, search};
use test_support::pando::{Pando, Start};
use test_support::{SUFFIX, Scratch};

/// Timeout of the attacked server, in seconds. It applies to a header, and then to a first request.
const FIRST_REQUEST: u64 = 3;

/// Additional time until connections are closed, because the server checks them once a second.
const GRACE: Duration = Duration::from_secs(5);

/// Maximum time until a connection with a malformed header is closed.
const AT_ONCE: Duration = Duration::from_secs(5);

const BOUNDS: Bounds = Bounds { cost: 64 * MIB, slowest: Duration::from_secs(2) };

/// Network of the trusted proxies. Hostile connections come from this network.
const PROXIES: &str = "127.1.0.0/16";

/// An address outside the proxies' network.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 5, 5, 5);

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

const LINE: &[u8] = b"PROXY TCP4 127.9.9.9 127.0.0.1 4711 389\r\n";

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names = ["half-done", "broken", "octet-by-octet", "strangers"].map(|name| format!("proxy/{name}"));
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample("assault-proxy");
    let count = plan.count(500, 5_000).min(connections_possible());
    let attack = |attack: fn(&Pando, usize) -> Finding, count: usize, seconds: u64| {
        under_attack(&scratch, start(&scratch, seconds), BOUNDS, |pando| attack(pando, count))
    };
    let usual = 30;
    report.attack(&names[0], || attack(half_done, count, FIRST_REQUEST));
    report.attack(&names[1], || attack(broken, plan.count(5, 100), usual));
    report.attack(&names[2], || attack(octet_by_octet, plan.count(50, 500), usual));
    report.attack(&names[3], || attack(strangers, plan.count(20, 500), usual));
}

fn start(scratch: &Scratch, first_request: u64) -> Start {
    let node = format!(
        "trusted_networks = [\"127.0.0.0/24\"]\nproxy_networks = [\"{PROXIES}\"]\n\
         first_request_seconds = {first_request}\n"
    );
    let node = scratch.write("node.toml", node);
    Start::new(scratch).arguments(&["--anonymous-read", "--node", node.to_str().unwrap()])
}

/// Returns a header of version 2 that announces `size` octets after its first 16, followed by `rest`.
fn binary(command: u8, family: u8, size: u16, rest: &[u8]) -> Vec<u8> {
    [SIGNATURE, &[command, family], &size.to_be_bytes(), rest].concat()
}

/// Addresses and ports of both ends, in the IPv4 form of version 2.
const ENDS: [u8; 12] = [127, 9, 9, 9, 127, 0, 0, 1, 0x12, 0x67, 1, 0x85];

fn binary_sample() -> Vec<u8> {
    binary(0x21, 0x11, 12, &ENDS)
}

/// Returns a header with as many additional fields as fit into `size` octets.
fn with_additions(size: usize) -> Vec<u8> {
    let additions = [&[0x04, 0, 1, 0][..]].concat().repeat((size - 28) / 4);
    binary(0x21, 0x11, u16::try_from(12 + additions.len()).unwrap(), &[&ENDS[..], &additions].concat())
}

/// Sends headers that never end, some of them octet by octet. The server must close the connections.
fn half_done(pando: &Pando, count: usize) -> Finding {
    let binary_header = binary_sample();
    let lies = binary(0x21, 0x11, 4_000, &ENDS);
    let starts: [&[u8]; 5] = [b"", b"P", &LINE[..20], &binary_header[..20], &lies];
    let connect = |index: usize| {
        let mut stream = open(pando.address(), index);
        stream.write_all(starts[index % starts.len()]).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..count).map(connect).collect();
    // One more octet must not extend the time limit.
    for stream in streams.iter_mut().skip(2).step_by(starts.len()) {
        stream.write_all(&LINE[20..21]).unwrap();
    }
    let longest = Duration::from_secs(FIRST_REQUEST) + GRACE;
    let closed = closed(&endings(&mut streams, longest));
    Finding::of(format!("{count} connections of proxies say half of a header, or nothing")).bounded(
        closed == count,
        format!("{closed} closed"),
        format!("all within {} s, at most {FIRST_REQUEST} s", longest.as_secs()),
    )
}

/// Returns headers, and whether the request after each is processed.
fn shapes() -> Vec<(&'static str, Vec<u8>, bool)> {
    let line = |text: &str| text.as_bytes().to_vec();
    vec![
        ("version 1", LINE.to_vec(), true),
        ("version 2", binary_sample(), true),
        ("LOCAL", binary(0x20, 0, 0, b""), true),
        ("LOCAL with addresses", binary(0x20, 0x11, 12, &ENDS), true),
        ("UNKNOWN", line("PROXY UNKNOWN\r\n"), true),
        ("additions up to 4 KiB", with_additions(4_096), true),
        ("additions beyond 4 KiB", with_additions(8_192), false),
        ("a size of 65,535", binary(0x21, 0x11, u16::MAX, &[0; 70_000]), false),
        ("a size that is too small", binary(0x21, 0x11, 4, &ENDS), false),
        ("another version", binary(0x31, 0x11, 12, &ENDS), false),
        ("another command", binary(0x2f, 0x11, 12, &ENDS), false),
        ("a line without an end", [&b"PROXY TCP4 "[..], &[b'1'; 5_000]].concat(), false),
        ("a line of zeros", [&b"PROXY "[..], &[0; 200]].concat(), false),
        ("a port too many", line("PROXY TCP4 127.9.9.9 127.0.0.1 4711 389 1\r\n"), false),
        ("an address of another family", line("PROXY TCP6 127.9.9.9 127.0.0.1 4711 389\r\n"), false),
        ("a port of 65,536", line("PROXY TCP4 127.9.9.9 127.0.0.1 65536 389\r\n"), false),
        ("two headers", LINE.repeat(2), false),
        ("no header", Vec::new(), false),
    ]
}

/// Sends all kinds of headers, each followed by a search. A connection with a valid header must be accepted. A
/// connection with an invalid header must be closed immediately.
fn broken(pando: &Pando, each: usize) -> Finding {
    let (shapes, mut wrong) = (shapes(), Vec::new());
    for (what, header, is_right) in &shapes {
        let connect = |index| {
            let mut stream = open(pando.address(), index);
            // The write fails if the server closes the connection early. That is not a fault.
            let _ = stream.write_all(&[&header[..], &search(1, SUFFIX, "(uid=ahuber)")].concat());
            let _ = stream.shutdown(Shutdown::Write);
            stream
        };
        let mut streams: Vec<TcpStream> = (0..each).map(connect).collect();
        for ending in endings(&mut streams, AT_ONCE) {
            let is_served = ending.answers().contains(&(1, Some(ResultCode::SUCCESS)));
            if !ending.is_closed || is_served != *is_right {
                wrong.push(*what);
            }
        }
    }
    let first = wrong.first().map_or(String::new(), |first| format!(", first {first}"));
    Finding::of(format!("{each} times each of {} kinds of headers", shapes.len())).bounded(
        wrong.is_empty(),
        format!("{} believed or refused wrongly, or left open{first}", wrong.len()),
        format!("none after {} s", AT_ONCE.as_secs()),
    )
}

/// Sends valid headers octet by octet.
fn octet_by_octet(pando: &Pando, count: usize) -> Finding {
    let request = search(1, SUFFIX, "(uid=ahuber)");
    let mut streams: Vec<TcpStream> = (0..count).map(|index| open(pando.address(), index)).collect();
    let (line, binary_header) = ([LINE, &request].concat(), [&binary_sample()[..], &request].concat());
    for (index, stream) in streams.iter_mut().enumerate() {
        let octets = if index % 2 == 0 { &line } else { &binary_header };
        octets.iter().for_each(|octet| stream.write_all(&[*octet]).unwrap());
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let endings = endings(&mut streams, AT_ONCE);
    let is_served =
        |ending: &&crate::wire::Ending| ending.answers().contains(&(1, Some(ResultCode::SUCCESS)));
    let served = endings.iter().filter(is_served).count();
    Finding::of(format!("{count} headers come one octet at a time")).bounded(
        served == count,
        format!("{served} served"),
        format!("all within {} s", AT_ONCE.as_secs()),
    )
}

/// Sends headers from an address that is not the address of a proxy. The requests after these headers must not be
/// processed.
fn strangers(pando: &Pando, each: usize) -> Finding {
    let headers = [LINE.to_vec(), binary_sample(), binary(0x20, 0, 0, b"")];
    let connect = |index: usize| {
        let mut stream = connect_from(STRANGER, pando.address()).unwrap();
        let request = search(1, SUFFIX, "(uid=ahuber)");
        stream.write_all(&[&headers[index % headers.len()][..], &request].concat()).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..each * headers.len()).map(connect).collect();
    let endings = endings(&mut streams, AT_ONCE);
    let protocol_error = [(0, Some(ResultCode::PROTOCOL_ERROR))];
    let refused =
        endings.iter().filter(|ending| ending.is_closed && ending.answers() == protocol_error).count();
    Finding::of(format!("{} headers from a network without proxies", streams.len())).bounded(
        refused == streams.len(),
        format!("{refused} told protocolError and closed"),
        format!("all within {} s", AT_ONCE.as_secs()),
    )
}
