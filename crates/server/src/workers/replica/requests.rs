//! Changes of clients that a replica forwards to its supplier.

use std::collections::VecDeque;
use std::time::Instant;

use directory::rows::EntryId;
use directory::{Outcome, Requester};
use forwarding::ForwardedLink;
use ldap::{Controls, ExtendedRequest, Message, MessageId, ResultCode, oids};
use replication::forward::{Link, Prepared, Reply, Request, TransactionChange, Work};
use replication::{ForwardBasis, NodeId, OperationId, Visibility};

use super::Replica;
use super::forward::Answers;
use crate::limits::{FORWARD_BYTES_MAX, FORWARD_MAX, FORWARD_PATIENCE, REPLICA_RETRY_MIN};
use crate::net::mailbox::Address;
use crate::stamp::{Random, no_random_numbers};
use crate::telemetry::traces::ChangeStages;
use crate::workers::writer::{Answer, Reservation, WriteRequest, WriterWork, forwarded_passwords};

/// A change without an answer of the supplier. It does not implement `Debug`, because it may contain passwords.
pub(super) struct Pending {
    request: Request,
    waiter: Waiter,
    since: Instant,
}

/// Recipient of the answer to a change. Dropping it releases the change's room in the writer's queue.
struct Waiter {
    /// Address of the client's operation; `None` if no client waits.
    address: Option<Address>,
    /// Account whose unrecorded attempts are recorded by this change.
    account: Option<EntryId>,
    /// Whether this server is to be promoted when the supplier has answered.
    promotes: bool,
    _reservation: Option<Reservation>,
}

/// Changes that were forwarded together and are not answered yet.
pub(super) struct SentBatch {
    changes: Vec<Pending>,
    basis: ForwardBasis,
}

/// A change whose result the supplier has sent, until this replica has applied it.
pub(super) struct Decided {
    position: u64,
    /// State of the supplier, as this replica knew it when the change was forwarded.
    basis: ForwardBasis,
    waiter: Waiter,
    answer: Answer,
    since: Instant,
    operation: OperationId,
    /// Time at which the change was sent, and time at which its answer was received.
    times: [Instant; 2],
}

impl Replica {
    /// Accepts a request from the writer's queue.
    pub(super) fn take(&mut self, request: WriteRequest) {
        let WriteRequest { address, requester, link, change, passwords, reservation, .. } = request;
        let is_own = address.event_loop == u16::MAX;
        let (work, account) = match change {
            // Requests for due changes are not forwarded. The writer makes due changes by its own clock.
            WriterWork::Message(_) if is_own => return,
            WriterWork::Message(mut message) => {
                let passwords = forwarded_passwords(passwords);
                (Work::Change { message: std::mem::take(&mut *message), passwords }, None)
            }
            WriterWork::Transaction(changes) => {
                let changes = changes.into_iter().map(|mut change| TransactionChange {
                    message: std::mem::take(&mut *change.message),
                    passwords: forwarded_passwords(change.passwords),
                });
                (Work::Transaction(changes.collect()), None)
            }
            WriterWork::Account { id, grace, totp_step } => {
                let update = self.queue.take_account_update(id, (grace, totp_step));
                (Work::Account { id: id.0, update: forwarding::forwarded_update(update) }, Some(id))
            }
            WriterWork::ForwardedAccount(id, update) => {
                (Work::Account { id: id.0, update: forwarding::forwarded_update(*update) }, None)
            }
            // This request cannot occur, because the settings do not allow a replica to follow another server.
            WriterWork::Follow(_) => return,
            // This server itself made the request, because one of its replicas knows a later epoch. Only a writer stops
            // writing for this reason. This replica may not have read the later epoch from its supplier yet.
            WriterWork::Fence(_) if is_own => return,
            // In a chain of replicas, each server passes the request on until it reaches the writer.
            WriterWork::Fence(epoch) => (fence(epoch), None),
            WriterWork::Promote { without_supplier } => {
                return self.begin_promotion(address, reservation, without_supplier);
            }
        };
        let promotes = false;
        let waiter = Waiter { address: Some(address), account, promotes, _reservation: Some(reservation) };
        let request = self.request(&requester, link, work);
        self.waiting.push_back(Pending { request, waiter, since: Instant::now() });
    }

    /// Begins the promotion of this server. If `without_supplier` is set, because the supplier is lost, the server is
    /// promoted at once. Otherwise this function asks the writer to stop writing, and the server is promoted when it
    /// has all records of the writer.
    fn begin_promotion(&mut self, address: Address, reservation: Reservation, without_supplier: bool) {
        let waiter =
            Waiter { address: Some(address), account: None, promotes: true, _reservation: Some(reservation) };
        let epoch = match Random::default().bytes() {
            Ok(epoch) => *self.epoch.get_or_insert(epoch),
            Err(error) => return self.answer(waiter, no_random_numbers(error).into()),
        };
        if without_supplier {
            return self.answer(waiter, Outcome::success().into());
        }
        let request = self.request(&Requester::Anonymous, None, fence(epoch));
        self.waiting.push_back(Pending { request, waiter, since: Instant::now() });
    }

