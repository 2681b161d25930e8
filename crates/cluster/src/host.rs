//! The server that contains a node. The server passes changes of clients to the node, executes changes for the node,
//! and sends the answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use directory::account_update::AccountUpdate;
use directory::origin::Origin;
use directory::rows::EntryId;
use directory::{ClientLink, Outcome, Requester, WriteBatch, Writer};
use ldap::ResultCode;
use replication::OperationId;
use replication::forward::Prepared;

/// Result of a change.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Result of the operation.
    pub outcome: Outcome,
    /// Value of the response, for an extended operation. For other operations, the encoded controls of the response.
    pub value: Option<Vec<u8>>,
    /// Position of the record, if the change made a record on this node.
    pub position: Option<u64>,
    /// Positions of the records of a transaction, one for each change.
    pub positions: Vec<Option<u64>>,
    /// Times of the change, if this node or the writer decided the change.
    pub times: Option<ChangeTimes>,
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Answer {
        Answer { outcome, value: None, position: None, positions: Vec::new(), times: None }
    }
}

/// Times of a change on its way through the cluster.
#[derive(Clone, Copy, Debug)]
pub enum ChangeTimes {
    /// This node decided the change. The times are the beginning and the end of the decision, and the time at which the
    /// log accepted the change.
    Decided([Instant; 3]),
    /// The writer decided the change. The times are when this node sent the change, when it received the answer, and
    /// when its data contained the change.
    Forwarded(OperationId, [Instant; 3]),
}

/// A change that this node has decided for a client of another node.
#[derive(Debug)]
pub struct DecidedForOther<'d> {
    /// Id of the change.
    pub operation: OperationId,
    /// The LDAP message; `None` for a transaction, which has several.
    pub message: Option<&'d [u8]>,
    /// Result of the change.
    pub code: ResultCode,
    /// Time at which the request arrived.
    pub since: Instant,
    /// Times of the decision, as in [`ChangeTimes::Decided`].
    pub times: [Instant; 3],
}

/// Change of a client of this node. No `Debug`: it may contain passwords.
pub struct LocalChange {
    /// Authorization identity of the client.
    pub requester: Arc<Requester>,
    /// Connection on which the client sent the change, for access rules.
    pub link: Option<ClientLink>,
    /// The change itself.
    pub work: LocalWork,
    /// Clear-text passwords in the change, each with the value that is stored in its place.
    pub passwords: Prepared,
    /// Origin of the change for the audit trail. `None` if records do not contain the origin.
    pub origin: Option<Box<Origin>>,
    /// Whether the record contains the values that the change replaces.
    pub keeps_old_values: bool,
    /// Called once, to send the answer to the client.
    pub reply: Box<dyn FnOnce(Answer) + Send>,
}

/// Content of a change. No `Debug`: it may contain passwords.
pub enum LocalWork {
    /// The LDAP message of the change.
    Message(Vec<u8>),
    /// Changes that are made together or not at all.
    Transaction(Vec<TransactionChange>),
    /// Update of the recorded password state of an entry.
    Account(EntryId, AccountUpdate),
}

/// A change of a transaction. No `Debug`: it may contain passwords.
pub struct TransactionChange {
    /// The LDAP message of the change.
    pub message: Vec<u8>,
    /// Clear-text passwords in the change, each with the value that is stored in its place.
    pub passwords: Prepared,
    /// Origin of the change for the audit trail. `None` if the record does not contain the origin.
    pub origin: Option<Box<Origin>>,
}

/// Context in which the message of a change is executed. No `Debug`: it may contain passwords.
pub struct MessageContext<'c> {
    /// Clear-text passwords in the change, each with the value that is stored in its place.
    pub passwords: Prepared,
    /// Connection on which the client sent the change.
    pub link: Option<ClientLink>,
    /// Origin of the change for the audit trail. `None` if the record does not contain the origin.
    pub origin: Option<&'c Origin>,
    /// Whether the record contains the values that the change replaces.
    pub keeps_old_values: bool,
}

/// The server that contains a node. All calls come from the node's thread.
pub trait Host: Send {
    /// Executes the change of an LDAP message in a batch.
    fn execute(
        &mut self,
        batch: &mut WriteBatch<'_>,
        requester: &Requester,
        message: &[u8],
        context: MessageContext<'_>,
    ) -> Answer;

    /// Executes all changes of a transaction in a batch, or none of them.
    fn execute_transaction(
        &mut self,
        batch: &mut WriteBatch<'_>,
        requester: &Requester,
        changes: &[TransactionChange],
        link: Option<ClientLink>,
        keeps_old_values: bool,
    ) -> Answer;

    /// Records an update of the password state of an entry in a batch.
    fn update_account(&mut self, batch: &mut WriteBatch<'_>, id: EntryId, update: &AccountUpdate) -> Outcome;

    /// Returns the updates of password state that are not recorded yet. Called once, after the last client has
    /// disconnected.
    fn unrecorded_accounts(&mut self) -> Vec<(EntryId, AccountUpdate)>;

    /// Reports that the node has answered a change that another node forwarded.
    fn decided_for_other(&mut self, change: &DecidedForOther<'_>);

    /// Reports a commit. Readers then renew their snapshots.
    fn committed(&mut self);

    /// Reports that this node has applied all messages that were in the log at the time `at`.
    fn is_complete_as_of(&mut self, at: Instant);

    /// Returns how long the node may wait for events before it runs a slice of index work. `None` if there is no such
    /// work.
    fn maintenance_patience(&self, writer: &Writer) -> Option<Duration>;

    /// Returns true if a slice of index work is due even though changes wait. Called after every batch.
    fn is_maintenance_due(&mut self, writer: &Writer) -> bool;

    /// Runs a slice of index work.
    fn run_maintenance(&mut self, writer: &mut Writer);
}
