//! [`Options`] of a store, and [`Observer`], which is notified of events in the background.
//!
//! A checkpoint runs on the store's own thread, so no caller can receive its error. But the operator must be notified
//! at once.

use std::fmt::Debug;
use std::sync::Arc;

use crate::StoreError;

/// Options for opening a store. The defaults fit every size of directory.
#[derive(Debug, Clone)]
pub struct Options {
    /// Free bytes on the file system below which batches are refused with `DiskFull`. Default 128 MiB.
    pub reserve_bytes: u64,
    /// Maximum number of views open at once. Default 1,024.
    pub views_max: u32,
    /// Size of the map in bytes, which limits the data file; `None`, the default, derives it from the size of the disk.
    /// For tests.
    pub map_bytes: Option<u64>,
    /// Approximate limit of memory for changes that are durable but not in the data file yet. New batches wait while
    /// the limit is reached. A checkpoint begins at a quarter of the limit. Default 64 MiB.
    pub pending_bytes_max: u64,
    /// Speed of writing a new data file, in bytes of rows a second. With a limit, the file is synced as it grows.
    /// `None`, the default: full speed, with one sync at the end, which delays other users of the same disk.
    pub bulk_bytes_per_second: Option<u64>,
    /// Receiver of events on the store's own thread. Default none.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            reserve_bytes: 128 << 20,
            views_max: 1024,
            map_bytes: None,
            pending_bytes_max: 64 << 20,
            bulk_bytes_per_second: None,
            observer: None,
        }
    }
}

impl Options {
    /// Returns the size of the engine's table of readers: one slot per view and one for the writer.
    pub(crate) fn readers_max(&self) -> u32 {
        self.views_max.saturating_add(1)
    }
}

/// An event in an open store.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Writes have stopped: no batch begins until the store is opened again. Reported once.
    WritesStopped {
        /// Error that stopped the writes.
        cause: &'a str,
    },
    /// Committed changes cannot be written to the data file at present. The changes stay durable and visible, and the
    /// checkpoint is retried. Reported at the first failure.
    CheckpointFailed {
        /// Error of the checkpoint.
        error: &'a StoreError,
    },
    /// Checkpoints succeed again.
    CheckpointRecovered,
    /// A segment of the redo log could not be released, or a spare segment could not be created. The log stays usable.
    SegmentFailed {
        /// Error of the failed operation.
        error: &'a StoreError,
    },
}

/// Receiver of events. The receiver is called on the thread where an event happens, without any lock of the store, and
/// must return soon.
pub trait Observer: Debug + Send + Sync {
    /// Receives an event.
    fn notice(&self, event: &Event<'_>);
}
