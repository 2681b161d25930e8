//! A data directory read from outside: beside the process that serves it, or while nobody has it open.
//!
//! For commands that look and change nothing: export, backup and check. Nothing is written, no record is made, no lock
//! keeps a server away; the position read is the newest durable one, and stays until the reader is dropped.

use std::path::Path;

use store::{Store, View};

use crate::catalog::Catalog;
use crate::database::check_versions;
use crate::index::maintenance::{self, IndexProgress};
use crate::model::index_definition::IndexKinds;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{MAPS, META, map_spec};
use crate::model::settings::{NodeSettings, Settings};
use crate::tree::TreeState;

/// A data directory at one position.
pub struct ReadOnlyDirectory {
    view: View,
    catalog: Catalog,
    settings: Settings,
}

impl ReadOnlyDirectory {
    /// Opens the data directory `path` at its newest durable position. A long-lived one makes the data file of a server
    /// at work grow, because the pages of its position cannot be reused.
    ///
    /// # Errors
    /// See [`OpenError`]. There must be data.
    pub fn open(path: &Path) -> Result<ReadOnlyDirectory, OpenError> {
        let store = match Store::open_read_only(path, MAPS) {
            Err(store::OpenError::Map { name, .. }) if name == map_spec(META).name => {
                return Err(OpenError::Empty);
            }
            outcome => outcome?,
        };
        let view = store.view()?;
        if check_versions(&view)? {
            return Err(OpenError::Empty);
        }
        let catalog = Catalog::load(&view)?;
        let settings = Settings::of(&NodeSettings::default(), &catalog.settings.general);
        Ok(ReadOnlyDirectory { view, catalog, settings })
    }

    /// What is read: rows, their meaning, and the settings but for those of a node.
    pub fn state(&self) -> TreeState<'_> {
        TreeState { read: &self.view, catalog: &self.catalog, settings: &self.settings }
    }

    /// The rows alone.
    pub(crate) fn into_view(self) -> View {
        self.view
    }

    /// The indexes by attribute type, in the order of their attributes' numbers.
    pub fn indexes(&self) -> Vec<(String, IndexKinds)> {
        self.catalog.indexes()
    }

    /// The parts of indexes that are being made or removed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn index_progress(&self) -> Result<Vec<IndexProgress>, OperationError> {
        maintenance::progress(&self.view, &self.catalog)
    }
}
