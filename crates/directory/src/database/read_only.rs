//! Read-only access to a data directory, while another process serves it or while no process has it open.
//!
//! Export, backup and check use this access. This access takes no lock that would stop a server, and writes nothing.
//! There is one exception: if an earlier build created the directory, missing maps are added first. This access reads
//! the newest durable position at the time of opening.

use std::path::Path;
use std::sync::Arc;

use store::{Store, View};

use crate::catalog::Catalog;
use crate::database::check_versions;
use crate::index::maintenance::{self, IndexProgress};
use crate::index::sizes::{self, IndexSizes, SampleBounds};
use crate::model::index_definition::IndexKinds;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{MAPS, META, map_spec};
use crate::model::settings::{NodeSettings, Settings};
use crate::tree::TreeState;
use crate::tree::dynamic_groups::read_dynamic_groups;

/// Read-only access to a data directory at one position.
pub struct ReadOnlyDirectory {
    view: View,
    catalog: Catalog,
    settings: Settings,
}

impl ReadOnlyDirectory {
    /// Opens the data directory `path` at its newest durable position. As long as this access is open, the data file
    /// of a running server grows, because pages of this position cannot be reused.
    ///
    /// # Errors
    /// See [`OpenError`]. The directory must contain data.
    pub fn open(path: &Path) -> Result<ReadOnlyDirectory, OpenError> {
        let store = match Store::open_read_only(path, MAPS) {
            Err(store::OpenError::Map { name, .. }) if name == map_spec(META).name => {
                return Err(OpenError::Empty);
            }
            // Earlier builds had fewer maps. Opening the store for writing adds the missing maps.
            Err(store::OpenError::Map { .. }) => {
                drop(Store::open(path, MAPS, &store::Options::default())?);
                Store::open_read_only(path, MAPS)?
            }
            outcome => outcome?,
        };
        let view = store.view()?;
        if check_versions(&view)? {
            return Err(OpenError::Empty);
        }
        let mut catalog = Catalog::load(&view)?;
        catalog.dynamic_groups = Arc::new(read_dynamic_groups(&view, &catalog)?);
        let settings = Settings::of(&NodeSettings::default(), &catalog.settings.general);
        Ok(ReadOnlyDirectory { view, catalog, settings })
    }

    /// Returns the rows, the catalog and the directory's settings, without the settings of a node.
    pub fn state(&self) -> TreeState<'_> {
        TreeState::stored(&self.view, &self.catalog, &self.settings)
    }

    /// Returns only the rows.
    pub(crate) fn into_view(self) -> View {
        self.view
    }

    /// Returns the indexes by attribute type, in the order of attribute numbers.
    pub fn indexes(&self) -> Vec<(String, IndexKinds)> {
        self.catalog.indexes()
    }

    /// Returns the progress of index parts that are being built or removed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn index_progress(&self) -> Result<Vec<IndexProgress>, OperationError> {
        maintenance::progress(&self.view, &self.catalog)
    }

    /// Estimates the sizes of the complete indexes from a sample of the entries.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn index_sizes(&self, bounds: SampleBounds) -> Result<IndexSizes, OperationError> {
        sizes::sizes(&self.view, &self.catalog, bounds)
    }
}
