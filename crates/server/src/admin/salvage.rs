//! Reading the undamaged data of a directory that cannot be opened.

use directory::salvage::SalvagedDirectory;

use crate::config::Config;
use crate::error::ServeError;

/// Reads a data directory whose data file or redo log may be damaged, without changing it. No other process may have it
/// open.
///
/// # Errors
/// Another process has the directory open, or there is neither a data file nor a redo log.
pub fn salvage(config: &Config) -> Result<SalvagedDirectory, ServeError> {
    let path = || config.data.clone();
    if !config.data.is_dir() {
        return Err(ServeError::NoData { path: path() });
    }
    let salvaged =
        SalvagedDirectory::open(&config.data).map_err(|error| ServeError::Open { path: path(), error })?;
    if !salvaged.has_redo_log() {
        // Without a redo log, a missing data file is an error.
        crate::admin::verify::check_data(config)?;
    }
    Ok(salvaged)
}
