//! Attacks on the web console and SCIM: endless new connections, slow heads and bodies, large bodies, floods of
//! sign-ins, stolen or guessed cookies, expired sessions, cross-site requests, hostile values, and a slow or stopped
//! writer. A browser must be answered during the attacks.

mod pages;
mod sessions;
mod writers;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bystander::ms;
use crate::data::{self, PERSON, PERSON_PASSWORD};
use crate::hostile_connections::{connect_from, hostile_source};
use crate::plan::Plan;
use crate::process::{MIB, wait_until};
use crate::report::{Finding, Report};
use crate::under_attack::{Bounds, under_attack};
use test_support::Scratch;
use test_support::http::{Answer, Browser, console_address, quoted, send_over};
use test_support::pando::{Pando, Start};

const BOUNDS: Bounds = Bounds { cost: 96 * MIB, slowest: Duration::from_secs(2) };

/// Maximum latency of an answer to a browser during an attack.
const BROWSER_MAX: Duration = Duration::from_secs(3);

/// Number of connections that the console accepts from one address (see `console/src/limits.rs`).
const CONNECTIONS_PER_SOURCE: usize = 128;

/// Maximum time until a connection with an incomplete request is closed: 30 seconds, and a margin until the server
/// notices.
const INCOMPLETE_MAX: Duration = Duration::from_secs(45);

/// Maximum time until a connection above the limit is closed.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Number of addresses that flood the console with sign-ins.
const FLOODING: usize = 40;

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names = [
        "connections",
        "slow",
        "bodies",
        "sign-ins",
        "cookies",
        "other-sites",
        "values",
        "dead-writer",
        "slow-writer",
        "expired-sessions",
        "scim",
    ]
    .map(|name| format!("web/{name}"));
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let scratch = data::sample("assault-web");
    let attack = |attack: &dyn Fn(&Pando) -> Finding| under_attack(&scratch, start(&scratch), BOUNDS, attack);
    let seconds = Duration::from_secs(plan.count(5, 30) as u64);
    let mut random = plan.random("web/cookies");
    let cookies: Vec<[u8; 32]> =
        (0..plan.count(500, 10_000)).map(|_| std::array::from_fn(|_| random.u8(..))).collect();
    report.attack(&names[0], || attack(&|pando| connections(pando, plan.count(300, 2_000))));
    report.attack(&names[1], || attack(&|pando| slow(pando, plan.count(40, 400))));
    report.attack(&names[2], || attack(&|pando| bodies(pando, plan.count(10, 200))));
    report.attack(&names[3], || attack(&|pando| sign_ins(pando, seconds)));
    report.attack(&names[4], || attack(&|pando| pages::cookies(pando, &cookies)));
    report.attack(&names[5], || attack(&pages::other_sites));
    report.attack(&names[6], || attack(&pages::values));
    report.attack(&names[7], || writers::dead(&scratch));
    report.attack(&names[8], || writers::slow(&scratch));
    report.attack(&names[9], || sessions::expired(&scratch));
    report.attack(&names[10], || attack(&|pando| scim(pando, plan.count(20, 500))));
}

/// The part of the node file with the console and SCIM.
const CONSOLE: &str = "[console]\nlisten = [\"127.0.0.1:0\"]\ntls = false\n[scim]\n\
                       users = \"ou=people,dc=example,dc=com\"\ngroups = \"ou=groups,dc=example,dc=com\"\n";

fn start(scratch: &Scratch) -> Start {
    let node = scratch.write("node.toml", format!("trusted_networks = [\"127.0.0.0/24\"]\n{CONSOLE}"));
    Start::new(scratch).arguments(&["--anonymous-read", "--node", node.to_str().unwrap()])
}

/// Returns a POST request with a form.
fn form(path: &str, fields: &[(&str, &str)], head: &str) -> Vec<u8> {
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", quoted(name), quoted(value)));
    let body = pairs.collect::<Vec<_>>().join("&");
    format!(
        "POST {path} HTTP/1.1\r\nHost: pando\r\nConnection: close\r\nAccept: application/json\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: {}\r\n{head}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn get(path: &str, head: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: pando\r\nConnection: close\r\n{head}\r\n").into_bytes()
}

