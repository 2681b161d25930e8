//! State shared by the store's handles: the environment, pending changes, and a second environment for reading after
//! the first one has failed.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::disk::Room;
use crate::lmdb::{Env, EnvOptions, Mode};
use crate::maps::{self, Map, MapSpec};
use crate::pending::Pending;
use crate::{Options, Result};

/// The process that writes the data file. It determines where pending changes are found.
pub(crate) enum DataWriter {
    /// This process: the pending changes are in its memory.
    Us(Arc<Pending>, Option<JoinHandle<()>>),
    /// Possibly another process: the pending changes are in the redo log.
    Others(PathBuf),
}

pub(crate) struct Shared {
    pub(crate) env: Arc<Env>,
    pub(crate) maps: &'static [MapSpec],
    pub(crate) room: Room,
    pub(crate) written_by: DataWriter,
    readers_max: u32,
    map_bytes: usize,
    data_file: PathBuf,
    frozen: Mutex<Option<Arc<Env>>>,
}

impl Shared {
    /// Creates the state. `env` is open on `data_file`, with all of `maps` and a memory map of `map_bytes`.
    pub(crate) fn new(
        env: Arc<Env>,
        maps: &'static [MapSpec],
        options: &Options,
        map_bytes: usize,
        data_file: PathBuf,
        room: Room,
        written_by: DataWriter,
    ) -> Shared {
        let frozen = Mutex::new(None);
        let readers_max = options.readers_max();
        Shared { env, maps, room, written_by, readers_max, map_bytes, data_file, frozen }
    }

    /// Returns the pending changes, if this process writes.
    pub(crate) fn pending(&self) -> Option<&Arc<Pending>> {
        match &self.written_by {
            DataWriter::Us(pending, _) => Some(pending),
            DataWriter::Others(_) => None,
        }
    }

    /// Opens the data file itself, for reading.
    pub(crate) fn open_data_file(&self) -> std::io::Result<File> {
        File::open(&self.data_file)
    }

    /// Returns a second environment on the same file, for reading only. The environment is opened when it is first
    /// needed.
    ///
    /// When writing the root fails, LMDB refuses every new transaction of the environment, even reading ones. But
    /// earlier commits are intact. These commits can be read without LMDB's locking, because there are no more writes.
    pub(crate) fn frozen_env(&self) -> Result<Arc<Env>> {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(env) = &*frozen {
            return Ok(Arc::clone(env));
        }
        let options = EnvOptions {
            data_file: &self.data_file,
            map_bytes: self.map_bytes,
            readers_max: self.readers_max,
            maps_max: maps::map_count(self.maps),
            mode: Mode::Frozen,
            read_ahead: false,
        };
        // The second environment holds the first environment, and therefore the lock file. A view of the second
        // environment may be the last handle on the store.
        let mut env = Env::open(&options, Box::new(Arc::clone(&self.env)))?;
        env.open_maps(&[Map::META.spec], false)?;
        env.open_maps(&maps::other_maps(self.maps), false)?;
        let env = Arc::new(env);
        *frozen = Some(Arc::clone(&env));
        Ok(env)
    }
}

impl Drop for Shared {
    /// The last handle checkpoints all pending changes, so that the data file is complete by itself.
    fn drop(&mut self) {
        let DataWriter::Us(pending, checkpointer) = &mut self.written_by else { return };
        pending.close();
        // If the checkpointer has panicked, it has stopped writes, so the panic is already reported.
        let _ = checkpointer.take().map(JoinHandle::join);
        if pending.is_checkpointed() {
            // The next open removes segments that are checkpointed.
            let _ = pending.remove_redo_log();
        }
    }
}
