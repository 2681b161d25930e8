//! Snapshots: readers of a directory at one position.

mod directory;
pub(crate) mod name_cache;
pub(crate) mod name_hints;
pub(crate) mod page_key;
pub(crate) mod shared;

use std::cell::{RefCell, RefMut};
use std::sync::Arc;

use store::{StoreError, View};

use crate::access::{EffectiveRights, RequestContext, RightsCache};
use crate::catalog::{self, Catalog};
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{META, map_spec};
use crate::model::settings::Settings;
use crate::model::usable::Uses;
use crate::snapshot::name_cache::NameCache;
use crate::snapshot::name_hints::NameHints;
use crate::tree::TreeState;
pub use directory::Directory;
pub(crate) use directory::{check_node, is_in};
use shared::SharedOf;

/// The directory at one position of the log.
pub struct Snapshot {
    view: View,
    /// Catalog with the numbers and indexes of this view.
    catalog: Arc<Catalog>,
    /// Newest published catalog at the last renewal.
    published: Arc<Catalog>,
    settings: Arc<Settings>,
    directory: Arc<Directory>,
    names: RefCell<NameCache>,
    pub(crate) rights_cache: RefCell<RightsCache>,
    /// Shared snapshot of the present state. Boxed, because most snapshots have no shared snapshot.
    shared: RefCell<Option<Box<SharedOf>>>,
}

impl Snapshot {
    /// Moves to the newest durable position. Takes a few nanoseconds if nothing has changed.
    ///
    /// # Errors
    /// The store failed. The snapshot is parked then.
    pub fn renew(&mut self) -> Result<(), StoreError> {
        let version = self.view.version();
        self.view.renew()?;
        if self.view.version() != version {
            self.names.get_mut().forget();
        }
        // The catalog is loaded after the view. Because a new catalog is published before the commit of the rows that
        // need it, the loaded catalog contains every number in the view. The catalog may be too new for the indexes:
        // an index that the catalog marks as complete may only be complete in a later view.
        let published = self.directory.catalog.load();
        let is_new = !Arc::ptr_eq(&published, &self.published);
        if is_new || self.view.version() != version {
            if is_new {
                self.published = Arc::clone(&published);
            }
            self.renew_rights(is_new)?;
            self.catalog = catalog_of(&self.view, &self.published)?;
        }
        let settings = self.directory.settings.load();
        if !Arc::ptr_eq(&settings, &self.settings) {
            self.settings = Arc::clone(&settings);
        }
        Ok(())
    }

    /// Sets the memory for the row cache (see [`View::cache_rows`]) to `bytes_max` bytes. One sixteenth of this memory
    /// caches the entries that DNs name.
    pub fn cache_rows(&mut self, bytes_max: usize) {
        let names_bytes_max = bytes_max / 16;
        self.names.get_mut().hints = NameHints::new(names_bytes_max);
        self.view.cache_rows(bytes_max - names_bytes_max);
    }

    /// Releases the position until the next renewal, so that the pages of the position can be reused while the thread
    /// is idle.
    pub fn park(&mut self) {
        self.view.park();
    }

    /// Returns the cache of names.
    #[inline]
    pub(crate) fn names(&self) -> RefMut<'_, NameCache> {
        self.names.borrow_mut()
    }

    /// Drops cached effective rights that are no longer valid. With another catalog, drops all cached effective rights,
    /// because the catalog's numbers may have a different meaning.
    fn renew_rights(&mut self, has_new_catalog: bool) -> Result<(), StoreError> {
        let rights_cache = self.rights_cache.get_mut();
        match has_new_catalog {
            true => rights_cache.forget(),
            false => rights_cache.follow(&self.view)?,
        }
        Ok(())
    }

    /// Returns the effective rights of a requester. Rights under access rules are cached until a record changes one of
    /// their sources. A revocation therefore takes effect as soon as the snapshot contains the change that revokes the
    /// right.
    ///
    /// # Errors
    /// See [`EffectiveRights::of`].
    #[inline]
    pub(crate) fn rights(&self, context: &RequestContext<'_>) -> Result<EffectiveRights, OperationError> {
        match self.catalog.access_rules.are_there() {
            false => EffectiveRights::of(self.state(), context),
            true => self.rights_cache.borrow_mut().rights(&self.view, self.state(), context),
        }
    }

    /// Returns true if entries may be dynamic (RFC 2589), so that results depend on the time.
    pub fn has_dynamic_entries(&self) -> bool {
        self.catalog.has_dynamic_entries
    }

    /// Returns true if access rules depend on the connection of a request.
    pub fn depends_on_link(&self) -> bool {
        self.catalog.access_rules.depend_on_link()
    }

    /// Returns true if access rules cover controls and extended operations.
    pub fn rules_cover_uses(&self) -> bool {
        self.catalog.access_rules.cover_uses()
    }

    /// Returns true if a requester may use a control or an extended operation.
    ///
    /// # Errors
    /// adminLimitExceeded for a user in too many groups, or the store failed.
    pub fn may_use(&self, context: &RequestContext<'_>, oid: &str) -> Result<bool, OperationError> {
        Ok(self.rights(context)?.may_use(Uses::of_oid(oid)))
    }

    /// Returns true if the directory is a node of a cluster.
    ///
    /// # Errors
    /// The store failed.
    pub fn is_node(&self) -> Result<bool, OperationError> {
        Ok(catalog::is_node(self.state().read)?)
    }

    /// Returns a number that changes if and only if the snapshot moves.
    pub fn version(&self) -> u64 {
        self.view.version()
    }

    /// Returns the position of the last record in the snapshot.
    ///
    /// # Errors
    /// The store failed.
    pub fn position(&self) -> Result<u64, StoreError> {
        self.view.position()
    }

    /// Returns the state that operations read.
    pub fn state(&self) -> TreeState<'_> {
        TreeState::of_readers(&self.view, &self.catalog, &self.settings)
    }

    /// Returns the directory that this snapshot belongs to.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns a shared reference to the directory, for creating another snapshot.
    pub(crate) fn directory_handle(&self) -> &Arc<Directory> {
        &self.directory
    }
}

impl Directory {
    /// Returns a snapshot at the newest durable position. Each reading thread needs its own snapshot.
    ///
    /// # Errors
    /// All view slots are in use, or the store failed.
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
            rights_cache: RefCell::default(),
            shared: RefCell::default(),
        })
    }
}

/// Returns the catalog that describes the rows in `view`: the published catalog, unless the indexes have another state
/// in the view.
fn catalog_of(view: &View, published: &Arc<Catalog>) -> Result<Arc<Catalog>, StoreError> {
    let damaged = StoreError::DamagedRow { map: map_spec(META).name };
    let found = match catalog::index_version(view) {
        Ok(version) => version,
        Err(OperationError::Store(error)) => return Err(error),
        Err(_) => return Err(damaged),
    };
    if found == published.index_version() {
        return Ok(Arc::clone(published));
    }
    let mut catalog = Catalog::clone(published);
    match catalog.load_indexes(view).and_then(|()| catalog.distrust_stale_indexes(view)) {
        Ok(()) => Ok(Arc::new(catalog)),
        Err(OpenError::Store(error)) => Err(error),
        Err(_) => Err(damaged),
    }
}
