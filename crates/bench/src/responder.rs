//! The null responder: a server that reads the envelope of a message and sends a fixed answer.
//!
//! The responder does the minimum of work, and answers all requests of one read in one write. So a measurement against
//! it shows the limit of this machine for any server. To test the driver, the responder can also delay answers, stall,
//! answer wrongly and close connections ([`Faults`]). It reports these actions ([`Report`]).

mod canned;
mod faults;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use canned::{Reply, Request};
pub use faults::{Delay, FaultError, Faults, Stall};

use crate::Seeded;
use crate::result::Latency;

/// Octets read at a time.
const READ_SIZE: usize = 64 * 1024;
/// Maximum length of a message in octets. No client in this crate sends longer messages.
const MESSAGE_LEN_MAX: usize = 16 << 20;
/// Interval between checks whether the responder must end.
const TICK: Duration = Duration::from_millis(50);

const LISTENER: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);

/// Counts of a responder's actions.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests answered.
    pub answered: u64,
    /// Number of searches among the answered requests.
    pub searches: u64,
    /// Requests answered wrongly on purpose.
    pub wrong: u64,
    /// Connections closed on purpose.
    pub closed: u64,
    /// Time from reading each delayed request to writing its answer. The latency that the client measures is at least
    /// as long.
    pub delays: Latency,
    /// Begin and end of each stall.
    pub stalls: Vec<(Instant, Instant)>,
}

/// A responder on its own thread. Dropping the value ends the responder.
#[derive(Debug)]
pub struct Responder {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Report>>>,
}

impl Responder {
    /// Starts a responder. Port 0 stands for any free port.
    ///
    /// # Errors
    /// The responder cannot listen on the address.
    pub fn start(address: SocketAddr, faults: Faults) -> io::Result<Responder> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut server = Server::new(listener, faults)?;
        let stopped = stop.clone();
        let run = move || server.run(&stopped);
        let thread = std::thread::Builder::new().name("bench-null".to_owned()).spawn(run)?;
        Ok(Responder { address, stop, thread: Some(thread) })
    }

    /// Returns the address of the responder's listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the responder and returns its report.
    ///
    /// # Errors
    /// The failure that ended the responder earlier.
    pub fn finish(mut self) -> io::Result<Report> {
        self.end()
    }

    fn end(&mut self) -> io::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(Report::default()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the responder's thread has failed")))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // The outcome is ignored; callers that need it use `finish()`.
        let _ = self.end();
    }
}

/// Answers requests on this thread until `stop` is set.
///
/// # Errors
/// The responder cannot listen on the address, or a system call fails.
pub fn serve(
    address: SocketAddr,
    faults: Faults,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<Report> {
    let listener = TcpListener::bind(address)?;
    ready(listener.local_addr()?);
    Server::new(listener, faults)?.run(stop)
}

struct Server {
    poll: Poll,
    listener: TcpListener,
    timer: OwnedFd,
    faults: Faults,
    random: Seeded,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    /// Number that distinguishes successive connections with the same index.
    generation: u64,
    due: BinaryHeap<Reverse<Pending>>,
    buffer: Vec<u8>,
    base: Instant,
    requests: u64,
    next_stall: Option<Duration>,
    report: Report,
}

struct Peer {
    stream: TcpStream,
    generation: u64,
    partial: Vec<u8>,
    output: Vec<u8>,
}

/// A delayed answer, and the time in nanoseconds at which it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    due: u64,
    read: u64,
    peer: usize,
    generation: u64,
    request: Request,
    reply: Reply,
}

