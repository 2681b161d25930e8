//! Ids under frequent keys, collected before they are sorted.
//!
//! Most index rows add one entry to a key that thousands of entries share: a gram, a surname, a class set. A thread
//! reads its entries in ascending order of ids, so the ids under a key need no sorting. [`IdCollector`] collects the
//! ids in a table of limited size. The collector passes the ids to the sorter in blocks under their key:
//!
//! ```text
//!  first id (8, big-endian) | difference to the next (varint) | ...
//! ```
//!
//! A key that occurs again soon stays in the table. Other keys are evicted early, so their blocks contain few ids.
//! Blocks are sorted by their first ids. Blocks of several threads overlap, so [`IdMerger`] merges them into one
//! ascending list. A block never spans more than [`SPAN_MAX`] ids. This bound limits the number of blocks that
//! overlap.

#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "masks, SPAN_MAX and the sizes of a place bound every number"
)]

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

type Result<T> = std::result::Result<T, store::StoreError>;

/// Maximum distance from the first to the last id of a block.
const SPAN_MAX: u64 = 1 << 16;

/// Maximum length of a key in the table.
const KEY_MAX: usize = 46;

/// Maximum size of the differences in a block, in bytes.
const DIFFERENCES_SIZE: usize = 184;

/// Maximum size of one encoded difference, in bytes. A difference is at most [`SPAN_MAX`].
const DIFFERENCE_SIZE_MAX: usize = 3;

/// Number of places in a set. A key can be in any place of one set.
const ASSOCIATIVITY: usize = 4;

/// Maximum number of sets in a table. A table with more sets would not fit into the processor's caches.
const SETS_MAX: usize = 4_096;

/// Maximum strength of a key: the number of times that other keys must claim the key's place before the key is
/// evicted.
const STRENGTH_MAX: u8 = 32;

/// A key and the ids collected under it.
#[derive(Clone)]
struct CollectedKey {
    first: u64,
    last: u64,
    key_len: u8,
    /// Number of bytes in use in `differences`.
    used: u8,
    key: [u8; KEY_MAX],
    differences: [u8; DIFFERENCES_SIZE],
}

const EMPTY: CollectedKey = CollectedKey {
    first: 0,
    last: 0,
    key_len: 0,
    used: 0,
    key: [0; KEY_MAX],
    differences: [0; DIFFERENCES_SIZE],
};

/// Summary of the keys in a set's places. The summary suffices to detect that a key is not in the table. Rare keys are
/// usually not in the table.
#[derive(Clone, Default)]
struct Set {
    /// Part of the hash of each place's key; 0 for an empty place.
    tags: [u32; ASSOCIATIVITY],
    /// Strength of each place's key: the number of times that other keys must claim the place before the key is
    /// evicted.
    strengths: [u8; ASSOCIATIVITY],
}

/// A table of frequent keys.
pub(super) struct IdCollector {
    sets: Vec<Set>,
    /// The places of all sets. Each set has [`ASSOCIATIVITY`] adjacent places.
    places: Vec<CollectedKey>,
    set_count_max: usize,
}

impl IdCollector {
    /// Returns a table that uses up to `memory` bytes.
    pub(super) fn new(memory: usize) -> IdCollector {
        let sets = memory / (ASSOCIATIVITY * size_of::<CollectedKey>());
        let set_count_max = if sets == 0 { 0 } else { 1 << sets.min(SETS_MAX).ilog2() };
        IdCollector { sets: Vec::new(), places: Vec::new(), set_count_max }
    }

    /// Adds an id under a key. `out` receives evicted content, which is a key and a block of ids.
    pub(super) fn push(
        &mut self,
        key: &[u8],
        id: u64,
        out: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        if key.is_empty() || key.len() > KEY_MAX || self.set_count_max == 0 {
            return out(key, &id.to_be_bytes());
        }
        if self.sets.is_empty() {
            self.sets = vec![Set::default(); self.set_count_max];
            self.places = vec![EMPTY; self.set_count_max * ASSOCIATIVITY];
        }
        let (number, tag) = self.hash(key);
        let set = &mut self.sets[number];
        let places = &mut self.places[number * ASSOCIATIVITY..][..ASSOCIATIVITY];
        for (way, place) in places.iter_mut().enumerate() {
            if set.tags[way] == tag && place.key[..usize::from(place.key_len)] == *key {
                set.strengths[way] = (set.strengths[way] + 1).min(STRENGTH_MAX);
                return place.add(id, out);
            }
        }
        let weakest = (1..ASSOCIATIVITY)
            .fold(0, |weakest, way| if set.strengths[way] < set.strengths[weakest] { way } else { weakest });
        if set.strengths[weakest] > 1 {
            set.strengths[weakest] -= 1;
            return out(key, &id.to_be_bytes());
        }
        places[weakest].flush(out)?;
        places[weakest].begin(key, id);
        (set.tags[weakest], set.strengths[weakest]) = (tag, 1);
        Ok(())
    }

