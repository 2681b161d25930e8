//! Results of password attempts that are not recorded in the directory yet: failures, stronger hashes, and last logins.
//! A last login moves here from [`logins`](super::logins) when it is due.
//!
//! Every attempt counts at once, for all event loops. The writer receives one request per account, however many
//! attempts follow before it handles the request. Therefore a flood of attempts costs one record per commit. When the
//! server stops, all attempts are recorded. A crash loses the attempts since the last commit.
//!
//! An account is removed from the table when its attempts are recorded. Therefore the writer's delay bounds the size of
//! the table.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use directory::account_update::AccountUpdate;
use directory::rows::EntryId;

use crate::limits::{FAILURES_NOTED_MAX, UNWRITTEN_ACCOUNTS_MAX};

/// Accounts with unrecorded attempts.
#[derive(Default)]
pub(crate) struct Attempts {
    accounts: Mutex<HashMap<EntryId, Unrecorded>>,
}

/// Unrecorded attempts of an account.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UnrecordedAttempts {
    /// Times of the failures, in microseconds.
    pub(crate) times: Vec<i64>,
    /// Whether a success has cleared the failures that are recorded.
    pub(crate) ends_recorded: bool,
    /// Time of the last success, if it must be recorded.
    pub(crate) success: Option<i64>,
}

#[derive(Default)]
struct Unrecorded {
    /// Update that the writer has not received yet.
    waiting: AccountUpdate,
    /// Update in the writer's current batch.
    writing: Option<AccountUpdate>,
    /// Whether the writer's queue contains a request for this account.
    is_queued: bool,
}

impl Attempts {
    /// Returns the account's unrecorded attempts. To miss no attempt, a caller that also needs the recorded attempts
    /// must call this function first. Then it must read the entry from a snapshot that contains all commits.
    pub(crate) fn unrecorded(&self, id: EntryId) -> UnrecordedAttempts {
        self.lock().get(&id).map(Unrecorded::attempts).unwrap_or_default()
    }

    /// Changes the account's waiting update with `note`. Returns true if the caller must submit a request to the
    /// writer, because the writer's queue contains none for the account. Does nothing and returns false if the table is
    /// full.
    pub(crate) fn note(&self, id: EntryId, note: impl FnOnce(&mut AccountUpdate)) -> bool {
        let mut accounts = self.lock();
        if accounts.len() >= UNWRITTEN_ACCOUNTS_MAX && !accounts.contains_key(&id) {
            return false;
        }
        let account = accounts.entry(id).or_default();
        note(&mut account.waiting);
        !std::mem::replace(&mut account.is_queued, true)
    }

    /// Adds a failure, and returns the same as [`note`](Attempts::note). A failure is identified by its time. Therefore
    /// the new failure gets a time that differs from the times of all unrecorded failures and of the recorded failures
    /// `recorded_failures`. If the writer is slow or cannot write, only as many failures are retained as are needed to
    /// lock the account.
    pub(crate) fn note_failure(&self, id: EntryId, now: i64, recorded_failures: &[i64]) -> bool {
        let mut accounts = self.lock();
        let account = match accounts.len() >= UNWRITTEN_ACCOUNTS_MAX {
            true => accounts.get_mut(&id),
            false => Some(accounts.entry(id).or_default()),
        };
        let Some(Unrecorded { waiting, writing, is_queued }) = account else { return false };
        if waiting.failures.len() < FAILURES_NOTED_MAX {
            let writing = writing.as_ref().map_or(&[][..], |writing| &writing.failures);
            let is_taken =
                |time| [&waiting.failures, writing, recorded_failures].iter().any(|of| of.contains(&time));
            let time = (now..).find(|time| !is_taken(*time)).unwrap_or(now);
            waiting.failures.push(time);
        }
        !std::mem::replace(is_queued, true)
    }

    /// Records that the writer's queue was full. The next attempt on the account then submits a request again.
    pub(crate) fn not_queued(&self, id: EntryId) {
        if let Some(account) = self.lock().get_mut(&id) {
            account.is_queued = false;
        }
    }

    /// Moves the waiting update of an account to the writer's batch and returns it.
    pub(crate) fn take(&self, id: EntryId) -> AccountUpdate {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(&id) else { return AccountUpdate::default() };
        account.is_queued = false;
        let batch = std::mem::take(&mut account.waiting);
        match &mut account.writing {
            // The account occurs a second time in this batch. Both updates count until the batch is committed.
            Some(writing) => *writing = after(std::mem::take(writing), batch.clone()),
            None => account.writing = Some(batch.clone()),
        }
        batch
    }

    /// Ends the update that [`take`](Attempts::take) returned. If the update was not committed, it waits again.
    pub(crate) fn settle(&self, id: EntryId, is_committed: bool) {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(&id) else { return };
        let writing = account.writing.take();
        if let Some(failed) = writing.filter(|_| !is_committed) {
            account.waiting = after(failed, std::mem::take(&mut account.waiting));
        }
        if account.waiting == AccountUpdate::default() {
            accounts.remove(&id);
        }
    }

    /// Returns every account with unrecorded attempts, to record them before the server stops.
    pub(crate) fn all(&self) -> Vec<EntryId> {
        self.lock().keys().copied().collect()
    }

