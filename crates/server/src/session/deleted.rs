//! Lists deleted entries, for the administrator and for requesters to whom an access rule grants `use undelete`.

use directory::virtual_entries::LIST_DELETED;
use directory::{Outcome, deleted};
use ldap::{DeletedRequest, ExtendedRequest, ResultCode};

use super::Session;
use crate::session::context::Context;

impl Session {
    /// Returns a page of the list of deleted entries.
    pub(super) fn list_deleted(
        &mut self,
        context: &mut Context,
        request: &ExtendedRequest<'_>,
    ) -> Result<Vec<u8>, Outcome> {
        if !context.snapshot.may_use(&self.request_context(context), LIST_DELETED)? {
            let text = "deleted entries are for the administrator, and for requesters that a rule allows the use of \
                        undelete";
            return Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        let malformed =
            || Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no request for deleted entries");
        let decoded = DeletedRequest::decode(request.value.unwrap_or_default()).ok_or_else(malformed)?;
        Ok(deleted::list(context.snapshot.state(), &decoded)?.encode())
    }
}