    fn request(&mut self, requester: &Requester, link: Option<directory::ClientLink>, work: Work) -> Request {
        self.sequence += 1;
        // The node number is unused, because the supplier identifies a replica by its connection.
        let operation =
            OperationId { node: NodeId(0), incarnation: self.incarnation, sequence: self.sequence };
        let ForwardedLink { method, strength, network, listener } = forwarding::forwarded_link(link);
        Request {
            operation,
            epoch: 0,
            link: Link::default(),
            position: self.progress.position(),
            requester: forwarding::forwarded_requester(requester),
            method,
            strength,
            network,
            listener,
            work,
        }
    }

    /// Handles the end of changes from clients when the server stops. Unrecorded attempts are still forwarded.
    pub(super) fn close(&mut self) {
        let now = Instant::now();
        self.closing = Some(now);
        for id in self.queue.unrecorded_accounts() {
            let update = self.queue.take_account_update(id, (None, None));
            let work = Work::Account { id: id.0, update: forwarding::forwarded_update(update) };
            let request = self.request(&Requester::Anonymous, None, work);
            let waiter = Waiter { address: None, account: Some(id), promotes: false, _reservation: None };
            self.waiting.push_back(Pending { request, waiter, since: now });
        }
    }

    /// Sends a batch of waiting changes to the supplier, unless an earlier batch is unanswered, or the supplier has not
    /// compared its records with those of this replica.
    pub(super) fn forward_if_due(&mut self) {
        let is_due = self.sent.is_none() && !self.waiting.is_empty();
        let Some(basis) = is_due.then(|| self.progress.basis()).flatten() else {
            self.parts.figures.lock().waiting = self.waiting_count();
            return;
        };
        if self.forward_failed.is_some_and(|failed| failed.elapsed() < REPLICA_RETRY_MIN) {
            return;
        }
        let (mut bytes, mut batch) = (0, Vec::new());
        while batch.len() < FORWARD_MAX && bytes < FORWARD_BYTES_MAX {
            let Some(pending) = self.waiting.pop_front() else { break };
            bytes += work_bytes(&pending.request.work);
            batch.push(pending);
        }
        self.forwarder.send(batch.iter().map(|pending| pending.request.clone()).collect());
        self.sent = Some(SentBatch { changes: batch, basis });
        self.sent_at = Instant::now();
        self.parts.figures.lock().waiting = self.waiting_count();
    }

    fn waiting_count(&self) -> u64 {
        let sent = self.sent.as_ref().map_or(0, |sent| sent.changes.len());
        (self.waiting.len() + sent + self.decided.len()) as u64
    }

    /// Handles the supplier's answers to a batch.
    pub(super) fn take_answers(&mut self, answers: Answers) {
        let Answers { mut replies, failed } = answers;
        let Some(SentBatch { changes, basis }) = self.sent.take() else { return };
        let now = Instant::now();
        self.parts.figures.lock().forwarded += replies.len() as u64;
        let mut unsent = Vec::new();
        for pending in changes {
            let Pending { request, waiter, since } = pending;
            match (replies.remove(&request.operation), &failed) {
                (Some(Reply::Decided { position, result }), _) => {
                    let (outcome, value) = forwarding::outcome_of(result);
                    let answer = Answer { value, ..Answer::from(outcome) };
                    let (operation, times) = (request.operation, [self.sent_at, now]);
                    let basis = basis.clone();
                    self.decided.push(Decided { position, basis, waiter, answer, since, operation, times });
                }
                (None, Some((error, false))) => {
                    tracing::debug!("changes are not forwarded: {error}");
                    unsent.push(Pending { request, waiter, since });
                }
                (_, Some((error, true))) => {
                    let text = format!(
                        "the connection to the supplier broke ({error}), and the change may have been made: look \
                         before sending it again"
                    );
                    self.answer(waiter, unavailable(text));
                }
                (_, _) => self.answer(waiter, unavailable("the supplier did not take the change")),
            }
        }
        put_back(&mut self.waiting, unsent);
        if matches!(failed, Some((_, false))) {
            self.forward_failed = Some(Instant::now());
        }
        self.answer_decided();
    }

