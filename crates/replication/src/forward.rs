//! Messages between the writer and the other nodes: requests of the other nodes' clients, and the writer's answers. A
//! frame can contain many messages.
//!
//! A request names the requester and how it authenticated, never its rights. The writer finds the entry, checks that it
//! exists and is not locked, and evaluates the access rules. The certificate of the connection identifies the sending
//! node.
//!
//! The transport sends the length of a frame before the frame. A frame begins with its version (1 byte, 1) and contains
//! a list of requests or of answers. A *list* is a count (4 bytes) and that many items. A *text* or *bytes* is a length
//! (4 bytes) and that many bytes. An *option* is a byte 0, or a byte 1 and the item.
//!
//! ```text
//! a request   operation id (4, 8, 8) | epoch (8) | connection: incarnation, number (8, 8) | position (8)
//!             requester (1): 0 anonymous; 1 administrator, then DN (text); 2 an entry, then its id (8) and DN (text)
//!             bind method (1): 0 none, 1 simple, 2 SASL, then the mechanism (text)
//!             strength of the protection in bits (4) | network (1): 0 local socket, 4 or 6, then the address (4 or 16)
//!             option of the name of the listener (text)
//!             work (1): 0 a change: LDAP message (bytes), prepared passwords; 1 an account: entry id (8), update; 2 a
//!             transaction: a list of changes as in 0
//! passwords   six lists: clear and stored form (pairs of bytes); clear and the form it verifies against; former forms;
//!             those that match; clear and a list of SCRAM keys (text); clear ones on a list of bad passwords
//! an update   failure times (a list of 8), option of a success time, a byte 0 or 1 whether it clears failures, option
//!             of a grace time, option of two stored forms
//! an answer   operation id (4, 8, 8) | reply (1): 0 decided: position (8), result; 1 applied before: its position (8);
//!             2 too old to know; 3 not the writer
//! a result    code (4), matched DN and diagnostic (text), a list of referrals (text), option of a password policy
//!             error (1), option of bytes: the value of the response to an extended operation, else its controls
//! ```

mod decode;
mod encode;
mod gate;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use crate::operation::OperationId;
pub use decode::{decode_answers, decode_requests};
pub use encode::{encode_answers, encode_requests};
pub use gate::Gate;

/// Version of frames that this build writes and reads.
pub const VERSION: u8 = 1;

/// Maximum size of a frame in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Maximum number of requests or answers in a frame.
pub const FRAME_ITEMS_MAX: usize = 1024;

/// Maximum number of items of one list in a request or answer.
pub const LIST_ITEMS_MAX: usize = 4096;

/// Request of a client, forwarded to the writer. Its `Debug` form contains no values, because the request may contain
/// passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// Id that the forwarding node gave the operation. A retry has the same id.
    pub operation: OperationId,
    /// Epoch of the writer that may decide this copy of the request. Writers of other epochs refuse it.
    pub epoch: u64,
    /// Connection on which the request is sent.
    pub link: Link,
    /// Highest position that the client has seen. The writer decides the request on a state of at least this position.
    pub position: u64,
    /// Requester of the operation.
    pub requester: ForwardedRequester,
    /// Authentication method of the client.
    pub method: BindMethod,
    /// Strength of the connection's protection: bits of the key, 0 for none.
    pub strength: u32,
    /// Address of the client; `None` for the local socket.
    pub network: Option<IpAddr>,
    /// Name of the listener that accepted the client's connection; `None` if no access rule on the forwarding node
    /// refers to that listener.
    pub listener: Option<String>,
    /// Requested work.
    pub work: Work,
}

/// Connection of a node to the writer. Links of a node are ordered by their creation, and only answers on the newest
/// link are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Number of the start of the node's process.
    pub incarnation: u64,
    /// Number of the connection in that incarnation. The connections to all writers are numbered together.
    pub number: u64,
}

/// Requester of a forwarded operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedRequester {
    /// An anonymous client.
    Anonymous,
    /// The administrator, who needs no entry in the directory.
    Administrator {
        /// Configured DN of the administrator.
        dn: String,
    },
    /// A user with an entry.
    Entry {
        /// Entry id, the same on all nodes.
        id: u64,
        /// DN of the entry at the time of the bind.
        dn: String,
    },
}

