//! [`Read`]: everything that can be asked, of a [`View`](crate::View) and of a [`Batch`](crate::Batch) alike.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::ids::IdCursor;
use crate::layout::{Map, MapId, MapKind, MapSpec};
use crate::lmdb::{Cursor, Failure, Step, Txn};
use crate::log::{self, LogScan};
use crate::scan::{Direction, KeyRange, KeyScan, Scan};
use crate::{Position, Result, StoreError};

/// The store as it is at one position. Slices and cursors borrow from it, so none lives across a write or a renewal.
pub struct Read {
    pub(crate) txn: Txn,
    maps: &'static [MapSpec],
    pub(crate) parked: bool,
    /// Counters that a batch has moved and not written yet. Empty in a view.
    pub(crate) moved_counts: BTreeMap<Vec<u8>, i64>,
}

impl Read {
    pub(crate) fn new(txn: Txn, maps: &'static [MapSpec]) -> Read {
        Read { txn, maps, parked: false, moved_counts: BTreeMap::new() }
    }

    /// The value of `key` in a plain map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn get(&self, map: MapId, key: &[u8]) -> Result<Option<&[u8]>> {
        self.value(self.map(map).of_kind(MapKind::Plain)?, key)
    }

    /// Says that the value of the number `key` (8 bytes, big-endian) in a plain map will be asked for soon. Costs next to nothing, and changes no
    /// answer; see [`View::remember_rows`](crate::View::remember_rows).
    #[inline]
    pub fn expect(&self, map: MapId, key: u64) {
        self.txn.expect(self.map(map).index, key);
    }

    /// The rows of a plain map whose keys lie in `range`, as `(key, value)`.
    pub fn scan(&self, map: MapId, range: KeyRange<'_>, direction: Direction) -> Scan<'_> {
        Scan::new(self, self.map(map), range, direction)
    }

    /// The ids under `key` of an id set map. A missing key gives a cursor over nothing.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn ids(&self, map: MapId, key: &[u8]) -> Result<IdCursor<'_>> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        map.check_key(key)?;
        IdCursor::open(self, map.index, key)
    }

    /// Whether `id` is under `key` of an id set map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn contains_id(&self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        map.check_key(key)?;
        self.cursor(map)?.has_value(key, &id.to_be_bytes()).map_err(|failure| self.error(failure))
    }

    /// The keys of an id set map that lie in `range`, each with the number of its ids, at a cost that does not depend on the numbers.
    pub fn scan_keys(&self, map: MapId, range: KeyRange<'_>, direction: Direction) -> KeyScan<'_> {
        KeyScan::new(self, self.map(map), range, direction)
    }

    /// Rows of a plain map, or ids under all keys together of an id set map. Constant cost.
    ///
    /// # Errors
    /// `Parked`, `Engine`.
    pub fn row_count(&self, map: MapId) -> Result<u64> {
        self.txn.row_count(self.map(map).index).map_err(|failure| self.error(failure))
    }

    /// The value of a counter; 0 if it was never bumped. Counters have a key space of their own, apart from every map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `DamagedRow`, `Parked`, `Engine`.
    pub fn count(&self, key: &[u8]) -> Result<i64> {
        if let Some(count) = self.moved_counts.get(key) {
            return Ok(*count);
        }
        match self.value(Map::COUNTS, key)?.map(<[u8; 8]>::try_from) {
            None => Ok(0),
            Some(Ok(bytes)) => Ok(i64::from_be_bytes(bytes)),
            Some(Err(_)) => Err(StoreError::DamagedRow { map: Map::COUNTS.spec.name }),
        }
    }

    /// All counters that are not 0, ascending by key; in a batch some may be as they were before it.
    pub fn counters(&self) -> impl Iterator<Item = Result<(&[u8], i64)>> {
        let rows = Scan::new(self, Map::COUNTS, (Bound::Unbounded, Bound::Unbounded), Direction::Forward);
        rows.map(|row| {
            let (key, value) = row?;
            let count = value.try_into().map(i64::from_be_bytes);
            Ok((key, count.map_err(|_| StoreError::DamagedRow { map: Map::COUNTS.spec.name })?))
        })
    }

    /// The position of the last record in the log, 0 while there is none.
    ///
    /// # Errors
    /// `DamagedRow`, `Parked`, `Engine`.
    pub fn position(&self) -> Result<Position> {
        Ok(self.log_end(Step::Last)?.unwrap_or(0))
    }

    /// The position of the oldest record that is still in the log, `None` while there is none.
    ///
    /// # Errors
    /// `DamagedRow`, `Parked`, `Engine`.
    pub fn first_position(&self) -> Result<Option<Position>> {
        self.log_end(Step::First)
    }

    /// The log's records from position `from` (or the oldest kept, if that is later) to the end, as `(position, bytes)`.
    /// Each is checked against its checksum, and a missing one is an error.
    pub fn log_records(&self, from: Position) -> LogScan<'_> {
        let low = from.to_be_bytes();
        let range = (Bound::Included(&low[..]), Bound::Unbounded);
        LogScan::new(self, Scan::new(self, Map::LOG, range, Direction::Forward), from)
    }

    fn log_end(&self, end: Step) -> Result<Option<Position>> {
        let row = self.cursor(Map::LOG)?.step(end).map_err(|failure| self.error(failure))?;
        row.map(|(key, _)| log::position_of(key)).transpose()
    }

    /// The names of all maps in the data file, known to this program or not.
    pub(crate) fn map_names(&self) -> Result<Vec<Vec<u8>>> {
        self.txn.map_names().map_err(|failure| self.error(failure))
    }

    pub(crate) fn map(&self, id: MapId) -> Map {
        Map::users(self.maps, id)
    }

    pub(crate) fn value(&self, map: Map, key: &[u8]) -> Result<Option<&[u8]>> {
        map.check_key(key)?;
        self.txn.get(map.index, key).map_err(|failure| self.error(failure))
    }

    pub(crate) fn cursor(&self, map: Map) -> Result<Cursor<'_>> {
        self.txn.cursor(map.index).map_err(|failure| self.error(failure))
    }

    /// The error for a failed read.
    #[cold]
    pub(crate) fn error(&self, failure: Failure) -> StoreError {
        if self.parked { StoreError::Parked } else { failure.into() }
    }
}
