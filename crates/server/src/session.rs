//! An LDAP session (RFC 4511): requests in, responses out, what is outstanding in between. No socket here: bytes come
//! from and go to `event_loop::connection`.
//!
//! Short operations are answered on the spot. The others stay *outstanding* and are answered as they finish, in
//! whatever order: searches run in slices, long ones on scan threads, changes wait for the writer, slow passwords for
//! the hash pool.
//!
//! A bind waits until everything outstanding is finished, and what comes behind it waits for the bind. RFC 4511 section
//! 4.2.1 would allow abandoning instead; waiting answers every request that was sent, and what is waited for has a time
//! limit. While a bind is under way the session is anonymous, and stays so if it fails (RFC 4513 section 4).
//!
//! Changes of one session reach the writer in the order received, also where one of them first waits for a password to
//! be hashed.

mod changes;
pub(crate) mod context;
mod outstanding;
mod passwords;
mod searches;
mod shared_rest;
pub(crate) mod turn_budget;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use directory::bind::ExternalIdentity;
use directory::controls::{ControlContext, RequestControls};
use directory::search::Search;
use directory::virtual_entries::APPLY_SETTINGS;
use directory::{Outcome, Requester};
use ldap::{
    Controls, DecodeError, DecodeErrorKind, LdapResult, Message, MessageId, Request, ResponseOp, ResultCode,
    request_tag, response,
};

use crate::limits::UNSENT_MAX;
use crate::net::mailbox::Address;
use crate::net::request_memory::{Account, Admission, HolderKey, Source};
use crate::net::stream::Peer;
use crate::session::context::Context;
use crate::telemetry::counters::Operation;
use crate::telemetry::operation_log::OperationLine;
use crate::workers::hash_pool::HashClaim;
use crate::workers::read_ahead::{Ahead, Answers, look_ahead};
use changes::HeldChange;
use outstanding::{Outstanding, OutstandingRequests, Work};
use turn_budget::TurnBudget;

/// One client's session.
pub(crate) struct Session {
    /// Number of the connection, for the log and for answers of other threads.
    number: u64,
    /// The connection's slot in its event loop, for the same.
    slot: u32,
    requester: Arc<Requester>,
    /// Where the connection comes from.
    source: Source,
    /// Whom SASL EXTERNAL finds at the other end.
    external: ExternalIdentity,
    /// What it holds.
    account: Account,
    outstanding: OutstandingRequests,
    /// Changes not yet given to the writer, because one waits for the hash pool and the others for it.
    held: VecDeque<HeldChange>,
    next_ticket: u64,
    /// Where in `outstanding` the search of the next slice is looked for.
    next_slice: usize,
}

/// How far [`Session::receive`] got.
#[derive(Debug, PartialEq)]
pub(crate) struct Received {
    /// Bytes of the input that are done with.
    pub(crate) consumed: usize,
    /// What has to happen before it goes on.
    pub(crate) next: Next,
}

/// What a session waits for before it looks at more input.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// More bytes.
    Read,
    /// Others to have their turn.
    Turn,
    /// Something outstanding to finish.
    Finish,
    /// Answers to be sent.
    Send,
    /// Room in the writer's queue.
    WriterRoom,
    /// Others of the same source and identity to let go of memory.
    Memory,
    /// Nothing: the client is done.
    Close,
    /// Nothing: the client is told why and disconnected (RFC 4511 section 4.4.1).
    Disconnect(ResultCode, String),
}

/// A request that is carried out although others before it wait.
#[derive(Debug, PartialEq)]
pub(crate) enum Urgent {
    /// An Abandon was carried out; its bytes are done with.
    Abandoned(Range<usize>),
    /// The client is done.
    Unbind,
}

/// Whether a request was taken, or has to wait as the next one.
enum Taken {
    Yes,
    NotYet(Next),
}

