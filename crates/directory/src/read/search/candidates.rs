//! The candidates of a search in ascending id, each once, from the source that the plan chose.
//!
//! [`Candidates`] is used for one slice of a search, on one snapshot. The next slice opens new candidates that start
//! after the last id.

use std::ops::Bound;

use schema::Schema;
use store::{Direction, IdCursor, Scan};

use super::plan::Source;
use crate::filter::Candidate;
use crate::filter::prefilter::{Guard, OtherTest, locate_others, others_refuse};
use crate::model::entry::{EntryRow, Located, Place};
use crate::model::outcome::OperationError;
use crate::model::rows::{ENTRIES, EntryId, NODES, NodeRow, id_key};
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Number of ids read from a posting at a time.
const BLOCK: usize = 128;

/// Number of entry rows that a scan fetches at a time.
const ROWS_AHEAD: usize = 16;

/// Maximum number of bytes of an attribute's values that are prefetched before the values are tested.
const VALUES_BYTES: usize = 512;

/// Rows that a scan reads.
#[derive(Clone, Copy)]
pub(super) enum ScanKind<'s> {
    /// Node rows, which are much smaller than entry rows.
    Nodes,
    /// Entry rows. If the filter has a guard, the scan tests each row with it.
    Rows(Option<Guard<'s>>),
}

/// Candidates in ascending id, from some id on.
pub(crate) enum Candidates<'s> {
    Indexed(Merged<'s>),
    Nodes(Box<Scan<'s>>),
    Rows(Box<RowScan<'s>>),
}

/// Entry rows, a block at a time.
pub(crate) struct RowScan<'s> {
    scan: Scan<'s>,
    guard: Option<Guard<'s>>,
    schema: &'s Schema,
    block: Vec<ScannedRow<'s>>,
    /// Number of rows of the block that were returned.
    returned: usize,
    /// The next block, which is prefetched if there is a guard.
    coming: Vec<ScannedRow<'s>>,
    /// Index, in the previous row, of the attribute that the guard tests first. This index is the first guess for the
    /// next row.
    place: Place,
    /// All tests of the guard except the first test.
    other_tests: Vec<OtherTest<'s>>,
    /// Located attributes of the other tests, row by row, in the current block.
    others: Vec<Option<Located<'s>>>,
    coming_others: Vec<Option<Located<'s>>>,
    /// Buffer for keys of values.
    key: Vec<u8>,
}

struct ScannedRow<'s> {
    id: EntryId,
    bytes: &'s [u8],
    /// Location, in this row, of the attribute that the guard tests first.
    located: Option<Located<'s>>,
    is_refused: bool,
}

/// Data of a candidate that the scan has read already.
pub(crate) enum ScannedData<'s> {
    Nothing,
    /// The node row.
    Node(NodeRow<'s>),
    /// The bytes of the entry row.
    Row(&'s [u8]),
    /// The guard has rejected the candidate.
    Refusal,
}

impl<'s> ScannedData<'s> {
    /// Returns the candidate with this id; `None` if the entry was deleted after its id was collected.
    #[inline(always)]
    pub(super) fn candidate(self, state: TreeState<'s>, id: EntryId) -> Result<Option<Candidate<'s>>> {
        let row = match self {
            ScannedData::Node(row) => return Ok(Some(Candidate::new(id, row))),
            ScannedData::Nothing | ScannedData::Row(_) | ScannedData::Refusal => node(state.read, id)?,
        };
        let Some(row) = row else { return Ok(None) };
        Ok(Some(match self {
            ScannedData::Row(bytes) => {
                let entry = EntryRow::decode(bytes).ok_or_else(|| damaged_row("entries", id))?;
                Candidate::with_entry(id, row, entry)
            }
            ScannedData::Nothing | ScannedData::Node(_) | ScannedData::Refusal => Candidate::new(id, row),
        }))
    }
}

/// Ids of the plan and of postings, merged.
pub(crate) struct Merged<'s> {
    ids: &'s [u64],
    lanes: Vec<PostingCursor<'s>>,
}

/// A posting, with a block of its ids.
struct PostingCursor<'s> {
    cursor: IdCursor<'s>,
    block: Vec<u64>,
    passed: usize,
}

impl<'s> Candidates<'s> {
    /// Opens the candidates of `source` with ids from `from` on.
    #[inline]
    pub(super) fn open(
        state: TreeState<'s>,
        source: &'s Source,
        from: u64,
        kind: ScanKind<'s>,
    ) -> Result<Candidates<'s>> {
        let read = state.read;
        match source {
            Source::Scan => {
                let low = id_key(EntryId(from));
                let range = (Bound::Included(&low[..]), Bound::Unbounded);
                let scan = |map| read.scan(map, range, Direction::Forward);
                Ok(match kind {
                    ScanKind::Nodes => Candidates::Nodes(Box::new(scan(NODES))),
                    ScanKind::Rows(guard) => {
                        let rows = RowScan::new(scan(ENTRIES), guard, &state.catalog.schema);
                        Candidates::Rows(Box::new(rows))
                    }
                })
            }
            Source::Indexed { ids, postings } => {
                let (_, ids) = ids.split_at(ids.partition_point(|id| *id < from));
                let mut lanes = Vec::new();
                for posting in postings {
                    let mut cursor = read.ids(posting.map, &posting.key)?;
                    if cursor.seek(from)?.is_some() {
                        lanes.push(PostingCursor { cursor, block: Vec::with_capacity(BLOCK), passed: 0 });
                    }
                }
                Ok(Candidates::Indexed(Merged { ids, lanes }))
            }
        }
    }

    /// Returns the next candidate.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(EntryId, ScannedData<'s>)>> {
        match self {
            Candidates::Indexed(merged) => Ok(merged.next()?.map(|id| (EntryId(id), ScannedData::Nothing))),
            Candidates::Nodes(scan) => {
                let Some((id, value)) = scanned(scan, "nodes")? else { return Ok(None) };
                let node = NodeRow::decode(value).ok_or_else(|| damaged_row("nodes", id))?;
                Ok(Some((id, ScannedData::Node(node))))
            }
            Candidates::Rows(rows) => rows.next(),
        }
    }
}

