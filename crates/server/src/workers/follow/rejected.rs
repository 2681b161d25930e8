//! Entries of the other server that could not be copied.

use std::collections::HashSet;

use directory::Outcome;
use directory::follow::SourceChange;
use ldap::SyncUuid;

use crate::limits::follow::FOLLOW_REJECTED_MAX;

/// Entries that could not be copied. Each is logged once.
#[derive(Default)]
pub(super) struct Rejected {
    uuids: HashSet<SyncUuid>,
    /// Number of entries that are not in the set, because it is full.
    more: u64,
}

impl Rejected {
    pub(super) fn count(&self) -> u64 {
        self.uuids.len() as u64 + self.more
    }

    /// Returns true if the set contains the entry.
    pub(super) fn contains(&self, uuid: &SyncUuid) -> bool {
        self.uuids.contains(uuid)
    }

    /// Makes the count at least 1, so that the next connection starts without a cookie.
    pub(super) fn add_unknown(&mut self) {
        self.more = self.more.max(1);
    }

    /// Records that a change of the entry was made.
    pub(super) fn remove(&mut self, uuid: &SyncUuid) {
        self.uuids.remove(uuid);
    }

    /// Records that a change of the entry was refused.
    pub(super) fn add(&mut self, change: &SourceChange, outcome: &Outcome) {
        if self.uuids.len() >= FOLLOW_REJECTED_MAX {
            self.more += 1;
            return;
        }
        if !self.uuids.insert(*change.uuid()) {
            return;
        }
        let (code, reason) = (outcome.code, &outcome.diagnostic);
        match change {
            SourceChange::Entry(entry) => {
                tracing::warn!(entry = entry.dn, %code, "an entry of the source is not copied: {reason}");
            }
            SourceChange::Delete(_) => {
                tracing::warn!(%code, "an entry is not deleted as in the source: {reason}")
            }
        }
    }
}
