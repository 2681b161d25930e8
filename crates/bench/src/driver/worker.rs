//! One thread of the driver: an event loop over its share of the clients.
//!
//! A client has one connection for everything except binds, one for binds, or both, and one slot for each request that
//! may be outstanding. A slot takes an operation and a key, sends the operation's requests in order, checks the answers
//! and counts them. In a closed loop, the slot starts again immediately. In an open loop, the slot waits for the next
//! intended start; latency counts from the intended start even if the request is sent late.

mod requests;
mod responses;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use super::keys::KeyStream;
use super::line::{Line, State};
use super::plan::{On, Plan, PlannedKeys, PlannedOperation};
use super::request::Backward;
use super::sasl::{Exchange, SaltedPasswords};
use super::secured::{self, Secured};
use super::tally::{Tally, TallyTotals};
use crate::Seeded;

/// Number of octets read at a time.
const READ_SIZE: usize = 64 * 1024;
/// Maximum length of a message from a server in octets. Entries of the workloads are shorter.
const MESSAGE_LEN_MAX: usize = 64 << 20;
/// Maximum number of connections that one thread opens concurrently.
const CONNECTING_MAX: usize = 128;
/// Number of consecutive failures after which a connection is given up.
const ATTEMPTS_MAX: u32 = 6;
/// Delay before the second attempt. It is doubled for each further attempt.
const RETRY_NANOS: u64 = 50_000_000;
/// Maximum time for connecting, including all attempts.
const CONNECT_NANOS_MAX: u64 = 60_000_000_000;
/// Maximum time to wait for answers after the end of the measurement.
const DRAIN_NANOS_MAX: u64 = 10_000_000_000;
/// Maximum time that the event loop waits for events.
const TICK: Duration = Duration::from_millis(50);
/// Result code of a bind that continues (RFC 4511 section 4.2.2).
const SASL_BIND_IN_PROGRESS: u32 = 14;
/// Maximum number of random draws to find an operation that has a key left. After them, the thread assumes that all
/// keys are used up.
const DRAWS_MAX: usize = 64;

const TIMER: Token = Token(usize::MAX);

/// Schedule of a run, in nanoseconds since it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) start: u64,
    pub(crate) warm_up_end: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Schedule {
    /// Returns a schedule that is already over.
    pub(crate) fn nothing(now: Duration) -> Schedule {
        let now = now.as_nanos() as u64;
        Schedule { start: now, warm_up_end: now, from: now, to: now }
    }

    fn is_open(&self, now: u64) -> bool {
        (self.start..self.warm_up_end).contains(&now) || (self.from..self.to).contains(&now)
    }
}

/// Returns the thread of each client. Clients are assigned to the threads in turn.
pub(crate) fn threads_of_clients(threads: usize) -> impl Iterator<Item = usize> {
    (1..).map(move |number| number % threads)
}

/// State that all threads of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) targets: &'a [SocketAddr],
    /// TLS settings of each target; `None` without TLS.
    pub(crate) secured: &'a [Option<Secured>],
    pub(crate) sources: &'a [IpAddr],
    /// Name and password of the initial bind of connections, unless the workload itself sends the binds.
    pub(crate) identity: Option<(String, String)>,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) base: Instant,
    pub(crate) connected: Barrier,
    pub(crate) scheduled: Barrier,
    pub(crate) schedule: OnceLock<Schedule>,
}

/// Results of a thread at its end.
pub(crate) struct Finished {
    pub(crate) tally: TallyTotals,
    /// Entries that the thread added and did not delete.
    pub(crate) added: Vec<u64>,
    pub(crate) connections: u64,
    /// Share of the measured time in which the thread was working, 0 to 1.
    pub(crate) busy: f64,
    /// Time at which the last counted operation was done.
    pub(crate) last: u64,
    /// In an open loop, number of operations with an intended start in the measured time.
    pub(crate) due: u64,
    /// Number of due requests that were not sent.
    pub(crate) unsent: u64,
    /// Time that the thread waited for answers after the end of the measurement.
    pub(crate) drain_nanos: u64,
    /// Protocol and cipher of TLS with the first server, if TLS was used.
    pub(crate) tls: Option<String>,
}

