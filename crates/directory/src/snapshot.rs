//! Reading a directory at one position.

mod directory;
pub(crate) mod known_names;
pub(crate) mod name_cache;
pub(crate) mod page_key;
pub(crate) mod shared;
pub(crate) mod standings;

use std::cell::{RefCell, RefMut};
use std::sync::Arc;

use store::{StoreError, View};

use crate::access::{Requester, Standing};
use crate::catalog::{self, Catalog};
use crate::model::client_link::ClientLink;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{META, map_spec};
use crate::model::settings::Settings;
use crate::model::usable::Uses;
use crate::snapshot::known_names::KnownNames;
use crate::snapshot::name_cache::NameCache;
use crate::snapshot::standings::KeptStandings;
use crate::tree::TreeState;
pub use directory::Directory;
pub(crate) use directory::check_node;
use shared::SharedOf;

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
    standings: RefCell<KeptStandings>,
    /// Boxed: few snapshots have any.
    shared: RefCell<Option<Box<SharedOf>>>,
}

impl Snapshot {
    /// Moves to the newest durable position. A few nanoseconds when nothing has changed.
    ///
    /// # Errors
    /// The engine failed; the snapshot is parked then.
    pub fn renew(&mut self) -> Result<(), StoreError> {
        let version = self.view.version();
        self.view.renew()?;
        if self.view.version() != version {
            self.names.get_mut().forget();
        }
        // After the view: a catalogue is published before its commit, so this one knows every number in the view. Of
        // indexes it may know too much: one that it says is complete may be so only in a later view.
        let published = self.directory.catalog.load();
        let is_new = !Arc::ptr_eq(&published, &self.published);
        if is_new || self.view.version() != version {
            if is_new {
                self.published = Arc::clone(&published);
            }
            self.renew_standings(is_new)?;
            self.catalog = catalog_of(&self.view, &self.published)?;
        }
        let settings = self.directory.settings.load();
        if !Arc::ptr_eq(&settings, &self.settings) {
            self.settings = Arc::clone(&settings);
        }
        Ok(())
    }

    /// Spends up to `bytes_max` bytes on remembering where rows are that were asked for (see [`View::remember_rows`])
    /// and, a sixteenth of them, which entries DNs name.
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

    /// Forgets the standings that are others now. With another catalogue all are: numbers in it, which they have, may
    /// mean more than before.
    fn renew_standings(&mut self, has_new_catalog: bool) -> Result<(), StoreError> {
        let standings = self.standings.get_mut();
        match has_new_catalog {
            true => standings.forget(),
            false => standings.follow(&self.view)?,
        }
        Ok(())
    }

    /// What somebody may do under access rules; `None` where no rules bind. Kept until a record touches what it came
    /// from, so that a right that is taken away is gone with the change that takes it.
    ///
    /// # Errors
    /// As [`Standing::of`].
    pub(crate) fn standing(
        &self,
        requester: &Requester,
        link: Option<&ClientLink>,
    ) -> Result<Option<Arc<Standing>>, OperationError> {
        if !self.catalog.access_rules.are_there() {
            return Ok(None);
        }
        let own = match requester {
            Requester::Administrator { .. } => return Ok(None),
            Requester::Anonymous => None,
            Requester::User { id, .. } => Some(*id),
        };
        let key = (own, self.catalog.access_rules.holding_over(link));
        if let Some(known) = self.standings.borrow().get(&key) {
            return Ok(Some(known));
        }
        let Some(standing) = Standing::of(self.state(), requester, link)?.map(Arc::new) else {
            return Ok(None);
        };
        self.standings.borrow_mut().keep(&self.view, key, &standing)?;
        Ok(Some(standing))
    }

    /// Whether access rules depend on where a request comes from.
    pub fn asks_link(&self) -> bool {
        self.catalog.access_rules.ask_link()
    }

    /// Whether access rules are about controls and extended operations.
    pub fn asks_uses(&self) -> bool {
        self.catalog.access_rules.ask_uses()
    }

    /// Whether somebody may use a control or an extended operation.
    ///
    /// # Errors
    /// As [`Standing::of`].
    pub fn may_use(
        &self,
        requester: &Requester,
        link: Option<&ClientLink>,
        oid: &str,
    ) -> Result<bool, OperationError> {
        let uses = Uses::of_oid(oid);
        Ok(match self.standing(requester, link)? {
            Some(standing) => !standing.may_not_use(uses),
            None => requester.is_administrator() || !uses.has(Uses::BY_NAME),
        })
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
    pub fn state(&self) -> TreeState<'_> {
        TreeState { read: &self.view, catalog: &self.catalog, settings: &self.settings }
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

impl Directory {
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
            standings: RefCell::default(),
            shared: RefCell::default(),
        })
    }
}

/// The catalogue that speaks of the rows in `view`: the published one, unless indexes are in another state there.
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
    match catalog.load_indexes(view) {
        Ok(()) => Ok(Arc::new(catalog)),
        Err(OpenError::Store(error)) => Err(error),
        Err(_) => Err(damaged),
    }
}
