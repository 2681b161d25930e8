//! The ids of candidates in ascending order, each once, from wherever the plan says.
//!
//! A stream lives for one slice of a search, on one snapshot. The next slice opens another one behind the last id.

use std::ops::Bound;

use store::{Direction, IdCursor, Read, Scan};

use super::plan::Source;
use crate::OperationError;
use crate::rows::{ENTRIES, EntryId, NODES, NodeRow, id_key};
use crate::tree::damaged_row;

type Result<T> = std::result::Result<T, OperationError>;

/// Ids read from a posting at a time.
const BLOCK: usize = 128;

/// Entry rows that a scan fetches at a time.
const ROWS_AHEAD: usize = 16;

/// Bytes that come from memory together.
const CACHE_LINE: usize = 64;

/// Candidates from some id on.
pub(crate) enum Candidates<'s> {
    Indexed(Merged<'s>),
    Nodes(Scan<'s>),
    Rows(RowScan<'s>),
}

/// Entry rows, some at a time.
pub(crate) struct RowScan<'s> {
    scan: Scan<'s>,
    /// Rows fetched, the next one last.
    block: Vec<(EntryId, &'s [u8])>,
}

/// What is at hand of a candidate.
pub(crate) enum AtHand<'s> {
    Nothing,
    /// Its node row.
    Node(NodeRow<'s>),
    /// The bytes of its entry row.
    Row(&'s [u8]),
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
    /// The candidates of `source` whose id is at least `from`. A scan goes through entry rows if `by_rows`, else through
    /// node rows, which are much smaller.
    pub(crate) fn open(
        read: &'s Read,
        source: &'s Source,
        from: u64,
        by_rows: bool,
    ) -> Result<Candidates<'s>> {
        match source {
            Source::Scan => {
                let low = id_key(EntryId(from));
                let range = (Bound::Included(&low[..]), Bound::Unbounded);
                Ok(if by_rows {
                    let scan = read.scan(ENTRIES, range, Direction::Forward);
                    Candidates::Rows(RowScan { scan, block: Vec::with_capacity(ROWS_AHEAD) })
                } else {
                    Candidates::Nodes(read.scan(NODES, range, Direction::Forward))
                })
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

    /// The next candidate.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(EntryId, AtHand<'s>)>> {
        match self {
            Candidates::Indexed(merged) => Ok(merged.next()?.map(|id| (EntryId(id), AtHand::Nothing))),
            Candidates::Nodes(scan) => {
                let Some((id, value)) = scanned(scan, "nodes")? else { return Ok(None) };
                let node = NodeRow::decode(value).ok_or_else(|| damaged_row("nodes", id))?;
                Ok(Some((id, AtHand::Node(node))))
            }
            Candidates::Rows(rows) => Ok(rows.next()?.map(|(id, value)| (id, AtHand::Row(value)))),
        }
    }
}

impl<'s> RowScan<'s> {
    #[inline]
    fn next(&mut self) -> Result<Option<(EntryId, &'s [u8])>> {
        if self.block.is_empty() {
            self.fetch()?;
        }
        Ok(self.block.pop())
    }

    /// Fetches some rows and touches them. Finding an attribute goes from length to length, each known only when the one
    /// before has come from memory; a scan would wait for memory most of the time. Touched beforehand, all of the block
    /// is on its way at once.
    fn fetch(&mut self) -> Result<()> {
        while self.block.len() < ROWS_AHEAD {
            let Some(row) = scanned(&mut self.scan, "entries")? else { break };
            self.block.push(row);
        }
        let touched = self.block.iter().flat_map(|(_, row)| row.chunks(CACHE_LINE));
        std::hint::black_box(touched.fold(0, |all, line| all ^ line[0]));
        self.block.reverse();
        Ok(())
    }
}

#[inline]
fn scanned<'s>(scan: &mut Scan<'s>, map: &str) -> Result<Option<(EntryId, &'s [u8])>> {
    let Some(row) = scan.next() else { return Ok(None) };
    let (key, value) = row?;
    let id = key.try_into().map(u64::from_be_bytes).map(EntryId);
    let id = id.map_err(|_| OperationError::Damaged(format!("key of {map}")))?;
    Ok(Some((id, value)))
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
