//! An open data directory, as its threads share it: what there is to read, and what can be asked of it as a whole.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use schema::Schema;
use store::{Store, StoreError};

use super::page_key::PageKey;
use crate::catalog::Catalog;
use crate::index::maintenance::{self, IndexProgress};
use crate::model::index_definition::IndexKinds;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::NODES;
use crate::model::settings::{NodeSettings, Settings};
use crate::model::virtual_entries::MonitorSource;
use crate::settings::DirectorySettings;

/// An open data directory.
pub struct Directory {
    pub(crate) store: Store,
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) settings: ArcSwap<Settings>,
    /// The node's part of the settings. Held while those in force are made anew.
    pub(crate) node: Mutex<NodeSettings>,
    pub(crate) monitor: Arc<dyn MonitorSource>,
    pub(crate) vendor_version: String,
    /// Entries that are being sent as streams.
    pub(crate) streams: AtomicUsize,
    /// Snapshots that searches share which listen for changes.
    pub(crate) shared_snapshots: AtomicUsize,
    /// The number of the last one that was made.
    pub(crate) shared_numbers: AtomicU64,
    pub(crate) page_key: PageKey,
    /// See [`keep_log_from`](Directory::keep_log_from).
    pub(crate) log_floor: AtomicU64,
}

impl Directory {
    /// A secret of this data directory that is the same every time, another one for each purpose.
    pub fn secret(&self, purpose: &[u8]) -> [u8; 32] {
        self.page_key.secret(purpose)
    }

    /// Keeps the log's records from this position on, however many there are: somebody has not read them yet.
    /// `u64::MAX` keeps none beyond what the settings say, which is how it begins.
    pub fn keep_log_from(&self, position: u64) {
        self.log_floor.store(position, Ordering::Release);
    }

    pub(crate) fn log_floor(&self) -> u64 {
        self.log_floor.load(Ordering::Acquire)
    }

    /// Snapshots that searches keep which listen for changes.
    pub(crate) fn shared_snapshots(&self) -> usize {
        self.shared_snapshots.load(Ordering::Relaxed)
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts other settings of this node in force; snapshots take them at their next renewal.
    ///
    /// # Errors
    /// A setting cannot be.
    pub fn set_node_settings(&self, settings: NodeSettings) -> Result<(), OpenError> {
        check_node(&settings, &self.catalog.load().schema)?;
        *self.lock_node() = settings;
        self.refresh_settings();
        Ok(())
    }

    /// Puts in force what directory and node say by now.
    pub(crate) fn refresh_settings(&self) {
        let node = self.lock_node();
        self.settings.store(Arc::new(Settings::of(&node, &self.catalog.load().settings.general)));
    }

    pub(crate) fn lock_node(&self) -> MutexGuard<'_, NodeSettings> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory-wide settings.
    pub fn directory_settings(&self) -> DirectorySettings {
        DirectorySettings::of(&self.catalog.load())
    }

    /// Number of password policies.
    pub fn policy_count(&self) -> usize {
        self.catalog.load().policies.entries.len()
    }

    /// What does not hold of password policies, and of the setting that names one, as it is written.
    pub fn policy_notices(&self) -> Vec<String> {
        self.catalog.load().policies.all_notices()
    }

    /// Whether the administrator can bind: a password is set or kept.
    pub fn has_administrator_password(&self) -> bool {
        self.settings.load().node.admin_password.is_some() || self.catalog.load().administrator.is_some()
    }

    /// Whether there is no entry at all.
    ///
    /// # Errors
    /// The store failed.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.store.view()?.row_count(NODES)? == 0)
    }

    /// DNs of the naming contexts.
    pub fn suffixes(&self) -> Vec<String> {
        self.catalog.load().suffixes.iter().map(|suffix| suffix.dn.clone()).collect()
    }

    /// The indexes that are being made or removed, for monitoring.
    ///
    /// # Errors
    /// The store failed.
    pub fn index_progress(&self) -> Result<Vec<IndexProgress>, OperationError> {
        // After the view: see `Snapshot::renew`.
        let view = self.store.view()?;
        maintenance::progress(&view, &self.catalog.load())
    }

    /// The name by which this directory calls an attribute type; `None` where the schema does not know it.
    pub fn attribute_name(&self, name_or_oid: &str) -> Option<String> {
        let catalog = self.catalog.load();
        catalog.schema.attribute_type(name_or_oid).map(|known| known.name().to_owned())
    }

    /// The attribute types that are indexed, by name, with what their indexes are to answer.
    pub fn indexes(&self) -> Vec<(String, IndexKinds)> {
        self.catalog.load().indexes()
    }

    /// The newest position that is shown.
    ///
    /// # Errors
    /// The store failed.
    pub fn newest_position(&self) -> Result<u64, StoreError> {
        self.store.view()?.position()
    }

    /// What tells this data from every other, also from data made anew in its place.
    ///
    /// # Errors
    /// The store failed, or does not say.
    pub fn generation(&self) -> Result<[u8; 16], OperationError> {
        let view = self.store.view()?;
        crate::catalog::generation(&view)
    }

    /// Figures of the store for monitoring.
    ///
    /// # Errors
    /// The store failed.
    pub fn facts(&self) -> Result<store::Facts, StoreError> {
        self.store.facts()
    }

    /// As [`Store::set_aside`].
    pub fn set_aside(&self) -> &[std::path::PathBuf] {
        self.store.set_aside()
    }

    /// As [`Store::warm_up`].
    ///
    /// # Errors
    /// As there.
    pub fn warm_up(&self, bytes_max: u64, go_on: impl Fn() -> bool) -> Result<u64, StoreError> {
        self.store.warm_up(bytes_max, go_on)
    }

    /// As [`Store::fold`]: for measuring what is in the data file.
    ///
    /// # Errors
    /// As there.
    pub fn fold(&self) -> Result<(), StoreError> {
        self.store.fold()
    }
}

/// The administrator's name must be one.
pub(crate) fn check_node(node: &NodeSettings, schema: &Schema) -> Result<(), OpenError> {
    let bad = |reason: String| Err(OpenError::Setting { setting: "admin_dn".to_owned(), reason });
    match ldap::Dn::parse(&node.admin_dn) {
        Err(error) => bad(format!("{:?}: {error}", node.admin_dn)),
        Ok(dn) if dn.is_empty() => bad("the empty DN stands for anonymous".to_owned()),
        Ok(dn) => match schema.normalize_dn(&dn, &mut Vec::new()) {
            Err(error) => bad(error.to_string()),
            Ok(()) => Ok(()),
        },
    }
}
