//! Entries that a refresh has sent.
//!
//! After the refresh, slapd sends the changes that were made during the refresh, each with the entry as it was after
//! the change. The refresh may already have sent a later state of the entry. The copy recognizes such messages by their
//! entryCSN and skips them. The older state may not even fit into the copy, because the superior in its name was
//! renamed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use ldap::SyncUuid;

use super::cookie;
use crate::limits::follow::FOLLOW_NEWEST_MAX;

/// Entries that the refresh has sent or has named as unchanged.
#[derive(Default)]
pub(super) struct Refresh {
    seen: HashSet<SyncUuid>,
    /// The sent entries with the greatest entryCSNs.
    newest: BinaryHeap<Reverse<(String, SyncUuid)>>,
}

impl Refresh {
    /// Records an entry that was sent, and its entryCSN.
    pub(super) fn sent(&mut self, uuid: SyncUuid, csn: Option<String>) {
        self.seen.insert(uuid);
        let Some(csn) = csn else { return };
        self.newest.push(Reverse((csn, uuid)));
        if self.newest.len() > FOLLOW_NEWEST_MAX {
            self.newest.pop();
        }
    }

    /// Records entries that were named as unchanged.
    pub(super) fn named(&mut self, uuids: &[SyncUuid]) {
        self.seen.extend(uuids);
    }

    /// Removes an entry that was deleted after it was sent.
    pub(super) fn deleted(&mut self, uuid: &SyncUuid) {
        self.seen.remove(uuid);
    }

    pub(super) fn contains(&self, uuid: &SyncUuid) -> bool {
        self.seen.contains(uuid)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Returns the entries that were sent with changes after `cookie`, with their entryCSNs. Only slapd sends such
    /// changes again.
    pub(super) fn newer_than(self, cookie: &[u8]) -> HashMap<SyncUuid, String> {
        let newest = self.newest.into_iter().map(|Reverse((csn, uuid))| (uuid, csn));
        newest.filter(|(_, csn)| cookie::lacks(cookie, csn)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_lists_entries_changed_after_the_cookie() {
        let mut refresh = Refresh::default();
        let csn = |second: u32| format!("202611270900{second:02}.000001Z#000000#000#000000");
        for second in 0..9_u8 {
            refresh.sent([second; 16], Some(csn(second.into())));
        }
        refresh.sent([9; 16], None);
        refresh.named(&[[10; 16]]);
        refresh.deleted(&[8; 16]);
        assert!(refresh.contains(&[10; 16]) && !refresh.contains(&[8; 16]) && !refresh.is_empty());
        let newer = refresh.newer_than(format!("rid=1,csn={}", csn(6)).as_bytes());
        assert_eq!(newer, HashMap::from([([7; 16], csn(7)), ([8; 16], csn(8))]));
        let mut refresh = Refresh::default();
        refresh.sent([1; 16], Some(csn(1)));
        assert_eq!(refresh.newer_than(b"csn=20261127090000.000001Z#0#000#0,data=0011"), HashMap::new());
    }
}
