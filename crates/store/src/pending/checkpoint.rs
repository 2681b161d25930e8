//! Checkpoints: writing a layer of the overlay into the data file, in the order of its pages.
//!
//! A layer contains only the newest change of each row, and the rows of one page are adjacent in the layer. So a page
//! is written once for all its changes since the previous checkpoint, and not once per commit. The rows are written in
//! slices, each an ordinary durable transaction. So few pages are in memory at once, and no transaction occupies the
//! disk or a core for long. The last slice records in `store.meta` how far the redo log is checkpointed. If a
//! checkpoint ends before that, replaying the log writes its rows again.

use std::ops::Bound;
use std::sync::Arc;

use crate::Position;
use crate::layout::{CHECKPOINTED_KEY, THROUGH_KEY};
use crate::lmdb::{Env, Failure, PutKind, Step, Txn, TxnKind};
use crate::maps::Map;
use crate::overlay::{Key, Layer, RowChange, SetChange};
use crate::snapshot_map::SnapshotMap;

type Result<T> = crate::Result<T, Failure>;

/// Rows after which a slice ends. Each row may change a different page. So a commit writes up to about 16 MiB, and
/// meanwhile a sync of the redo log waits. Smaller slices cost more in total: each commit has two syncs, for which the
/// system scans all cached pages of the file.
const SLICE_ROWS: usize = 4 << 10;
/// Bytes of rows after which a slice ends.
const SLICE_BYTES: usize = 8 << 20;
/// Number of rows between two opportunities to yield: some tens of microseconds of work.
const YIELD_ROWS: usize = 16;

/// Pace of a checkpoint.
pub(crate) trait Pace {
    /// Called every few rows.
    fn maybe_yield(&mut self);

    /// Called between slices.
    fn rest(&mut self);
}

/// The pace of full speed: it never yields and never pauses.
impl Pace for () {
    fn maybe_yield(&mut self) {}

    fn rest(&mut self) {}
}

/// Writes a layer to the data file. The data file then contains the changes of the redo log up to the group
/// `checkpointed`. The changes are durable on return.
pub(crate) fn checkpoint(
    env: &Arc<Env>,
    layer: &Layer,
    checkpointed: u64,
    pace: &mut dyn Pace,
) -> Result<()> {
    let mut slices = Slices { env, txn: None, pace: Some(pace), rows: 0, bytes: 0 };
    slices.write(layer)?;
    slices.txn()?.put(Map::META.index, CHECKPOINTED_KEY, &checkpointed.to_be_bytes(), PutKind::Set)?;
    slices.commit()
}

/// Writes a layer to the data file in one transaction, completely or not at all.
pub(crate) fn write_through(env: &Arc<Env>, layer: &Layer) -> Result<()> {
    let mut slices = Slices { env, txn: None, pace: None, rows: 0, bytes: 0 };
    slices.write(layer)?;
    count_write_through(slices.txn()?)?;
    slices.commit()
}

/// Counts, in the data file, a transaction that bypasses the redo log. The count is compared with a redo log, so that
/// an older copy of the data file is detected.
pub(crate) fn count_write_through(txn: &mut Txn) -> Result<()> {
    let before = txn.get(Map::META.index, THROUGH_KEY)?.and_then(|bytes| bytes.try_into().ok());
    let count = before.map_or(0, u64::from_be_bytes) + 1;
    txn.put(Map::META.index, THROUGH_KEY, &count.to_be_bytes(), PutKind::Set).map(drop)
}

/// Successive transactions of a checkpoint.
struct Slices<'f> {
    env: &'f Arc<Env>,
    /// The current transaction, begun at the first write.
    txn: Option<Txn>,
    /// `None` for a single slice, which is written at full speed.
    pace: Option<&'f mut dyn Pace>,
    /// Rows and bytes of the current slice.
    rows: usize,
    bytes: usize,
}

