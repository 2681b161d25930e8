//! The Get Connection ID extended operation of UnboundID: the number of the connection, as in the log and the audit
//! trail.

use std::ops::ControlFlow;

use directory::Outcome;
use ldap::{ExtendedRequest, ResultCode};

use super::{Next, RequestHead, Session};
use crate::session::context::Context;

impl Session {
    /// Answers with the number of the connection, an INTEGER.
    pub(super) fn connection_id(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        request: &ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let answer = match request.value {
            Some(_) => Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "Get Connection ID takes no value")),
            None => Ok(ldap::encode_integer(i64::try_from(self.number).unwrap_or(i64::MAX))),
        };
        self.answer_value(context, &head, answer, out);
        ControlFlow::Continue(())
    }
}
