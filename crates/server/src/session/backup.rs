//! The extended operation by which the administrator reads an entry from the server's backup.

use std::ops::ControlFlow;

use directory::Outcome;
use ldap::{ExtendedRequest, ResultCode};

use super::responder::Responder;
use super::{Next, Session};

impl Session {
    /// Submits a request to the thread that reads the backup.
    pub(super) fn read_backup(
        &mut self,
        to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let value = request.value.unwrap_or_default();
        let reader = to.context.shared.backup_reader.as_ref();
        let refused = |code, text| Err(Outcome::new(code, text));
        let admitted = match reader {
            _ if !self.requester.is_administrator() => refused(
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "only the administrator may read the backup, which has the values of all entries",
            ),
            None => refused(
                ResultCode::UNWILLING_TO_PERFORM,
                "this server keeps no backup: its node file names no backup.folder",
            ),
            Some(reader) if !reader.submit((self.address(to.context), value.to_vec())) => {
                refused(ResultCode::BUSY, "too many requests about the backup wait: try again")
            }
            Some(_) => Ok(value.len()),
        };
        self.complete_submission(to, admitted)
    }
}
