//! [`Writer`] and [`Batch`]: the one way to change a store.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::{MapId, Position, Read, Result};

/// The one writer of a store. It may change threads, a batch of it may not.
pub struct Writer {
    _private: (),
}

impl Writer {
    /// Begins a batch.
    ///
    /// # Errors
    /// `DiskFull` while less than the reserve is free, `WritesStopped` after a failed commit, `Engine`.
    pub fn begin(&mut self) -> Result<Batch<'_>> {
        todo!()
    }

    /// Begins a batch also while less than the reserve is free: for deleting and trimming, which make room.
    ///
    /// # Errors
    /// `WritesStopped` after a failed commit, `Engine`.
    pub fn begin_in_reserve(&mut self) -> Result<Batch<'_>> {
        todo!()
    }
}

/// Changes that become durable and visible together. A [`Read`] that sees its own changes; dropped without
/// [`commit`](Batch::commit) it leaves no trace.
///
/// After an error other than `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind` and `CounterOverflow` a batch can only be dropped;
/// its commit gives the error again.
pub struct Batch<'w> {
    read: Read,
    _private: PhantomData<&'w mut Writer>,
}

impl Batch<'_> {
    /// Sets the value of `key` in a plain map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind`, `DiskFull`, `Engine`.
    pub fn put(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        let _ = (map, key, value);
        todo!()
    }

    /// Removes `key` with its value or with all its ids; says whether it was there.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `DiskFull`, `Engine`.
    pub fn delete(&mut self, map: MapId, key: &[u8]) -> Result<bool> {
        let _ = (map, key);
        todo!()
    }

    /// Adds `id` to the ids under `key` of an id set map; says whether it is new there.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `DiskFull`, `Engine`.
    pub fn insert_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let _ = (map, key, id);
        todo!()
    }

    /// Removes `id` from the ids under `key` of an id set map; says whether it was there.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `DiskFull`, `Engine`.
    pub fn remove_id(&mut self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let _ = (map, key, id);
        todo!()
    }

    /// Adds `delta` to the counter `key` and returns its new value. A counter that comes back to 0 takes no room.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `CounterOverflow`, `DamagedRow`, `DiskFull`, `Engine`.
    pub fn bump(&mut self, key: &[u8], delta: i64) -> Result<i64> {
        let _ = (key, delta);
        todo!()
    }

    /// Appends a record to the log and returns its position, one more than that of the record before.
    ///
    /// # Errors
    /// `ValueTooLong`, `DiskFull`, `Engine`.
    pub fn append_record(&mut self, record: &[u8]) -> Result<Position> {
        let _ = record;
        todo!()
    }

    /// Removes the oldest records whose position is below `before`, at most `rows_max`, and returns how many. The last record always
    /// stays. Few rows at a time keep the commit short: a long log wants many batches.
    ///
    /// # Errors
    /// `DamagedLog`, `DiskFull`, `Engine`.
    pub fn trim_log(&mut self, before: Position, rows_max: usize) -> Result<usize> {
        let _ = (before, rows_max);
        todo!()
    }

    /// Makes the changes durable, with one sync, and then visible. Returns the log's last position.
    ///
    /// # Errors
    /// `DiskFull`: nothing of the batch remains and the writer may begin the next. Any other error stops the writer: whether
    /// the batch is there is known after the next open.
    pub fn commit(self) -> Result<Position> {
        todo!()
    }
}

impl Deref for Batch<'_> {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.read
    }
}
