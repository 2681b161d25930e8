//! Access rules on the use of controls and extended operations.
//!
//! A request with a critical control that the requester may not use is refused. A control that is not critical is
//! ignored in that case (RFC 4511 section 4.1.11). An extended operation that the requester may not use is refused. The
//! rules are checked for the client that sends the request, even if the request runs under another identity. A bind is
//! not checked, because it has no requester yet.

use std::ops::ControlFlow;

use directory::Outcome;
use ldap::{Control, ControlsBuf, DecodeLimits, Message, Request, ResultCode};

use super::dispatch::Arrival;
use super::{Next, Session};
use crate::session::context::Context;

/// Decision of the access rules about a request.
enum Use {
    /// The request is carried out unchanged.
    Whole,
    /// The request is carried out without some of its controls.
    Without(ControlsBuf),
    Refused(Outcome),
}

impl Session {
    /// Carries out a request, ignoring the controls that the requester may not use and that are not critical.
    pub(super) fn dispatch(
        &mut self,
        context: &mut Context,
        arrival: Arrival<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let message = arrival.message;
        if message.controls.is_empty() && !matches!(message.request, Request::Extended(_)) {
            return self.dispatch_as_requester(context, arrival, out);
        }
        if !context.snapshot.rules_cover_uses() {
            return self.dispatch_permitted(context, arrival, out);
        }
        let refused = match self.permitted_use(context, message) {
            Use::Whole => return self.dispatch_permitted(context, arrival, out),
            Use::Refused(outcome) => outcome,
            Use::Without(controls) => {
                let mut bytes = Vec::new();
                let (id, request) = (message.id, message.request);
                Message { id, request, controls: controls.as_controls() }.encode(&mut bytes);
                // Decoding cannot fail, because the server has encoded the message.
                let limits = DecodeLimits { message_size_max: usize::MAX, ..DecodeLimits::AUTHENTICATED };
                match Message::decode(&bytes, &limits) {
                    Ok(written) => {
                        return self.dispatch_permitted(context, Arrival::new(&written, &bytes), out);
                    }
                    Err(error) => Outcome::new(ResultCode::OTHER, error.to_string()),
                }
            }
        };
        self.dispatch_as_requester(context, arrival.refused(refused), out)
    }

    fn permitted_use(&self, context: &Context, message: &Message<'_>) -> Use {
        match self.try_permitted_use(context, message) {
            Ok(permitted) => permitted,
            Err(outcome) => Use::Refused(outcome),
        }
    }

    fn try_permitted_use(&self, context: &Context, message: &Message<'_>) -> Result<Use, Outcome> {
        if matches!(message.request, Request::Bind(_) | Request::Unbind | Request::Abandon(_)) {
            return Ok(Use::Whole);
        }
        let request_context = self.request_context(context);
        let may_use = |oid: &str| context.snapshot.may_use(&request_context, oid);
        if let Request::Extended(request) = &message.request
            && !may_use(request.name)?
        {
            let text = format!("access rules keep extended operation {} from you", request.name);
            return Ok(Use::Refused(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text)));
        }
        let (mut left, mut is_whole): (Vec<Control<'_>>, bool) = (Vec::new(), true);
        for control in message.controls.iter() {
            match (may_use(control.oid)?, control.critical) {
                (true, _) => left.push(control),
                (false, false) => is_whole = false,
                (false, true) => {
                    let text = format!("access rules keep critical control {} from you", control.oid);
                    return Ok(Use::Refused(Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text)));
                }
            }
        }
        Ok(if is_whole { Use::Whole } else { Use::Without(left.into_iter().collect()) })
    }
}
