//! Opening a data directory, reading it at one position, and the one writer.
//!
//! A change goes through [`WriteBatch::execute`]: decide, apply, append the record. All operations of a batch become
//! durable with one sync in [`WriteBatch::commit`]; until then nobody but the batch sees them.

use std::cell::{RefCell, RefMut};
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use ldap::{Request, ResultCode};
use schema::{AttributeDescription, NORMALISATION_VERSION, Schema};
use store::{Batch, Read, Store, StoreError, View};

use crate::access::Requester;
use crate::allocations::Allocations;
use crate::apply::apply;
use crate::attribute_index::maintenance::{self, IndexProgress, SliceBudget};
use crate::attribute_index::{IndexKinds, check_kinds};
use crate::catalog::{self, AttributeAllocation, Catalog, META_FORMAT};
use crate::controls::RequestControls;
use crate::csn::Csn;
use crate::decide::decide;
use crate::known_names::KnownNames;
use crate::limits::LOG_TRIM_SLICE;
use crate::name_cache::NameCache;
use crate::names_clock::{NamesClock, changes_names};
use crate::record::{Change, Record};
use crate::rows::{MAPS, META, NODES};
use crate::search::PageKey;
use crate::settings::{self, Difference, SettingsError, SettingsRecord, change_entries};
use crate::tree::State;
use crate::virtual_entries::MonitorSource;
use crate::{DirectorySettings, NodeSettings, OperationError, Outcome, Settings};

/// Version of the rows. Another one is refused at open.
const ROW_FORMAT_VERSION: u32 = 2;

/// Number of this server in CSNs. One node for now.
pub(crate) const SERVER_NUMBER: u16 = 0;

/// How to open a data directory.
pub struct OpenOptions {
    /// The directory-wide settings of a new directory. One that exists has its own.
    pub initial: DirectorySettings,
    /// DNs of the naming contexts to serve besides.
    pub suffixes: Vec<String>,
    /// What this node adds to the settings.
    pub node: NodeSettings,
    /// Who makes the entries at and below `cn=monitor`.
    pub monitor: Arc<dyn MonitorSource>,
    /// `vendorVersion` of the root DSE (RFC 3045).
    pub vendor_version: String,
    /// How to open the store.
    pub store: store::Options,
    /// Time and random bits for what a first start writes.
    pub stamp: Stamp,
}

/// What the clock and the random source gave to one operation.
#[derive(Clone, Debug, Default)]
pub struct Stamp {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub now_micros: u64,
    /// A random UUID (RFC 9562 version 4) for an entry that the operation may add.
    pub uuid: [u8; 16],
    /// Clear passwords of the request, each with the stored form made of it beforehand.
    pub hashed_passwords: Vec<(Vec<u8>, Vec<u8>)>,
    /// Clear passwords that the request deletes, each with the stored form that it verifies against.
    pub matched_passwords: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store refused: in use, another format, not ours, or the disk.
    #[error(transparent)]
    Open(#[from] store::OpenError),
    /// Reading or writing failed after that.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows or normal forms are of another version.
    #[error(
        "the data has {what} version {found}, this program has {supported}; export it with the program that wrote it \
         and import it again"
    )]
    Version {
        /// Which version.
        what: &'static str,
        /// In the data.
        found: u32,
        /// Here.
        supported: u32,
    },
    /// An attribute type or object class that entries use is not in the schema.
    #[error("{what} {oid} is used by entries but not defined: add the schema file that defines it")]
    MissingDefinition {
        /// "attribute type" or "object class".
        what: &'static str,
        /// Its OID.
        oid: String,
    },
    /// Syntax or rules of an attribute type are not those under which values were stored.
    #[error(
        "attribute type {name} has values stored under syntax and rules `{stored}`, its definition now says `{now}`: \
         restore the definition, or export the data with it and import it under the new one"
    )]
    ChangedDefinition {
        /// Name of the type.
        name: String,
        /// Syntax, equality and ordering then, as OIDs.
        stored: String,
        /// Now.
        now: String,
    },
    /// A naming context cannot be.
    #[error("suffix {dn:?}: {reason}")]
    Suffix {
        /// As given.
        dn: String,
        /// Why not.
        reason: String,
    },
    /// A setting cannot be.
    #[error("setting {setting}: {reason}")]
    Setting {
        /// Its name.
        setting: String,
        /// Why not.
        reason: String,
    },
    /// There is a data file, but nothing has been written to it: a first start was killed before.
    #[error("there is a data file, but no directory in it yet")]
    Empty,
    /// Rows of the catalogue are damaged.
    #[error("the data is damaged: {0}")]
    Damaged(String),
}

