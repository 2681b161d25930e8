//! Comparison of all data, one slice at a time, in rounds.
//!
//! A digest barrier names the slice that nodes compare at the barrier. The next barrier names the next slice, until
//! the last slice ends a round. The log determines the progress of a round: a barrier is accepted only if its slice
//! continues the previous slice. So every row is compared even if barriers arrive late, twice or from two nodes at
//! once.
//!
//! This module does not depend on the form of rows. A point lies between two rows; points are byte strings, ordered
//! like the rows.

use crate::codec::{Reader, put_length};
use crate::limits::POINT_BYTES_MAX;
use crate::operation::NodeId;

/// Rows between two points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// First point. Empty means before the first row.
    pub from: Vec<u8>,
    /// End point, exclusive. Empty means after the last row.
    pub to: Vec<u8>,
}

/// Next slice, planned by the node that sets the barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedSlice {
    /// The slice.
    pub slice: Slice,
    /// Cost of reading the slice, in bytes.
    pub bytes: u64,
}

/// Digest barrier for a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceMark {
    /// Node that set the barrier.
    pub node: NodeId,
    /// Number of the round in the generation, from 1. The number is 0 for a slice that is compared again because nodes
    /// differed in it. A barrier with 0 does not advance the round.
    pub round: u64,
    /// Time at which the node set the barrier, in seconds since 1970.
    pub at: u64,
    /// The slice and its cost.
    pub planned: PlannedSlice,
}

/// Progress of the round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Number of completed rounds.
    pub ended: u64,
    /// Time at which the barrier for the last slice of the last completed round was set, in seconds since 1970; 0 if no
    /// round is complete.
    pub ended_at: u64,
    /// Cost of the last completed round on each node, in bytes.
    pub ended_bytes: u64,
    /// Point at which the next slice begins. Empty if the next slice begins a round.
    pub next: Vec<u8>,
    /// Time at which the first barrier of the present round was set, in seconds since 1970.
    pub began_at: u64,
    /// Cost of the slices of the present round so far, in bytes.
    pub bytes: u64,
}

impl Slice {
    /// Returns true if the slice contains all rows of `other`.
    pub fn covers(&self, other: &Slice) -> bool {
        let ends_behind = self.to.is_empty() || (!other.to.is_empty() && other.to <= self.to);
        self.from <= other.from && ends_behind
    }

    /// Returns true if the slice contains the row after `point`.
    pub fn has(&self, point: &[u8]) -> bool {
        *self.from <= *point && (self.to.is_empty() || *point < *self.to)
    }
}

impl SliceMark {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<SliceMark> {
        let (node, round, at, bytes) = (NodeId(reader.u32()?), reader.u64()?, reader.u64()?, reader.u64()?);
        let slice = read_slice(reader)?;
        Some(SliceMark { node, round, at, planned: PlannedSlice { slice, bytes } })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.node.0.to_be_bytes());
        [self.round, self.at, self.planned.bytes].iter().for_each(|number| out.extend(number.to_be_bytes()));
        put_slice(out, &self.planned.slice);
    }
}

impl Round {
    /// Returns the barrier for the planned slice, or `None` if that slice is not the next slice.
    pub(crate) fn mark(&self, node: NodeId, planned: PlannedSlice, at: u64) -> Option<SliceMark> {
        let round = self.ended.saturating_add(1);
        (planned.slice.from == self.next).then_some(SliceMark { node, round, at, planned })
    }

    /// Advances the round if the barrier is for the next slice, and then returns true. Otherwise changes nothing.
    pub(crate) fn take(&mut self, mark: &SliceMark) -> bool {
        let PlannedSlice { slice, bytes } = &mark.planned;
        if Some(mark.round) != self.ended.checked_add(1) || slice.from != self.next {
            return false;
        }
        if slice.from.is_empty() {
            (self.began_at, self.bytes) = (mark.at, 0);
        }
        self.bytes = self.bytes.saturating_add(*bytes);
        self.next.clone_from(&slice.to);
        if slice.to.is_empty() {
            (self.ended, self.ended_at, self.ended_bytes) = (mark.round, mark.at, self.bytes);
        }
        true
    }

