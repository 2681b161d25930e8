//! Nodes that have left the cluster. Their certificates are valid for years, but other nodes refuse these certificates.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use replication::{Follower, NodeId};

/// Nodes that have left or were unregistered, according to the log.
#[derive(Debug, Default)]
pub(crate) struct FormerMembers(RwLock<BTreeSet<NodeId>>);

impl FormerMembers {
    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }

    /// Replaces the set by the nodes that have left according to the follower's state.
    pub(crate) fn set(&self, follower: &Follower) {
        let former = follower.members().filter(|(_, row)| row.has_left).map(|(node, _)| node).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = former;
    }

    pub(crate) fn add(&self, node: NodeId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(node);
    }
}
