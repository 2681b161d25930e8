//! What nodes say to the writer, and it to them: requests of clients that asked another node, many in a frame.
//!
//! A request says who asks and how they came, never what they may do: the writer finds the entry, sees whether it is
//! locked or gone, and asks the rules. Who sends it is known by the certificate of the connection.
//!
//! `docs/reference/cluster-protocol.md` draws the bytes. The bytes that announce a frame's length are the transport's.

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

/// The version of frames that this build writes and reads.
pub const VERSION: u8 = 1;

/// Most bytes of a frame.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Most requests or answers in a frame.
pub const FRAME_ITEMS_MAX: usize = 1024;

/// Most items of one list in a request or answer.
pub const LIST_ITEMS_MAX: usize = 4096;

/// A request of a client, on its way to the writer. Its `Debug` form shows no value: it may carry passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// What the asked node calls it. A retry has the same.
    pub operation: OperationId,
    /// The epoch whose writer it is meant for. No other epoch decides this copy.
    pub epoch: u64,
    /// The connection that it is sent on.
    pub link: Link,
    /// The writer decides it on a state of at least this position: what the client has seen.
    pub position: u64,
    /// Who asks.
    pub asker: Asker,
    /// How they authenticated.
    pub method: BindMethod,
    /// The strength of the connection's protection: 0 for none, else bits of the key.
    pub strength: u32,
    /// From where; none for the local socket.
    pub network: Option<IpAddr>,
    /// The name of the listener that took the connection; none where the asked node's rules do not ask for it.
    pub listener: Option<String>,
    /// What is asked.
    pub work: Work,
}

/// A connection of a node to the writer. Ordered as the node made them. Only answers that come on the newest count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Which start of the node's process it was.
    pub incarnation: u64,
    /// Counts the connections of that incarnation to any writer.
    pub number: u64,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Nobody in particular.
    Anonymous,
    /// The administrator, who needs no entry.
    Administrator {
        /// The configured DN.
        dn: String,
    },
    /// The user of an entry.
    Entry {
        /// Its number, the same on all nodes.
        id: u64,
        /// Its DN at the time of the bind.
        dn: String,
    },
}

/// How a client authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindMethod {
    /// Not at all.
    None,
    /// With a name and a password.
    Simple,
    /// By a SASL mechanism.
    Sasl(String),
}

/// What is asked of the writer.
#[derive(Clone, PartialEq, Eq)]
pub enum Work {
    /// To make a change.
    Change {
        /// The LDAP message, whole, as the client sent it.
        message: Vec<u8>,
        /// What the asked node has computed of its passwords.
        passwords: Prepared,
    },
    /// To record what happened to the password of an entry.
    Account {
        /// The entry.
        id: u64,
        /// What happened.
        update: AccountUpdate,
    },
}

/// A value, and what was computed of it.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What costs much time and does not depend on the state: computed before a request is decided.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Clear passwords with the stored forms made of them.
    pub hashed: Vec<Pair>,
    /// Clear passwords that are to be deleted, with the stored form that each verifies against.
    pub matched: Vec<Pair>,
    /// Stored forms that new passwords were compared with.
    pub former: Vec<Vec<u8>>,
    /// Those of them that one matches.
    pub former_matching: Vec<Vec<u8>>,
    /// Clear passwords with the text forms of their keys for SCRAM.
    pub scram: Vec<(Vec<u8>, Vec<String>)>,
    /// Clear passwords that are on a list of bad ones.
    pub listed: Vec<Vec<u8>>,
}

/// What happened to the password of an entry. Times are microseconds since 1970.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// Times of failed attempts, ascending.
    pub failures: Vec<i64>,
    /// Time of the last success, where that is to be recorded.
    pub success: Option<i64>,
    /// Whether a success ended the failures before it.
    pub clears_failures: bool,
    /// When an expired password was used with a grace login.
    pub grace: Option<i64>,
    /// The stored form that a good bind verified, and a stronger one of the same password.
    pub rehashed: Option<Pair>,
    /// The stored form that a good bind verified, and keys for SASL of the same password.
    pub keys: Option<(Vec<u8>, Vec<String>)>,
    /// The step of a time-based code that was used.
    pub totp_step: Option<i64>,
    /// Passwords of applications that were used, by their options, and when.
    pub app_uses: Vec<(String, i64)>,
}

/// The answer to a request. Its `Debug` form shows no value.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// Of the request.
    pub operation: OperationId,
    /// What became of it.
    pub reply: Reply,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// It was decided, and the state that it was decided on is accepted.
    Decided {
        /// The position whose state shows it. The asked node answers its client once it has applied that.
        position: u64,
        /// What the client is told.
        result: LdapResult,
    },
    /// It was applied before; its result is success.
    Applied {
        /// Where its record stands.
        position: u64,
    },
    /// Whether it was applied before is forgotten: the client is told `unavailable`.
    TooOld,
    /// It was not decided, because this node does not write in that epoch, has not reached the position, or knows a
    /// newer connection of the sender. It is sent again, to whoever writes.
    NotWriter,
}

/// The fields of an LDAPResult (RFC 4511 section 4.1.9) and of responses that have more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdapResult {
    /// The result code.
    pub code: u32,
    /// The matched DN.
    pub matched_dn: String,
    /// The diagnostic text.
    pub diagnostic: String,
    /// LDAP URLs.
    pub referrals: Vec<String>,
    /// The error of the password policy response control.
    pub policy: Option<u8>,
    /// The value of an extended response; the controls of any other.
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
