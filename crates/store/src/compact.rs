//! [`compact`]: rewriting the data file without free pages.
//!
//! The engine never returns space to the file system, and keys inserted in random order leave pages two thirds full. So
//! every row is read and appended to a new file in key order. This fills the pages, leaves no page free, and puts
//! adjacent rows on adjacent pages. Copying verifies the checksums of the log.

use std::fs;
use std::io;
use std::path::Path;

use crate::bulk::BulkStore;
use crate::copy::copy;
use crate::error::failed;
use crate::layout;
use crate::maps::{self, MapSpec};
use crate::{OpenError, Options, Read};

/// Result of [`compact`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the data file before compaction, in bytes.
    pub bytes_before: u64,
    /// Size of the data file after compaction, in bytes.
    pub bytes_after: u64,
}

/// Writes all rows into a new data file, which atomically replaces the old data file. Needs disk space for both files.
/// `maps` must name all maps of the store.
///
/// # Errors
/// The same as [`BulkStore::create`] and [`BulkStore::finish`]; `Map` if the store's maps are not exactly `maps`;
/// `File` if there is no store; `DamagedLog`; `DamagedRow`. The old data is unchanged.
pub fn compact(
    directory: &Path,
    maps: &'static [MapSpec],
    options: &Options,
) -> Result<Compacted, OpenError> {
    let data_file = directory.join(layout::DATA_FILE);
    let size = || fs::metadata(&data_file).map(|facts| facts.len()).map_err(failed("read", &data_file));
    // A mistyped path fails here, before `BulkStore::create` creates a directory.
    size()?;
    let mut bulk = BulkStore::create(directory, maps, options)?;
    let bytes_before = size()?;
    let old = bulk.old_view()?.ok_or_else(|| failed("open", &data_file)(io::ErrorKind::NotFound.into()))?;
    check_known(&old, maps)?;
    copy(&old, maps, 0, &mut bulk)?;
    drop(old);
    bulk.finish()?;
    Ok(Compacted { bytes_before, bytes_after: size()? })
}

/// Refuses a store with a map that is not in `maps`, because its rows would be lost.
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
