//! [`SnapshotMap`]: a sorted map in memory that can be cloned at no cost. A clone is a snapshot: readers use their own
//! clones while one writer changes its own.
//!
//! The map is a copy-on-write B+ tree of reference-counted nodes. A clone shares all nodes. A change copies the shared
//! nodes on its path and changes the other nodes in place, so only the first change of a batch in each leaf copies that
//! leaf. Items are never removed: the value of a deleted row marks it as deleted.

#![expect(
    clippy::indexing_slicing,
    reason = "a node has at least one item, and each place comes from a search in its node"
)]

use std::borrow::Borrow;
use std::ops::Bound;
use std::sync::Arc;

/// Maximum number of items of a leaf and of children of an inner node. A larger width makes copying a leaf slower and
/// finding an item faster.
const WIDTH: usize = 32;

/// A sorted map. Cloning it costs nothing.
#[derive(Debug)]
pub(crate) struct SnapshotMap<K, V> {
    root: Option<Arc<Node<K, V>>>,
}

#[derive(Debug, Clone)]
enum Node<K, V> {
    /// At least one item, in ascending order.
    Leaf(Vec<(K, V)>),
    /// At least one child, each with the lowest key below it. The key of the first child is not used.
    Inner(Vec<(K, Arc<Node<K, V>>)>),
}

impl<K, V> Clone for SnapshotMap<K, V> {
    fn clone(&self) -> SnapshotMap<K, V> {
        SnapshotMap { root: self.root.clone() }
    }
}

impl<K, V> Default for SnapshotMap<K, V> {
    fn default() -> SnapshotMap<K, V> {
        SnapshotMap { root: None }
    }
}

impl<K, V> SnapshotMap<K, V> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the value of a key.
    #[inline]
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => node = &children[child_of(children, key)].1,
                Node::Leaf(items) => {
                    let place = items.binary_search_by(|(there, _)| there.borrow().cmp(key)).ok()?;
                    return Some(&items[place].1);
                }
            }
        }
    }

    /// Returns a cursor without an item.
    pub(crate) fn cursor(&self) -> SnapshotMapCursor<'_, K, V> {
        SnapshotMapCursor { root: self.root.as_deref(), leaf: &[], place: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> SnapshotMap<K, V> {
    /// Returns the value of a key. If the key is missing, `absent` creates the value.
    pub(crate) fn slot(&mut self, key: K, absent: impl FnOnce() -> V) -> &mut V {
        let root = self.root.get_or_insert_with(|| Arc::new(Node::Leaf(Vec::with_capacity(WIDTH))));
        if root.is_full() {
            let left = Arc::clone(root);
            let lowest = left.lowest().clone();
            *root = Arc::new(Node::Inner(vec![(lowest, left)]));
        }
        let mut node = Arc::make_mut(root);
        loop {
            match node {
                Node::Leaf(items) => {
                    let place = match items.binary_search_by(|(there, _)| there.cmp(&key)) {
                        Ok(place) => place,
                        Err(place) => {
                            items.insert(place, (key, absent()));
                            place
                        }
                    };
                    return &mut items[place].1;
                }
                Node::Inner(children) => {
                    let mut at = child_of(children, &key);
                    // Full nodes are divided on the way down, so the parent of a full child always has room for one
                    // more child.
                    if children[at].1.is_full() {
                        let (lowest, right) = Arc::make_mut(&mut children[at].1).divide(&key);
                        if key >= lowest {
                            at += 1;
                            children.insert(at, (lowest, right));
                        } else {
                            children.insert(at + 1, (lowest, right));
                        }
                    }
                    node = Arc::make_mut(&mut children[at].1);
                }
            }
        }
    }
}

impl<K, V> Node<K, V> {
    fn is_full(&self) -> bool {
        match self {
            Node::Leaf(items) => items.len() >= WIDTH,
            Node::Inner(children) => children.len() >= WIDTH,
        }
    }

    /// Returns a key that is not above any key below this node. Call it only for the root or a first child.
    fn lowest(&self) -> &K {
        match self {
            Node::Leaf(items) => &items[0].0,
            Node::Inner(children) => &children[0].0,
        }
    }
}

impl<K: Ord + Clone, V: Clone> Node<K, V> {
    /// Keeps the lower half, and returns the upper half with its lowest key. But if `key` is above all keys of the
    /// node, only the last item is moved. So nodes remain nearly full when keys are added in ascending order.
    fn divide(&mut self, key: &K) -> (K, Arc<Node<K, V>>) {
        fn cut<K: Ord, T>(rows: &mut Vec<(K, T)>, key: &K) -> Vec<(K, T)> {
            let is_after_all = rows.last().is_some_and(|(last, _)| key > last);
            let at = if is_after_all { rows.len() - 1 } else { rows.len() / 2 };
            let mut upper = Vec::with_capacity(WIDTH);
            upper.extend(rows.drain(at..));
            upper
        }
        match self {
            Node::Leaf(items) => {
                let upper = cut(items, key);
                (upper[0].0.clone(), Arc::new(Node::Leaf(upper)))
            }
            Node::Inner(children) => {
                let upper = cut(children, key);
                (upper[0].0.clone(), Arc::new(Node::Inner(upper)))
            }
        }
    }
}

/// Returns the index of the child that would contain `key`.
#[inline]
fn child_of<K: Borrow<Q>, Q: Ord + ?Sized, T>(children: &[(K, T)], key: &Q) -> usize {
    children.partition_point(|(lowest, _)| lowest.borrow() <= key).saturating_sub(1)
}

/// Cursor over the items of a tree.
#[derive(Debug)]
pub(crate) struct SnapshotMapCursor<'t, K, V> {
    root: Option<&'t Node<K, V>>,
    /// Leaf of the current item; empty if there is none.
    leaf: &'t [(K, V)],
    place: usize,
}

