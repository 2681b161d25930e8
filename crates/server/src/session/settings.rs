//! The extended operation by which the administrator reads settings and compares proposed settings with them. The
//! writer handles changes of settings.

use std::ops::ControlFlow;

use directory::Outcome;
use ldap::{ExtendedRequest, ResultCode, SettingsRequest};

use super::responder::Responder;
use super::{Next, Session};
use crate::workers::settings_change::check_requester;

/// Returns true if a request changes settings. Also returns true for a malformed request, because the writer answers
/// it.
pub(super) fn changes_settings(request: &ExtendedRequest<'_>) -> bool {
    SettingsRequest::decode(request.value).is_none_or(|decoded| decoded.is_change())
}

impl Session {
    /// Submits a request that changes nothing to the thread that reads settings.
    pub(super) fn read_settings(
        &mut self,
        to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let value = request.value.unwrap_or_default();
        let admitted = check_requester(&self.requester).and_then(|()| {
            match to.context.shared.settings_reader.submit((self.address(to.context), value.to_vec())) {
                true => Ok(value.len()),
                false => {
                    Err(Outcome::new(ResultCode::BUSY, "too many requests about settings wait: try again"))
                }
            }
        });
        self.complete_submission(to, admitted)
    }
}
