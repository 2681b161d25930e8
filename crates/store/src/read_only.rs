//! [`ReadOnlyStore`]: a store read beside the process that writes it.

use std::path::Path;

use crate::layout::MapSpec;
use crate::{OpenError, Result, Store, View};

/// A store open for reading only, in a process of its own, whether or not another process has it open for writing. To be cloned freely.
#[derive(Clone)]
pub struct ReadOnlyStore {}

impl Store {
    /// Opens the store in `directory` for reading. Takes no lock that keeps a writer away, and writes nothing but its place in the engine's
    /// table of readers.
    ///
    /// # Errors
    /// `InUse` while a [`BulkStore`](crate::BulkStore) is about to replace the data, or if this process has the store open already;
    /// `Map` if a map is not there yet; `Format`, `NotAStore`, `File` and `Store` as [`OpenError`] says.
    pub fn open_read_only(
        _directory: &Path,
        _maps: &'static [MapSpec],
    ) -> std::result::Result<ReadOnlyStore, OpenError> {
        todo!()
    }
}

impl ReadOnlyStore {
    /// A new view at the newest durable position. Its [`renew`](View::renew) moves it to what the writer has committed since.
    ///
    /// # Errors
    /// `TooManyViews`, `Engine`.
    pub fn view(&self) -> Result<View> {
        todo!()
    }
}