impl<'s> RowScan<'s> {
    fn new(scan: Scan<'s>, guard: Option<Guard<'s>>, schema: &'s Schema) -> RowScan<'s> {
        let [block, coming] = [(); 2].map(|()| Vec::with_capacity(ROWS_AHEAD));
        RowScan {
            scan,
            guard,
            schema,
            block,
            returned: 0,
            coming,
            place: Place::default(),
            other_tests: guard.map(|guard| guard.other_tests()).unwrap_or_default(),
            others: Vec::new(),
            coming_others: Vec::new(),
            key: Vec::new(),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<(EntryId, ScannedData<'s>)>> {
        if self.returned == self.block.len() {
            self.fetch()?;
        }
        let Some(row) = self.block.get(self.returned) else { return Ok(None) };
        self.returned += 1;
        Ok(Some((row.id, if row.is_refused { ScannedData::Refusal } else { ScannedData::Row(row.bytes) })))
    }

    /// Fetches the next block. All rows of a block are prefetched before the first row is used. Otherwise the scan
    /// would mostly wait for memory.
    fn fetch(&mut self) -> Result<()> {
        self.returned = 0;
        let Some(guard) = self.guard else {
            self.block.clear();
            while let Some((id, bytes)) = scanned(&mut self.scan, "entries")? {
                system::prefetch(bytes);
                self.block.push(ScannedRow { id, bytes, located: None, is_refused: false });
                if self.block.len() == ROWS_AHEAD {
                    break;
                }
            }
            return Ok(());
        };
        if self.coming.is_empty() {
            self.block.clear();
            self.fetch_coming(guard)?;
        }
        std::mem::swap(&mut self.block, &mut self.coming);
        std::mem::swap(&mut self.others, &mut self.coming_others);
        self.coming.clear();
        self.coming_others.clear();
        self.fetch_coming(guard)
    }

    /// Prefetches the guard's values in the next block and tests the values in the current block, alternating row by
    /// row to keep both memory and processor busy. The scan itself has prefetched the row headers that locate the
    /// values.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the range ends at the length at the most")]
    fn fetch_coming(&mut self, guard: Guard<'s>) -> Result<()> {
        for place in 0..ROWS_AHEAD {
            if let Some((id, bytes)) = scanned(&mut self.scan, "entries")? {
                let located = guard.locate(bytes, &mut self.place);
                if let Some(Located { bytes, .. }) = located {
                    system::prefetch(&bytes[..bytes.len().min(VALUES_BYTES)]);
                }
                self.coming.push(ScannedRow { id, bytes, located, is_refused: false });
                if !self.other_tests.is_empty() {
                    self.locate_others(bytes);
                }
            }
            if let Some(row) = self.block.get_mut(place) {
                row.is_refused = guard.refuses(self.schema, row.located, &mut self.key);
                if row.is_refused && !self.other_tests.is_empty() {
                    let count = self.other_tests.len();
                    let located = self.others.get(place * count..(place + 1) * count).unwrap_or_default();
                    row.is_refused = others_refuse(&self.other_tests, self.schema, located, &mut self.key);
                }
            }
        }
        Ok(())
    }

    #[inline(never)]
    #[expect(clippy::indexing_slicing, reason = "the range ends at the length at the most")]
    fn locate_others(&mut self, row: &'s [u8]) {
        locate_others(&mut self.other_tests, row, |located| {
            if let Some(Located { bytes, .. }) = located {
                system::prefetch(&bytes[..bytes.len().min(VALUES_BYTES)]);
            }
            self.coming_others.push(located);
        });
    }
}

#[inline(always)]
fn scanned<'s>(scan: &mut Scan<'s>, map: &str) -> Result<Option<(EntryId, &'s [u8])>> {
    let Some(row) = scan.next() else { return Ok(None) };
    let (key, value) = row?;
    let id = key.try_into().map(u64::from_be_bytes).map(EntryId);
    let id = id.map_err(|_| OperationError::Damaged(format!("key of {map}")))?;
    Ok(Some((id, value)))
}

impl Merged<'_> {
    #[inline]
    fn next(&mut self) -> Result<Option<u64>> {
        let mut lowest = self.ids.first().copied();
        for lane in &mut self.lanes {
            lowest = match (lowest, lane.peek()?) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        let Some(lowest) = lowest else { return Ok(None) };
        if let [first, others @ ..] = self.ids
            && *first == lowest
        {
            self.ids = others;
        }
        for lane in &mut self.lanes {
            if lane.block.get(lane.passed) == Some(&lowest) {
                lane.passed += 1;
            }
        }
        Ok(Some(lowest))
    }
}

impl PostingCursor<'_> {
    fn peek(&mut self) -> Result<Option<u64>> {
        if self.passed == self.block.len() {
            self.block.clear();
            self.passed = 0;
            self.cursor.next_block(&mut self.block, BLOCK)?;
        }
        Ok(self.block.get(self.passed).copied())
    }
}
