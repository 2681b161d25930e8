//! Sorted sets of keys with ranks. Finding the key with a given rank, or the rank of a key, takes a number of steps
//! logarithmic in the size of the set.
//!
//! A set is stored in a plain map, below a prefix. Its rows are:
//!
//! ```text
//! key                            value
//! prefix, 0, member              empty: a member of the set
//! prefix, level, first member    count (8), children (4): a segment
//! ```
//!
//! Integers are big-endian. The children of a segment of level 1 are members; the children of a higher segment are
//! segments of the level below. In the value of a segment, `children` is the number of its children, and `count` is the
//! number of members in the segment. A segment begins at the member in its key and ends before the next segment of its
//! level. The member in the key may no longer be in the set. The first segment of each level has an empty member in its
//! key. The beginning of a segment is also the beginning of a segment of every lower level.
//!
//! A segment with more than [`CHILDREN_MAX`] children is split. A segment with fewer than [`CHILDREN_MIN`] children is
//! merged with a neighbor below the same parent, unless the merged segment would have too many children. A change
//! therefore writes one row for the member and one for each level, and a few more if segments change. The segments
//! depend on the history of the set; its members and their ranks do not.

use std::ops::Bound;

use crate::maps::{Direction, MapId};
use crate::{Batch, Read, Result, StoreError};

/// Number of levels of segments. With three levels, the highest level has at most a few hundred rows for a hundred
/// million members.
const LEVELS: u8 = 3;

/// Maximum number of children of a segment.
const CHILDREN_MAX: u32 = if cfg!(test) { 6 } else { 256 };

/// Number of children below which a segment is merged with a neighbor, if the two have the same parent.
const CHILDREN_MIN: u32 = CHILDREN_MAX / 4;

/// Maximum number of children of a merged segment, so that it is not split again at once.
const MERGED_MAX: u32 = CHILDREN_MAX / 4 * 3;

/// Size of a segment's value in bytes.
const SEGMENT_SIZE: usize = 12;

/// A sorted set of keys in a plain map. A member, the prefix and one more byte must fit into a key of the map.
#[derive(Clone, Debug)]
pub struct RankedKeys {
    map: MapId,
    prefix: Vec<u8>,
}

/// Number of members and of children of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Segment {
    count: u64,
    children: u32,
}

impl Segment {
    fn decode(bytes: &[u8]) -> Option<Segment> {
        let (count, children) = bytes.split_first_chunk()?;
        let children = children.try_into().ok()?;
        Some(Segment { count: u64::from_be_bytes(*count), children: u32::from_be_bytes(children) })
    }

    fn encode(self) -> [u8; SEGMENT_SIZE] {
        let mut bytes = [0; SEGMENT_SIZE];
        bytes[..8].copy_from_slice(&self.count.to_be_bytes());
        bytes[8..].copy_from_slice(&self.children.to_be_bytes());
        bytes
    }

    fn plus(self, other: Segment) -> Segment {
        Segment { count: self.count + other.count, children: self.children + other.children }
    }
}

