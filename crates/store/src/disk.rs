//! The data directory: opening, the lock file, the size of the map, the watch on free space.

use std::path::Path;

use crate::{MapSpec, OpenError, Position, Result, View, Writer};

/// How to open a store. The defaults fit every size of directory.
#[derive(Debug, Clone)]
pub struct Options {
    /// Free bytes on the file system below which batches are refused with `DiskFull`. Default 128 MiB.
    pub reserve_bytes: u64,
    /// Most views open at once. Default 1,024.
    pub views_max: u32,
    /// Size of the map in bytes; `None`, the default, takes it from the size of the disk. For tests.
    pub map_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { reserve_bytes: 128 << 20, views_max: 1024, map_bytes: None }
    }
}

/// An open store, to be cloned freely. The files close when the last clone, view and writer are gone.
#[derive(Clone)]
pub struct Store {
    _private: (),
}

/// Figures for monitoring.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of address space that the data file may grow into.
    pub map_bytes: u64,
    /// Bytes of the data file in use or free for reuse.
    pub used_bytes: u64,
    /// View slots in use since the store was opened, at most [`Options::views_max`].
    pub view_slots: u32,
    /// Position of the last durable log record.
    pub position: Position,
    /// Free bytes on the file system, for an unprivileged process.
    pub disk_free_bytes: u64,
    /// Size of the file system in bytes.
    pub disk_bytes: u64,
    /// Whether a failed commit stopped the writer.
    pub writes_stopped: bool,
}

impl Store {
    /// Opens the store in `directory`, creating the directory, the data file and the maps as needed.
    ///
    /// # Errors
    /// `InUse` while somebody else has it open; `Format`, `NotAStore`, `Map`, `File` and `Store` as [`OpenError`] says.
    pub fn open(
        directory: &Path,
        maps: &'static [MapSpec],
        options: &Options,
    ) -> std::result::Result<(Store, Writer), OpenError> {
        let _ = (directory, maps, options);
        todo!()
    }

    /// A new view at the newest durable position.
    ///
    /// # Errors
    /// `TooManyViews`, `Engine`.
    pub fn view(&self) -> Result<View> {
        todo!()
    }

    /// Figures for monitoring. Costs some microseconds.
    ///
    /// # Errors
    /// `Engine`.
    pub fn facts(&self) -> Result<Facts> {
        todo!()
    }
}
