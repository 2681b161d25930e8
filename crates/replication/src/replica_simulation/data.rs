//! Data of a server: records, lineage and role. All of it is durable.

use std::fmt;

use crate::lineage::Lineage;
use crate::replica::{EpochName, RetainedLog};

/// Number of a server.
pub(super) type ServerId = usize;

/// Role of a data directory, as in the crate `directory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Replica,
    Replaced(EpochName),
    Promoted { supplier: ServerId },
}

impl Role {
    pub(super) fn may_write(self) -> bool {
        matches!(self, Role::Writer | Role::Promoted { .. })
    }

    /// Returns the epoch for which the server has stopped.
    pub(super) fn replaced_by(self) -> Option<EpochName> {
        match self {
            Role::Replaced(epoch) => Some(epoch),
            _ => None,
        }
    }
}

/// Data directory.
#[derive(Clone)]
pub(super) struct Data {
    /// Numbers of the changes, by position. A record contains only the number of its change.
    changes: Vec<u64>,
    /// Digest of all records up to each position, beginning with that of no records.
    digests: Vec<u64>,
    /// Position of the oldest record in the log.
    pub(super) first: u64,
    pub(super) lineage: Lineage,
    pub(super) role: Role,
}

impl Data {
    pub(super) fn new(role: Role) -> Data {
        Data { changes: Vec::new(), digests: vec![0], first: 1, lineage: Lineage::default(), role }
    }

    pub(super) fn position(&self) -> u64 {
        self.changes.len() as u64
    }

    pub(super) fn retained_log(&self) -> RetainedLog {
        RetainedLog { first: self.first, newest: self.position() }
    }

    pub(super) fn append(&mut self, change: u64) {
        let before = self.digests.last().copied().unwrap_or(0);
        // The order of records counts.
        let digest = (before.rotate_left(23) ^ change).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.changes.push(change);
        self.digests.push(digest);
    }

    /// Returns the digest of all records up to `position`; `None` if the data ends before.
    pub(super) fn digest(&self, position: u64) -> Option<u64> {
        self.digests.get(usize::try_from(position).ok()?).copied()
    }

    /// Returns the change at `position`.
    pub(super) fn change(&self, position: u64) -> Option<u64> {
        self.changes.get(usize::try_from(position.checked_sub(1)?).ok()?).copied()
    }

    /// Returns the records of the log from `first` on, `count` at most. If the log was trimmed, they begin later.
    pub(super) fn records(&self, first: u64, count: usize) -> Vec<u64> {
        self.changes.iter().skip(first.max(self.first) as usize - 1).take(count).copied().collect()
    }

    pub(super) fn has(&self, change: u64) -> bool {
        self.changes.contains(&change)
    }

    /// Returns true if all records of `other` are the first records of this data.
    pub(super) fn begins_with(&self, other: &Data) -> bool {
        self.digest(other.position()) == other.digest(other.position())
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epochs: Vec<String> = self
            .lineage
            .epochs()
            .iter()
            .map(|epoch| format!("{:02x?} at {}", &epoch.id[..2], epoch.from))
            .collect();
        let position = self.position();
        write!(
            out,
            "({:?}, records {} to {position}, {:x?}, {epochs:?})",
            self.role,
            self.first,
            self.digest(position)
        )
    }
}
