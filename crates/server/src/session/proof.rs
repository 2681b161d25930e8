//! State of a password verification, and of an attempt whose outcome is known.

use std::time::Instant;

use directory::password::StorageScheme;
use directory::password::policy::Account;
use directory::rows::EntryId;
use directory::{Outcome, Requester, SaslKeyRules};
use ldap::{PolicyWarning, ResultCode};

use crate::workers::guesses::GuessKey;

/// Proof of a password by the last bind.
pub(super) struct LastProof {
    /// User whose password was proved.
    pub(super) id: EntryId,
    /// Whether the proved password was the user's own password, with a code if the account requires one. False for an
    /// application password.
    pub(super) is_own: bool,
    /// Time of the bind.
    pub(super) at: Instant,
}

/// Data for the answer after a password verification.
pub(super) struct Proof {
    /// Requester of the session after a bind with the right password; `None` for a compare.
    pub(super) requester: Option<Requester>,
    /// Authorization identity, if the authenticated user asked for a different identity and may assume it. It becomes
    /// the session's requester in place of `requester`.
    pub(super) acts_as: Option<Requester>,
    /// Attempt, if the account has a password policy.
    pub(super) attempt: Option<Box<Attempt>>,
    /// Key under which wrong passwords are counted for this account and source; `None` if they are not counted.
    pub(super) guess: Option<GuessKey>,
}

/// Operation that sends a password to verify.
pub(super) enum PasswordUse {
    /// A bind, with the session's requester if the bind succeeds.
    Bind(Requester),
    /// A compare.
    Compare,
    /// A change that includes the old password, with the outcome if the password is wrong.
    Change(Outcome),
}

/// Old passwords in a change, until they are verified.
pub(super) struct OldPasswords {
    /// Attempt, if the account has a password policy.
    pub(super) attempt: Option<Box<Attempt>>,
    /// Key under which wrong passwords are counted, see [`Proof`].
    pub(super) guess: Option<GuessKey>,
    /// Number of old passwords.
    pub(super) count: usize,
}

/// An attempt until its password is verified.
pub(super) struct Attempt {
    pub(super) account: Box<Account>,
    /// Number of commits in the snapshot from which the account was read; `None` if unknown.
    pub(super) commits: Option<u64>,
    /// Whether the account is locked. The password is then verified only to take the usual time.
    pub(super) is_refused: bool,
    /// Result of checking the time-based code that followed the password.
    pub(super) second: SecondFactor,
    /// For an application password: the options of its attributes, and its last recorded use in microseconds.
    pub(super) app: Option<(String, Option<i64>)>,
}

/// Result of checking a time-based code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecondFactor {
    /// The account requires no code.
    NotNeeded,
    /// The code is missing, wrong, or already used.
    Wrong,
    /// The code is valid for this time step (RFC 6238).
    Step(i64),
}

impl Attempt {
    /// Returns the rules for deriving SASL keys that the account lacks. They are derived only if the password is right.
    pub(super) fn missing_keys(&self) -> SaslKeyRules {
        if self.is_refused { SaslKeyRules::default() } else { self.account.missing_keys.clone() }
    }

    /// Returns the scheme with which a right password is hashed again; `None` if the policy names no scheme.
    pub(super) fn rehash(&self) -> Option<StorageScheme> {
        self.account.policy.scheme.filter(|_| !self.is_refused)
    }
}

/// An attempt whose outcome is known, but which is not answered yet.
pub(super) struct DecidedAttempt {
    pub(super) outcome: Outcome,
    /// New requester of the session; `None` if it does not change.
    pub(super) requester: Option<Requester>,
    pub(super) must_change: bool,
    /// User whose password was proved. The flag is true for the user's own password, with a code if the account
    /// requires one, and false for an application password.
    pub(super) proved: Option<(EntryId, bool)>,
    /// Warning for the user.
    pub(super) warning: Option<PolicyWarning>,
    /// Key under which wrong passwords are counted, see [`Proof`].
    pub(super) guess: Option<GuessKey>,
    /// Delay of the answer by the password policy, in seconds.
    pub(super) delay: u32,
}

impl DecidedAttempt {
    /// Returns true if the attempt failed because the password was wrong or the account accepts no password now.
    pub(super) fn has_failed(&self) -> bool {
        use ResultCode as Code;
        [Code::INVALID_CREDENTIALS, Code::COMPARE_FALSE, Code::NO_SUCH_ATTRIBUTE].contains(&self.outcome.code)
    }
}

impl Default for DecidedAttempt {
    /// Returns a success after which the session keeps its requester.
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
