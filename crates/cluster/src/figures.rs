//! State of a node for `cn=monitor` and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use directory::csn::generalized_time;
use replication::{MemberRow, NodeId, Round};

/// State of a node, as its thread last reported it.
#[derive(Debug, Default)]
pub struct Figures(Mutex<NodeState>);

/// Activity of a node in its cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activity {
    /// It looks for its place in the log.
    #[default]
    Connecting,
    /// It applies what others decide.
    Following,
    /// It is about to write.
    Claiming,
    /// It decides changes.
    Writing,
    /// It does not know whether it still writes.
    Doubtful,
    /// It goes on when it has what it lacks: a key, or room on its disk.
    Waiting,
    /// It takes no more of the log, for good.
    Stopped,
}

impl Activity {
    /// The word for it, as metrics have it.
    pub fn word(self) -> &'static str {
        match self {
            Activity::Connecting => "connecting",
            Activity::Following => "following",
            Activity::Claiming => "claiming",
            Activity::Writing => "writing",
            Activity::Doubtful => "doubtful",
            Activity::Waiting => "waiting",
            Activity::Stopped => "stopped",
        }
    }
}

/// See [`Figures`].
#[derive(Debug, Clone, Default)]
pub struct NodeState {
    /// This node's number.
    pub node: u32,
    /// Address at which other nodes reach it.
    pub address: String,
    /// Generation of the data, which positions belong to.
    pub generation: [u8; 16],
    /// Present activity.
    pub activity: Activity,
    /// The same for people, with the cause if it has stopped or waits.
    pub role: String,
    /// The node that writes.
    pub writer: Option<NodeId>,
    /// Its epoch.
    pub epoch: u64,
    /// Time at which this node learned of the epoch, in seconds since 1970.
    pub epoch_since: u64,
    /// The offset of the next message to read.
    pub next_offset: u64,
    /// The offset that the next message of the log gets, as last heard.
    pub end_offset: u64,
    /// The offset of the log's first message, as last heard.
    pub start_offset: u64,
    /// About what the log takes on each broker, and by how much that grows in a day.
    pub log_bytes: u64,
    /// See `log_bytes`.
    pub log_bytes_per_day: Option<u64>,
    /// Approximate bytes of the log that may be deleted.
    pub deletable_bytes: u64,
    /// The last snapshot that this node made by itself: up to which offset, and when, in seconds since 1970.
    pub snapshot: Option<Result<(u64, u64), String>>,
    /// Time of the node's last deletion from the log, in seconds since 1970, or why it failed.
    pub trimmed: Option<Result<u64, String>>,
    /// All nodes, as the log says.
    pub members: Vec<(NodeId, MemberRow)>,
    /// The offset before which the log may be deleted, or why not.
    pub deletable: Option<Result<u64, String>>,
    /// For how many seconds the messages that this node lacks have been there.
    pub lag_seconds: u64,
    /// Reason for which the last try to reach the log failed.
    pub unreachable: Option<String>,
    /// Changes that wait here.
    pub waiting: u64,
    /// Groups applied that another node decided.
    pub groups_followed: u64,
    /// Groups that this node decided.
    pub groups_decided: u64,
    /// Groups that were decided and dropped, because another node wrote by then.
    pub groups_dropped: u64,
    /// Changes that other nodes decided for clients of this one.
    pub forwarded: u64,
    /// At which mark the data was last summed up, and what it came to.
    pub digest: Option<(u64, String)>,
    /// Progress of the round of comparisons.
    pub round: Round,
    /// The feature level in force.
    pub level: u64,
    /// The number of the key in force, and of the one that is offered.
    pub key: u32,
    /// See `key`.
    pub key_offered: Option<u32>,
    /// Whether the groups that this node would write are sealed, and how many that it read were.
    pub seals: bool,
    /// See `seals`.
    pub groups_sealed: u64,
    /// Messages that are a matter for an operator.
    pub alarms: u64,
}

impl NodeState {
    /// Messages of the log that this node has not applied.
    pub fn lag_messages(&self) -> u64 {
        self.end_offset.saturating_sub(self.next_offset)
    }

    /// Returns the attributes of the root DSE by which a client chooses a node.
    pub fn root_dse(&self) -> Vec<(&'static str, Vec<String>)> {
        let mut own = vec![
            ("pandoClusterNode", vec![self.node.to_string()]),
            ("pandoClusterRole", vec![self.role.clone()]),
        ];
        if let Some(writer) = self.writer {
            own.push(("pandoClusterWriter", vec![writer.0.to_string()]));
            own.push(("pandoClusterEpoch", vec![self.epoch.to_string()]));
        }
        if self.epoch_since > 0 {
            own.push(("pandoClusterLastFailover", vec![generalized_time(self.epoch_since)]));
        }
        own.push(("pandoClusterLagMessages", vec![self.lag_messages().to_string()]));
        own.push(("pandoClusterLagSeconds", vec![self.lag_seconds.to_string()]));
        own
    }
}

impl Figures {
    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the description of the node's state if it has stopped.
    pub fn stopped(&self) -> Option<String> {
        let state = self.lock();
        (state.activity == Activity::Stopped).then(|| state.role.clone())
    }

    /// Returns a copy of the state.
    pub fn get(&self) -> NodeState {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_stopped_says_why() {
        let figures = Figures::default();
        assert_eq!(figures.stopped(), None, "it connects");
        figures.lock().activity = Activity::Waiting;
        assert_eq!(figures.stopped(), None);
        figures.lock().activity = Activity::Stopped;
        figures.lock().role = "stopped: the log lost messages".to_owned();
        assert_eq!(figures.stopped().as_deref(), Some("stopped: the log lost messages"));
    }
}
