//! Extended operations that change the directory, on the writer's thread. The directory itself executes the operations
//! that change entries. This module executes the other operations, which read settings files or states of copies. The
//! formats of settings files and of states of copies belong to the server.

use directory::virtual_entries::{APPLY_SETTINGS, PROMOTE};
use directory::{ClientLink, Outcome, RequestContext, Requester, Stamp, WriteBatch};
use ldap::{ExtendedRequest, ResultCode};

use super::Answer;
use crate::workers::copy_state::last_cookie;
use crate::workers::settings_change;

/// Executes an extended operation. Returns `None` if no operation with this name is known here.
pub(super) fn execute(
    batch: &mut WriteBatch<'_>,
    (requester, link): (&Requester, Option<ClientLink>),
    request: &ExtendedRequest<'_>,
    stamp: &Stamp,
) -> Option<Answer> {
    let context = RequestContext::new(requester, link);
    let (outcome, value) = match request.name {
        APPLY_SETTINGS => settings_change::execute(batch, requester, request.value, stamp),
        PROMOTE => match request.value.map(std::str::from_utf8).transpose() {
            Err(_) => (Outcome::code(ResultCode::PROTOCOL_ERROR), None),
            Ok(base) => match batch.promote(&context, base) {
                Ok(states) => {
                    let cookies: Vec<Vec<u8>> = states.iter().map(|state| last_cookie(state)).collect();
                    (Outcome::success(), Some(cookies.join(&b'\n')))
                }
                Err(error) => (error.into(), None),
            },
        },
        _ => batch.execute_extended(&context, request, stamp)?,
    };
    Some(Answer::new(outcome, value))
}
