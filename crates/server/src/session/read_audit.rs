//! Reading the audit trail over the network, for the administrator and for requesters to whom an access rule grants
//! `use read-audit`.

use std::ops::ControlFlow;

use directory::Outcome;
use directory::virtual_entries::READ_AUDIT;
use ldap::{ExtendedRequest, ResultCode, TrailRequest};

use super::responder::Responder;
use super::{Next, Session};
use crate::limits::TRAIL_ANSWER_BYTES;
use crate::session::context::Context;

impl Session {
    /// Submits a request for a page of the audit trail, if the requester may read it.
    pub(super) fn read_audit(
        &mut self,
        to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let admitted = self.trail_request(to.context, request.value).and_then(|decoded| {
            let refused = |code, text: &str| Err(Outcome::new(code, text));
            match &to.context.shared.trail_reader {
                None => refused(ResultCode::UNWILLING_TO_PERFORM, "this server writes no audit trail"),
                Some(reader) if reader.submit((self.address(to.context), decoded)) => Ok(TRAIL_ANSWER_BYTES),
                Some(_) => refused(ResultCode::BUSY, "too many requests for the audit trail wait: try again"),
            }
        });
        self.complete_submission(to, admitted)
    }

    fn trail_request(&self, context: &Context, value: Option<&[u8]>) -> Result<TrailRequest, Outcome> {
        if !context.snapshot.may_use(&self.request_context(context), READ_AUDIT)? {
            let text =
                "the audit trail is for the administrator, and for whom a rule allows the use of read-audit";
            return Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        match value {
            None => Ok(TrailRequest::default()),
            Some(value) => TrailRequest::decode(value).ok_or_else(|| {
                Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no request for the audit trail")
            }),
        }
    }
}
