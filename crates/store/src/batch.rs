//! [`Writer`] and [`Batch`]: the one way to change a store.
//!
//! A batch is one engine transaction, written straight through: its rows go into copies of the pages they touch, and its commit writes those
//! pages, syncs once, and writes the root. There is no nesting: whoever may refuse an operation decides before writing its first row.

use std::marker::PhantomData;
use std::ops::{Bound, Deref};
use std::sync::Arc;

use crate::layout::{Map, MapKind};
use crate::lmdb::{Failure, PutKind, Txn, TxnKind};
use crate::log;
use crate::scan::{Direction, Scan};
use crate::shared::Shared;
use crate::{MapId, Position, Read, Result, StoreError};

/// The one writer of a store. It may change threads, a batch of it may not.
///
/// A commit whose failure leaves the disk's state unknown (a failed sync above all) stops the writer until the store is opened anew: after
/// such a failure the system may have dropped what it could not write, and a second sync that succeeds proves nothing.
pub struct Writer {
    shared: Arc<Shared>,
    /// The last frame built, kept for its allocation.
    frame: Vec<u8>,
    begun: u64,
}

/// Counters that a batch holds before it writes them.
const MOVED_COUNTS_MAX: usize = 4_096;

/// How many batches pass until a reader in another process that died is noticed, which until then keeps pages from being reused.
const DEAD_READERS_EVERY: u64 = 64;

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Writer {
        Writer { shared, frame: Vec::new(), begun: 0 }
    }

    /// Whether a batch may begin: the reserve is free.
    ///
    /// # Errors
    /// `DiskFull`.
    pub fn check_reserve(&self) -> Result<()> {
        self.shared.room.check_reserve()
    }

    /// Begins a batch.
    ///
    /// # Errors
    /// `DiskFull` while less than the reserve is free, `WritesStopped` after a failed commit, `Engine`.
    pub fn begin(&mut self) -> Result<Batch<'_>> {
        self.shared.room.check_reserve()?;
        self.begin_in_reserve()
    }

    /// Begins a batch also while less than the reserve is free: for deleting and trimming, which make room.
    ///
    /// # Errors
    /// `WritesStopped` after a failed commit, `Engine`.
    pub fn begin_in_reserve(&mut self) -> Result<Batch<'_>> {
        self.shared.check_writes()?;
        if self.begun.is_multiple_of(DEAD_READERS_EVERY) {
            self.shared.env.forget_dead_readers()?;
        }
        self.begun += 1;
        let txn = Txn::begin(&self.shared.env, TxnKind::Write).map_err(|failure| match failure.code {
            Failure::PANIC => self.shared.stop_writes(failure),
            _ => failure.into(),
        })?;
        let read = Read::new(txn, self.shared.maps);
        let last = read.position()?;
        Ok(Batch { read, writer: self, last, broken: None, stays_on_its_thread: PhantomData })
    }
}

/// Changes that become durable and visible together. A [`Read`] that sees its own changes; dropped without
/// [`commit`](Batch::commit) it leaves no trace.
///
/// After an error other than `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind` and `CounterOverflow` a batch can only be dropped:
/// its commit gives the error again.
///
/// A batch ends on the thread where it began:
///
/// ```compile_fail
/// fn elsewhere(batch: store::Batch<'static>) {
///     std::thread::spawn(move || batch.commit());
/// }
/// ```
pub struct Batch<'w> {
    read: Read,
    writer: &'w mut Writer,
    last: Position,
    broken: Option<StoreError>,
    /// The engine's writer mutex must be released by the thread that took it.
    stays_on_its_thread: PhantomData<*mut ()>,
}

