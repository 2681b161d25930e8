//! [`Writer`] and [`Batch`]: the only way to change a store.
//!
//! A batch collects its changes twice: in a separate overlay, so that the batch's reads see the changes, and as a group
//! for the redo log. Its commit appends the group with one sync and publishes the overlay. The data file is written
//! later, by the checkpointer; see the module `pending`. Batches cannot be nested. So before a caller writes the first
//! row of an operation, it must decide whether to refuse the operation. A [`Savepoint`] is for the few conditions that
//! can be checked only at the end of an operation.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::lmdb::{Failure, Txn, TxnKind};
use crate::log;
use crate::maps::{Map, MapKind, MapSpec};
use crate::overlay::Overlay;
use crate::pending::Pending;
use crate::read::BufferedRow;
use crate::redo::{Change, Group};
use crate::shared::Shared;
use crate::{MapId, Position, Read, Result, StoreError};

/// The single writer of a store. The writer may move to another thread.
///
/// Some failures of a commit, most often a failed sync, leave the state of the disk unknown. After such a failure the
/// writer refuses batches until the store is opened again. The reason is that the system may have dropped pages that it
/// could not write, so a later successful sync proves nothing.
pub struct Writer {
    /// State that a batch reads and changes. It is parked between batches.
    read: Read,
    pending: Arc<Pending>,
    group: Group,
    /// Buffer of the last frame. Its allocation is reused.
    frame: Vec<u8>,
    /// Result of the last check whether the reserve is free. `None` before the first check of a batch, so each batch
    /// makes at most one system call.
    has_reserve: Option<bool>,
    shared: Arc<Shared>,
}

/// Maximum number of changed counters in the buffer of a batch. When the number is exceeded, all changed counters are
/// written.
const MOVED_COUNTS_MAX: usize = 4_096;
/// Maximum number of rows in the buffer of a batch. When the number is exceeded, all buffered rows are written. The
/// limit is small, because a look-up compares its key with each buffered row.
const BUFFERED_ROWS_MAX: usize = 16;

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, pending: Arc<Pending>) -> Result<Writer> {
        let mut txn = Txn::begin(&shared.env, TxnKind::Read)?;
        txn.reset();
        let mut read = Read::new(txn, shared.maps);
        read.parked = true;
        Ok(Writer { read, pending, group: Group::new(), frame: Vec::new(), has_reserve: None, shared })
    }

    /// Caches the locations of rows with numeric keys in up to a quarter of `bytes_max` bytes; see
    /// [`View::cache_rows`](crate::View::cache_rows). Caching helps because one change reads the same few rows several
    /// times.
    pub fn cache_rows(&mut self, bytes_max: usize) {
        self.read.txn.cache_rows(bytes_max);
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn maps(&self) -> &'static [MapSpec] {
        self.shared.maps
    }

    /// Checks that the reserve is free, so that a batch may begin.
    ///
    /// # Errors
    /// `DiskFull`.
    pub fn check_reserve(&mut self) -> Result<()> {
        let checked = self.shared.room.check_reserve();
        self.has_reserve = Some(checked.is_ok());
        checked
    }

    /// Begins a batch. Waits while the size of pending changes is at its limit
    /// ([`Options::pending_bytes_max`](crate::Options)).
    ///
    /// # Errors
    /// `DiskFull` while less than the reserve is free, or if the limit is reached because the data file cannot grow;
    /// `WritesStopped` after a failed commit; `Engine`.
    pub fn begin(&mut self) -> Result<Batch<'_>> {
        self.check_reserve()?;
        self.begin_in_reserve()
    }

    /// Begins a batch even while less than the reserve is free: for deleting and trimming, which free space.
    ///
    /// # Errors
    /// The same as [`begin`](Writer::begin), except for the reserve.
    pub fn begin_in_reserve(&mut self) -> Result<Batch<'_>> {
        self.pending.check_writes()?;
        let state = self.pending.begin_batch()?;
        let renewed = self.read.txn.renew();
        self.read.parked = renewed.is_err();
        self.read.overlay = Some(Arc::new(Overlay::clone(&state.overlay)));
        drop(state);
        // From here on, dropping `batch` ends the batch, even after an error.
        let mut batch = Batch { writer: self, last: 0, broken: None, is_large: false };
        renewed.map_err(|failure| match failure.code {
            Failure::PANIC => batch.writer.pending.stop_writes(failure),
            _ => failure.into(),
        })?;
        batch.last = batch.position()?;
        Ok(batch)
    }
}