impl Session {
    pub(crate) fn new(number: u64, slot: u32, requester: Arc<Requester>, peer: &Peer) -> Session {
        Session {
            number,
            slot,
            requester,
            source: Source::from(peer),
            external: peer.external_identity(),
            account: Account::default(),
            outstanding: OutstandingRequests::default(),
            held: VecDeque::new(),
            next_ticket: 0,
            next_slice: 0,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether a search can go on.
    pub(crate) fn wants_slice(&self) -> bool {
        self.outstanding.iter().any(Outstanding::wants_slice)
    }

    /// Whether the output ends in the middle of a message: nothing may be appended but by the next slice, and nothing
    /// is stopped.
    pub(crate) fn is_mid_message(&self) -> bool {
        self.outstanding.iter().any(Outstanding::is_mid_message)
    }

    fn has_search(&self) -> bool {
        self.outstanding.iter().any(|outstanding| matches!(outstanding.work, Work::Search { .. }))
    }

    /// Whether a time limit is running.
    pub(crate) fn has_deadline(&self) -> bool {
        self.outstanding.iter().any(|outstanding| outstanding.deadline().is_some())
    }

    /// Whether a bind is outstanding, which nothing else is beside.
    pub(crate) fn is_binding(&self) -> bool {
        matches!(self.outstanding.last(), Some(Outstanding { work: Work::Bind(_), .. }))
    }

    /// Looks which of the requests in `input` can be answered from memory, and has read ahead what the others lack.
    pub(crate) fn look_ahead(&self, context: &mut Context, input: &[u8], answers: &mut Answers) -> Ahead {
        let limits = context.decode_limits(*self.requester != Requester::Anonymous);
        let (address, asks) = (self.address(context), (&self.requester, self.external));
        look_ahead(&context.snapshot, &limits, address, asks, input, answers, &mut context.jobs)
    }

    /// Handles the requests in `input`, as far as they are complete and may be looked at. Responses are appended to
    /// `out`; `unsent` is how many bytes are waiting besides. `answers` are what a look at the same input on the same
    /// snapshot came to.
    pub(crate) fn receive(
        &mut self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
        unsent: usize,
        mut answers: Option<&mut Answers>,
        turn: &mut TurnBudget,
    ) -> Received {
        let mut consumed = 0;
        let start = out.len();
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            if let Some(next) = self.must_wait(context, unsent + out.len() - start) {
                return Received { consumed, next };
            }
            let authenticated = *self.requester != Requester::Anonymous;
            let limits = context.decode_limits(authenticated);
            let frame = match next_frame(rest, limits.message_size_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Received { consumed, next: Next::Read },
                Err(why) => {
                    let next = Next::Disconnect(ResultCode::PROTOCOL_ERROR, why);
                    return Received { consumed, next };
                }
            };
            let answer = answers.as_deref_mut().and_then(Answers::next);
            let taken = match Message::decode(frame, &limits) {
                Ok(message) => self.dispatch(context, &message, frame, answer, out),
                Err(error) => self.refuse(context, &error, out),
            };
            match taken {
                Taken::Yes => consumed += frame.len(),
                Taken::NotYet(next) => return Received { consumed, next },
            }
            if turn.is_used_up(frame.len(), Instant::now) {
                return Received { consumed, next: Next::Turn };
            }
        }
    }

    /// Looks through requests that have to wait for one that need not: an Abandon of what is outstanding, which is
    /// carried out, or an Unbind that only reads stand before. `waiting` are the bytes from the first that waits on.
    pub(crate) fn look_behind(&mut self, context: &mut Context, waiting: &[u8]) -> Option<Urgent> {
        let limits = context.decode_limits(*self.requester != Requester::Anonymous);
        let mut place = 0;
        let mut only_reads = true;
        while let Ok(Some(frame)) = next_frame(waiting.get(place..)?, limits.message_size_max) {
            let end = place + frame.len();
            match ldap::operation_of(frame)? {
                request_tag::UNBIND if only_reads => return Some(Urgent::Unbind),
                request_tag::ABANDON => {
                    if let Ok(Message { request: Request::Abandon(id), .. }) = Message::decode(frame, &limits)
                        && self.abandons(id)
                    {
                        context.counters.received(Operation::ABANDON);
                        self.abandon(context, id);
                        context.counters.completed(Operation::ABANDON, ResultCode::SUCCESS);
                        return Some(Urgent::Abandoned(place..end));
                    }
                }
                request_tag::SEARCH | request_tag::COMPARE => {}
                _ => only_reads = false,
            }
            place = end;
        }
        None
    }

    /// Whether an Abandon of that id ends something now.
    fn abandons(&self, id: MessageId) -> bool {
        let wanted = |other: &&Outstanding| other.id == id && !other.abandoned;
        self.outstanding.iter().find(wanted).is_some_and(|other| !other.is_mid_message())
    }

    /// Why no further request may be looked at now.
    fn must_wait(&mut self, context: &Context, unsent: usize) -> Option<Next> {
        let is_full =
            self.outstanding.len() >= context.settings.outstanding_max || self.outstanding.is_full();
        if self.is_binding() || is_full {
            Some(Next::Finish)
        } else if self.admission(context) == Admission::MustWait {
            Some(Next::Memory)
        } else if unsent >= UNSENT_MAX || self.is_mid_message() {
            Some(Next::Send)
        } else {
            None
        }
    }

    /// Answers a request that could not be decoded, or says goodbye. RFC 4511 section 4.1.1 demands the latter where
    /// the envelope cannot be read, the operation is unknown, or the encoding itself is broken: then nobody knows what
    /// the peer meant. What is well encoded and breaks a rule gets its answer, protocolError.
    fn refuse(&mut self, context: &mut Context, error: &DecodeError, out: &mut Vec<u8>) -> Taken {
        let response = error.request_tag.and_then(ResponseOp::answering_tag);
        let operation = error.request_tag.and_then(Operation::of);
        let is_well_encoded = !matches!(error.kind, DecodeErrorKind::Ber(_));
        let (Some(id), Some(response), Some(operation), true) =
            (error.id, response, operation, is_well_encoded)
        else {
            return Taken::NotYet(Next::Disconnect(ResultCode::PROTOCOL_ERROR, error.to_string()));
        };
        if operation == Operation::BIND {
            self.becomes(context, Arc::clone(&context.anonymous));
        }
        context.counters.received(operation);
        context.counters.completed(operation, ResultCode::PROTOCOL_ERROR);
        let text = error.to_string();
        let result = LdapResult::new(ResultCode::PROTOCOL_ERROR, &text);
        response::encode_result(out, id, response, &result, Controls::NONE);
        tracing::debug!("conn={} op={id} {} cannot be decoded: {text}", self.number, operation.name());
        Taken::Yes
    }

    fn dispatch(
        &mut self,
        context: &mut Context,
        message: &Message<'_>,
        frame: &[u8],
        answer: Option<(Search, &[u8])>,
        out: &mut Vec<u8>,
    ) -> Taken {
        if let Request::Bind(_) = message.request
            && !self.is_idle()
        {
            return Taken::NotYet(Next::Finish);
        }
        if self.admission(context) == Admission::Refused
            && ResponseOp::answering_tag(message.request.tag()).is_some()
        {
            return self.refuse_for_memory(context, message, out);
        }
        let is_change = match &message.request {
            Request::Add(_) | Request::Delete(_) | Request::Modify(_) | Request::ModifyDn(_) => true,
            Request::Extended(request) => request.name == APPLY_SETTINGS,
            _ => false,
        };
        let mut place = None;
        if is_change {
            place = context.shared.writes.reserve(frame.len());
            if place.is_none() {
                return Taken::NotYet(Next::WriterRoom);
            }
        }
        let line = begin_line(context, message);
        let Some(operation) = Operation::of(message.request.tag()) else { return Taken::Yes };
        context.counters.received(operation);
        let mut asked = Asked { id: message.id, operation, line };
        if !self.is_idle() && self.is_duplicate(message) {
            let text = format!("message id {} belongs to an operation that is outstanding", message.id);
            self.answer(context, &asked, &Outcome::new(ResultCode::PROTOCOL_ERROR, text), out);
            return Taken::Yes;
        }
        if let Some(place) = place {
            self.change(context, asked, message, (frame, place), out);
            return Taken::Yes;
        }
        let controls = match RequestControls::read(&message.controls, ControlContext::of(&message.request)) {
            Ok(controls) => RequestControls { external: self.external, ..controls },
            Err(outcome) => {
                if operation == Operation::BIND {
                    self.becomes(context, Arc::clone(&context.anonymous));
                }
                self.answer(context, &asked, &outcome, out);
                return Taken::Yes;
            }
        };
        match &message.request {
            Request::Search(request) => match answer {
                Some(answer) if !self.wants_slice() => self.found_search(context, asked, answer, out),
                _ => self.search(context, asked, request, &controls, out),
            },
            Request::Bind(request) => self.bind(context, asked, request, out),
            Request::Compare(request) => self.compare(context, asked, request, &controls, out),
            Request::Extended(request) => self.extended(context, &asked, request, out),
            Request::Abandon(id) => {
                self.abandon(context, *id);
                self.count(context, &mut asked);
            }
            Request::Unbind => {
                self.count(context, &mut asked);
                return Taken::NotYet(Next::Close);
            }
            Request::Add(_) | Request::Delete(_) | Request::Modify(_) | Request::ModifyDn(_) => {}
        }
        Taken::Yes
    }

    /// Answers a request busy because all memory for requests is used.
    fn refuse_for_memory(
        &mut self,
        context: &mut Context,
        message: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Taken {
        let Some(operation) = Operation::of(message.request.tag()) else { return Taken::Yes };
        if operation == Operation::BIND {
            self.becomes(context, Arc::clone(&context.anonymous));
        }
        context.counters.received(operation);
        context.shared.request_memory.refuse(context.now);
        let line = begin_line(context, message);
        let asked = Asked { id: message.id, operation, line };
        self.answer(context, &asked, &Outcome::new(ResultCode::BUSY, MEMORY_USED), out);
        Taken::Yes
    }

    /// Whether the id belongs to another request. Abandon and unbind have no response that could be confused.
    fn is_duplicate(&self, message: &Message<'_>) -> bool {
        !matches!(message.request, Request::Abandon(_) | Request::Unbind)
            && self.outstanding.iter().any(|other| other.id == message.id && !other.abandoned)
    }

    fn extended(
        &mut self,
        context: &mut Context,
        asked: &Asked,
        request: &ldap::ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) {
        if request.name == WHO_AM_I {
            let identity = self.requester.authorization_id();
            let value = Some(identity.as_bytes());
            let success = LdapResult::SUCCESS;
            response::encode_extended_response(out, asked.id, &success, None, value, Controls::NONE);
            context.counters.completed(asked.operation, ResultCode::SUCCESS);
            asked.log(self.number, ResultCode::SUCCESS);
            return;
        }
        // RFC 4511 section 4.12: protocolError, without a response name. Section 4.14.1 wants the same for StartTLS
        // where there is no TLS.
        let text = match ldap::oids::extended_operation_name(request.name) {
            Some(name) => format!("{name} ({}) is not supported here", request.name),
            None => format!("extended operation {:?} is not known here", ldap::Excerpt(request.name)),
        };
        self.answer(context, asked, &Outcome::new(ResultCode::PROTOCOL_ERROR, text), out);
    }

    /// Abandons an operation (RFC 4511 section 4.11). A change that is with the writer already is made nevertheless.
    fn abandon(&mut self, context: &mut Context, id: MessageId) {
        let wanted = |other: &Outstanding| other.id == id && !other.abandoned;
        let Some(place) = self.outstanding.iter().position(wanted) else { return };
        let ticket = self.outstanding[place].ticket;
        if let Some(held) = self.held.iter().position(|held| held.request.address.ticket == ticket) {
            self.held.remove(held);
            self.outstanding.remove(place);
            self.release_held(context);
        } else if let Work::Search { .. } | Work::Compare = self.outstanding[place].work {
            // With its claim, so that no password is verified for it any more.
            self.outstanding.remove(place);
        } else {
            self.outstanding[place].abandoned = true;
        }
    }

    /// Charges what the connection holds: its requests and `buffer_bytes` of input and answers.
    #[inline]
    pub(crate) fn charge(&mut self, context: &mut Context, buffer_bytes: usize) {
        let key = || HolderKey::new(self.source, &self.requester);
        let bytes = self.outstanding.bytes() + buffer_bytes;
        context.released += self.account.set(&context.shared.request_memory, key, bytes);
    }

    /// Whether the connection may take more memory: for requests, or for more of a message.
    #[inline]
    pub(crate) fn admission(&mut self, context: &Context) -> Admission {
        let key = || HolderKey::new(self.source, &self.requester);
        self.account.admission(&context.shared.request_memory, key)
    }

    /// The session is this requester's from here on, and so is what it holds.
    fn becomes(&mut self, context: &mut Context, requester: Arc<Requester>) {
        context.released += self.account.close(&context.shared.request_memory);
        self.requester = requester;
    }

    /// Gives up what is outstanding, because the connection is gone. Changes that are with the writer are made.
    pub(crate) fn close(&mut self, context: &mut Context) {
        self.held.clear();
        self.outstanding.clear();
        context.released += self.account.close(&context.shared.request_memory);
    }

    /// The address of the operation that [`keep`](Session::keep) will keep next.
    fn address(&self, context: &Context) -> Address {
        Address {
            event_loop: context.event_loop,
            slot: self.slot,
            connection: self.number,
            ticket: self.next_ticket,
        }
    }

    /// Keeps an operation whose answer comes later. `bytes` are held for it elsewhere.
    fn keep(&mut self, asked: Asked, work: Work, bytes: usize) {
        self.keep_claimed(asked, work, bytes, None);
    }

    /// The same with the claim on what it waits for.
    fn keep_claimed(&mut self, asked: Asked, work: Work, bytes: usize, claim: Option<HashClaim>) {
        let Asked { id, operation, line } = asked;
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.outstanding.push(Outstanding::new(ticket, (id, operation, line), work, bytes, claim));
    }

    /// Takes an operation that another thread finished; `None` when nobody wants its response any more.
    fn take(&mut self, ticket: u64) -> Option<(Asked, Work)> {
        let place = self.outstanding.iter().position(|other| other.ticket == ticket)?;
        let Outstanding { id, operation, line, work, abandoned, .. } = self.outstanding.remove(place);
        if self.outstanding.is_empty() {
            // A burst of requests is no reason to keep its memory while idle.
            self.held = VecDeque::new();
        }
        (!abandoned).then_some((Asked { id, operation, line }, work))
    }

    /// Sends the final response of an operation, counts and logs it.
    fn answer(&self, context: &mut Context, asked: &Asked, outcome: &Outcome, out: &mut Vec<u8>) {
        self.answer_with(context, asked, outcome, None, out);
    }

    /// The same with the value of an extended response.
    fn answer_with(
        &self,
        context: &mut Context,
        asked: &Asked,
        outcome: &Outcome,
        value: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        let Some(response) = asked.operation.response() else { return };
        let Outcome { code, matched_dn, diagnostic, referrals, fault } = outcome;
        let result = LdapResult { code: *code, matched_dn, diagnostic, referrals };
        match value {
            None => response::encode_result(out, asked.id, response, &result, Controls::NONE),
            Some(_) => {
                response::encode_extended_response(out, asked.id, &result, None, value, Controls::NONE);
            }
        }
        context.counters.completed(asked.operation, *code);
        asked.log(self.number, *code);
        if let Some(fault) = fault {
            context.tell(*fault, self.number, (asked.id, asked.operation, *code), diagnostic);
        }
    }

    /// Counts and logs an operation that has no response.
    fn count(&self, context: &mut Context, asked: &mut Asked) {
        context.counters.completed(asked.operation, ResultCode::SUCCESS);
        asked.log(self.number, ResultCode::SUCCESS);
    }
}

/// A request under way: what its answer needs.
struct Asked {
    id: MessageId,
    operation: Operation,
    line: Option<Box<OperationLine>>,
}

impl Asked {
    fn log(&self, connection: u64, code: ResultCode) {
        if let Some(line) = &self.line {
            line.end(connection, self.id, self.operation, code, None);
        }
    }
}

/// What a client is told that holds more than its share while all memory for requests is used.
pub(crate) const MEMORY_USED: &str = "requests hold all the memory that they may, yours more than a share of it; read \
                                      your answers, or try again later";

/// Who am I? (RFC 4532).
const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

/// The line of the operation log about a request, where there is to be one.
fn begin_line(context: &Context, message: &Message<'_>) -> Option<Box<OperationLine>> {
    context.settings.log_operations.then(|| {
        let is_known = |name: &str| context.shared.directory.attribute_name(name).is_some();
        OperationLine::begin(message, &is_known)
    })
}

/// The first message in `bytes`; `None` while it is not complete. Its size is refused as soon as its header says it.
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
    fn frames_are_cut_and_bounded() {
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
