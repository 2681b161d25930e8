//! [`Read`]: all queries of a [`View`](crate::View) and of a [`Batch`](crate::Batch).

pub(crate) mod changes;
pub(crate) mod ids;
pub(crate) mod log_scan;
pub(crate) mod scan;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::lmdb::{AbsentPages, Cursor, Failure, Found, PageNumber, Step, Txn};
use crate::log;
use crate::maps::{Direction, KeyRange, Map, MapId, MapKind, MapSpec};
use crate::overlay::Overlay;
use crate::{Position, Result, StoreError};
use ids::IdCursor;
use log_scan::LogScan;
use scan::{KeyScan, Scan};

/// State of the store at one position: a snapshot of the data file, and the pending changes over it. Slices and cursors
/// borrow from this value, so none outlives a write or a renewal.
pub struct Read {
    pub(crate) txn: Txn,
    pub(crate) maps: &'static [MapSpec],
    pub(crate) parked: bool,
    /// Pending changes, which take precedence over the data file. `None` if nothing is pending, so that reads need not
    /// search an empty overlay.
    pub(crate) overlay: Option<Arc<Overlay>>,
    /// Counters that a batch has changed but not written yet. Empty in a view.
    pub(crate) moved_counts: BTreeMap<Vec<u8>, i64>,
    /// The few rows that a batch has set but not written yet. Empty in a view.
    pub(crate) buffered_rows: Vec<BufferedRow>,
}

/// A row of a plain map that a batch has set but not written yet.
#[derive(Clone)]
pub(crate) struct BufferedRow {
    pub(crate) map: Map,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl BufferedRow {
    /// Returns true if this is the row of this key.
    #[inline]
    pub(crate) fn is(&self, map: Map, key: &[u8]) -> bool {
        self.map.index == map.index && self.key == key
    }
}

impl Read {
    pub(crate) fn new(txn: Txn, maps: &'static [MapSpec]) -> Read {
        Read {
            txn,
            maps,
            parked: false,
            overlay: None,
            moved_counts: BTreeMap::new(),
            buffered_rows: Vec::new(),
        }
    }

    /// Returns the value of `key` in a plain map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn get(&self, map: MapId, key: &[u8]) -> Result<Option<&[u8]>> {
        self.value(self.map(map).of_kind(MapKind::Plain)?, key)
    }

    /// Prefetches the value of the row with numeric key `key` (8 bytes, big-endian) in a plain map into the processor's
    /// cache. Call it before a read of that value. The call is cheap and changes no result; see
    /// [`View::cache_rows`](crate::View::cache_rows).
    #[inline]
    pub fn prefetch(&self, map: MapId, key: u64) {
        self.txn.prefetch(self.map(map).index, key);
    }

    /// Prefetches the cache slot of a key in an id set map; see [`View::cache_rows`](crate::View::cache_rows).
    #[inline]
    pub fn prefetch_ids(&self, map: MapId, key: &[u8]) {
        self.txn.prefetch_id(self.map(map).index, key);
    }

    /// Returns the rows of a plain map whose keys lie in `range`, as `(key, value)`.
    pub fn scan(&self, map: MapId, range: KeyRange<'_>, direction: Direction) -> Scan<'_> {
        Scan::new(self, self.map(map), range, direction)
    }

    /// Returns the rows of a plain map whose keys begin with `prefix`, ascending.
    pub fn scan_below<'r>(
        &'r self,
        map: MapId,
        prefix: &'r [u8],
    ) -> impl Iterator<Item = Result<(&'r [u8], &'r [u8])>> {
        let rows = self.scan(map, (Bound::Included(prefix), Bound::Unbounded), Direction::Forward);
        rows.take_while(move |row| row.as_ref().map_or(true, |(key, _)| key.starts_with(prefix)))
    }