/// Changes that become durable and visible together. A batch is also a [`Read`], and its reads see the changes. The
/// changes are in memory until [`commit`](Batch::commit); dropping the batch without a commit discards the changes.
///
/// After any error but `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind` and `CounterOverflow`, a batch can only
/// be dropped: its commit returns the error again.
pub struct Batch<'w> {
    writer: &'w mut Writer,
    last: Position,
    broken: Option<StoreError>,
    /// Whether the batch has become too large for the redo log. The group of a large batch is discarded.
    is_large: bool,
}

/// State of a batch to which [`Batch::roll_back`] returns.
pub struct Savepoint {
    overlay: Option<Overlay>,
    moved_counts: BTreeMap<Vec<u8>, i64>,
    buffered_rows: Vec<BufferedRow>,
    /// Length of the group's changes.
    group_len: usize,
    last: Position,
}

impl Batch<'_> {
    /// Records the state of the batch. Costs about as much as one change, so use it only for operations that are
    /// accepted or refused at their end.
    #[cold]
    pub fn savepoint(&self) -> Savepoint {
        let read = &self.writer.read;
        Savepoint {
            overlay: read.overlay.as_deref().cloned(),
            moved_counts: read.moved_counts.clone(),
            buffered_rows: read.buffered_rows.clone(),
            group_len: self.writer.group.byte_count(),
            last: self.last,
        }
    }

    /// Reverts all changes since a savepoint of this batch. A broken batch remains broken.
    #[cold]
    pub fn roll_back(&mut self, savepoint: Savepoint) {
        let Writer { read, group, .. } = &mut *self.writer;
        read.overlay = savepoint.overlay.map(Arc::new);
        (read.moved_counts, read.buffered_rows) = (savepoint.moved_counts, savepoint.buffered_rows);
        self.last = savepoint.last;
        // If the group has become too large, it is already empty, and the commit uses only the overlay.
        if !self.is_large {
            group.truncate(savepoint.group_len);
        }
    }

    /// Sets the value of `key` in a plain map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind`, `Engine`.
    pub fn put(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        let map = self.map(map).of_kind(MapKind::Plain)?;
        map.check_value(value)?;
        self.check(map, key)?;
        self.settle(map, key)?;
        self.set_row(map, key, value)
    }

    /// Sets the value of `key` and buffers the row, usually until the commit. Use this method for the few rows that
    /// every operation of a batch sets, so that each of these rows is written once. While the row is buffered, scans
    /// return the old value, and [`row_count`](Read::row_count) does not count the change.
    ///
    /// # Errors
    /// The same as [`put`](Batch::put).
    pub fn put_buffered(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        let map = self.map(map).of_kind(MapKind::Plain)?;
        map.check_value(value)?;
        self.check(map, key)?;
        let buffered_rows = &mut self.writer.read.buffered_rows;
        if let Some(held) = buffered_rows.iter_mut().find(|held| held.is(map, key)) {
            held.value.clear();
            held.value.extend_from_slice(value);
            return Ok(());
        }
        buffered_rows.push(BufferedRow { map, key: key.to_vec(), value: value.to_vec() });
        if buffered_rows.len() > BUFFERED_ROWS_MAX {
            self.flush_buffered_rows()?;
        }
        Ok(())
    }

    fn flush_buffered_rows(&mut self) -> Result<()> {
        for BufferedRow { map, key, value } in std::mem::take(&mut self.writer.read.buffered_rows) {
            self.set_row(map, &key, &value)?;
        }
        Ok(())
    }

    /// Writes the row of `key` if it is buffered. Called before any other kind of change to the row.
    fn settle(&mut self, map: Map, key: &[u8]) -> Result<()> {
        let buffered_rows = &mut self.writer.read.buffered_rows;
        let Some(place) = buffered_rows.iter().position(|held| held.is(map, key)) else { return Ok(()) };
        let held = buffered_rows.swap_remove(place);
        self.set_row(map, key, &held.value)
    }

    fn set_row(&mut self, map: Map, key: &[u8], value: &[u8]) -> Result<()> {
        let changed = self.writer.read.change_row(map, key, Some(value));
        self.changed(changed)?;
        self.push(Change::Put { map: map.number(), key, value });
        Ok(())
    }

    /// Removes `key` with its value or with all its ids. Returns true if it existed.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `Engine`.
    pub fn delete(&mut self, map: MapId, key: &[u8]) -> Result<bool> {
        let map = self.map(map);
        self.check(map, key)?;
        self.settle(map, key)?;
        let changed = match map.spec.kind {
            MapKind::Plain => self.writer.read.change_row(map, key, None),
            MapKind::IdSet => self.writer.read.clear_set(map, key),
        };
        let existed = self.changed(changed)?;
        if existed {
            self.push(Change::Delete { map: map.number(), key });
        }
        Ok(existed)
    }

    /// Adds `id` to the ids under `key` of an id set map. Returns true if the id is new.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Engine`.
    pub fn insert_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        self.check(map, key)?;
        let changed = self.writer.read.change_id(map, key, id, true);
        let is_new = self.changed(changed)?;
        if is_new {
            self.push(Change::InsertId { map: map.number(), key, id });
        }
        Ok(is_new)
    }

    /// Adds an id that is not under the key yet, without the look-up of [`insert_id`](Batch::insert_id). If the id is
    /// already under the key, the number of ids recorded for the key is one too high until the next checkpoint. This
    /// mistake has no other effect.
    ///
    /// # Errors
    /// The same as [`insert_id`](Batch::insert_id).
    pub fn insert_new_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<()> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        self.check(map, key)?;
        let changed = self.writer.read.add_new_id(map, key, id);
        if self.changed(changed)? {
            self.push(Change::InsertId { map: map.number(), key, id });
        }
        Ok(())
    }

    /// Removes `id` from the ids under `key` of an id set map. Returns true if the id was under the key.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Engine`.
    pub fn remove_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        self.check(map, key)?;
        let changed = self.writer.read.change_id(map, key, id, false);
        let was_there = self.changed(changed)?;
        if was_there {
            self.push(Change::RemoveId { map: map.number(), key, id });
        }
        Ok(was_there)
    }

    /// Adds `delta` to the counter `key` and returns its new value. A counter of 0 occupies no space.
    ///
    /// The operations of a batch usually change the same few counters: the counters of a common parent and of all its
    /// superiors. Changed counters are therefore buffered, so that they are usually written once.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `CounterOverflow`, `DamagedRow`, `Engine`.
    pub fn bump(&mut self, key: &[u8], delta: i64) -> Result<i64> {
        let count = self.count(key)?.checked_add(delta).ok_or(StoreError::CounterOverflow)?;
        self.check_intact()?;
        let moved_counts = &mut self.writer.read.moved_counts;
        match moved_counts.get_mut(key) {
            Some(moved) => *moved = count,
            None => drop(moved_counts.insert(key.to_vec(), count)),
        }
        if moved_counts.len() > MOVED_COUNTS_MAX {
            self.write_counts();
        }
        Ok(count)
    }

    fn write_counts(&mut self) {
        for (key, count) in std::mem::take(&mut self.writer.read.moved_counts) {
            let bytes = count.to_be_bytes();
            let value = (count != 0).then_some(&bytes[..]);
            self.writer.read.change_own_row(Map::COUNTS, &key, value);
            self.push(match value {
                Some(value) => Change::Put { map: Map::COUNTS.number(), key: &key, value },
                None => Change::Delete { map: Map::COUNTS.number(), key: &key },
            });
        }
    }

    /// Appends a record to the log. Returns its position, which is one higher than the position of the previous record.
    ///
    /// # Errors
    /// `ValueTooLong`, `Engine`.
    pub fn append_record(&mut self, record: &[u8]) -> Result<Position> {
        self.check_intact()?;
        let position = self.last + 1;
        let mut frame = std::mem::take(&mut self.writer.frame);
        log::frame(position, record, &mut frame);
        let outcome = Map::LOG.check_value(&frame);
        if outcome.is_ok() {
            let key = &position.to_be_bytes();
            self.writer.read.change_own_row(Map::LOG, key, Some(&frame));
            self.push(Change::Put { map: Map::LOG.number(), key, value: &frame });
            self.last = position;
        }
        self.writer.frame = frame;
        outcome.map(|()| position)
    }

    /// Removes the oldest records whose position is below `before`, at most `rows_max` of them, and returns their
    /// number. The last record is never removed, because the position of the next record is derived from it. A small
    /// `rows_max` keeps the commit short; trimming a long log then takes many batches.
    ///
    /// # Errors
    /// `DamagedRow`, `Engine`.
    pub fn trim_log(&mut self, before: Position, rows_max: usize) -> Result<usize> {
        self.check_intact()?;
        let Some(first) = self.first_position()? else { return Ok(0) };
        let count = before.min(self.last).saturating_sub(first).min(rows_max as u64);
        for position in first..first + count {
            self.push(Change::Delete { map: Map::LOG.number(), key: &position.to_be_bytes() });
        }
        if count > 0 {
            self.writer.read.trim_log_to(first + count);
        }
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Makes the changes durable, usually with one sync, and then visible. Returns the log's last position.
    ///
    /// # Errors
    /// `DiskFull`: nothing of the batch remains, and the writer may begin the next batch. `WritesStopped`: it is
    /// unknown until the next open whether the batch is durable. If an earlier change of this batch failed, `commit`
    /// returns the error of that change, and nothing of the batch remains.
    pub fn commit(mut self) -> Result<Position> {
        self.check_intact()?;
        self.write_counts();
        self.flush_buffered_rows()?;
        let Writer { read, pending, group, has_reserve, .. } = &mut *self.writer;
        let Some(overlay) = &read.overlay else { return Ok(self.last) };
        if self.is_large
            || (!group.is_empty() && pending.prefers_write_through(group.byte_count(), *has_reserve)?)
        {
            pending.write_through(&overlay.active)?;
        } else if !group.is_empty() {
            pending.commit(&overlay.active, group)?;
        }
        Ok(self.last)
    }

    /// Checks that `key` is valid and the batch is not broken.
    fn check(&self, map: Map, key: &[u8]) -> Result<()> {
        map.check_key(key)?;
        self.check_intact()
    }

    fn check_intact(&self) -> Result<()> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Breaks the batch if `outcome`, the result of a change, is an error. Returns `outcome`.
    fn changed(&mut self, outcome: Result<bool>) -> Result<bool> {
        if let Err(error) = &outcome {
            self.broken = Some(error.clone());
        }
        outcome
    }

    fn push(&mut self, change: Change<'_>) {
        if self.is_large {
            return;
        }
        self.writer.group.push(change);
        if self.writer.group.byte_count() > self.writer.pending.group_bytes_max() {
            self.is_large = true;
            self.writer.group.clear();
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let Writer { read, pending, group, has_reserve, .. } = &mut *self.writer;
        *has_reserve = None;
        read.txn.reset();
        read.parked = true;
        read.overlay = None;
        read.moved_counts.clear();
        read.buffered_rows.clear();
        group.clear();
        pending.end_batch();
    }
}

impl Deref for Batch<'_> {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.writer.read
    }
}
