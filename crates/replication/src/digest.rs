//! Comparison of nodes' data, to detect nodes whose data is wrong. Nodes that applied the same records must have the
//! same data, so they compare digests of the data at agreed positions.
//!
//! Digests cover the data that the log determines: entries, links, schema, settings. They do not cover index rows,
//! which each node builds at its own pace.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::codec::{Reader, put_length};
use crate::limits::{COMPARISONS_KEPT, DIGEST_PARTS_MAX};
use crate::operation::NodeId;

/// Digest of a set of rows, updated as rows are added and removed, in any order. The digest is the sum of the rows'
/// hashes. Each of the four 64-bit words of a hash is summed separately. The digest detects accidents, not attacks: an
/// attacker who can choose rows can construct two sets with equal digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollingDigest([u64; 4]);

impl RollingDigest {
    /// Adds a row.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.combine(key, value, u64::wrapping_add);
    }

    /// Removes a row; `value` is its former value.
    pub fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.combine(key, value, u64::wrapping_sub);
    }

    /// Encodes the digest in the form used in messages.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let lanes = bytes.chunks_exact_mut(8).zip(self.0);
        lanes.for_each(|(to, lane)| to.copy_from_slice(&lane.to_be_bytes()));
        bytes
    }

    pub(crate) fn of_bytes(bytes: [u8; 32]) -> RollingDigest {
        let mut reader = Reader(&bytes);
        RollingDigest(std::array::from_fn(|_| reader.u64().unwrap_or_default()))
    }

    fn combine(&mut self, key: &[u8], value: &[u8], combine: impl Fn(u64, u64) -> u64) {
        let length = (key.len() as u64).to_be_bytes();
        let hash = Sha256::new().chain_update(length).chain_update(key).chain_update(value).finalize();
        let mut reader = Reader(&hash);
        for lane in &mut self.0 {
            *lane = combine(*lane, reader.u64().unwrap_or_default());
        }
    }
}

/// Digests of a node at one position, by part of the data, such as a subtree.
pub type Parts = BTreeMap<String, RollingDigest>;

/// Encodes digests. Parts beyond the limit are left out.
pub(crate) fn put_parts(out: &mut Vec<u8>, parts: &Parts) {
    put_length(out, parts.len().min(DIGEST_PARTS_MAX));
    for (name, digest) in parts.iter().take(DIGEST_PARTS_MAX) {
        put_length(out, name.len());
        out.extend(name.as_bytes());
        out.extend(digest.to_bytes());
    }
}

/// Decodes the digests in the remaining bytes of a message.
pub(crate) fn read_parts(reader: &mut Reader<'_>) -> Option<Parts> {
    let count = usize::try_from(reader.u32()?).ok().filter(|count| *count <= DIGEST_PARTS_MAX)?;
    let mut parts = Parts::new();
    for _ in 0..count {
        let name = std::str::from_utf8(reader.bytes()?).ok()?.to_owned();
        parts.insert(name, RollingDigest::of_bytes(reader.array()?));
    }
    reader.end()?;
    (parts.len() == count).then_some(parts)
}

/// Result of comparing the digests at one position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// Nodes that differ from a majority of the registered nodes, with the parts in which they differ. These nodes stop
    /// serving.
    pub wrong: BTreeMap<NodeId, BTreeSet<String>>,
    /// Parts in which nodes differ and no majority agrees. No node stops; all nodes refuse changes and raise an
    /// alarm.
    pub disputed: BTreeSet<String>,
}

impl Divergence {
    /// Returns true if no nodes differ.
    pub fn is_empty(&self) -> bool {
        self.wrong.is_empty() && self.disputed.is_empty()
    }
}

/// Digests that nodes reported for the last digest barriers.
#[derive(Clone, Debug, Default)]
pub struct Comparison(BTreeMap<u64, BTreeMap<NodeId, Parts>>);

impl Comparison {
    /// Adds a digest barrier at the offset `mark`. Drops the oldest barrier if there are too many.
    pub fn begin(&mut self, mark: u64) {
        self.0.entry(mark).or_default();
        while self.0.len() > COMPARISONS_KEPT {
            self.0.pop_first();
        }
    }

    /// Records a node's digests for a digest barrier. Digests for unknown barriers are dropped.
    pub fn report(&mut self, node: NodeId, mark: u64, parts: Parts) {
        if let Some(reported) = self.0.get_mut(&mark) {
            reported.insert(node, parts);
        }
    }

    /// Returns true if all registered nodes have reported digests for a barrier.
    pub fn is_complete(&self, mark: u64, registered: &BTreeSet<NodeId>) -> bool {
        self.0.get(&mark).is_some_and(|reported| registered.iter().all(|node| reported.contains_key(node)))
    }

    /// Compares the digests reported for a barrier. `is_over` is true if no more reports are expected. While reports
    /// are missing and may still arrive, a dispute is not certain, so the result contains only nodes that differ from a
    /// majority. Returns `None` if there is no result yet.
    pub fn found(&self, mark: u64, registered: &BTreeSet<NodeId>, is_over: bool) -> Option<Divergence> {
        let reported = self.0.get(&mark)?;
        let found = compare(registered, reported);
        match self.is_complete(mark, registered) || is_over {
            true => Some(found),
            false if !found.wrong.is_empty() => Some(Divergence { disputed: BTreeSet::new(), ..found }),
            false => None,
        }
    }
}

