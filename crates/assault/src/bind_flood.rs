//! A flood of binds with wrong passwords from a thousand addresses, at a steady rate far above the server's rate of
//! hashing. Meanwhile another client searches at a steady rate, and its searches are timed.
//!
//! Names change with each bind, so the server cannot delay the answers by account.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ldap::{ResponseMessage, ResultCode};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::bystander::{PERSON_SOURCE, open};
use crate::data::PERSON;
use crate::wire;
use test_support::SUFFIX;

/// Number of source addresses of the flood, each with one connection.
pub(crate) const SOURCES: usize = 1_000;

/// Number of binds sent per second. Fewer binds are sent while all connections wait for answers.
pub(crate) const BINDS_PER_SECOND: u32 = 2_000;

/// Number of searches per second of the other client.
const SEARCHES_PER_SECOND: u32 = 500;

/// Time between two rounds of the flood.
const ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Niceness of the flood's thread. The server and the timed client have a higher priority, because real attackers use
/// other machines.
const NICENESS: i32 = 10;

/// A running flood, on its own thread.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<FloodOutcome>,
}

/// Outcome of a flood.
#[derive(Debug, Default)]
pub(crate) struct FloodOutcome {
    /// Binds that were hashed and rejected.
    pub(crate) wrong: u64,
    /// Binds answered busy.
    pub(crate) busy: u64,
    /// Connections that ended, and unexpected answers.
    pub(crate) others: Vec<String>,
}

struct Attacker {
    stream: TcpStream,
    waits: bool,
}

impl Flood {
    pub(crate) fn start(server: SocketAddr) -> Flood {
        let attackers: Vec<Attacker> = (0..SOURCES)
            .map(|index| {
                let stream = wire::open(server, index);
                stream.set_nonblocking(true).unwrap();
                Attacker { stream, waits: false }
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            rustix::process::setpriority_process(None, NICENESS).unwrap();
            flood(attackers, &stopped)
        });
        Flood { stop, thread }
    }

    pub(crate) fn end(self) -> FloodOutcome {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn flood(mut attackers: Vec<Attacker>, stop: &AtomicBool) -> FloodOutcome {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    for (index, attacker) in attackers.iter().enumerate() {
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&poll, &attacker.stream, data, epoll::EventFlags::IN).unwrap();
    }
    let (mut flooded, mut events) = (FloodOutcome::default(), Vec::with_capacity(SOURCES));
    let (started, mut sent, mut next) = (Instant::now(), 0, 0);
    while !stop.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * f64::from(BINDS_PER_SECOND)) as u64;
        // Due binds are skipped if all connections wait for an answer.
        for _ in sent..due {
            let attacker = &mut attackers[next % SOURCES];
            next += 1;
            if !attacker.waits {
                let name = format!("uid=guess{next},ou=people,{SUFFIX}");
                attacker.waits = attacker.stream.write_all(&wire::bind(1, &name, "a wrong password")).is_ok();
            }
        }
        sent = due;
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), Some(&ROUND)).unwrap();
        for event in &events {
            let index = event.data.u64() as usize;
            attackers[index].waits = false;
            if !flooded.read_response(&mut attackers[index].stream) {
                let _ = epoll::delete(&poll, &attackers[index].stream);
            }
        }
    }
    flooded
}

impl FloodOutcome {
    /// Reads an answer. Returns false if the connection has ended or the answer is malformed.
    fn read_response(&mut self, stream: &mut TcpStream) -> bool {
        let mut buffer = [0; 4_096];
        let heard = match stream.read(&mut buffer) {
            Ok(0) => Err("closed".to_owned()),
            Ok(count) => Ok(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) => Err(error.to_string()),
        };
        let answer = heard.and_then(|count| {
            let decoded = ResponseMessage::decode(&buffer[..count], &ldap::DecodeLimits::AUTHENTICATED).ok();
            let code = decoded.and_then(|message| message.response.result().map(|result| result.code));
            code.ok_or_else(|| format!("{count} octets that are no answer"))
        });
        match answer {
            Ok(ResultCode::INVALID_CREDENTIALS) => self.wrong += 1,
            Ok(ResultCode::BUSY) => self.busy += 1,
            Ok(other) => self.others.push(other.to_string()),
            Err(what) => {
                self.others.push(what);
                return false;
            }
        }
        true
    }
}

/// Returns the 99th percentile of the latencies of searches at a steady rate. A latency counts from the time at which
/// the search was due. If a search is late only because this thread woke late, its latency counts from the time of
/// sending.
pub(crate) fn p99_of_searches(server: SocketAddr, length: Duration) -> Duration {
    let mut connection = open(PERSON_SOURCE, server).unwrap();
    let pace = Duration::from_secs(1) / SEARCHES_PER_SECOND;
    let (started, mut times) = (Instant::now(), Vec::new());
    let mut answered = started;
    while started.elapsed() < length {
        let due = started + pace * times.len() as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // If this thread wakes late although the previous answer came in time, the server is not at fault, and the
        // latency counts from now.
        let latency_start = if answered > due { due } else { Instant::now() };
        assert!(connection.entry(PERSON, &["cn"]).unwrap().is_some());
        answered = Instant::now();
        times.push(answered - latency_start);
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}
