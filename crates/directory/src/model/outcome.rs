//! Outcome of an operation. Each operation sends exactly one outcome.
//!
//! [`OperationError`] carries the cause as data. Only this module maps the cause to result code, matched DN and
//! diagnostic text (RFC 4511 section 4.1.9 and appendix A).

use ldap::{PolicyError, ResultCode};
use store::StoreError;

use crate::model::quoted::Quoted;

/// Result of an operation, ready to be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result code.
    pub code: ResultCode,
    /// DN of the nearest existing superior, if the result code requires it (RFC 4511 section 4.1.9).
    pub matched_dn: String,
    /// Diagnostic text; empty on success.
    pub diagnostic: String,
    /// LDAP URLs; only with the code `referral`.
    pub referrals: Vec<String>,
    /// Server fault that caused the result. The fault is logged, but not sent to the client.
    pub fault: Option<ServerFault>,
    /// Password policy error, for clients that request it. The field takes only one octet, which keeps outcomes small:
    /// every search moves an outcome.
    pub policy: Option<PolicyError>,
}

/// Fault of the server that does not depend on the request. The diagnostic text of an outcome with a fault contains no
/// values of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServerFault {
    /// The disk is full.
    DiskFull,
    /// The server accepts no changes until a restart.
    WritesStopped,
    /// The system is out of file descriptors, memory or threads.
    Exhausted,
    /// Rows contradict each other or cannot be read.
    Damaged,
    /// The store failed in another way.
    Store,
    /// The operating system returned no random numbers.
    Random,
    /// A defect of Pando.
    Defect,
}

impl Outcome {
    /// Returns success without a diagnostic text.
    pub fn success() -> Outcome {
        Outcome::code(ResultCode::SUCCESS)
    }

    /// Returns an outcome with this code and without a diagnostic text.
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

    /// Returns an outcome with this code and diagnostic text.
    pub fn new(code: ResultCode, diagnostic: impl Into<String>) -> Outcome {
        Outcome { diagnostic: diagnostic.into(), ..Outcome::code(code) }
    }

    /// Returns the outcome with a server fault as its cause.
    pub fn by_fault(self, fault: ServerFault) -> Outcome {
        Outcome { fault: Some(fault), ..self }
    }
}

/// Reason why an operation was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// A refusal with a result code and a diagnostic text. Most causes are of this variant.
    #[error("{diagnostic}")]
    Refused {
        /// The result code.
        code: ResultCode,
        /// Diagnostic text.
        diagnostic: String,
        /// Password policy error, if a policy is the reason.
        policy: Option<PolicyError>,
    },
    /// The named entry, or one of its superiors, does not exist.
    #[error("{what}")]
    NoSuchObject {
        /// DN of the nearest existing superior; empty if there is none.
        matched_dn: String,
        /// Diagnostic text that names the missing entry.
        what: String,
    },
    /// The name lies at or below a referral entry (RFC 3296 section 5).
    #[error("the entry is held elsewhere: see the referral")]
    Referral {
        /// DN of the referral entry.
        matched_dn: String,
        /// URLs of the referral.
        referrals: Vec<String>,
    },
    /// An alias in the name cannot be dereferenced.
    #[error("{diagnostic}")]
    Alias {
        /// aliasProblem or aliasDereferencingProblem.
        code: ResultCode,
        /// DN of the alias.
        matched_dn: String,
        /// Diagnostic text.
        diagnostic: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows contradict each other because of a defect or the disk. `pando verify` reports details.
    #[error("the data is damaged: {0}")]
    Damaged(String),
    /// A defect of Pando.
    #[error("{0}")]
    Defect(&'static str),
}

impl OperationError {
    /// Returns true if the requester lacks a right. Also returns true for noSuchObject, because this error may hide
    /// the existence of an entry.
    pub(crate) fn is_about_rights(&self) -> bool {
        match self {
            OperationError::NoSuchObject { .. } => true,
            OperationError::Refused { code, .. } => {
                [ResultCode::INSUFFICIENT_ACCESS_RIGHTS, ResultCode::STRONGER_AUTH_REQUIRED].contains(code)
            }
            _ => false,
        }
    }

    /// Returns a refusal with its code and a diagnostic text.
    pub fn refused(code: ResultCode, diagnostic: impl Into<String>) -> OperationError {
        OperationError::Refused { code, diagnostic: diagnostic.into(), policy: None }
    }
}

impl From<PolicyError> for OperationError {
    /// Converts a password policy error to its result code and a diagnostic text (draft-behera-ldap-password-policy
    /// section 8.2).
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
                "the password policy does not let users change their password",
            ),
            PolicyError::MustSupplyOldPassword => (
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "the password policy requires the old password with the new one: delete the old value and add \
                 the new one",
            ),
            PolicyError::InsufficientQuality => (
                ResultCode::CONSTRAINT_VIOLATION,
                "the password is too easy to guess, or was sent hashed, so that the server cannot check it",
            ),
            PolicyError::TooShort => (ResultCode::CONSTRAINT_VIOLATION, "the password is too short"),
            PolicyError::TooYoung => {
                (ResultCode::CONSTRAINT_VIOLATION, "the password was changed too recently")
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
            // A referral needs at least one URL (RFC 4511 section 4.1.10).
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
            // The text omits the path of the data directory, which clients must not learn.
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
