//! An event loop: one thread with its epoll instance and the connections that it owns from accept to close.
//!
//! A pass waits for events and renews the snapshot. It gives a turn to each ready connection and reads the messages of
//! other threads. Then the pass gives one more turn to each connection that has more work, usually a search. At its
//! end, all changes of the pass are submitted to the writer. The *feed* of a loop reads the log for the persistent
//! searches of the loop. Nothing in a pass blocks or waits for a lock that another thread holds for long.
//!
//! If the loop waits for long, it parks its snapshot, so that an idle server pins no old pages.

mod connection;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use directory::OperationError;
use directory::read_ahead::has_brought_in;
use directory::search::Advance;
use ldap::ResultCode;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::event_loop::connection::{Connection, Turn};
use crate::limits::{
    BUFFER_SIZE, DRAIN_TICK, DRAIN_TIMEOUT, EVENTS_MAX, FEED_PATIENCE, FEED_STEPS, MEMORY_RETRY, PARK_AFTER,
    READY_TIME_MAX, SILENCE_SWEEP, SILENCE_SWEEP_MAX, TICK,
};
use crate::net::acceptor::Acceptor;
use crate::net::buffers::Buffers;
use crate::net::mailbox::{Address, LoopMessage, Mailbox, Written};
use crate::net::stream::Accepted;
use crate::session::Session;
use crate::session::context::Context;
use crate::session::positions::PositionWait;
use crate::telemetry::readiness::Readiness;

/// Epoll token of the mailbox's waker. The token of a connection is the number of its slot.
pub(crate) const WAKER: Token = Token(usize::MAX);

/// Epoll token of the acceptor.
const ACCEPTOR: Token = Token(usize::MAX - 1);

