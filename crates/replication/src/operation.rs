//! Ids of nodes and of operations.

/// Number of a node of the cluster. It is assigned when the node joins and never given to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Unique id of an operation. The node that received it from the client assigns it; every retry has the same id.
///
/// Ids of a node are ordered by assignment: by incarnation, then by sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    /// Node that received the operation from the client.
    pub node: NodeId,
    /// Number of the start of that node's process; grows with every start.
    pub incarnation: u64,
    /// Number of the operation in that incarnation.
    pub sequence: u64,
}
