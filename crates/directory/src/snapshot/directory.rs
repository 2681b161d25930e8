//! An open data directory, shared by all threads: the store, the catalog, the settings, and queries about the whole
//! directory.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use schema::Schema;
use store::{Direction, Store, StoreError};

use super::page_key::PageKey;
use crate::catalog::Catalog;
use crate::catalog::auto_members::pending_joins;
use crate::catalog::linking::{self, LinkProgress};
use crate::index::maintenance::{self, IndexProgress};
use crate::index::sizes::{self, IndexSizes, SampleBounds};
use crate::index::slice::key_id;
use crate::model::copy_states::CopyStates;
use crate::model::index_definition::IndexKinds;
use crate::model::name::NormalName;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::pending_join::PendingJoin;
use crate::model::rows::{EntryId, NODES};
use crate::model::settings::{NodeSettings, Settings};
use crate::model::virtual_entries::MonitorSource;
use crate::settings::DirectorySettings;

/// An open data directory.
pub struct Directory {
    pub(crate) store: Store,
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) settings: ArcSwap<Settings>,
    /// Settings of the node. The lock is held while the settings in force are recomputed.
    pub(crate) node: Mutex<NodeSettings>,
    pub(crate) monitor: Arc<dyn MonitorSource>,
    pub(crate) vendor_version: String,
    /// Number of entries that are being sent as streams.
    pub(crate) streams: AtomicUsize,
    /// Number of shared snapshots that persistent searches keep.
    pub(crate) shared_snapshots: AtomicUsize,
    /// Number of the last shared snapshot.
    pub(crate) shared_numbers: AtomicU64,
    pub(crate) page_key: PageKey,
    /// See [`keep_log_from`](Directory::keep_log_from).
    pub(crate) log_floor: AtomicU64,
    /// Trees that were copied from other servers until they were promoted.
    pub(crate) promoted: ArcSwap<CopyStates>,
}

impl Directory {
    /// Returns a secret of this data directory. The secret is the same at every call, and differs for each purpose.
    pub fn secret(&self, purpose: &[u8]) -> [u8; 32] {
        self.page_key.secret(purpose)
    }

    /// Keeps the log's records from this position on, regardless of their number, because a reader still needs them.
    /// The initial position is `u64::MAX`: only the settings determine which records are kept.
    pub fn keep_log_from(&self, position: u64) {
        self.log_floor.store(position, Ordering::Release);
    }

    pub(crate) fn log_floor(&self) -> u64 {
        self.log_floor.load(Ordering::Acquire)
    }

