//! The load driver: many connections with requests outstanding on each, in one thread over epoll, so that one core can
//! keep a server busy.
//!
//! Closed loop: a connection asks again as soon as an answer is there. That is right for the most that a server can do
//! and for its CPU per operation; latencies under a given rate need an open loop.

pub mod requests;

use self::requests::Workload;
use crate::cpu;
use client::Connection;
use hdrhistogram::Histogram;
use ldap::{DecodeLimits, MessageId, Response, ResponseMessage, ResultCode};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long the driver waits for any answer at all before it gives up: so many waits of so long. Several, because one
/// may end at once when a virtual machine was stopped for a while.
const SILENT_WAITS_MAX: u32 = 12;
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Octets read at a time.
const READ_SIZE: usize = 64 * 1024;
/// The longest latency that the histogram tells from longer ones.
const LATENCY_MAX_MICROS: u64 = 60_000_000;

/// How to drive.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the server listens.
    pub address: SocketAddr,
    /// How many connections.
    pub connections: usize,
    /// How many requests are outstanding on each.
    pub outstanding: usize,
    /// Name and password of a simple bind on each connection.
    pub bind: Option<(String, String)>,
    /// How long to drive before counting.
    pub warm_up: Duration,
    /// How long to count; `None` until the workload has no more.
    pub measure: Option<Duration>,
    /// The server's process, whose CPU time is to be read.
    pub server_process: Option<u32>,
}

/// What was measured, after the warm-up.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Operations answered.
    pub operations: u64,
    /// Entries that searches returned.
    pub entries: u64,
    /// Operations by result code.
    pub codes: BTreeMap<u32, u64>,
    /// How long it took.
    pub elapsed: Duration,
    /// Time from request to final answer, in microseconds.
    pub latency_micros: Histogram<u64>,
    /// The server's CPU time meanwhile.
    pub server_cpu: Option<Duration>,
}

impl Summary {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// The server's CPU time for one operation, in microseconds.
    pub fn cpu_micros_per_operation(&self) -> Option<f64> {
        Some(self.server_cpu?.as_secs_f64() * 1e6 / self.operations as f64)
    }

    /// Operations that ended with another result code than success.
    pub fn failures(&self) -> u64 {
        self.operations - self.codes.get(&ResultCode::SUCCESS.0).copied().unwrap_or_default()
    }
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A connection could not be made, or broke.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// A connection's bind failed.
    #[error("bind: {0}")]
    Bind(String),
    /// The server closed a connection.
    #[error("the server closed a connection")]
    Closed,
    /// The server sent something that is no LDAP response.
    #[error("not an LDAP response: {0}")]
    Decode(String),
    /// Nothing came for a long time.
    #[error("no answer for {} s", SILENT_WAITS_MAX * WAIT_MAX.as_secs() as u32)]
    Silence,
}

/// Drives the workload and measures.
///
/// # Errors
/// When the server cannot be reached or does not answer. Result codes other than success are counted, not errors.
pub fn drive(options: &Options, workload: &mut impl Workload) -> Result<Summary, LoadError> {
    let mut driver = Driver::connect(options)?;
    for line in &mut driver.lines {
        line.fill(workload);
        line.flush()?;
    }
    if !options.warm_up.is_zero() {
        driver.turn(workload, Some(options.warm_up))?;
        driver.tally = Tally::new();
    }
    let cpu_before = options.server_process.map(cpu::process_time).transpose()?;
    let started = Instant::now();
    driver.turn(workload, options.measure)?;
    let elapsed = started.elapsed();
    let cpu_after = options.server_process.map(cpu::process_time).transpose()?;
    let tally = driver.tally;
    Ok(Summary {
        operations: tally.codes.values().sum(),
        entries: tally.entries,
        codes: tally.codes,
        elapsed,
        latency_micros: tally.latency_micros,
        server_cpu: cpu_after.zip(cpu_before).map(|(after, before)| after - before),
    })
}

/// What is counted.
struct Tally {
    entries: u64,
    codes: BTreeMap<u32, u64>,
    latency_micros: Histogram<u64>,
}

impl Tally {
    fn new() -> Tally {
        let latency_micros = Histogram::new_with_max(LATENCY_MAX_MICROS, 3).expect("constant bounds");
        Tally { entries: 0, codes: BTreeMap::new(), latency_micros }
    }
}

struct Driver {
    poll: Poll,
    lines: Vec<Line>,
    tally: Tally,
}

