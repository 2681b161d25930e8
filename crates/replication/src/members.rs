//! Members of the cluster, and the progress that each has announced. Messages of the log determine this state, so it is
//! the same on every node.

use std::collections::BTreeMap;

use crate::limits::MEMBERS_MAX;
use crate::message::{Announcement, Member};
use crate::operation::NodeId;
use crate::retention::{self, RetentionReason, Snapshot};
use crate::rows::{MemberRow, RowChange};

/// All nodes that ever announced themselves, including those that have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    nodes: BTreeMap<NodeId, MemberRow>,
    /// Feature level in force.
    level: u64,
}

impl Members {
    pub(crate) fn load(&mut self, node: NodeId, row: MemberRow) {
        self.nodes.insert(node, row);
    }

    pub(crate) fn load_level(&mut self, level: u64) {
        self.level = level;
    }

    /// Returns the feature level in force: the highest level that all nodes supported at some time. It never falls.
    pub(crate) fn level(&self) -> u64 {
        self.level.max(1)
    }

    /// Returns the whole state as rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = RowChange> {
        let nodes = self.nodes.iter().map(|(node, row)| RowChange::member(*node, row));
        nodes.chain((self.level > 0).then(|| RowChange::level(self.level)))
    }

    pub(crate) fn has_left(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|row| row.has_left)
    }

    /// Returns true if the node has announced itself and has not left.
    pub(crate) fn is_present(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|row| !row.has_left)
    }

    pub(crate) fn has_room(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node) || self.nodes.len() < MEMBERS_MAX
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, MemberRow)> {
        self.nodes.iter().map(|(node, row)| (*node, *row))
    }

    /// Applies an announcement. Announced offsets never decrease, so a late or repeated announcement of an offset has
    /// no effect.
    pub(crate) fn take(&mut self, member: &Member, rows: &mut Vec<RowChange>) {
        let row = self.nodes.entry(member.node).or_default();
        match member.announcement {
            Announcement::Durable(offset) => row.durable = row.durable.max(Some(offset)),
            Announcement::Snapshot(offset) => row.snapshot = row.snapshot.max(Some(offset)),
            Announcement::Left => *row = MemberRow { has_left: true, ..MemberRow::default() },
            // A node's level may decrease, because the node may run an older build again.
            Announcement::Level(level) => row.level = level,
        }
        rows.push(RowChange::member(member.node, row));
        let present = self.nodes.values().filter(|row| !row.has_left);
        let of_all = present.map(|row| row.level).min().unwrap_or_default();
        if of_all > self.level() {
            self.level = of_all;
            rows.push(RowChange::level(of_all));
        }
    }

    /// Returns the offset before which the log may be deleted.
    pub(crate) fn deletable_before(&self) -> Result<u64, RetentionReason> {
        let present = || self.iter().filter(|(_, row)| !row.has_left);
        let nodes: Vec<_> = present().map(|(node, row)| (node, row.durable)).collect();
        // Each node counts as one machine.
        let snapshots: Vec<_> = present()
            .filter_map(|(node, row)| {
                Some(Snapshot { machine: node.to_string(), offset: row.snapshot?, is_verified: true })
            })
            .collect();
        retention::deletable_before(&nodes, &snapshots)
    }
}
