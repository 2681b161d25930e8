//! [`BulkStore`]: a new data file, written in key order from nothing and put in the old one's place when it is complete.

use std::path::Path;

use crate::layout::{MapId, MapSpec};
use crate::{OpenError, Options, Position, Result, View};

/// A data file in the making: `data.new` beside the old one, which stays as it is until [`finish`](BulkStore::finish) replaces it.
///
/// The data directory is locked meanwhile. Keys ascend within each map; maps may take turns. Dropped before `finish` it leaves no trace.
pub struct BulkStore {
    next_position: Position,
}

impl BulkStore {
    /// Begins a new data file in `directory`, which is made where it is missing. What an earlier try left behind is thrown away.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open); also `InUse` while another process reads the store
    /// ([`Store::open_read_only`](crate::Store::open_read_only)).
    pub fn create(
        _directory: &Path,
        _maps: &'static [MapSpec],
        _options: &Options,
    ) -> std::result::Result<BulkStore, OpenError> {
        todo!()
    }

    /// A view of the data that is to be replaced, for taking over parts of it. `None` if there is none.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open); `Map` if the old data lacks one of the maps.
    pub fn old_view(&self) -> std::result::Result<Option<View>, OpenError> {
        todo!()
    }

    /// Adds a row to a plain map. `key` is above all earlier ones of the map.
    ///
    /// # Errors
    /// `OutOfOrder`, `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind`: the row is not taken, the next one may be.
    /// `DiskFull`, `Engine`: nothing more is taken.
    pub fn append(&mut self, _map: MapId, _key: &[u8], _value: &[u8]) -> Result<()> {
        todo!()
    }

    /// Adds ids under a key of an id set map: a key above all earlier ones of the map, or the last one again with ids above its own.
    /// `ids` ascend. No ids are no key.
    ///
    /// # Errors
    /// As [`append`](BulkStore::append).
    pub fn append_ids(&mut self, _map: MapId, _key: &[u8], _ids: &[u64]) -> Result<()> {
        todo!()
    }

    /// Sets a counter. `key` is above those of all earlier counters.
    ///
    /// # Errors
    /// As [`append`](BulkStore::append).
    pub fn append_counter(&mut self, _key: &[u8], _count: i64) -> Result<()> {
        todo!()
    }

    /// Says which position the first record is to have, which is 1 otherwise.
    ///
    /// # Errors
    /// `OutOfOrder` for position 0 and after the first record.
    pub fn start_log_at(&mut self, position: Position) -> Result<()> {
        self.next_position = position;
        Ok(())
    }

    /// Adds a record to the log and returns its position.
    ///
    /// # Errors
    /// As [`append`](BulkStore::append).
    pub fn append_record(&mut self, _record: &[u8]) -> Result<Position> {
        todo!()
    }

    /// Makes the new data file durable, with one sync, and puts it in the place of the old one: whatever happens meanwhile, the directory
    /// holds one or the other. Then lets go of the directory.
    ///
    /// # Errors
    /// That of the append that failed, where one did, `DiskFull`, `Engine`: the old data is there, the new is thrown away.
    pub fn finish(self) -> Result<()> {
        todo!()
    }
}