impl RankedKeys {
    /// Returns the set below `prefix`. The prefix of a set must not begin with the prefix of another set in the same
    /// map.
    pub fn new(map: MapId, prefix: &[u8]) -> RankedKeys {
        RankedKeys { map, prefix: prefix.to_vec() }
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// The store failed.
    pub fn count(&self, read: &Read) -> Result<u64> {
        self.segments(read, LEVELS, &[]).try_fold(0, |sum, segment| Ok(sum + segment?.1.count))
    }

    /// Returns true if `member` is in the set.
    ///
    /// # Errors
    /// The store failed.
    pub fn contains(&self, read: &Read, member: &[u8]) -> Result<bool> {
        Ok(read.get(self.map, &self.row(0, member))?.is_some())
    }

    /// Returns the number of members that are less than `key`.
    ///
    /// # Errors
    /// The store failed.
    pub fn rank(&self, read: &Read, key: &[u8]) -> Result<u64> {
        let (mut start, mut rank) = (Vec::new(), 0);
        for level in (1..=LEVELS).rev() {
            let mut last = None;
            for segment in self.segments(read, level, &start) {
                let (first, segment) = segment?;
                if first > key {
                    break;
                }
                rank += last.replace((first, segment)).map_or(0, |(_, passed): (_, Segment)| passed.count);
            }
            start = last.map_or_else(Vec::new, |(first, _)| first.to_vec());
        }
        for member in self.members(read, Bound::Included(&start), Direction::Forward) {
            if member? >= key {
                break;
            }
            rank += 1;
        }
        Ok(rank)
    }

    /// Returns the member with the given rank, counted from 0; `None` if there is none.
    ///
    /// # Errors
    /// The store failed.
    pub fn at<'r>(&self, read: &'r Read, rank: u64) -> Result<Option<&'r [u8]>> {
        let (mut start, mut left) = (Vec::new(), rank);
        for level in (1..=LEVELS).rev() {
            let mut found = None;
            for segment in self.segments(read, level, &start) {
                let (first, segment) = segment?;
                if left < segment.count {
                    found = Some(first.to_vec());
                    break;
                }
                left -= segment.count;
            }
            let Some(first) = found else { return Ok(None) };
            start = first;
        }
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        self.members(read, Bound::Included(&start), Direction::Forward).nth(left).transpose()
    }

    /// Returns the members from `near` on in a direction; an empty `near` means no bound.
    pub fn members<'r>(
        &self,
        read: &'r Read,
        near: Bound<&[u8]>,
        direction: Direction,
    ) -> impl Iterator<Item = Result<&'r [u8]>> + use<'r> {
        let near = match near {
            Bound::Included([]) | Bound::Excluded([]) | Bound::Unbounded => None,
            Bound::Included(member) => Some(Bound::Included(self.row(0, member))),
            Bound::Excluded(member) => Some(Bound::Excluded(self.row(0, member))),
        };
        let near = near.as_ref().map(|near| near.as_ref().map(Vec::as_slice));
        let (low, high) = (self.row(0, &[]), self.row(1, &[]));
        let (first, end) = (Bound::Included(low.as_slice()), Bound::Excluded(high.as_slice()));
        let range = match direction {
            Direction::Forward => (near.unwrap_or(first), end),
            Direction::Backward => (first, near.unwrap_or(end)),
        };
        let head = low.len();
        read.scan(self.map, range, direction).map(move |row| Ok(row?.0.get(head..).unwrap_or_default()))
    }

    /// Adds a member. Returns false if it is in the set already.
    ///
    /// # Errors
    /// `KeyTooLong`; the store failed.
    pub fn insert(&self, batch: &mut Batch<'_>, member: &[u8]) -> Result<bool> {
        if self.contains(batch, member)? {
            return Ok(false);
        }
        batch.put(self.map, &self.row(0, member), &[])?;
        let mut new_children = 1;
        for level in 1..=LEVELS {
            let (first, segment) = self.segment(batch, level, member)?;
            let segment = segment.plus(Segment { count: 1, children: new_children });
            new_children = 0;
            if segment.children <= CHILDREN_MAX {
                self.put(batch, level, &first, segment)?;
                continue;
            }
            let (middle, lower) = self.halve(batch, level, &first, segment)?;
            let upper = Segment {
                count: segment.count.saturating_sub(lower.count),
                children: segment.children - lower.children,
            };
            self.put(batch, level, &first, lower)?;
            self.put(batch, level, &middle, upper)?;
            new_children = 1;
        }
        Ok(true)
    }

    /// Removes a member. Returns false if it is not in the set.
    ///
    /// # Errors
    /// The store failed.
    pub fn remove(&self, batch: &mut Batch<'_>, member: &[u8]) -> Result<bool> {
        if !batch.delete(self.map, &self.row(0, member))? {
            return Ok(false);
        }
        for level in 1..=LEVELS {
            let (first, segment) = self.segment(batch, level, member)?;
            let segment = Segment {
                count: segment.count.saturating_sub(1),
                children: segment.children.saturating_sub(u32::from(level == 1)),
            };
            self.put(batch, level, &first, segment)?;
        }
        // Merges from the highest level down: after a merge, segments of the lower level may have become neighbors
        // below one parent, and can then be merged too.
        for level in (1..=LEVELS).rev() {
            self.merge_at(batch, level, member)?;
        }
        Ok(true)
    }

    /// Removes up to `rows_max` rows of the set. Returns false if there were no rows to remove.
    ///
    /// # Errors
    /// The store failed.
    pub fn clear(&self, batch: &mut Batch<'_>, rows_max: usize) -> Result<bool> {
        let rows: Result<Vec<Vec<u8>>> = batch
            .scan_below(self.map, &self.prefix)
            .take(rows_max)
            .map(|row| row.map(|(key, _)| key.to_vec()))
            .collect();
        let rows = rows?;
        for key in &rows {
            batch.delete(self.map, key)?;
        }
        Ok(!rows.is_empty())
    }

    /// Checks the counts. Returns a description of the first error, or `None` if the counts agree with the members.
    pub fn fault(&self, read: &Read) -> Result<Option<String>> {
        for level in 1..=LEVELS {
            let mut starts = self.segments(read, level, &[]).peekable();
            let mut parts: Box<dyn Iterator<Item = Result<(&[u8], u64)>>> = match level {
                1 => {
                    let members = self.members(read, Bound::Unbounded, Direction::Forward);
                    Box::new(members.map(|member| member.map(|member| (member, 1))))
                }
                _ => {
                    let below = self.segments(read, level - 1, &[]);
                    Box::new(below.map(|row| row.map(|(first, segment)| (first, segment.count))))
                }
            };
            let mut part = parts.next().transpose()?;
            while let Some(start) = starts.next() {
                let (first, segment) = start?;
                let end = match starts.peek() {
                    Some(Ok((next, _))) => Some(*next),
                    Some(Err(error)) => return Err(error.clone()),
                    None => None,
                };
                let begins_there = level == 1 || part.is_some_and(|(at, _)| at == first);
                let mut found = Segment::default();
                while let Some((at, count)) = part.filter(|(at, _)| end.is_none_or(|end| *at < end)) {
                    debug_assert!(at >= first || found == Segment::default());
                    found = found.plus(Segment { count, children: 1 });
                    part = parts.next().transpose()?;
                }
                if found != segment || !begins_there {
                    return Ok(Some(format!(
                        "a segment of level {level} counts {} members in {} parts and has {} in {}",
                        segment.count, segment.children, found.count, found.children
                    )));
                }
            }
            if part.is_some() {
                return Ok(Some(format!("members are in no segment of level {level}")));
            }
        }
        Ok(None)
    }

    /// Merges the segment of `member` with a neighbor below the same parent, if it has few children.
    fn merge_at(&self, batch: &mut Batch<'_>, level: u8, member: &[u8]) -> Result<()> {
        let (first, segment) = self.segment(batch, level, member)?;
        if segment.children >= CHILDREN_MIN {
            return Ok(());
        }
        let fits = |other: Segment| segment.children == 0 || segment.plus(other).children <= MERGED_MAX;
        let next = self.segments(batch, level, &first).nth(1).transpose()?;
        let next = next.map(|(next, of_next)| (next.to_vec(), of_next));
        let (lower, upper, merged) = match next {
            Some((next, of_next)) if fits(of_next) && self.is_inner(batch, level, &next)? => {
                (first, next, segment.plus(of_next))
            }
            _ if first.is_empty() || !self.is_inner(batch, level, &first)? => return Ok(()),
            _ => {
                let (before, of_before) = self.segment_before(batch, level, &first)?;
                if !fits(of_before) {
                    return Ok(());
                }
                (before, first, segment.plus(of_before))
            }
        };
        self.put(batch, level, &lower, merged)?;
        batch.delete(self.map, &self.row(level, &upper))?;
        if level < LEVELS {
            let (above, parent) = self.segment(batch, level + 1, &lower)?;
            let children = parent.children.saturating_sub(1);
            self.put(batch, level + 1, &above, Segment { children, ..parent })?;
        }
        Ok(())
    }

    /// Returns true if no segment of the next higher level begins at `first`.
    fn is_inner(&self, read: &Read, level: u8, first: &[u8]) -> Result<bool> {
        Ok(level == LEVELS || read.get(self.map, &self.row(level + 1, first))?.is_none())
    }

    /// Returns the first member of the upper half of a segment, and the segment that is its lower half.
    fn halve(&self, read: &Read, level: u8, first: &[u8], segment: Segment) -> Result<(Vec<u8>, Segment)> {
        let children = segment.children / 2;
        let half = usize::try_from(children).unwrap_or(usize::MAX);
        if level == 1 {
            let middle = self.members(read, Bound::Included(first), Direction::Forward).nth(half);
            let middle = middle.transpose()?.ok_or_else(|| self.damaged(read))?;
            return Ok((middle.to_vec(), Segment { count: u64::from(children), children }));
        }
        let mut lower = Segment::default();
        for part in self.segments(read, level - 1, first) {
            let (at, part) = part?;
            if lower.children == children {
                return Ok((at.to_vec(), lower));
            }
            lower = lower.plus(Segment { count: part.count, children: 1 });
        }
        Err(self.damaged(read))
    }

    /// Returns the segment of a level to which `member` belongs, with the member at which it begins. If there is no
    /// such segment yet, returns an empty segment.
    fn segment(&self, read: &Read, level: u8, member: &[u8]) -> Result<(Vec<u8>, Segment)> {
        self.segment_near(read, level, Bound::Included(member))
    }

    /// Returns the segment before the segment that begins at `first`.
    fn segment_before(&self, read: &Read, level: u8, first: &[u8]) -> Result<(Vec<u8>, Segment)> {
        self.segment_near(read, level, Bound::Excluded(first))
    }

    fn segment_near(&self, read: &Read, level: u8, near: Bound<&[u8]>) -> Result<(Vec<u8>, Segment)> {
        let (low, high) = (self.row(level, &[]), near.map(|member| self.row(level, member)));
        let range = (Bound::Included(low.as_slice()), high.as_ref().map(Vec::as_slice));
        match read.scan(self.map, range, Direction::Backward).next() {
            // A new segment of a higher level has one child already: the first segment of the level below.
            None => Ok((Vec::new(), Segment { count: 0, children: u32::from(level > 1) })),
            Some(row) => self.decoded(read, row?).map(|(first, segment)| (first.to_vec(), segment)),
        }
    }

    /// Returns the segments of a level from the segment that begins at `from` on.
    fn segments<'r>(
        &self,
        read: &'r Read,
        level: u8,
        from: &[u8],
    ) -> impl Iterator<Item = Result<(&'r [u8], Segment)>> + use<'r> {
        let (low, high) = (self.row(level, from), self.row(level + 1, &[]));
        let range = (Bound::Included(low.as_slice()), Bound::Excluded(high.as_slice()));
        let set = self.clone();
        read.scan(self.map, range, Direction::Forward).map(move |row| set.decoded(read, row?))
    }

    fn decoded<'r>(&self, read: &Read, (key, value): (&'r [u8], &[u8])) -> Result<(&'r [u8], Segment)> {
        let first = key.get(self.prefix.len() + 1..);
        first.zip(Segment::decode(value)).ok_or_else(|| self.damaged(read))
    }

    fn put(&self, batch: &mut Batch<'_>, level: u8, first: &[u8], segment: Segment) -> Result<()> {
        batch.put(self.map, &self.row(level, first), &segment.encode())
    }

    fn row(&self, level: u8, member: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + 1 + member.len());
        key.extend_from_slice(&self.prefix);
        key.push(level);
        key.extend_from_slice(member);
        key
    }

    fn damaged(&self, read: &Read) -> StoreError {
        StoreError::DamagedRow { map: read.map(self.map).spec.name }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;

    use super::*;
    use crate::scratch::{ROWS, Scratch};

    type Model = BTreeSet<Vec<u8>>;

    fn set(number: u8) -> RankedKeys {
        RankedKeys::new(ROWS, &[7, number])
    }

    fn member(random: &mut Rng) -> Vec<u8> {
        let mut octets: Vec<u8> =
            (0..random.usize(1..4)).map(|_| [0, 1, 2, 97, 255][random.usize(0..5)]).collect();
        octets.push(random.u8(..));
        octets
    }

    fn compare(read: &Read, set: &RankedKeys, model: &Model, random: &mut Rng) {
        assert_eq!(set.fault(read).unwrap(), None);
        assert_eq!(set.count(read).unwrap(), model.len() as u64);
        let all: Vec<&Vec<u8>> = model.iter().collect();
        let found: Vec<&[u8]> =
            set.members(read, Bound::Unbounded, Direction::Forward).map(Result::unwrap).collect();
        assert_eq!(found, all);
        for _ in 0..8 {
            let rank = random.usize(0..all.len() + 2);
            assert_eq!(set.at(read, rank as u64).unwrap(), all.get(rank).map(|member| member.as_slice()));
            let key = member(random);
            let below = model.range(..key.clone()).count();
            assert_eq!(set.rank(read, &key).unwrap(), below as u64);
            assert_eq!(set.contains(read, &key).unwrap(), model.contains(&key));
            let before = set.members(read, Bound::Excluded(&key), Direction::Backward).next();
            assert_eq!(before.map(Result::unwrap), model.range(..key).next_back().map(Vec::as_slice));
        }
    }

    fn change(batch: &mut Batch<'_>, sets: &mut [(RankedKeys, Model)], grows: bool, random: &mut Rng) {
        for _ in 0..random.usize(1..80) {
            let place = random.usize(0..sets.len());
            let (set, model) = &mut sets[place];
            if random.u32(0..10) < if grows { 8 } else { 2 } {
                let key = member(random);
                assert_eq!(set.insert(batch, &key).unwrap(), model.insert(key));
            } else {
                let known = random.bool().then(|| model.iter().nth(random.usize(0..=model.len()))).flatten();
                let key = known.cloned().unwrap_or_else(|| member(random));
                assert_eq!(set.remove(batch, &key).unwrap(), model.remove(&key));
            }
        }
    }

    #[test]
    fn members_and_ranks_agree_with_a_plain_set() {
        for seed in 1..=5 {
            let mut random = Rng::with_seed(seed);
            let scratch = Scratch::in_memory();
            let mut sets = [(set(0), Model::default()), (set(1), Model::default())];
            for round in 0..40 {
                let (store, mut writer) = scratch.open();
                let grows = round % 20 < 14;
                let mut batch = writer.begin().unwrap();
                change(&mut batch, &mut sets, grows, &mut random);
                let (savepoint, before) = (batch.savepoint(), sets.clone());
                change(&mut batch, &mut sets, grows, &mut random);
                if random.bool() {
                    batch.roll_back(savepoint);
                    sets = before;
                }
                sets.iter().for_each(|(set, model)| compare(&batch, set, model, &mut random));
                batch.commit().unwrap();
                if random.bool() {
                    store.checkpoint().unwrap();
                }
                let view = store.view().unwrap();
                sets.iter().for_each(|(set, model)| compare(&view, set, model, &mut random));
            }
        }
    }

    #[test]
    fn a_set_is_cleared_in_parts() {
        let scratch = Scratch::in_memory();
        let (_store, mut writer) = scratch.open();
        let mut batch = writer.begin().unwrap();
        let (cleared, intact) = (set(0), set(1));
        for number in 0..1_000_u32 {
            cleared.insert(&mut batch, &number.to_be_bytes()).unwrap();
            intact.insert(&mut batch, &number.to_be_bytes()).unwrap();
        }
        assert_eq!(cleared.at(&batch, 999).unwrap(), Some(&999_u32.to_be_bytes()[..]));
        while cleared.clear(&mut batch, 100).unwrap() {}
        assert_eq!((cleared.count(&batch).unwrap(), intact.count(&batch).unwrap()), (0, 1_000));
        assert_eq!(intact.fault(&batch).unwrap(), None);
        assert!(cleared.insert(&mut batch, b"anew").unwrap());
        assert_eq!(cleared.fault(&batch).unwrap(), None);
    }

    #[test]
    fn wrong_counts_are_found() {
        let scratch = Scratch::in_memory();
        let (_store, mut writer) = scratch.open();
        let mut batch = writer.begin().unwrap();
        let set = set(0);
        for number in 0..200_u32 {
            set.insert(&mut batch, &number.to_be_bytes()).unwrap();
        }
        let savepoint = batch.savepoint();
        batch.delete(ROWS, &set.row(0, &7_u32.to_be_bytes())).unwrap();
        assert!(set.fault(&batch).unwrap().unwrap().contains("level 1"));
        batch.roll_back(savepoint);
        for level in 1..=LEVELS {
            let savepoint = batch.savepoint();
            let (first, segment) = set.segment(&batch, level, &100_u32.to_be_bytes()).unwrap();
            let count = segment.count + 1;
            set.put(&mut batch, level, &first, Segment { count, ..segment }).unwrap();
            assert!(set.fault(&batch).unwrap().is_some());
            batch.roll_back(savepoint);
        }
        assert_eq!(set.fault(&batch).unwrap(), None);
    }
}
