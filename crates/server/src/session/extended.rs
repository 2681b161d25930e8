//! Extended operations (RFC 4511 section 4.12): the table of OIDs and handlers.

use std::ops::ControlFlow;

use directory::virtual_entries::{
    APPLY_SETTINGS, COPY_DATA, EXPLAIN_ACCESS, FORWARD, LIST_DELETED, PROMOTE, PROMOTE_REPLICA, READ_AUDIT,
    READ_BACKUP, READ_HISTORY, READ_LOG, UNDELETE,
};
use directory::{Outcome, access_question};
use ldap::oids::{
    CANCEL, CONNECTION_ID, END_TRANSACTION, MODIFY_PASSWORD, OWN_CREDENTIALS, PASSWORD_STATE,
    PASSWORD_STATE_UNBOUNDID, REFRESH, START_TLS, START_TRANSACTION, VERIFY_CREDENTIALS, WHO_AM_I,
};
use ldap::{ALL_REQUESTERS, AccessQuestion, ExtendedRequest, Request, ResultCode};

use super::own_credentials::changes_own_credentials;
use super::password_state::changes_password_state;
use super::responder::Responder;
use super::settings::changes_settings;
use super::transactions::commits;
use super::{Next, Session, Work};
use crate::session::context::Context;

/// Handler of an extended operation. It runs on the event loop.
#[derive(Clone, Copy)]
enum Handler {
    /// Returns the value of the response, or an outcome for a response without a value.
    Value(fn(&mut Session, &mut Context, &ExtendedRequest<'_>) -> Result<Vec<u8>, Outcome>),
    /// Answers the request itself, at once or later.
    Own(fn(&mut Session, Responder<'_>, &ExtendedRequest<'_>) -> ControlFlow<Next>),
}

use Handler::{Own, Value};

/// An extended operation.
struct ExtendedOperation {
    oid: &'static str,
    /// Returns true if the writer carries out the request.
    is_change: fn(&ExtendedRequest<'_>) -> bool,
    handler: Handler,
    /// Whether the operation concerns the connection. If so, the request may not ask for another identity.
    is_of_connection: bool,
}

/// All extended operations. A row with the handler `unknown_operation` never uses this handler: a Password Modify
/// becomes a Modify before dispatch, and the writer carries out the other requests.
static OPERATIONS: [ExtendedOperation; 24] = [
    of_connection(row(START_TLS, |_| false, Own(Session::start_tls))),
    of_connection(row(CANCEL, |_| false, Own(Session::cancel))),
    of_connection(row(CONNECTION_ID, |_| false, Value(Session::connection_id))),
    row(WHO_AM_I, |_| false, Value(Session::who_am_i)),
    row(START_TRANSACTION, |_| false, Value(Session::start_transaction)),
    row(END_TRANSACTION, commits, Own(Session::end_transaction)),
    of_connection(row(VERIFY_CREDENTIALS, |_| false, Own(Session::verify_credentials))),
    row(MODIFY_PASSWORD, |_| false, Own(Session::unknown_operation)),
    row(PASSWORD_STATE, changes_password_state, Value(Session::password_state)),
    row(PASSWORD_STATE_UNBOUNDID, changes_password_state, Value(Session::password_state)),
    row(APPLY_SETTINGS, changes_settings, Own(Session::read_settings)),
    row(EXPLAIN_ACCESS, |_| false, Value(Session::explain_access)),
    row(READ_AUDIT, |_| false, Own(Session::read_audit)),
    row(LIST_DELETED, |_| false, Value(Session::list_deleted)),
    row(UNDELETE, |_| true, Own(Session::unknown_operation)),
    row(OWN_CREDENTIALS, changes_own_credentials, Value(Session::own_credentials)),
    row(READ_HISTORY, |_| false, Value(Session::read_history)),
    row(READ_BACKUP, |_| false, Own(Session::read_backup)),
    row(PROMOTE, |_| true, Own(Session::unknown_operation)),
    row(REFRESH, |_| true, Own(Session::unknown_operation)),
    row(READ_LOG, |_| false, Own(Session::read_log)),
    row(FORWARD, |_| true, Own(Session::unknown_operation)),
    row(COPY_DATA, |_| false, Own(Session::copy_data)),
    row(PROMOTE_REPLICA, |_| true, Own(Session::unknown_operation)),
];

const fn row(
    oid: &'static str,
    is_change: fn(&ExtendedRequest<'_>) -> bool,
    handler: Handler,
) -> ExtendedOperation {
    ExtendedOperation { oid, is_change, handler, is_of_connection: false }
}

const fn of_connection(operation: ExtendedOperation) -> ExtendedOperation {
    ExtendedOperation { is_of_connection: true, ..operation }
}

fn operation(oid: &str) -> Option<&'static ExtendedOperation> {
    OPERATIONS.iter().find(|operation| operation.oid == oid)
}

/// Returns true if the writer carries out the request.
pub(super) fn is_change(request: &ExtendedRequest<'_>) -> bool {
    operation(request.name).is_some_and(|operation| (operation.is_change)(request))
}

/// Returns true if the request concerns the connection, so that it may not ask for another identity (RFC 4370 section
/// 3).
pub(super) fn is_of_connection(request: &Request<'_>) -> bool {
    let Request::Extended(request) = request else { return false };
    operation(request.name).is_some_and(|operation| operation.is_of_connection)
}

impl Session {
    /// Carries out an extended operation.
    pub(super) fn extended(&mut self, to: Responder<'_>, request: &ExtendedRequest<'_>) -> ControlFlow<Next> {
        match operation(request.name).map_or(Own(Session::unknown_operation), |of| of.handler) {
            Own(handler) => handler(self, to, request),
            Value(handler) => {
                match handler(self, to.context, request) {
                    Ok(value) => self.answer_with(to, &Outcome::success(), Some(&value)),
                    Err(outcome) => self.answer(to, &outcome),
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// Completes the submission of a request to another thread. If the thread has accepted the request, `admitted` is
    /// the memory that the thread uses for it, in bytes, and the request becomes outstanding. Otherwise answers the
    /// request with the outcome in `admitted`.
    pub(super) fn complete_submission(
        &mut self,
        to: Responder<'_>,
        admitted: Result<usize, Outcome>,
    ) -> ControlFlow<Next> {
        match admitted {
            Ok(octets) => self.keep(to.head, Work::Change, octets, None),
            Err(outcome) => self.answer(to, &outcome),
        }
        ControlFlow::Continue(())
    }

    /// Answers protocolError without a response name (RFC 4511 section 4.12).
    fn unknown_operation(&mut self, to: Responder<'_>, request: &ExtendedRequest<'_>) -> ControlFlow<Next> {
        let text = match ldap::oids::extended_operation_name(request.name) {
            Some(name) => format!("{name} ({}) is not supported here", request.name),
            None => format!("extended operation {:?} is not known here", ldap::Excerpt(request.name)),
        };
        self.answer(to, &Outcome::new(ResultCode::PROTOCOL_ERROR, text));
        ControlFlow::Continue(())
    }

    /// Returns the requester's authorization identity (RFC 4532).
    fn who_am_i(&mut self, _: &mut Context, _: &ExtendedRequest<'_>) -> Result<Vec<u8>, Outcome> {
        Ok(self.requester.authorization_id().into_bytes())
    }

    /// Returns the rights of an identity and the access rules that decide them.
    fn explain_access(
        &mut self,
        context: &mut Context,
        request: &ExtendedRequest<'_>,
    ) -> Result<Vec<u8>, Outcome> {
        let Some(question) = AccessQuestion::decode(request.value.unwrap_or_default()) else {
            return Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no question about access"));
        };
        let state = context.snapshot.state();
        let lines = match question.requester {
            ALL_REQUESTERS => access_question::list(state, &self.requester, &question)?.to_lines(),
            _ => access_question::answer(state, &self.requester, &question)?.to_lines(),
        };
        Ok(lines.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use directory::virtual_entries::SUPPORTED_EXTENSIONS;

    use super::*;

    #[test]
    fn the_root_dse_lists_the_operations_of_the_table() {
        assert_eq!(OPERATIONS.len(), SUPPORTED_EXTENSIONS.len());
        for (oid, name) in SUPPORTED_EXTENSIONS {
            assert!(operation(oid).is_some(), "{name}");
        }
    }
}
