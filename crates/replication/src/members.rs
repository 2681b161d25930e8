//! Who belongs to the cluster, and how far each has told that it has come. All of it follows from messages of the log,
//! so every node holds the same.

use std::collections::BTreeMap;

use crate::limits::MEMBERS_MAX;
use crate::message::{Member, News};
use crate::operation::NodeId;
use crate::retention::{self, Kept, Snapshot};
use crate::rows::RowChange;

/// What is known of a node of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberRow {
    /// It left, or was unregistered: it is nobody any longer, for ever.
    pub is_gone: bool,
    /// The offset of the last durable commit that it has told.
    pub durable: Option<u64>,
    /// The offset of the newest verified snapshot on its machine.
    pub snapshot: Option<u64>,
}

/// All nodes that were ever heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(BTreeMap<NodeId, MemberRow>);

impl Members {
    pub(crate) fn load(&mut self, node: NodeId, row: MemberRow) {
        self.0.insert(node, row);
    }

    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        self.0.get(&node).is_some_and(|row| row.is_gone)
    }

    pub(crate) fn has_room(&self, node: NodeId) -> bool {
        self.0.contains_key(&node) || self.0.len() < MEMBERS_MAX
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, MemberRow)> {
        self.0.iter().map(|(node, row)| (*node, *row))
    }

    /// What the news come to. Offsets only grow, so that news which come late or twice change nothing.
    pub(crate) fn take(&mut self, member: &Member, rows: &mut Vec<RowChange>) {
        let row = self.0.entry(member.node).or_default();
        match member.news {
            News::Durable(offset) => row.durable = row.durable.max(Some(offset)),
            News::Snapshot(offset) => row.snapshot = row.snapshot.max(Some(offset)),
            News::Gone => *row = MemberRow { is_gone: true, durable: None, snapshot: None },
        }
        rows.push(RowChange::member(member.node, row));
    }

    /// The offset before which the log may be deleted.
    pub(crate) fn deletable_before(&self) -> Result<u64, Kept> {
        let present = || self.iter().filter(|(_, row)| !row.is_gone);
        let nodes: Vec<_> = present().map(|(node, row)| (node, row.durable)).collect();
        // A node's number stands for its machine.
        let snapshots: Vec<_> = present()
            .filter_map(|(node, row)| {
                Some(Snapshot { machine: node.to_string(), offset: row.snapshot?, is_verified: true })
            })
            .collect();
        retention::deletable_before(&nodes, &snapshots)
    }
}
