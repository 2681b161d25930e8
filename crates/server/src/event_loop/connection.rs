//! A connection: a non-blocking socket, the buffered bytes in both directions, and the session between them.
//!
//! Readiness is edge-triggered: the kernel reports readable bytes once. Therefore a turn reads until a read returns
//! fewer bytes than requested. The answers to all requests of a turn are sent with one write. Bytes that the socket
//! does not accept stay in the output buffer. While that buffer is too large, the connection neither reads nor runs
//! searches, and TCP slows the client.

mod beginning;
mod ending;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use beginning::Beginning;
use directory::search::WakeReason;
use ending::STOPPING;
use ldap::ResultCode;
use zeroize::Zeroize as _;

use crate::config::ListenerIndex;
use crate::limits::{BUFFER_SIZE, PARTIAL_COPY_MAX, READS_PER_TURN_MAX, SLICE_BYTES_MAX, UNSENT_MAX};
use crate::net::buffers::Buffers;
use crate::net::mailbox::{HashDone, Written};
use crate::net::proxy_header::ProxyHeader;
use crate::net::request_memory::Admission;
use crate::net::stream::{Accepted, PROXY_ELSEWHERE, Peer, Stream};
use crate::net::tls::{Incoming, TlsSession};
use crate::session::context::Context;
use crate::session::positions::PositionWait;
use crate::session::turn_budget::TurnBudget;
use crate::session::{ConnectionPlace, MEMORY_USED, Next, Session, Urgent};
use crate::workers::read_ahead::{DryRun, PrefetchProgress};

/// Reason to disconnect a client whose requests arrived after StartTLS but without TLS.
const BEFORE_TLS: &str = "requests after StartTLS, before TLS";

/// A connection. An idle connection has no buffers and occupies only this struct.
pub(crate) struct Connection {
    stream: Stream,
    session: Session,
    /// Received bytes that are not handled yet: an incomplete message, or requests that wait. Has no capacity if it is
    /// empty.
    input: Vec<u8>,
    /// Encoded answers. The buffer has no capacity if all answers are sent.
    output: Vec<u8>,
    /// Number of bytes in `output` that are sent.
    sent: usize,
    /// Answers of other threads that arrived while `output` ended in the middle of a message.
    later: Vec<u8>,
    /// Time of the last progress in either direction, or at which the peer began not to accept answers. Before the
    /// first request, the time at which the connection was opened.
    last_progress: Instant,
    /// Whether a complete request has arrived.
    has_requested: bool,
    /// Whether the connection is included in the count of connections from its address.
    has_entered: bool,
    /// Whether the connection has an idle timeout and a timeout for the first request. False if its client is known to
    /// be trusted when the connection is opened.
    pub(crate) has_timeouts: bool,
    /// Whether the socket may have bytes to read.
    readable: bool,
    /// Whether the kernel has reported that the peer has closed its side. Reads continue until a read returns the end
    /// of the stream.
    ending: bool,
    /// Whether both directions are closed.
    broken: bool,
    phase: Phase,
    /// Event for which the requests in `input` wait.
    waiting: Waiting,
    /// Progress of prefetching for the requests in `input`.
    ahead: PrefetchProgress,
    /// Whether the socket's buffer was full after the last send.
    blocked: bool,
    /// Whether the socket is registered for writability.
    watches_room: bool,
    /// Whether the connection is in the event loop's list `ready`.
    pub(crate) queued: bool,
    /// Whether the connection is in the event loop's list `woken`.
    pub(crate) woken: bool,
    /// Whether the connection is in the event loop's list `watched`.
    pub(crate) watched: bool,
    /// Whether the connection is in the event loop's list `wait_for_writer`.
    pub(crate) waits_for_writer: bool,
    /// Whether the connection is in the event loop's list `wait_for_memory`.
    pub(crate) waits_for_memory: bool,
    /// Whether the connection is in the event loop's list `wait_for_position`.
    pub(crate) waits_for_position: bool,
    /// Whether the connection is counted in `notifying` of the event loop.
    pub(crate) is_notifying: bool,
}

