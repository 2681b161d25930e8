//! Checking the data of a directory that nobody serves.

use std::path::Path;

use directory::ReadOnlyDirectory;

use crate::config::Config;
use crate::start::{Opened, ServeError, load_schema};

/// Compares every row of a data directory with every entry. Nothing is changed. Returns the findings, a sentence each; none
/// in a sound directory.
///
/// Memory grows with the data: some hundred bytes an index row.
///
/// # Errors
/// There is no data, another process has it, or it cannot be read at all.
pub fn verify(config: Config) -> Result<Vec<String>, ServeError> {
    let path = config.data.clone();
    if !holds_data(&path) {
        return Err(ServeError::NoData { path });
    }
    let opened = Opened::open_for_reading(config)?;
    let snapshot = opened.directory().snapshot()?;
    Ok(directory::check::check(&snapshot)?)
}

/// Opens a data directory to look at it, whether or not it is being served. Nothing is changed.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn open_read_only(config: &Config) -> Result<ReadOnlyDirectory, ServeError> {
    let path = config.data.clone();
    if !holds_data(&path) {
        return Err(ServeError::NoData { path });
    }
    let schema = load_schema(&config.schema_files)?;
    ReadOnlyDirectory::open(&path, schema).map_err(|error| ServeError::Open { path, error })
}

/// Whether somebody has put data here: opening an empty directory would make a new one of it.
fn holds_data(path: &Path) -> bool {
    let is_file = |name: &str| path.join(name).is_file();
    is_file("data.mdb")
}