impl Batch<'_> {
    /// Sets the value of `key` in a plain map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind`, `DiskFull`, `Engine`.
    pub fn put(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        let map = self.map(map).of_kind(MapKind::Plain)?;
        map.check_value(value)?;
        self.put_value(map, key, value, PutKind::Set).map(drop)
    }

    /// Removes `key` with its value or with all its ids; says whether it was there.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `DiskFull`, `Engine`.
    pub fn delete(&mut self, map: MapId, key: &[u8]) -> Result<bool> {
        self.delete_value(self.map(map), key, None)
    }

    /// Adds `id` to the ids under `key` of an id set map; says whether it is new there.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `DiskFull`, `Engine`.
    pub fn insert_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        self.put_value(map, key, &id.to_be_bytes(), PutKind::Insert)
    }

    /// Removes `id` from the ids under `key` of an id set map; says whether it was there.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `DiskFull`, `Engine`.
    pub fn remove_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        self.delete_value(map, key, Some(&id.to_be_bytes()))
    }

    /// Adds `delta` to the counter `key` and returns its new value. A counter that comes back to 0 takes no room.
    ///
    /// Operations of a batch move the same few counters as a rule, those of a common parent and of all above it. So they are held and written once.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `CounterOverflow`, `DamagedRow`, `DiskFull`, `Engine`.
    pub fn bump(&mut self, key: &[u8], delta: i64) -> Result<i64> {
        let count = self.count(key)?.checked_add(delta).ok_or(StoreError::CounterOverflow)?;
        self.check_intact()?;
        match self.read.moved_counts.get_mut(key) {
            Some(moved) => *moved = count,
            None => drop(self.read.moved_counts.insert(key.to_vec(), count)),
        }
        if self.read.moved_counts.len() > MOVED_COUNTS_MAX {
            self.write_counts()?;
        }
        Ok(count)
    }

    fn write_counts(&mut self) -> Result<()> {
        for (key, count) in std::mem::take(&mut self.read.moved_counts) {
            match count {
                0 => self.delete_value(Map::COUNTS, &key, None)?,
                _ => self.put_value(Map::COUNTS, &key, &count.to_be_bytes(), PutKind::Set)?,
            };
        }
        Ok(())
    }

    /// Appends a record to the log and returns its position, one more than that of the record before.
    ///
    /// # Errors
    /// `ValueTooLong`, `DiskFull`, `Engine`.
    pub fn append_record(&mut self, record: &[u8]) -> Result<Position> {
        let position = self.last + 1;
        let mut frame = std::mem::take(&mut self.writer.frame);
        log::frame(position, record, &mut frame);
        let outcome = Map::LOG
            .check_value(&frame)
            .and_then(|()| self.put_value(Map::LOG, &position.to_be_bytes(), &frame, PutKind::Append));
        self.writer.frame = frame;
        outcome?;
        self.last = position;
        Ok(position)
    }

    /// Removes the oldest records whose position is below `before`, at most `rows_max`, and returns how many. The last record always
    /// stays: it carries the position. Few rows at a time keep the commit short: a long log wants many batches.
    ///
    /// # Errors
    /// `DamagedRow`, `DiskFull`, `Engine`.
    pub fn trim_log(&mut self, before: Position, rows_max: usize) -> Result<usize> {
        let before = before.min(self.last).to_be_bytes();
        let range = (Bound::Unbounded, Bound::Excluded(&before[..]));
        let rows = Scan::new(&self.read, Map::LOG, range, Direction::Forward).take(rows_max);
        let positions = rows.map(|row| log::position_of(row?.0)).collect::<Result<Vec<Position>>>()?;
        for position in &positions {
            self.delete_value(Map::LOG, &position.to_be_bytes(), None)?;
        }
        Ok(positions.len())
    }

    /// Makes the changes durable, with one sync, and then visible. Returns the log's last position.
    ///
    /// # Errors
    /// `DiskFull`: nothing of the batch remains and the writer may begin the next. `WritesStopped`: whether the batch is there is known
    /// after the next open. The error of the write that failed, where one did: nothing of the batch remains.
    pub fn commit(mut self) -> Result<Position> {
        self.check_intact()?;
        self.write_counts()?;
        let shared = &self.writer.shared;
        self.read.txn.commit().map_err(|failure| shared.commit_failed(failure))?;
        shared.committed()?;
        Ok(self.last)
    }

    fn put_value(&mut self, map: Map, key: &[u8], value: &[u8], kind: PutKind) -> Result<bool> {
        map.check_key(key)?;
        self.check_intact()?;
        self.read.txn.put(map.index, key, value, kind).map_err(|failure| self.write_failed(failure))
    }

    fn delete_value(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        map.check_key(key)?;
        self.check_intact()?;
        self.read.txn.delete(map.index, key, value).map_err(|failure| self.write_failed(failure))
    }

    fn check_intact(&self) -> Result<()> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    #[cold]
    fn write_failed(&mut self, failure: Failure) -> StoreError {
        let error = self.writer.shared.room.write_error(failure);
        self.broken = Some(error.clone());
        error
    }
}

impl Deref for Batch<'_> {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.read
    }
}