/// Sends a request from an address.
fn send_from(source: Ipv4Addr, at: SocketAddr, request: &[u8]) -> Answer {
    send_over(connect_from(source, at).unwrap(), request)
}

/// Adds to `finding` the latency of a page that a browser requests.
fn with_a_browser(at: SocketAddr, finding: Finding) -> Finding {
    let started = Instant::now();
    let status = send_from(Ipv4Addr::LOCALHOST, at, &get("/health", "")).status;
    let took = started.elapsed();
    finding.timely(
        status == 200,
        took <= BROWSER_MAX,
        format!("a browser: {status}, {}", ms(took)),
        format!("200 within {}", ms(BROWSER_MAX)),
    )
}

/// Reads the octets that the server has sent. Returns true if the server has closed the connection after them.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    loop {
        match stream.read(&mut [0; 4_096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// One address opens more and more connections, and sends an octet on each.
fn connections(pando: &Pando, count: usize) -> Finding {
    let at = console_address(pando);
    let connect = |_| {
        let mut stream = connect_from(hostile_source(0), at).unwrap();
        // Send an octet, because the kernel does not pass a connection to the server before it has received data.
        let _ = stream.write(b"G");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..count).map(connect).collect();
    let beyond = count - CONNECTIONS_PER_SOURCE;
    let mut closed = 0;
    let is_kept = wait_until(AT_ONCE, || {
        closed = streams.iter_mut().map(|stream| usize::from(is_closed(stream))).sum();
        closed >= beyond
    });
    let finding = Finding::of(format!("one address opens {count} connections")).bounded(
        is_kept,
        format!("{closed} closed at once"),
        format!("at least {beyond} within {}", ms(AT_ONCE)),
    );
    with_a_browser(at, finding)
}

/// Sends requests whose head or body does not end, some of them octet by octet.
fn slow(pando: &Pando, count: usize) -> Finding {
    let at = console_address(pando);
    let starts: [&[u8]; 4] = [
        b"",
        b"GET /sign-in HTT",
        b"POST /sign-in HTTP/1.1\r\nHost: p\r\nContent-Type: application/x-www-form-urlencoded\r\n\
          Content-Length: 1000\r\n\r\nname=a",
        b"POST /scim/v2/Users HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"",
    ];
    let connect = |index: usize| {
        let mut stream = connect_from(hostile_source(index % 8), at).unwrap();
        stream.write_all(starts[index % starts.len()]).unwrap();
        stream
    };
    let started = Instant::now();
    let mut streams: Vec<TcpStream> = (0..count).map(connect).collect();
    let finding =
        with_a_browser(at, Finding::of(format!("{count} requests whose head or body does not end")));
    let mut closed = 0;
    let is_kept = wait_until(INCOMPLETE_MAX, || {
        for stream in streams.iter_mut().skip(1).step_by(2) {
            // Another octet must not extend the time limit.
            let _ = stream.write(b"x");
        }
        closed = streams.iter_mut().map(|stream| usize::from(is_closed(stream))).sum();
        closed == count
    });
    finding.bounded(
        is_kept,
        format!("{closed} closed after {}", ms(started.elapsed())),
        format!("all within {}", ms(INCOMPLETE_MAX)),
    )
}

/// Sends bodies above the limit: with a length in the head, in chunks, and to SCIM.
fn bodies(pando: &Pando, each: usize) -> Finding {
    let at = console_address(pando);
    let head = |path: &str, more: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: pando\r\nConnection: close\r\nContent-Type: \
             application/x-www-form-urlencoded\r\n{more}\r\n"
        )
    };
    let large = "x".repeat(3 << 20);
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let mut wrong = Vec::new();
    for path in ["/sign-in", "/searches", "/scim/v2/Users"] {
        let requests = [
            head(path, &format!("Content-Length: {}\r\n", 1_u64 << 40)).into_bytes(),
            [head(path, &format!("Content-Length: {}\r\n", large.len())), large.clone()]
                .concat()
                .into_bytes(),
            [head(path, "Transfer-Encoding: chunked\r\n"), chunked.clone()].concat().into_bytes(),
        ];
        for (place, request) in requests.iter().enumerate() {
            for index in 0..each {
                let status = send_from(hostile_source(index % 4), at, request).status;
                // A page that needs a session does not read the body of a request that has no session.
                if status != 413 && !(path == "/searches" && status == 303) {
                    wrong.push(format!("{path} {place}: {status}"));
                }
            }
        }
    }
    let first = wrong.first().map_or(String::new(), |first| format!(", first {first}"));
    let finding = Finding::of(format!("{} bodies of 3 MiB or more", 9 * each)).bounded(
        wrong.is_empty(),
        format!("{} answered by another status{first}", wrong.len()),
        "none",
    );
    with_a_browser(at, finding)
}

