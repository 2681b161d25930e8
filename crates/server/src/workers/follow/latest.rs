//! The latest change of each entry, in the order of arrival.
//!
//! These changes are made later than they arrive. Each change contains the whole entry. Therefore a later change of an
//! entry replaces the earlier change. Otherwise the earlier change could be made last and undo the later change: an
//! entry that was added and then deleted would remain.

use std::collections::HashMap;
use std::sync::Arc;

use directory::follow::SourceChange;
use ldap::SyncUuid;

use crate::workers::writer::change_bytes;

/// Changes, at most one per entry.
#[derive(Default)]
pub(super) struct Latest {
    /// The changes in the order of arrival, with `None` in place of each replaced change.
    changes: Vec<Option<Arc<SourceChange>>>,
    places: HashMap<SyncUuid, usize>,
    bytes: usize,
}

impl Latest {
    /// Returns the number of changes.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the approximate size of the changes in memory, in octets.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a change at the end, and removes an earlier change of the same entry.
    pub(super) fn push(&mut self, change: Arc<SourceChange>) {
        self.remove(change.uuid());
        self.bytes += change_bytes(&change);
        self.places.insert(*change.uuid(), self.changes.len());
        self.changes.push(Some(change));
    }

    /// Removes the change of an entry.
    pub(super) fn remove(&mut self, uuid: &SyncUuid) {
        let place = self.places.remove(uuid);
        let change = place.and_then(|place| self.changes.get_mut(place)).and_then(Option::take);
        if let Some(change) = change {
            self.bytes -= change_bytes(&change);
        }
        if self.changes.len() > 64 && self.changes.len() > 2 * self.places.len() {
            self.close_gaps();
        }
    }

    /// Removes and returns all changes.
    pub(super) fn take(&mut self) -> Vec<Arc<SourceChange>> {
        std::mem::take(self).changes.into_iter().flatten().collect()
    }

    fn close_gaps(&mut self) {
        self.changes.retain(Option::is_some);
        let uuids = self.changes.iter().flatten().map(|change| *change.uuid());
        self.places = uuids.zip(0..).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use directory::follow::SourceEntry;

    fn entry(number: u8, dn: &str) -> Arc<SourceChange> {
        let (uuid, dn) = ([number; 16], dn.to_owned());
        Arc::new(SourceChange::Entry(SourceEntry { uuid, dn, attributes: Vec::new() }))
    }

    #[test]
    fn a_later_change_replaces_an_earlier_one() {
        let mut latest = Latest::default();
        latest.push(entry(1, "o=first"));
        latest.push(entry(2, "o=two"));
        latest.push(entry(1, "o=x"));
        assert_eq!(latest.len(), 2);
        let bytes = change_bytes(&entry(1, "o=x")) + change_bytes(&entry(2, "o=two"));
        assert_eq!(latest.bytes(), bytes);
        latest.push(Arc::new(SourceChange::Delete([2; 16])));
        assert_eq!(latest.take(), [entry(1, "o=x"), Arc::new(SourceChange::Delete([2; 16]))]);
        assert!(latest.is_empty());
        assert_eq!(latest.bytes(), 0);
    }

    #[test]
    fn memory_of_replaced_changes_is_bounded() {
        let mut latest = Latest::default();
        for round in 0..1_000 {
            latest.push(entry((round % 3) as u8, "o=x"));
            assert!(latest.changes.len() <= 65, "{round}");
        }
        let uuids: Vec<SyncUuid> = latest.take().iter().map(|change| *change.uuid()).collect();
        assert_eq!(uuids, [[1; 16], [2; 16], [0; 16]]);
    }
}
