//! Rotation to the next key of the cluster. Its state follows from messages of the log, so every node has the same
//! state.
//!
//! A node offers a new key. Other nodes fetch the key and announce that they have it. When most nodes have it, the
//! writer puts it in force. If a node leaves before that, the leaving node may have the offered key. The offer then
//! ends, and a new key must be offered.

use std::collections::BTreeMap;

use crate::operation::NodeId;
use crate::rows::{OfferedKey, RowChange};

/// State of the change to the next key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// Whether a new key is due, because a node that has the present key has left.
    pub(crate) is_due: bool,
    pub(crate) offered: Option<OfferedKey>,
    /// Nodes that have the offered key, with their addresses.
    pub(crate) holders: BTreeMap<NodeId, String>,
}

impl Rotation {
    /// Records the offer of a key. The offer replaces an earlier offer.
    pub(crate) fn offer(&mut self, offered: OfferedKey, rows: &mut Vec<RowChange>) {
        self.withdraw(rows);
        self.offered = Some(offered);
        rows.push(RowChange::rotation(self.is_due, self.offered.as_ref()));
    }

    /// Records that a node has the offered key.
    pub(crate) fn hold(&mut self, node: NodeId, address: &str, rows: &mut Vec<RowChange>) {
        self.holders.insert(node, address.to_owned());
        rows.push(RowChange::holder(node, Some(address)));
    }

    /// Records that a node has left.
    pub(crate) fn node_left(&mut self, rows: &mut Vec<RowChange>) {
        self.withdraw(rows);
        self.is_due = true;
        rows.push(RowChange::rotation(self.is_due, self.offered.as_ref()));
    }

    /// Records that the offered key is in force now.
    pub(crate) fn done(&mut self, rows: &mut Vec<RowChange>) {
        self.withdraw(rows);
        self.is_due = false;
        rows.push(RowChange::rotation(self.is_due, self.offered.as_ref()));
    }

    fn withdraw(&mut self, rows: &mut Vec<RowChange>) {
        self.offered = None;
        rows.extend(std::mem::take(&mut self.holders).into_keys().map(|node| RowChange::holder(node, None)));
    }
}
