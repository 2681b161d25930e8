//! Returns the history of an entry, to the administrator and to requesters to whom an access rule grants `use
//! read-audit`.

use directory::virtual_entries::READ_HISTORY;
use directory::{Outcome, history};
use ldap::{ExtendedRequest, HistoryRequest, ResultCode};

use super::Session;
use crate::session::context::Context;

impl Session {
    /// Returns a page of the history.
    pub(super) fn read_history(
        &mut self,
        context: &mut Context,
        request: &ExtendedRequest<'_>,
    ) -> Result<Vec<u8>, Outcome> {
        if !context.snapshot.may_use(&self.request_context(context), READ_HISTORY)? {
            let text = "the history of entries is for the administrator, and for requesters that a rule allows the \
                        use of read-audit";
            return Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        let malformed = || Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no request for a history");
        let decoded = HistoryRequest::decode(request.value.unwrap_or_default()).ok_or_else(malformed)?;
        let state = context.snapshot.state();
        Ok(history::history(state, &self.request_context(context), &decoded)?.encode())
    }
}
