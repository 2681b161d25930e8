//! [`copy()`]: copies all rows of a view, in the order of keys, to any receiver of rows.

use std::ops::Bound::Unbounded;

use crate::bulk::BulkStore;
use crate::maps::{Direction, KeyRange, MapId, MapKind, MapSpec};
use crate::{Position, Read, Result, StoreError};

const ALL: KeyRange<'static> = (Unbounded, Unbounded);
/// Maximum number of ids passed to the sink at once.
const IDS_AT_ONCE: usize = 64 << 10;

/// Receiver of rows. Keys ascend within each map, and the log comes last.
pub trait RowSink {
    /// Error of the receiver.
    type Error: From<StoreError>;

    /// Receives a row of a plain map.
    ///
    /// # Errors
    /// The row is refused, and copying ends.
    fn row(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Receives ids under a key of an id set map, in ascending order. More ids may follow under the same key.
    ///
    /// # Errors
    /// The same as [`row`](RowSink::row).
    fn ids(&mut self, map: MapId, key: &[u8], ids: &[u64]) -> Result<(), Self::Error>;

    /// Receives a counter.
    ///
    /// # Errors
    /// The same as [`row`](RowSink::row).
    fn counter(&mut self, key: &[u8], count: i64) -> Result<(), Self::Error>;

    /// Receives the position of the first record that follows.
    ///
    /// # Errors
    /// The same as [`row`](RowSink::row).
    fn log_start(&mut self, position: Position) -> Result<(), Self::Error>;

    /// Receives the next record.
    ///
    /// # Errors
    /// The same as [`row`](RowSink::row).
    fn record(&mut self, record: &[u8]) -> Result<(), Self::Error>;
}

impl RowSink for BulkStore {
    type Error = StoreError;

    fn row(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        self.append(map, key, value)
    }

    fn ids(&mut self, map: MapId, key: &[u8], ids: &[u64]) -> Result<()> {
        self.append_ids(map, key, ids)
    }

    fn counter(&mut self, key: &[u8], count: i64) -> Result<()> {
        self.append_counter(key, count)
    }

    fn log_start(&mut self, position: Position) -> Result<()> {
        self.start_log_at(position)
    }

    fn record(&mut self, record: &[u8]) -> Result<()> {
        self.append_record(record).map(drop)
    }
}

/// Passes all rows of `old` to `sink` except the log, and then the log's records from position `from` on. Verifies the
/// checksums of the records.
///
/// # Errors
/// `DamagedLog`, `DamagedRow`, or the error of `sink`.
pub fn copy<S: RowSink>(
    old: &Read,
    maps: &'static [MapSpec],
    from: Position,
    sink: &mut S,
) -> Result<(), S::Error> {
    for (index, spec) in maps.iter().enumerate() {
        let map = MapId::new(index);
        match spec.kind {
            MapKind::Plain => copy_rows(old, map, sink)?,
            MapKind::IdSet => copy_ids(old, map, sink)?,
        }
    }
    for counter in old.counters() {
        let (key, count) = counter?;
        sink.counter(key, count)?;
    }
    copy_log(old, from, sink)
}

/// Copies only the log.
///
/// # Errors
/// The same as [`copy()`].
pub fn copy_log<S: RowSink>(old: &Read, from: Position, sink: &mut S) -> Result<(), S::Error> {
    if let Some(first) = old.first_position()? {
        sink.log_start(first.max(from))?;
    }
    for record in old.log_records(from) {
        sink.record(record?.1)?;
    }
    Ok(())
}

fn copy_rows<S: RowSink>(old: &Read, map: MapId, sink: &mut S) -> Result<(), S::Error> {
    for row in old.scan(map, ALL, Direction::Forward) {
        let (key, value) = row?;
        sink.row(map, key, value)?;
    }
    Ok(())
}

fn copy_ids<S: RowSink>(old: &Read, map: MapId, sink: &mut S) -> Result<(), S::Error> {
    let mut block = Vec::new();
    for row in old.scan_keys(map, ALL, Direction::Forward) {
        let (key, mut left) = row?;
        let mut ids = old.ids(map, key)?;
        while left > 0 {
            block.clear();
            left = left.saturating_sub(ids.next_block(&mut block, IDS_AT_ONCE)? as u64);
            if block.is_empty() {
                return Err(StoreError::DamagedRow { map: old.map(map).spec.name }.into());
            }
            sink.ids(map, key, &block)?;
        }
    }
    Ok(())
}
