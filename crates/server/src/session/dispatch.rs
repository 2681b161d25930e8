//! Dispatch: checks a decoded request and calls its operation, under the identity that the request asks for.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use directory::bind::OfferedBinds;
use directory::controls::{ControlContext, RequestControls, copies_bytes_max};
use directory::identity::proxied_requester;
use directory::{Outcome, RequestContext, Requester};
use ldap::{DecodeLimits, Message, Request, ResponseOp, ResultCode};

use super::extended;
use super::forwarded::is_forwarded;
use super::outstanding::{RequestHead, Work};
use super::password_modify::is_password_modify;
use super::positions::Reached;
use super::promote::is_promotion;
use super::responder::Responder;
use super::start_tls::is_start_tls;
use super::{MEMORY_USED, Next, Session};
use crate::net::request_memory::Admission;
use crate::session::context::Context;
use crate::stamp::password_time;
use crate::telemetry::counters::Operation;
use crate::workers::writer::Reservation;

/// A decoded request.
pub(super) struct Arrival<'m> {
    pub(super) message: &'m Message<'m>,
    /// Octets of the message.
    pub(super) frame: &'m [u8],
    /// Outcome of an earlier check that refused the request.
    pub(super) refused: Option<Outcome>,
}

/// A check that may leave a request in the input. In that case the check returns the event for which the request waits.
type Deferral = fn(&mut Session, &mut Context, &Request<'_>, &mut Vec<u8>) -> Option<Next>;

/// A check that may refuse a request.
type Refusal = fn(&Session, &Context, &Arrival<'_>) -> Option<Outcome>;

/// Checks that defer a request, in the order in which they apply. The counters of received requests include a request
/// only after it has passed these checks.
const DEFERRALS: [Deferral; 2] = [Session::defer_bind, Session::defer_start_tls];

/// Checks that refuse a request, in the order in which they apply.
const REFUSALS: [Refusal; 5] = [
    |session, _, arrival| session.refuse_duplicate(arrival.message),
    |session, context, arrival| session.refuse_unprotected(context, &arrival.message.request),
    |_, _, arrival| arrival.refused.clone(),
    |session, context, arrival| session.refuse_until_changed(context, arrival.message),
    |session, context, arrival| session.refuse_old(context, &arrival.message.request),
];

/// A change with a reservation in the writer's queue.
struct AdmittedChange<'m> {
    /// Octets of the message. Owned if the server has rewritten it.
    frame: Cow<'m, [u8]>,
    work: Work,
    reservation: Reservation,
}

impl<'m> Arrival<'m> {
    pub(super) fn new(message: &'m Message<'m>, frame: &'m [u8]) -> Arrival<'m> {
        Arrival { message, frame, refused: None }
    }

    pub(super) fn refused(self, outcome: Outcome) -> Arrival<'m> {
        Arrival { refused: Some(outcome), ..self }
    }
}

impl Session {
    /// Carries out a request. If a control asks for another identity that the requester may assume, the request runs
    /// under that identity (RFC 4370).
    pub(super) fn dispatch_permitted(
        &mut self,
        context: &mut Context,
        arrival: Arrival<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let message = arrival.message;
        if message.controls.is_empty() {
            return self.dispatch_as_requester(context, arrival, out);
        }
        match self.reach_position(context, message) {
            Reached::Shown => {}
            Reached::Later => return ControlFlow::Break(Next::Position),
            Reached::Never(outcome) => {
                return self.dispatch_as_requester(context, arrival.refused(outcome), out);
            }
        }
        match self.proxied_requester(context, message) {
            Ok(None) => self.dispatch_as_requester(context, arrival, out),
            Ok(Some(other)) => {
                let own = std::mem::replace(&mut self.requester, other);
                self.now_acts_for(Some(&own));
                let flow = self.dispatch_as_requester(context, arrival, out);
                self.now_acts_for(None);
                self.requester = own;
                flow
            }
            Err(outcome) => self.dispatch_as_requester(context, arrival.refused(outcome), out),
        }
    }

    /// Returns the other identity under which the request runs; `None` if it runs under the session's own identity.
    fn proxied_requester(
        &self,
        context: &Context,
        message: &Message<'_>,
    ) -> Result<Option<Arc<Requester>>, Outcome> {
        if let Some(identity) = self.transaction_identity(message) {
            return identity;
        }
        match message.request {
            // `RequestControls` refuses or ignores the proxied authorization control of these requests.
            Request::Bind(_) | Request::Unbind | Request::Abandon(_) => Ok(None),
            _ => {
                let other = proxied_requester(&context.snapshot, &self.requester, &message.controls)?;
                if other.is_some() && extended::is_of_connection(&message.request) {
                    let text = "an operation on the connection takes no other identity (RFC 4370 section 3)";
                    return Err(Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text));
                }
                Ok(other.map(Arc::new))
            }
        }
    }

    /// Carries out a request under the identity in `self.requester`, unless a check defers or refuses the request.
    pub(super) fn dispatch_as_requester(
        &mut self,
        context: &mut Context,
        mut arrival: Arrival<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let message = arrival.message;
        if let Some(next) = DEFERRALS.iter().find_map(|check| check(self, context, &message.request, out)) {
            return ControlFlow::Break(next);
        }
        if self.admission(context) == Admission::Refused
            && ResponseOp::answering_tag(message.request.tag()).is_some()
        {
            return self.refuse_for_memory(context, message, out);
        }
        let change = self.admit_change(context, &mut arrival)?;
        let Some(operation) = Operation::of(message.request.tag()) else { return ControlFlow::Continue(()) };
        context.counters.received(operation);
        let event = self.begin_event(context, message, operation);
        let head = RequestHead::of(message, operation, event, context.now);
        let to = Responder { context, head, out };
        if operation != Operation::BIND {
            self.sasl = None;
        }
        if let Some(outcome) = REFUSALS.iter().find_map(|check| check(self, to.context, &arrival)) {
            return self.refuse(to, &outcome);
        }
        match change {
            None => return self.carry_out(to, message),
            Some(AdmittedChange { work: Work::Transaction(_), reservation, .. }) => {
                self.commit_transaction(to, message, reservation);
            }
            Some(AdmittedChange { reservation, .. }) if is_promotion(&message.request) => {
                self.promote(to, message, reservation);
            }
            Some(AdmittedChange { reservation, .. }) if is_forwarded(&message.request) => {
                self.forwarded(to, message, reservation);
            }
            Some(AdmittedChange { frame, work, reservation }) => {
                // Decoding cannot fail, because the server has encoded this message.
                let limits = DecodeLimits { message_size_max: usize::MAX, ..DecodeLimits::AUTHENTICATED };
                let written = match &frame {
                    Cow::Owned(octets) => Message::decode(octets, &limits).ok(),
                    Cow::Borrowed(_) => None,
                };
                let message = written.as_ref().unwrap_or(message);
                self.change(to, message, (&frame, reservation), work);
            }
        }
        ControlFlow::Continue(())
    }

    /// Defers a bind until no operation is outstanding. Ends the persistent searches, because the bind would wait for
    /// them forever.
    fn defer_bind(
        &mut self,
        context: &mut Context,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Next> {
        if self.is_idle() || !matches!(request, Request::Bind(_)) {
            return None;
        }
        self.end_following(context, None, out);
        (!self.is_idle()).then_some(Next::Finish)
    }

    /// Defers StartTLS until all other answers are sent: the answer to StartTLS must be the last answer without TLS.
    #[expect(clippy::ptr_arg, reason = "the type of all deferrals")]
    fn defer_start_tls(&mut self, _: &mut Context, request: &Request<'_>, out: &mut Vec<u8>) -> Option<Next> {
        (is_start_tls(request) && !out.is_empty()).then_some(Next::Send)
    }

    /// Reserves room in the writer's queue if the request is a change. Rewrites a Password Modify request, and some
    /// changes of the requester's own credentials.
    fn admit_change<'m>(
        &mut self,
        context: &mut Context,
        arrival: &mut Arrival<'m>,
    ) -> ControlFlow<Next, Option<AdmittedChange<'m>>> {
        let message = arrival.message;
        if !(is_change(&message.request) || is_password_modify(&message.request)) {
            return ControlFlow::Continue(None);
        }
        let joined = match self.join_transaction(message, arrival.frame, arrival.refused.as_ref()) {
            Ok(joined) => joined,
            Err(outcome) => {
                arrival.refused.get_or_insert(outcome);
                return ControlFlow::Continue(None);
            }
        };
        let rewritten = self.password_change(context, message);
        let rewritten = rewritten.or_else(|| self.own_credentials_change(context, message));
        let (frame, work) = match rewritten {
            None if is_change(&message.request) => (Cow::Borrowed(arrival.frame), Work::Change),
            Some(Ok(change)) if arrival.refused.is_none() => {
                (Cow::Owned(change.message), Work::PasswordModify(change.answer))
            }
            Some(Err(outcome)) => {
                arrival.refused.get_or_insert(outcome);
                return ControlFlow::Continue(None);
            }
            None | Some(Ok(_)) => return ControlFlow::Continue(None),
        };
        if joined {
            // A transaction reaches the writer with its commit, for which room is reserved.
            let reservation = Reservation::none(&context.shared.writes);
            return ControlFlow::Continue(Some(AdmittedChange { frame, work, reservation }));
        }
        let (work, bytes) = match self.bytes_to_commit(message) {
            Ok(None) => (work, frame.len() + copies_bytes_max(&message.controls)),
            Ok(Some(bytes)) => (Work::Transaction(Vec::new()), bytes),
            Err(outcome) => {
                arrival.refused.get_or_insert(outcome);
                return ControlFlow::Continue(None);
            }
        };
        match context.shared.writes.reserve(bytes) {
            None => ControlFlow::Break(Next::WriterRoom),
            Some(reservation) => ControlFlow::Continue(Some(AdmittedChange { frame, work, reservation })),
        }
    }

    /// Carries out a request that is not a change.
    fn carry_out(&mut self, to: Responder<'_>, message: &Message<'_>) -> ControlFlow<Next> {
        let controls = match RequestControls::read(&message.controls, ControlContext::of(&message.request)) {
            Ok(controls) => controls,
            Err(outcome) => return self.refuse(to, &outcome),
        };
        if controls.needs_original()
            && let Err(outcome) = check_original(to.context)
        {
            return self.refuse(to, &outcome);
        }
        match &message.request {
            Request::Search(request) => self.search(to, request, &controls),
            Request::Compare(request) => self.compare(to, request, &controls),
            Request::Bind(request) => self.bind(to, request),
            Request::Extended(_) if controls.in_transaction() => {
                let text = "control transaction specification does not fit this operation";
                let outcome = Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text);
                return self.refuse(to, &outcome);
            }
            Request::Extended(request) => return self.extended(to, request),
            Request::Abandon(id) => {
                self.abandon(to.context, *id, to.out);
                self.complete_unanswered(to.context, &to.head);
            }
            Request::Unbind => {
                self.complete_unanswered(to.context, &to.head);
                return ControlFlow::Break(Next::Close);
            }
            Request::Add(_) | Request::Delete(_) | Request::Modify(_) | Request::ModifyDn(_) => {}
        }
        ControlFlow::Continue(())
    }

    /// Answers a request that is refused.
    fn refuse(&mut self, to: Responder<'_>, outcome: &Outcome) -> ControlFlow<Next> {
        self.end_identity_if_bind(to.context, to.head.operation);
        self.answer(to, outcome);
        ControlFlow::Continue(())
    }

    /// Answers a request with busy, because the request memory is full.
    pub(super) fn refuse_for_memory(
        &mut self,
        context: &mut Context,
        message: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let Some(operation) = Operation::of(message.request.tag()) else { return ControlFlow::Continue(()) };
        self.end_identity_if_bind(context, operation);
        context.counters.received(operation);
        context.shared.request_memory.refuse(context.now);
        self.refuse_in_transaction(message.id);
        let event = self.begin_event(context, message, operation);
        let head = RequestHead::of(message, operation, event, context.now);
        self.answer(Responder { context, head, out }, &Outcome::new(ResultCode::BUSY, MEMORY_USED));
        ControlFlow::Continue(())
    }

    /// Returns the context of a request that does not read entries.
    pub(super) fn request_context(&self, context: &Context) -> RequestContext<'_> {
        RequestContext::new(&self.requester, self.client_link(context))
    }

    /// Returns the context of a search or compare of `entry`.
    #[inline]
    pub(super) fn read_context(
        &self,
        context: &Context,
        entry: &str,
        controls: &RequestControls,
    ) -> RequestContext<'_> {
        RequestContext {
            requester: &self.requester,
            link: self.client_link(context),
            // Only the root DSE shows the bind methods that the connection offers.
            offered: if entry.is_empty() { self.offered(context) } else { OfferedBinds::default() },
            limits: self.stated_limits().map(|limits| limits.search).unwrap_or_default(),
            position: if controls.wants_position { context.token() } else { None },
            now: if controls.account_usability || context.snapshot.has_dynamic_entries() {
                password_time()
            } else {
                0
            },
        }
    }

    /// Makes the session anonymous after a refused bind (RFC 4513 section 4).
    pub(super) fn end_identity_if_bind(&mut self, context: &mut Context, operation: Operation) {
        if operation == Operation::BIND {
            self.set_requester(context, Arc::clone(&context.anonymous));
        }
    }

    /// Refuses a request if an outstanding request has the same message id. Abandon and Unbind are exempt, because they
    /// have no response that the client could confuse with the response of another request.
    fn refuse_duplicate(&self, message: &Message<'_>) -> Option<Outcome> {
        let is_answered = !matches!(message.request, Request::Abandon(_) | Request::Unbind);
        let is_duplicate = is_answered && self.outstanding.iter().any(|other| other.has_id(message.id));
        is_duplicate.then(|| {
            let text = format!("message id {} belongs to an operation that is outstanding", message.id);
            Outcome::new(ResultCode::PROTOCOL_ERROR, text)
        })
    }
}

/// On a node of a cluster or a replica, refuses a request with the Don't Use Copy control (RFC 6171), because such a
/// server does not know whether it has the whole log.
#[cold]
fn check_original(context: &Context) -> Result<(), Outcome> {
    match context.snapshot.is_copy()? {
        false => Ok(()),
        true => {
            let text = "each node of a cluster answers from its copy of the log: read from at least a position instead";
            Err(Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text))
        }
    }
}

/// Returns true if the writer carries out the request.
fn is_change(request: &Request<'_>) -> bool {
    match request {
        Request::Add(_) | Request::Delete(_) | Request::Modify(_) | Request::ModifyDn(_) => true,
        Request::Extended(request) => extended::is_change(request),
        _ => false,
    }
}
