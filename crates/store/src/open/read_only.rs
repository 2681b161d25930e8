//! [`ReadOnlyStore`]: a store that is read while another process may write it.
//!
//! The engine has one table of readers for all processes, in `data.mdb-lock`. So a writer does not reuse the pages that
//! are read here. When a reader's process dies, the writer frees the reader's slot. A reader holds a shared lock on
//! `data.mdb` itself. So the file is not replaced while it is read, and the table of readers always belongs to this
//! file. Only [`BulkStore`](crate::BulkStore) takes an exclusive lock on the file.
//!
//! Changes that are not in the data file yet are in the writer's memory and in the redo log. So a view of this store
//! reads the redo log, whether or not the writer still runs, syncs the groups that it has read, and holds them in
//! memory. The view shows all changes that were acknowledged when it was created or renewed.

use std::path::Path;
use std::sync::Arc;

use super::{MissingMaps, Opening, own_process_has, with_maps};
use crate::disk::{self, Claim, Room};
use crate::error::failed;
use crate::layout;
use crate::lmdb::Mode;
use crate::maps::{self, MapSpec};
use crate::shared::{DataWriter, Shared};
use crate::{OpenError, Options, Result, Store, View};

/// A store open for reading only, whether or not another process has the store open for writing. Clones share the
/// store. A process can open a directory only once, as a `ReadOnlyStore` or as a [`Store`].
#[derive(Clone)]
pub struct ReadOnlyStore {
    shared: Arc<Shared>,
}

impl Store {
    /// Opens the store in `directory` for reading. Does not exclude a writer, and writes only its slot in the engine's
    /// table of readers.
    ///
    /// # Errors
    /// `InUse` while a [`BulkStore`](crate::BulkStore) is about to replace the data, or if this process has the store
    /// open already; `Map` if the store lacks one of `maps`; `File` if there is no store; `Format`, `NotAStore`, and
    /// `Store` as [`OpenError`] describes.
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
        let written_by = DataWriter::Others(directory.to_owned());
        let shared = Shared::new(Arc::new(env), maps, &options, map_bytes, data_file, room, written_by);
        Ok(ReadOnlyStore { shared: Arc::new(shared) })
    }
}

impl ReadOnlyStore {
    /// Returns a new view at the newest durable position. Its [`renew`](View::renew) moves the view to the writer's
    /// newest commit. Until the view is renewed, the writer cannot reuse the pages of the view's state, and the data
    /// file grows instead. `view` and `renew` read the redo log, whose size is bounded.
    ///
    /// # Errors
    /// `TooManyViews`, `DamagedRedo`, `Engine`.
    pub fn view(&self) -> Result<View> {
        View::begin(&self.shared)
    }
}
