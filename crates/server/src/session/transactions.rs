//! Transactions (RFC 5805): either all changes of a transaction are made or none.
//!
//! The session stores the changes, with their passwords hashed, until the client ends the transaction. Then the writer
//! receives all changes as one request. Therefore a transaction blocks no other client before its commit. A connection
//! has at most one transaction.
//!
//! If one of the changes is refused, the transaction cannot be committed. A client that pipelines requests may send the
//! commit before it reads the refusal.

use std::mem::size_of;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use directory::controls::{ControlContext, RequestControls, copies_bytes_max};
use directory::{Outcome, Requester};
use ldap::oids::{
    ABORTED_TRANSACTION_NOTICE, END_TRANSACTION, NO_OPERATION, NO_OPERATION_UNBOUNDID, PROXIED_AUTHORIZATION,
    PROXIED_AUTHORIZATION_V1, TRANSACTION_SPECIFICATION,
};
use ldap::{
    Control, Controls, EndTransaction, EndTransactionResult, ExtendedRequest, LdapResult, Message, MessageId,
    Request, ResultCode, response,
};

use super::audit::OperationEnd;
use super::changes::{DeferredChange, Step};
use super::outstanding::{SettledChange, Work};
use super::password_modify::is_password_modify;
use super::responder::Responder;
use super::{Next, Session};
use crate::limits::{
    TRANSACTION_BYTES_MAX, TRANSACTION_CHANGE_BYTES, TRANSACTION_CHANGES_MAX, TRANSACTION_COPIES_BYTES_MAX,
};
use crate::net::mailbox::{PreparedPasswords, Written};
use crate::session::context::Context;
use crate::workers::writer::{Reservation, TransactionChange, WriteRequest, WriterWork};

/// A transaction that the client has not ended. It does not implement `Debug`, because it may contain passwords.
pub(super) struct Transaction {
    /// Number of the transaction on this connection. Its decimal text is the transaction identifier.
    number: u32,
    /// Identity under which the changes are made.
    requester: Arc<Requester>,
    deadline: Option<Instant>,
    /// Message ids of the changes in the order received, including changes whose passwords are not hashed yet.
    ids: Vec<MessageId>,
    changes: Vec<AcceptedChange>,
    /// Size of the change messages, plus a fixed amount of memory for each, in bytes.
    bytes: usize,
    /// Maximum total size of the pre-read and post-read entries that the changes request, in bytes.
    copies_bytes: usize,
    /// First change that was refused before it was added to `ids`.
    refused: Option<MessageId>,
}

/// A change of the transaction whose acceptance was answered.
struct AcceptedChange {
    settled: SettledChange,
    change: TransactionChange,
}

impl Transaction {
    fn identifier(&self) -> String {
        self.number.to_string()
    }

    /// Returns the first change that was refused. If there is one, the transaction cannot be committed.
    fn missing(&self) -> Option<MessageId> {
        let held = self.changes.iter().map(|held| held.settled.head.id);
        let mut held = held.chain(std::iter::repeat(MessageId::UNSOLICITED));
        self.refused.or_else(|| self.ids.iter().copied().find(|id| held.next() != Some(*id)))
    }

    /// Returns the number of bytes of memory that the transaction occupies.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.ids.capacity() * size_of::<MessageId>()
    }

    /// Returns the number of bytes to reserve in the writer's queue.
    fn bytes_to_write(&self) -> usize {
        self.bytes + self.copies_bytes.min(TRANSACTION_COPIES_BYTES_MAX)
    }

    /// Adds a change to the transaction.
    ///
    /// # Errors
    /// The transaction has too many changes, its changes are too large, or another change has the same message id.
    fn admit(&mut self, message: &Message<'_>, frame: &[u8]) -> Result<(), Outcome> {
        let bytes = frame.len() + TRANSACTION_CHANGE_BYTES;
        let too_large = |text: String| Err(Outcome::new(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
        if self.ids.contains(&message.id) {
            let text = format!("message id {} belongs to another change of the transaction", message.id);
            return Err(Outcome::new(ResultCode::PROTOCOL_ERROR, text));
        }
        if self.ids.len() >= TRANSACTION_CHANGES_MAX {
            return too_large(format!("a transaction has at most {TRANSACTION_CHANGES_MAX} changes"));
        }
        if self.bytes + bytes > TRANSACTION_BYTES_MAX {
            return too_large(format!(
                "the changes of a transaction have at most {TRANSACTION_BYTES_MAX} octets, with \
                 {TRANSACTION_CHANGE_BYTES} added for each"
            ));
        }
        self.ids.push(message.id);
        self.bytes += bytes;
        self.copies_bytes += copies_bytes_max(&message.controls);
        Ok(())
    }
}

/// Returns the Transaction Specification control, which makes a change part of a transaction.
fn specification<'m>(message: &Message<'m>) -> Option<Control<'m>> {
    if message.controls.is_empty() { None } else { message.controls.find(TRANSACTION_SPECIFICATION) }
}

