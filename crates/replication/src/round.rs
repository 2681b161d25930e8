//! Comparing all data a slice at a time, round after round.
//!
//! A mark names the slice of the rows that nodes compare there. The next mark names the slice behind it, until the last
//! one ends a round. How far the round is follows from the log: a mark counts only where it goes on from the one
//! before, so marks that come late, twice or from two nodes at once leave nothing out.
//!
//! What rows there are is not known here. A point stands between two rows; points are bytes, and their order is that
//! of the rows.

use crate::codec::{Reader, put_length};
use crate::limits::POINT_BYTES_MAX;
use crate::operation::NodeId;

/// The rows from one point up to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Where it begins. Empty: with the first row.
    pub from: Vec<u8>,
    /// Where it ends; what stands there does not belong to it. Empty: behind the last row.
    pub to: Vec<u8>,
}

/// The next slice, as the node that sets the mark found the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedSlice {
    /// Which rows.
    pub slice: Slice,
    /// What reading them costs, in bytes.
    pub bytes: u64,
}

/// Here all nodes compare a slice of their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceMark {
    /// The node that wants it.
    pub node: NodeId,
    /// Counts the rounds of the generation, from 1; 0 for a slice that is compared besides, because nodes differed in
    /// it: such a mark moves no round.
    pub round: u64,
    /// When the node wanted it, in seconds since 1970.
    pub at: u64,
    /// The slice.
    pub planned: PlannedSlice,
}

/// How far the round is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// How many rounds have ended.
    pub ended: u64,
    /// When the mark of the last slice of the last round was set, in seconds since 1970; 0 for never.
    pub ended_at: u64,
    /// What that round cost on each node, in bytes.
    pub ended_bytes: u64,
    /// Where the next slice begins. Empty: a round begins.
    pub next: Vec<u8>,
    /// When the first mark of the round was set that is under way.
    pub began_at: u64,
    /// What its slices have cost, in bytes.
    pub bytes: u64,
}

impl Slice {
    /// Whether all rows of another one are in it.
    pub fn covers(&self, other: &Slice) -> bool {
        let ends_behind = self.to.is_empty() || (!other.to.is_empty() && other.to <= self.to);
        self.from <= other.from && ends_behind
    }

    /// Whether it has the row behind this point.
    pub fn has(&self, point: &[u8]) -> bool {
        *self.from <= *point && (self.to.is_empty() || *point < *self.to)
    }
}

impl SliceMark {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<SliceMark> {
        let (node, round, at, bytes) = (NodeId(reader.u32()?), reader.u64()?, reader.u64()?, reader.u64()?);
        let slice = Slice { from: point(reader)?, to: point(reader)? };
        let is_forward = slice.to.is_empty() || slice.from < slice.to;
        is_forward.then_some(SliceMark { node, round, at, planned: PlannedSlice { slice, bytes } })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.node.0.to_be_bytes());
        [self.round, self.at, self.planned.bytes].iter().for_each(|number| out.extend(number.to_be_bytes()));
        put_point(out, &self.planned.slice.from);
        put_point(out, &self.planned.slice.to);
    }
}

impl Round {
    /// The mark of the next slice; `None` where the plan is not of that.
    pub(crate) fn mark(&self, node: NodeId, planned: PlannedSlice, at: u64) -> Option<SliceMark> {
        let round = self.ended.saturating_add(1);
        (planned.slice.from == self.next).then_some(SliceMark { node, round, at, planned })
    }

    /// Goes on by a mark. Whether that is the one of the next slice: nothing changes if not.
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

    /// As it stands in a row.
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

    fn planned(from: &[u8], to: &[u8]) -> PlannedSlice {
        PlannedSlice { slice: Slice { from: from.to_vec(), to: to.to_vec() }, bytes: 10 }
    }

    #[test]
    fn slices_follow_each_other_and_nothing_is_left_out() {
        let mut round = Round::default();
        let mut take = |from: &[u8], to: &[u8], at| {
            let mark = round.mark(NodeId(1), planned(from, to), at).expect("it is the next slice");
            assert!(round.take(&mark) && !round.take(&mark), "a mark that lands twice counts once");
            (round.clone(), mark)
        };
        let (first, late) = take(b"", b"m", 100);
        assert_eq!((first.ended, first.began_at, first.bytes, &*first.next), (0, 100, 10, &b"m"[..]));
        assert_eq!(first.mark(NodeId(2), planned(b"", b"z"), 110), None, "a plan of what is compared");
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
        // Of the round before: it begins where the next slice does, and would leave out nothing; yet it is told apart.
        let mut third = second.clone();
        assert!(!third.take(&late) && third == second);
        let (whole, _) = take(b"", b"", 130);
        assert_eq!((whole.ended, whole.ended_at, whole.began_at, whole.ended_bytes), (2, 130, 130, 10));
        for round in [first, second, whole] {
            assert_eq!(Round::decode(&mut Reader(&round.encode())), Some(round));
        }
    }

    #[test]
    fn a_slice_has_the_rows_between_its_points() {
        let rows = [&b""[..], b"a", b"b", b"ba", b"c"];
        let check = |from: &[u8], to: &[u8], expected: &[&[u8]]| {
            let slice = planned(from, to).slice;
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
            planned(one.0, one.1).slice.covers(&planned(other.0, other.1).slice)
        };
        assert!(covers((b"a", b"d"), (b"b", b"c")) && covers((b"a", b""), (b"b", b"")));
        assert!(!covers((b"a", b"d"), (b"b", b"")) && !covers((b"b", b""), (b"a", b"c")));
    }

    #[test]
    fn a_mark_goes_forward_and_its_points_are_bounded() {
        let check = |from: &[u8], to: &[u8], is_right: bool| {
            let mark = SliceMark { node: NodeId(1), round: 2, at: 3, planned: planned(from, to) };
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