/// Phase in the life of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// A proxy header is expected. Boxed because most connections are idle and never in this phase.
    Beginning(Box<Beginning>),
    Open,
    /// The peer has closed its side. Outstanding operations are still answered.
    Finishing,
    /// The server is stopping. Outstanding operations are still answered. Then the peer gets a notice of disconnection.
    Draining,
    /// The peer got a notice of disconnection. Bytes that it still sends are read and dropped, because closing a socket
    /// with unread bytes would reset the connection. The peer might then lose the notice.
    Lingering {
        since: Instant,
    },
}

/// Event for which the requests in the input wait. [`Next`] has the events for which the session waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The rest of the next request.
    Bytes,
    /// Turns of other connections.
    Turn,
    /// End of an outstanding operation.
    Finish,
    /// Transmission of the pending answers.
    Send,
    /// Room in the writer's queue.
    Writer,
    /// Release of memory by connections of the same source and identity.
    Memory,
    /// A later position of the directory.
    Position,
    /// Prefetch of the pages that the requests need.
    ReadAhead,
}

/// Time of a connection's next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// After the next event or message.
    Wait,
    /// In the next pass, because the connection has more work.
    Again,
    /// As soon as the writer's queue has room.
    WaitForWriter,
    /// After a short time, to try again to take more memory.
    WaitForMemory,
    /// As soon as the directory has reached this position or the maximum wait is over.
    WaitForPosition(PositionWait),
    /// Never: the connection must be closed.
    Close,
}

impl Connection {
    /// Creates the connection with index `slot`.
    pub(crate) fn open(new: Accepted, slot: usize, context: &Context) -> Connection {
        let Accepted { stream, peer, number, listener, has_tls } = new;
        let settings = &context.settings;
        let is_trusted = peer.hops().is_none_or(|hops| hops.are_all(|address| settings.trusts(address)));
        let place = ConnectionPlace { number, slot, listener };
        let is_proxy = matches!(peer, Peer::Network(address) if settings.is_proxy(address.ip()));
        let mut session = Session::new(place, Arc::clone(&context.anonymous), &peer, is_trusted && !is_proxy);
        if !is_proxy {
            session.find_limits(context);
            session.now_open(context, &peer);
        }
        let mut new = Connection::new(stream, session, context.now, !is_trusted || is_proxy);
        if is_proxy {
            let since = context.now;
            new.phase = Phase::Beginning(Box::new(Beginning { since, peer, place, has_tls }));
        } else {
            new.broken = !new.enter(context, has_tls) || (has_tls && !new.start_tls(context));
        }
        new
    }

