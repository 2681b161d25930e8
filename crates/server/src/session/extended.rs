//! Extended operations (RFC 4511 section 4.12): the table from OID to handler.

use std::ops::ControlFlow;

use directory::virtual_entries::{APPLY_SETTINGS, EXPLAIN_ACCESS, LIST_DELETED, READ_AUDIT, UNDELETE};
use directory::{Outcome, access_question};
use ldap::oids::{
    CANCEL, CONNECTION_ID, END_TRANSACTION, MODIFY_PASSWORD, PASSWORD_STATE, PASSWORD_STATE_UNBOUNDID,
    START_TLS, START_TRANSACTION, WHO_AM_I,
};
use ldap::{AccessQuestion, ExtendedRequest, Request, ResultCode};

use super::outstanding::RequestHead;
use super::password_state::changes_password_state;
use super::transactions::commits;
use super::{Next, Session};
use crate::session::context::Context;

/// Carries out an extended operation on the event loop.
type Handler =
    fn(&mut Session, &mut Context, RequestHead, &ExtendedRequest<'_>, &mut Vec<u8>) -> ControlFlow<Next>;

/// An extended operation.
struct ExtendedOperation {
    oid: &'static str,
    /// Returns true if the writer carries out the request.
    is_change: fn(&ExtendedRequest<'_>) -> bool,
    handler: Handler,
    /// True if the operation is about the connection, so that it takes no other identity.
    is_of_connection: bool,
}

/// Every extended operation. Password Modify becomes a Modify before it is dispatched. It, the change of settings and
/// Undelete reach no handler.
static OPERATIONS: [ExtendedOperation; 14] = [
    of_connection(row(START_TLS, |_| false, Session::start_tls)),
    of_connection(row(CANCEL, |_| false, Session::cancel)),
    of_connection(row(CONNECTION_ID, |_| false, Session::connection_id)),
    row(WHO_AM_I, |_| false, Session::who_am_i),
    row(START_TRANSACTION, |_| false, Session::start_transaction),
    row(END_TRANSACTION, commits, Session::end_transaction),
    row(MODIFY_PASSWORD, |_| false, Session::unknown_operation),
    row(PASSWORD_STATE, changes_password_state, Session::password_state),
    row(PASSWORD_STATE_UNBOUNDID, changes_password_state, Session::password_state),
    row(APPLY_SETTINGS, |_| true, Session::unknown_operation),
    row(EXPLAIN_ACCESS, |_| false, Session::explain_access),
    row(READ_AUDIT, |_| false, Session::read_audit),
    row(LIST_DELETED, |_| false, Session::list_deleted),
    row(UNDELETE, |_| true, Session::unknown_operation),
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

/// Returns true if the request is about the connection, so that it takes no other identity (RFC 4370 section 3).
pub(super) fn is_of_connection(request: &Request<'_>) -> bool {
    let Request::Extended(request) = request else { return false };
    operation(request.name).is_some_and(|operation| operation.is_of_connection)
}

impl Session {
    /// Carries out an extended operation.
    pub(super) fn extended(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        request: &ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let handler = operation(request.name).map_or(Session::unknown_operation as Handler, |of| of.handler);
        handler(self, context, head, request, out)
    }

    /// Answers protocolError, without a response name (RFC 4511 section 4.12).
    fn unknown_operation(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        request: &ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let text = match ldap::oids::extended_operation_name(request.name) {
            Some(name) => format!("{name} ({}) is not supported here", request.name),
            None => format!("extended operation {:?} is not known here", ldap::Excerpt(request.name)),
        };
        self.answer(context, &head, &Outcome::new(ResultCode::PROTOCOL_ERROR, text), out);
        ControlFlow::Continue(())
    }

    /// Answers with the authorization identity (RFC 4532).
    fn who_am_i(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        _: &ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let identity = self.requester.authorization_id();
        self.answer_with(context, &head, &Outcome::success(), Some(identity.as_bytes()), out);
        ControlFlow::Continue(())
    }

    /// Answers with the rights of an identity and the rules that decide them.
    fn explain_access(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        request: &ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        let explained = match AccessQuestion::decode(request.value.unwrap_or_default()) {
            Some(question) => access_question::answer(context.snapshot.state(), &self.requester, &question),
            None => Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no question about access")),
        };
        let lines = explained.map(|explanation| explanation.to_lines().into_bytes());
        self.answer_value(context, &head, lines, out);
        ControlFlow::Continue(())
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
