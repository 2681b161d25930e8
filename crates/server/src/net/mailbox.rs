//! How other threads reach an event loop: a queue of messages and a wake-up.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directory::{HistoryChecks, Outcome, ServerFault};
use mio::Waker;
use store::PageNumber;

use crate::config::OnlineSettings;
use crate::kerberos::KerberosTurn;
use crate::net::stream::Accepted;

/// Pairs of a clear password and its stored form.
pub(crate) type HashedPasswords = Vec<(Vec<u8>, Vec<u8>)>;

/// Clear passwords with the text forms of their keys for SCRAM.
pub(crate) type PasswordKeys = Vec<(Vec<u8>, Vec<String>)>;

/// The operation that a message is for: its event loop, connection and ticket.
///
/// Slots are reused. The connection's number is not, so it tells whether the slot still holds the connection that
/// asked.
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

/// The answer to a change.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) address: Address,
    pub(crate) outcome: Outcome,
    /// The value of the answer to an extended operation.
    pub(crate) value: Option<Vec<u8>>,
    /// Position of the record that was made, if one was.
    pub(crate) position: Option<u64>,
}

/// The passwords of a change, each clear one with its stored form. No `Debug`, because it holds clear passwords.
#[derive(Clone, Default)]
pub(crate) struct PreparedPasswords {
    /// To be stored.
    pub(crate) hashed: HashedPasswords,
    /// To be deleted.
    pub(crate) matched: HashedPasswords,
    /// What the new ones were compared with.
    pub(crate) history: HistoryChecks,
    /// Keys for SCRAM of those to be stored.
    pub(crate) scram: PasswordKeys,
    /// Those that are on a list of bad ones.
    pub(crate) listed: Vec<Vec<u8>>,
}

/// What the verification of a password came to. No `Debug`: what is stored is a secret.
#[derive(Default)]
pub(crate) struct VerifiedPassword {
    /// Whether it is right.
    pub(crate) is_right: bool,
    /// The stored form that it matched, and a stronger one in its place.
    pub(crate) rehashed: Option<(Vec<u8>, Vec<u8>)>,
    /// The stored form that it matched, and keys that the policy wants of it.
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
    /// A message of an exchange of Kerberos was taken.
    Kerberos(Box<KerberosTurn>),
    /// The job gave way to that of another source.
    Busy,
    /// The server that verifies the password says nothing.
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
    /// An answer was held back for as long as it was to be.
    Delayed(Address),
    /// A piece of a search is ready to be sent.
    Scanned(Address),
    /// What these waited for was read ahead, an job each, and the pages that were brought in for them.
    ReadAhead(Vec<Address>, Vec<PageNumber>),
    /// The writer's queue has room again.
    WriterHasRoom,
    /// There was a commit, as the loop wanted to know.
    Committed,
    /// New settings. Whoever sent them sees by the end of the other half that they are in force.
    Settings(Arc<OnlineSettings>, Sender<()>),
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

    /// A panic under the lock cannot leave half a message, so a poisoned lock is fit for use.
    fn lock(&self) -> MutexGuard<'_, Vec<LoopMessage>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
