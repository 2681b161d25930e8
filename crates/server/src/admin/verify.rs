//! Checking, repairing, compacting and reading data directories.

use directory::check::{self, CheckOptions, CheckSummary, Finding, RepairSummary};
use directory::{DirectorySettings, ReadOnlyDirectory};

use crate::admin::ownership::FolderOwner;
use crate::config::Config;
use crate::error::ServeError;
use crate::open::Opened;

/// Compares every row of a data directory with the entries, in one snapshot, and passes each finding to `each`. Changes
/// nothing. The directory may be served.
///
/// The memory does not grow with the data, because temporary files in the data directory are used.
///
/// # Errors
/// There is no data, or it cannot be read at all.
pub fn verify(config: &Config, each: &mut dyn FnMut(&Finding)) -> Result<CheckSummary, ServeError> {
    let directory = open_read_only(config)?;
    let options = CheckOptions { scratch: &config.data, memory_bytes: check::MEMORY_BYTES };
    let checked = check::check_all(directory.state(), &options, &mut |finding| {
        each(&finding);
        Ok(())
    })?;
    Ok(checked)
}

/// Returns a text for each rule that entries of a data directory violate. See [`directory::violations::violations`].
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn violations(config: &Config) -> Result<Vec<String>, ServeError> {
    let directory = open_read_only(config)?;
    let state = directory.state();
    Ok(directory::violations::violations(state, &DirectorySettings::of(state.catalog))?)
}

/// Returns a text for each uniqueness rule that entries of a data directory violate. Returns `None` if the directory
/// has uniqueness rules and more than `entries_max` entries. See [`directory::violations::duplicates_of_few`].
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn duplicates_of_few(config: &Config, entries_max: u64) -> Result<Option<Vec<String>>, ServeError> {
    let directory = open_read_only(config)?;
    Ok(directory::violations::duplicates_of_few(directory.state(), entries_max)?)
}

/// Checks a data directory that no other process has open. Repairs the rows that can be derived from its entries.
/// Passes each finding to `each`, with a flag that is true if the finding was repaired.
///
/// # Errors
/// There is no data, another process has it open, or it cannot be read or written.
pub fn repair(config: Config, each: &mut dyn FnMut(&Finding, bool)) -> Result<RepairSummary, ServeError> {
    check_data(&config)?;
    let _owner = FolderOwner::of(&config.data);
    let mut opened = Opened::open_for_reading(config)?;
    let directory = opened.directory().clone();
    let options = CheckOptions { scratch: &opened.config().data.clone(), memory_bytes: check::MEMORY_BYTES };
    Ok(check::repair(&directory, opened.writer().0, &options, each)?)
}

/// Opens a data directory read-only. It may be served at the same time.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn open_read_only(config: &Config) -> Result<ReadOnlyDirectory, ServeError> {
    check_data(config)?;
    // Reading also creates a file, the reader table of LMDB.
    let _owner = FolderOwner::of(&config.data);
    let path = config.data.clone();
    ReadOnlyDirectory::open(&path).map_err(|error| match error {
        directory::OpenError::Empty => ServeError::NoData { path },
        error => ServeError::Open { path, error },
    })
}

/// Copies the data of a directory to a new data file without unused pages. The new file replaces the old file. No other
/// process may have the directory open.
///
/// # Errors
/// There is no data, another process has it open, it cannot be read, or there is no room for a second copy. The old
/// data is unchanged after an error.
pub fn compact(config: &Config) -> Result<store::Compacted, ServeError> {
    check_data(config)?;
    let _owner = FolderOwner::of(&config.data);
    store::compact(&config.data, directory::rows::MAPS, &store::Options::default())
        .map_err(|error| ServeError::Open { path: config.data.clone(), error: error.into() })
}

/// Returns an error if there is no data. Opening an empty directory would create data.
pub(crate) fn check_data(config: &Config) -> Result<(), ServeError> {
    let path = config.data.clone();
    match store::has_data_file(&path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ServeError::NoData { path }),
        Err(error) => Err(ServeError::Open { path, error: error.into() }),
    }
}
