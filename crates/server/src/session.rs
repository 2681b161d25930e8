//! An LDAP session (RFC 4511): decodes requests, tracks outstanding operations, and encodes responses. It has no
//! socket: `event_loop::connection` reads and writes the bytes.
//!
//! Short operations are answered at once. The other operations are *outstanding*, and are answered in the order in
//! which they finish. Searches run in slices, and long searches also on scan threads. Changes wait for the writer. Slow
//! password hashes wait for the hash pool.
//!
//! A bind waits for the outstanding operations, and later requests wait for the bind. RFC 4511 section 4.2.1 would also
//! allow the server to abandon outstanding operations. The server waits instead, so that every request is answered. The
//! wait is bounded because every operation has a time limit. During a bind the session is anonymous. It stays anonymous
//! if the bind fails (RFC 4513 section 4).
//!
//! The changes of a session reach the writer in the order received, even if one of them first waits for a password
//! hash.

mod answers;
mod attempts;
mod audit;
mod backup;
mod bearer;
mod cancel;
mod changes;
mod connection_id;
pub(crate) mod context;
mod deleted;
mod digest;
mod dispatch;
mod extended;
mod forwarded;
mod history;
mod kerberos;
mod mail_token;
mod outstanding;
mod own_credentials;
mod own_limits;
mod password_answer;
mod password_modify;
mod password_state;
mod passwords;
pub(crate) mod positions;
mod promote;
mod proof;
mod read_audit;
mod read_log;
mod responder;
mod sasl;
mod searches;
mod settings;
mod shared_rest;
mod start_tls;
mod transactions;
pub(crate) mod turn_budget;
mod uses;
mod verify_credentials;

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

use directory::bind::ExternalIdentity;
use directory::{BindMethod, Outcome, Requester};
use ldap::{
    Controls, DecodeError, DecodeErrorKind, LdapResult, Message, MessageId, Request, ResponseOp, ResultCode,
    request_tag, response,
};

use self::sasl::SaslExchange;
use crate::config::ListenerIndex;
use crate::limits::SASL_EXCHANGE_BYTES;
use crate::net::client_identity::ClientIdentity;
use crate::net::mailbox::Address;
use crate::net::request_memory::{Account, Admission, HolderKey, Source};
use crate::net::stream::Peer;
use crate::session::context::Context;
use crate::session::own_limits::OwnLimits;
use crate::telemetry::counters::Operation;
use crate::workers::hash_pool::HashClaim;
use crate::workers::read_ahead::{DryRun, dry_run};
use crate::workers::usage::ClientKey;
use audit::{ConnectionFacts, OperationEnd};
use changes::DeferredChange;
use dispatch::Arrival;
use outstanding::{Outstanding, OutstandingRequests, RequestHead, Work};
use positions::PositionWait;
use proof::{LastProof, Proof};
use start_tls::Protection;
use transactions::Transaction;
use turn_budget::TurnBudget;
use verify_credentials::Verifying;

