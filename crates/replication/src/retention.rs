//! Rules for deleting messages of the log. Kafka itself deletes nothing, because the topic's retention is -1. Every
//! node checks this setting when it starts. The writer requests a deletion when these rules permit it.

use std::collections::BTreeMap;

use crate::operation::NodeId;

/// Number of machines that must have a verified snapshot before anything is deleted, so that one machine may be lost.
pub const SNAPSHOT_MACHINES_MIN: usize = 2;

/// Snapshot from which a node can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Machine that stores the snapshot.
    pub machine: String,
    /// [`Cursor::offset`](crate::Cursor::offset) of the snapshot's rows.
    pub offset: u64,
    /// Whether the snapshot was read back completely.
    pub is_verified: bool,
}

/// Reason why nothing of the log may be deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionReason {
    /// No node is registered, so the readers of the log are unknown.
    #[error("no node is registered")]
    NoNodes,
    /// A registered node has never announced its offset. If the node no longer exists, an administrator must unregister
    /// it.
    #[error("{0} has never announced how far it has read")]
    Unheard(NodeId),
    /// Too few machines have a verified snapshot. A node that loses its disk might find no snapshot to start from.
    #[error("{machines} machines have a verified snapshot, {SNAPSHOT_MACHINES_MIN} must")]
    TooFewSnapshots {
        /// Number of machines with a verified snapshot.
        machines: usize,
    },
}

/// Returns the offset before which all messages may be deleted. The message at that offset remains, because a starting
/// node looks for it. `nodes` are the registered nodes with the offsets of their last durable commits.
///
/// # Errors
/// Nothing may be deleted; the error is the reason.
pub fn deletable_before(
    nodes: &[(NodeId, Option<u64>)],
    snapshots: &[Snapshot],
) -> Result<u64, RetentionReason> {
    let mut slowest = None;
    for (node, offset) in nodes {
        let offset = offset.ok_or(RetentionReason::Unheard(*node))?;
        slowest = Some(slowest.map_or(offset, |slowest: u64| slowest.min(offset)));
    }
    let slowest = slowest.ok_or(RetentionReason::NoNodes)?;
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.is_verified) {
        let offset = newest.entry(&snapshot.machine).or_default();
        *offset = snapshot.offset.max(*offset);
    }
    let machines = newest.len();
    let mut offsets: Vec<u64> = newest.into_values().collect();
    offsets.sort_unstable_by(|one, other| other.cmp(one));
    let second =
        offsets.get(SNAPSHOT_MACHINES_MIN - 1).ok_or(RetentionReason::TooFewSnapshots { machines })?;
    Ok(slowest.min(*second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(machine: &str, offset: u64, is_verified: bool) -> Snapshot {
        Snapshot { machine: machine.to_owned(), offset, is_verified }
    }

    #[test]
    fn the_slowest_node_and_the_second_snapshot_limit_deletion() {
        let node = |id, offset| (NodeId(id), offset);
        let nodes = [node(1, Some(90)), node(2, Some(70))];
        let check = |snapshots: &[Snapshot], expected| {
            assert_eq!(deletable_before(&nodes, snapshots), expected);
        };
        let [a, b, c] = [snapshot("a", 80, true), snapshot("b", 60, true), snapshot("c", 75, true)];
        check(&[a.clone(), c.clone()], Ok(70));
        check(&[a.clone(), b.clone()], Ok(60));
        check(&[b.clone(), c.clone(), a.clone()], Ok(70));
        // A second snapshot of the same machine and an unverified snapshot do not count.
        check(&[a.clone(), snapshot("a", 79, true)], Err(RetentionReason::TooFewSnapshots { machines: 1 }));
        check(&[a.clone(), snapshot("b", 79, false)], Err(RetentionReason::TooFewSnapshots { machines: 1 }));
        check(&[b, snapshot("b", 85, true), a.clone()], Ok(70));
        check(&[], Err(RetentionReason::TooFewSnapshots { machines: 0 }));
        let both = [a, c];
        assert_eq!(
            deletable_before(&[node(1, Some(90)), node(3, None)], &both),
            Err(RetentionReason::Unheard(NodeId(3)))
        );
        assert_eq!(deletable_before(&[], &both), Err(RetentionReason::NoNodes));
        assert_eq!(deletable_before(&[node(1, Some(90))], &both), Ok(75));
    }
}
