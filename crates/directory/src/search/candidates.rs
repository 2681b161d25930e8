//! The ids of candidates in ascending order, each once, from wherever the plan says.
//!
//! A stream lives for one slice of a search, on one snapshot. The next slice opens another one behind the last id.

use std::ops::Bound;

use store::{Direction, IdCursor, Read, Scan};

use super::plan::Source;
use crate::OperationError;
use crate::rows::{EntryId, NODES, NodeRow, id_key};
use crate::tree::damaged_row;

type Result<T> = std::result::Result<T, OperationError>;

/// Ids read from a posting at a time.
const BLOCK: usize = 128;

/// Candidates from some id on.
pub(crate) enum Candidates<'s> {
    Indexed(Merged<'s>),
    Scan(Scan<'s>),
}

/// Ids collected and ids of postings, merged.
pub(crate) struct Merged<'s> {
    ids: &'s [u64],
    lanes: Vec<Lane<'s>>,
}

/// A posting with the ids read ahead.
struct Lane<'s> {
    cursor: IdCursor<'s>,
    block: Vec<u64>,
    passed: usize,
}

impl<'s> Candidates<'s> {
    /// The candidates of `source` whose id is at least `from`.
    pub(crate) fn open(read: &'s Read, source: &'s Source, from: u64) -> Result<Candidates<'s>> {
        match source {
            Source::Scan => {
                let low = id_key(EntryId(from));
                let range = (Bound::Included(&low[..]), Bound::Unbounded);
                Ok(Candidates::Scan(read.scan(NODES, range, Direction::Forward)))
            }
            Source::Indexed { ids, postings } => {
                let ids = &ids[ids.partition_point(|id| *id < from)..];
                let mut lanes = Vec::new();
                for posting in postings {
                    let mut cursor = read.ids(posting.map, &posting.key)?;
                    if cursor.seek(from)?.is_some() {
                        lanes.push(Lane { cursor, block: Vec::with_capacity(BLOCK), passed: 0 });
                    }
                }
                Ok(Candidates::Indexed(Merged { ids, lanes }))
            }
        }
    }

    /// The next candidate, with its node row where that is at hand.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(EntryId, Option<NodeRow<'s>>)>> {
        match self {
            Candidates::Indexed(merged) => Ok(merged.next()?.map(|id| (EntryId(id), None))),
            Candidates::Scan(scan) => {
                let Some(row) = scan.next() else { return Ok(None) };
                let (key, value) = row?;
                let id = key.try_into().map(u64::from_be_bytes).map(EntryId);
                let id = id.map_err(|_| OperationError::Damaged("key of nodes".to_owned()))?;
                let node = NodeRow::decode(value).ok_or_else(|| damaged_row("nodes", id))?;
                Ok(Some((id, Some(node))))
            }
        }
    }
}

impl Merged<'_> {
    fn next(&mut self) -> Result<Option<u64>> {
        let mut lowest = self.ids.first().copied();
        for lane in &mut self.lanes {
            lowest = match (lowest, lane.peek()?) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        let Some(lowest) = lowest else { return Ok(None) };
        if self.ids.first() == Some(&lowest) {
            self.ids = &self.ids[1..];
        }
        for lane in &mut self.lanes {
            if lane.block.get(lane.passed) == Some(&lowest) {
                lane.passed += 1;
            }
        }
        Ok(Some(lowest))
    }
}

impl Lane<'_> {
    fn peek(&mut self) -> Result<Option<u64>> {
        if self.passed == self.block.len() {
            self.block.clear();
            self.passed = 0;
            self.cursor.next_block(&mut self.block, BLOCK)?;
        }
        Ok(self.block.get(self.passed).copied())
    }
}
