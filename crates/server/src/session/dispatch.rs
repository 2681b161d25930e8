//! A request that was read goes to its operation, as whom it asks for.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use directory::bind::Offered;
use directory::controls::{ControlContext, RequestControls, copies_bytes_max};
use directory::identity::proxied_requester;
use directory::virtual_entries::{APPLY_SETTINGS, EXPLAIN_ACCESS, READ_AUDIT};
use directory::{Outcome, RequestContext, Requester, access_question};
use ldap::oids::WHO_AM_I;
use ldap::{AccessQuestion, DecodeLimits, Message, Request, ResponseOp, ResultCode, StateRequest};

use super::cancel::is_cancel;
use super::outstanding::{RequestHead, Work};
use super::password_state::changes_password_state;
use super::positions::Reached;
use super::start_tls::is_start_tls;
use super::{MEMORY_USED, Next, Session};
use crate::net::request_memory::Admission;
use crate::session::context::Context;
use crate::stamp::password_time;
use crate::telemetry::counters::Operation;

impl Session {
    /// Carries a request out, as somebody else if a control asks for that and the requester may (RFC 4370).
    pub(super) fn dispatch_permitted(
        &mut self,
        context: &mut Context,
        message: &Message<'_>,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        if message.controls.is_empty() {
            return self.dispatch_as_requester(context, message, (frame, None), out);
        }
        match self.reach_position(context, message) {
            Reached::Shown => {}
            Reached::Later => return ControlFlow::Break(Next::Position),
            Reached::Never(outcome) => {
                return self.dispatch_as_requester(context, message, (frame, Some(outcome)), out);
            }
        }
        match self.proxied_requester(context, message) {
            Ok(None) => self.dispatch_as_requester(context, message, (frame, None), out),
            Ok(Some(other)) => {
                let own = std::mem::replace(&mut self.requester, Arc::new(other));
                self.now_acts_for(Some(&own));
                let taken = self.dispatch_as_requester(context, message, (frame, None), out);
                self.now_acts_for(None);
                self.requester = own;
                taken
            }
            Err(outcome) => self.dispatch_as_requester(context, message, (frame, Some(outcome)), out),
        }
    }

    /// Whom a request runs as that is not a bind.
    fn proxied_requester(
        &self,
        context: &Context,
        message: &Message<'_>,
    ) -> Result<Option<Requester>, Outcome> {
        match message.request {
            // Of no use there: unknown to `RequestControls`, or ignored.
            Request::Bind(_) | Request::Unbind | Request::Abandon(_) => Ok(None),
            _ => {
                let other = proxied_requester(&context.snapshot, &self.requester, &message.controls)?;
                if other.is_some() && (is_start_tls(&message.request) || is_cancel(&message.request)) {
                    let text = "what is of the connection, whoever asks, takes nobody's identity (RFC 4370 section 3)";
                    return Err(Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text));
                }
                Ok(other)
            }
        }
    }

    pub(super) fn dispatch_as_requester(
        &mut self,
        context: &mut Context,
        message: &Message<'_>,
        (frame, refused): (&[u8], Option<Outcome>),
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        if let Request::Bind(_) = message.request
            && !self.is_idle()
        {
            self.end_following(context, None, out);
            if !self.is_idle() {
                return ControlFlow::Break(Next::Finish);
            }
        }
        if is_start_tls(&message.request) && !out.is_empty() {
            // Its answer must be the last in the clear.
            return ControlFlow::Break(Next::Send);
        }
        if self.admission(context) == Admission::Refused
            && ResponseOp::answering_tag(message.request.tag()).is_some()
        {
            return self.refuse_for_memory(context, message, out);
        }
        let is_change = match &message.request {
            Request::Add(_) | Request::Delete(_) | Request::Modify(_) | Request::ModifyDn(_) => true,
            Request::Extended(request) => request.name == APPLY_SETTINGS || changes_password_state(request),
            _ => false,
        };
        let (frame, work, refused) = match self.password_change(context, message) {
            Some(Ok(change)) if refused.is_none() => {
                (Cow::Owned(change.message), Work::PasswordModify(change.answer), None)
            }
            Some(Err(outcome)) => (Cow::Borrowed(frame), Work::Change, refused.or(Some(outcome))),
            _ => (Cow::Borrowed(frame), Work::Change, refused),
        };
        let is_change = is_change || matches!(work, Work::PasswordModify(_));
        let reserve = || context.shared.writes.reserve(frame.len() + copies_bytes_max(&message.controls));
        let reservation = match is_change.then(reserve) {
            Some(None) => return ControlFlow::Break(Next::WriterRoom),
            reservation => reservation.flatten(),
        };
        let Some(operation) = Operation::of(message.request.tag()) else { return ControlFlow::Continue(()) };
        context.counters.received(operation);
        let event = self.begin_event(context, message, operation);
        let head = RequestHead::of(message, operation, event, context.now);
        if operation != Operation::BIND {
            self.sasl = None;
        }
        if !self.is_idle() && self.is_duplicate(message) {
            let text = format!("message id {} belongs to an operation that is outstanding", message.id);
            self.answer(context, &head, &Outcome::new(ResultCode::PROTOCOL_ERROR, text), out);
            return ControlFlow::Continue(());
        }
        if let Some(outcome) = self.refuse_unprotected(context, &message.request) {
            return self.refuse(context, &head, &outcome, out);
        }
        let refused = refused.or_else(|| self.refuse_until_changed(context, &message.request));
        if let Some(outcome) = refused.or_else(|| self.refuse_old(context, &message.request)) {
            return self.refuse(context, &head, &outcome, out);
        }
        if let Some(reservation) = reservation {
            // What the server wrote itself can be read.
            let limits = DecodeLimits { message_size_max: usize::MAX, ..DecodeLimits::AUTHENTICATED };
            match (&frame, Message::decode(&frame, &limits)) {
                (Cow::Owned(_), Ok(written)) => {
                    self.change(context, head, &written, (&frame, reservation), work, out);
                }
                _ => self.change(context, head, message, (&frame, reservation), work, out),
            }
            return ControlFlow::Continue(());
        }
        let controls = match RequestControls::read(&message.controls, ControlContext::of(&message.request)) {
            Ok(controls) => controls,
            Err(outcome) => return self.refuse(context, &head, &outcome, out),
        };
        match &message.request {
            Request::Search(request) => self.search(context, head, request, &controls, out),
            Request::Bind(request) => self.bind(context, head, request, out),
            Request::Compare(request) => self.compare(context, head, request, &controls, out),
            Request::Extended(request) if is_start_tls(&message.request) => {
                return self.start_tls(context, &head, request, out);
            }
            Request::Extended(request) if request.name == READ_AUDIT => {
                self.read_audit(context, head, request.value, out);
            }
            Request::Extended(request) if is_cancel(&message.request) => {
                self.cancel(context, &head, request.value, out);
            }
            Request::Extended(request) => self.extended(context, &head, request, out),
            Request::Abandon(id) => {
                self.abandon(context, *id);
                self.complete_unanswered(context, &head);
            }
            Request::Unbind => {
                self.complete_unanswered(context, &head);
                return ControlFlow::Break(Next::Close);
            }
            Request::Add(_) | Request::Delete(_) | Request::Modify(_) | Request::ModifyDn(_) => {}
        }
        ControlFlow::Continue(())
    }

    /// Answers a request that is not carried out.
    fn refuse(
        &mut self,
        context: &mut Context,
        head: &RequestHead,
        outcome: &Outcome,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        self.end_identity_if_bind(context, head.operation);
        self.answer(context, head, outcome, out);
        ControlFlow::Continue(())
    }

    /// Answers a request busy because the request memory is used.
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
        let event = self.begin_event(context, message, operation);
        let head = RequestHead::of(message, operation, event, context.now);
        self.answer(context, &head, &Outcome::new(ResultCode::BUSY, MEMORY_USED), out);
        ControlFlow::Continue(())
    }

    /// Returns the context of a request that is not a read.
    pub(super) fn request_context(&self, context: &Context) -> RequestContext<'_> {
        RequestContext::new(&self.requester, self.client_link(context))
    }

    /// Returns the context of a search or compare of this entry.
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
            // Only the root DSE names what the connection offers.
            offered: if entry.is_empty() { self.offered(context) } else { Offered::default() },
            limits: self.stated_limits().map(|limits| limits.search).unwrap_or_default(),
            position: if controls.wants_position { context.token() } else { None },
            now: if controls.account_usability { password_time() } else { 0 },
        }
    }

    /// A refused bind leaves the session anonymous (RFC 4513 section 4).
    pub(super) fn end_identity_if_bind(&mut self, context: &mut Context, operation: Operation) {
        if operation == Operation::BIND {
            self.set_requester(context, Arc::clone(&context.anonymous));
        }
    }

    /// Whether the id belongs to another request. Abandon and Unbind have no response that could be confused.
    pub(super) fn is_duplicate(&self, message: &Message<'_>) -> bool {
        !matches!(message.request, Request::Abandon(_) | Request::Unbind)
            && self.outstanding.iter().any(|other| other.has_id(message.id))
    }

    fn extended(
        &mut self,
        context: &mut Context,
        head: &RequestHead,
        request: &ldap::ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) {
        if request.name == WHO_AM_I {
            let identity = self.requester.authorization_id();
            return self.answer_with(context, head, &Outcome::success(), Some(identity.as_bytes()), out);
        }
        if request.name == EXPLAIN_ACCESS {
            return self.explain_access(context, head, request.value.unwrap_or_default(), out);
        }
        if StateRequest::is_name(request.name) {
            return self.password_state(context, head, request, out);
        }
        // RFC 4511 section 4.12: protocolError, without a response name.
        let text = match ldap::oids::extended_operation_name(request.name) {
            Some(name) => format!("{name} ({}) is not supported here", request.name),
            None => format!("extended operation {:?} is not known here", ldap::Excerpt(request.name)),
        };
        self.answer(context, head, &Outcome::new(ResultCode::PROTOCOL_ERROR, text), out);
    }

    /// Says who may do what, and by which rule.
    fn explain_access(&self, context: &mut Context, head: &RequestHead, value: &[u8], out: &mut Vec<u8>) {
        let explained = match AccessQuestion::decode(value) {
            Some(question) => access_question::answer(context.snapshot.state(), &self.requester, &question),
            None => Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no question about access")),
        };
        let lines = explained.map(|explanation| explanation.to_lines().into_bytes());
        self.answer_value(context, head, lines, out);
    }

    /// Answers an extended request with a value, or says why there is none.
    pub(super) fn answer_value(
        &self,
        context: &mut Context,
        head: &RequestHead,
        value: Result<Vec<u8>, Outcome>,
        out: &mut Vec<u8>,
    ) {
        match value {
            Ok(value) => self.answer_with(context, head, &Outcome::success(), Some(&value), out),
            Err(outcome) => self.answer(context, head, &outcome, out),
        }
    }
}
