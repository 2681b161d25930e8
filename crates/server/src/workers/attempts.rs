//! What happened to passwords and is not in the directory yet: failures, last logins, stronger hashes.
//!
//! Every attempt counts at once, for all event loops. What has to be recorded goes to the writer, one request for an
//! account however many attempts come meanwhile, so a storm of them costs one record a commit. A kill loses at most
//! what its last commit did not have yet; a stop writes it.
//!
//! Nothing is kept of an account once it is recorded, so the table is as large as the writer is behind.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use directory::account_update::AccountUpdate;
use directory::rows::EntryId;

use crate::limits::UNWRITTEN_ACCOUNTS_MAX;

/// Accounts with something that is not recorded yet.
#[derive(Default)]
pub(crate) struct Attempts {
    accounts: Mutex<HashMap<EntryId, Unrecorded>>,
}

#[derive(Default)]
struct Unrecorded {
    /// What the writer does not have yet.
    waiting: AccountUpdate,
    /// What is in its present batch.
    writing: Option<AccountUpdate>,
    /// Whether a request for it waits at the writer.
    is_queued: bool,
}

impl Attempts {
    /// Times of the account's failures that are not recorded yet.
    pub(crate) fn failures(&self, id: EntryId) -> usize {
        self.lock().get(&id).map_or(0, Unrecorded::failures)
    }

    /// Notes something. True where the writer is to be asked for it: no request for the account waits yet.
    pub(crate) fn note(&self, id: EntryId, note: impl FnOnce(&mut AccountUpdate)) -> bool {
        let mut accounts = self.lock();
        if accounts.len() >= UNWRITTEN_ACCOUNTS_MAX && !accounts.contains_key(&id) {
            return false;
        }
        let account = accounts.entry(id).or_default();
        note(&mut account.waiting);
        !std::mem::replace(&mut account.is_queued, true)
    }

    /// The writer could not be asked: the next note asks again.
    pub(crate) fn not_queued(&self, id: EntryId) {
        if let Some(account) = self.lock().get_mut(&id) {
            account.is_queued = false;
        }
    }

    /// What is to be recorded of an account, for the writer.
    pub(crate) fn take(&self, id: EntryId) -> AccountUpdate {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(&id) else { return AccountUpdate::default() };
        account.is_queued = false;
        let taken = std::mem::take(&mut account.waiting);
        match &mut account.writing {
            // Twice in a batch: both count until it is committed.
            Some(writing) => writing.failures.extend_from_slice(&taken.failures),
            None => account.writing = Some(taken.clone()),
        }
        taken
    }

    /// What [`take`](Attempts::take) gave is committed, or not.
    pub(crate) fn settle(&self, id: EntryId, is_committed: bool) {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(&id) else { return };
        let writing = account.writing.take();
        if let Some(failed) = writing.filter(|_| !is_committed) {
            account.waiting.failures.splice(0..0, failed.failures);
        }
        if account.waiting == AccountUpdate::default() {
            accounts.remove(&id);
        }
    }

    /// Every account of which something waits, for a stop.
    pub(crate) fn all(&self) -> Vec<EntryId> {
        self.lock().keys().copied().collect()
    }

    /// Notes are whole before and after each step, so a poisoned lock is fit for use.
    fn lock(&self) -> MutexGuard<'_, HashMap<EntryId, Unrecorded>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unrecorded {
    fn failures(&self) -> usize {
        let writing = self.writing.as_ref().map_or(0, |writing| writing.failures.len());
        // A success that is not recorded yet ends those that are being written.
        let writing = if self.waiting.clears_failures { 0 } else { writing };
        self.waiting.failures.len() + writing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: EntryId = EntryId(7);

    #[test]
    fn failures_count_until_they_are_committed() {
        let attempts = Attempts::default();
        assert!(attempts.note(ID, |update| update.failures.push(1)), "the writer is asked");
        assert!(!attempts.note(ID, |update| update.failures.push(2)), "once");
        assert_eq!(attempts.failures(ID), 2);
        assert_eq!(attempts.take(ID).failures, [1, 2]);
        assert_eq!(attempts.failures(ID), 2, "while they are written");
        assert!(attempts.note(ID, |update| update.failures.push(3)));
        assert_eq!(attempts.failures(ID), 3);
        attempts.settle(ID, true);
        assert_eq!(attempts.failures(ID), 1);
        assert_eq!(attempts.take(ID).failures, [3]);
        attempts.settle(ID, true);
        assert!(attempts.all().is_empty(), "nothing stays");
    }

    #[test]
    fn what_could_not_be_written_waits() {
        let attempts = Attempts::default();
        attempts.note(ID, |update| update.failures.push(1));
        attempts.take(ID);
        attempts.note(ID, |update| update.failures.push(2));
        attempts.settle(ID, false);
        assert_eq!(attempts.failures(ID), 2);
        assert_eq!(attempts.take(ID).failures, [1, 2]);
    }

    #[test]
    fn a_success_ends_failures_before_it() {
        let attempts = Attempts::default();
        attempts.note(ID, |update| update.failures.push(1));
        attempts.take(ID);
        attempts.note(ID, |update| {
            update.failures.clear();
            update.clears_failures = true;
        });
        assert_eq!(attempts.failures(ID), 0);
        attempts.settle(ID, true);
        assert_eq!(attempts.all(), [ID]);
    }
}