    /// The table is consistent before and after each step, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<EntryId, Unrecorded>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Merges two updates of an account.
fn after(earlier: AccountUpdate, later: AccountUpdate) -> AccountUpdate {
    let mut app_uses = earlier.app_uses;
    app_uses.retain(|(name, _)| later.app_uses.iter().all(|(newer, _)| newer != name));
    app_uses.extend(later.app_uses);
    let mut failures = if later.clears_failures { Vec::new() } else { earlier.failures };
    failures.extend_from_slice(&later.failures);
    AccountUpdate {
        failures,
        success: later.success.or(earlier.success),
        clears_failures: earlier.clears_failures || later.clears_failures,
        grace: later.grace.or(earlier.grace),
        totp_step: later.totp_step.or(earlier.totp_step),
        app_uses,
        rehashed: later.rehashed.or(earlier.rehashed),
        keys: later.keys.or(earlier.keys),
    }
}

impl Unrecorded {
    fn attempts(&self) -> UnrecordedAttempts {
        let writing = self.writing.as_ref().filter(|_| !self.waiting.clears_failures);
        let written = writing.map_or(&[][..], |writing| &writing.failures);
        UnrecordedAttempts {
            times: [written, &self.waiting.failures].concat(),
            ends_recorded: self.waiting.clears_failures
                || writing.is_some_and(|writing| writing.clears_failures),
            success: self.waiting.success.or(self.writing.as_ref().and_then(|writing| writing.success)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: EntryId = EntryId(7);

    #[test]
    fn failures_count_until_they_are_committed() {
        let attempts = Attempts::default();
        assert!(attempts.note(ID, |update| update.failures.push(1)), "the writer must be notified");
        assert!(!attempts.note(ID, |update| update.failures.push(2)), "once");
        assert_eq!(attempts.unrecorded(ID).times, [1, 2]);
        assert_eq!(attempts.take(ID).failures, [1, 2]);
        assert_eq!(attempts.unrecorded(ID).times, [1, 2], "failures count while they are written");
        assert!(attempts.note(ID, |update| update.failures.push(3)));
        assert_eq!(attempts.unrecorded(ID).times, [1, 2, 3]);
        attempts.settle(ID, true);
        assert_eq!(attempts.unrecorded(ID).times, [3]);
        assert_eq!(attempts.take(ID).failures, [3]);
        attempts.settle(ID, true);
        assert!(attempts.all().is_empty(), "no account remains");
    }

    /// Failures differ even if the clock stands still or is set back.
    #[test]
    fn distinguishes_failures_of_the_same_time() {
        let attempts = Attempts::default();
        assert!(attempts.note_failure(ID, 5, &[5]));
        assert!(!attempts.note_failure(ID, 5, &[5]));
        attempts.take(ID);
        assert!(attempts.note_failure(ID, 5, &[5]));
        assert!(!attempts.note_failure(ID, 3, &[5]));
        assert_eq!(attempts.unrecorded(ID).times, [6, 7, 8, 3]);
        for _ in 0..2 * FAILURES_NOTED_MAX {
            attempts.note_failure(ID, 5, &[]);
        }
        assert_eq!(attempts.take(ID).failures.len(), FAILURES_NOTED_MAX);
    }

    #[test]
    fn attempts_are_kept_after_a_failed_write() {
        let attempts = Attempts::default();
        attempts.note(ID, |update| update.failures.push(1));
        attempts.take(ID);
        attempts.note(ID, |update| update.failures.push(2));
        attempts.settle(ID, false);
        assert_eq!(attempts.unrecorded(ID).times, [1, 2]);
        assert_eq!(attempts.take(ID).failures, [1, 2]);
    }

    fn succeed(update: &mut AccountUpdate) {
        update.failures.clear();
        update.clears_failures = true;
    }

    #[test]
    fn a_success_clears_earlier_failures() {
        let attempts = Attempts::default();
        let ended =
            |times: &[i64]| UnrecordedAttempts { times: times.to_vec(), ends_recorded: true, success: None };
        attempts.note(ID, |update| update.failures.push(1));
        attempts.take(ID);
        attempts.note(ID, succeed);
        assert_eq!(attempts.unrecorded(ID), ended(&[]));
        attempts.settle(ID, true);
        assert_eq!(attempts.all(), [ID]);
        // At this point the failure is recorded, and the success is not.
        assert_eq!(attempts.unrecorded(ID), ended(&[]));
        attempts.note(ID, |update| update.failures.push(2));
        attempts.take(ID);
        assert_eq!(attempts.unrecorded(ID), ended(&[2]), "failures count while they are written");
        attempts.settle(ID, true);
        assert_eq!(attempts.unrecorded(ID), UnrecordedAttempts::default());
    }

    #[test]
    fn a_success_is_kept_after_a_failed_write() {
        let attempts = Attempts::default();
        attempts.note(ID, succeed);
        attempts.take(ID);
        // The account occurs twice in a batch.
        attempts.note(ID, |update| update.failures.push(1));
        attempts.take(ID);
        attempts.settle(ID, false);
        let waiting = attempts.take(ID);
        assert!(waiting.clears_failures && waiting.failures == [1], "{waiting:?}");
    }
}