    /// Returns the number of shared snapshots that persistent searches keep.
    pub(crate) fn shared_snapshots(&self) -> usize {
        self.shared_snapshots.load(Ordering::Relaxed)
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Applies new settings of this node. Snapshots use them after their next renewal.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn set_node_settings(&self, settings: NodeSettings) -> Result<(), OpenError> {
        check_node(&settings, &self.catalog.load().schema)?;
        *self.lock_node() = settings;
        self.refresh_settings();
        Ok(())
    }

    /// Recomputes the settings in force from the settings of the directory and of the node.
    pub(crate) fn refresh_settings(&self) {
        let node = self.lock_node();
        let mut settings = Settings::of(&node, &self.catalog.load().settings.general);
        let promoted = self.promoted.load();
        let schema = &self.catalog.load().schema;
        settings.node.followed.retain(|tree| !is_in(&promoted, schema, tree.base()));
        self.settings.store(Arc::new(settings));
    }

    pub(crate) fn lock_node(&self) -> MutexGuard<'_, NodeSettings> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the directory-wide settings.
    pub fn directory_settings(&self) -> DirectorySettings {
        DirectorySettings::of(&self.catalog.load())
    }

    /// Returns the number of password policies.
    pub fn policy_count(&self) -> usize {
        self.catalog.load().policies.entries.len()
    }

    /// Returns notices about password policies that cannot be applied as written. The notices include the policy that a
    /// setting names.
    pub fn policy_notices(&self) -> Vec<String> {
        self.catalog.load().policies.all_notices()
    }

    /// Returns the number of dynamic groups, and notices about groups that cannot be applied as written.
    pub fn dynamic_groups(&self) -> (usize, Vec<String>) {
        let catalog = self.catalog.load();
        (catalog.dynamic_groups.len(), catalog.dynamic_groups.notices())
    }

    /// Returns the number of collective attribute subentries, and notices about subentries that cannot be applied as
    /// written.
    pub fn collective_subentries(&self) -> (usize, Vec<String>) {
        let catalog = self.catalog.load();
        catalog.collective.as_ref().map_or_else(Default::default, |all| (all.len(), all.notices()))
    }

    /// Returns the progress of the conversion of values to links. While the conversion is pending, also returns the
    /// names of the attributes.
    ///
    /// # Errors
    /// The store failed.
    pub fn link_progress(&self) -> Result<(LinkProgress, Vec<String>), OperationError> {
        let view = self.store.view()?;
        let progress = linking::progress(&view)?;
        let catalog = self.catalog.load();
        let known = progress.attributes.iter().filter_map(|id| catalog.attributes().get(id.0 as usize));
        let names = known.map(|def| def.name.clone()).collect();
        Ok((progress, names))
    }

    /// Returns the rules of `auto_members` for which existing entries are still to be examined and added to a group.
    /// Also returns the id of the newest entry, at which this examination ends.
    ///
    /// # Errors
    /// The store failed.
    pub fn pending_joins(&self) -> Result<(Vec<PendingJoin>, EntryId), OperationError> {
        let view = self.store.view()?;
        let pending = pending_joins(&view)?.list;
        let last = match pending.is_empty() {
            true => None,
            false => view.scan(NODES, (Bound::Unbounded, Bound::Unbounded), Direction::Backward).next(),
        };
        let newest = match last {
            Some(row) => key_id(row?.0)?,
            None => EntryId::ROOT,
        };
        Ok((pending, newest))
    }

    /// Returns true if the administrator can bind, because the node or the data directory has a password.
    pub fn has_administrator_password(&self) -> bool {
        self.settings.load().node.admin_password.is_some() || self.catalog.load().administrator.is_some()
    }

    /// Returns true if the directory has no entries.
    ///
    /// # Errors
    /// The store failed.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.store.view()?.row_count(NODES)? == 0)
    }

    /// Returns the DNs of the naming contexts.
    pub fn suffixes(&self) -> Vec<String> {
        self.catalog.load().suffixes.iter().map(|suffix| suffix.dn.clone()).collect()
    }

    /// Returns the indexes that are being built or removed, for monitoring.
    ///
    /// # Errors
    /// The store failed.
    pub fn index_progress(&self) -> Result<Vec<IndexProgress>, OperationError> {
        // The catalog is loaded after the view: see `Snapshot::renew`.
        let view = self.store.view()?;
        maintenance::progress(&view, &self.catalog.load())
    }

    /// Estimates the sizes of the complete indexes from a sample of the entries.
    ///
    /// # Errors
    /// The store failed.
    pub fn index_sizes(&self, bounds: SampleBounds) -> Result<IndexSizes, OperationError> {
        let view = self.store.view()?;
        sizes::sizes(&view, &self.catalog.load(), bounds)
    }

    /// Returns the schema's name for an attribute type; `None` if the schema does not define the type.
    pub fn attribute_name(&self, name_or_oid: &str) -> Option<String> {
        let catalog = self.catalog.load();
        catalog.schema.attribute_type(name_or_oid).map(|known| known.name().to_owned())
    }

    /// Returns the indexed attribute types by name, with the kinds of their indexes.
    pub fn indexes(&self) -> Vec<(String, IndexKinds)> {
        self.catalog.load().indexes()
    }

    /// Returns the newest visible position.
    ///
    /// # Errors
    /// The store failed.
    pub fn newest_position(&self) -> Result<u64, StoreError> {
        self.store.view()?.position()
    }