/// One client's session.
pub(crate) struct Session {
    /// Number of the connection, for the log and for routing the answers of other threads.
    number: u64,
    /// Slot of the connection in its event loop, for routing the answers of other threads.
    slot: u32,
    /// Listener that accepted the connection and whose rules apply.
    listener: ListenerIndex,
    requester: Arc<Requester>,
    /// Facts about the connection for audit events. `None` without an audit trail. Boxed because most connections are
    /// idle.
    event_facts: Option<Box<ConnectionFacts>>,
    /// Whether the password was reset. The user must then change it before any other request.
    must_change: bool,
    /// Proof of the password by the last bind, if the user has a password policy. Boxed because most connections are
    /// idle.
    proved: Option<Box<LastProof>>,
    /// SASL exchange that a bind began. Boxed because most connections have none.
    sasl: Option<Box<SaslExchange>>,
    /// SASL exchanges of Verify Credentials requests. Boxed because most sessions have none.
    verifying: Option<Box<Verifying>>,
    source: Source,
    /// Whether the settings trust the client's address. A trusted client is not delayed for wrong passwords, and has no
    /// idle timeout.
    is_trusted: bool,
    /// Whether the client has ended its side of the connection.
    has_ended_input: bool,
    /// Identity for a bind by SASL EXTERNAL.
    external: ExternalIdentity,
    /// Method of the last bind. While the requester is anonymous, the method has no meaning.
    bind_method: BindMethod,
    /// Protection of the connection: none, the kernel, or TLS.
    protection: Protection,
    /// Request memory of the connection.
    account: Account,
    outstanding: OutstandingRequests,
    /// Changes that are not yet submitted to the writer. The first change waits for the hash pool. The other changes
    /// wait to keep the order.
    deferred: VecDeque<DeferredChange>,
    next_ticket: u64,
    /// Number of transactions started so far on this connection.
    transaction_count: u32,
    /// The open transaction.
    transaction: Option<Box<Transaction>>,
    /// Limits from `[[limit]]` tables. Boxed because most sessions have only the common limits.
    limits: Option<Box<OwnLimits>>,
    /// Index in `outstanding` from which the session looks for the next search that can run a slice.
    next_slice: u32,
    /// Position that the first request in the input waits for.
    position_wait: Option<Box<PositionWait>>,
    /// Index of the client's counters in the event loop's table. It may be outdated and is verified when used.
    usage_place: u8,
}

/// Identity and location of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionPlace {
    /// Number of the connection.
    pub(crate) number: u64,
    /// Slot of the connection in its event loop.
    pub(crate) slot: usize,
    pub(crate) listener: ListenerIndex,
}

/// Returns true if the encoded request may contain a password.
fn may_hold_passwords(request: &Request<'_>) -> bool {
    !matches!(request, Request::Search(_) | Request::Delete(_) | Request::Abandon(_) | Request::Unbind)
}

/// Result of [`Session::receive`].
#[derive(Debug, PartialEq)]
pub(crate) struct Received {
    /// Number of input bytes that the session has handled.
    pub(crate) consumed: usize,
    /// Whether the handled bytes may contain passwords. If so, the caller must wipe them.
    pub(crate) is_secret: bool,
    /// Event that must occur before the session continues.
    pub(crate) next: Next,
}

/// Event that a session waits for before it handles more input.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Arrival of more bytes from the client.
    Read,
    /// Turns of the other connections.
    Turn,
    /// End of an outstanding operation.
    Finish,
    /// Transmission of the pending answers.
    Send,
    /// Room in the writer's queue.
    WriterRoom,
    /// A later position of the directory, if the next request requires one.
    Position,
    /// Release of memory by other connections of the same source and identity.
    Memory,
    /// TLS handshake, which begins when the StartTLS response is sent.
    StartTls,
    /// No event: the client has unbound.
    Close,
    /// No event: the client gets a notice of disconnection (RFC 4511 section 4.4.1).
    Disconnect(ResultCode, String),
}

/// A request that is handled before earlier requests that are still waiting.
#[derive(Debug, PartialEq)]
pub(crate) enum Urgent {
    /// An Abandon, which was carried out, and its range in the input.
    Abandoned(Range<usize>),
    /// An Unbind.
    Unbind,
}

