//! State of a password verification and of a decided attempt.

use std::time::Instant;

use directory::password::StorageScheme;
use directory::password::policy::Account;
use directory::rows::EntryId;
use directory::{Outcome, Requester, SaslKeyRules};
use ldap::{PolicyWarning, ResultCode};

use crate::workers::guesses::GuessKey;

/// The password of the last bind.
pub(super) struct LastProof {
    /// User to whom the password belongs.
    pub(super) id: EntryId,
    /// Whether it is the user's own, with a code if the account requires one, and not that of an application.
    pub(super) is_own: bool,
    /// Time of the bind.
    pub(super) at: Instant,
}

/// Purpose of a password verification.
pub(super) struct Proof {
    /// Requester of the session if the password is right; `None` for a compare.
    pub(super) requester: Option<Requester>,
    /// Requester of the session instead, if the authenticated user asked for an authorization identity that it may
    /// assume.
    pub(super) acts_as: Option<Requester>,
    /// Attempt under a password policy.
    pub(super) attempt: Option<Box<Attempt>>,
    /// Key that counts guesses for this account and source; `None` if the bind is not counted.
    pub(super) guess: Option<GuessKey>,
}

/// Operation that sends a password to verify.
pub(super) enum PasswordUse {
    /// A bind, with the requester of the session if it succeeds.
    Bind(Requester),
    /// A compare.
    Compare,
    /// A change that includes the old password, with the outcome for a wrong one.
    Change(Outcome),
}

/// Old passwords that a change includes, during their verification.
pub(super) struct OldPasswords {
    /// Attempt under a password policy.
    pub(super) attempt: Option<Box<Attempt>>,
    /// As in [`Proof`].
    pub(super) guess: Option<GuessKey>,
    /// Number of old passwords.
    pub(super) count: usize,
}

/// An attempt during the verification of its password.
pub(super) struct Attempt {
    pub(super) account: Box<Account>,
    /// Number of commits when the account was read, if known.
    pub(super) commits: Option<u64>,
    /// Whether the account is locked. The verification then only takes the usual time.
    pub(super) is_refused: bool,
    /// Time-based code that followed the password.
    pub(super) second: SecondFactor,
    /// For an application password: the options of its attributes, and its last recorded use.
    pub(super) app: Option<(String, Option<i64>)>,
}

/// Result of checking a time-based code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecondFactor {
    /// The account requires no code.
    NotNeeded,
    /// The code is missing, wrong, or already used.
    Wrong,
    /// The code is valid for this time step.
    Step(i64),
}

impl Attempt {
    /// Returns the rules for missing SASL keys, which are derived if the password is right.
    pub(super) fn missing_keys(&self) -> SaslKeyRules {
        if self.is_refused { SaslKeyRules::default() } else { self.account.missing_keys.clone() }
    }

    /// Returns the scheme with which to hash a right password again, if the policy requires a stronger one.
    pub(super) fn rehash(&self) -> Option<StorageScheme> {
        self.account.policy.scheme.filter(|_| !self.is_refused)
    }
}

/// A decided attempt whose answer still waits.
pub(super) struct DecidedAttempt {
    pub(super) outcome: Outcome,
    /// New requester of the session; `None` if it does not change.
    pub(super) requester: Option<Requester>,
    pub(super) must_change: bool,
    /// User whose password was proved; and whether it was the user's own, with a code if the account requires one, and
    /// not that of an application.
    pub(super) proved: Option<(EntryId, bool)>,
    /// Warning for the user.
    pub(super) warning: Option<PolicyWarning>,
    /// As in [`Proof`].
    pub(super) guess: Option<GuessKey>,
    /// Delay of the answer that the policy requires, in seconds.
    pub(super) delay: u32,
}

impl DecidedAttempt {
    /// Returns true if the attempt failed because the password was wrong or the account accepts none now.
    pub(super) fn has_failed(&self) -> bool {
        use ResultCode as Code;
        [Code::INVALID_CREDENTIALS, Code::COMPARE_FALSE, Code::NO_SUCH_ATTRIBUTE].contains(&self.outcome.code)
    }
}

impl Default for DecidedAttempt {
    /// Returns a success that leaves the requester unchanged. Callers set the fields that differ.
    fn default() -> DecidedAttempt {
        DecidedAttempt {
            outcome: Outcome::success(),
            requester: None,
            must_change: false,
            proved: None,
            warning: None,
            guess: None,
            delay: 0,
        }
    }
}
