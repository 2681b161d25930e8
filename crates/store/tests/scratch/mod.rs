//! A directory for one test, removed at its end, and the maps that the tests use.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use store::{MapId, MapKind, MapSpec, OpenError, Options, Store, Writer};

pub(crate) const MAPS: &[MapSpec] =
    &[MapSpec { name: "rows", kind: MapKind::Plain }, MapSpec { name: "sets", kind: MapKind::IdSet }];
pub(crate) const ROWS: MapId = MapId::new(0);
pub(crate) const SETS: MapId = MapId::new(1);

/// Maximum number of attempts to open a store.
const FORK_PATIENCE: usize = 100_000;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory on a disk.
    pub(crate) fn new() -> Scratch {
        Scratch::below(&std::env::temp_dir())
    }

    /// Creates a directory whose syncs cost nothing.
    pub(crate) fn in_memory() -> Scratch {
        Scratch::below(&powercut::memory_folder())
    }

    fn below(parent: &Path) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("store-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn open(&self) -> (Store, Writer) {
        self.open_with(&Options::default())
    }

    pub(crate) fn open_with(&self, options: &Options) -> (Store, Writer) {
        retry_while_in_use(|| Store::open(self.path(), MAPS, options)).unwrap()
    }
}

/// Opens a store that this process has just closed. Retries, because a process that another test starts has a copy of
/// the lock from its fork to its exec.
pub(crate) fn retry_while_in_use<T>(open: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
    for _ in 0..FORK_PATIENCE {
        match open() {
            Err(OpenError::InUse { .. }) => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
    open()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