/// Returns the decoded request to end a transaction, if `request` is well-formed.
fn end_of<'m>(request: &Request<'m>) -> Option<EndTransaction<'m>> {
    match request {
        Request::Extended(request) if request.name == END_TRANSACTION => {
            EndTransaction::decode(request.value)
        }
        _ => None,
    }
}

/// Returns true if a request commits a transaction. The writer carries out the commit.
pub(super) fn commits(request: &ExtendedRequest<'_>) -> bool {
    request.name == END_TRANSACTION
        && EndTransaction::decode(request.value).is_some_and(|decoded| decoded.commits)
}

fn unknown_identifier() -> Outcome {
    let text = "no transaction of this identifier is open on this connection";
    Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text)
}

impl Session {
    /// Starts a transaction. With a proxied authorization control, the transaction runs under the identity in the
    /// control (RFC 5805 section 4.4).
    pub(super) fn start_transaction(
        &mut self,
        context: &mut Context,
        request: &ExtendedRequest<'_>,
    ) -> Result<Vec<u8>, Outcome> {
        if request.value.is_some_and(|value| !value.is_empty()) {
            let text = "Start Transaction takes no value (RFC 5805 section 2.1)";
            return Err(Outcome::new(ResultCode::PROTOCOL_ERROR, text));
        }
        if *self.requester == Requester::Anonymous {
            let text = "bind first: anonymous clients change nothing";
            return Err(Outcome::new(ResultCode::STRONGER_AUTH_REQUIRED, text));
        }
        if self.transaction.is_some() {
            let text = "a transaction is open on this connection: end it first, or use another connection";
            return Err(Outcome::new(ResultCode::BUSY, text));
        }
        self.transaction_count = self.transaction_count.wrapping_add(1);
        let number = self.transaction_count;
        let transaction = Transaction {
            number,
            requester: Arc::clone(&self.requester),
            deadline: context.settings.transaction_timeout.and_then(|limit| context.now.checked_add(limit)),
            ids: Vec::new(),
            changes: Vec::new(),
            bytes: 0,
            copies_bytes: 0,
            refused: None,
        };
        let identifier = transaction.identifier();
        self.transaction = Some(Box::new(transaction));
        Ok(identifier.into_bytes())
    }

    /// Answers an End Transaction request that does not commit the transaction.
    pub(super) fn end_transaction(
        &mut self,
        to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let outcome = match EndTransaction::decode(request.value) {
            None => {
                let text = "this is no value of End Transaction (RFC 5805 section 2.3)";
                Outcome::new(ResultCode::PROTOCOL_ERROR, text)
            }
            Some(decoded) => match self.open_transaction(decoded.identifier) {
                None => unknown_identifier(),
                Some(_) => {
                    self.abort_transaction(to.context);
                    Outcome::success()
                }
            },
        };
        self.answer(to, &outcome);
        ControlFlow::Continue(())
    }

    /// Returns the transaction with this identifier, unless it is being committed.
    fn open_transaction(&mut self, identifier: &[u8]) -> Option<&mut Transaction> {
        if self.commit_is_deferred() {
            return None;
        }
        self.transaction.as_deref_mut().filter(|open| open.identifier().as_bytes() == identifier)
    }

    /// Returns true if the commit waits until passwords are hashed.
    fn commit_is_deferred(&self) -> bool {
        self.deferred.iter().any(|change| change.step == Step::Commit)
    }

    /// Drops the transaction and its changes.
    pub(super) fn abort_transaction(&mut self, context: &Context) {
        if let Some(transaction) = self.transaction.take() {
            self.abandon_changes(context, &transaction);
        }
    }

    /// Completes the events of the transaction's changes as canceled, because the changes are not made.
    fn abandon_changes(&self, context: &Context, transaction: &Transaction) {
        for held in &transaction.changes {
            self.end_event(context, &held.settled.head, ResultCode::CANCELED, OperationEnd::default());
        }
    }

    /// If the transaction's time limit is over, aborts the transaction and notifies the client (RFC 5805 section 2.4).
    pub(super) fn expire_transaction(&mut self, context: &Context, out: &mut Vec<u8>) {
        let is_over = |open: &Transaction| open.deadline.is_some_and(|deadline| deadline <= context.now);
        if self.commit_is_deferred() || !self.transaction.as_deref().is_some_and(is_over) {
            return;
        }
        let Some(transaction) = self.transaction.take() else { return };
        self.abandon_changes(context, &transaction);
        let text = "the transaction was not ended in time";
        response::encode_extended_response(
            out,
            MessageId::UNSOLICITED,
            &LdapResult::new(ResultCode::TIME_LIMIT_EXCEEDED, text),
            Some(ABORTED_TRANSACTION_NOTICE),
            Some(transaction.identifier().as_bytes()),
            Controls::NONE,
        );
    }