    /// Answers the changes in `decided` that this replica has applied, and those whose outcome is unknown.
    pub(super) fn answer_decided(&mut self) {
        let now = Instant::now();
        for decided in std::mem::take(&mut self.decided) {
            let visibility = match decided.waiter.promotes {
                true => self.progress.may_promote(&decided.basis, decided.position),
                false => self.progress.visibility(&decided.basis, decided.position),
            };
            if visibility == Visibility::Later {
                self.decided.push(decided);
                continue;
            }
            let Decided { waiter, mut answer, operation, times: [sent, answered], .. } = decided;
            if visibility == Visibility::Unknown && answer.outcome.code == ResultCode::SUCCESS {
                answer = unavailable(
                    "the connection to the supplier broke, and the change may have been made: look",
                );
            }
            answer.stages = Some(ChangeStages::forwarded(operation, [sent, answered, now]));
            self.answer(waiter, answer);
        }
    }

    /// Answers changes that have waited too long.
    pub(super) fn expire(&mut self) {
        let now = Instant::now();
        let is_late = |since: Instant| now.saturating_duration_since(since) > FORWARD_PATIENCE;
        while self.waiting.front().is_some_and(|pending| is_late(pending.since)) {
            let Some(pending) = self.waiting.pop_front() else { break };
            let error = self.parts.figures.lock().error.clone().unwrap_or_default();
            let text = format!("the supplier, which decides changes, cannot be reached: {error}");
            self.answer(pending.waiter, unavailable(text));
        }
        let late: Vec<Decided> = self.decided.extract_if(.., |decided| is_late(decided.since)).collect();
        for Decided { waiter, answer, .. } in late {
            let text = "the supplier has made the change, and this replica does not show it yet: look, then repeat it";
            let is_success = answer.outcome.code == ResultCode::SUCCESS;
            self.answer(waiter, if is_success { unavailable(text) } else { answer });
        }
    }

    /// Answers the forwarded changes with an error. The supplier's answers are no longer awaited after a promotion.
    pub(super) fn refuse_sent(&mut self) {
        for pending in self.sent.take().map_or_else(Vec::new, |sent| sent.changes) {
            let text = "this server was just promoted, and the change may have been made before: look, then repeat it";
            self.answer(pending.waiter, unavailable(text));
        }
    }

    /// Refuses the changes that are not forwarded yet, and the changes in `decided` that are not applied yet, with this
    /// text.
    pub(super) fn refuse_all(&mut self, text: &str) {
        let waiting = self.waiting.drain(..).map(|pending| pending.waiter);
        let decided = self.decided.drain(..).map(|decided| decided.waiter);
        let all: Vec<Waiter> = waiting.chain(decided).collect();
        all.into_iter().for_each(|waiter| self.answer(waiter, unavailable(text)));
    }

    fn answer(&mut self, waiter: Waiter, answer: Answer) {
        if waiter.promotes && answer.outcome.code == ResultCode::SUCCESS {
            // The client is answered when the promotion is done.
            self.promoting = waiter.address;
            return;
        }
        if let Some(id) = waiter.account {
            let code = answer.outcome.code;
            let is_recorded = code == ResultCode::SUCCESS || code == ResultCode::INVALID_CREDENTIALS;
            self.queue.settle_account(id, is_recorded);
        }
        if let Some(address) = waiter.address {
            self.queue.answer(address, answer);
        }
    }
}

/// Returns the request to stop writing, because another server begins this epoch.
fn fence(epoch: [u8; 16]) -> Work {
    let request = ExtendedRequest { name: oids::FENCE, value: Some(&epoch) };
    let (request, mut message) = (ldap::Request::Extended(request), Vec::new());
    Message { id: MessageId(1), request, controls: Controls::NONE }.encode(&mut message);
    Work::Change { message, passwords: Prepared::default() }
}

/// Puts changes that could not be sent before the later ones, so that changes are forwarded in the order of their
/// requests.
fn put_back<T>(waiting: &mut VecDeque<T>, unsent: Vec<T>) {
    unsent.into_iter().rev().for_each(|change| waiting.push_front(change));
}

fn work_bytes(work: &Work) -> usize {
    match work {
        Work::Change { message, .. } => message.len(),
        Work::Transaction(changes) => changes.iter().map(|change| change.message.len()).sum(),
        Work::Account { .. } => size_of::<Work>(),
    }
}

fn unavailable(text: impl Into<String>) -> Answer {
    Outcome::new(ResultCode::UNAVAILABLE, text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a batch that could not be sent was forwarded after the changes that had arrived since.
    #[test]
    fn changes_that_could_not_be_sent_stay_first() {
        let mut waiting = VecDeque::from([4, 5]);
        put_back(&mut waiting, vec![1, 2, 3]);
        assert_eq!(waiting, [1, 2, 3, 4, 5]);
    }
}