impl OpenError {
    pub(crate) fn damaged(what: &str) -> OpenError {
        OpenError::Damaged(what.to_owned())
    }
}

impl From<OperationError> for OpenError {
    fn from(error: OperationError) -> OpenError {
        match error {
            OperationError::Store(error) => OpenError::Store(error),
            other => OpenError::Damaged(other.to_string()),
        }
    }
}

/// An open data directory.
pub struct Directory {
    store: Store,
    catalog: ArcSwap<Catalog>,
    settings: ArcSwap<Settings>,
    /// The node's part of the settings. Held while those in force are made anew.
    node: Mutex<NodeSettings>,
    pub(crate) monitor: Arc<dyn MonitorSource>,
    pub(crate) vendor_version: String,
    names_clock: NamesClock,
    /// Entries that are being sent as streams.
    pub(crate) streams: AtomicUsize,
    pub(crate) page_key: PageKey,
}

impl Directory {
    /// Opens the data directory `path`, creating it where there is none.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was changed then, but for a directory newly created.
    pub fn open(path: &Path, options: OpenOptions) -> Result<(Arc<Directory>, Writer), OpenError> {
        let (store, mut store_writer) = Store::open(path, MAPS, &options.store)?;
        let view = store.view()?;
        let is_new = check_versions(&view)?;
        let loaded = Catalog::load(&view)?;
        drop(view);
        check_node(&options.node, &loaded.schema)?;
        let mut catalog = Arc::new(loaded);
        prepare(&mut store_writer, &mut catalog, &options, is_new)?;
        let view = store.view()?;
        let generation = catalog::generation(&view)?;
        drop(view);
        let directory = Arc::new(Directory {
            store,
            settings: ArcSwap::from_pointee(Settings::of(&options.node, &catalog.settings.general)),
            catalog: ArcSwap::new(catalog.clone()),
            node: Mutex::new(options.node),
            monitor: options.monitor,
            vendor_version: options.vendor_version,
            names_clock: NamesClock::default(),
            streams: AtomicUsize::new(0),
            page_key: PageKey::new(generation),
        });
        let writer = Writer { directory: directory.clone(), store: store_writer, catalog };
        Ok((directory, writer))
    }

