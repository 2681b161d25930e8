//! What an operation came to: one value, sent once.
//!
//! [`OperationError`] carries the cause as data; its mapping to result code, matched DN and diagnostic text
//! (RFC 4511 section 4.1.9 and appendix A) is written here and nowhere else.

use ldap::{PolicyError, ResultCode};
use store::StoreError;

use crate::model::quoted::Quoted;

/// The result of an operation, ready to be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result code.
    pub code: ResultCode,
    /// Name of the nearest existing superior, where the code calls for one (RFC 4511 section 4.1.9).
    pub matched_dn: String,
    /// For a person to read; empty on success.
    pub diagnostic: String,
    /// LDAP URLs, with the code `referral` only.
    pub referrals: Vec<String>,
    /// What is wrong with the server, where that is why: not for the client, but for the log.
    pub fault: Option<ServerFault>,
    /// What a password policy has against the request, for clients that ask. One octet, where nothing else is: every
    /// search moves an outcome.
    pub policy: Option<PolicyError>,
}

/// What can be wrong with the server itself, so that an operation fails by no fault of the client. The diagnostic text
/// of an outcome with one has no values of entries in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServerFault {
    /// There is no room on the disk.
    DiskFull,
    /// Changes have stopped until a restart.
    WritesStopped,
    /// The system is out of file descriptors, memory or threads.
    Exhausted,
    /// Rows contradict each other, or cannot be read.
    Damaged,
    /// The store failed in another way.
    Store,
    /// The system gives no random numbers.
    Random,
    /// Our own mistake.
    Defect,
}

impl Outcome {
    /// Success without anything to say.
    pub fn success() -> Outcome {
        Outcome::code(ResultCode::SUCCESS)
    }

    /// A code without a text.
    pub fn code(code: ResultCode) -> Outcome {
        Outcome {
            code,
            matched_dn: String::new(),
            diagnostic: String::new(),
            referrals: Vec::new(),
            fault: None,
            policy: None,
        }
    }

    /// A code with a text for a person.
    pub fn new(code: ResultCode, diagnostic: impl Into<String>) -> Outcome {
        Outcome { diagnostic: diagnostic.into(), ..Outcome::code(code) }
    }

    /// The same by a fault of the server's.
    pub fn by_fault(self, fault: ServerFault) -> Outcome {
        Outcome { fault: Some(fault), ..self }
    }
}

