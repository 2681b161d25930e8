//! Clients that occupy connections of the metrics listener, while probes from the same address request `/ready`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::Tls;

use crate::bystander::ms;
use crate::data;
use crate::hostile_connections::connect_from;
use crate::plan::Plan;
use crate::process::{MIB, wait_until};
use crate::report::{Finding, Report};
use crate::under_attack::{Bounds, under_attack};
use test_support::Scratch;
use test_support::pando::{Pando, Start};

/// Maximum latency of a probe.
const PROBE_MAX: Duration = Duration::from_millis(100);

/// Delay after which a hostile client reconnects if the server has closed its connection.
const RETURN: Duration = Duration::from_millis(500);

/// Maximum time to open all hostile connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of concurrent hostile connections.
const HOSTILE: usize = 1_000;

const BOUNDS: Bounds = Bounds { cost: 64 * MIB, slowest: Duration::from_secs(2) };

/// Address of the probes. Some hostile clients use the same address.
const PROBE_SOURCE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Behavior of the hostile clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostileBehavior {
    /// Clients connect and send nothing.
    Idle,
    /// Clients send an octet of a request from time to time.
    Slow,
    /// Clients stop in the middle of a handshake.
    Handshake,
    /// Clients request the metrics and do not read them.
    Unread,
}

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let attacks = [
        ("idle", HostileBehavior::Idle, 1),
        ("idle-everywhere", HostileBehavior::Idle, 64),
        ("slow", HostileBehavior::Slow, 1),
        ("slow-everywhere", HostileBehavior::Slow, 64),
        ("handshakes", HostileBehavior::Handshake, 64),
        ("unread", HostileBehavior::Unread, 1),
    ];
    let attacks = attacks.map(|(name, manner, sources)| (format!("probes/{name}"), manner, sources));
    if !attacks.iter().any(|(name, ..)| report.wants(name)) {
        return;
    }
    let scratch = data::sample("assault-probes");
    for (name, manner, sources) in attacks {
        let time = Duration::from_secs(plan.count(2, 12) as u64);
        report.attack(&name, || {
            let start = start(&scratch, manner == HostileBehavior::Handshake);
            under_attack(&scratch, start, BOUNDS, |pando| attack(pando, manner, sources, time))
        });
    }
}

fn start(scratch: &Scratch, is_secure: bool) -> Start {
    let node = format!("[metrics]\nlisten = \"127.0.0.1:0\"\ntls = {is_secure}\n");
    let node = scratch.write("node.toml", node);
    Start::new(scratch).arguments(&["--anonymous-read", "--node", node.to_str().unwrap()])
}

/// Returns the address of the metrics listener, which is in the server's log.
fn metrics_address(pando: &Pando) -> SocketAddr {
    let log = pando.log();
    // Each start appends to the log, so the last line counts.
    let (_, rest) = log.rsplit_once("metrics at ").expect("a line about metrics");
    rest.split_whitespace().next().unwrap().split('/').nth(2).unwrap().parse().unwrap()
}

fn attack(pando: &Pando, manner: HostileBehavior, sources: u8, time: Duration) -> Finding {
    let at = metrics_address(pando);
    let tls = (manner == HostileBehavior::Handshake).then(|| Tls::insecure().unwrap());
    let (is_over, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut probes, mut slowest, mut failures) = (0, Duration::ZERO, Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| hold(at, manner, sources, &connections, &is_over));
        let are_there = wait_until(PATIENCE, || connections.load(Ordering::Relaxed) >= HOSTILE);
        if !are_there {
            failures.push("hostile clients cannot connect".to_owned());
        }
        let until = Instant::now() + time;
        while Instant::now() < until {
            for path in ["/live", "/ready", "/metrics"] {
                let started = Instant::now();
                match probe(at, path, tls.as_ref()) {
                    Ok(()) => slowest = slowest.max(started.elapsed()),
                    Err(why) => failures.push(format!("{path}: {why}")),
                }
                probes += 1;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let connections = connections.into_inner();
    let done =
        format!("{HOSTILE} clients at a time from {sources} addresses, {manner:?}, {connections} in all");
    let failed = failures.first().map_or(String::new(), |first| format!(", first failure: {first}"));
    Finding::of(done).timely(
        failures.is_empty(),
        slowest <= PROBE_MAX,
        format!("{} of {probes} probes answered, slowest {}{failed}", probes - failures.len(), ms(slowest)),
        format!("all, each within {}", ms(PROBE_MAX)),
    )
}

/// Occupies connections, and reconnects soon after the server has closed one.
fn hold(
    at: SocketAddr,
    manner: HostileBehavior,
    sources: u8,
    connections: &AtomicUsize,
    is_over: &AtomicBool,
) {
    let mut hello = Vec::new();
    Tls::insecure().unwrap().session("localhost").unwrap().write_tls(&mut hello).unwrap();
    let connect = |index: usize| {
        // The probes connect from the first of these addresses, too.
        let source = Ipv4Addr::from(u32::from(PROBE_SOURCE) + (index % usize::from(sources)) as u32);
        let mut stream = connect_from(source, at).ok()?;
        let octets: &[u8] = match manner {
            HostileBehavior::Idle => b"",
            HostileBehavior::Slow => b"GET /live HTTP/1.1\r\nX: ",
            HostileBehavior::Handshake => &hello[..hello.len() - index % 2],
            HostileBehavior::Unread => b"GET /metrics HTTP/1.1\r\nHost: pando\r\n\r\n",
        };
        stream.write_all(octets).ok()?;
        stream.set_nonblocking(true).ok()?;
        connections.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    };
    let mut held: Vec<Option<TcpStream>> = (0..HOSTILE).map(connect).collect();
    while !is_over.load(Ordering::Relaxed) {
        for (index, place) in held.iter_mut().enumerate() {
            let stays = place.as_mut().is_some_and(|stream| match manner {
                HostileBehavior::Unread => stream.peer_addr().is_ok(),
                _ => goes_on(stream, manner),
            });
            if !stays {
                *place = connect(index);
            }
        }
        std::thread::sleep(RETURN);
    }
}

/// Returns true if the server has not closed a connection. A slow client sends another octet to test it.
fn goes_on(stream: &mut TcpStream, manner: HostileBehavior) -> bool {
    if manner == HostileBehavior::Slow && stream.write_all(b"x").is_err() {
        return false;
    }
    match stream.read(&mut [0; 4_096]) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

fn probe(at: SocketAddr, path: &str, tls: Option<&Tls>) -> Result<(), String> {
    let mut stream = connect_from(PROBE_SOURCE, at).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: pando\r\n\r\n");
    let mut answer = String::new();
    let outcome = match tls {
        None => stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer)),
        Some(tls) => {
            let mut session = tls.session("localhost").unwrap();
            let mut stream = rustls::Stream::new(&mut session, &mut stream);
            stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer))
        }
    };
    match outcome {
        Err(error) => Err(error.to_string()),
        Ok(_) if answer.starts_with("HTTP/1.1 200") => Ok(()),
        Ok(_) => Err(format!("{answer:?}")),
    }
}
