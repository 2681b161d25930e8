//! A change on its path through the cluster: in this node, and in frames between nodes.

use std::sync::Arc;
use std::time::Instant;

use directory::account_update::AccountUpdate;
use directory::rows::EntryId;
use directory::{ClientLink, Outcome, Requester};
use forwarding::{ForwardedLink, forwarded_update, update_of};
use ldap::ResultCode;
use replication::forward::{self, LdapResult, Link, Prepared, Reply, Work};
use replication::{NodeId, OperationId};

use crate::host::{Answer, ChangeTimes, TransactionChange};

/// Change that waits for its answer. No `Debug`: it may contain passwords.
pub(crate) struct Operation {
    pub(super) id: OperationId,
    pub(super) requester: Arc<Requester>,
    pub(super) change: Change,
    pub(super) passwords: Prepared,
    /// Connection of the client, for access rules. `audited` contains the origin of the change, if the records must
    /// contain it, and whether the records contain the values that the change replaces. Only changes of this node's
    /// clients have an origin.
    pub(super) link: Option<ClientLink>,
    pub(super) audited: (Option<Box<directory::origin::Origin>>, bool),
    pub(super) origin: Waiter,
    pub(super) since: Instant,
    /// Whether the change may have been made already. True if it was in a group of unknown outcome, or was sent to a
    /// writer that has not answered.
    pub(super) is_doubtful: bool,
    /// Times of the last decision of the change, or of the last exchange with the writer about it.
    pub(super) progress: Option<Progress>,
}

/// Begin and end of a decision on this node, or of an exchange with the writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(super) is_forwarded: bool,
    pub(super) started: Instant,
    pub(super) ended: Instant,
}

/// Content of a change.
pub(crate) enum Change {
    /// The change requested by this LDAP message.
    Message(Vec<u8>),
    /// Changes that are made together or not at all.
    Transaction(Vec<TransactionChange>),
    /// Events of an entry's password to record.
    Account(EntryId, AccountUpdate),
}

/// Recipient of the answer.
pub(crate) enum Waiter {
    /// A client of this node.
    Local(Box<dyn FnOnce(Answer) + Send>),
    /// A client of another node: the number of the frame, the index of the request in the frame, and the request
    /// without its work. The request identifies the copy of the change, because a node may send a change several times.
    Remote { frame: u64, place: usize, copy: Box<forward::Request> },
    /// No recipient: the client was answered already, or the change is this node's own.
    Nobody,
}

impl Change {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Change::Message(message) => message.len(),
            Change::Transaction(changes) => changes.iter().map(|change| change.message.len()).sum(),
            Change::Account(..) => size_of::<AccountUpdate>(),
        }
    }

    /// Returns the minimum number of records of the change: one, or one for each change of a transaction. Rules may add
    /// records.
    pub(super) fn record_count(&self) -> usize {
        match self {
            Change::Transaction(changes) => changes.len(),
            Change::Message(_) | Change::Account(..) => 1,
        }
    }
}

impl Operation {
    /// Returns the request to the writer of `epoch`. `position` is the newest position that the client may have seen.
    /// The field `link` is set when the request is sent.
    pub(super) fn request(&self, epoch: u64, position: u64) -> forward::Request {
        let requester = forwarding::forwarded_requester(&self.requester);
        let work = match &self.change {
            Change::Message(message) => {
                Work::Change { message: message.clone(), passwords: self.passwords.clone() }
            }
            Change::Transaction(changes) => {
                let changes = changes.iter().map(|TransactionChange { message, passwords, .. }| {
                    let (message, passwords) = (message.clone(), passwords.clone());
                    forward::TransactionChange { message, passwords }
                });
                Work::Transaction(changes.collect())
            }
            Change::Account(id, update) => {
                Work::Account { id: id.0, update: forwarded_update(update.clone()) }
            }
        };
        let ForwardedLink { method, strength, network, listener } = forwarding::forwarded_link(self.link);
        let (operation, link) = (self.id, Link::default());
        forward::Request {
            operation,
            epoch,
            link,
            position,
            requester,
            method,
            strength,
            network,
            listener,
            work,
        }
    }

    /// Returns the change in `request`. Another node sent the request at index `place` of the frame `frame`.
    pub(super) fn of_request(
        mut request: forward::Request,
        frame: u64,
        place: usize,
        (now, now_micros): (Instant, u64),
    ) -> Operation {
        let requester = forwarding::requester_of(&request.requester);
        let nothing = Work::Account { id: 0, update: forward::AccountUpdate::default() };
        let (change, passwords) = match std::mem::replace(&mut request.work, nothing) {
            Work::Change { message, passwords } => (Change::Message(message), passwords),
            Work::Transaction(changes) => {
                let changes = changes.into_iter().map(|forward::TransactionChange { message, passwords }| {
                    TransactionChange { message, passwords, origin: None }
                });
                (Change::Transaction(changes.collect()), Prepared::default())
            }
            Work::Account { id, update } => {
                (Change::Account(EntryId(id), update_of(update)), Prepared::default())
            }
        };
        let (id, requester) = (request.operation, Arc::new(requester));
        let link = Some(forwarding::link_of(&request, now_micros));
        let origin = Waiter::Remote { frame, place, copy: Box::new(request) };
        Operation {
            id,
            requester,
            change,
            passwords,
            link,
            audited: (None, false),
            origin,
            since: now,
            is_doubtful: false,
            progress: None,
        }
    }

    /// Returns the times of a change that is answered `now`.
    pub(super) fn times(&self, now: Instant) -> Option<ChangeTimes> {
        let Progress { is_forwarded, started, ended } = self.progress?;
        let times = [started, ended, now];
        Some(if is_forwarded { ChangeTimes::Forwarded(self.id, times) } else { ChangeTimes::Decided(times) })
    }
}

/// Returns the answer for the node that forwarded the request.
pub(super) fn reply(position: u64, answer: Answer) -> Reply {
    let Answer { outcome, value, .. } = answer;
    let result = forwarding::forwarded_result(outcome, value);
    Reply::Decided { position, result }
}

/// Converts a writer's result to an answer.
pub(super) fn answer_of(result: LdapResult) -> Answer {
    let (outcome, value) = forwarding::outcome_of(result);
    Answer { value, ..Answer::from(outcome) }
}

/// Returns the answer to a change that is already in the log: success. The pre-read and post-read controls (RFC 4527)
/// and values of extended operations are missing, because only the node that made the change has them.
pub(super) fn applied() -> Answer {
    let text = "made; the node that made it ended before it answered, so nothing else comes with this answer";
    Outcome { diagnostic: text.to_owned(), ..Outcome::success() }.into()
}

/// Returns an answer with the result code unavailable.
pub(super) fn unavailable(text: impl Into<String>) -> Answer {
    Outcome::new(ResultCode::UNAVAILABLE, text).into()
}

/// Source of operation ids.
pub(crate) struct Ids {
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
    pub(super) sequence: u64,
}

impl Ids {
    pub(super) fn next(&mut self) -> OperationId {
        self.sequence += 1;
        OperationId { node: self.node, incarnation: self.incarnation, sequence: self.sequence }
    }
}
