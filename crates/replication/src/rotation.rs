//! Which key is to come in force next. All of it follows from messages of the log, so every node holds the same.
//!
//! Somebody offers a new key; nodes get it from there and say that they have it; when most have, the writer puts it in
//! force. Whoever goes meanwhile may have it too, so that ends the offer, and a new key is due.

use std::collections::BTreeMap;

use crate::key::Fingerprint;
use crate::operation::NodeId;
use crate::rows::RowChange;

/// A new key that a node offers to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The offset of the message that says so.
    pub offset: u64,
    /// Who has made it.
    pub node: NodeId,
    /// Which key.
    pub fingerprint: Fingerprint,
    /// Where that node is reached.
    pub address: String,
}

/// What is known of the key to come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// A node went that has the key in force.
    pub(crate) is_due: bool,
    pub(crate) offered: Option<Offered>,
    /// Who has it, and where they are reached.
    pub(crate) holders: BTreeMap<NodeId, String>,
}

impl Rotation {
    /// Somebody offers another key.
    pub(crate) fn offer(&mut self, offered: Offered, rows: &mut Vec<RowChange>) {
        self.withdraw(rows);
        self.offered = Some(offered);
        rows.push(RowChange::rotation(self));
    }

    /// A node has it.
    pub(crate) fn hold(&mut self, node: NodeId, address: &str, rows: &mut Vec<RowChange>) {
        self.holders.insert(node, address.to_owned());
        rows.push(RowChange::holder(node, Some(address)));
    }

    /// A node is gone.
    pub(crate) fn gone(&mut self, rows: &mut Vec<RowChange>) {
        self.withdraw(rows);
        self.is_due = true;
        rows.push(RowChange::rotation(self));
    }

    /// The key that was offered is in force.
    pub(crate) fn done(&mut self, rows: &mut Vec<RowChange>) {
        self.withdraw(rows);
        self.is_due = false;
        rows.push(RowChange::rotation(self));
    }

    fn withdraw(&mut self, rows: &mut Vec<RowChange>) {
        self.offered = None;
        rows.extend(std::mem::take(&mut self.holders).into_keys().map(|node| RowChange::holder(node, None)));
    }
}
