//! Changes of the overlay of a [`Read`], made by a [`Batch`](crate::Batch) and by replaying the redo log.
//!
//! Each change reads the present state, from the overlay or else from the data file, because a layer stores the total
//! counts of rows and ids. So querying the size of a set takes constant time, no matter how many of its ids are
//! pending.

use std::sync::Arc;

use super::Read;
use crate::lmdb::{Failure, Found};
use crate::log;
use crate::maps::{self, Map, MapKind};
use crate::overlay::{Layer, Overlay, SetChanges};
use crate::redo::Change;
use crate::{Position, Result, StoreError};

impl Read {
    fn active(&mut self) -> &mut Layer {
        let map_count = maps::map_count(self.maps) as usize;
        let overlay = self.overlay.get_or_insert_with(|| Arc::new(Overlay::new(map_count)));
        &mut Arc::make_mut(overlay).active
    }

    /// Sets or removes the row of a plain map. Returns true if the row existed. Removing a missing row changes nothing.
    #[expect(clippy::indexing_slicing, reason = "every open map has changes")]
    pub(crate) fn change_row(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        let existed = self.value(map, key)?.is_some();
        if existed != value.is_some() {
            let count = self.rows_of(map)?;
            let count = if existed { count.saturating_sub(1) } else { count + 1 };
            self.active().maps[map.index].row_count = Some(count);
        }
        if existed || value.is_some() {
            self.active().set_row(map.index, key, value);
        }
        Ok(existed)
    }

    /// Sets or removes a row of one of the store's own maps. Such rows are not counted.
    pub(crate) fn change_own_row(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) {
        self.active().set_row(map.index, key, value);
    }

    /// Sets whether an id is present under a key. Returns true if the presence changed.
    pub(crate) fn change_id(&mut self, map: Map, key: &[u8], id: u64, present: bool) -> Result<bool> {
        let (was_present, count) = self.id_and_count(map, key, id, present)?;
        if was_present == present {
            return Ok(false);
        }
        self.set_present(map, key, id, present, count)?;
        Ok(true)
    }

