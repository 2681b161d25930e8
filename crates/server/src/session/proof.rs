//! What is kept of a password that is being verified, and of an attempt that is decided.

use directory::password::StorageScheme;
use directory::password::policy::Account;
use directory::{Outcome, Requester, SaslKeyRules};
use ldap::{PolicyWarning, ResultCode};

use crate::workers::guesses::GuessKey;

/// What a password is asserted for.
pub(super) struct Proof {
    /// Whose the session becomes if the password is right; `None` for a compare.
    pub(super) requester: Option<Requester>,
    /// Whose it becomes instead, because who proves to be `requester` may act as others and asks for one.
    pub(super) acts_as: Option<Requester>,
    /// The attempt under a policy.
    pub(super) attempt: Option<Box<Attempt>>,
    /// Whose password it is, and who tries: for a bind of somebody who may be guessing.
    pub(super) guess: Option<GuessKey>,
}

/// What an answer to an attempt is of.
pub(super) enum PasswordUse {
    /// A bind: whose the session becomes.
    Bind(Requester),
    /// A compare.
    Compare,
    /// A change that names the old password: what the client is told if that is wrong.
    Change(Outcome),
}

/// The old passwords that a change names, while they are verified.
pub(super) struct OldPasswords {
    /// The attempt under a policy.
    pub(super) attempt: Option<Box<Attempt>>,
    /// As in [`Proof`].
    pub(super) guess: Option<GuessKey>,
    /// How many they are.
    pub(super) count: usize,
}

/// An attempt whose password is being verified.
pub(super) struct Attempt {
    pub(super) account: Box<Account>,
    /// After how many commits the account was read, where that is known.
    pub(super) commits: Option<u64>,
    /// The account is locked: the verification is for its time alone.
    pub(super) is_refused: bool,
    /// What came besides the password.
    pub(super) second: SecondFactor,
    /// The password is that of an application: what its attributes' options are, and when its use was last recorded.
    pub(super) app: Option<(String, Option<i64>)>,
}

/// What a time-based code behind a password is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecondFactor {
    /// None has to be there.
    NotNeeded,
    /// It is missing, wrong, or used.
    Wrong,
    /// It is the one of this step.
    Step(i64),
}

impl Attempt {
    /// The keys that are to be made of the password if it is right.
    pub(super) fn missing_keys(&self) -> SaslKeyRules {
        if self.is_refused { SaslKeyRules::default() } else { self.account.missing_keys.clone() }
    }

    /// How the password is to be stored anew if it is right, where the policy wants it stronger.
    pub(super) fn rehash(&self) -> Option<StorageScheme> {
        self.account.policy.scheme.filter(|_| !self.is_refused)
    }
}

/// An attempt that is decided, while its answer waits.
pub(super) struct DecidedAttempt {
    pub(super) outcome: Outcome,
    /// Whose the session becomes; `None` where it stays whose it is.
    pub(super) requester: Option<Requester>,
    pub(super) must_change: bool,
    /// What the user is to know.
    pub(super) warning: Option<PolicyWarning>,
    /// As in [`Proof`].
    pub(super) guess: Option<GuessKey>,
    /// How long the policy holds the answer back, in seconds.
    pub(super) delay: u32,
}

impl DecidedAttempt {
    /// Whether the password was wrong, or no password is good now.
    pub(super) fn has_failed(&self) -> bool {
        use ResultCode as Code;
        [Code::INVALID_CREDENTIALS, Code::COMPARE_FALSE, Code::NO_SUCH_ATTRIBUTE].contains(&self.outcome.code)
    }
}

impl Default for DecidedAttempt {
    /// A success of nobody, to be said otherwise.
    fn default() -> DecidedAttempt {
        DecidedAttempt {
            outcome: Outcome::success(),
            requester: None,
            must_change: false,
            warning: None,
            guess: None,
            delay: 0,
        }
    }
}