/// Wrong sign-ins arrive from many addresses. A user must be able to sign in from an address from which the user has
/// signed in before.
fn sign_ins(pando: &Pando, length: Duration) -> Finding {
    let at = console_address(pando);
    let wrong = form("/sign-in", &[("name", PERSON), ("password", "wrong")], "");
    let right = || {
        let mut browser = Browser::new(pando);
        let started = Instant::now();
        let status = browser.sign_in(PERSON, PERSON_PASSWORD).status;
        let took = started.elapsed();
        if status == 200 {
            assert_eq!(browser.post("/sign-out", &[]).status, 303);
        }
        (status, took)
    };
    assert_eq!(right().0, 200);
    let is_over = AtomicBool::new(false);
    let (mut longest, mut refused, mut tried) = (Duration::ZERO, Vec::new(), 0);
    let flood = |index: usize| {
        let mut statuses = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            statuses.push(send_from(hostile_source(index), at, &wrong).status);
        }
        statuses
    };
    let flood = &flood;
    let statuses = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..FLOODING).map(|index| scope.spawn(move || flood(index))).collect();
        let started = Instant::now();
        while started.elapsed() < length {
            let (status, took) = right();
            (longest, tried) = (longest.max(took), tried + 1);
            if status != 200 {
                refused.push(status);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<u16>>()
    });
    let others = statuses.iter().filter(|status| ![401, 503].contains(*status)).count();
    Finding::of(format!("{FLOODING} addresses send {} wrong sign-ins", statuses.len()))
        .bounded(others == 0, format!("{others} answered by something else than 401 or 503"), "none")
        .timely(
            refused.is_empty(),
            longest <= BROWSER_MAX,
            format!("{} of {tried} right ones refused, the slowest after {}", refused.len(), ms(longest)),
            format!("none, {}", ms(BROWSER_MAX)),
        )
}

/// Sends SCIM requests with wrong credentials, wrong paths and malformed bodies.
fn scim(pando: &Pando, each: usize) -> Finding {
    let at = console_address(pando);
    let requests = [
        get("/scim/v2/Users", "Authorization: Basic eDp5\r\n"),
        get("/scim/v2/Users", "Authorization: Bearer x.y.z\r\n"),
        get("/scim/v2/Users?filter=((((((((((((((((((((((", ""),
        get("/scim/v2/../../etc/passwd", ""),
        form("/scim/v2/Bulk", &[("x", "y")], "Authorization: Basic eDp5\r\n"),
        form("/scim/v2/Users", &[("{", "[[[[[[[[[[")], ""),
    ];
    let mut wrong = Vec::new();
    for index in 0..each {
        for request in &requests {
            let status = send_from(hostile_source(index % 16), at, request).status;
            if !(400..500).contains(&status) && status != 503 {
                wrong.push(status);
            }
        }
    }
    let finding = Finding::of(format!("{} requests to SCIM that prove nothing", each * requests.len()))
        .bounded(wrong.is_empty(), format!("{} answered by another status: {wrong:?}", wrong.len()), "none");
    with_a_browser(at, finding)
}
