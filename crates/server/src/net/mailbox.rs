//! Mailbox of an event loop, to which other threads post messages. A message wakes the loop.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directory::{HistoryChecks, Outcome, ServerFault};
use mio::Waker;
use store::PageNumber;

use crate::config::OnlineSettings;
use crate::kerberos::KerberosTurn;
use crate::net::stream::Accepted;
use crate::telemetry::readiness::Readiness;
use crate::telemetry::traces::{ChangeStages, Stage};

/// Clear passwords, each with its stored value.
pub(crate) type HashedPasswords = Vec<(Vec<u8>, Vec<u8>)>;

/// Clear passwords, each with the text forms of its SASL keys.
pub(crate) type PasswordKeys = Vec<(Vec<u8>, Vec<String>)>;

/// Address of an operation: its event loop, connection and ticket.
///
/// Slots are reused, but connection numbers are not. Therefore the number shows whether the slot still contains the
/// connection that submitted the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Index of the event loop.
    pub(crate) event_loop: u16,
    /// Slot of the connection in the event loop.
    pub(crate) slot: usize,
    /// Number of the connection since the start of the server.
    pub(crate) connection: u64,
    /// Number of the operation on its connection, unique on this connection.
    pub(crate) ticket: u64,
}

/// Value of a response. Several responses may share it.
pub(crate) type SharedValue = Arc<Vec<u8>>;

/// Result of a change or an extended operation that another thread carried out.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) address: Address,
    pub(crate) outcome: Outcome,
    /// Response value of an extended operation, or encoded response controls of a change.
    pub(crate) value: Option<SharedValue>,
    /// Position of the change's record, if the change made one.
    pub(crate) position: Option<u64>,
    /// Positions of the records of a transaction's changes.
    pub(crate) positions: Vec<Option<u64>>,
    /// Stages of the change, if operations are traced.
    pub(crate) stages: Option<Arc<ChangeStages>>,
}

impl Written {
    /// Returns the result of an extended operation that made no record.
    pub(crate) fn of_extended(address: Address, outcome: Outcome, value: Option<SharedValue>) -> Written {
        Written { address, outcome, value, position: None, positions: Vec::new(), stages: None }
    }
}

/// Sends the result of an extended operation that made no record to the operation's event loop.
pub(crate) fn post_extended(
    mailboxes: &[Mailbox],
    address: Address,
    outcome: Outcome,
    value: Option<Vec<u8>>,
) {
    if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
        let answer = Written::of_extended(address, outcome, value.map(Arc::new));
        mailbox.post(LoopMessage::Written(vec![answer]));
    }
}

/// Passwords in a change, with their stored values. It does not implement `Debug`, because it contains clear passwords.
#[derive(Clone, Default)]
pub(crate) struct PreparedPasswords {
    /// Passwords to store.
    pub(crate) hashed: HashedPasswords,
    /// Passwords to delete.
    pub(crate) matched: HashedPasswords,
    /// Result of comparing the new passwords with the password history.
    pub(crate) history: HistoryChecks,
    /// SASL keys of the passwords to store.
    pub(crate) scram: PasswordKeys,
    /// New passwords that are on a list of bad passwords.
    pub(crate) listed: Vec<Vec<u8>>,
}

/// Result of a password verification. It does not implement `Debug`, because stored values are secrets.
#[derive(Default)]
pub(crate) struct VerifiedPassword {
    /// Whether the password is right.
    pub(crate) is_right: bool,
    /// Stored value that the password matched, and a stronger value to replace it.
    pub(crate) rehashed: Option<(Vec<u8>, Vec<u8>)>,
    /// Stored value that the password matched, and the SASL keys to store with it.
    pub(crate) keys: Option<(Vec<u8>, Vec<String>)>,
}

impl From<bool> for VerifiedPassword {
    fn from(is_right: bool) -> VerifiedPassword {
        VerifiedPassword { is_right, ..VerifiedPassword::default() }
    }
}

/// Result of a hash pool job.
pub(crate) enum HashResult {
    /// A password was verified.
    Verified(VerifiedPassword),
    /// The passwords of a change were prepared.
    Prepared(PreparedPasswords),
    /// A message of a Kerberos exchange was handled.
    Kerberos(Box<KerberosTurn>),
    /// The job was evicted from the full queue.
    Busy,
    /// The other service that verifies the password did not answer.
    Unreachable,
    /// The system provided no random salt, or the job met a fault of the server.
    Failed(ServerFault),
}

/// A finished hash pool job.
pub(crate) struct HashDone {
    /// Address of the operation that waits for the result.
    pub(crate) address: Address,
    pub(crate) result: HashResult,
    /// Two stages of the job for traces, waiting and work. `None` if no thread has taken the job.
    pub(crate) stages: Option<[Stage; 2]>,
}

impl std::fmt::Debug for HashDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashDone").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A message to an event loop.
#[derive(Debug)]
pub(crate) enum LoopMessage {
    /// A new connection.
    Connection(Accepted),
    /// Results of a batch of changes, whether it was committed or not.
    Written(Vec<Written>),
    /// A hash pool job is done.
    Hashed(HashDone),
    /// The delay of an answer is over.
    Delayed(Address),
    /// A result of a search on scan threads is ready.
    Scanned(Address),
    /// Prefetch jobs are done. The lists contain the address of each job, and the pages that were prefetched.
    ReadAhead(Vec<Address>, Vec<PageNumber>),
    /// The writer's queue has room again.
    WriterHasRoom,
    /// There was a commit. The message is sent only to loops that have requested it.
    Committed,
    /// New settings. The loop applies them and then drops the sender, and the receiver detects the drop.
    Settings(Arc<OnlineSettings>, Sender<()>),
    /// Probe for the page `/ready`: read the directory and report success.
    Probe(Arc<Readiness>),
    /// Finish the outstanding operations, then stop.
    Drain,
}

/// Mailbox of one event loop, to which other threads post messages.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<LoopMessage>>,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Mailbox {
        Mailbox { messages: Mutex::default(), waker }
    }

    /// Adds a message. The cost includes a system call only if the mailbox was empty.
    pub(crate) fn post(&self, message: LoopMessage) {
        let was_empty = {
            let mut messages = self.lock();
            messages.push(message);
            messages.len() == 1
        };
        if was_empty && let Err(error) = self.waker.wake() {
            tracing::error!(%error, "an event loop could not be woken");
        }
    }

    /// Moves all messages to `into`, which must be empty, in the order of arrival. The capacity of `into` is reused.
    pub(crate) fn take(&self, into: &mut Vec<LoopMessage>) {
        std::mem::swap(&mut *self.lock(), into);
    }

    /// A panic cannot leave a partial message. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Vec<LoopMessage>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
