//! Promotion of a replica to a writable server, which only the administrator may request.

use std::sync::Arc;

use directory::virtual_entries::PROMOTE_REPLICA;
use directory::{Outcome, Requester};
use ldap::{ExtendedRequest, Message, Request, ResultCode};

use super::responder::Responder;
use super::{Session, Work};
use crate::net::mailbox::PreparedPasswords;
use crate::workers::writer::{Reservation, WriteRequest, WriterWork};

/// Request value for a promotion that does not ask the supplier to stop writing.
const WITHOUT_SUPPLIER: &[u8] = b"without supplier";

/// Returns true if the request promotes a replica.
pub(super) fn is_promotion(request: &Request<'_>) -> bool {
    matches!(request, Request::Extended(request) if request.name == PROMOTE_REPLICA)
}

impl Session {
    /// Handles a promotion that has a reservation in the writer's queue.
    pub(super) fn promote(&mut self, to: Responder<'_>, message: &Message<'_>, reservation: Reservation) {
        let Request::Extended(request) = message.request else { return };
        let without_supplier = match self.promotion(&request) {
            Ok(without_supplier) => without_supplier,
            Err(outcome) => return self.answer(to, &outcome),
        };
        let held = reservation.bytes();
        let request = WriteRequest {
            address: self.address(to.context),
            requester: Arc::clone(&self.requester),
            link: None,
            change: WriterWork::Promote { without_supplier },
            passwords: PreparedPasswords::default(),
            reservation,
            origin: None,
            keeps_old_values: false,
            is_forwarded: false,
        };
        self.keep(to.head, Work::Change, held, None);
        to.context.outbox.push(request);
    }

    fn promotion(&self, request: &ExtendedRequest<'_>) -> Result<bool, Outcome> {
        if !matches!(*self.requester, Requester::Administrator { .. }) {
            let text = "only the administrator promotes a replica";
            return Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        match request.value {
            None => Ok(false),
            Some(WITHOUT_SUPPLIER) => Ok(true),
            Some(_) => Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no promotion")),
        }
    }
}
