//! What the store's handles share: the environment, how far commits have come, and why writes have stopped.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::disk::Room;
use crate::layout::{self, MapSpec};
use crate::lmdb::{Env, EnvOptions, Failure, Mode, Txn, TxnKind};
use crate::{Options, Result, StoreError};

/// Which process writes the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenBy {
    /// This one, through the same [`Shared`], or none.
    Us,
    /// Another one, perhaps.
    Others,
}

pub(crate) struct Shared {
    pub(crate) env: Arc<Env>,
    pub(crate) maps: &'static [MapSpec],
    pub(crate) room: Room,
    views_max: u32,
    map_bytes: usize,
    data_file: PathBuf,
    /// The engine's number of the last durable transaction. Views compare theirs with it instead of asking the engine. The highest number
    /// there is where another process writes: then only the engine knows.
    committed_txn_id: AtomicU64,
    /// Set once by the failure that stopped the writes.
    stopped: OnceLock<String>,
    frozen: Mutex<Option<Arc<Env>>>,
}

impl Shared {
    /// `env` is open over `data_file`, with all of `maps` and a map of `map_bytes`.
    pub(crate) fn new(
        env: Arc<Env>,
        maps: &'static [MapSpec],
        options: &Options,
        map_bytes: usize,
        data_file: PathBuf,
        room: Room,
        written_by: WrittenBy,
    ) -> Result<Shared> {
        let committed_txn_id = match written_by {
            WrittenBy::Us => env.facts()?.last_txn_id,
            WrittenBy::Others => u64::MAX,
        };
        Ok(Shared {
            env,
            maps,
            room,
            views_max: options.views_max,
            map_bytes,
            data_file,
            committed_txn_id: AtomicU64::new(committed_txn_id),
            stopped: OnceLock::new(),
            frozen: Mutex::new(None),
        })
    }

    #[inline]
    pub(crate) fn committed_txn_id(&self) -> u64 {
        self.committed_txn_id.load(Ordering::Acquire)
    }

    /// After a commit: lets views see it.
    pub(crate) fn committed(&self) -> Result<()> {
        self.committed_txn_id.store(self.env.facts()?.last_txn_id, Ordering::Release);
        Ok(())
    }

    /// Gives `WritesStopped` once writes have.
    pub(crate) fn check_writes(&self) -> Result<()> {
        match self.stopped.get() {
            Some(cause) => Err(StoreError::WritesStopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// The error for a failed commit, which stops the writes unless it is certain that it changed nothing.
    ///
    /// A full disk changes nothing. The pages of a batch are new ones, which nothing refers to before the root is written after the sync;
    /// the next batch writes every page that it refers to itself. So what became of the failed pages is no matter, as long as the root was
    /// not touched: a failure in writing that leaves the environment unusable, which shows when a transaction begins.
    pub(crate) fn commit_failed(&self, failure: Failure) -> StoreError {
        let usable = Txn::begin(&self.env, TxnKind::Read).is_ok();
        match self.room.full(failure) {
            Some(error) if usable => error,
            _ => self.stop_writes(failure),
        }
    }

    pub(crate) fn stop_writes(&self, failure: Failure) -> StoreError {
        let cause = self.stopped.get_or_init(|| StoreError::from(failure).to_string());
        StoreError::WritesStopped { cause: cause.clone() }
    }

    pub(crate) fn writes_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// A second environment over the same file, for reading only, opened when it is first needed.
    ///
    /// When writing the root fails, LMDB refuses every new transaction of the environment, reading ones too. But nothing is wrong with what was
    /// committed before, and nobody writes any more, so it can be read without LMDB's locking.
    pub(crate) fn frozen_env(&self) -> Result<Arc<Env>> {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(env) = &*frozen {
            return Ok(Arc::clone(env));
        }
        let options = EnvOptions {
            data_file: &self.data_file,
            map_bytes: self.map_bytes,
            readers_max: self.views_max,
            maps_max: layout::map_count(self.maps),
            mode: Mode::Frozen,
            read_ahead: false,
        };
        // It holds the first environment, and with it the lock file: a view of it may be the last handle on the store.
        let mut env = Env::open(&options, Box::new(Arc::clone(&self.env)))?;
        env.open_maps(&layout::meta_map(), false)?;
        env.open_maps(&layout::other_maps(self.maps), false)?;
        let env = Arc::new(env);
        *frozen = Some(Arc::clone(&env));
        Ok(env)
    }
}
