//! The list of deleted entries, for the administrator and requesters that a rule grants `use undelete`.

use std::ops::ControlFlow;

use directory::virtual_entries::LIST_DELETED;
use directory::{Outcome, deleted};
use ldap::{DeletedRequest, ExtendedRequest, ResultCode};

use super::{Next, RequestHead, Session};
use crate::session::context::Context;

impl Session {
    /// Answers with a part of the list.
    pub(super) fn list_deleted(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        request: &ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let listed = self.deleted(context, request.value.unwrap_or_default());
        self.answer_value(context, &head, listed, out);
        ControlFlow::Continue(())
    }

    fn deleted(&self, context: &Context, value: &[u8]) -> Result<Vec<u8>, Outcome> {
        if !context.snapshot.may_use(&self.request_context(context), LIST_DELETED)? {
            let text = "deleted entries are for the administrator, and for requesters that a rule allows the use of \
                        undelete";
            return Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        let malformed =
            || Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no request for deleted entries");
        let asked = DeletedRequest::decode(value).ok_or_else(malformed)?;
        Ok(deleted::list(context.snapshot.state(), &asked)?.encode())
    }
}