    /// A reader at the newest durable position. One for each thread that reads.
    ///
    /// # Errors
    /// All view slots are taken, or the engine failed.
    pub fn snapshot(self: &Arc<Self>) -> Result<Snapshot, StoreError> {
        let view = self.store.view()?;
        let published = self.catalog.load_full();
        let catalog = catalog_of(&view, &published)?;
        Ok(Snapshot {
            view,
            catalog,
            published,
            settings: self.settings.load_full(),
            directory: self.clone(),
            names: RefCell::default(),
        })
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
    fn refresh_settings(&self) {
        let node = self.lock_node();
        self.settings.store(Arc::new(Settings::of(&node, &self.catalog.load().settings.general)));
    }

    fn lock_node(&self) -> MutexGuard<'_, NodeSettings> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory-wide settings.
    pub fn directory_settings(&self) -> DirectorySettings {
        DirectorySettings::of(&self.catalog.load())
    }

    /// Whether the administrator can bind: a password is set or kept.
    pub fn has_administrator_password(&self) -> bool {
        self.settings.load().admin_password.is_some() || self.catalog.load().administrator.is_some()
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

    /// Figures of the store for monitoring.
    ///
    /// # Errors
    /// The store failed.
    pub fn facts(&self) -> Result<store::Facts, StoreError> {
        self.store.facts()
    }

    /// As [`Store::fold`]: for measuring what is in the data file.
    ///
    /// # Errors
    /// As there.
    pub fn fold(&self) -> Result<(), StoreError> {
        self.store.fold()
    }
}

/// Whether the data directory is new; versions of an old one must be ours.
pub(crate) fn check_versions(read: &Read) -> Result<bool, OpenError> {
    let Some(bytes) = read.get(META, META_FORMAT)? else { return Ok(true) };
    let versions: [u8; 8] = bytes.try_into().map_err(|_| OpenError::damaged("format versions"))?;
    let (rows, forms) = versions.split_at(4);
    for (what, found, supported) in
        [("row format", rows, ROW_FORMAT_VERSION), ("normalisation", forms, NORMALISATION_VERSION)]
    {
        let found = found.try_into().map(u32::from_be_bytes).unwrap_or(0);
        if found != supported {
            return Err(OpenError::Version { what, found, supported });
        }
    }
    Ok(false)
}

/// The administrator's name must be one.
fn check_node(node: &NodeSettings, schema: &Schema) -> Result<(), OpenError> {
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

/// Writes what a first start needs, and naming contexts that are new.
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
    if !is_new && changed.is_empty() && proposal.suffixes.len() == catalog.suffixes.len() {
        return Ok(());
    }
    let mut batch = writer.begin()?;
    let settings = Settings::of(&options.node, &catalog.settings.general);
    let decided = settings::decide(State { read: &batch, catalog, settings: &settings }, &proposal);
    let decided = decided.map_err(|error| match error {
        SettingsError::Problems(problems) => OpenError::from(problems),
        SettingsError::Operation(error) => OpenError::from(error),
    })?;
    for allocation in &changed {
        let mut bytes = Vec::new();
        allocation.encode(&mut bytes);
        batch.put(META, &catalog::meta_key(catalog::META_ATTRIBUTE, allocation.id.0), &bytes)?;
    }
    let mut versions = [0; 8];
    versions[..4].copy_from_slice(&ROW_FORMAT_VERSION.to_be_bytes());
    versions[4..].copy_from_slice(&NORMALISATION_VERSION.to_be_bytes());
    batch.put(META, META_FORMAT, &versions)?;
    if is_new {
        batch.put(META, catalog::META_GENERATION, &options.stamp.uuid)?;
    }
    if !decided.record.is_empty() {
        let csn = Csn::after(catalog::last_csn(&batch)?, options.stamp.now_micros, SERVER_NUMBER);
        let (attributes, change) = (decided.attributes, Change::Settings(decided.record));
        let record = Record { csn, requester: String::new(), attributes, class_sets: Vec::new(), change };
        let position = batch.append_record(&record.encode())?;
        apply(&mut batch, catalog, position, &record)?;
    }
    batch.commit()?;
    Ok(())
}

/// The catalogue that speaks of the rows in `view`: the published one, unless indexes are in another state there.
fn catalog_of(view: &View, published: &Arc<Catalog>) -> Result<Arc<Catalog>, StoreError> {
    let damaged = StoreError::DamagedRow { map: MAPS[META.index()].name };
    let found = match catalog::index_version(view) {
        Ok(version) => version,
        Err(OperationError::Store(error)) => return Err(error),
        Err(_) => return Err(damaged),
    };
    if found == published.index_version() {
        return Ok(Arc::clone(published));
    }
    let mut catalog = Catalog::clone(published);
    match catalog.load_indexes(view) {
        Ok(()) => Ok(Arc::new(catalog)),
        Err(OpenError::Store(error)) => Err(error),
        Err(_) => Err(damaged),
    }
}

/// The directory at one position of the log.
pub struct Snapshot {
    view: View,
    /// What numbers and indexes mean in this view.
    catalog: Arc<Catalog>,
    /// The newest catalogue there was.
    published: Arc<Catalog>,
    settings: Arc<Settings>,
    directory: Arc<Directory>,
    names: RefCell<NameCache>,
}

impl Snapshot {
    /// Moves to the newest durable position. A few nanoseconds when nothing has changed.
    ///
    /// # Errors
    /// The engine failed; the snapshot is parked then.
    pub fn renew(&mut self) -> Result<(), StoreError> {
        let (version, settled) = (self.view.version(), self.directory.names_clock.settled());
        self.view.renew()?;
        if self.view.version() != version {
            self.names.get_mut().moved(settled, self.directory.names_clock.begun());
        }
        // After the view: a catalogue is published before its commit, so this one knows every number in the view. Of indexes
        // it may know too much: one that it says is complete may be so only in a later view.
        let published = self.directory.catalog.load();
        let is_new = !Arc::ptr_eq(&published, &self.published);
        if is_new || self.view.version() != version {
            if is_new {
                self.published = Arc::clone(&published);
            }
            self.catalog = catalog_of(&self.view, &self.published)?;
        }
        let settings = self.directory.settings.load();
        if !Arc::ptr_eq(&settings, &self.settings) {
            self.settings = Arc::clone(&settings);
        }
        Ok(())
    }

    /// Spends up to `bytes_max` bytes on remembering where rows are that were asked for (see [`View::remember_rows`]) and, a sixteenth of them,
    /// which entries DNs name.
    pub fn remember_rows(&mut self, bytes_max: usize) {
        let names_bytes_max = bytes_max / 16;
        self.names.get_mut().known = KnownNames::new(names_bytes_max);
        self.view.remember_rows(bytes_max - names_bytes_max);
    }

    /// Lets go of the position until the next renewal, so that its pages can be reused while the thread waits.
    pub fn park(&mut self) {
        self.view.park();
    }

    /// What is remembered of names.
    #[inline]
    pub(crate) fn names(&self) -> RefMut<'_, NameCache> {
        self.names.borrow_mut()
    }

    /// A number that changes exactly when the snapshot moves. Costs nothing.
    pub fn version(&self) -> u64 {
        self.view.version()
    }

    /// Position of the last record seen.
    ///
    /// # Errors
    /// The store failed.
    pub fn position(&self) -> Result<u64, StoreError> {
        self.view.position()
    }

    /// What operations read.
    pub fn state(&self) -> State<'_> {
        State { read: &self.view, catalog: &self.catalog, settings: &self.settings }
    }