    /// Encodes the round as the value of a row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [self.ended, self.ended_at, self.ended_bytes, self.began_at, self.bytes];
        let mut out: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        put_point(&mut out, &self.next);
        out
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Round> {
        let (ended, ended_at, ended_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (began_at, bytes) = (reader.u64()?, reader.u64()?);
        Some(Round { ended, ended_at, ended_bytes, began_at, bytes, next: point(reader)? })
    }
}

pub(crate) fn put_slice(out: &mut Vec<u8>, slice: &Slice) {
    put_point(out, &slice.from);
    put_point(out, &slice.to);
}

pub(crate) fn read_slice(reader: &mut Reader<'_>) -> Option<Slice> {
    let slice = Slice { from: point(reader)?, to: point(reader)? };
    (slice.to.is_empty() || slice.from < slice.to).then_some(slice)
}

fn point(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    reader.bytes().filter(|bytes| bytes.len() <= POINT_BYTES_MAX).map(<[u8]>::to_vec)
}

fn put_point(out: &mut Vec<u8>, point: &[u8]) {
    put_length(out, point.len());
    out.extend(point);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned_slice(from: &[u8], to: &[u8]) -> PlannedSlice {
        PlannedSlice { slice: Slice { from: from.to_vec(), to: to.to_vec() }, bytes: 10 }
    }

    #[test]
    fn slices_of_a_round_cover_all_rows() {
        let mut round = Round::default();
        let mut take = |from: &[u8], to: &[u8], at| {
            let mark = round
                .mark(NodeId(1), planned_slice(from, to), at)
                .expect("the planned slice is the next one");
            assert!(round.take(&mark) && !round.take(&mark), "a repeated barrier has no effect");
            (round.clone(), mark)
        };
        let (first, late) = take(b"", b"m", 100);
        assert_eq!((first.ended, first.began_at, first.bytes, &*first.next), (0, 100, 10, &b"m"[..]));
        assert_eq!(
            first.mark(NodeId(2), planned_slice(b"", b"z"), 110),
            None,
            "the slice has already been compared"
        );
        let (second, _) = take(b"m", b"", 120);
        let expected = Round {
            ended: 1,
            ended_at: 120,
            ended_bytes: 20,
            bytes: 20,
            next: Vec::new(),
            began_at: first.began_at,
        };
        assert_eq!(second, expected);
        // A barrier of the previous round is rejected, although it begins at the same point as the next slice.
        let mut third = second.clone();
        assert!(!third.take(&late) && third == second);
        let (whole, _) = take(b"", b"", 130);
        assert_eq!((whole.ended, whole.ended_at, whole.began_at, whole.ended_bytes), (2, 130, 130, 10));
        for round in [first, second, whole] {
            assert_eq!(Round::decode(&mut Reader(&round.encode())), Some(round));
        }
    }

    #[test]
    fn a_slice_contains_the_rows_between_its_points() {
        let rows = [&b""[..], b"a", b"b", b"ba", b"c"];
        let check = |from: &[u8], to: &[u8], expected: &[&[u8]]| {
            let slice = planned_slice(from, to).slice;
            let found: Vec<&[u8]> = rows.into_iter().filter(|row| slice.has(row)).collect();
            assert_eq!(found, expected, "{slice:?}");
            assert!(slice.covers(&slice) && Slice::default().covers(&slice));
            assert_eq!(slice.covers(&Slice::default()), slice == Slice::default());
        };
        check(b"", b"", &rows);
        check(b"", b"b", &[b"", b"a"]);
        check(b"b", b"c", &[b"b", b"ba"]);
        check(b"bb", b"", &[b"c"]);
        let covers = |one: (&[u8], &[u8]), other: (&[u8], &[u8])| {
            planned_slice(one.0, one.1).slice.covers(&planned_slice(other.0, other.1).slice)
        };
        assert!(covers((b"a", b"d"), (b"b", b"c")) && covers((b"a", b""), (b"b", b"")));
        assert!(!covers((b"a", b"d"), (b"b", b"")) && !covers((b"b", b""), (b"a", b"c")));
    }

    #[test]
    fn a_slice_mark_must_ascend_and_its_points_are_bounded() {
        let check = |from: &[u8], to: &[u8], is_right: bool| {
            let mark = SliceMark { node: NodeId(1), round: 2, at: 3, planned: planned_slice(from, to) };
            let mut bytes = Vec::new();
            mark.put(&mut bytes);
            assert_eq!(SliceMark::decode(&mut Reader(&bytes)), is_right.then_some(mark));
        };
        check(b"", b"", true);
        check(b"a", b"b", true);
        check(b"a", &[b'b'; POINT_BYTES_MAX], true);
        check(b"b", b"a", false);
        check(b"b", b"b", false);
        check(b"a", &[b'b'; POINT_BYTES_MAX + 1], false);
    }
}
