//! Opens a data directory: checks versions and settings, and initializes a new directory.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use schema::NORMALISATION_VERSION;
use store::{Read, Store};

use super::role::{self, ReplicationRole};
use super::{SERVER_NUMBER, Writer};
use crate::accounts::read_policies;
use crate::catalog::{self, Catalog, META_FORMAT};
use crate::model::copy_states::CopyStates;
use crate::model::csn::Csn;
use crate::model::open_error::OpenError;
use crate::model::origin::Origin;
use crate::model::record::{Change, Record};
use crate::model::rows::{MAPS, META};
use crate::model::schema_times::SchemaTimes;
use crate::model::settings::{NodeSettings, Settings};
use crate::model::stamp::Stamp;
use crate::model::virtual_entries::MonitorSource;
use crate::settings::{self, DirectorySettings, SettingsError};
use crate::snapshot::page_key::PageKey;
use crate::snapshot::{Directory, check_node};
use crate::tree::TreeState;
use crate::tree::collective::read_collective;
use crate::tree::dynamic_groups::read_dynamic_groups;
use crate::write::apply::apply;

/// Version of the row format that is written.
const ROW_FORMAT_VERSION: u32 = 3;

/// Oldest version of the row format that is read. Version 2 has no packed values in rows of entries.
const ROW_FORMAT_VERSION_MIN: u32 = 2;

/// Options with which a data directory is opened.
pub struct OpenOptions {
    /// Directory-wide settings of a new directory. An existing directory keeps its own settings.
    pub initial: DirectorySettings,
    /// DNs of naming contexts to add, if they are missing.
    pub suffixes: Vec<String>,
    /// Settings of this node.
    pub node: NodeSettings,
    /// Source of the entries at and below `cn=monitor`.
    pub monitor: Arc<dyn MonitorSource>,
    /// `vendorVersion` of the root DSE (RFC 3045).
    pub vendor_version: String,
    /// Options of the store.
    pub store: store::Options,
    /// Time and random bits for the initialization of a new directory.
    pub stamp: Stamp,
    /// Whether the caller follows the log from which a cluster node or a replica receives its changes. Without this
    /// option, a node or replica can only be read. The option also opens a promoted directory without adding to
    /// its log, so that the caller can first check whether the directory is still the writer.
    pub follows_log: bool,
    /// Whether to make the directory a replica. The directory must already contain data.
    pub becomes_replica: bool,
}

impl Directory {
    /// Opens the data directory `path`. Creates it if it does not exist.
    ///
    /// # Errors
    /// See [`OpenError`]. Nothing has changed, except that a new directory may have been created.
    pub fn open(path: &Path, options: OpenOptions) -> Result<(Arc<Directory>, Writer), OpenError> {
        let (store, mut store_writer) = Store::open(path, MAPS, &options.store)?;
        let view = store.view()?;
        let is_new = check_versions(&view)?;
        let mut loaded = Catalog::load(&view)?;
        loaded.policies = Arc::new(read_policies(&view, &loaded)?);
        loaded.dynamic_groups = Arc::new(read_dynamic_groups(&view, &loaded)?);
        loaded.collective = read_collective(&view, &loaded)?;
        let is_promoted = matches!(role::role(&view)?, ReplicationRole::Promoted { .. });
        drop(view);
        check_node(&options.node, &loaded.schema)?;
        let mut catalog = Arc::new(loaded);
        match options.becomes_replica {
            true => become_replica(&mut store_writer, is_new)?,
            false if options.follows_log && is_promoted => {}
            false => prepare(&mut store_writer, &mut catalog, &options, is_new)?,
        }
        if !is_new {
            raise_versions(&mut store_writer)?;
        }
        let view = store.view()?;
        let generation = catalog::generation(&view)?;
        let is_node = catalog::is_node(&view)? || !role::role(&view)?.may_write();
        let promoted = view.get(META, catalog::META_PROMOTED)?.map(CopyStates::decode).unwrap_or_default();
        drop(view);
        let directory = Arc::new(Directory {
            store,
            settings: ArcSwap::from_pointee(Settings::of(&options.node, &catalog.settings.general)),
            catalog: ArcSwap::new(catalog.clone()),
            node: Mutex::new(options.node),
            monitor: options.monitor,
            vendor_version: options.vendor_version,
            streams: AtomicUsize::new(0),
            shared_snapshots: AtomicUsize::new(0),
            shared_numbers: AtomicU64::new(0),
            page_key: PageKey::new(generation),
            log_floor: AtomicU64::new(u64::MAX),
            promoted: ArcSwap::from_pointee(promoted),
        });
        directory.refresh_settings();
        let may_change = !is_node || options.follows_log;
        let writer = Writer::new(directory.clone(), store_writer, catalog, (may_change, is_node));
        Ok((directory, writer))
    }
}

