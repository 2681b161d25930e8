//! Messages from other threads to an event loop: a queue and a wake-up.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directory::{HistoryChecks, Outcome, ServerFault};
use mio::Waker;
use store::PageNumber;

use crate::config::OnlineSettings;
use crate::kerberos::KerberosTurn;
use crate::net::stream::Accepted;
use crate::telemetry::readiness::Readiness;
use crate::telemetry::traces::WriteTimes;

/// Pairs of a clear password and its stored form.
pub(crate) type HashedPasswords = Vec<(Vec<u8>, Vec<u8>)>;

/// Clear passwords with the text forms of their keys for SCRAM.
pub(crate) type PasswordKeys = Vec<(Vec<u8>, Vec<String>)>;

/// Address of an operation: its event loop, connection and ticket.
///
/// Slots are reused, connection numbers are not. So the number shows whether the slot still contains the connection
/// that submitted the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Index of the event loop.
    pub(crate) event_loop: u16,
    /// Index of the connection's slot in it.
    pub(crate) slot: usize,
    /// Number of the connection, counted since start.
    pub(crate) connection: u64,
    /// Number of the operation, counted per connection.
    pub(crate) ticket: u64,
}

/// Value of a response, which the answers to several clients share.
pub(crate) type SharedValue = Arc<Vec<u8>>;

/// The answer to a change.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) address: Address,
    pub(crate) outcome: Outcome,
    /// The value of the answer to an extended operation, which answers may share.
    pub(crate) value: Option<SharedValue>,
    /// Position of the change's record, if it has one.
    pub(crate) position: Option<u64>,
    /// The same for each change of a transaction.
    pub(crate) positions: Vec<Option<u64>>,
    /// Times of the batch, if operations are traced.
    pub(crate) times: Option<Arc<WriteTimes>>,
}

/// The passwords of a change, each clear one with its stored form. No `Debug`, because it holds clear passwords.
#[derive(Clone, Default)]
pub(crate) struct PreparedPasswords {
    /// Passwords to store.
    pub(crate) hashed: HashedPasswords,
    /// Passwords to delete.
    pub(crate) matched: HashedPasswords,
    /// History entries that the new passwords were compared with.
    pub(crate) history: HistoryChecks,
    /// SASL keys of the passwords to store.
    pub(crate) scram: PasswordKeys,
    /// Passwords that are on a list of bad passwords.
    pub(crate) listed: Vec<Vec<u8>>,
}

/// Result of a password verification. No `Debug`: the stored form is a secret.
#[derive(Default)]
pub(crate) struct VerifiedPassword {
    /// Whether it is right.
    pub(crate) is_right: bool,
    /// The stored form that it matched, and a stronger one to replace it.
    pub(crate) rehashed: Option<(Vec<u8>, Vec<u8>)>,
    /// The stored form that it matched, and the keys to derive under the policy.
    pub(crate) keys: Option<(Vec<u8>, Vec<String>)>,
}

impl From<bool> for VerifiedPassword {
    fn from(is_right: bool) -> VerifiedPassword {
        VerifiedPassword { is_right, ..VerifiedPassword::default() }
    }
}

/// The result of a job of the hash pool.
pub(crate) enum HashResult {
    /// A password was verified.
    Verified(VerifiedPassword),
    /// The stored forms.
    Prepared(PreparedPasswords),
    /// A message of a Kerberos exchange was handled.
    Kerberos(Box<KerberosTurn>),
    /// The job was evicted by that of another source.
    Busy,
    /// The service that verifies the password did not answer.
    Unreachable,
    /// The system gave no random salt, or the job met a defect.
    Failed(ServerFault),
}

/// A finished job of the hash pool.
pub(crate) struct HashDone {
    /// The operation that waits for it.
    pub(crate) address: Address,
    pub(crate) result: HashResult,
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
    /// The results of a batch of changes, committed or failed.
    Written(Vec<Written>),
    /// A password was verified or hashed.
    Hashed(HashDone),
    /// The delay of an answer is over.
    Delayed(Address),
    /// A piece of a search is ready to be sent.
    Scanned(Address),
    /// Prefetch jobs of these connections are done, one for each address; the pages were prefetched for them.
    ReadAhead(Vec<Address>, Vec<PageNumber>),
    /// The writer's queue has room again.
    WriterHasRoom,
    /// There was a commit; sent on request.
    Committed,
    /// New settings. The loop drops the sender when they are in force, which the other end observes.
    Settings(Arc<OnlineSettings>, Sender<()>),
    /// Read something, and note it: the probe of the page `/ready`.
    Probe(Arc<Readiness>),
    /// Finish the outstanding operations, then stop.
    Drain,
}

/// The messages of one event loop.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<LoopMessage>>,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Mailbox {
        Mailbox { messages: Mutex::default(), waker }
    }

    /// Adds a message. Only the first one after the loop took them costs a system call.
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

    /// Takes all messages in the order of their arrival. `into` must be empty; its capacity is reused.
    pub(crate) fn take(&self, into: &mut Vec<LoopMessage>) {
        std::mem::swap(&mut *self.lock(), into);
    }

    /// A panic under the lock cannot leave half a message, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Vec<LoopMessage>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