    /// Returns the generation of this data, a random identifier. Data that replaces this data has a different
    /// generation. Only replicas and backups receive the generation, because keys are derived from it.
    ///
    /// # Errors
    /// The store failed, or the row is damaged.
    pub fn generation(&self) -> Result<[u8; 16], OperationError> {
        let view = self.store.view()?;
        crate::catalog::generation(&view)
    }

    /// Returns the identifier of this data that clients receive, for example in position tokens. The identifier is
    /// derived from the generation, and does not reveal the generation.
    pub fn published_generation(&self) -> [u8; 16] {
        let mut published = [0; 16];
        published.iter_mut().zip(self.secret(b"published generation")).for_each(|(to, from)| *to = from);
        published
    }

    /// Returns statistics of the store, for monitoring.
    ///
    /// # Errors
    /// The store failed.
    pub fn facts(&self) -> Result<store::Facts, StoreError> {
        self.store.facts()
    }

    /// See [`Store::set_aside`].
    pub fn set_aside(&self) -> &[std::path::PathBuf] {
        self.store.set_aside()
    }

    /// See [`Store::warm_up`].
    ///
    /// # Errors
    /// See [`Store::warm_up`].
    pub fn warm_up(&self, bytes_max: u64, go_on: impl Fn() -> bool) -> Result<u64, StoreError> {
        self.store.warm_up(bytes_max, go_on)
    }

    /// See [`Store::checkpoint`]. The size of the data file is meaningful only after a checkpoint.
    ///
    /// # Errors
    /// See [`Store::checkpoint`].
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.store.checkpoint()
    }
}

/// Returns true if the entry with this name is in one of these copied trees.
pub(crate) fn is_in(copies: &CopyStates, schema: &Schema, name: &str) -> bool {
    !copies.0.is_empty()
        && ldap::Dn::parse(name).is_ok_and(|dn| copies.of(&NormalName::of(&dn, schema).key).is_some())
}

/// Checks that the administrator's name is a DN, and that the copied trees are valid.
pub(crate) fn check_node(node: &NodeSettings, schema: &Schema) -> Result<(), OpenError> {
    let bad = |reason: String| Err(OpenError::Setting { setting: "admin_dn".to_owned(), reason });
    match ldap::Dn::parse(&node.admin_dn) {
        Err(error) => bad(format!("{:?}: {error}", node.admin_dn)),
        Ok(dn) if dn.is_empty() => bad("the empty DN stands for anonymous".to_owned()),
        Ok(dn) => match schema.normalize_dn(&dn, &mut Vec::new()) {
            Err(error) => bad(error.to_string()),
            Ok(()) => check_followed(node, schema),
        },
    }
}

/// Returns the normal form of the base of a copy. Refuses a DN of which only a part can be normalized, because the
/// part would name other entries.
fn check_base(setting: &str, base: &str, schema: &Schema) -> Result<Vec<u8>, OpenError> {
    let bad = |reason| OpenError::Setting { setting: setting.to_owned(), reason };
    let dn = ldap::Dn::parse(base).map_err(|error| bad(format!("{base:?}: {error}")))?;
    let name = NormalName::of(&dn, schema);
    match name.failure {
        Some(failure) => Err(bad(format!("{base:?}: {failure}"))),
        None => Ok(name.key),
    }
}

/// Checks that the copies of other servers' trees do not overlap.
fn check_followed(node: &NodeSettings, schema: &Schema) -> Result<(), OpenError> {
    let mut keys: Vec<(Vec<u8>, &str)> = Vec::new();
    for tree in &node.followed {
        let bad = |reason: String| OpenError::Setting { setting: "follow.to".to_owned(), reason };
        check_base("follow.base", &tree.mapping.bases.0, schema)?;
        let key = check_base("follow.to", tree.base(), schema)?;
        let overlaps = |(other, _): &&(Vec<u8>, &str)| other.starts_with(&key) || key.starts_with(other);
        if let Some((_, other)) = keys.iter().find(overlaps) {
            return Err(bad(format!("the copies at {other:?} and {:?} overlap", tree.base())));
        }
        keys.push((key, tree.base()));
    }
    Ok(())
}