    /// Passes the whole content of the table to `out`, and frees the memory of the table.
    pub(super) fn finish(&mut self, out: &mut impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.sets = Vec::new();
        std::mem::take(&mut self.places).iter_mut().try_for_each(|place| place.flush(out))
    }

    /// Returns the set of a key, and the key's tag.
    fn hash(&self, key: &[u8]) -> (usize, u32) {
        let mut hasher = FixedState::default().build_hasher();
        hasher.write(key);
        let hash = hasher.finish();
        ((hash >> 32) as usize & (self.sets.len() - 1), hash as u32 | 1)
    }
}

impl CollectedKey {
    fn begin(&mut self, key: &[u8], id: u64) {
        self.key[..key.len()].copy_from_slice(key);
        self.key_len = key.len() as u8;
        (self.first, self.last, self.used) = (id, id, 0);
    }

    #[inline]
    fn add(&mut self, id: u64, out: &mut impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        if id == self.last {
            return Ok(());
        }
        let is_full = usize::from(self.used) + DIFFERENCE_SIZE_MAX > DIFFERENCES_SIZE;
        if is_full || id < self.last || id - self.first > SPAN_MAX {
            self.flush(out)?;
            (self.first, self.last, self.used) = (id, id, 0);
            return Ok(());
        }
        let mut difference = id - self.last;
        self.last = id;
        let mut used = usize::from(self.used);
        while difference >= 0x80 {
            self.differences[used] = difference as u8 | 0x80;
            difference >>= 7;
            used += 1;
        }
        self.differences[used] = difference as u8;
        self.used = used as u8 + 1;
        Ok(())
    }

    fn flush(&self, out: &mut impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        if self.key_len == 0 {
            return Ok(());
        }
        let mut block = [0; 8 + DIFFERENCES_SIZE];
        let used = usize::from(self.used);
        block[..8].copy_from_slice(&self.first.to_be_bytes());
        block[8..8 + used].copy_from_slice(&self.differences[..used]);
        out(&self.key[..usize::from(self.key_len)], &block[..8 + used])
    }
}

/// Merges blocks into the ids under one key. The blocks are in the order of their first ids.
#[derive(Default)]
pub(in crate::maintenance) struct IdMerger {
    /// The merged ids, ascending.
    ids: Vec<u64>,
    /// Number of `ids` whose places are final, because later blocks contain only higher ids.
    final_count: usize,
}

impl IdMerger {
    /// Adds the next block, without the ids for which `is_refused` returns true. Returns `None` if the bytes are not a
    /// block.
    pub(in crate::maintenance) fn take(
        &mut self,
        block: &[u8],
        is_refused: impl Fn(u64) -> bool,
    ) -> Option<()> {
        let (first, differences) = block.split_first_chunk::<8>()?;
        let mut id = u64::from_be_bytes(*first);
        let old_count = self.ids.len();
        self.final_count += self.ids[self.final_count..].partition_point(|earlier| *earlier < id);
        if !is_refused(id) {
            self.ids.push(id);
        }
        let mut bytes = differences.iter();
        while let Some(&byte) = bytes.next() {
            let mut difference = u64::from(byte & 0x7f);
            let (mut byte, mut shift) = (byte, 7);
            while byte >= 0x80 {
                byte = *bytes.next().filter(|_| shift <= 56)?;
                difference |= u64::from(byte & 0x7f) << shift;
                shift += 7;
            }
            id = id.checked_add(difference)?;
            if !is_refused(id) {
                self.ids.push(id);
            }
        }
        if self.final_count < old_count {
            self.sort_tail();
        }
        Some(())
    }

    /// Sorts the part of `ids` in which blocks overlap. This part consists of ascending runs, on which a stable sort is
    /// fast.
    fn sort_tail(&mut self) {
        let tail = &mut self.ids[self.final_count..];
        tail.sort();
        let mut unique_count = 1;
        for at in 1..tail.len() {
            if tail[at] != tail[unique_count - 1] {
                tail[unique_count] = tail[at];
                unique_count += 1;
            }
        }
        let length = self.final_count + unique_count.min(tail.len());
        self.ids.truncate(length);
    }