struct Client {
    job: usize,
    main: Option<usize>,
    bind: Option<usize>,
    /// Index of the client's first slot. The next field is its number of slots.
    slots: usize,
    slot_count: usize,
    next_sequence: i32,
    /// Slots that wait until all persistent connections of the client are established.
    parked: Vec<usize>,
}

#[derive(Default)]
struct Slot {
    client: usize,
    operation: usize,
    step: usize,
    key: u64,
    id: i32,
    /// Index of the connection on which the slot's request is outstanding; `None` if no request is outstanding.
    line: Option<usize>,
    /// Intended start of the operation.
    intended: u64,
    entries: u32,
    is_found: bool,
    /// Cookie of the next page of a search; empty if there is no next page.
    cookie: Vec<u8>,
    exchange: Option<Box<Exchange>>,
    /// Pending steps of operations that this slot has begun. There is at most one for each operation.
    pending: Vec<PendingStep>,
}

/// The next step of an operation whose steps count separately, such as the second rename, which restores the name. The
/// step is executed when the operation is drawn again. Thus each draw is one request, and the mix has the weights of
/// the workload.
struct PendingStep {
    operation: usize,
    step: usize,
    key: u64,
}

/// State of a job in this thread.
struct JobState {
    streams: Vec<Option<KeyStream>>,
    /// Idle slots.
    free: VecDeque<usize>,
    /// In an open loop, nanoseconds between the intended starts in this thread. The next field is the time of the next
    /// intended start.
    interval: Option<f64>,
    /// Time from which the intended starts are counted.
    origin: u64,
    sent: u64,
    next_due: u64,
}

impl JobState {
    /// Sets the time from which the intended starts of an open loop are counted.
    fn begin(&mut self, origin: u64) {
        self.origin = origin;
        self.sent = 0;
        self.next_due = origin;
    }
}

pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    index: usize,
    poll: Poll,
    timer: OwnedFd,
    armed: u64,
    lines: Vec<Line>,
    clients: Vec<Client>,
    slots: Vec<Slot>,
    jobs: Vec<JobState>,
    added: VecDeque<u64>,
    random: Seeded,
    salted: SaltedPasswords,
    scratch: Backward,
    text: Vec<u8>,
    buffer: Vec<u8>,
    tally: Tally,
    schedule: Schedule,
    connecting: usize,
    /// Whether a connection may be down. If false, the thread need not search thousands of connections for one that is
    /// down. Such a search would take longer than an answer.
    may_be_down: bool,
    next_source: usize,
    active: usize,
    last: u64,
    is_draining: bool,
    drain_nanos: u64,
    tls: Option<String>,
    /// Connections with output to write.
    dirty: Vec<usize>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        index: usize,
        tally: Tally,
        added: VecDeque<u64>,
    ) -> io::Result<Worker<'a>> {
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let poll = Poll::new()?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        let never = Schedule { start: u64::MAX, warm_up_end: u64::MAX, from: u64::MAX, to: u64::MAX };
        let seed = Seeded::new(shared.seed ^ ((index as u64 + 1) << 32)).next_u64();
        let mut worker = Worker {
            shared,
            index,
            poll,
            timer,
            armed: 0,
            lines: Vec::new(),
            clients: Vec::new(),
            slots: Vec::new(),
            jobs: Vec::new(),
            added,
            random: Seeded::new(seed),
            salted: SaltedPasswords::default(),
            scratch: Backward::default(),
            text: Vec::new(),
            buffer: vec![0; READ_SIZE],
            tally,
            schedule: never,
            connecting: 0,
            may_be_down: true,
            next_source: index * 37,
            active: 0,
            last: 0,
            is_draining: false,
            drain_nanos: 0,
            tls: None,
            dirty: Vec::new(),
        };
        worker.make_clients();
        Ok(worker)
    }

    /// Creates this thread's share of the clients of every job.
    fn make_clients(&mut self) {
        let mut numbers = (1..).zip(threads_of_clients(self.shared.threads));
        for (index, job) in self.shared.plan.jobs.iter().enumerate() {
            let stream = |operation: &PlannedOperation| match &operation.keys {
                PlannedKeys::Sequence { sequence, .. } => {
                    Some(KeyStream::new(sequence.clone(), self.index as u64))
                }
                PlannedKeys::New | PlannedKeys::Added => None,
            };
            self.jobs.push(JobState {
                streams: job.operations.iter().map(stream).collect(),
                free: VecDeque::new(),
                interval: job.rate.map(|rate| 1e9 * self.shared.threads as f64 / rate),
                origin: 0,
                sent: 0,
                next_due: 0,
            });
            for (number, thread) in numbers.by_ref().take(job.clients) {
                if thread == self.index {
                    self.make_client(index, number);
                }
            }
        }
    }

    fn make_client(&mut self, job_index: usize, number: usize) {
        let job = &self.shared.plan.jobs[job_index];
        let client = self.clients.len();
        let target = number % self.shared.targets.len();
        let mut line = |wanted: bool, on: On| {
            wanted.then(|| {
                self.lines.push(Line::new(client, on, target));
                self.lines.len() - 1
            })
        };
        let main = line(job.keeps(On::Main), On::Main);
        let on = if job.keeps(On::New) { On::New } else { On::Bind };
        let bind = line(job.keeps(On::Bind) || job.keeps(On::New), on);
        // A connection can have only one bind at a time, so a client that only binds has only one outstanding request.
        let slot_count = if main.is_some() { job.outstanding } else { 1 };
        let slots = self.slots.len();
        self.slots.extend((0..slot_count).map(|_| Slot { client, ..Slot::default() }));
        self.jobs[job_index].free.extend(slots..slots + slot_count);
        let parked = Vec::new();
        self.clients.push(Client { job: job_index, main, bind, slots, slot_count, next_sequence: 0, parked });
    }

    fn now(&self) -> u64 {
        self.shared.base.elapsed().as_nanos() as u64
    }

    /// Runs the thread, from connecting to the last answer.
    pub(crate) fn run(mut self) -> io::Result<Finished> {
        let connected = self.connect_all();
        // The thread waits here even after a failure, because the other threads must not wait for this thread forever.
        self.shared.connected.wait();
        self.shared.scheduled.wait();
        connected?;
        if let Some(schedule) = self.shared.schedule.get() {
            self.schedule = *schedule;
            self.tally.from = schedule.from;
            self.tally.to = schedule.to;
            self.measure()?;
        }
        let connections = self.lines.iter().filter(|line| line.state != State::GivenUp).count() as u64;
        let unsent = self.unsent();
        self.tally.unanswered += unsent;
        let due = self.due();
        let busy = self.tally.busy();
        Ok(Finished {
            tally: self.tally.finish(),
            added: self.added.into(),
            connections,
            busy,
            last: self.last,
            due,
            unsent,
            drain_nanos: self.drain_nanos,
            tls: self.tls,
        })
    }

    fn connect_all(&mut self) -> io::Result<()> {
        let end = self.now() + CONNECT_NANOS_MAX;
        loop {
            let is_waiting =
                |line: &Line| line.on != On::New && !matches!(line.state, State::Ready | State::GivenUp);
            if !self.lines.iter().any(is_waiting) {
                return Ok(());
            }
            let now = self.now();
            if now > end {
                let waiting = self.lines.iter().filter(|line| is_waiting(line)).count();
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "{waiting} connections were not made within {} s",
                        CONNECT_NANOS_MAX / 1_000_000_000
                    ),
                ));
            }
            self.reconnect(now);
            self.turn(Some(TICK))?;
        }
    }

    /// Starts to connect connections that are down, up to [`CONNECTING_MAX`] at a time.
    fn reconnect(&mut self, now: u64) {
        if !self.may_be_down {
            return;
        }
        self.may_be_down = false;
        for index in 0..self.lines.len() {
            let line = &self.lines[index];
            if line.state != State::Down || line.on == On::New {
                continue;
            }
            if self.connecting >= CONNECTING_MAX || line.retry_at > now {
                self.may_be_down = true;
            } else {
                self.connect(index);
            }
        }
    }

    fn connect(&mut self, index: usize) {
        let sources = self.shared.sources;
        let source = (!sources.is_empty()).then(|| sources[self.next_source % sources.len()]);
        self.next_source += 1;
        let line = &mut self.lines[index];
        let address = self.shared.targets[line.target];
        match line.connect(address, source, self.poll.registry(), Token(index)) {
            Ok(()) => self.connecting += 1,
            Err(error) => self.lost(index, &format!("cannot connect to {address}: {error}")),
        }
    }

    fn measure(&mut self) -> io::Result<()> {
        let Schedule { start, from, to, .. } = self.schedule;
        let mut is_running = false;
        for job in &mut self.jobs {
            // The offset of each thread spaces the intended starts of all threads evenly.
            let offset = job.interval.unwrap_or_default() * self.index as f64 / self.shared.threads as f64;
            job.begin(start + offset as u64);
        }
        let mut phase_from = start;
        loop {
            let now = self.now();
            if now >= from {
                self.tally.begin_once();
                self.tally.hand_in(now.min(to));
            }
            if now >= to {
                break;
            }
            let is_open = self.schedule.is_open(now);
            if is_open && !is_running {
                self.resume(phase_from.max(start), now);
                phase_from = from;
            }
            is_running = is_open;
            if is_open {
                self.pump(now);
                self.flush_dirty();
                if self.is_used_up() {
                    break;
                }
            } else if now >= self.schedule.warm_up_end {
                phase_from = from;
            }
            self.reconnect(now);
            self.wait(now)?;
        }
        self.drain()
    }

    /// Starts all waiting slots. This happens at the beginning and after a pause.
    fn resume(&mut self, phase_start: u64, now: u64) {
        for index in 0..self.jobs.len() {
            if self.jobs[index].interval.is_some() {
                let job = &mut self.jobs[index];
                if job.next_due < phase_start {
                    job.begin(phase_start);
                }
                continue;
            }
            for slot in std::mem::take(&mut self.jobs[index].free) {
                self.start(slot, now);
            }
        }
    }

    /// Starts the due operations of open loops, as long as slots are free.
    fn pump(&mut self, now: u64) {
        for index in 0..self.jobs.len() {
            let Some(interval) = self.jobs[index].interval else { continue };
            loop {
                let job = &mut self.jobs[index];
                let due = job.next_due;
                // During the pause nothing is due. Operations that would be due after the end are not sent.
                if due > now || due >= self.schedule.to {
                    break;
                }
                let Some(slot) = job.free.pop_front() else { break };
                if (self.schedule.warm_up_end..self.schedule.from).contains(&due) {
                    job.free.push_front(slot);
                    job.begin(self.schedule.from);
                    break;
                }
                job.sent += 1;
                // The time is computed as a product, because the rounding errors of a sum would accumulate over hours.
                job.next_due = job.origin + (job.sent as f64 * interval).round() as u64;
                self.start(slot, due);
            }
        }
    }

    /// Returns the number of intended starts before the end whose requests were never sent.
    fn unsent(&self) -> u64 {
        let unsent = |job: &JobState| match job.interval {
            Some(interval) if job.next_due < self.schedule.to && self.schedule.to != u64::MAX => {
                ((self.schedule.to - job.next_due) as f64 / interval).ceil() as u64
            }
            _ => 0,
        };
        self.jobs.iter().map(unsent).sum()
    }

    /// Returns the number of intended starts in the measured time.
    fn due(&self) -> u64 {
        let Schedule { from, to, .. } = self.schedule;
        let intervals = self.jobs.iter().filter_map(|job| job.interval);
        if to == u64::MAX {
            0
        } else {
            intervals.map(|interval| ((to - from) as f64 / interval) as u64).sum()
        }
    }

    /// Returns true if no slot is active, and no idle slot can become active. In an open loop, slots can always become
    /// active.
    fn is_used_up(&self) -> bool {
        self.active == 0
            && self.jobs.iter().all(|job| job.interval.is_none())
            && self.clients.iter().all(|client| client.parked.is_empty() || !self.may_return(client))
    }

    fn may_return(&self, client: &Client) -> bool {
        [client.main, client.bind].into_iter().flatten().all(|line| self.lines[line].state != State::GivenUp)
    }

    /// Waits for outstanding requests, at most for [`DRAIN_NANOS_MAX`], and sends the requests that restore changed
    /// entries. Operations that were due and could not be sent are dropped, because they would not be measured.
    fn drain(&mut self) -> io::Result<()> {
        self.is_draining = true;
        let began = self.now();
        loop {
            let now = self.now();
            self.give_back();
            self.flush_dirty();
            self.tally.hand_in(now.min(self.schedule.to));
            self.drain_nanos = now - began;
            if self.active == 0 || self.drain_nanos > DRAIN_NANOS_MAX {
                break;
            }
            self.wait(now)?;
        }
        let is_missing = |slot: &&Slot| {
            let is_open = self.jobs[self.clients[slot.client].job].interval.is_some();
            slot.line.is_some() && (!is_open || self.tally.is_measured(slot.intended))
        };
        self.tally.unanswered += self.slots.iter().filter(is_missing).count() as u64;
        Ok(())
    }

    /// Starts the pending steps that restore changed entries, in free slots. The thread does not count these steps.
    fn give_back(&mut self) {
        for index in 0..self.jobs.len() {
            let free = std::mem::take(&mut self.jobs[index].free);
            let (owing, free) = free.into_iter().partition(|slot| !self.slots[*slot].pending.is_empty());
            self.jobs[index].free = free;
            for slot in owing {
                let state = &mut self.slots[slot];
                if let Some(pending) = state.pending.pop() {
                    (state.operation, state.step, state.key) = (pending.operation, pending.step, pending.key);
                    self.start(slot, u64::MAX);
                }
            }
        }
    }

    /// Waits for events, at most until the next scheduled time.
    fn wait(&mut self, now: u64) -> io::Result<()> {
        let due = |job: &JobState| {
            (job.interval.is_some() && !job.free.is_empty() && job.next_due < self.schedule.to)
                .then_some(job.next_due)
        };
        let mut next = self.jobs.iter().filter_map(due).min().unwrap_or(u64::MAX);
        for border in [self.schedule.start, self.schedule.from, self.schedule.to, self.tally.second_end()] {
            if border > now {
                next = next.min(border);
            }
        }
        if next <= now {
            return self.turn(Some(Duration::ZERO));
        }
        let left = Duration::from_nanos(next - now);
        if left < TICK {
            self.arm(next, left)?;
        }
        self.turn(Some(TICK))
    }

    /// Sets the timer to the time `at`. The loop waits with this timer, because the timeout of epoll has a resolution
    /// of only a millisecond.
    fn arm(&mut self, at: u64, left: Duration) -> io::Result<()> {
        if self.armed == at {
            return Ok(());
        }
        self.armed = at;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos().max(1)) };
        let setting = Itimerspec { it_interval: zero, it_value: value };
        rustix::time::timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    /// Waits once for events, and handles the events that are ready.
    fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        match self.poll.poll(&mut events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        for event in &events {
            if event.token() == TIMER {
                let mut count = [0; 8];
                // The read only clears the timer.
                let _ = rustix::io::read(self.timer.as_fd(), &mut count);
                self.armed = 0;
                continue;
            }
            self.serve(event.token().0);
        }
        self.flush_dirty();
        Ok(())
    }

    fn flush_dirty(&mut self) {
        while let Some(index) = self.dirty.pop() {
            self.flush(index);
        }
    }

    fn flush(&mut self, index: usize) {
        if let Err(error) = self.lines[index].flush() {
            self.lost(index, &format!("a connection broke while writing: {error}"));
        }
    }

    /// Handles a connection that is readable or writable, or has ended.
    fn serve(&mut self, index: usize) {
        match self.lines[index].state {
            State::Down | State::GivenUp => return,
            State::Connecting => match self.lines[index].is_connected() {
                Ok(false) => return,
                Ok(true) => self.on_connected(index),
                Err(error) => {
                    let address = self.shared.targets[self.lines[index].target];
                    self.lost(index, &format!("cannot connect to {address}: {error}"));
                    return;
                }
            },
            State::Handshaking => self.handshake(index),
            State::StartingTls | State::Binding | State::Ready => {}
        }
        if self.lines[index].state.is_open() {
            self.receive(index);
            self.flush(index);
        }
    }

    /// Handles an established socket. TLS starts first if it is required.
    fn on_connected(&mut self, index: usize) {
        let line = &mut self.lines[index];
        match &self.shared.secured[line.target] {
            None => self.on_open(index),
            Some(secured) if secured.starts_plain => {
                line.state = State::StartingTls;
                line.push(&secured::START_TLS);
                self.dirty.push(index);
            }
            Some(_) => self.secure(index),
        }
    }

    /// Starts the TLS handshake.
    fn secure(&mut self, index: usize) {
        let Some(secured) = &self.shared.secured[self.lines[index].target] else { return };
        match secured.tls.session(&secured.host) {
            Ok(session) => {
                self.lines[index].secure(session);
                self.handshake(index);
            }
            Err(error) => self.lost(index, &format!("TLS: {error}")),
        }
    }

    fn handshake(&mut self, index: usize) {
        match self.lines[index].handshake() {
            Ok(false) => {}
            Ok(true) => {
                if self.tls.is_none() {
                    self.tls = self.lines[index].tls();
                }
                self.on_open(index);
            }
            Err(error) => self.lost(index, &format!("TLS: {error}")),
        }
    }

    /// Handles a connection that is ready for LDAP requests.
    fn on_open(&mut self, index: usize) {
        self.connecting -= 1;
        let line = &mut self.lines[index];
        match line.on {
            On::Main if self.shared.identity.is_some() => {
                line.state = State::Binding;
                let mut message = Vec::new();
                if let Some((name, password)) = &self.shared.identity {
                    put_simple_bind(name, password, &mut message);
                }
                line.push(&message);
                self.dirty.push(index);
            }
            On::New => {
                line.state = State::Ready;
                if let Some(slot) = line.queue.pop_front() {
                    line.is_busy = true;
                    self.send(slot, index);
                }
            }
            On::Main | On::Bind => self.on_ready(index),
        }
    }

    fn on_ready(&mut self, index: usize) {
        let line = &mut self.lines[index];
        line.state = State::Ready;
        line.attempts = 0;
        let client = line.client;
        if !self.is_ready(client) {
            return;
        }
        let now = self.now();
        let is_open_loop = self.jobs[self.clients[client].job].interval.is_some();
        for slot in std::mem::take(&mut self.clients[client].parked) {
            if self.schedule.is_open(now) && !is_open_loop {
                self.start(slot, now);
            } else {
                self.jobs[self.clients[client].job].free.push_back(slot);
            }
        }
    }

    /// Returns true if all persistent connections of a client are established.
    fn is_ready(&self, client: usize) -> bool {
        let Client { main, bind, .. } = self.clients[client];
        [main, bind].into_iter().flatten().all(|line| {
            let line = &self.lines[line];
            line.on == On::New || line.state == State::Ready
        })
    }
}

fn put_simple_bind(name: &str, password: &str, out: &mut Vec<u8>) {
    let authentication = ldap::Authentication::Simple(password.as_bytes());
    let request = ldap::Request::Bind(ldap::BindRequest { version: 3, name, authentication });
    ldap::Message { id: ldap::MessageId(1), request, controls: ldap::Controls::NONE }.encode(out);
}