/// Why an operation was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// A refusal with its code and a text that helps; most causes need no more.
    #[error("{diagnostic}")]
    Refused {
        /// The result code.
        code: ResultCode,
        /// For a person to read.
        diagnostic: String,
        /// What a password policy has against it, where that is why.
        policy: Option<PolicyError>,
    },
    /// The named entry, or one on the way to it, does not exist.
    #[error("{what}")]
    NoSuchObject {
        /// DN of the nearest existing superior; empty where there is none.
        matched_dn: String,
        /// What is missing, for a person to read.
        what: String,
    },
    /// The name lies at or below a referral entry (RFC 3296 section 5).
    #[error("the entry is held elsewhere: see the referral")]
    Referral {
        /// DN of the referral entry.
        matched_dn: String,
        /// Where to go.
        referrals: Vec<String>,
    },
    /// An alias on the way cannot be followed.
    #[error("{diagnostic}")]
    Alias {
        /// aliasProblem or aliasDereferencingProblem.
        code: ResultCode,
        /// DN of the alias.
        matched_dn: String,
        /// For a person to read.
        diagnostic: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows contradict each other: our fault or the disk's. `pando verify` tells more.
    #[error("the data is damaged: {0}")]
    Damaged(String),
    /// A defect was met.
    #[error("{0}")]
    Defect(&'static str),
}

impl OperationError {
    /// A refusal with its code and a text that helps.
    pub fn refused(code: ResultCode, diagnostic: impl Into<String>) -> OperationError {
        OperationError::Refused { code, diagnostic: diagnostic.into(), policy: None }
    }
}

impl From<PolicyError> for OperationError {
    /// With the result code and a text for what the policy has against a password
    /// (draft-behera-ldap-password-policy section 8.2).
    fn from(error: PolicyError) -> OperationError {
        let (code, text) = match error {
            PolicyError::PasswordExpired => {
                (ResultCode::INVALID_CREDENTIALS, "the password has expired; an administrator can reset it")
            }
            PolicyError::AccountLocked => (ResultCode::INVALID_CREDENTIALS, "the account is locked"),
            PolicyError::ChangeAfterReset => (
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "the password was reset: change it before anything else",
            ),
            PolicyError::ModificationNotAllowed => (
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "the password policy lets no user change the password",
            ),
            PolicyError::MustSupplyOldPassword => (
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "the password policy wants the old password with the new one: delete the one and add the other",
            ),
            PolicyError::InsufficientQuality => (
                ResultCode::CONSTRAINT_VIOLATION,
                "the password is too easy to guess, or came hashed, so that nobody can tell",
            ),
            PolicyError::TooShort => (ResultCode::CONSTRAINT_VIOLATION, "the password is too short"),
            PolicyError::TooYoung => {
                (ResultCode::CONSTRAINT_VIOLATION, "the password was changed too short a time ago")
            }
            PolicyError::InHistory => (ResultCode::CONSTRAINT_VIOLATION, "the password was used before"),
            PolicyError::TooLong => (ResultCode::CONSTRAINT_VIOLATION, "the password is too long"),
        };
        OperationError::Refused { code, diagnostic: text.to_owned(), policy: Some(error) }
    }
}

impl From<OperationError> for Outcome {
    fn from(error: OperationError) -> Outcome {
        let diagnostic = error.to_string();
        match error {
            OperationError::Refused { code, policy, .. } => {
                Outcome { policy, ..Outcome::new(code, diagnostic) }
            }
            OperationError::NoSuchObject { matched_dn, .. } => {
                Outcome { matched_dn, ..Outcome::new(ResultCode::NO_SUCH_OBJECT, diagnostic) }
            }
            // RFC 4511 section 4.1.10: a referral has at least one URL.
            OperationError::Referral { matched_dn, referrals } if referrals.is_empty() => {
                let diagnostic = format!("{} is a referral without a ref value", Quoted(&matched_dn));
                Outcome::new(ResultCode::OTHER, diagnostic)
            }
            OperationError::Referral { matched_dn, referrals } => {
                Outcome { matched_dn, referrals, ..Outcome::new(ResultCode::REFERRAL, diagnostic) }
            }
            OperationError::Alias { code, matched_dn, .. } => {
                Outcome { matched_dn, ..Outcome::new(code, diagnostic) }
            }
            // Not with the name of the directory, which is no client's business.
            OperationError::Store(StoreError::DiskFull { free_bytes, reserve_bytes, .. }) => {
                let diagnostic = format!(
                    "the disk of the server is full: {free_bytes} bytes free, {reserve_bytes} kept in reserve; \
                     reading goes on"
                );
                Outcome::new(ResultCode::UNWILLING_TO_PERFORM, diagnostic).by_fault(ServerFault::DiskFull)
            }
            OperationError::Store(StoreError::Exhausted { .. }) => {
                let diagnostic =
                    format!("the server is out of file descriptors or memory, try again: {diagnostic}");
                Outcome::new(ResultCode::BUSY, diagnostic).by_fault(ServerFault::Exhausted)
            }
            OperationError::Store(StoreError::WritesStopped { .. }) => {
                Outcome::new(ResultCode::UNWILLING_TO_PERFORM, diagnostic)
                    .by_fault(ServerFault::WritesStopped)
            }
            OperationError::Store(error) => {
                let is_damage = matches!(
                    error,
                    StoreError::DamagedLog { .. }
                        | StoreError::DamagedRedo { .. }
                        | StoreError::DamagedRow { .. }
                );
                let fault = if is_damage { ServerFault::Damaged } else { ServerFault::Store };
                Outcome::new(ResultCode::OTHER, diagnostic).by_fault(fault)
            }
            OperationError::Damaged(_) => {
                Outcome::new(ResultCode::OTHER, diagnostic).by_fault(ServerFault::Damaged)
            }
            OperationError::Defect(_) => {
                Outcome::new(ResultCode::OTHER, diagnostic).by_fault(ServerFault::Defect)
            }
        }
    }
}