    /// Returns the ids under `key` of an id set map. A missing key gives an empty cursor.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn ids(&self, map: MapId, key: &[u8]) -> Result<IdCursor<'_>> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        map.check_key(key)?;
        IdCursor::open(self, map.index, key)
    }

    /// Returns true if `id` is under `key` of an id set map.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `Parked`, `Engine`.
    pub fn contains_id(&self, map: MapId, key: &[u8], id: u64) -> Result<bool> {
        let map = self.map(map).of_kind(MapKind::IdSet)?;
        map.check_key(key)?;
        let known = self.overlay.as_ref().and_then(|overlay| overlay.set(map.index, key)?.get(id));
        match known {
            Some(present) => Ok(present),
            None => self.has_id_in_file(map, key, id).map_err(|failure| self.error(failure)),
        }
    }

    fn has_id_in_file(&self, map: Map, key: &[u8], id: u64) -> Result<bool, Failure> {
        self.txn.check_residency(map.index, key)?;
        match self.txn.find(map.index, key)? {
            Some(Found::Nothing) => Ok(false),
            Some(Found::Value(only)) => Ok(only == id.to_be_bytes()),
            Some(Found::Set) | None => self.txn.cursor(map.index)?.has_value(key, &id.to_be_bytes()),
        }
    }

    /// Returns the keys of an id set map that lie in `range`, each with the number of its ids. The cost does not depend
    /// on these numbers.
    pub fn scan_keys(&self, map: MapId, range: KeyRange<'_>, direction: Direction) -> KeyScan<'_> {
        KeyScan::new(self, self.map(map), range, direction)
    }

    /// Returns the keys of an id set map that begin with `prefix`, ascending, as [`scan_keys`](Read::scan_keys) does.
    pub fn scan_keys_below<'r>(
        &'r self,
        map: MapId,
        prefix: &'r [u8],
    ) -> impl Iterator<Item = Result<(&'r [u8], u64)>> {
        let keys = self.scan_keys(map, (Bound::Included(prefix), Bound::Unbounded), Direction::Forward);
        keys.take_while(move |key| key.as_ref().map_or(true, |(key, _)| key.starts_with(prefix)))
    }

    /// Returns the number of rows of a plain map, or the total number of ids in an id set map. The cost is constant.
    ///
    /// # Errors
    /// `Parked`, `Engine`.
    pub fn row_count(&self, map: MapId) -> Result<u64> {
        self.rows_of(self.map(map))
    }

    pub(crate) fn rows_of(&self, map: Map) -> Result<u64> {
        if let Some(count) = self.overlay.as_ref().and_then(|overlay| overlay.row_count(map.index)) {
            return Ok(count);
        }
        self.txn.row_count(map.index).map_err(|failure| self.error(failure))
    }

    /// Returns the value of a counter; 0 if it was never bumped. Counters have a separate key space.
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

    /// Returns all counters that are not 0, ascending by key. In a batch, some may have their values from before the
    /// batch.
    pub fn counters(&self) -> impl Iterator<Item = Result<(&[u8], i64)>> {
        let rows = Scan::new(self, Map::COUNTS, (Bound::Unbounded, Bound::Unbounded), Direction::Forward);
        rows.map(|row| {
            let (key, value) = row?;
            let count = value.try_into().map(i64::from_be_bytes);
            Ok((key, count.map_err(|_| StoreError::DamagedRow { map: Map::COUNTS.spec.name })?))
        })
    }

    /// Returns the position of the last record in the log, 0 if there is none.
    ///
    /// # Errors
    /// `DamagedRow`, `Parked`, `Engine`.
    pub fn position(&self) -> Result<Position> {
        // The last record is never trimmed, so it is the higher of the last pending record and the last record in the
        // data file.
        let changed = self.changed_log_end(Bound::Unbounded, Direction::Backward)?;
        Ok(changed.max(self.log_end_in_file(Step::Last)?).unwrap_or(0))
    }

    /// Returns the position of the oldest record in the log, `None` if the log is empty.
    ///
    /// # Errors
    /// `DamagedRow`, `Parked`, `Engine`.
    pub fn first_position(&self) -> Result<Option<Position>> {
        if let start @ 1.. = self.log_start() {
            return Ok(Some(start));
        }
        match self.log_end_in_file(Step::First)? {
            None => self.changed_log_end(Bound::Unbounded, Direction::Forward),
            first => Ok(first),
        }
    }

    /// Returns the log's records from position `from` (or the oldest existing record, if that is later) to the end, as
    /// `(position, bytes)`. The checksum of each record is verified. A missing record is an error.
    pub fn log_records(&self, from: Position) -> LogScan<'_> {
        let low = from.max(self.log_start()).to_be_bytes();
        let range = (Bound::Included(&low[..]), Bound::Unbounded);
        LogScan::new(self, Scan::new(self, Map::LOG, range, Direction::Forward), from)
    }

    /// Returns the position before which the log was trimmed, if that trim is not in the data file yet; else 0.
    fn log_start(&self) -> Position {
        self.overlay.as_ref().map_or(0, |overlay| overlay.log_start())
    }

    fn log_end_in_file(&self, end: Step) -> Result<Option<Position>> {
        let row = self.cursor(Map::LOG)?.step(end).map_err(|failure| self.error(failure))?;
        row.map(|(key, _)| log::position_of(key)).transpose()
    }

    /// Returns the first position from `near` on, in the given direction, that has a pending record.
    fn changed_log_end(&self, near: Bound<&[u8]>, direction: Direction) -> Result<Option<Position>> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.rows(Map::LOG.index));
        let Some(mut changes) = changes else { return Ok(None) };
        changes.seek(near, direction);
        changes.item().map(|(key, _)| log::position_of(key.bytes())).transpose()
    }

    /// Calls `look`. During the call, reads through this value do not wait for the disk: if a page is not in memory,
    /// they fail with [`NotInMemory`](StoreError::NotInMemory). Returns the result and the absent pages. Scans, and
    /// reads of sets with many ids, fail in any case, because their pages are not known in advance. A page of unknown
    /// residency counts as resident.
    pub fn without_waiting<T>(&self, look: impl FnOnce() -> T) -> (T, AbsentPages) {
        self.txn.without_waiting(look)
    }

    /// Brings pages of the data file into memory, and returns when they are there. The disk reads all pages in
    /// parallel. The pages may be evicted soon if memory is short. A parked view can do this too.
    ///
    /// # Errors
    /// `Engine`.
    pub fn bring_in(&self, pages: &[PageNumber]) -> Result<()> {
        self.txn.bring_in(pages).map_err(StoreError::from)
    }

    /// Records that another thread has just [brought in](Read::bring_in) these pages. For a while,
    /// [`without_waiting`](Read::without_waiting) treats the pages as resident.
    pub fn has_brought_in(&self, pages: &[PageNumber]) {
        self.txn.has_brought_in(pages);
    }

    /// Returns the names of all maps in the data file, whether or not this program knows them.
    pub(crate) fn map_names(&self) -> Result<Vec<Vec<u8>>> {
        self.txn.map_names().map_err(|failure| self.error(failure))
    }

    /// Returns the bytes of the data file that later commits reuse.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        self.txn.free_bytes().map_err(|failure| self.error(failure))
    }

    pub(crate) fn map(&self, id: MapId) -> Map {
        Map::users(self.maps, id)
    }

    pub(crate) fn value(&self, map: Map, key: &[u8]) -> Result<Option<&[u8]>> {
        map.check_key(key)?;
        if let Some(overlay) = &self.overlay {
            // Buffered rows exist only in a batch, and a batch always has an overlay.
            let mut buffered_rows = self.buffered_rows.iter();
            if let Some(held) = buffered_rows.find(|held| held.is(map, key)) {
                return Ok(Some(&held.value));
            }
            if let Some(change) = overlay.row(map.index, key) {
                return Ok(change.as_deref());
            }
        }
        self.txn.get(map.index, key).map_err(|failure| self.error(failure))
    }

    /// Returns a cursor over the rows of a map.
    pub(crate) fn cursor(&self, map: Map) -> Result<Cursor<'_>> {
        self.txn
            .check_traversal()
            .and_then(|()| self.txn.cursor(map.index))
            .map_err(|failure| self.error(failure))
    }

    /// Returns the error of a failed read.
    #[cold]
    pub(crate) fn error(&self, failure: Failure) -> StoreError {
        if self.parked { StoreError::Parked } else { failure.into() }
    }
}
