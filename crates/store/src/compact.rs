//! [`compact`]: the same rows in a data file without holes.

use std::path::Path;

use crate::layout::MapSpec;
use crate::{OpenError, Options};

/// What [`compact`] did.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the data file before, in bytes.
    pub bytes_before: u64,
    /// Its size now.
    pub bytes_after: u64,
}

/// Writes all rows into a new data file and puts it in the place of the old one, atomically. Needs room on the disk for both. `maps` names
/// all maps of the store.
///
/// # Errors
/// As [`BulkStore::create`](crate::BulkStore::create) and [`finish`](crate::BulkStore::finish), and `DamagedLog` and `DamagedRow`: the old
/// data is left as it was.
pub fn compact(
    _directory: &Path,
    _maps: &'static [MapSpec],
    _options: &Options,
) -> Result<Compacted, OpenError> {
    todo!()
}
