//! The Cancel operation (RFC 3909). The server answers both the Cancel operation and the operation that it cancels.

use std::ops::ControlFlow;

use directory::Outcome;
use ldap::{ExtendedRequest, ResultCode, decode_cancel};

use super::outstanding::Work;
use super::proof::Proof;
use super::responder::Responder;
use super::{Next, Session};
use crate::session::context::Context;

impl Session {
    /// Cancels an outstanding operation. Only a read, or a change that the writer has not received yet, can be
    /// cancelled.
    pub(super) fn cancel(&mut self, to: Responder<'_>, request: &ExtendedRequest<'_>) -> ControlFlow<Next> {
        let outcome = match self.try_cancel(to.context, request.value, to.out) {
            Ok(()) => Outcome::success(),
            Err((code, text)) => Outcome::new(code, text),
        };
        self.answer(to, &outcome);
        ControlFlow::Continue(())
    }

    fn try_cancel(
        &mut self,
        context: &mut Context,
        value: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), (ResultCode, &'static str)> {
        let id = decode_cancel(value)
            .ok_or((ResultCode::PROTOCOL_ERROR, "this is no value of Cancel (RFC 3909 section 2.1)"))?;
        let mut numbered = self.outstanding.iter().enumerate();
        let (index, found) = numbered
            .find(|(_, other)| other.has_id(id))
            .ok_or((ResultCode::NO_SUCH_OPERATION, "no operation of this message id is outstanding"))?;
        let ticket = found.ticket;
        match &found.work {
            Work::Search { .. } => {
                self.stop_search(context, index, ResultCode::CANCELED, out);
                return Ok(());
            }
            Work::Verify(Proof { requester: None, .. }) => {}
            Work::Change | Work::PasswordModify(_) if self.is_deferred(ticket) => {}
            Work::Change | Work::Forwarded(_) | Work::PasswordModify(_) | Work::Transaction(_) => {
                return Err((ResultCode::TOO_LATE, "the operation is under way"));
            }
            Work::Verify(_) | Work::Kerberos | Work::Decided(_) | Work::Delayed(_) => {
                return Err((
                    ResultCode::CANNOT_CANCEL,
                    "an operation that proves a password is not cancelled",
                ));
            }
        }
        self.remove_deferred(ticket);
        // Removing the operation drops its claim on the hash pool. The pool then skips the password.
        let canceled = self.outstanding.remove(index);
        self.submit_ready(context, out);
        let outcome = Outcome::new(ResultCode::CANCELED, "the client cancelled it");
        self.answer(Responder { context, head: canceled.head, out }, &outcome);
        Ok(())
    }
}
