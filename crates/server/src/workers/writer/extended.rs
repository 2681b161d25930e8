//! Extended operations that change the directory, on the writer's thread.

use directory::virtual_entries::{APPLY_SETTINGS, MAKE_DUE_CHANGES, PROMOTE, STORE_APPLICATION, UNDELETE};
use directory::{ClientLink, Outcome, RequestContext, Requester, Stamp, WriteBatch};
use ldap::oids::{OWN_CREDENTIALS, REFRESH};
use ldap::{
    ExtendedRequest, GeneratedApplication, OwnCredentials, RefreshRequest, ResultCode, StateRequest,
    UndeleteRequest, refreshed_value,
};

use super::Answer;
use crate::workers::copy_state::last_cookie;
use crate::workers::settings_change;

/// Executes an extended operation. Returns `None` if the writer does not know it.
pub(super) fn execute(
    batch: &mut WriteBatch<'_>,
    (requester, link): (&Requester, Option<ClientLink>),
    request: &ExtendedRequest<'_>,
    stamp: &Stamp,
) -> Option<Answer> {
    let context = RequestContext::new(requester, link);
    Some(match request.name {
        APPLY_SETTINGS => {
            let (outcome, value) = settings_change::execute(batch, requester, request.value, stamp);
            Answer::new(outcome, value)
        }
        UNDELETE => match request.value.and_then(UndeleteRequest::decode) {
            None => malformed(),
            Some(asked) => match batch.undelete(&context, &asked, stamp) {
                Ok(made) => Answer::new(Outcome::success(), Some(made.encode())),
                Err(outcome) => outcome.into(),
            },
        },
        REFRESH => match request.value.and_then(RefreshRequest::decode) {
            None => malformed(),
            // In a refusal the time is 0 (RFC 2589 section 4.2).
            Some(asked) => match batch.refresh(&context, &asked, stamp) {
                Ok(seconds) => Answer::new(Outcome::success(), Some(refreshed_value(seconds))),
                Err(outcome) => Answer::new(outcome, Some(refreshed_value(0))),
            },
        },
        PROMOTE => match request.value.map(std::str::from_utf8).transpose() {
            Err(_) => malformed(),
            Ok(base) => match batch.promote(&context, base) {
                Ok(states) => {
                    let cookies: Vec<Vec<u8>> = states.iter().map(|state| last_cookie(state)).collect();
                    Answer::new(Outcome::success(), Some(cookies.join(&b'\n')))
                }
                Err(error) => Outcome::from(error).into(),
            },
        },
        MAKE_DUE_CHANGES => done(batch.make_due_changes(stamp).map(|_| ())),
        OWN_CREDENTIALS => match OwnCredentials::decode(request.value) {
            None => malformed(),
            Some(asked) => done(batch.change_own_credentials(&context, &asked, stamp)),
        },
        STORE_APPLICATION => match request.value.and_then(GeneratedApplication::decode) {
            None => malformed(),
            Some(made) => done(batch.add_application(&context, &made, stamp)),
        },
        name if StateRequest::is_name(name) => match StateRequest::decode(request.value) {
            None => malformed(),
            Some(asked) => match batch.change_password_state(requester, &asked, stamp) {
                Ok(value) => Answer::new(Outcome::success(), Some(value)),
                Err(outcome) => outcome.into(),
            },
        },
        _ => return None,
    })
}

fn malformed() -> Answer {
    Outcome::code(ResultCode::PROTOCOL_ERROR).into()
}

fn done(made: Result<(), Outcome>) -> Answer {
    made.map_or_else(|outcome| outcome, |()| Outcome::success()).into()
}
