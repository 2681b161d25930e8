//! State of a node for `cn=monitor` and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use directory::csn::generalized_time;
use replication::{MemberRow, NodeId, Round};

use crate::limits::FAILURE_NOTED;

/// State of a node, as its thread last reported it.
#[derive(Debug, Default)]
pub struct Figures(Mutex<NodeState>);

/// Activity of a node in its cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activity {
    /// The node is looking for its position in the log.
    #[default]
    Connecting,
    /// The node applies changes that another node decides.
    Following,
    /// The node has claimed to be the writer.
    Claiming,
    /// The node decides changes.
    Writing,
    /// The node does not know whether it is still the writer.
    Doubtful,
    /// The node is waiting for something that it lacks: a key, or disk space.
    Waiting,
    /// The node has stopped reading the log and does not resume.
    Stopped,
}

impl Activity {
    /// Returns the name of the activity in metrics.
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

/// State of a node; see [`Figures`].
#[derive(Debug, Clone, Default)]
pub struct NodeState {
    /// This node's number.
    pub node: u32,
    /// Address at which other nodes reach this node.
    pub address: String,
    /// Generation of the data. Positions of different generations cannot be compared.
    pub generation: [u8; 16],
    /// Present activity.
    pub activity: Activity,
    /// The activity as text for people, with the cause if the node has stopped or waits.
    pub role: String,
    /// The node that is the writer at present.
    pub writer: Option<NodeId>,
    /// Epoch of the writer.
    pub epoch: u64,
    /// Time at which this node received the claim of the epoch, in seconds since 1970.
    pub epoch_since: u64,
    /// Offset of the next message to read.
    pub next_offset: u64,
    /// Offset after the last message of the log, as last reported.
    pub end_offset: u64,
    /// Offset of the log's first message, as last reported.
    pub start_offset: u64,
    /// Approximate bytes of the log on each broker.
    pub log_bytes: u64,
    /// Growth of the log on each broker in bytes a day; `None` if it cannot be estimated yet.
    pub log_bytes_per_day: Option<u64>,
    /// Approximate bytes of the log that may be deleted.
    pub deletable_bytes: u64,
    /// Last snapshot that this node made by itself: the offset of the last message in the snapshot, and the time of the
    /// snapshot in seconds since 1970. If the snapshot failed, contains the reason.
    pub snapshot: Option<Result<(u64, u64), String>>,
    /// Time of the node's last deletion from the log, in seconds since 1970, or the reason why the deletion failed.
    pub trimmed: Option<Result<u64, String>>,
    /// All nodes, according to the log.
    pub members: Vec<(NodeId, MemberRow)>,
    /// Offset before which the log may be deleted, or the reason why nothing may be deleted.
    pub deletable: Option<Result<u64, String>>,
    /// Seconds since the append time of the last message that this node has read. 0 if it has read all messages.
    pub lag_seconds: u64,
    /// Reason why the last attempt to reach the log failed.
    pub unreachable: Option<String>,
    /// Reason why changes are refused: nodes differ, and no majority of them agrees.
    pub disputed: Option<String>,
    /// Time and reason of the last change that the log or the writer did not accept. `None` if a later change was
    /// accepted.
    pub failed_change: Option<(Instant, String)>,
    /// Number of changes that wait on this node.
    pub waiting: u64,
    /// Number of applied groups that other nodes decided.
    pub groups_followed: u64,
    /// Number of groups that this node decided.
    pub groups_decided: u64,
    /// Number of groups that this node decided and dropped because another node had become the writer.
    pub groups_dropped: u64,
    /// Number of changes of this node's clients that other nodes decided.
    pub forwarded: u64,
    /// Offset of the last digest barrier at which this node computed digests, and one digest over all parts of the
    /// slice that was compared.
    pub digest: Option<(u64, String)>,
    /// Progress of the round of comparisons.
    pub round: Round,
    /// Feature level in force.
    pub level: u64,
    /// Number of the key in force.
    pub key: u32,
    /// Number of the offered key.
    pub key_offered: Option<u32>,
    /// Whether this node seals the groups that it writes.
    pub seals: bool,
    /// Number of sealed groups that this node has read.
    pub groups_sealed: u64,
    /// Number of messages that require an administrator's attention.
    pub alarms: u64,
}

impl NodeState {
    /// Returns the number of messages of the log that this node has not applied.
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

    /// Returns the reason why the node has stopped; `None` if it has not.
    pub fn stopped(&self) -> Option<String> {
        let state = self.lock();
        (state.activity == Activity::Stopped).then(|| state.role.clone())
    }

    /// Returns the reason why changes should be routed to another node; `None` if there is no reason. A failed change
    /// is a reason for a limited time only: without further changes, nothing would show that the node accepts changes
    /// again.
    pub fn refusal(&self, now: Instant) -> Option<String> {
        let state = self.lock();
        if let Some(reason) = &state.unreachable {
            return Some(format!("this node cannot reach the log of its cluster: {reason}"));
        }
        match state.activity {
            Activity::Connecting => return Some("this node looks for its place in the log".to_owned()),
            Activity::Waiting => return Some(format!("this node makes no changes: {}", state.role)),
            _ => {}
        }
        if let Some(text) = &state.disputed {
            return Some(text.clone());
        }
        let (at, reason) = state.failed_change.as_ref()?;
        (now.saturating_duration_since(*at) < FAILURE_NOTED)
            .then(|| format!("the cluster did not take a change of this node: {reason}"))
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
    fn a_stopped_node_reports_the_cause() {
        let figures = Figures::default();
        assert_eq!(figures.stopped(), None, "it connects");
        figures.lock().activity = Activity::Waiting;
        assert_eq!(figures.stopped(), None);
        figures.lock().activity = Activity::Stopped;
        figures.lock().role = "stopped: the log lost messages".to_owned();
        assert_eq!(figures.stopped().as_deref(), Some("stopped: the log lost messages"));
    }

    #[test]
    fn a_node_that_cannot_make_changes_reports_the_reason() {
        let (figures, now) = (Figures::default(), Instant::now());
        let refusal = |at| figures.refusal(at).unwrap_or_default();
        assert!(refusal(now).contains("looks for its place"));
        figures.lock().activity = Activity::Following;
        assert_eq!(figures.refusal(now), None);
        figures.lock().failed_change = Some((now, "the writer does not answer".to_owned()));
        assert!(refusal(now).contains("the writer does not answer"));
        assert_eq!(figures.refusal(now + FAILURE_NOTED), None, "the next change shows it");
        figures.lock().disputed = Some("nodes differ".to_owned());
        assert_eq!(refusal(now), "nodes differ");
        figures.lock().unreachable = Some("timed out".to_owned());
        assert!(refusal(now).ends_with("timed out"));
    }
}
