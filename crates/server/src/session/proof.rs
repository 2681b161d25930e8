//! What is kept of a password that is being verified, and of an attempt that is decided.

use directory::password::StorageScheme;
use directory::password::policy::Account;
use directory::{Outcome, Requester};

/// What a password is asserted for.
pub(super) struct Proof {
    /// Whose the session becomes if the password is right; `None` for a compare.
    pub(super) requester: Option<Requester>,
    /// The attempt under a policy.
    pub(super) attempt: Option<Box<Attempt>>,
}

/// An attempt whose password is being verified.
pub(super) struct Attempt {
    pub(super) account: Box<Account>,
    /// The account is locked: the verification is for its time alone.
    pub(super) is_refused: bool,
}

impl Attempt {
    /// How the password is to be stored anew if it is right, where the policy wants it stronger.
    pub(super) fn rehash(&self) -> Option<StorageScheme> {
        self.account.policy.scheme.filter(|_| !self.is_refused)
    }
}

/// An attempt that is decided, while its answer waits for the disk.
pub(super) struct DecidedAttempt {
    pub(super) outcome: Outcome,
    /// Whose the session becomes; `None` for a compare.
    pub(super) requester: Option<Requester>,
    pub(super) must_change: bool,
}