/// Returns the format versions of a data directory: for each format its name, the version that is written, and the
/// oldest version that can be read.
pub fn data_formats() -> [(&'static str, u32, u32); 3] {
    let exact = |name, version| (name, version, version);
    [
        ("store", store::FORMAT_VERSION, store::FORMAT_VERSION_MIN),
        ("row format", ROW_FORMAT_VERSION, ROW_FORMAT_VERSION_MIN),
        exact("normalisation", NORMALISATION_VERSION),
    ]
}

/// Returns true if the data directory is new. Otherwise checks that its versions are supported.
pub(crate) fn check_versions(read: &Read) -> Result<bool, OpenError> {
    let Some(bytes) = read.get(META, META_FORMAT)? else { return Ok(true) };
    let versions: [u8; 8] = bytes.try_into().map_err(|_| OpenError::damaged("format versions"))?;
    let (rows, forms) = versions.split_at(4);
    for (what, found, supported, oldest) in [
        ("row format", rows, ROW_FORMAT_VERSION, ROW_FORMAT_VERSION_MIN),
        ("normalisation", forms, NORMALISATION_VERSION, NORMALISATION_VERSION),
    ] {
        let found = found.try_into().map(u32::from_be_bytes).unwrap_or(0);
        if !(oldest..=supported).contains(&found) {
            return Err(OpenError::Version { what, found, supported });
        }
    }
    Ok(false)
}

/// Returns the row of `meta` with the versions that are written.
pub(crate) fn versions() -> [u8; 8] {
    let mut versions = [0; 8];
    versions[..4].copy_from_slice(&ROW_FORMAT_VERSION.to_be_bytes());
    versions[4..].copy_from_slice(&NORMALISATION_VERSION.to_be_bytes());
    versions
}

/// Stores the written versions in a directory of an earlier version, before the first row of the new version is
/// written. Appends no record to the log, because each node and each replica raises the versions of its own data.
fn raise_versions(writer: &mut store::Writer) -> Result<(), OpenError> {
    let mut batch = writer.begin()?;
    if batch.get(META, META_FORMAT)? == Some(&versions()[..]) {
        return Ok(());
    }
    batch.put(META, META_FORMAT, &versions())?;
    batch.commit()?;
    Ok(())
}

/// Gives a directory the role of a replica. Appends no record, because the log of a replica is a copy of its supplier's
/// log.
fn become_replica(writer: &mut store::Writer, is_new: bool) -> Result<(), OpenError> {
    let mut batch = writer.begin()?;
    if is_new || catalog::is_node(&batch)? {
        return Err(OpenError::ChangedNode);
    }
    if role::role(&batch)? != ReplicationRole::Replica {
        batch.put(META, catalog::META_ROLE, &role::REPLICA_ROW)?;
        batch.commit()?;
    }
    Ok(())
}

/// Initializes a new directory, and adds missing naming contexts. Also updates stored definitions and schema times that
/// have changed.
fn prepare(
    writer: &mut store::Writer,
    catalog: &mut Arc<Catalog>,
    options: &OpenOptions,
    is_new: bool,
) -> Result<(), OpenError> {
    let mut proposal = if is_new { options.initial.clone() } else { DirectorySettings::of(catalog) };
    for dn in &options.suffixes {
        let suffix = catalog.suffix_of(dn)?;
        let is_this = |known: &String| catalog.suffix_of(known).is_ok_and(|known| known.key == suffix.key);
        if !proposal.suffixes.iter().any(is_this) {
            proposal.suffixes.push(dn.clone());
        }
    }
    let changed = std::mem::take(&mut Arc::make_mut(catalog).changed);
    let times_of = |catalog: &Catalog| {
        SchemaTimes::with(catalog.schema_times.as_ref(), &catalog.schema, options.stamp.now_micros)
    };
    let has_times = catalog.schema_times.as_ref() == Some(&times_of(catalog));
    if !is_new && has_times && changed.is_empty() && proposal.suffixes.len() == catalog.suffixes.len() {
        return Ok(());
    }
    let mut batch = writer.begin()?;
    if catalog::is_node(&batch)? || !role::role(&batch)?.may_write() {
        return Err(OpenError::ChangedNode);
    }
    let settings = Settings::of(&options.node, &catalog.settings.general);
    let decided = settings::decide(TreeState::stored(&batch, catalog, &settings), &proposal);
    let decided = decided.map_err(|error| match error {
        SettingsError::Problems(problems) => OpenError::from(problems),
        SettingsError::Operation(error) => OpenError::from(error),
    })?;
    for allocation in &changed {
        let mut bytes = Vec::new();
        allocation.encode(&mut bytes);
        batch.put(META, &catalog::meta_key(catalog::META_ATTRIBUTE, allocation.id.0), &bytes)?;
    }
    batch.put(META, META_FORMAT, &versions())?;
    if is_new {
        batch.put(META, catalog::META_GENERATION, &options.stamp.uuid)?;
    }
    if !decided.record.is_empty() {
        let csn = Csn::after(catalog::last_csn(&batch)?, options.stamp.now_micros, SERVER_NUMBER);
        let (attributes, change) = (decided.attributes, Change::Settings(decided.record));
        let record = Record {
            csn,
            requester: String::new(),
            attributes,
            class_sets: Vec::new(),
            origin: Origin::default(),
            change,
        };
        let position = batch.append_record(&record.encode())?;
        apply(&mut batch, catalog, position, &record)?;
    }
    let times = times_of(catalog);
    batch.put(META, catalog::META_SCHEMA_TIMES, &times.encode())?;
    let changed = Arc::make_mut(catalog);
    changed.schema_times = Some(times);
    changed.subschema = Arc::default();
    batch.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests;