    /// Returns true if an open transaction has a time limit.
    pub(super) fn transaction_has_deadline(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| open.deadline.is_some())
    }

    /// Returns the transaction's identity for a request that belongs to a transaction. Returns `Some(Ok(None))` if that
    /// is the session's own identity, and `None` if the request belongs to no transaction.
    ///
    /// # Errors
    /// The request asks for another identity itself (RFC 5805 section 4.4).
    pub(super) fn transaction_identity(
        &self,
        message: &Message<'_>,
    ) -> Option<Result<Option<Arc<Requester>>, Outcome>> {
        let specification = specification(message);
        let is_end = matches!(message.request, Request::Extended(request) if request.name == END_TRANSACTION);
        if specification.is_none() && !is_end {
            return None;
        }
        let proxied = [PROXIED_AUTHORIZATION, PROXIED_AUTHORIZATION_V1];
        if proxied.into_iter().any(|oid| message.controls.find(oid).is_some()) {
            let text = "the identity of a transaction is that of its start (RFC 5805 section 4.4)";
            return Some(Err(Outcome::new(ResultCode::PROTOCOL_ERROR, text)));
        }
        let open = self.transaction.as_ref().filter(|_| specification.is_some());
        let other = open.filter(|open| !Arc::ptr_eq(&open.requester, &self.requester));
        Some(Ok(other.map(|open| Arc::clone(&open.requester))))
    }

    /// Adds a change to the transaction that its Transaction Specification control names. Returns false if the change
    /// has no such control.
    ///
    /// # Errors
    /// The change cannot be added. The transaction can then not be committed.
    pub(super) fn join_transaction(
        &mut self,
        message: &Message<'_>,
        frame: &[u8],
        refused: Option<&Outcome>,
    ) -> Result<bool, Outcome> {
        let Some(control) = specification(message) else { return Ok(false) };
        let Some(open) = self.open_transaction(control.value.unwrap_or_default()) else {
            return Err(unknown_identifier());
        };
        let has = |oid| message.controls.find(oid).is_some();
        let refuse = |code, text: &str| Err(Outcome::new(code, text));
        let joined = if let Some(outcome) = refused {
            Err(outcome.clone())
        } else if !control.critical {
            refuse(ResultCode::PROTOCOL_ERROR, "control transaction specification is always critical")
        } else if has(NO_OPERATION) || has(NO_OPERATION_UNBOUNDID) {
            refuse(ResultCode::UNWILLING_TO_PERFORM, "control no operation does not fit a transaction")
        } else if matches!(message.request, Request::Extended(_)) && !is_password_modify(&message.request) {
            let text = "control transaction specification does not fit this operation";
            refuse(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text)
        } else {
            open.admit(message, frame)
        };
        if joined.is_err() {
            open.refused.get_or_insert(message.id);
        }
        joined.map(|()| true)
    }

    /// Prevents the commit of the open transaction, because its change `id` was refused.
    pub(super) fn refuse_in_transaction(&mut self, id: MessageId) {
        if let Some(open) = &mut self.transaction {
            open.refused.get_or_insert(id);
        }
    }

    /// Returns the next step of a change after its passwords are hashed.
    pub(super) fn step_of(&self, message: &Message<'_>) -> Step {
        match (&self.transaction, specification(message)) {
            (Some(open), Some(_)) => Step::Hold(open.number),
            _ => Step::Write,
        }
    }

    /// Stores a change in the transaction after its passwords are hashed, and answers it (RFC 5805 section 3.3).
    pub(super) fn hold(
        &mut self,
        context: &mut Context,
        number: u32,
        request: WriteRequest,
        out: &mut Vec<u8>,
    ) {
        let WriteRequest { address, change, passwords, origin, .. } = request;
        let Some((mut head, work)) = self.take(context, address.ticket) else { return };
        let WriterWork::Message(message) = change else { return };
        if self.transaction.as_ref().is_none_or(|open| open.number != number) {
            return self.answer(Responder { context, head, out }, &unknown_identifier());
        }
        let password = if let Work::PasswordModify(password) = work { Some(password) } else { None };
        let value = password.as_ref().and_then(|password| password.finish(&Outcome::success()).1);
        // The event is completed at the end of the transaction.
        let event = head.event.take();
        self.put_answer(context, &head, &Outcome::success(), (value.as_deref(), None), out);
        head.event = event;
        if let Some(open) = &mut self.transaction {
            let change = TransactionChange { message, passwords, origin };
            open.changes.push(AcceptedChange { settled: SettledChange { head, password }, change });
        }
    }

    /// Returns the number of bytes to reserve in the writer's queue if the request is a commit; otherwise `None`.
    ///
    /// # Errors
    /// The request names a transaction that is not open.
    pub(super) fn bytes_to_commit(&mut self, message: &Message<'_>) -> Result<Option<usize>, Outcome> {
        let Some(decoded) = end_of(&message.request).filter(|decoded| decoded.commits) else {
            return Ok(None);
        };
        let open = self.open_transaction(decoded.identifier).ok_or_else(unknown_identifier)?;
        Ok(Some(open.bytes_to_write()))
    }

    /// Handles a commit with a reservation in the writer's queue.
    pub(super) fn commit_transaction(
        &mut self,
        to: Responder<'_>,
        message: &Message<'_>,
        reservation: Reservation,
    ) {
        if let Err(outcome) = RequestControls::read(&message.controls, ControlContext::Extended) {
            return self.answer(to, &outcome);
        }
        let held = reservation.bytes();
        let request = WriteRequest {
            address: self.address(to.context),
            requester: Arc::clone(&self.requester),
            link: self.client_link(to.context),
            change: WriterWork::Transaction(Vec::new()),
            passwords: PreparedPasswords::default(),
            reservation,
            origin: None,
            keeps_old_values: to.context.audit.keeps_old_values(),
            is_forwarded: false,
        };
        self.keep(to.head, Work::Transaction(Vec::new()), held, None);
        if self.deferred.is_empty() {
            self.settle(to.context, request, to.out);
        } else {
            self.deferred.push_back(DeferredChange::commit(request));
        }
    }

    /// Submits the changes of the transaction to the writer after all their passwords are hashed.
    pub(super) fn settle(&mut self, context: &mut Context, mut request: WriteRequest, out: &mut Vec<u8>) {
        let ticket = request.address.ticket;
        let Some(transaction) = self.transaction.take() else {
            return self.refuse_commit(context, ticket, &unknown_identifier(), None, out);
        };
        if let Some(id) = transaction.missing() {
            self.abandon_changes(context, &transaction);
            let text = format!("change {id} of the transaction was refused, so none is made");
            let outcome = Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text);
            return self.refuse_commit(context, ticket, &outcome, Some(id), out);
        }
        let Transaction { requester, changes, .. } = *transaction;
        let (settled, changes) = changes.into_iter().map(|held| (held.settled, held.change)).unzip();
        if let Some(end) = self.outstanding.iter_mut().find(|other| other.ticket == ticket) {
            end.work = Work::Transaction(settled);
        }
        (request.requester, request.change) = (requester, WriterWork::Transaction(changes));
        context.outbox.push(request);
    }

    fn refuse_commit(
        &mut self,
        context: &mut Context,
        ticket: u64,
        outcome: &Outcome,
        failed: Option<MessageId>,
        out: &mut Vec<u8>,
    ) {
        let Some((head, _)) = self.take(context, ticket) else { return };
        let value = EndTransactionResult { failed, controls: Vec::new() }.encode();
        self.answer_with(Responder { context, head, out }, outcome, value.as_deref());
    }

    /// Answers the commit after the writer has made or refused the transaction.
    pub(super) fn settled(&mut self, to: Responder<'_>, changes: Vec<SettledChange>, answer: &Written) {
        let is_success = answer.outcome.code == ResultCode::SUCCESS;
        let (mut outcome, mut value) = (answer.outcome.clone(), answer.value.as_deref().cloned());
        let result =
            answer.value.as_deref().and_then(|value| EndTransactionResult::decode(value)).unwrap_or_default();
        for (place, SettledChange { head: change, password }) in changes.into_iter().enumerate() {
            let has_failed = result.failed == Some(change.id);
            if has_failed {
                let controls = change.response_controls(&outcome, &self.requester);
                if !controls.as_controls().is_empty() {
                    let controls = vec![(change.id, controls.as_controls())];
                    value = EndTransactionResult { controls, ..result.clone() }.encode();
                }
                outcome = password.map_or(outcome.clone(), |password| password.finish(&outcome).0);
            }
            let code = if is_success || has_failed { outcome.code } else { ResultCode::CANCELED };
            let position = answer.positions.get(place).copied().flatten();
            let ending =
                OperationEnd { outcome: has_failed.then_some(&outcome), position, ..OperationEnd::default() };
            self.end_event(to.context, &change, code, ending);
        }
        self.answer_with(to, &outcome, value.as_deref());
    }
}