    /// Returns the ids whose places are final.
    pub(in crate::maintenance) fn settled(&self) -> &[u64] {
        &self.ids[..self.final_count]
    }

    /// Drops the ids whose places are final.
    pub(in crate::maintenance) fn drop_settled(&mut self) {
        self.ids.drain(..self.final_count);
        self.final_count = 0;
    }

    /// Returns all ids. Must be called after the last block.
    pub(in crate::maintenance) fn all(&self) -> &[u64] {
        &self.ids
    }

    /// Clears the ids for another key.
    pub(in crate::maintenance) fn clear(&mut self) {
        self.ids.clear();
        self.final_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    type Blocks = Vec<(Vec<u8>, Vec<u8>)>;

    /// Collects ids by key, as if `threads` threads took turns, and merges the blocks.
    fn check(memory: usize, threads: usize, rows: &[(Vec<u8>, u64)]) -> Blocks {
        let mut gatherers: Vec<_> = (0..threads).map(|_| IdCollector::new(memory)).collect();
        let mut blocks = Blocks::new();
        let mut out = |key: &[u8], block: &[u8]| {
            blocks.push((key.to_vec(), block.to_vec()));
            Ok(())
        };
        for (number, chunk) in rows.chunks(100).enumerate() {
            let collector = &mut gatherers[number % threads];
            chunk.iter().for_each(|(key, id)| collector.push(key, *id, &mut out).unwrap());
        }
        gatherers.iter_mut().for_each(|collector| collector.finish(&mut out).unwrap());
        blocks.sort();
        let mut expected: BTreeMap<&[u8], BTreeSet<u64>> = BTreeMap::new();
        rows.iter().for_each(|(key, id)| _ = expected.entry(key).or_default().insert(*id));
        for group in blocks.chunk_by(|one, next| one.0 == next.0) {
            let (mut merged, mut ids) = (IdMerger::default(), Vec::new());
            for (_, block) in group {
                merged.take(block, |id| id % 10 == 7).unwrap();
                ids.extend_from_slice(merged.settled());
                merged.drop_settled();
            }
            ids.extend_from_slice(merged.all());
            let mut wanted = expected.remove(&*group[0].0).unwrap_or_default();
            wanted.retain(|id| id % 10 != 7);
            assert!(wanted.into_iter().eq(ids), "{:?}", group[0].0);
        }
        assert!(expected.is_empty());
        blocks
    }

    #[test]
    fn ids_round_trip() {
        let mut random = fastrand::Rng::with_seed(5);
        for threads in [1, 2, 5] {
            for memory in [0, 2_000, 1 << 20] {
                for step in [1, 70_000] {
                    let mut id = 0;
                    let rows: Vec<_> = (0..5_000)
                        .map(|_| {
                            id += random.u64(0..=step);
                            let frequent = format!("gram {}", random.u32(0..40));
                            let alone = format!("user.{id}@{}", "long".repeat(random.usize(0..12)));
                            (if random.bool() { frequent } else { alone }.into_bytes(), id)
                        })
                        .collect();
                    check(memory, threads, &rows);
                }
            }
        }
    }

    #[test]
    fn sorts_ids_in_any_order() {
        let mut random = fastrand::Rng::with_seed(6);
        let rows: Vec<_> = (0..10_000).map(|_| (vec![random.u8(0..3)], random.u64(0..200_000))).collect();
        check(1 << 20, 3, &rows);
    }

    #[test]
    fn frequent_keys_share_blocks_among_any_number_of_rare_keys() {
        let rows: Vec<_> = (0..100_000u64)
            .map(|id| match id % 4 {
                0 => (format!("frequent {}", id % 400).into_bytes(), id),
                _ => (format!("alone {id}").into_bytes(), id),
            })
            .collect();
        let blocks = check(1 << 20, 1, &rows);
        let of_frequent = blocks.iter().filter(|(key, _)| key.starts_with(b"frequent")).count();
        assert!(of_frequent < 1_500, "{of_frequent} blocks of 25,000 ids");
    }

    #[test]
    fn rejects_bytes_that_are_not_a_block() {
        for bytes in [&b"short"[..], &[0, 0, 0, 0, 0, 0, 0, 1, 0x80], &[0xff; 20]] {
            assert_eq!(IdMerger::default().take(bytes, |_| false), None);
        }
    }
}
