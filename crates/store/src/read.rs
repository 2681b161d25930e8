//! [`Read`]: everything that can be asked, of a [`View`](crate::View) and of a [`Batch`](crate::Batch) alike.

use std::marker::PhantomData;
use std::ops::Bound;

use crate::{MapId, Position, Result};

/// A range of keys in memcmp order. Bounds may have any length; an empty one bounds nothing from below.
pub type KeyRange<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key up.
    Forward,
    /// From the highest key down.
    Backward,
}

/// The store as it is at one position. Slices and cursors borrow from it.
pub struct Read {
    _private: PhantomData<*mut ()>,
}

impl Read {
    /// The value of `key` in a plain map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn get(&self, map: MapId, key: &[u8]) -> Result<Option<&[u8]>> {
        let _ = (map, key);
        todo!()
    }

    /// The rows of a plain map whose keys lie in `range`, as `(key, value)`.
    pub fn scan(&self, map: MapId, range: KeyRange<'_>, direction: Direction) -> Scan<'_> {
        let _ = (map, range, direction);
        todo!()
    }

    /// The ids under `key` of an id set map. A missing key gives a cursor over nothing.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn ids(&self, map: MapId, key: &[u8]) -> Result<IdCursor<'_>> {
        let _ = (map, key);
        todo!()
    }

    /// Whether `id` is under `key` of an id set map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn contains_id(&self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let _ = (map, key, id);
        todo!()
    }

    /// The keys of an id set map that lie in `range`, each with the number of its ids, at a cost that does not depend on the numbers.
    pub fn scan_keys(&self, map: MapId, range: KeyRange<'_>, direction: Direction) -> KeyScan<'_> {
        let _ = (map, range, direction);
        todo!()
    }

    /// Rows of a plain map, or ids under all keys together of an id set map. Constant cost.
    ///
    /// # Errors
    /// `Parked`, `Engine`.
    pub fn row_count(&self, map: MapId) -> Result<u64> {
        let _ = map;
        todo!()
    }

    /// The value of a counter; 0 if it was never bumped.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `DamagedRow`, `Parked`, `Engine`.
    pub fn count(&self, key: &[u8]) -> Result<i64> {
        let _ = key;
        todo!()
    }

    /// The position of the last record in the log, 0 while there is none.
    ///
    /// # Errors
    /// `DamagedLog`, `Parked`, `Engine`.
    pub fn position(&self) -> Result<Position> {
        todo!()
    }

    /// The position of the oldest record that is still in the log, `None` while there is none.
    ///
    /// # Errors
    /// `DamagedLog`, `Parked`, `Engine`.
    pub fn first_position(&self) -> Result<Option<Position>> {
        todo!()
    }

    /// The log's records from position `from` (or the oldest kept, if that is later) to the end, as `(position, bytes)`.
    /// Each is checked against its checksum, and a missing one is an error.
    pub fn log_records(&self, from: Position) -> LogScan<'_> {
        let _ = from;
        todo!()
    }
}

/// Iterator of [`Read::scan`]. An error ends it.
pub struct Scan<'r> {
    _private: PhantomData<&'r Read>,
}

impl<'r> Iterator for Scan<'r> {
    type Item = Result<(&'r [u8], &'r [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

/// Iterator of [`Read::scan_keys`]. An error ends it.
pub struct KeyScan<'r> {
    _private: PhantomData<&'r Read>,
}

impl<'r> Iterator for KeyScan<'r> {
    type Item = Result<(&'r [u8], u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

/// Iterator of [`Read::log_records`]. An error ends it.
pub struct LogScan<'r> {
    _private: PhantomData<&'r Read>,
}

impl<'r> Iterator for LogScan<'r> {
    type Item = Result<(Position, &'r [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

/// The ids under one key, ascending. It stands before the lowest at first.
pub struct IdCursor<'r> {
    _private: PhantomData<&'r Read>,
}

impl IdCursor<'_> {
    /// Stands before the lowest id that is at least `at_least` and returns it, or stands at the end. Goes forward and backward.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek(&mut self, at_least: u64) -> Result<Option<u64>> {
        let _ = at_least;
        todo!()
    }

    /// Appends the next ids to `out`, at most `limit`, and returns how many. Fewer than `limit` means that the end is reached.
    ///
    /// # Errors
    /// `Engine`.
    pub fn next_block(&mut self, out: &mut Vec<u64>, limit: usize) -> Result<usize> {
        let _ = (out, limit);
        todo!()
    }

    /// How many ids the key has, wherever the cursor stands: exact, at constant cost.
    pub fn estimate(&self) -> u64 {
        todo!()
    }
}