/// Authentication method of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindMethod {
    /// No authentication.
    None,
    /// With a name and a password.
    Simple,
    /// By a SASL mechanism.
    Sasl(String),
}

/// Work requested from the writer.
#[derive(Clone, PartialEq, Eq)]
pub enum Work {
    /// A change.
    Change {
        /// The whole LDAP message as the client sent it.
        message: Vec<u8>,
        /// Results that the forwarding node has computed from the passwords of the change.
        passwords: Prepared,
    },
    /// Changes that are made together or not at all.
    Transaction(Vec<TransactionChange>),
    /// Events of an entry's password to record.
    Account {
        /// Entry id.
        id: u64,
        /// The events.
        update: AccountUpdate,
    },
}

/// A change of a transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct TransactionChange {
    /// The whole LDAP message as the client sent it.
    pub message: Vec<u8>,
    /// Results that the forwarding node has computed from the passwords of the change.
    pub passwords: Prepared,
}

/// A value, and the value computed from it.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Results of slow computations that do not depend on the directory's state. The results are computed before a request
/// is decided.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Clear passwords with their stored forms.
    pub hashed: Vec<Pair>,
    /// Clear passwords to be deleted, with the stored form that each password verifies against.
    pub matched: Vec<Pair>,
    /// Stored forms of former passwords that new passwords were compared with.
    pub former: Vec<Vec<u8>>,
    /// Stored forms in `former` that a new password matches.
    pub former_matching: Vec<Vec<u8>>,
    /// Clear passwords with the text forms of their keys for SCRAM.
    pub scram: Vec<(Vec<u8>, Vec<String>)>,
    /// Clear passwords that are on a list of forbidden passwords.
    pub listed: Vec<Vec<u8>>,
}

/// Events of an entry's password. Times are microseconds since 1970, except `totp_step`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// Times of failed attempts, ascending.
    pub failures: Vec<i64>,
    /// Time of the last success, if it must be recorded.
    pub success: Option<i64>,
    /// Whether a success resets the earlier failures.
    pub clears_failures: bool,
    /// Time of a grace login: a bind with an expired password.
    pub grace: Option<i64>,
    /// The stored form that a successful bind verified, and a stronger stored form of the same password.
    pub rehashed: Option<Pair>,
    /// The stored form that a successful bind verified, and SASL keys of the same password.
    pub keys: Option<(Vec<u8>, Vec<String>)>,
    /// Time step of the last one-time password that was used (TOTP, RFC 6238).
    pub totp_step: Option<i64>,
    /// Application passwords that were used, identified by their options, with the times of use.
    pub app_uses: Vec<(String, i64)>,
}

/// Answer to a request. Its `Debug` form contains no values.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// Id of the request's operation.
    pub operation: OperationId,
    /// Result of the request.
    pub reply: Reply,
}

/// Result of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// The request was decided on a state that is now accepted by the log.
    Decided {
        /// Position of the first state that contains the result. The forwarding node answers its client after it has
        /// applied that position.
        position: u64,
        /// Result that the client receives.
        result: LdapResult,
    },
    /// The operation was applied before. The client receives success.
    Applied {
        /// Position of the operation's record.
        position: u64,
    },
    /// The operation's id is too old, so it is unknown whether the operation was applied. The client receives
    /// `unavailable`.
    TooOld,
    /// The request was not decided: this node is not the writer of that epoch, has not reached the position, or knows
    /// a newer connection of the sender. The sender must send the request again to the present writer.
    NotWriter,
}

/// Fields of an LDAPResult (RFC 4511 section 4.1.9) and of responses with more fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdapResult {
    /// The result code.
    pub code: u32,
    /// The matched DN.
    pub matched_dn: String,
    /// The diagnostic text.
    pub diagnostic: String,
    /// Referral URLs.
    pub referrals: Vec<String>,
    /// The error in the password policy response control.
    pub policy: Option<u8>,
    /// The value of an extended response; for other responses, their controls.
    pub value: Option<Vec<u8>>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("operation", &self.operation).finish_non_exhaustive()
    }
}