impl Slices<'_> {
    fn write(&mut self, layer: &Layer) -> Result<()> {
        for (map, changes) in layer.maps.iter().enumerate() {
            if map == Map::LOG.index {
                self.trim_log(layer.log_start)?;
                self.put_rows(map, &changes.rows, &layer.log_start.to_be_bytes())?;
            } else {
                self.put_rows(map, &changes.rows, &[])?;
                self.put_sets(map, &changes.sets)?;
            }
        }
        Ok(())
    }

    /// Writes the rows whose keys are `low` or higher.
    fn put_rows(&mut self, map: usize, rows: &SnapshotMap<Key, RowChange>, low: &[u8]) -> Result<()> {
        let mut cursor = rows.cursor();
        cursor.seek(Bound::Included(low));
        while let Some((key, value)) = cursor.item() {
            let (txn, key) = (self.txn()?, key.bytes());
            match value {
                Some(value) if map == Map::LOG.index => append(txn, map, key, value)?,
                Some(value) => drop(txn.put(map, key, value, PutKind::Set)?),
                None => drop(txn.delete(map, key, None)?),
            }
            self.written(key.len() + value.as_ref().map_or(0, |value| value.len()))?;
            cursor.next();
        }
        Ok(())
    }

    fn put_sets(&mut self, map: usize, sets: &SnapshotMap<Key, SetChange>) -> Result<()> {
        let mut cursor = sets.cursor();
        cursor.seek(Bound::<&[u8]>::Unbounded);
        while let Some((key, set)) = cursor.item() {
            if set.cleared {
                self.txn()?.delete(map, key.bytes(), None)?;
            }
            let mut ids = set.ids.cursor();
            ids.seek(0);
            while let Some((id, is_present)) = ids.item() {
                let id = id.to_be_bytes();
                match is_present {
                    true => self.txn()?.put(map, key.bytes(), &id, PutKind::Insert)?,
                    false => self.txn()?.delete(map, key.bytes(), Some(&id))?,
                };
                self.written(key.bytes().len() + id.len())?;
                ids.next();
            }
            cursor.next();
        }
        Ok(())
    }

    /// Removes the log records below a position.
    fn trim_log(&mut self, start: Position) -> Result<()> {
        let start = start.to_be_bytes();
        loop {
            let first = self.txn()?.cursor(Map::LOG.index)?.step(Step::First)?;
            let Some(key) = first.map(|(key, _)| key.to_vec()).filter(|key| key[..] < start[..]) else {
                return Ok(());
            };
            self.txn()?.delete(Map::LOG.index, &key, None)?;
            self.written(key.len())?;
        }
    }

    /// Counts a written row. Ends the slice if it has become large.
    fn written(&mut self, row_len: usize) -> Result<()> {
        self.rows += 1;
        self.bytes += row_len;
        let Some(pace) = &mut self.pace else { return Ok(()) };
        if self.rows < SLICE_ROWS && self.bytes < SLICE_BYTES {
            if self.rows.is_multiple_of(YIELD_ROWS) {
                pace.maybe_yield();
            }
            return Ok(());
        }
        self.commit()?;
        if let Some(pace) = &mut self.pace {
            pace.rest();
        }
        Ok(())
    }

    fn txn(&mut self) -> Result<&mut Txn> {
        if self.txn.is_none() {
            self.txn = Some(Txn::begin(self.env, TxnKind::Write)?);
        }
        self.txn.as_mut().ok_or(Failure { operation: "mdb_txn_begin", code: Failure::PANIC })
    }

    fn commit(&mut self) -> Result<()> {
        (self.rows, self.bytes) = (0, 0);
        self.txn.take().map_or(Ok(()), Txn::commit)
    }
}

/// Appends a row after all others, which fills pages and does not split them. If an unfinished checkpoint has already
/// written the row, sets its value.
fn append(txn: &mut Txn, map: usize, key: &[u8], value: &[u8]) -> Result<()> {
    match txn.put(map, key, value, PutKind::Append) {
        Err(Failure { code: Failure::KEY_EXISTS, .. }) => txn.put(map, key, value, PutKind::Set).map(drop),
        outcome => outcome.map(drop),
    }
}
