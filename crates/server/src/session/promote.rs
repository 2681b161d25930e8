//! Promotion of a replica to a writable server, which only the administrator may request.

use std::sync::Arc;

use directory::virtual_entries::PROMOTE_REPLICA;
use directory::{Outcome, Requester};
use ldap::{ExtendedRequest, Message, Request, ResultCode};

use super::{RequestHead, Session, Work};
use crate::net::mailbox::PreparedPasswords;
use crate::session::context::Context;
use crate::workers::writer::{Reservation, ToWrite, WriteRequest};

/// Request value that prevents the request to the supplier to stop writing.
const WITHOUT_SUPPLIER: &[u8] = b"without supplier";

/// Returns true if the request promotes a replica.
pub(super) fn is_promotion(request: &Request<'_>) -> bool {
    matches!(request, Request::Extended(request) if request.name == PROMOTE_REPLICA)
}

impl Session {
    /// Handles a promotion that has a reservation in the writer's queue.
    pub(super) fn promote(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        message: &Message<'_>,
        reservation: Reservation,
        out: &mut Vec<u8>,
    ) {
        let Request::Extended(request) = message.request else { return };
        let without_supplier = match self.promotion(&request) {
            Ok(without_supplier) => without_supplier,
            Err(outcome) => return self.answer(context, &head, &outcome, out),
        };
        let held = reservation.bytes();
        let request = WriteRequest {
            address: self.address(context),
            requester: Arc::clone(&self.requester),
            link: None,
            change: ToWrite::Promote { without_supplier },
            passwords: PreparedPasswords::default(),
            reservation,
            origin: None,
            keeps_old_values: false,
            is_forwarded: false,
        };
        self.keep(head, Work::Change, held, None);
        context.outbox.push(request);
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