/// Compares the digests that nodes reported for one position. A majority is more than half of all registered nodes,
/// whether or not they have reported. Reports of unregistered nodes are ignored.
pub fn compare(registered: &BTreeSet<NodeId>, reported: &BTreeMap<NodeId, Parts>) -> Divergence {
    let reported: Vec<(NodeId, &Parts)> = reported
        .iter()
        .filter(|(node, _)| registered.contains(node))
        .map(|(node, parts)| (*node, parts))
        .collect();
    let parts: BTreeSet<&String> = reported.iter().flat_map(|(_, parts)| parts.keys()).collect();
    let mut divergence = Divergence::default();
    for part in parts {
        // A node without the part differs from nodes that have it.
        let mut nodes: BTreeMap<Option<&RollingDigest>, Vec<NodeId>> = BTreeMap::new();
        reported.iter().for_each(|(node, parts)| nodes.entry(parts.get(part)).or_default().push(*node));
        if nodes.len() < 2 {
            continue;
        }
        let is_majority = |nodes: &Vec<NodeId>| nodes.len() * 2 > registered.len();
        if !nodes.values().any(is_majority) {
            divergence.disputed.insert(part.clone());
            continue;
        }
        for node in nodes.values().filter(|nodes| !is_majority(nodes)).flatten() {
            divergence.wrong.entry(*node).or_default().insert(part.clone());
        }
    }
    divergence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_the_rows_alone() {
        let (mut one, mut other) = (RollingDigest::default(), RollingDigest::default());
        one.add(b"a", b"1");
        one.add(b"b", b"2");
        other.add(b"b", b"2");
        other.add(b"c", b"3");
        assert_ne!(one, other);
        other.remove(b"c", b"3");
        other.add(b"a", b"1");
        assert_eq!(one, other);
        // The digest depends on the boundary between key and value, and on how often a row is added.
        let (mut ab, mut a) = (RollingDigest::default(), RollingDigest::default());
        ab.add(b"ab", b"");
        a.add(b"a", b"b");
        assert_ne!(ab, a);
        a.add(b"a", b"b");
        assert_ne!(a, RollingDigest::default());
    }

    fn registered(count: u32) -> BTreeSet<NodeId> {
        (1..=count).map(NodeId).collect()
    }

    /// Checks the comparison of one part. `reported` has the digests of nodes 1, 2, and so on; 0 means that the node
    /// does not have the part.
    fn check(count: u32, reported: &[u64], wrong: &[u32], is_disputed: bool) {
        let parts = |digest: u64| {
            let other = ("same".to_owned(), RollingDigest([1; 4]));
            let part = (digest != 0).then(|| ("dc=example".to_owned(), RollingDigest([digest; 4])));
            part.into_iter().chain([other]).collect()
        };
        let reported = (1..).map(NodeId).zip(reported.iter().map(|digest| parts(*digest))).collect();
        let found = compare(&registered(count), &reported);
        let names: BTreeSet<String> = BTreeSet::from(["dc=example".to_owned()]);
        assert_eq!(found.wrong, wrong.iter().map(|node| (NodeId(*node), names.clone())).collect());
        assert_eq!(found.disputed, if is_disputed { names } else { BTreeSet::new() });
        assert_eq!(found.is_empty(), wrong.is_empty() && !is_disputed);
    }

    #[test]
    fn a_majority_decides_before_all_nodes_have_reported() {
        let parts = |digest: u64| Parts::from([("dc=example".to_owned(), RollingDigest([digest; 4]))]);
        let mut comparison = Comparison::default();
        comparison.report(NodeId(1), 5, parts(7));
        assert_eq!(comparison.found(5, &registered(3), true), None, "there is no such mark");
        comparison.begin(5);
        comparison.report(NodeId(1), 5, parts(7));
        comparison.report(NodeId(2), 5, parts(8));
        assert_eq!(comparison.found(5, &registered(3), false), None);
        let disputed = comparison.found(5, &registered(3), true).expect("the time limit has passed");
        assert!(disputed.wrong.is_empty() && disputed.disputed.len() == 1);
        comparison.report(NodeId(3), 5, parts(8));
        let found = comparison.found(5, &registered(3), false).expect("all nodes have reported");
        assert_eq!(found.wrong.keys().copied().collect::<Vec<_>>(), [NodeId(1)]);
        // Four of five nodes are a majority.
        comparison.report(NodeId(4), 5, parts(8));
        let found = comparison.found(5, &registered(5), false).expect("a majority has reported");
        assert!(found.wrong.contains_key(&NodeId(1)) && found.disputed.is_empty());
        (6..10).for_each(|mark| comparison.begin(mark));
        assert_eq!(comparison.found(5, &registered(3), true), None, "the barrier was dropped");
        assert_eq!(
            RollingDigest::of_bytes(RollingDigest([1, 2, 3, 4]).to_bytes()),
            RollingDigest([1, 2, 3, 4])
        );
    }

    #[test]
    fn a_minority_is_wrong_and_a_part_without_a_majority_is_disputed() {
        check(3, &[7, 7, 7], &[], false);
        check(3, &[7, 8, 7], &[2], false);
        check(3, &[7, 0, 7], &[2], false);
        check(3, &[7, 8, 9], &[], true);
        check(2, &[7, 8], &[], true);
        check(4, &[7, 7, 8, 8], &[], true);
        check(5, &[7, 8, 7, 9, 7], &[2, 4], false);
        // Two of five nodes have reported; they differ, and neither is a majority.
        check(5, &[7, 8], &[], true);
        check(5, &[7, 7], &[], false);
        // Reports of unregistered nodes are ignored.
        check(1, &[7, 8, 8], &[], false);
    }
}