impl Server {
    fn new(mut listener: TcpListener, faults: Faults) -> io::Result<Server> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        Ok(Server {
            poll,
            listener,
            timer,
            random: Seeded::new(faults.seed),
            next_stall: faults.stall.map(|stall| stall.every),
            faults,
            peers: Vec::new(),
            free: Vec::new(),
            generation: 0,
            due: BinaryHeap::new(),
            buffer: vec![0; READ_SIZE],
            base: Instant::now(),
            requests: 0,
            report: Report::default(),
        })
    }

    fn now(&self) -> u64 {
        self.base.elapsed().as_nanos() as u64
    }

    fn run(&mut self, stop: &AtomicBool) -> io::Result<Report> {
        let mut events = Events::with_capacity(1024);
        while !stop.load(Ordering::Relaxed) {
            self.arm()?;
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.stall();
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    TIMER => {
                        let mut count = [0; 8];
                        // The read only clears the timer. Its result is not needed.
                        let _ = rustix::io::read(self.timer.as_fd(), &mut count);
                    }
                    Token(peer) => self.serve(peer),
                }
            }
            self.answer_due();
        }
        Ok(std::mem::take(&mut self.report))
    }

    /// Waits on this thread if a stall is due. Requests then wait in the kernel.
    fn stall(&mut self) {
        let (Some(stall), Some(at)) = (self.faults.stall, self.next_stall) else { return };
        // The schedule of stalls begins with the first request.
        if self.requests == 0 {
            self.next_stall = Some(self.base.elapsed() + stall.every);
            return;
        }
        let is_over = stall.times.is_some_and(|times| self.report.stalls.len() >= times);
        if !is_over && self.base.elapsed() >= at {
            let began = Instant::now();
            std::thread::sleep(stall.length);
            self.report.stalls.push((began, Instant::now()));
            self.next_stall = Some(at + stall.every.max(stall.length));
        }
    }

    fn arm(&mut self) -> io::Result<()> {
        let Some(Reverse(next)) = self.due.peek() else { return Ok(()) };
        let left = Duration::from_nanos(next.due.saturating_sub(self.now()).max(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let setting = Itimerspec { it_interval: zero, it_value: value };
        rustix::time::timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The peer has already disconnected, or there are no free file descriptors. Existing connections
                // continue.
                Err(_) => return Ok(()),
            };
            // This fails if the peer has already disconnected.
            let _ = stream.set_nodelay(true);
            let index = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            self.poll.registry().register(
                &mut stream,
                Token(index),
                Interest::READABLE | Interest::WRITABLE,
            )?;
            self.generation += 1;
            let generation = self.generation;
            self.peers[index] = Some(Peer { stream, generation, partial: Vec::new(), output: Vec::new() });
        }
    }

    fn close(&mut self, index: usize) {
        if self.peers[index].take().is_some() {
            self.free.push(index);
        }
    }

    fn serve(&mut self, index: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.read_once(index, &mut buffer) {}
        self.buffer = buffer;
        self.flush(index);
    }

    /// Reads once and answers the requests. Returns true if there may be more to read.
    fn read_once(&mut self, index: usize, buffer: &mut Vec<u8>) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return false };
        let start = peer.partial.len();
        if buffer.len() < start + READ_SIZE {
            buffer.resize(start + READ_SIZE, 0);
        }
        let count = match peer.stream.read(&mut buffer[start..start + READ_SIZE]) {
            Ok(0) => {
                self.close(index);
                return false;
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(_) => {
                self.close(index);
                return false;
            }
        };
        buffer[..start].copy_from_slice(&peer.partial);
        peer.partial.clear();
        let octets = &buffer[..start + count];
        let consumed = self.take(index, octets);
        match (consumed, self.peers.get_mut(index)) {
            (Some(consumed), Some(Some(peer))) if octets.len() - consumed <= MESSAGE_LEN_MAX => {
                peer.partial.extend_from_slice(&octets[consumed..]);
                count == READ_SIZE
            }
            _ => {
                self.close(index);
                false
            }
        }
    }

    /// Answers the complete messages. Returns their total length, or `None` if the connection must be closed.
    fn take(&mut self, index: usize, octets: &[u8]) -> Option<usize> {
        let mut consumed = 0;
        let read = if self.faults.delay.is_none() { 0 } else { self.now() };
        let Some(Some(peer)) = self.peers.get_mut(index) else { return None };
        while let Some((request, len)) = Request::read(&octets[consumed..]).ok()? {
            consumed += len;
            if request.is_unbind() {
                return None;
            }
            self.requests += 1;
            let is_due = |every: Option<u64>| every.is_some_and(|every| self.requests.is_multiple_of(every));
            if is_due(self.faults.close_every) {
                self.report.closed += 1;
                return None;
            }
            let is_search = request.is_search();
            let is_wrong = is_search && is_due(self.faults.wrong_every);
            self.report.answered += u64::from(request.has_answer());
            self.report.searches += u64::from(is_search);
            self.report.wrong += u64::from(is_wrong);
            let reply = if is_wrong { Reply::Wrong } else { Reply::Right };
            match &self.faults.delay {
                Delay::None => request.answer(reply, &mut peer.output),
                delay => {
                    let due = read + delay.draw(&mut self.random).as_nanos() as u64;
                    let generation = peer.generation;
                    self.due.push(Reverse(Pending { due, read, peer: index, generation, request, reply }));
                }
            }
        }
        Some(consumed)
    }

    fn answer_due(&mut self) {
        while let Some(Reverse(pending)) = self.due.peek().copied() {
            let now = self.now();
            if pending.due > now {
                return;
            }
            self.due.pop();
            let Some(Some(peer)) = self.peers.get_mut(pending.peer) else { continue };
            if peer.generation == pending.generation {
                pending.request.answer(pending.reply, &mut peer.output);
                self.flush(pending.peer);
                self.report.delays.record(Duration::from_nanos(now - pending.read));
            }
        }
    }

    fn flush(&mut self, index: usize) {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        let mut written = 0;
        while written < peer.output.len() {
            match peer.stream.write(&peer.output[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.close(index);
                    return;
                }
            }
        }
        peer.output.drain(..written);
    }
}