impl Session {
    pub(crate) fn new(
        ConnectionPlace { number, slot, listener }: ConnectionPlace,
        requester: Arc<Requester>,
        peer: &Peer,
        is_trusted: bool,
    ) -> Session {
        Session {
            number,
            slot: u32::try_from(slot).unwrap_or(u32::MAX),
            listener,
            requester,
            event_facts: None,
            must_change: false,
            proved: None,
            sasl: None,
            verifying: None,
            source: Source::from(peer),
            is_trusted,
            has_ended_input: false,
            external: peer.external_identity(),
            bind_method: BindMethod::None,
            protection: Protection::of(peer),
            account: Account::default(),
            outstanding: OutstandingRequests::default(),
            deferred: VecDeque::new(),
            next_ticket: 0,
            transaction_count: 0,
            transaction: None,
            limits: None,
            next_slice: 0,
            position_wait: None,
            usage_place: 0,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the listener that accepted the connection.
    pub(crate) fn listener(&self) -> ListenerIndex {
        self.listener
    }

    /// Adds the work of the turn to the counters of the listener and of the client.
    pub(crate) fn attribute(&mut self, context: &mut Context) {
        let identity = ClientIdentity::of(&self.requester, self.source);
        let client = (ClientKey { source: self.source, identity }, &mut self.usage_place);
        let (work, now) = (context.counters.work(), context.now);
        context.usage.get_mut().attribute(&work, self.listener, client, self.requester.dn(), now);
    }

    /// Returns the source from which the client connected.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Returns true if the settings trust the client's address. A trusted client is not delayed for wrong passwords,
    /// and has no idle timeout.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Returns true if no operation is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Returns the number of operations without an answer.
    pub(crate) fn outstanding_count(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns true if a search has a slice to run.
    pub(crate) fn wants_slice(&self) -> bool {
        self.outstanding.iter().any(Outstanding::wants_slice)
    }

    /// Returns true if the output ends in the middle of a message. Then only the next slice may append to it, and no
    /// search may be stopped.
    pub(crate) fn is_mid_message(&self) -> bool {
        self.outstanding.iter().any(Outstanding::is_mid_message)
    }

    fn has_search(&self) -> bool {
        self.outstanding.iter().any(Outstanding::is_search)
    }

    /// Returns true if the time limit of an operation or a transaction is running.
    pub(crate) fn has_deadline(&self) -> bool {
        self.outstanding.iter().any(|outstanding| outstanding.deadline().is_some())
            || self.transaction_has_deadline()
    }

    /// Returns true if a bind is outstanding. No other operation is outstanding then.
    pub(crate) fn is_binding(&self) -> bool {
        self.outstanding.last().is_some_and(Outstanding::is_bind)
    }

    /// Makes a dry run of each request in `input`. Queues prefetch jobs for the requests whose pages are not all in
    /// memory.
    pub(crate) fn dry_run(&self, context: &mut Context, input: &[u8]) -> DryRun {
        let (limits, address) = (self.decode_limits(context), self.address(context));
        let (snapshot, scratch, jobs) = (&context.snapshot, &mut context.look_scratch, &mut context.jobs);
        dry_run(snapshot, &limits, address, &self.requester, input, scratch, jobs)
    }

    /// Handles the complete requests in `input` until a request must wait, and appends their responses to `out`.
    /// `unsent` is the number of earlier response bytes that are not sent yet.
    pub(crate) fn receive(
        &mut self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
        unsent: usize,
        turn: &mut TurnBudget,
    ) -> Received {
        let (mut consumed, mut is_secret) = (0, false);
        let start = out.len();
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            if let Some(next) = self.must_wait(context, unsent + out.len() - start) {
                return Received { consumed, is_secret, next };
            }
            let limits = self.decode_limits(context);
            let frame = match next_frame(rest, limits.message_size_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Received { consumed, is_secret, next: Next::Read },
                Err(why) => {
                    let next = Next::Disconnect(ResultCode::PROTOCOL_ERROR, why);
                    return Received { consumed, is_secret, next };
                }
            };
            let flow = match Message::decode(frame, &limits) {
                Ok(message) => {
                    is_secret |= may_hold_passwords(&message.request);
                    self.dispatch(context, Arrival::new(&message, frame), out)
                }
                Err(error) => {
                    is_secret = true;
                    self.refuse_undecodable(context, &error, out)
                }
            };
            if let ControlFlow::Break(next) = flow {
                consumed += if next == Next::StartTls { frame.len() } else { 0 };
                return Received { consumed, is_secret, next };
            }
            consumed += frame.len();
            self.position_wait = None;
            if turn.is_used_up(frame.len(), Instant::now) {
                return Received { consumed, is_secret, next: Next::Turn };
            }
        }
    }

    /// Searches `waiting`, the input from the first waiting request on, for a request that must not wait. An Abandon of
    /// an outstanding operation is carried out here. An Unbind counts only if all requests before it are reads.
    pub(crate) fn find_urgent(
        &mut self,
        context: &mut Context,
        waiting: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Urgent> {
        let limits = self.decode_limits(context);
        let mut start = 0;
        let mut only_reads = true;
        while let Ok(Some(frame)) = next_frame(waiting.get(start..)?, limits.message_size_max) {
            let end = start + frame.len();
            match ldap::operation_of(frame)? {
                request_tag::UNBIND if only_reads => {
                    if let Ok(message) = Message::decode(frame, &limits) {
                        self.complete_urgent(context, &message, Operation::UNBIND);
                    }
                    return Some(Urgent::Unbind);
                }
                request_tag::ABANDON => {
                    if let Ok(message) = Message::decode(frame, &limits)
                        && let Request::Abandon(id) = message.request
                        && self.abandons(id)
                    {
                        self.abandon(context, id, out);
                        self.complete_urgent(context, &message, Operation::ABANDON);
                        return Some(Urgent::Abandoned(start..end));
                    }
                }
                request_tag::SEARCH | request_tag::COMPARE => {}
                _ => only_reads = false,
            }
            start = end;
        }
        None
    }

    /// Counts and logs a request without a response that was handled before earlier requests.
    fn complete_urgent(&self, context: &Context, message: &Message<'_>, operation: Operation) {
        context.counters.received(operation);
        let event = self.begin_event(context, message, operation);
        self.complete_unanswered(context, &RequestHead::of(message, operation, event, context.now));
    }

    /// Returns true if an operation with this id is outstanding and can be abandoned.
    fn abandons(&self, id: MessageId) -> bool {
        self.outstanding.iter().find(|other| other.has_id(id)).is_some_and(|other| !other.is_mid_message())
    }

    /// Returns the event that must occur before the next request is handled, if any.
    fn must_wait(&mut self, context: &Context, unsent: usize) -> Option<Next> {
        let is_full = self.outstanding.len() >= self.outstanding_max(context) || self.outstanding.is_full();
        if self.is_binding() || is_full {
            Some(Next::Finish)
        } else if self.admission(context) == Admission::MustWait || context.audit.must_hold() {
            Some(Next::Memory)
        } else if unsent >= self.unsent_max() || self.is_mid_message() {
            Some(Next::Send)
        } else {
            None
        }
    }

    /// Answers a request that cannot be decoded, or disconnects the client. RFC 4511 section 4.1.1 requires a
    /// disconnection if the envelope cannot be read, the operation is unknown, or the encoding is broken. A
    /// well-encoded request that breaks another rule is answered with protocolError.
    fn refuse_undecodable(
        &mut self,
        context: &mut Context,
        error: &DecodeError,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let response = error.request_tag.and_then(ResponseOp::answering_tag);
        let operation = error.request_tag.and_then(Operation::of);
        let is_well_encoded = !matches!(error.kind, DecodeErrorKind::Ber(_));
        let (Some(id), Some(response), Some(operation), true) =
            (error.id, response, operation, is_well_encoded)
        else {
            return ControlFlow::Break(Next::Disconnect(ResultCode::PROTOCOL_ERROR, error.to_string()));
        };
        self.end_identity_if_bind(context, operation);
        self.refuse_in_transaction(id);
        context.counters.received(operation);
        context.counters.completed(operation, ResultCode::PROTOCOL_ERROR, Duration::ZERO);
        self.audit_undecodable(context, id, operation);
        let text = error.to_string();
        let result = LdapResult::new(ResultCode::PROTOCOL_ERROR, &text);
        response::encode_result(out, id, response, &result, Controls::NONE);
        tracing::debug!("conn={} op={id} {} cannot be decoded: {text}", self.number, operation.name());
        ControlFlow::Continue(())
    }

    /// Abandons an operation (RFC 4511 section 4.11). A change that the writer has already received is still made. Its
    /// event then has the writer's outcome.
    fn abandon(&mut self, context: &mut Context, id: MessageId, out: &mut Vec<u8>) {
        let mut numbered = self.outstanding.iter_mut().enumerate();
        let Some((index, found)) = numbered.find(|(_, other)| other.has_id(id)) else { return };
        found.abandoned = true;
        let is_read = matches!(found.work, Work::Search { .. } | Work::Verify(Proof { requester: None, .. }));
        let ticket = found.ticket;
        if self.remove_deferred(ticket).is_some() {
            self.drop_outstanding(context, index);
            self.submit_ready(context, out);
        } else if is_read {
            // Dropping the operation drops its claim on the hash pool. The pool then skips the password.
            self.drop_outstanding(context, index);
        }
    }

    /// Drops an operation without an answer, and counts and logs its end.
    fn drop_outstanding(&mut self, context: &Context, index: usize) {
        let dropped = self.outstanding.remove(index);
        self.complete_dropped(context, &dropped);
    }

    /// Counts and logs an operation that was dropped without an answer. A wrong password stays a failure, even if the
    /// client does not wait for the answer. All other operations are canceled.
    fn complete_dropped(&self, context: &Context, dropped: &Outstanding) {
        let (head, canceled) = (&dropped.head, Outcome::code(ResultCode::CANCELED));
        let outcome = match &dropped.work {
            Work::Search { search, account, .. } => {
                return self.finish_search(
                    context,
                    head,
                    search,
                    account.as_deref(),
                    Some(ResultCode::CANCELED),
                );
            }
            Work::Decided(decided) | Work::Delayed(decided) if decided.has_failed() => &decided.outcome,
            _ => &canceled,
        };
        context.counters.completed(head.operation, outcome.code, head.waited(context.now));
        let ending = OperationEnd { outcome: Some(outcome), ..OperationEnd::default() };
        self.end_event(context, head, outcome.code, ending);
    }

    /// Charges the connection for the request memory of its requests and for `buffer_bytes` of input and answers.
    #[inline]
    pub(crate) fn charge(&mut self, context: &mut Context, buffer_bytes: usize) {
        let key = || HolderKey::new(self.source, &self.requester);
        let verifying = self.verifying.as_ref().map_or(0, |verifying| verifying.bytes());
        let exchange = verifying + if self.sasl.is_some() { SASL_EXCHANGE_BYTES } else { 0 };
        let transaction = self.transaction.as_ref().map_or(0, |open| open.bytes());
        let bytes = self.outstanding.bytes() + buffer_bytes + exchange + transaction;
        context.released.add(self.account.set(&context.shared.request_memory, key, bytes));
    }

    /// Decides whether the connection may take more memory, for requests or for the rest of a message.
    #[inline]
    pub(crate) fn admission(&mut self, context: &Context) -> Admission {
        let key = || HolderKey::new(self.source, &self.requester);
        self.account.admission(&context.shared.request_memory, key)
    }

    /// Sets the requester of the session and of its request memory account.
    fn set_requester(&mut self, context: &mut Context, requester: Arc<Requester>) {
        // A bind ends the transactions of the connection (RFC 5805 section 3.5).
        self.abort_transaction(context);
        context.released.add(self.account.close(&context.shared.request_memory));
        self.requester = requester;
        self.must_change = false;
        self.proved = None;
        self.find_limits(context);
    }

    /// Drops the outstanding operations because the connection is closed. Changes that the writer has already received
    /// are still made. They stay outstanding until [`written`](Session::written) completes their events.
    pub(crate) fn close(&mut self, context: &mut Context) {
        self.abort_transaction(context);
        let has_search = self.has_search();
        let is_dropped = |session: &Session, other: &Outstanding| {
            !other.waits_for_writer() || session.is_deferred(other.ticket)
        };
        while let Some(index) = self.outstanding.iter().position(|other| is_dropped(self, other)) {
            self.drop_outstanding(context, index);
        }
        self.deferred.clear();
        if has_search {
            // Scan threads may have spent time on the searches.
            self.attribute(context);
        }
        context.released.add(self.account.close(&context.shared.request_memory));
    }

    /// Returns the address for answers to the operation that the next call of [`keep`](Session::keep) adds.
    fn address(&self, context: &Context) -> Address {
        Address {
            event_loop: context.event_loop,
            slot: self.slot as usize,
            connection: self.number,
            ticket: self.next_ticket,
        }
    }

    /// Adds an outstanding operation. `bytes` is the memory that other threads use for it. `claim` is its claim on the
    /// hash pool.
    fn keep(&mut self, head: RequestHead, work: Work, bytes: usize, claim: Option<HashClaim>) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.outstanding.push(Outstanding::new(ticket, head, work, bytes, claim));
    }

    /// Removes and returns an operation that another thread has finished; `None` if it was abandoned or dropped
    /// meanwhile.
    fn take(&mut self, context: &Context, ticket: u64) -> Option<(RequestHead, Work)> {
        let finished = self.remove_outstanding(ticket)?;
        if finished.abandoned {
            self.complete_dropped(context, &finished);
            return None;
        }
        Some((finished.head, finished.work))
    }

    /// Removes and returns an operation, which may be abandoned; `None` if it was dropped.
    fn remove_outstanding(&mut self, ticket: u64) -> Option<Outstanding> {
        let index = self.outstanding.iter().position(|other| other.ticket == ticket)?;
        let removed = self.outstanding.remove(index);
        if self.outstanding.is_empty() {
            // This frees the memory that a burst of requests has occupied.
            self.deferred = VecDeque::new();
        }
        Some(removed)
    }

    /// Counts and logs an operation that gets no response.
    fn complete_unanswered(&self, context: &Context, head: &RequestHead) {
        context.counters.completed(head.operation, ResultCode::SUCCESS, head.waited(context.now));
        self.end_event(context, head, ResultCode::SUCCESS, OperationEnd::default());
    }
}

/// Diagnostic message if the request memory is full and the client holds more than its share of it.
pub(crate) const MEMORY_USED: &str = "requests hold all the memory that they may, and yours more than their share; \
                                      read your answers, or try again later";

/// Returns the first message in `bytes`; `None` if the message is incomplete. Refuses a message that is too large as
/// soon as its header is complete.
fn next_frame(bytes: &[u8], size_max: usize) -> Result<Option<&[u8]>, String> {
    match ldap::frame_len(bytes) {
        Err(error) => Err(format!("this is no LDAP message: {error}")),
        Ok(None) => Ok(None),
        Ok(Some(size)) if size > size_max => {
            Err(format!("a message of {size} octets; the limit here is {size_max}"))
        }
        Ok(Some(size)) => Ok(bytes.get(..size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_and_bounded() {
        let check = |bytes: &[u8], expected: Result<Option<usize>, &str>| {
            let found = next_frame(bytes, 100);
            let found = found.as_ref().map(|frame| frame.map(<[u8]>::len)).map_err(String::as_str);
            assert_eq!(found, expected, "{bytes:02x?}");
        };
        check(b"", Ok(None));
        check(&[0x30], Ok(None));
        check(&[0x30, 0x03, 1, 2], Ok(None));
        check(&[0x30, 0x03, 1, 2, 3], Ok(Some(5)));
        check(&[0x30, 0x03, 1, 2, 3, 0x30], Ok(Some(5)));
        check(&[0x30, 98], Ok(None));
        check(&[0x30, 99], Err("a message of 101 octets; the limit here is 100"));
        check(
            &[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff],
            Err("a message of 2147483653 octets; the limit here is 100"),
        );
        check(b"GET / HTTP/1.1", Err("this is no LDAP message: expected tag 0x30, found 0x47"));
    }
}
