//! Snapshots that several searches share.
//!
//! A persistent search keeps a snapshot with the state that its client has received. Each snapshot uses one of the
//! store's few views. Therefore all searches of a thread that begin at the same state share a snapshot.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use store::StoreError;

use super::{Directory, Snapshot};
use crate::catalog::Catalog;
use crate::model::settings::Settings;

/// A snapshot that does not move and has several owners. The snapshot is dropped with its last owner.
pub(crate) struct SharedSnapshot {
    /// Number in the order in which shared snapshots are created.
    number: u64,
    snapshot: Mutex<Snapshot>,
    directory: Arc<Directory>,
}

impl SharedSnapshot {
    /// Returns the number of the snapshot. A snapshot with a higher number has the same state or a later state.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Locks the snapshot for one slice of work. The lock is never contended, because only searches of one thread share
    /// a snapshot.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Snapshot> {
        // A poisoned lock can be used, because a snapshot drops caches that may be inconsistent.
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedSnapshot {
    fn drop(&mut self) {
        self.directory.shared_snapshots.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The shared snapshot of a thread, and the state for which it was created.
pub(crate) struct SharedOf {
    version: u64,
    published: Arc<Catalog>,
    settings: Arc<Settings>,
    shared: Weak<SharedSnapshot>,
}

impl Snapshot {
    /// Returns a shared snapshot of the state of `self` or of a later state. Later calls return the same shared
    /// snapshot until `self` moves to another state, the catalog or the settings change, or its last owner drops it.
    ///
    /// # Errors
    /// See [`Directory::snapshot`].
    pub(crate) fn shared(&self) -> Result<Arc<SharedSnapshot>, StoreError> {
        let mut cached = self.shared.borrow_mut();
        let known = cached.as_ref().filter(|cached| {
            cached.version == self.version()
                && Arc::ptr_eq(&cached.published, &self.published)
                && Arc::ptr_eq(&cached.settings, &self.settings)
        });
        if let Some(shared) = known.and_then(|cached| cached.shared.upgrade()) {
            return Ok(shared);
        }
        let directory = &self.directory;
        let number = directory.shared_numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let snapshot = Mutex::new(directory.snapshot()?);
        directory.shared_snapshots.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(SharedSnapshot { number, snapshot, directory: Arc::clone(directory) });
        *cached = Some(Box::new(SharedOf {
            version: self.version(),
            published: Arc::clone(&self.published),
            settings: Arc::clone(&self.settings),
            shared: Arc::downgrade(&shared),
        }));
        Ok(shared)
    }

    /// Returns true if the same requesters may read the same data under the settings of both snapshots.
    pub(crate) fn has_reading_rules_of(&self, other: &Snapshot) -> bool {
        let of = |snapshot: &Snapshot| {
            let (cached, in_force) = (&snapshot.catalog.settings.general, &snapshot.settings);
            let general = &in_force.general;
            (
                cached.access_rules.clone(),
                general.access_rules.clone(),
                general.password_comparers.clone(),
                in_force.node.admin_dn.clone(),
                in_force.anonymous_read(),
            )
        };
        let is_same =
            Arc::ptr_eq(&self.settings, &other.settings) && Arc::ptr_eq(&self.published, &other.published);
        is_same || of(self) == of(other)
    }
}
