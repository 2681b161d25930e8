//! Extended operations that change the directory, and internal requests of the server to its writer.

use ldap::oids::{OWN_CREDENTIALS, REFRESH};
use ldap::{
    ExtendedRequest, GeneratedApplication, OwnCredentials, RefreshRequest, ResultCode, StateRequest,
    UndeleteRequest, refreshed_value,
};

use super::WriteBatch;
use crate::access::RequestContext;
use crate::model::outcome::Outcome;
use crate::model::stamp::Stamp;
use crate::model::virtual_entries::{MAKE_DUE_CHANGES, STORE_APPLICATION, UNDELETE};

/// Outcome of an extended operation, and the value of its response.
pub type ExtendedResult = (Outcome, Option<Vec<u8>>);

impl WriteBatch<'_> {
    /// Executes an extended operation, like [`execute`](WriteBatch::execute). Returns `None` if the operation does not
    /// change the directory.
    pub fn execute_extended(
        &mut self,
        context: &RequestContext<'_>,
        request: &ExtendedRequest<'_>,
        stamp: &Stamp,
    ) -> Option<ExtendedResult> {
        Some(match request.name {
            UNDELETE => match request.value.and_then(UndeleteRequest::decode) {
                None => malformed(),
                Some(request) => match self.undelete(context, &request, stamp) {
                    Ok(answer) => (Outcome::success(), Some(answer.encode())),
                    Err(outcome) => (outcome, None),
                },
            },
            REFRESH => match request.value.and_then(RefreshRequest::decode) {
                None => malformed(),
                // A response with an error contains the time 0 (RFC 2589 section 4.2).
                Some(request) => match self.refresh(context, &request, stamp) {
                    Ok(seconds) => (Outcome::success(), Some(refreshed_value(seconds))),
                    Err(outcome) => (outcome, Some(refreshed_value(0))),
                },
            },
            MAKE_DUE_CHANGES => without_value(self.make_due_changes(stamp).map(|_| ())),
            OWN_CREDENTIALS => match OwnCredentials::decode(request.value) {
                None => malformed(),
                Some(request) => without_value(self.change_own_credentials(context, &request, stamp)),
            },
            STORE_APPLICATION => match request.value.and_then(GeneratedApplication::decode) {
                None => malformed(),
                Some(generated) => without_value(self.add_application(context, &generated, stamp)),
            },
            name if StateRequest::is_name(name) => match StateRequest::decode(request.value) {
                None => malformed(),
                Some(request) => match self.change_password_state(context.requester, &request, stamp) {
                    Ok(value) => (Outcome::success(), Some(value)),
                    Err(outcome) => (outcome, None),
                },
            },
            _ => return None,
        })
    }
}

fn malformed() -> ExtendedResult {
    (Outcome::code(ResultCode::PROTOCOL_ERROR), None)
}

fn without_value(result: Result<(), Outcome>) -> ExtendedResult {
    (result.map_or_else(|outcome| outcome, |()| Outcome::success()), None)
}
