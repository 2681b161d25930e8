//! The Password Policy State extended operation. Queries are answered from the snapshot, and changes are submitted to
//! the writer.

use directory::Outcome;
use directory::password_state::password_state;
use ldap::{ExtendedRequest, ResultCode, StateRequest};

use super::Session;
use crate::session::context::Context;
use crate::stamp::password_time;

/// Returns true if a request changes the password policy state of an entry.
pub(super) fn changes_password_state(request: &ExtendedRequest<'_>) -> bool {
    StateRequest::is_name(request.name)
        && StateRequest::decode(request.value).is_some_and(|decoded| decoded.changes())
}

impl Session {
    /// Answers queries of the password policy state.
    pub(super) fn password_state(
        &mut self,
        context: &mut Context,
        request: &ExtendedRequest<'_>,
    ) -> Result<Vec<u8>, Outcome> {
        match StateRequest::decode(request.value) {
            Some(decoded) => password_state(&context.snapshot, &self.requester, &decoded, password_time()),
            None => {
                Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "this is no value of Password Policy State"))
            }
        }
    }
}
