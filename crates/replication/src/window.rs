//! Applied operations: the highest operation ids of each node, and a floor. Ids up to the floor are not stored. The
//! accepted groups determine this state, so it is the same on every node.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{IDS_PER_NODE, NODES_MAX};
use crate::message::{Claim, Records};
use crate::operation::{NodeId, OperationId};
use crate::rows::{NodeRow, RowChange};

/// Knowledge about an operation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStatus {
    /// No accepted group has a record of the operation.
    New,
    /// A record of the operation is in the log. The writer answers a retry and does not apply it again.
    Applied {
        /// Position of the record.
        position: u64,
    },
    /// The id is not above the floor. The operation is refused as unavailable and never applied.
    TooOld,
}

/// Applied operations and claims, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    nodes: BTreeMap<NodeId, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    row: NodeRow,
    /// Positions of the operations, by incarnation and sequence. Contains exactly the applied ids above the floor.
    applied: BTreeMap<(u64, u64), u64>,
}

impl Window {
    pub(crate) fn load_node(&mut self, id: NodeId, row: NodeRow) {
        self.nodes.entry(id).or_default().row = row;
    }

    pub(crate) fn load_operation(&mut self, operation: OperationId, position: u64) {
        let node = self.nodes.entry(operation.node).or_default();
        node.applied.insert((operation.incarnation, operation.sequence), position);
    }

    pub(crate) fn operation(&self, operation: &OperationId) -> OperationStatus {
        let Some(node) = self.nodes.get(&operation.node) else { return OperationStatus::New };
        let number = (operation.incarnation, operation.sequence);
        match node.applied.get(&number) {
            Some(&position) => OperationStatus::Applied { position },
            None if number <= node.row.floor => OperationStatus::TooOld,
            None => OperationStatus::New,
        }
    }

    pub(crate) fn knows(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    /// Returns true if the operation of every record is new, and no two records of the group have the same operation.
    /// If `may_have_transactions` is true, adjacent records may have the same operation.
    pub(crate) fn are_new(&self, records: &Records<'_>, may_have_transactions: bool) -> bool {
        let mut ids: Vec<OperationId> = records.iter().map(|record| record.operation).collect();
        if may_have_transactions {
            ids.dedup();
        }
        ids.sort_unstable();
        let are_distinct = ids.windows(2).all(|pair| !matches!(pair, [one, other] if one == other));
        are_distinct && ids.iter().all(|operation| self.operation(operation) == OperationStatus::New)
    }

    /// Returns true if ids of the records' nodes are stored already, or there is room for the new nodes.
    pub(crate) fn has_room(&self, records: &Records<'_>) -> bool {
        let ids = records.iter().map(|record| record.operation.node);
        let unknown: BTreeSet<NodeId> = ids.filter(|node| !self.knows(*node)).collect();
        self.nodes.len() + unknown.len() <= NODES_MAX
    }

    /// Adds the records of an accepted group. The first record has `position`. A transaction gets the position of its
    /// last record.
    pub(crate) fn apply(&mut self, records: &Records<'_>, mut position: u64, rows: &mut Vec<RowChange>) {
        for record in records.iter() {
            let operation = record.operation;
            let node = self.nodes.entry(operation.node).or_default();
            node.applied.insert((operation.incarnation, operation.sequence), position);
            rows.push(RowChange::operation(&operation, Some(position)));
            if node.applied.len() > IDS_PER_NODE
                && let Some((lowest, _)) = node.applied.pop_first()
            {
                node.row.floor = lowest;
                let lowest = OperationId { node: operation.node, incarnation: lowest.0, sequence: lowest.1 };
                rows.push(RowChange::operation(&lowest, None));
                rows.push(RowChange::node(operation.node, &node.row));
            }
            position = position.saturating_add(1);
        }
    }

    /// Returns true if the claim is newer than its node's last claim. The first claim of a node requires room for the
    /// node.
    pub(crate) fn takes_claim(&self, claim: &Claim) -> bool {
        match self.nodes.get(&claim.node) {
            Some(node) => (claim.incarnation, claim.attempt) > node.row.claim,
            None => self.nodes.len() < NODES_MAX,
        }
    }

    pub(crate) fn claim(&mut self, claim: &Claim, rows: &mut Vec<RowChange>) {
        let node = self.nodes.entry(claim.node).or_default();
        node.row.claim = (claim.incarnation, claim.attempt);
        rows.push(RowChange::node(claim.node, &node.row));
    }
}