    /// The directory that this is a snapshot of.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The directory that it is of, for one more snapshot.
    pub(crate) fn directory_handle(&self) -> &Arc<Directory> {
        &self.directory
    }
}

/// The one that changes a directory.
pub struct Writer {
    directory: Arc<Directory>,
    store: store::Writer,
    catalog: Arc<Catalog>,
}

impl Writer {
    /// Begins a batch. While the disk is nearly full only deletes are accepted in it: they make room.
    ///
    /// # Errors
    /// Writes are stopped after a failed sync, or the engine failed.
    pub fn begin(&mut self) -> Result<WriteBatch<'_>, OperationError> {
        let settings = self.directory.settings();
        let full = match self.store.check_reserve() {
            Ok(()) => None,
            Err(error @ StoreError::DiskFull { .. }) => Some(error),
            Err(error) => return Err(error.into()),
        };
        Ok(WriteBatch {
            batch: self.store.begin_in_reserve()?,
            directory: &self.directory,
            catalog: self.catalog.clone(),
            committed: &mut self.catalog,
            settings,
            full,
            changes_names: false,
            failure: None,
        })
    }

    /// Begins a batch of plain rows, for repairs: no record is made of it.
    pub(crate) fn begin_repair(&mut self) -> Result<Batch<'_>, OperationError> {
        // Which rows these will be, and when they are there, is not known here: nothing that is remembered outlives a commit any more.
        self.directory.names_clock.begin();
        Ok(self.store.begin()?)
    }

    /// Defines the index of an attribute type: what it is to answer from now on; [`IndexKinds::NONE`] for no index. Durable
    /// when it returns, and followed by every change from then on. Rows of the entries that exist are made (or removed) by
    /// [`run_maintenance_slice`](Writer::run_maintenance_slice); until then searches do without. False if nothing is new.
    ///
    /// # Errors
    /// The schema does not know the type, the type cannot have such an index, or the store failed.
    pub fn define_index(
        &mut self,
        attribute: &str,
        kinds: IndexKinds,
        stamp: &Stamp,
    ) -> Result<bool, OperationError> {
        let mut batch = self.begin()?;
        let is_new = batch.define_index(attribute, kinds, stamp)?;
        batch.commit()?;
        Ok(is_new)
    }

    /// Whether index rows remain to be made or removed.
    pub fn maintenance_pending(&self) -> bool {
        maintenance::is_pending(&self.catalog)
    }

    /// As [`Directory::index_progress`].
    ///
    /// # Errors
    /// The store failed.
    pub fn index_progress(&self) -> Result<Vec<IndexProgress>, OperationError> {
        self.directory.index_progress()
    }

    /// Makes or removes some index rows in a batch of its own: a few milliseconds of work and one sync. Whether more
    /// remains. A process that ends at any point goes on behind its last slice.
    ///
    /// # Errors
    /// The disk is nearly full, or the store failed: nothing of the slice holds.
    pub fn run_maintenance_slice(&mut self, budget: &SliceBudget) -> Result<bool, OperationError> {
        let mut batch = self.begin()?;
        if let Some(full) = &batch.full
            && maintenance::makes_rows(&batch.catalog)
        {
            return Err(full.clone().into());
        }
        if maintenance::run_slice(&mut batch.batch, &mut batch.catalog, budget)? {
            batch.commit()?;
        } else {
            drop(batch);
        }
        Ok(self.maintenance_pending())
    }

    /// As [`WriteBatch::change_settings`], in a batch of its own: durable when it returns.
    ///
    /// # Errors
    /// As there.
    pub fn change_settings(
        &mut self,
        requester: &str,
        proposal: &DirectorySettings,
        stamp: &Stamp,
    ) -> Result<Vec<Difference>, SettingsError> {
        let mut batch = self.begin()?;
        let differences = batch.change_settings(requester, proposal, stamp)?;
        batch.commit()?;
        Ok(differences)
    }

    /// Sets the administrator's password (in stored form), durably.
    ///
    /// # Errors
    /// The store failed.
    pub fn set_administrator_password(
        &mut self,
        stored: Vec<u8>,
        stamp: &Stamp,
    ) -> Result<(), OperationError> {
        let mut batch = self.begin()?;
        batch.record_with("", Change::Administrator { stored }, Vec::new(), stamp)?;
        batch.commit()
    }
}