    /// Adds an id without looking for the id in the data file. The key must not have the id in the data file. Returns
    /// true if the id was added.
    pub(crate) fn add_new_id(&mut self, map: Map, key: &[u8], id: u64) -> Result<bool> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.set(map.index, key));
        if changes.and_then(|changes| changes.get(id)) == Some(true) {
            return Ok(false);
        }
        let count = self.id_count(map, key, changes)?;
        debug_assert!(!self.id_and_count(map, key, id, true)?.0, "id {id} is new under {key:?} of {map:?}");
        self.set_present(map, key, id, true, count)?;
        Ok(true)
    }

    /// Sets whether an id is present. `count` is the number of ids of the key before that.
    #[expect(clippy::indexing_slicing, reason = "every open map has changes")]
    fn set_present(&mut self, map: Map, key: &[u8], id: u64, present: bool, count: u64) -> Result<()> {
        let of_map = self.rows_of(map)?;
        let step = |count: u64| if present { count + 1 } else { count.saturating_sub(1) };
        let active = self.active();
        active.set_id(map.index, key, id, present, step(count));
        active.maps[map.index].row_count = Some(step(of_map));
        Ok(())
    }

    /// Returns whether a key has an id, and the number of the key's ids. If the presence of the id equals `wanted`, the
    /// caller changes nothing, and the returned number may be wrong.
    fn id_and_count(&self, map: Map, key: &[u8], id: u64, wanted: bool) -> Result<(bool, u64)> {
        let id_bytes = id.to_be_bytes();
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.set(map.index, key));
        if let Some(changes) = changes
            && let Some(present) = changes.get(id)
        {
            return Ok((present, changes.count()));
        }
        let presence = || -> Result<_, Failure> {
            let in_file = match self.txn.find(map.index, key)? {
                Some(Found::Nothing) => Some((false, 0)),
                Some(Found::Value(only)) => Some((only == id_bytes, 1)),
                Some(Found::Set) | None => None,
            };
            if let Some((present, count)) = in_file {
                return Ok((present, changes.map_or(count, |changes| changes.count())));
            }
            let mut cursor = self.txn.cursor(map.index)?;
            if let Some(changes) = changes {
                return Ok((cursor.has_value(key, &id_bytes)?, changes.count()));
            }
            if !wanted {
                // An id that is to be removed usually exists. The cursor is then at the key already.
                return Ok(match cursor.has_value(key, &id_bytes)? {
                    true => (true, cursor.value_count()?),
                    false => (false, 0),
                });
            }
            let Some((_, lowest)) = cursor.at_key(key)? else { return Ok((false, 0)) };
            match (lowest == id_bytes, cursor.value_count()?) {
                (true, count) => Ok((true, count)),
                (false, 1) => Ok((false, 1)),
                (false, count) => Ok((cursor.has_value(key, &id_bytes)?, count)),
            }
        };
        presence().map_err(|failure| self.error(failure))
    }

    /// Returns the number of ids of a key, given its `changes` in the overlay.
    fn id_count(&self, map: Map, key: &[u8], changes: Option<SetChanges<'_>>) -> Result<u64> {
        if let Some(changes) = changes {
            return Ok(changes.count());
        }
        let count = || -> Result<u64, Failure> {
            match self.txn.find(map.index, key)? {
                Some(Found::Nothing) => return Ok(0),
                Some(Found::Value(_)) => return Ok(1),
                Some(Found::Set) | None => {}
            }
            let mut cursor = self.txn.cursor(map.index)?;
            let is_there = cursor.at_key(key)?.is_some();
            if is_there { cursor.value_count() } else { Ok(0) }
        };
        count().map_err(|failure| self.error(failure))
    }

    /// Removes a key with all its ids. Returns true if the key had ids.
    #[expect(clippy::indexing_slicing, reason = "every open map has changes")]
    pub(crate) fn clear_set(&mut self, map: Map, key: &[u8]) -> Result<bool> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.set(map.index, key));
        let count = self.id_count(map, key, changes)?;
        if count == 0 {
            return Ok(false);
        }
        let of_map = self.rows_of(map)?;
        let active = self.active();
        active.clear_set(map.index, key);
        active.maps[map.index].row_count = Some(of_map.saturating_sub(count));
        Ok(true)
    }

    /// Removes the log records below position `start`. `start` must not be above the position of the last record.
    pub(crate) fn trim_log_to(&mut self, start: Position) {
        let active = self.active();
        active.log_start = active.log_start.max(start);
    }

    /// Applies a change that was read from the redo log. `map_of` returns the map with a number.
    pub(crate) fn make(&mut self, change: Change<'_>, map_of: &impl Fn(u16) -> Result<Map>) -> Result<()> {
        match change {
            Change::Put { map, key, value } => self.set_any_row(map_of(map)?, key, Some(value)),
            Change::Delete { map, key } => {
                let map = map_of(map)?;
                if map.index == Map::LOG.index {
                    self.trim_log_to(log::position_of(key)?.saturating_add(1));
                    return Ok(());
                }
                match map.spec.kind {
                    MapKind::Plain => self.set_any_row(map, key, None),
                    MapKind::IdSet => self.clear_set(map, key).map(drop),
                }
            }
            Change::InsertId { map, key, id } => self.set_id(map_of(map)?, key, id, true),
            Change::RemoveId { map, key, id } => self.set_id(map_of(map)?, key, id, false),
        }
    }

    fn set_any_row(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        map.of_kind(MapKind::Plain)?.check_key(key)?;
        if map.is_own() {
            self.change_own_row(map, key, value);
            return Ok(());
        }
        self.change_row(map, key, value).map(drop)
    }

    fn set_id(&mut self, map: Map, key: &[u8], id: u64, present: bool) -> Result<()> {
        map.of_kind(MapKind::IdSet)?.check_key(key)?;
        self.change_id(map, key, id, present).map(drop)
    }
}

/// Returns the error for a redo log that names a map unknown to this program.
pub(crate) fn unknown_map(number: u16) -> StoreError {
    StoreError::Engine {
        operation: "replay the redo log",
        code: 0,
        message: format!("it has changes of map {number}, which this program does not know"),
    }
}
