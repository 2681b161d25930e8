//! What of the log may be deleted. Kafka deletes nothing by itself (the topic's retention is -1, checked at a start):
//! this decides, and one node has the log delete it.

use std::collections::BTreeMap;

use crate::operation::NodeId;

/// How many machines must have a verified snapshot before anything is deleted: one may burn.
pub const SNAPSHOT_MACHINES_MIN: usize = 2;

/// A snapshot that a node could begin from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Where it is kept.
    pub machine: String,
    /// [`Cursor::offset`](crate::Cursor::offset) of its rows.
    pub offset: u64,
    /// Whether somebody has read it back whole.
    pub is_verified: bool,
}

/// Why the log is kept whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Kept {
    /// No node is registered: nobody knows who reads.
    #[error("no node is registered")]
    NoNodes,
    /// Nobody knows how far a registered node has come. If it is lost for good, it is to be unregistered.
    #[error("{0} has never told how far it has come")]
    Unheard(NodeId),
    /// A node that loses its disk might find nothing to begin from.
    #[error("{machines} machines have a verified snapshot, {SNAPSHOT_MACHINES_MIN} must")]
    TooFewSnapshots {
        /// How many have.
        machines: usize,
    },
}

/// The offset before which everything may be deleted. The message at it stays: it is what a start looks for. Registered
/// nodes come with the offset of their last durable commit.
///
/// # Errors
/// Nothing may be deleted.
pub fn deletable_before(nodes: &[(NodeId, Option<u64>)], snapshots: &[Snapshot]) -> Result<u64, Kept> {
    let mut slowest = None;
    for (node, offset) in nodes {
        let offset = offset.ok_or(Kept::Unheard(*node))?;
        slowest = Some(slowest.map_or(offset, |slowest: u64| slowest.min(offset)));
    }
    let slowest = slowest.ok_or(Kept::NoNodes)?;
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.is_verified) {
        let offset = newest.entry(&snapshot.machine).or_default();
        *offset = snapshot.offset.max(*offset);
    }
    let machines = newest.len();
    let mut offsets: Vec<u64> = newest.into_values().collect();
    offsets.sort_unstable_by(|one, other| other.cmp(one));
    let second = offsets.get(SNAPSHOT_MACHINES_MIN - 1).ok_or(Kept::TooFewSnapshots { machines })?;
    Ok(slowest.min(*second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(machine: &str, offset: u64, is_verified: bool) -> Snapshot {
        Snapshot { machine: machine.to_owned(), offset, is_verified }
    }

    #[test]
    fn the_slowest_node_and_the_second_snapshot_keep_the_log() {
        let node = |id, offset| (NodeId(id), offset);
        let nodes = [node(1, Some(90)), node(2, Some(70))];
        let check = |snapshots: &[Snapshot], expected| {
            assert_eq!(deletable_before(&nodes, snapshots), expected);
        };
        let [a, b, c] = [snapshot("a", 80, true), snapshot("b", 60, true), snapshot("c", 75, true)];
        check(&[a.clone(), c.clone()], Ok(70));
        check(&[a.clone(), b.clone()], Ok(60));
        check(&[b.clone(), c.clone(), a.clone()], Ok(70));
        // An older one of the same machine does not count, and one that nobody has read does not at all.
        check(&[a.clone(), snapshot("a", 79, true)], Err(Kept::TooFewSnapshots { machines: 1 }));
        check(&[a.clone(), snapshot("b", 79, false)], Err(Kept::TooFewSnapshots { machines: 1 }));
        check(&[b, snapshot("b", 85, true), a.clone()], Ok(70));
        check(&[], Err(Kept::TooFewSnapshots { machines: 0 }));
        let both = [a, c];
        assert_eq!(
            deletable_before(&[node(1, Some(90)), node(3, None)], &both),
            Err(Kept::Unheard(NodeId(3)))
        );
        assert_eq!(deletable_before(&[], &both), Err(Kept::NoNodes));
        assert_eq!(deletable_before(&[node(1, Some(90))], &both), Ok(75));
    }
}