impl Driver {
    fn connect(options: &Options) -> Result<Driver, LoadError> {
        let poll = Poll::new()?;
        let mut lines = Vec::with_capacity(options.connections);
        for index in 0..options.connections {
            let mut connection =
                Connection::open(options.address).map_err(|error| LoadError::Bind(error.to_string()))?;
            if let Some((name, password)) = &options.bind {
                let outcome =
                    connection.bind(name, password).map_err(|error| LoadError::Bind(error.to_string()))?;
                if !outcome.is_success() {
                    return Err(LoadError::Bind(format!("{} {}", outcome.code, outcome.diagnostic)));
                }
            }
            let stream = connection.into_stream();
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
            lines.push(Line::new(stream, options.outstanding));
        }
        Ok(Driver { poll, lines, tally: Tally::new() })
    }

    /// Drives for a time, or until the workload is used up and everything is answered.
    fn turn(&mut self, workload: &mut impl Workload, duration: Option<Duration>) -> Result<(), LoadError> {
        let started = Instant::now();
        let mut events = Events::with_capacity(self.lines.len().max(16));
        let mut silent_waits = 0;
        loop {
            let left = duration.map(|duration| duration.saturating_sub(started.elapsed()));
            if left.is_some_and(|left| left.is_zero()) || self.lines.iter().all(Line::is_idle) {
                return Ok(());
            }
            self.poll.poll(&mut events, Some(left.unwrap_or(WAIT_MAX).min(WAIT_MAX)))?;
            silent_waits = if events.is_empty() { silent_waits + 1 } else { 0 };
            if silent_waits == SILENT_WAITS_MAX {
                return Err(LoadError::Silence);
            }
            for event in &events {
                let line = &mut self.lines[event.token().0];
                line.receive(&mut self.tally)?;
                line.fill(workload);
                line.flush()?;
            }
        }
    }
}

/// One connection. A request's id is its slot plus a multiple of the number of slots, plus one.
struct Line {
    stream: TcpStream,
    slots: Vec<Slot>,
    free: Vec<usize>,
    input: Vec<u8>,
    output: Vec<u8>,
}

struct Slot {
    next_id: i32,
    asked: Instant,
}

impl Line {
    fn new(stream: TcpStream, outstanding: usize) -> Line {
        let slot = |index| Slot { next_id: FIRST_ID + index as i32, asked: Instant::now() };
        Line {
            stream,
            slots: (0..outstanding).map(slot).collect(),
            free: (0..outstanding).collect(),
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Asks on every slot that is free.
    fn fill(&mut self, workload: &mut impl Workload) {
        let count = self.slots.len() as i32;
        while let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index];
            if !workload.next(MessageId(slot.next_id), &mut self.output) {
                self.free.push(index);
                return;
            }
            slot.next_id = slot.next_id.checked_add(count).unwrap_or(FIRST_ID + index as i32);
            slot.asked = Instant::now();
        }
    }

    /// Writes what the socket takes.
    fn flush(&mut self) -> Result<(), LoadError> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what there is and counts the answers.
    fn receive(&mut self, tally: &mut Tally) -> Result<(), LoadError> {
        loop {
            let filled = self.input.len();
            self.input.resize(filled + READ_SIZE, 0);
            let result = self.stream.read(&mut self.input[filled..]);
            self.input.truncate(filled + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => return Err(LoadError::Closed),
                Ok(count) => {
                    self.take_messages(tally)?;
                    // A short read has emptied the socket; the next octets bring an event of their own.
                    if count < READ_SIZE {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take_messages(&mut self, tally: &mut Tally) -> Result<(), LoadError> {
        let decode_error = |error: &dyn std::fmt::Display| LoadError::Decode(error.to_string());
        let mut consumed = 0;
        while let Some(len) =
            ldap::frame_len(&self.input[consumed..]).map_err(|error| decode_error(&error))?
        {
            let Some(bytes) = self.input.get(consumed..consumed + len) else { break };
            consumed += len;
            let message = ResponseMessage::decode(bytes, &DecodeLimits::AUTHENTICATED);
            let message = message.map_err(|error| decode_error(&error))?;
            if let Response::SearchEntry(_) = message.response {
                tally.entries += 1;
            }
            if let Some(result) = message.response.result() {
                let index = (message.id.0 - FIRST_ID).rem_euclid(self.slots.len() as i32) as usize;
                *tally.codes.entry(result.code.0).or_default() += 1;
                let micros = self.slots[index].asked.elapsed().as_micros();
                tally.latency_micros.saturating_record(u64::try_from(micros).unwrap_or(u64::MAX));
                self.free.push(index);
            }
        }
        self.input.drain(..consumed);
        Ok(())
    }
}

/// The first id after the bind's.
const FIRST_ID: i32 = 2;
