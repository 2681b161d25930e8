//! Mailbox: messages from other threads to an event loop, with a wake-up.

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

/// Pairs of a clear password and its stored form.
pub(crate) type HashedPasswords = Vec<(Vec<u8>, Vec<u8>)>;

/// Clear passwords with the text forms of their SCRAM keys.
pub(crate) type PasswordKeys = Vec<(Vec<u8>, Vec<String>)>;

/// Address of an operation: its event loop, connection and ticket.
///
/// Slots are reused, but connection numbers are not. So the number shows whether the slot still contains the connection
/// that submitted the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Index of the event loop.
    pub(crate) event_loop: u16,
    /// Slot of the connection in the event loop.
    pub(crate) slot: usize,
    /// Number of the connection since the start of the server.
    pub(crate) connection: u64,
    /// Number of the operation on its connection.
    pub(crate) ticket: u64,
}

/// Value of a response. Several responses may share it.
pub(crate) type SharedValue = Arc<Vec<u8>>;

/// Result of a change.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) address: Address,
    pub(crate) outcome: Outcome,
    /// Value of the response to an extended operation.
    pub(crate) value: Option<SharedValue>,
    /// Position of the record of the change, if it has one.
    pub(crate) position: Option<u64>,
    /// Positions of the changes of a transaction.
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

/// Sends the result of an extended operation that made no record to its event loop.
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

/// Passwords of a change, each clear one with its stored form. No `Debug`, because it contains clear passwords.
#[derive(Clone, Default)]
pub(crate) struct PreparedPasswords {
    /// Passwords to store.
    pub(crate) hashed: HashedPasswords,
    /// Passwords to delete.
    pub(crate) matched: HashedPasswords,
    /// History entries with which the new passwords were compared.
    pub(crate) history: HistoryChecks,
    /// SASL keys of the passwords to store.
    pub(crate) scram: PasswordKeys,
    /// Passwords that are on a list of bad passwords.
    pub(crate) listed: Vec<Vec<u8>>,
}

/// Result of a password verification. No `Debug`, because the stored form is a secret.
#[derive(Default)]
pub(crate) struct VerifiedPassword {
    /// Whether the password is right.
    pub(crate) is_right: bool,
    /// The stored form that the password matched, and a stronger form to replace it.
    pub(crate) rehashed: Option<(Vec<u8>, Vec<u8>)>,
    /// The stored form that the password matched, and the keys to store under the policy.
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
    /// The stored forms of new passwords.
    Prepared(PreparedPasswords),
    /// A message of a Kerberos exchange was handled.
    Kerberos(Box<KerberosTurn>),
    /// A job of another source evicted this one.
    Busy,
    /// The service that verifies the password did not answer.
    Unreachable,
    /// The system provided no random salt, or the job hit a fault.
    Failed(ServerFault),
}

/// A finished hash pool job.
pub(crate) struct HashDone {
    /// Operation that waits for the result.
    pub(crate) address: Address,
    pub(crate) result: HashResult,
    /// Stages of the job: waiting and work. `None` if no thread has taken it.
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
    /// Results of a batch of changes, committed or failed.
    Written(Vec<Written>),
    /// A password was verified or hashed.
    Hashed(HashDone),
    /// The delay of an answer is over.
    Delayed(Address),
    /// A result of a search on scan threads is ready to be sent.
    Scanned(Address),
    /// Prefetch jobs are done. Contains the address of each job, and the pages that were prefetched.
    ReadAhead(Vec<Address>, Vec<PageNumber>),
    /// The writer's queue has room again.
    WriterHasRoom,
    /// There was a commit. Sent only on request.
    Committed,
    /// New settings. The loop drops the sender when it has applied them, which the other end observes.
    Settings(Arc<OnlineSettings>, Sender<()>),
    /// Read the directory and report success: a probe for the page `/ready`.
    Probe(Arc<Readiness>),
    /// Finish the outstanding operations, then stop.
    Drain,
}

/// Mailbox of one event loop.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<LoopMessage>>,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Mailbox {
        Mailbox { messages: Mutex::default(), waker }
    }

    /// Adds a message. Costs a system call only if the loop has taken all earlier messages.
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

    /// Takes all messages in the order of arrival. `into` must be empty. Its capacity is reused.
    pub(crate) fn take(&self, into: &mut Vec<LoopMessage>) {
        std::mem::swap(&mut *self.lock(), into);
    }

    /// A panic cannot leave a partial message, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Vec<LoopMessage>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
