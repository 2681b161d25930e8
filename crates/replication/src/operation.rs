//! Nodes and the operations that they bring.

/// A node of the cluster: its number, given at its registration and never to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// What tells an operation from every other. The node that a client asked gives it; every retry keeps it.
///
/// Ordered as the node gave them: by incarnation, then by sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    /// The node that the client asked.
    pub node: NodeId,
    /// Which start of that node's process it was; grows with every start.
    pub incarnation: u64,
    /// Counts the operations of that incarnation.
    pub sequence: u64,
}
