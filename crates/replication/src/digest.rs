//! Whether nodes that applied the same records have the same data: digests at agreed positions, and who is wrong.
//!
//! Only what follows from the log is digested: entries, links, schema, settings, never index rows, which each node
//! builds in its own time.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::codec::Reader;
use crate::limits::COMPARISONS_KEPT;
use crate::operation::NodeId;

/// A digest of a set of rows that follows changes: rows are added and taken away in any order. It is the sum of the
/// rows' hashes, lane by lane. That notices accidents; somebody who may choose rows can make two sets with one digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollingDigest([u64; 4]);

impl RollingDigest {
    /// A row comes.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.combine(key, value, u64::wrapping_add);
    }

    /// A row goes: with the value that it had.
    pub fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.combine(key, value, u64::wrapping_sub);
    }

    /// As it stands in messages.
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

/// The digests of a node at one position, by part of the data, such as a subtree.
pub type Parts = BTreeMap<String, RollingDigest>;

/// What the digests of one position come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// Nodes that differ from a majority of the registered ones, with the parts in which they do. They stop serving.
    pub wrong: BTreeMap<NodeId, BTreeSet<String>>,
    /// Parts in which nodes differ and no majority agrees. Nobody stops, changes are refused, all alarm.
    pub disputed: BTreeSet<String>,
}

impl Divergence {
    /// Whether nobody differs from anybody.
    pub fn is_empty(&self) -> bool {
        self.wrong.is_empty() && self.disputed.is_empty()
    }
}

/// What nodes have told of the last marks.
#[derive(Clone, Debug, Default)]
pub struct Comparison(BTreeMap<u64, BTreeMap<NodeId, Parts>>);

impl Comparison {
    /// There is a mark at this offset. The oldest known one is forgotten.
    pub fn begin(&mut self, mark: u64) {
        self.0.entry(mark).or_default();
        while self.0.len() > COMPARISONS_KEPT {
            self.0.pop_first();
        }
    }

    /// A node tells of its data at a mark. Of marks that are not known any more nothing is kept.
    pub fn tell(&mut self, node: NodeId, mark: u64, parts: Parts) {
        if let Some(told) = self.0.get_mut(&mark) {
            told.insert(node, parts);
        }
    }

    /// Whether all of these nodes have told of a mark.
    pub fn is_told(&self, mark: u64, registered: &BTreeSet<NodeId>) -> bool {
        self.0.get(&mark).is_some_and(|told| registered.iter().all(|node| told.contains_key(node)))
    }

    /// What the digests at a mark come to: those that all registered nodes have told, or where no more are to come. As
    /// long as some are to come nobody knows of a dispute, but a node that a majority contradicts is wrong already.
    /// `None` where nothing can be said.
    pub fn found(&self, mark: u64, registered: &BTreeSet<NodeId>, is_over: bool) -> Option<Divergence> {
        let told = self.0.get(&mark)?;
        let found = compare(registered, told);
        match self.is_told(mark, registered) || is_over {
            true => Some(found),
            false if !found.wrong.is_empty() => Some(Divergence { disputed: BTreeSet::new(), ..found }),
            false => None,
        }
    }
}

/// Compares what nodes have told of one position. A majority is one of all registered nodes, whether they have told or
/// not; what others tell is not looked at.
pub fn compare(registered: &BTreeSet<NodeId>, told: &BTreeMap<NodeId, Parts>) -> Divergence {
    let told: Vec<(NodeId, &Parts)> = told
        .iter()
        .filter(|(node, _)| registered.contains(node))
        .map(|(node, parts)| (*node, parts))
        .collect();
    let parts: BTreeSet<&String> = told.iter().flat_map(|(_, parts)| parts.keys()).collect();
    let mut divergence = Divergence::default();
    for part in parts {
        // A node that does not have the part at all differs from those that have.
        let mut nodes: BTreeMap<Option<&RollingDigest>, Vec<NodeId>> = BTreeMap::new();
        told.iter().for_each(|(node, parts)| nodes.entry(parts.get(part)).or_default().push(*node));
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
        // Where the key ends matters, and how often a row is there.
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

    /// What each node, from 1 on, has of one part; 0 for none.
    fn check(count: u32, told: &[u64], wrong: &[u32], is_disputed: bool) {
        let parts = |digest: u64| {
            let other = ("same".to_owned(), RollingDigest([1; 4]));
            let part = (digest != 0).then(|| ("dc=example".to_owned(), RollingDigest([digest; 4])));
            part.into_iter().chain([other]).collect()
        };
        let told = (1..).map(NodeId).zip(told.iter().map(|digest| parts(*digest))).collect();
        let found = compare(&registered(count), &told);
        let names: BTreeSet<String> = BTreeSet::from(["dc=example".to_owned()]);
        assert_eq!(found.wrong, wrong.iter().map(|node| (NodeId(*node), names.clone())).collect());
        assert_eq!(found.disputed, if is_disputed { names } else { BTreeSet::new() });
        assert_eq!(found.is_empty(), wrong.is_empty() && !is_disputed);
    }

    #[test]
    fn a_comparison_waits_for_all_but_not_to_find_who_is_wrong() {
        let parts = |digest: u64| Parts::from([("dc=example".to_owned(), RollingDigest([digest; 4]))]);
        let mut comparison = Comparison::default();
        comparison.tell(NodeId(1), 5, parts(7));
        assert_eq!(comparison.found(5, &registered(3), true), None, "there is no such mark");
        comparison.begin(5);
        comparison.tell(NodeId(1), 5, parts(7));
        comparison.tell(NodeId(2), 5, parts(8));
        assert_eq!(comparison.found(5, &registered(3), false), None);
        let disputed = comparison.found(5, &registered(3), true).expect("no more is to come");
        assert!(disputed.wrong.is_empty() && disputed.disputed.len() == 1);
        comparison.tell(NodeId(3), 5, parts(8));
        let found = comparison.found(5, &registered(3), false).expect("all have told");
        assert_eq!(found.wrong.keys().copied().collect::<Vec<_>>(), [NodeId(1)]);
        // Four of five are enough to know.
        comparison.tell(NodeId(4), 5, parts(8));
        let found = comparison.found(5, &registered(5), false).expect("a majority has told");
        assert!(found.wrong.contains_key(&NodeId(1)) && found.disputed.is_empty());
        (6..10).for_each(|mark| comparison.begin(mark));
        assert_eq!(comparison.found(5, &registered(3), true), None, "it is forgotten");
        assert_eq!(
            RollingDigest::of_bytes(RollingDigest([1, 2, 3, 4]).to_bytes()),
            RollingDigest([1, 2, 3, 4])
        );
    }

    #[test]
    fn a_minority_is_wrong_and_without_a_majority_nobody_is() {
        check(3, &[7, 7, 7], &[], false);
        check(3, &[7, 8, 7], &[2], false);
        check(3, &[7, 0, 7], &[2], false);
        check(3, &[7, 8, 9], &[], true);
        check(2, &[7, 8], &[], true);
        check(4, &[7, 7, 8, 8], &[], true);
        check(5, &[7, 8, 7, 9, 7], &[2, 4], false);
        // Two of five have told: they differ, and neither is a majority yet.
        check(5, &[7, 8], &[], true);
        check(5, &[7, 7], &[], false);
        // Who is not registered has no voice.
        check(1, &[7, 8, 8], &[], false);
    }
}
