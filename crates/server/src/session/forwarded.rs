//! Changes that a replica forwards for its clients. Each change runs under the identity of a client that the replica
//! has authenticated. Therefore the right to replicate includes the right to make changes as any user.

use std::sync::Arc;

use directory::Outcome;
use directory::account_update::AccountUpdate;
use directory::rows::EntryId;
use directory::virtual_entries::FORWARD;
use ldap::{DecodeLimits, Message, Request, ResultCode, oids};
use replication::OperationId;
use replication::forward::{self, Reply};

use super::responder::Responder;
use super::{Session, Work};
use crate::net::mailbox::{PreparedPasswords, Written};
use crate::session::context::Context;
use crate::stamp::now_micros;
use crate::workers::writer::{Reservation, TransactionChange, WriteRequest, WriterWork, prepared_passwords};

/// Returns true if the request is a change that a replica forwards.
pub(super) fn is_forwarded(request: &Request<'_>) -> bool {
    matches!(request, Request::Extended(request) if request.name == FORWARD)
}

/// If the message asks this server to stop writing, returns the name of the epoch in which another server is the
/// writer.
fn fenced_epoch(message: &[u8]) -> Option<[u8; 16]> {
    let limits = DecodeLimits { message_size_max: usize::MAX, ..DecodeLimits::AUTHENTICATED };
    match Message::decode(message, &limits).ok()?.request {
        Request::Extended(request) if request.name == oids::FENCE => request.value?.try_into().ok(),
        _ => None,
    }
}

impl Session {
    /// Handles a forwarded change that has a reservation in the writer's queue.
    pub(super) fn forwarded(
        &mut self,
        mut to: Responder<'_>,
        message: &Message<'_>,
        reservation: Reservation,
    ) {
        let Request::Extended(request) = message.request else { return };
        let forwarded = match self.forwarded_request(to.context, request.value) {
            Ok(forwarded) => forwarded,
            Err(outcome) => return self.answer(to, &outcome),
        };
        let (operation, held) = (forwarded.operation, reservation.bytes());
        to.head.event.iter_mut().for_each(|event| event.received = Some(operation));
        let link = Some(forwarding::link_of(&forwarded, now_micros()));
        let requester = Arc::new(forwarding::requester_of(&forwarded.requester));
        let (change, passwords) = match forwarded.work {
            forward::Work::Change { message, passwords } => match fenced_epoch(&message) {
                Some(epoch) => (WriterWork::Fence(epoch), PreparedPasswords::default()),
                None => (WriterWork::Message(message.into()), prepared_passwords(passwords)),
            },
            forward::Work::Transaction(changes) => {
                let changes = changes.into_iter().map(|change| TransactionChange {
                    message: change.message.into(),
                    passwords: prepared_passwords(change.passwords),
                    origin: None,
                });
                (WriterWork::Transaction(changes.collect()), PreparedPasswords::default())
            }
            forward::Work::Account { id, update } => {
                let update: AccountUpdate = forwarding::update_of(update);
                (WriterWork::ForwardedAccount(EntryId(id), Box::new(update)), PreparedPasswords::default())
            }
        };
        let request = WriteRequest {
            address: self.address(to.context),
            requester,
            link,
            change,
            passwords,
            reservation,
            origin: self.origin(to.context, message),
            keeps_old_values: to.context.audit.keeps_old_values(),
            is_forwarded: true,
        };
        self.keep(to.head, Work::Forwarded(operation), held, None);
        to.context.outbox.push(request);
    }

    fn forwarded_request(
        &self,
        context: &Context,
        value: Option<&[u8]>,
    ) -> Result<forward::Request, Outcome> {
        self.check_may_replicate(context, FORWARD)?;
        let requests = value.and_then(forward::decode_requests);
        let only = requests.and_then(|requests| <[forward::Request; 1]>::try_from(requests).ok());
        let [request] = only.ok_or_else(|| {
            Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no change that a replica forwards")
        })?;
        Ok(request)
    }

    /// Answers a forwarded change that the writer has finished.
    pub(super) fn forwarded_written(&self, to: Responder<'_>, operation: OperationId, answer: &Written) {
        let position = match to.context.shared.directory.newest_position() {
            Ok(position) => position,
            Err(error) => {
                let outcome = Outcome::new(ResultCode::UNAVAILABLE, error.to_string());
                return self.answer(to, &outcome);
            }
        };
        let result = forwarding::forwarded_result(answer.outcome.clone(), answer.value.as_deref().cloned());
        let reply = forward::Answer { operation, reply: Reply::Decided { position, result } };
        let value = forward::encode_answers(&[reply]);
        self.answer_with(to, &Outcome::success(), Some(&value));
    }
}