/// Error that ends an event loop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventLoopError {
    /// Polling for readiness failed.
    #[error("waiting for connections failed: {0}")]
    Poll(#[from] io::Error),
    /// The directory cannot be read.
    #[error("reading the directory failed: {0}")]
    Store(#[from] store::StoreError),
}

/// An event loop.
pub(crate) struct EventLoop {
    poll: Poll,
    mailboxes: Arc<[Mailbox]>,
    context: Context,
    buffers: Buffers,
    slots: Vec<Option<Box<Connection>>>,
    free_slots: Vec<usize>,
    /// Sessions of closed connections with changes that the writer has not finished, by the number of the connection.
    /// The answers of the writer, which bound their number, complete the events of these changes.
    unfinished: HashMap<u64, Session>,
    /// Connections that need a turn in the next pass, each at most once.
    ready: VecDeque<usize>,
    /// Connections that received an answer from another thread in this pass, each at most once.
    woken: Vec<usize>,
    /// Connections that wait for room in the writer's queue.
    wait_for_writer: Vec<usize>,
    /// Connections that wait until connections of the same source and identity release memory.
    wait_for_memory: Vec<usize>,
    /// Slots of connections with a request that waits for a position.
    wait_for_position: Vec<(usize, PositionWait)>,
    /// Whether there may be new changes for the persistent searches of this loop.
    feed_is_due: bool,
    /// Number of connections that still send the last set of changes for persistent searches. `notifying_since` is the
    /// time at which these searches were woken.
    notifying: usize,
    notifying_since: Instant,
    /// Next time at which connections that wait for memory try again.
    next_memory_retry: Instant,
    /// Connections with a running timeout or deadline, each at most once.
    watched: Vec<usize>,
    next_tick: Instant,
    next_silence_sweep: Instant,
    /// Slot from which the next check for silent connections continues.
    silence_cursor: usize,
    /// Number of connections that have an idle timeout and a timeout for the first request.
    untrusted: usize,
    /// Time at which a stopping server drops the outstanding operations; `None` while the server runs.
    drain_until: Option<Instant>,
    /// The acceptor, if this loop runs it.
    acceptor: Option<Acceptor>,
    /// New connections of this pass.
    accepted: Vec<Accepted>,
}

impl EventLoop {
    /// Creates a loop, with the acceptor if this loop runs it.
    ///
    /// # Errors
    /// The acceptor cannot be registered with epoll.
    pub(crate) fn new(
        poll: Poll,
        mailboxes: Arc<[Mailbox]>,
        context: Context,
        acceptor: Option<Acceptor>,
    ) -> io::Result<EventLoop> {
        let now = context.now;
        if let Some(acceptor) = &acceptor {
            let mut source = SourceFd(&acceptor.descriptor());
            poll.registry().register(&mut source, ACCEPTOR, Interest::READABLE)?;
        }
        Ok(EventLoop {
            poll,
            mailboxes,
            context,
            buffers: Buffers::default(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            unfinished: HashMap::new(),
            ready: VecDeque::new(),
            woken: Vec::new(),
            wait_for_writer: Vec::new(),
            wait_for_memory: Vec::new(),
            wait_for_position: Vec::new(),
            feed_is_due: false,
            notifying: 0,
            notifying_since: now,
            next_memory_retry: now,
            watched: Vec::new(),
            next_tick: now,
            next_silence_sweep: now,
            silence_cursor: 0,
            untrusted: 0,
            drain_until: None,
            acceptor,
            accepted: Vec::new(),
        })
    }

    /// Runs until the server stops.
    ///
    /// # Errors
    /// The loop cannot continue. Its connections are then closed.
    pub(crate) fn run(mut self) -> Result<(), EventLoopError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut messages = Vec::new();
        while !self.is_drained() {
            self.wait(&mut events)?;
            self.context.begin_pass()?;
            let mut has_messages = false;
            let mut accepts = self.accepts_without_event();
            for event in &events {
                let Token(slot) = event.token();
                has_messages |= event.token() == WAKER;
                accepts |= event.token() == ACCEPTOR;
                let Some(connection) = self.connection(slot) else { continue };
                if event.is_error() || event.is_write_closed() {
                    connection.now_broken();
                }
                if event.is_readable() || event.is_error() {
                    connection.now_readable(event.is_read_closed() || event.is_error());
                }
                self.turn(slot, false);
            }
            if accepts {
                self.accept();
            }
            if has_messages {
                self.read_messages(&mut messages);
                self.turn_woken();
            }
            self.feed();
            self.run_ready();
            self.check_time();
            self.give_back_memory(false);
            self.context.shared.writes.submit(&mut self.context.outbox);
            self.context.shared.read_ahead.submit(&mut self.context.jobs);
        }
        self.context.audit.hand_over();
        Ok(())
    }

    /// Waits for an event. Returns at once if there is work.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        self.context.begin_wait();
        if !self.ready.is_empty()
            || self.feeds_now()
            || self.acceptor.as_ref().is_some_and(Acceptor::has_more)
        {
            return self.wait_for(events, Some(Duration::ZERO));
        }
        // A loop with work keeps its snapshot. In a parked snapshot, the first read of each map costs an extra look-up.
        let timeout = self.timeout();
        let short = timeout.map_or(PARK_AFTER, |timeout| timeout.min(PARK_AFTER));
        self.wait_for(events, Some(short))?;
        if !events.is_empty() || timeout == Some(short) {
            return Ok(());
        }
        self.context.snapshot.park();
        self.context.audit.hand_over();
        self.give_back_memory(true);
        let timeout = self.timeout();
        self.wait_for(events, timeout)
    }

    /// Returns freed memory to the system if that is due.
    fn give_back_memory(&mut self, is_idle: bool) {
        if self.context.released.take_due(is_idle, self.context.now) {
            self.buffers.clear();
            system::give_back_memory();
        }
    }

    fn wait_for(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    /// Returns how long the loop may sleep without missing a deadline; `None` for no limit.
    fn timeout(&self) -> Option<Duration> {
        let tick = (!self.watched.is_empty()).then_some(self.next_tick);
        let silence_sweep = self.shortest_silence().map(|_| self.next_silence_sweep);
        let paused_until = self.acceptor.as_ref().and_then(Acceptor::paused_until);
        let memory_retry = (!self.wait_for_memory.is_empty()).then_some(self.next_memory_retry);
        let position_due = self.wait_for_position.iter().map(|(_, wait)| wait.until).min();
        let first = [tick, silence_sweep, self.drain_until, paused_until, memory_retry, position_due]
            .into_iter()
            .flatten()
            .min()?;
        let sleep = first.saturating_duration_since(Instant::now());
        Some(if self.drain_until.is_some() { sleep.min(DRAIN_TICK) } else { sleep })
    }

    fn connection(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Returns true if the connection with this address is still open.
    fn is_open(&mut self, address: Address) -> bool {
        self.connection(address.slot).is_some_and(|connection| connection.number() == address.connection)
    }

    /// Gives a connection its turn.
    fn turn(&mut self, slot: usize, slice: bool) {
        self.with_connection(slot, |connection, context, buffers| {
            let turn = connection.turn(context, buffers, slice);
            connection.charge(context);
            turn
        });
    }

    /// Runs `action` on a connection, then schedules the turn that it returns. A panic closes only this connection.
    fn with_connection(
        &mut self,
        slot: usize,
        action: impl FnOnce(&mut Connection, &mut Context, &mut Buffers) -> Turn,
    ) {
        let Some(Some(connection)) = self.slots.get_mut(slot) else { return };
        let (context, buffers) = (&mut self.context, &mut self.buffers);
        let number = connection.number();
        let acted = catch_unwind(AssertUnwindSafe(|| action(connection, context, buffers)));
        let turn = acted.unwrap_or_else(|_| {
            tracing::error!("conn={number} met a defect in the server and is closed");
            Turn::Close
        });
        context.end_turn();
        connection.attribute(context);
        if turn != Turn::Close && connection.wants_room() {
            // The socket is registered for writability only after its send buffer was full for the first time. Most
            // connections never need events for writability, and each of them would get a useless event.
            let (token, interest) = (Token(slot), Interest::READABLE | Interest::WRITABLE);
            if let Err(error) = self.poll.registry().reregister(connection.stream(), token, interest) {
                tracing::warn!(%error, "conn={number} could not be watched and is closed");
                return self.close(slot);
            }
        }
        match turn {
            Turn::Close => return self.close(slot),
            Turn::Again if !connection.queued => {
                connection.queued = true;
                self.ready.push_back(slot);
            }
            Turn::WaitForWriter if !connection.waits_for_writer => {
                connection.waits_for_writer = true;
                self.wait_for_writer.push(slot);
            }
            Turn::WaitForMemory if !connection.waits_for_memory => {
                connection.waits_for_memory = true;
                self.wait_for_memory.push(slot);
                self.context.shared.request_memory.waited.fetch_add(1, Ordering::Relaxed);
            }
            Turn::WaitForPosition(wait) => {
                connection.waits_for_position = true;
                self.wait_for_position.retain(|(other, _)| *other != slot);
                self.wait_for_position.push((slot, wait));
            }
            Turn::Again | Turn::WaitForWriter | Turn::WaitForMemory | Turn::Wait => {}
        }
        if !connection.watched && connection.needs_watching() {
            connection.watched = true;
            if self.watched.is_empty() {
                self.next_tick = self.context.now + TICK;
            }
            self.watched.push(slot);
        }
        if connection.is_notifying && (turn != Turn::Again || !connection.has_changes_to_send()) {
            connection.is_notifying = false;
            self.notifying -= 1;
        }
        let has_new_listeners = self.context.feed.has_new_listeners();
        self.feed_is_due |= has_new_listeners;
        if has_new_listeners || matches!(turn, Turn::WaitForPosition(_)) {
            self.check_for_commits();
        }
    }

    fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        if connection.waits_for_position {
            self.wait_for_position.retain(|(other, _)| *other != slot);
            self.context.position_waiters = self.wait_for_position.len();
        }
        self.notifying -= usize::from(connection.is_notifying);
        connection.close(&mut self.context, &mut self.buffers);
        self.untrusted -= usize::from(connection.has_timeouts);
        // Dropping the connection closes the only descriptor of its socket. Closing the descriptor also deregisters the
        // socket from epoll.
        self.context.counters.connection_closed();
        self.context.usage.get_mut().closed(connection.listener());
        self.free_slots.push(slot);
        let number = connection.number();
        tracing::debug!("conn={number} closed");
        if let Some(session) = connection.into_unfinished() {
            self.unfinished.insert(number, session);
        }
    }

    /// Handles the writer's answer to a change of a closed connection.
    #[cold]
    fn written_after_close(&mut self, answer: &Written) {
        let number = answer.address.connection;
        let Some(mut session) = self.unfinished.remove(&number) else { return };
        let context = &mut self.context;
        let acted = catch_unwind(AssertUnwindSafe(|| session.written(context, answer, &mut Vec::new())));
        if acted.is_err() {
            tracing::error!("conn={number} met a defect in the server after it was closed");
        } else if !session.is_idle() {
            self.unfinished.insert(number, session);
        }
    }

    /// Gives each ready connection one turn. A connection that needs another turn moves to the end of the queue. After
    /// [`READY_TIME_MAX`] the remaining connections wait for the next pass, so that many scans do not delay new
    /// requests for long.
    fn run_ready(&mut self) {
        for left in (0..self.ready.len()).rev() {
            let Some(slot) = self.ready.pop_front() else { return };
            if let Some(connection) = self.connection(slot) {
                connection.queued = false;
                self.turn(slot, true);
            }
            if left > 0 && self.context.now.elapsed() >= READY_TIME_MAX {
                return;
            }
        }
    }

    /// Answers a readiness probe if the loop can read the newest state of the directory.
    #[cold]
    fn answer_probe(&mut self, readiness: &Readiness) {
        let read = self.context.catch_up().and_then(|()| self.context.snapshot.position());
        match read {
            Ok(_) => readiness.answer(self.context.event_loop, Instant::now()),
            Err(error) => tracing::error!(%error, "an event loop cannot read"),
        }
    }

    /// Requests a notice of the next commit if a connection waits for a position, or if a persistent search waits for
    /// changes. If there already is a newer commit, sends the notice itself.
    fn check_for_commits(&mut self) {
        self.context.position_waiters = self.wait_for_position.len();
        if self.context.feed.has_listeners() || !self.wait_for_position.is_empty() {
            self.context.shared.writes.request_commit_notice(self.context.event_loop);
            if let Some(mailbox) = self.mailboxes.get(usize::from(self.context.event_loop))
                && self.context.is_outdated()
            {
                mailbox.post(LoopMessage::Committed);
            }
        }
    }

    /// Handles the notice of a commit: gives a turn to each connection whose position is now reached.
    fn turn_reached(&mut self) {
        // If the snapshot cannot be renewed, the connections wait until their time to wait is over.
        let position = self.context.catch_up().and_then(|()| self.context.snapshot.position()).unwrap_or(0);
        self.turn_waiting(|wait| wait.position <= position);
        self.feed_is_due = true;
        self.check_for_commits();
    }

    /// Returns true if the feed may continue now. While connections still send the last change set, the feed waits for
    /// up to [`FEED_PATIENCE`], so that its next set covers more changes.
    fn feeds_now(&self) -> bool {
        self.feed_is_due
            && (self.notifying == 0 || self.context.now.duration_since(self.notifying_since) >= FEED_PATIENCE)
    }

    /// Continues the feed: reads a slice of the log, or wakes the persistent searches that have notifications to send.
    /// The connections of these searches send the notifications in their turns.
    fn feed(&mut self) {
        if !self.feeds_now() {
            return;
        }
        let advanced = self.context.catch_up().map_err(OperationError::from).and_then(|()| {
            let Context { feed, snapshot, .. } = &mut self.context;
            feed.advance(snapshot, FEED_STEPS)
        });
        let woken = match advanced {
            Ok(Advance::More) => return,
            Ok(Advance::Nothing) => Vec::new(),
            Ok(Advance::Done(woken)) => woken,
            // The next call of the feed after a commit reports the error to the persistent searches, which then end.
            Err(error) => {
                tracing::error!(%error, "an event loop cannot read changes for searches that listen");
                Vec::new()
            }
        };
        self.feed_is_due = false;
        self.notifying_since = self.context.now;
        for ((slot, ticket), woken) in woken {
            let Some(connection) = self.connection(slot) else { continue };
            if connection.wake(ticket, woken) {
                let is_new = !std::mem::replace(&mut connection.is_notifying, true);
                let is_queued = std::mem::replace(&mut connection.queued, true);
                self.notifying += usize::from(is_new);
                if !is_queued {
                    self.ready.push_back(slot);
                }
            }
        }
        self.cut_off_laggards();
    }

    /// Ends persistent searches whose clients read too slowly. The unsent changes of such a search are too old, or too
    /// many snapshots are kept for it.
    fn cut_off_laggards(&mut self) {
        let laggards = self.context.feed.laggards(&self.context.snapshot).unwrap_or_default();
        for (slot, ticket) in laggards {
            self.with_connection(slot, |connection, context, buffers| {
                connection.cut_off(context, buffers, ticket);
                Turn::Again
            });
        }
    }

    /// Gives a turn to each connection that waits for a position and for which `is_due` returns true.
    fn turn_waiting(&mut self, is_due: impl Fn(&PositionWait) -> bool) {
        let due: Vec<_> = self.wait_for_position.extract_if(.., |(_, wait)| is_due(wait)).collect();
        self.context.position_waiters = self.wait_for_position.len();
        for (slot, _) in due {
            let Some(connection) = self.connection(slot) else { continue };
            connection.waits_for_position = false;
            self.turn(slot, false);
        }
    }

    /// Gives a turn to each connection that received an answer from another thread.
    fn turn_woken(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        for slot in woken.drain(..) {
            if let Some(connection) = self.connection(slot) {
                connection.woken = false;
                self.turn(slot, false);
            }
        }
        self.woken = woken;
    }

    fn read_messages(&mut self, messages: &mut Vec<LoopMessage>) {
        let mailboxes = Arc::clone(&self.mailboxes);
        let Some(mailbox) = mailboxes.get(usize::from(self.context.event_loop)) else { return };
        mailbox.take(messages);
        for message in messages.drain(..) {
            match message {
                LoopMessage::Connection(accepted) => self.open(accepted),
                LoopMessage::Written(answers) => {
                    for answer in answers {
                        if !self.is_open(answer.address) {
                            self.written_after_close(&answer);
                            continue;
                        }
                        self.deliver(answer.address, |connection, context, buffers| {
                            connection.written(context, buffers, &answer);
                        });
                        // Many large answers at once, as to replicas, would need as many large buffers.
                        if answer.value.as_ref().is_some_and(|value| value.len() > BUFFER_SIZE) {
                            self.turn_woken();
                        }
                    }
                }
                LoopMessage::Hashed(done) => self.deliver(done.address, |connection, context, buffers| {
                    connection.hashed(context, buffers, done);
                }),
                LoopMessage::Delayed(address) => self.deliver(address, |connection, context, buffers| {
                    connection.delayed(context, buffers, address.ticket);
                }),
                LoopMessage::Scanned(address) => self.deliver(address, |connection, _, _| {
                    connection.scanned(address.ticket);
                }),
                LoopMessage::ReadAhead(addresses, pages) => {
                    has_brought_in(&self.context.snapshot, &pages);
                    for address in addresses {
                        self.deliver(address, |connection, _, _| connection.read_ahead());
                    }
                }
                LoopMessage::WriterHasRoom => {
                    for slot in std::mem::take(&mut self.wait_for_writer) {
                        let Some(connection) = self.connection(slot) else { continue };
                        connection.waits_for_writer = false;
                        self.with_connection(slot, |_, _, _| Turn::Again);
                    }
                }
                LoopMessage::Committed => self.turn_reached(),
                LoopMessage::Settings(settings, _in_force) => self.context.take_settings(settings),
                LoopMessage::Probe(readiness) => self.answer_probe(&readiness),
                LoopMessage::Drain => self.drain_until = Some(self.context.now + DRAIN_TIMEOUT),
            }
        }
    }

    /// Delivers an answer of another thread to its connection, if the connection is still open. The connection gets one
    /// turn for all small answers of the pass.
    fn deliver(&mut self, address: Address, hand: impl FnOnce(&mut Connection, &mut Context, &mut Buffers)) {
        if self.is_open(address) {
            self.with_connection(address.slot, |connection, context, buffers| {
                hand(connection, context, buffers);
                Turn::Wait
            });
            if let Some(connection) = self.connection(address.slot)
                && !connection.woken
            {
                connection.woken = true;
                self.woken.push(address.slot);
            }
        }
    }

    /// Returns true if the acceptor must run without an event, because it has more connections to accept or its pause
    /// is over.
    fn accepts_without_event(&self) -> bool {
        self.acceptor.as_ref().is_some_and(|acceptor| {
            acceptor.has_more() || acceptor.paused_until().is_some_and(|until| until <= self.context.now)
        })
    }

    /// Accepts new connections. If the server is stopping, drops the acceptor. The drop sends a message to every loop.
    fn accept(&mut self) {
        let Some(acceptor) = &mut self.acceptor else { return };
        let mut accepted = std::mem::take(&mut self.accepted);
        if !acceptor.accept(self.context.event_loop, &mut accepted) {
            self.acceptor = None;
        }
        for new in accepted.drain(..) {
            self.open(new);
        }
        self.accepted = accepted;
    }

    /// Adds a new connection.
    fn open(&mut self, mut new: Accepted) {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Err(error) = self.poll.registry().register(&mut new.stream, Token(slot), Interest::READABLE) {
            tracing::warn!(%error, "a connection could not be watched and is closed");
            self.context.counters.connection_closed();
            self.free_slots.push(slot);
            return;
        }
        tracing::debug!("conn={} opened by {}", new.number, new.peer);
        self.context.usage.get_mut().opened(new.listener);
        let connection = Connection::open(new, slot, &self.context);
        let (is_watched, is_broken) = (connection.needs_watching(), connection.is_broken());
        self.untrusted += usize::from(connection.has_timeouts);
        if let Some(free) = self.slots.get_mut(slot) {
            *free = Some(Box::new(connection));
        }
        if is_broken {
            self.close(slot);
        } else if self.drain_until.is_some() {
            self.with_connection(slot, |connection, context, buffers| {
                connection.drain(context, buffers, false)
            });
        } else if is_watched {
            // The deadlines of a TLS handshake and of a proxy header must run even if no byte arrives.
            self.with_connection(slot, |_, _, _| Turn::Wait);
        }
    }

    /// Performs the timed work: draining, timeouts, retries for memory, silent connections.
    fn check_time(&mut self) {
        let now = self.context.now;
        if let Some(until) = self.drain_until {
            self.drain_all(now >= until);
        }
        if !self.watched.is_empty() && now >= self.next_tick {
            self.next_tick = now + TICK;
            for slot in std::mem::take(&mut self.watched) {
                let Some(connection) = self.connection(slot) else { continue };
                connection.watched = false;
                self.with_connection(slot, Connection::check_timeouts);
            }
        }
        if self.wait_for_position.iter().any(|(_, wait)| wait.until <= now) {
            self.turn_waiting(|wait| wait.until <= now);
        }
        if !self.wait_for_memory.is_empty() && now >= self.next_memory_retry {
            self.next_memory_retry = now + MEMORY_RETRY;
            for slot in std::mem::take(&mut self.wait_for_memory) {
                let Some(connection) = self.connection(slot) else { continue };
                connection.waits_for_memory = false;
                self.turn(slot, false);
            }
        }
        if let Some(shortest) = self.shortest_silence()
            && now >= self.next_silence_sweep
        {
            self.next_silence_sweep = now + SILENCE_SWEEP.min(shortest);
            self.close_silent(now);
        }
    }

    /// Returns the shortest idle timeout or first-request timeout. Returns `None` if the settings contain no such
    /// timeout, or if no open connection has timeouts.
    fn shortest_silence(&self) -> Option<Duration> {
        let settings = &self.context.settings;
        let timeouts = [settings.idle_timeout, settings.first_request_timeout];
        let own = settings.limits.iter().filter_map(|table| table.limits.idle).filter(|idle| !idle.is_zero());
        timeouts.into_iter().flatten().chain(own).min().filter(|_| self.untrusted > 0)
    }

    /// Closes connections that have been silent for too long. Each call checks a limited number of slots, and the next
    /// call continues after them.
    fn close_silent(&mut self, now: Instant) {
        let settings = &self.context.settings;
        let timeouts = [settings.first_request_timeout, settings.idle_timeout];
        let [before_first, idle] = timeouts.map(|timeout| now.checked_sub(timeout?));
        let from = if self.silence_cursor < self.slots.len() { self.silence_cursor } else { 0 };
        let until = self.slots.len().min(from + SILENCE_SWEEP_MAX);
        self.silence_cursor = until;
        for slot in from..until {
            let Some(why) =
                self.connection(slot).and_then(|connection| connection.silence(now, before_first, idle))
            else {
                continue;
            };
            self.with_connection(slot, |connection, context, buffers| {
                tracing::debug!("conn={} is closed: {why}", connection.number());
                connection.disconnect(context, buffers, ResultCode::ADMIN_LIMIT_EXCEEDED, why)
            });
        }
    }

    /// Disconnects every connection without an outstanding operation, or every connection if `is_over` is set.
    fn drain_all(&mut self, is_over: bool) {
        for slot in 0..self.slots.len() {
            self.with_connection(slot, |connection, context, buffers| {
                connection.drain(context, buffers, is_over)
            });
            if is_over {
                self.close(slot);
            }
        }
    }

    /// Returns true if the server is stopping, no connection is left, and the writer has finished the changes of closed
    /// connections or the time for that is over.
    fn is_drained(&self) -> bool {
        self.drain_until.is_some_and(|until| {
            let is_finished = self.unfinished.is_empty() || self.context.now >= until;
            is_finished && self.slots.iter().all(Option::is_none)
        })
    }
}
