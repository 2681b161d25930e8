//! [`ReadOnlyStore`]: a store that is read while another process may write it.
//!
//! The engine keeps one table of readers for all processes, in `data.mdb-lock`, so a writer does not reuse the pages
//! that are read here; when a reader's process dies, the writer frees its place. What keeps the file from being
//! replaced under a reader, and so from meeting another file's table of readers, is a shared lock on `data.mdb` itself,
//! which only [`BulkStore`](crate::BulkStore) asks for alone.
//!
//! Changes that are not in the data file yet are in the writer's memory, and in the redo log. So a view here reads that
//! log, during and after a writer's life alike, syncs the groups that it has read, and keeps them in memory. It shows
//! all changes that were acknowledged when it was taken or renewed.

use std::path::Path;
use std::sync::Arc;

use super::{MissingMaps, Opening, own_process_has, with_maps};
use crate::disk::{self, Claim, Room};
use crate::error::failed;
use crate::layout;
use crate::lmdb::Mode;
use crate::maps::{self, MapSpec};
use crate::shared::{Shared, WrittenBy};
use crate::{OpenError, Options, Result, Store, View};

/// A store open for reading only, whether or not another process has it open for writing. To be cloned freely; once in
/// a process, and not together with a [`Store`] of the same directory.
#[derive(Clone)]
pub struct ReadOnlyStore {
    shared: Arc<Shared>,
}

impl Store {
    /// Opens the store in `directory` for reading. Keeps no writer away, and writes nothing but its place in the
    /// engine's table of readers.
    ///
    /// # Errors
    /// `InUse` while a [`BulkStore`](crate::BulkStore) is about to replace the data, or if this process has the store
    /// open already; `Map` if the store lacks one of `maps`; `File` if there is no store; `Format`, `NotAStore`, and
    /// `Store` as [`OpenError`] says.
    pub fn open_read_only(directory: &Path, maps: &'static [MapSpec]) -> Result<ReadOnlyStore, OpenError> {
        maps::check_names(maps)?;
        let options = Options::default();
        let data_file = directory.join(layout::DATA_FILE);
        let opened = std::fs::File::open(directory).map_err(failed("open", directory))?;
        let held = disk::hold_data_file(directory, false)?;
        let held = held.ok_or_else(|| failed("open", &data_file)(std::io::ErrorKind::NotFound.into()))?;
        let claim = Claim::on(&data_file).map_err(failed("read", &data_file))?;
        let claim = claim.ok_or_else(|| own_process_has(directory))?;
        let room = Room::new(opened, directory, options.reserve_bytes);
        let opening = Opening {
            data_file: &data_file,
            maps,
            options: &options,
            mode: Mode::ReadOnly,
            read_ahead: true,
        };
        let (env, map_bytes) = opening.open(&room, Arc::new((held, claim)))?;
        let env = with_maps(env, &data_file, maps, MissingMaps::Refuse)?;
        let written_by = WrittenBy::Others(directory.to_owned());
        let shared = Shared::new(Arc::new(env), maps, &options, map_bytes, data_file, room, written_by);
        Ok(ReadOnlyStore { shared: Arc::new(shared) })
    }
}

impl ReadOnlyStore {
    /// A new view at the newest durable position. Its [`renew`](View::renew) moves it to what the writer has committed
    /// since. While it stays, the writer cannot reuse the pages that it reads, and the data file grows instead. Each
    /// time the redo log is read: its size is bounded.
    ///
    /// # Errors
    /// `TooManyViews`, `DamagedRedo`, `Engine`.
    pub fn view(&self) -> Result<View> {
        View::begin(&self.shared)
    }
}
