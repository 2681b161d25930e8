//! Settings of a node, from the table `[cluster]` of its node file.

use std::path::PathBuf;

/// Settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// `host:port` of some of Kafka's brokers, separated by commas.
    pub brokers: String,
    /// Topic that is the cluster's log.
    pub topic: String,
    /// Address on which the node listens for other nodes, `host:port`.
    pub listen: String,
    /// Address at which other nodes reach this one, if it differs from `listen`.
    pub address: Option<String>,
    /// Folder with the node's identity.
    pub keys: PathBuf,
    /// Milliseconds without a heartbeat after which another node becomes the writer.
    pub session_timeout_ms: Option<u32>,
    /// Milliseconds for which Kafka retries an append.
    pub append_timeout_ms: Option<u32>,
    /// Milliseconds that a change waits before its client is refused.
    pub change_timeout_ms: Option<u32>,
    /// Minutes between comparisons of a slice of the data of all nodes; 0 disables comparisons.
    pub compare_minutes: Option<u32>,
    /// Maximum bytes of rows in a slice.
    pub compare_bytes: Option<u32>,
    /// Whether this node seals the groups that it writes.
    pub seal: bool,
    /// Folder for the snapshots that the node makes by itself.
    pub snapshots: Option<PathBuf>,
    /// Minutes between snapshots.
    pub snapshot_minutes: Option<u32>,
    /// Further settings of the clients of Kafka: names and values.
    pub kafka: Vec<(String, String)>,
}