    fn new(stream: Stream, session: Session, now: Instant, has_timeouts: bool) -> Connection {
        Connection {
            stream,
            session,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            later: Vec::new(),
            last_progress: now,
            has_requested: false,
            has_entered: false,
            has_timeouts,
            // Registration with epoll causes an event even for bytes that arrived earlier.
            readable: false,
            ending: false,
            broken: false,
            phase: Phase::Open,
            waiting: Waiting::Bytes,
            ahead: PrefetchProgress::default(),
            blocked: false,
            watches_room: false,
            queued: false,
            woken: false,
            watched: false,
            waits_for_writer: false,
            waits_for_memory: false,
            waits_for_position: false,
            is_notifying: false,
        }
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    pub(crate) fn number(&self) -> u64 {
        self.session.number()
    }

    /// Returns true if a search of this connection has notifications to send.
    pub(crate) fn has_changes_to_send(&self) -> bool {
        self.session.has_changes_to_send()
    }

    /// Wakes a persistent search. Returns false if the search has ended.
    pub(crate) fn wake(&mut self, ticket: u64, woken: WakeReason) -> bool {
        self.session.wake(ticket, woken)
    }

    /// Ends a persistent search whose client reads notifications more slowly than changes occur. The answer is sent in
    /// the next turn.
    pub(crate) fn cut_off(&mut self, context: &mut Context, buffers: &mut Buffers, ticket: u64) {
        self.prepare_output(buffers);
        self.session.cut_off(context, ticket, &mut self.output);
    }

    /// Notes that both directions of the socket are closed, so that the client can read no answer. Outstanding
    /// operations are dropped (RFC 4511 section 3.1), except changes that the writer has received.
    pub(crate) fn now_broken(&mut self) {
        self.broken = true;
    }

    /// Notes that the kernel reports readable bytes. `ending` means that the peer has closed its side after these
    /// bytes.
    pub(crate) fn now_readable(&mut self, ending: bool) {
        self.readable = true;
        self.ending |= ending;
    }

    /// Reads requests, answers them, and sends the answers. If `slice` is set, also runs one slice of a search.
    pub(crate) fn turn(&mut self, context: &mut Context, buffers: &mut Buffers, slice: bool) -> Turn {
        if self.broken {
            return Turn::Close;
        }
        match self.phase {
            Phase::Lingering { .. } => return self.linger(context, buffers),
            Phase::Beginning(_) => match self.take_proxy_header(context) {
                Ok(true) => {}
                Ok(false) if self.broken => return Turn::Close,
                Ok(false) => return Turn::Wait,
                Err(error) => {
                    self.refuse_proxy(context, &error);
                    return Turn::Close;
                }
            },
            Phase::Open | Phase::Finishing | Phase::Draining => {}
        }
        self.prepare_output(buffers);
        if self.unsent() > 0 && !self.send(context) {
            return Turn::Close;
        }
        if slice && self.unsent() < self.session.unsent_max() && self.session.wants_slice() {
            self.make_room_for_slice();
            if !self.session.run_slice(context, &mut self.output) {
                tracing::error!("conn={} is closed: a message could not be finished", self.number());
                return Turn::Close;
            }
            if !self.session.is_mid_message() {
                self.output.append(&mut self.later);
            }
        }
        if self.ending {
            self.session.end_input(context, &mut self.output);
        }
        let wants_more = match self.read_requests(context, buffers) {
            Reading::Idle => false,
            Reading::More => true,
            // The peer cannot use the identity of an outstanding bind, so the password is not verified.
            Reading::Ended if self.session.is_binding() => return Turn::Close,
            Reading::Ended => {
                let out = if self.session.is_mid_message() { &mut self.later } else { &mut self.output };
                self.session.give_up_hashing(context, out);
                self.phase = Phase::Finishing;
                self.session.end_input(context, &mut self.output);
                false
            }
            Reading::Close => {
                self.send(context);
                return Turn::Close;
            }
            Reading::Disconnect(code, why) => return self.disconnect(context, buffers, code, &why),
            Reading::StartTls => {
                // The answer to StartTLS is sent without TLS. All earlier answers are sent, so the socket has room for
                // it.
                if !self.send(context) || self.unsent() > 0 || !self.start_tls(context) {
                    return Turn::Close;
                }
                self.waiting = Waiting::Bytes;
                self.readable
            }
        };
        // The connection may break after this turn has read a bind. In that case no client can use the bind.
        if !self.send(context) || (self.broken && self.session.is_binding()) {
            return Turn::Close;
        }
        if self.phase == Phase::Draining && self.session.is_idle() {
            return self.disconnect(context, buffers, ResultCode::UNAVAILABLE, STOPPING);
        }
        let turn = self.next_turn(wants_more);
        if self.unsent() == 0 {
            buffers.give(std::mem::take(&mut self.output));
        }
        turn
    }

    /// Returns the event that gives the connection its next turn.
    fn next_turn(&self, wants_more: bool) -> Turn {
        if self.phase == Phase::Finishing && self.session.is_idle() && self.unsent() == 0 {
            return Turn::Close;
        }
        let has_room = self.unsent() < self.session.unsent_max();
        // If the socket's buffer is full, the event that reports room in it causes the next turn.
        let can_read = wants_more || (self.waiting == Waiting::Send && !self.blocked);
        if has_room && (can_read || self.session.wants_slice()) {
            Turn::Again
        } else if self.waiting == Waiting::Writer {
            Turn::WaitForWriter
        } else if self.waiting == Waiting::Memory && self.phase == Phase::Open {
            Turn::WaitForMemory
        } else if self.waiting == Waiting::Position
            && self.phase == Phase::Open
            && let Some(wait) = self.session.position_wait()
        {
            Turn::WaitForPosition(wait)
        } else {
            Turn::Wait
        }
    }

    /// Reads requests and passes them to the session, until the socket is empty or the session waits.
    fn read_requests(&mut self, context: &mut Context, buffers: &mut Buffers) -> Reading {
        if self.phase != Phase::Open || (!self.readable && self.input.is_empty()) {
            return Reading::Idle;
        }
        let mut input = self.take_input(buffers);
        let mut consumed = 0;
        let reading = self.exchange(context, &mut input, &mut consumed);
        self.keep_input(input, consumed, buffers);
        reading
    }

    /// Alternates between handling requests in `input` and reading the socket. `consumed` is the number of handled
    /// bytes in `input`.
    fn exchange(&mut self, context: &mut Context, input: &mut Vec<u8>, consumed: &mut usize) -> Reading {
        let mut reads = 0;
        let mut turn = TurnBudget::default();
        loop {
            if *consumed < input.len() {
                let rest = input.get(*consumed..).unwrap_or_default();
                if let Err(error) = context.catch_up() {
                    return Reading::Disconnect(ResultCode::UNAVAILABLE, error.to_string());
                }
                let ready = self.ready(context, rest);
                if ready == 0 {
                    self.waiting = Waiting::ReadAhead;
                    return Reading::Idle;
                }
                let (unsent, ahead) = (self.unsent(), rest.get(..ready).unwrap_or(rest));
                let received = self.session.receive(context, ahead, &mut self.output, unsent, &mut turn);
                let is_cut = ready < rest.len() && received.consumed > 0;
                let start = *consumed;
                *consumed += received.consumed;
                if received.is_secret {
                    input.get_mut(start..*consumed).unwrap_or_default().zeroize();
                }
                if received.consumed > 0 && !self.has_requested {
                    self.has_requested = true;
                    self.last_progress = context.now;
                }
                self.waiting = match received.next {
                    Next::Read => Waiting::Bytes,
                    Next::Turn => {
                        self.waiting = Waiting::Turn;
                        return Reading::More;
                    }
                    Next::Finish => Waiting::Finish,
                    Next::Send => Waiting::Send,
                    Next::WriterRoom => Waiting::Writer,
                    Next::Memory => Waiting::Memory,
                    Next::Position => Waiting::Position,
                    // An attacker may have sent these requests, because they arrived without TLS.
                    Next::StartTls if *consumed < input.len() => {
                        self.output.clear();
                        return Reading::Disconnect(ResultCode::PROTOCOL_ERROR, BEFORE_TLS.to_owned());
                    }
                    Next::StartTls => return Reading::StartTls,
                    Next::Close => return Reading::Close,
                    Next::Disconnect(code, why) => {
                        let rest = input.get(start..).unwrap_or_default();
                        return Reading::Disconnect(code, self.cause(context, rest, why));
                    }
                };
                if self.waiting != Waiting::Bytes {
                    match self.find_urgent(context, input, consumed) {
                        UrgentSearch::Nothing => return Reading::Idle,
                        UrgentSearch::Abandoned => continue,
                        UrgentSearch::End(reading) => return reading,
                    }
                }
                if is_cut {
                    continue;
                }
            } else {
                self.waiting = Waiting::Bytes;
            }
            if !self.readable {
                return Reading::Idle;
            }
            if reads == READS_PER_TURN_MAX {
                return Reading::More;
            }
            reads += 1;
            if is_full(input, *consumed)
                && input.capacity() >= BUFFER_SIZE
                && !self.may_grow_input(context, input.capacity())
            {
                return Reading::Disconnect(ResultCode::BUSY, MEMORY_USED.to_owned());
            }
            make_room(input, consumed);
            if let Some(end) = self.read(context, input) {
                return end;
            }
        }
    }

    /// Returns the diagnostic message for a disconnection. That is `why`, unless `input` begins with a proxy header.
    /// The message then names the proxy header as the cause.
    #[cold]
    fn cause(&self, context: &Context, input: &[u8], why: String) -> String {
        if !ProxyHeader::is_at_start_of(input) {
            return why;
        }
        context.shared.proxies.refuse_proxy_header(context.now, self.number(), self.session.source());
        PROXY_ELSEWHERE.to_owned()
    }

    /// Charges the memory of a full buffer before it grows for the rest of a message. Returns false if the source or
    /// the identity of the connection may take no more memory. Waiting would not help: if a source has only incomplete
    /// messages, none of them can be completed to release memory.
    fn may_grow_input(&mut self, context: &mut Context, capacity: usize) -> bool {
        self.session.charge(context, capacity + self.output.capacity());
        let is_admitted = self.session.admission(context) == Admission::Admitted;
        if !is_admitted {
            context.shared.request_memory.refuse(context.now);
        }
        is_admitted
    }

    /// While a request waits, searches the later input for an Abandon or Unbind. Searches at most [`BUFFER_SIZE`]
    /// bytes, and leaves later bytes in the socket.
    fn find_urgent(
        &mut self,
        context: &mut Context,
        input: &mut Vec<u8>,
        consumed: &mut usize,
    ) -> UrgentSearch {
        let is_read =
            self.readable && input.len() - *consumed < BUFFER_SIZE && input.capacity() <= 2 * BUFFER_SIZE;
        if is_read {
            input.drain(..*consumed);
            *consumed = 0;
            input.reserve_exact(BUFFER_SIZE.saturating_sub(input.len()));
            match self.read(context, input) {
                // The peer has closed its side and cannot use the identity of the outstanding bind.
                Some(Reading::Ended) if self.session.is_binding() && *consumed == input.len() => {
                    return UrgentSearch::End(Reading::Ended);
                }
                // The connection reads the end again after it has handled the remaining requests.
                Some(Reading::Ended) => {
                    self.readable = true;
                    let count = self.session.outstanding_count();
                    self.session.end_input(context, &mut self.output);
                    // TLS reports the end of the stream before the socket does. `end_input` may have ended an operation
                    // for which the next request waited.
                    if self.session.outstanding_count() < count {
                        return UrgentSearch::Abandoned;
                    }
                }
                Some(end) => return UrgentSearch::End(end),
                None => {}
            }
        }
        let unhandled = input.get(*consumed..).unwrap_or_default();
        match self.session.find_urgent(context, unhandled, &mut self.output) {
            None => UrgentSearch::Nothing,
            Some(Urgent::Unbind) => UrgentSearch::End(Reading::Close),
            Some(Urgent::Abandoned(message)) => {
                input.drain(*consumed + message.start..*consumed + message.end);
                UrgentSearch::Abandoned
            }
        }
    }

    /// Returns the number of bytes of `input` that the session may handle now; 0 while the pages for them are
    /// prefetched.
    #[inline]
    fn ready(&mut self, context: &mut Context, input: &[u8]) -> usize {
        if self.ahead == PrefetchProgress::default() && !context.is_cold() {
            return input.len();
        }
        let session = &self.session;
        self.ahead.ready(input, |input| match context.is_cold() {
            true => session.dry_run(context, input),
            false => DryRun::all(input),
        })
    }

    /// Reads once. Returns `Some` if reading must stop.
    fn read(&mut self, context: &mut Context, input: &mut Vec<u8>) -> Option<Reading> {
        let received = self.stream.receive(input);
        if self.stream.tls().is_some() && !self.after_tls_read(context) {
            return Some(Reading::Close);
        }
        match received {
            Ok(Incoming::End) => {
                self.readable = false;
                Some(Reading::Ended)
            }
            Ok(Incoming::Octets(count, has_more)) => {
                if count > 0 {
                    self.note_received(context.now);
                }
                context.counters.bytes_in.add(count as u64);
                // The kernel reports later bytes with a new event. If it has reported the end of the stream together
                // with these bytes, it does not report the end again.
                self.readable = has_more || self.ending;
                None
            }
            Ok(Incoming::Nothing) => {
                self.readable = false;
                None
            }
            Err(error) => {
                if error.kind() == ErrorKind::InvalidData {
                    context.shared.certificates.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::info!("conn={} is closed: TLS: {error}", self.number());
                }
                Some(Reading::Close)
            }
        }
    }

    /// Notes that octets arrived. They are no progress while the peer does not accept its answers. Otherwise a peer
    /// could occupy the memory of its answers without a time limit, by sending an octet now and then.
    fn note_received(&mut self, now: Instant) {
        if !self.blocked && (self.has_requested || self.session.is_trusted()) {
            self.last_progress = now;
        }
    }

    /// Returns a buffer of full size that begins with the bytes in `self.input`.
    fn take_input(&mut self, buffers: &mut Buffers) -> Vec<u8> {
        let old_input = std::mem::take(&mut self.input);
        if old_input.capacity() >= BUFFER_SIZE {
            return old_input;
        }
        let mut buffer = buffers.take();
        buffer.extend_from_slice(&old_input);
        buffer
    }

    /// Stores the bytes of `input` that are not handled. Few bytes are copied to a small buffer, so that a peer that
    /// stops in the middle of a message occupies little memory.
    fn keep_input(&mut self, mut input: Vec<u8>, consumed: usize, buffers: &mut Buffers) {
        let rest = input.get(consumed..).unwrap_or_default();
        if rest.is_empty() {
            buffers.give(input);
        } else if rest.len() <= PARTIAL_COPY_MAX {
            self.input = rest.to_vec();
            buffers.give(input);
        } else {
            input.drain(..consumed);
            self.input = input;
        }
    }

    /// Adds the work of a turn to the counters of the listener and of the client.
    pub(crate) fn attribute(&mut self, context: &mut Context) {
        self.session.attribute(context);
    }

    /// Returns the listener that accepted the connection.
    pub(crate) fn listener(&self) -> ListenerIndex {
        self.session.listener()
    }

    /// Charges the memory of the connection to its source and identity.
    pub(crate) fn charge(&mut self, context: &mut Context) {
        let tls = self.stream.tls().map_or(0, TlsSession::buffered_bytes);
        let answers = self.output.capacity() + self.later.capacity() + tls;
        // Input during a prefetch counts twice, because the prefetch job has a copy of it.
        let input =
            self.input.capacity() + if self.waiting == Waiting::ReadAhead { self.input.len() } else { 0 };
        self.session.charge(context, input + answers);
    }

    /// Reserves room for the maximum of unsent answers at once, unless `output` contains less than one slice. A buffer
    /// that grows by doubling would take up to twice as much memory for a client that does not read.
    fn make_room_for_slice(&mut self) {
        if self.output.len() < SLICE_BYTES_MAX {
            return;
        }
        let size = self.session.unsent_max() + SLICE_BEYOND_SIZE;
        if self.sent > 0 && self.output.len() + SLICE_BYTES_MAX > size {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        self.output.reserve_exact(size.saturating_sub(self.output.len()));
    }

    fn unsent(&self) -> usize {
        self.output.len() - self.sent + self.stream.unsent()
    }

    /// Sends as many bytes as the socket accepts. Returns false if the connection is broken.
    fn send(&mut self, context: &mut Context) -> bool {
        let sent = self.send_at(context.now);
        context.counters.bytes_out.add(sent.unwrap_or_default());
        sent.is_some()
    }

    /// Sends like [`send`](Self::send). Returns the number of accepted bytes; `None` if the connection is broken.
    fn send_at(&mut self, now: Instant) -> Option<u64> {
        let mut accepted = 0;
        let was_blocked = std::mem::take(&mut self.blocked);
        while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.send(rest) {
                Ok(count) => {
                    self.sent += count;
                    accepted += count as u64;
                    self.last_progress = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        match self.stream.flush() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.blocked = true,
            Err(_) => return None,
        }
        if self.blocked && !was_blocked && self.has_requested {
            self.last_progress = now;
        }
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        } else if self.sent >= UNSENT_MAX {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Some(accepted)
    }

    /// Handles the writer's answer to a change. The client's answer is sent in the next turn.
    pub(crate) fn written(&mut self, context: &mut Context, buffers: &mut Buffers, answer: &Written) {
        if let Phase::Lingering { .. } = self.phase {
            // The notice of disconnection was the last message to the client.
            return self.session.written(context, answer, &mut Vec::new());
        }
        self.prepare_output(buffers);
        let out = if self.session.is_mid_message() { &mut self.later } else { &mut self.output };
        self.session.written(context, answer, out);
    }

    /// Handles the result of a hash pool job. The client's answer is sent in the next turn.
    pub(crate) fn hashed(&mut self, context: &mut Context, buffers: &mut Buffers, done: HashDone) {
        self.prepare_output(buffers);
        let out = if self.session.is_mid_message() { &mut self.later } else { &mut self.output };
        self.session.hashed(context, done, out);
    }

    /// Ends the delay of an answer, which is sent in the next turn.
    pub(crate) fn delayed(&mut self, context: &mut Context, buffers: &mut Buffers, ticket: u64) {
        self.prepare_output(buffers);
        let out = if self.session.is_mid_message() { &mut self.later } else { &mut self.output };
        self.session.delayed(context, ticket, out);
    }

    /// Notes that scan threads have a result for a search of this connection. A later turn sends the result.
    pub(crate) fn scanned(&mut self, ticket: u64) {
        self.session.scanned(ticket);
    }

    /// Notes that one prefetch job for the input is done. When all jobs are done, the next turn handles the requests.
    pub(crate) fn read_ahead(&mut self) {
        self.ahead.one_is_done();
    }

    fn prepare_output(&mut self, buffers: &mut Buffers) {
        if self.output.capacity() == 0 {
            self.output = buffers.take();
        }
    }

    /// Returns true if the socket must now be registered for writability. Returns true at most once.
    pub(crate) fn wants_room(&mut self) -> bool {
        let wants = self.blocked && !self.watches_room;
        self.watches_room |= wants;
        wants
    }

    /// Returns true if both directions of the socket are closed.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}

/// Result of reading requests.
enum Reading {
    /// The socket is empty, or the session waits.
    Idle,
    /// There is more input, but other connections must have their turns first.
    More,
    /// The peer has sent its last byte.
    Ended,
    /// The client has requested StartTLS, and the answer is in the output.
    StartTls,
    /// The session is over.
    Close,
    /// The session is over, and the peer gets a notice of disconnection.
    Disconnect(ResultCode, String),
}

/// Result of searching for an urgent request after a waiting request.
enum UrgentSearch {
    Nothing,
    /// An operation was abandoned or has ended, so that the waiting request may be able to continue.
    Abandoned,
    /// The connection must end, with this result.
    End(Reading),
}

/// Maximum output beyond the bound on unsent bytes: one slice may exceed the bound, and its last entry may exceed the
/// slice.
const SLICE_BEYOND_SIZE: usize = SLICE_BYTES_MAX + BUFFER_SIZE;

/// Returns true if the next read needs a larger buffer.
fn is_full(input: &Vec<u8>, consumed: usize) -> bool {
    consumed == 0 && !input.is_empty() && input.len() == input.capacity()
}

/// Makes room for a read, by dropping handled bytes or else by growing the buffer to at most twice its size. Therefore
/// memory grows with the bytes that arrive, not with the size in a message header. The buffer grows at most to the size
/// of the message.
fn make_room(input: &mut Vec<u8>, consumed: &mut usize) {
    if *consumed == input.len() {
        input.clear();
        *consumed = 0;
    } else if input.len() == input.capacity() {
        if *consumed > 0 {
            input.drain(..*consumed);
            *consumed = 0;
        } else {
            let missing = match ldap::frame_len(input) {
                Ok(Some(size)) => size.saturating_sub(input.len()).max(1),
                _ => input.len(),
            };
            input.reserve_exact(missing.min(input.len()));
        }
    }
}

#[cfg(test)]
mod tests;