/// Operations that become durable and visible together.
pub struct WriteBatch<'w> {
    batch: Batch<'w>,
    directory: &'w Directory,
    catalog: Arc<Catalog>,
    committed: &'w mut Arc<Catalog>,
    settings: Arc<Settings>,
    /// Set while the disk is nearly full.
    full: Option<StoreError>,
    /// Whether [`NamesClock`] is to be told of the commit.
    changes_names: bool,
    /// Why rows could not be written: an operation may be half there, so nothing of the batch may be kept.
    failure: Option<BatchFailure>,
}

/// What ended a batch.
enum BatchFailure {
    /// The store failed; of the whole batch the same is to be said.
    Store(StoreError),
    /// Rows contradict each other.
    Damaged(String),
}

impl WriteBatch<'_> {
    /// That the disk is nearly full, if it is: then only deletes are accepted.
    pub fn disk_full(&self) -> Option<&StoreError> {
        self.full.as_ref()
    }

    /// Carries out an add, delete, modify or modify DN request. It sees the operations before it; a refused one leaves
    /// no trace. The outcome holds only once the batch is committed.
    pub fn execute(
        &mut self,
        requester: &Requester,
        request: &Request<'_>,
        controls: &RequestControls,
        stamp: &Stamp,
    ) -> Outcome {
        match self.try_execute(requester, request, controls, stamp) {
            Ok(()) => Outcome::success(),
            Err(error) => error.into(),
        }
    }

    fn try_execute(
        &mut self,
        requester: &Requester,
        request: &Request<'_>,
        controls: &RequestControls,
        stamp: &Stamp,
    ) -> Result<(), OperationError> {
        self.check_failure()?;
        if let (Some(full), false) = (&self.full, matches!(request, Request::Delete(_))) {
            return Err(full.clone().into());
        }
        if let Some(proposal) = change_entries::proposal(self.state(), requester, request)? {
            let changed = self.change_settings(requester.dn(), &proposal, stamp);
            return changed.map(drop).map_err(change_entries::refusal);
        }
        let csn = Csn::after(catalog::last_csn(&self.batch)?, stamp.now_micros, SERVER_NUMBER);
        match decide(self.state(), requester, request, controls, stamp, csn)? {
            Some(record) => self.append(&record),
            None => Ok(()),
        }
    }

    fn check_failure(&self) -> Result<(), OperationError> {
        match &self.failure {
            None => Ok(()),
            Some(BatchFailure::Store(error)) => Err(error.clone().into()),
            Some(BatchFailure::Damaged(cause)) => {
                Err(OperationError::Damaged(format!("an operation of the same batch failed: {cause}")))
            }
        }
    }

    /// See [`Writer::define_index`].
    ///
    /// # Errors
    /// As there.
    pub fn define_index(
        &mut self,
        attribute: &str,
        kinds: IndexKinds,
        stamp: &Stamp,
    ) -> Result<bool, OperationError> {
        let refuse = |text: String| OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text);
        let schema = Arc::clone(&self.catalog.schema);
        let attribute_type = schema
            .attribute_type(attribute)
            .ok_or_else(|| refuse(format!("attribute type {attribute:?} is not defined")))?;
        check_kinds(attribute_type, &schema, kinds).map_err(refuse)?;
        let catalog = Arc::clone(&self.catalog);
        let mut allocations = Allocations::new(&catalog);
        let id = allocations.attribute(&AttributeDescription::of(attribute_type.id));
        let known = catalog.attributes().get(id.0 as usize);
        if known.map_or(kinds.is_none(), |def| def.index.kinds == kinds) {
            return Ok(false);
        }
        let change = SettingsRecord { indexes: vec![(id, kinds)], ..SettingsRecord::default() };
        self.record_with("", Change::Settings(change), allocations.into_parts().0, stamp)?;
        Ok(true)
    }

    /// Puts these directory-wide settings in force, all of them or none, with one record. Returns what changed, nothing
    /// where they are in force already.
    ///
    /// # Errors
    /// What is wrong with them, or stands against them; then nothing changes.
    pub fn change_settings(
        &mut self,
        requester: &str,
        proposal: &DirectorySettings,
        stamp: &Stamp,
    ) -> Result<Vec<Difference>, SettingsError> {
        self.check_failure()?;
        if let Some(full) = &self.full {
            return Err(OperationError::from(full.clone()).into());
        }
        let decided = settings::decide(self.state(), proposal)?;
        if !decided.record.is_empty() {
            self.record_with(requester, Change::Settings(decided.record), decided.attributes, stamp)?;
        }
        Ok(decided.differences)
    }

    fn record_with(
        &mut self,
        requester: &str,
        change: Change,
        attributes: Vec<AttributeAllocation>,
        stamp: &Stamp,
    ) -> Result<(), OperationError> {
        let csn = Csn::after(catalog::last_csn(&self.batch)?, stamp.now_micros, SERVER_NUMBER);
        let requester = requester.to_owned();
        self.append(&Record { csn, requester, attributes, class_sets: Vec::new(), change })
    }

    fn append(&mut self, record: &Record) -> Result<(), OperationError> {
        self.changes_names = self.changes_names || changes_names(self.state(), &record.change)?;
        let written = match self.batch.append_record(&record.encode()) {
            Ok(position) => apply(&mut self.batch, &mut self.catalog, position, record),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = &written {
            self.failure = Some(match error {
                OperationError::Store(error) => BatchFailure::Store(error.clone()),
                other => BatchFailure::Damaged(other.to_string()),
            });
        } else if let Change::Settings(_) = record.change {
            // Operations behind it in the batch go by the new settings.
            let settings = Settings::of(&self.directory.lock_node(), &self.catalog.settings.general);
            self.settings = Arc::new(settings);
        }
        written
    }

    /// The state with the batch's operations so far.
    pub fn state(&self) -> State<'_> {
        State { read: &self.batch, catalog: &self.catalog, settings: &self.settings }
    }

    /// Makes the batch durable, with one sync, and visible.
    ///
    /// # Errors
    /// Nothing of the batch holds: every operation in it failed.
    pub fn commit(mut self) -> Result<(), OperationError> {
        self.check_failure()?;
        self.trim_log()?;
        // Published first: whoever sees the new rows must know their numbers. Numbers nobody uses do no harm.
        let is_changed = !Arc::ptr_eq(&self.catalog, self.committed);
        if is_changed {
            self.directory.catalog.store(self.catalog.clone());
        }
        let clock = &self.directory.names_clock;
        let committed =
            if self.changes_names { clock.during(|| self.batch.commit()) } else { self.batch.commit() };
        if let Err(error) = committed {
            // Settings that are not there must not be seen any longer.
            self.directory.catalog.store(self.committed.clone());
            return Err(error.into());
        }
        let is_other = self.catalog.settings != self.committed.settings;
        *self.committed = self.catalog;
        if is_other {
            self.directory.refresh_settings();
        }
        Ok(())
    }

    fn trim_log(&mut self) -> Result<(), StoreError> {
        let before = (self.batch.position()? + 1).saturating_sub(self.settings.log_records_kept.max(1));
        if self.batch.first_position()?.is_some_and(|first| first < before) {
            self.batch.trim_log(before, LOG_TRIM_SLICE)?;
        }
        Ok(())
    }
}
