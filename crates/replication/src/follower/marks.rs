//! Digest barriers: positions at which nodes compare a slice of their data.

use super::{Follower, IgnoreReason, Mark, Verdict};
use crate::key::Tag;
use crate::limits::SLICES_LEVEL;
use crate::message::{self, SliceMark};
use crate::operation::NodeId;
use crate::round::{PlannedSlice, Round, Slice};
use crate::rows::{Cursor, RowChange};

impl Follower {
    pub(super) fn slice_mark<'m>(&mut self, offset: u64, tag: Tag, mark: &SliceMark) -> Verdict<'m> {
        if self.members.has_left(mark.node) {
            return Verdict::Ignored(IgnoreReason::FormerMember);
        }
        let (slice, rows) = (mark.planned.slice.clone(), Vec::new());
        if mark.round == 0 {
            return Verdict::Mark(Mark { offset, slice, rows });
        }
        if !self.round.take(mark) {
            return Verdict::Ignored(IgnoreReason::ComparedAlready);
        }
        self.cursor = Cursor { offset, message: tag, ..self.cursor };
        let rows = vec![RowChange::round(&self.round), RowChange::cursor(&self.cursor)];
        Verdict::Mark(Mark { offset, slice, rows })
    }

    /// Returns the progress of the round of comparisons.
    pub fn round(&self) -> &Round {
        &self.round
    }

    /// Returns true if barriers name slices. Until all nodes support slices, a barrier covers all data.
    pub fn compares_slices(&self) -> bool {
        self.level() >= SLICES_LEVEL
    }

    /// Encodes a barrier at which nodes compare a slice again, outside of the round.
    pub fn mark_again_of(&self, node: NodeId, slice: Slice, now: u64) -> Vec<u8> {
        let Cursor { key, generation, .. } = self.cursor;
        let mark = SliceMark { node, round: 0, at: now, planned: PlannedSlice { slice, bytes: 0 } };
        match self.compares_slices() {
            true => message::encode_slice_mark(&self.keys, key, &generation, &mark),
            false => message::encode_mark(&self.keys, key, &generation, node),
        }
    }

    /// Encodes a barrier at which nodes compare the next slice; `now` is in seconds since 1970. Returns `None` if the
    /// plan is out of date because another barrier came first.
    pub fn mark_of(&self, node: NodeId, planned: PlannedSlice, now: u64) -> Option<Vec<u8>> {
        let Cursor { key, generation, .. } = self.cursor;
        if !self.compares_slices() {
            return Some(message::encode_mark(&self.keys, key, &generation, node));
        }
        let mark = self.round.mark(node, planned, now)?;
        Some(message::encode_slice_mark(&self.keys, key, &generation, &mark))
    }
}
