//! [`compact`]: the same rows in a data file without holes.
//!
//! The engine never gives room back to the system, and keys that came in any order leave their pages two thirds full.
//! So every row is read and appended to a new file in key order, which fills pages, leaves none free, and puts
//! neighbours next to each other. The log's checksums are checked on the way.

use std::fs;
use std::io;
use std::ops::Bound::Unbounded;
use std::path::Path;

use crate::bulk::BulkStore;
use crate::error::failed;
use crate::layout;
use crate::maps::{self, Direction, KeyRange, Map, MapId, MapKind, MapSpec};
use crate::read::scan::Scan;
use crate::{OpenError, Options, Read, Result, StoreError};

const ALL: KeyRange<'static> = (Unbounded, Unbounded);
/// Ids taken over at once.
const IDS_AT_ONCE: usize = 64 << 10;

/// What [`compact`] did.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the data file before, in bytes.
    pub bytes_before: u64,
    /// Its size now.
    pub bytes_after: u64,
}

/// Writes all rows into a new data file and puts it in the place of the old one, atomically. Needs room on the disk for
/// both. `maps` names all maps of the store.
///
/// # Errors
/// As [`BulkStore::create`] and [`BulkStore::finish`]; `Map` if the store has a map that is not in `maps` or lacks one
/// that is, `File` if there is no store; `DamagedLog`, `DamagedRow`. The old data is left as it was.
pub fn compact(
    directory: &Path,
    maps: &'static [MapSpec],
    options: &Options,
) -> Result<Compacted, OpenError> {
    let data_file = directory.join(layout::DATA_FILE);
    let size = || fs::metadata(&data_file).map(|facts| facts.len()).map_err(failed("read", &data_file));
    // Before the directory is made for a mistyped path.
    size()?;
    let mut bulk = BulkStore::create(directory, maps, options)?;
    let bytes_before = size()?;
    let old = bulk.old_view()?.ok_or_else(|| failed("open", &data_file)(io::ErrorKind::NotFound.into()))?;
    check_known(&old, maps)?;
    copy(&old, maps, &mut bulk)?;
    drop(old);
    bulk.finish()?;
    Ok(Compacted { bytes_before, bytes_after: size()? })
}

/// Refuses a store with a map that would get lost.
fn check_known(old: &Read, maps: &'static [MapSpec]) -> Result<(), OpenError> {
    let known = maps::all_names(maps);
    match old.map_names()?.into_iter().find(|name| !known.iter().any(|known| known.as_bytes() == name)) {
        Some(name) => {
            let name = String::from_utf8_lossy(&name).into_owned();
            Err(OpenError::Map { name, reason: "this program does not know it and would lose it" })
        }
        None => Ok(()),
    }
}

/// Appends all rows that `old` shows to a new data file.
///
/// # Errors
/// `DamagedLog`, `DamagedRow`, or what writing comes to.
pub fn copy(old: &Read, maps: &'static [MapSpec], bulk: &mut BulkStore) -> Result<()> {
    for (index, spec) in maps.iter().enumerate() {
        let map = MapId::new(index);
        match spec.kind {
            MapKind::Plain => copy_rows(old, map, bulk)?,
            MapKind::IdSet => copy_ids(old, map, bulk)?,
        }
    }
    for row in Scan::new(old, Map::COUNTS, ALL, Direction::Forward) {
        let (key, count) = row?;
        let count = count.try_into().map_err(|_| StoreError::DamagedRow { map: Map::COUNTS.spec.name })?;
        bulk.append_counter(key, i64::from_be_bytes(count))?;
    }
    if let Some(first) = old.first_position()? {
        bulk.start_log_at(first)?;
    }
    for record in old.log_records(0) {
        bulk.append_record(record?.1)?;
    }
    Ok(())
}

fn copy_rows(old: &Read, map: MapId, bulk: &mut BulkStore) -> Result<()> {
    for row in old.scan(map, ALL, Direction::Forward) {
        let (key, value) = row?;
        bulk.append(map, key, value)?;
    }
    Ok(())
}

fn copy_ids(old: &Read, map: MapId, bulk: &mut BulkStore) -> Result<()> {
    let mut block = Vec::new();
    for row in old.scan_keys(map, ALL, Direction::Forward) {
        let (key, mut left) = row?;
        let mut ids = old.ids(map, key)?;
        while left > 0 {
            block.clear();
            left = left.saturating_sub(ids.next_block(&mut block, IDS_AT_ONCE)? as u64);
            if block.is_empty() {
                return Err(StoreError::DamagedRow { map: old.map(map).spec.name });
            }
            bulk.append_ids(map, key, &block)?;
        }
    }
    Ok(())
}