impl<'t, K: Ord, V> SnapshotMapCursor<'t, K, V> {
    /// Returns the item at the cursor.
    #[inline]
    pub(crate) fn item(&self) -> Option<&'t (K, V)> {
        self.leaf.get(self.place)
    }

    /// Moves to the first item within a lower bound.
    pub(crate) fn seek<Q: Ord + ?Sized>(&mut self, low: Bound<&Q>)
    where
        K: Borrow<Q>,
    {
        (self.leaf, self.place) = self.first_within(low).unwrap_or_default();
    }

    /// Moves to the last item within an upper bound.
    pub(crate) fn seek_back<Q: Ord + ?Sized>(&mut self, high: Bound<&Q>)
    where
        K: Borrow<Q>,
    {
        (self.leaf, self.place) = self.last_within(high).unwrap_or_default();
    }

    /// Moves to the next item.
    pub(crate) fn next(&mut self) {
        if self.place + 1 < self.leaf.len() {
            self.place += 1;
        } else if let Some((key, _)) = self.item() {
            self.seek(Bound::Excluded(key));
        }
    }

    /// Moves to the previous item.
    pub(crate) fn back(&mut self) {
        if self.place > 0 {
            self.place -= 1;
        } else if let Some((key, _)) = self.item() {
            self.seek_back(Bound::Excluded(key));
        }
    }

    fn first_within<Q: Ord + ?Sized>(&self, low: Bound<&Q>) -> Option<(&'t [(K, V)], usize)>
    where
        K: Borrow<Q>,
    {
        let below = |key: &K| match low {
            Bound::Included(low) => key.borrow() < low,
            Bound::Excluded(low) => key.borrow() <= low,
            Bound::Unbounded => false,
        };
        let mut node = self.root?;
        // The node after the found leaf. It is used if the leaf has no item within the bound.
        let mut following: Option<&'t Node<K, V>> = None;
        loop {
            match node {
                Node::Inner(children) => {
                    let at = children.partition_point(|(lowest, _)| below(lowest)).saturating_sub(1);
                    following = children.get(at + 1).map(|(_, next)| &**next).or(following);
                    node = &children[at].1;
                }
                Node::Leaf(items) => {
                    let place = items.partition_point(|(key, _)| below(key));
                    if place < items.len() {
                        return Some((items, place));
                    }
                    break;
                }
            }
        }
        let mut node = following?;
        loop {
            match node {
                Node::Inner(children) => node = &children[0].1,
                Node::Leaf(items) => return Some((items, 0)),
            }
        }
    }

    fn last_within<Q: Ord + ?Sized>(&self, high: Bound<&Q>) -> Option<(&'t [(K, V)], usize)>
    where
        K: Borrow<Q>,
    {
        let within = |key: &K| match high {
            Bound::Included(high) => key.borrow() <= high,
            Bound::Excluded(high) => key.borrow() < high,
            Bound::Unbounded => true,
        };
        // The parent has the lowest key of every child except the first. So the child found contains an item within the
        // bound, unless the first child was taken at every level.
        let mut node = self.root?;
        loop {
            match node {
                Node::Inner(children) => {
                    let at = children.partition_point(|(lowest, _)| within(lowest)).saturating_sub(1);
                    node = &children[at].1;
                }
                Node::Leaf(items) => {
                    let place = items.partition_point(|(key, _)| within(key)).checked_sub(1)?;
                    return Some((items, place));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn forward(tree: &SnapshotMap<u32, u32>, low: Bound<&u32>) -> Vec<(u32, u32)> {
        let mut cursor = tree.cursor();
        cursor.seek(low);
        let mut items = Vec::new();
        while let Some(item) = cursor.item() {
            items.push(*item);
            cursor.next();
        }
        items
    }

    fn backward(tree: &SnapshotMap<u32, u32>, high: Bound<&u32>) -> Vec<(u32, u32)> {
        let mut cursor = tree.cursor();
        cursor.seek_back(high);
        let mut items = Vec::new();
        while let Some(item) = cursor.item() {
            items.push(*item);
            cursor.back();
        }
        items
    }

    fn compare(tree: &SnapshotMap<u32, u32>, model: &BTreeMap<u32, u32>, probes: &[u32]) {
        for key in probes {
            assert_eq!(tree.get(key), model.get(key), "{key}");
            for bound in [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded] {
                let above = model.range((bound, Bound::Unbounded)).map(|(key, value)| (*key, *value));
                assert_eq!(forward(tree, bound), above.collect::<Vec<_>>(), "from {bound:?}");
                let below = model.range((Bound::Unbounded, bound)).rev().map(|(key, value)| (*key, *value));
                assert_eq!(backward(tree, bound), below.collect::<Vec<_>>(), "back from {bound:?}");
            }
        }
    }

    #[test]
    fn agrees_with_a_map_and_clones_do_not_change() {
        for (seed, keys) in [(1, 40), (2, 700), (3, 20_000)] {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut tree, mut model) = (SnapshotMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for step in 0..6_000u32 {
                let key = match seed {
                    3 if step % 2 == 0 => step,
                    _ => random.u32(0..keys),
                };
                *tree.slot(key, || 0) += step;
                *model.entry(key).or_insert(0) += step;
                if step % 1_500 == 700 {
                    copies.push((tree.clone(), model.clone()));
                }
            }
            copies.push((tree, model));
            for (tree, model) in &copies {
                let probes: Vec<u32> = (0..40).map(|_| random.u32(0..keys + 2)).chain([0, keys]).collect();
                compare(tree, model, &probes);
            }
        }
    }

    #[test]
    fn agrees_with_a_map_for_ascending_and_descending_keys() {
        for ascending in [true, false] {
            let (mut tree, mut model) = (SnapshotMap::default(), BTreeMap::new());
            for step in 0..5_000u32 {
                let key = if ascending { step } else { 5_000 - step };
                *tree.slot(key, || key) = key;
                model.insert(key, key);
            }
            compare(&tree, &model, &[0, 1, 2_500, 4_999, 5_000, 5_001]);
        }
    }

    #[test]
    fn an_empty_map_contains_nothing() {
        let tree = SnapshotMap::<u32, u32>::default();
        assert!(tree.is_empty() && tree.get(&1).is_none());
        compare(&tree, &BTreeMap::new(), &[0, 7]);
    }
}
