//! Nodes that do not belong to the cluster any longer. Their certificates are good for years; nobody lets them in.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use replication::{Follower, NodeId};

/// See above. The log says who they are.
#[derive(Debug, Default)]
pub(crate) struct Gone(RwLock<BTreeSet<NodeId>>);

impl Gone {
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }

    /// As a follower's state says.
    pub(crate) fn set(&self, follower: &Follower) {
        let gone = follower.members().filter(|(_, row)| row.is_gone).map(|(node, _)| node).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = gone;
    }

    pub(crate) fn add(&self, node: NodeId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(node);
    }
}
