//! Checking and mending data, and looking at it from outside.

use directory::ReadOnlyDirectory;
use directory::check::{self, CheckOptions, Checked, Finding, Repaired};

use crate::config::Config;
use crate::error::ServeError;
use crate::open::Opened;

/// Compares every row of a data directory with every entry, whether or not it is being served: what is compared is one
/// moment. Nothing is changed. Gives the findings one by one; none in a sound directory.
///
/// Memory does not grow with the data; temporary files beside it do.
///
/// # Errors
/// There is no data, or it cannot be read at all.
pub fn verify(config: &Config, each: &mut dyn FnMut(&Finding)) -> Result<Checked, ServeError> {
    let directory = open_read_only(config)?;
    let checked = check::check_all(directory.state(), &options(config), &mut |finding| {
        each(&finding);
        Ok(())
    })?;
    Ok(checked)
}

/// Checks a data directory that nobody has open, and mends what follows from its entries. Gives the findings, each with
/// whether it was mended.
///
/// # Errors
/// There is no data, another process has it, or it cannot be read or written.
pub fn repair(config: Config, each: &mut dyn FnMut(&Finding, bool)) -> Result<Repaired, ServeError> {
    check_data(&config)?;
    let mut opened = Opened::open_for_reading(config)?;
    let directory = opened.directory().clone();
    let options = CheckOptions { scratch: &opened.config().data.clone(), memory_bytes: check::MEMORY_BYTES };
    Ok(check::repair(&directory, opened.writer().0, &options, each)?)
}

fn options(config: &Config) -> CheckOptions<'_> {
    CheckOptions { scratch: &config.data, memory_bytes: check::MEMORY_BYTES }
}

/// Opens a data directory to look at it, whether or not it is being served. Nothing is changed.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn open_read_only(config: &Config) -> Result<ReadOnlyDirectory, ServeError> {
    check_data(config)?;
    let path = config.data.clone();
    ReadOnlyDirectory::open(&path).map_err(|error| match error {
        directory::OpenError::Empty => ServeError::NoData { path },
        error => ServeError::Open { path, error },
    })
}

/// Writes the data of a directory that nobody has open into a new file without holes, and puts that in the old one's
/// place.
///
/// # Errors
/// There is no data, another process has it, it cannot be read, or there is no room for a second copy; the old data is
/// as it was then.
pub fn compact(config: &Config) -> Result<store::Compacted, ServeError> {
    check_data(config)?;
    store::compact(&config.data, directory::rows::MAPS, &store::Options::default())
        .map_err(|error| ServeError::Open { path: config.data.clone(), error: error.into() })
}

/// Wants data to be there: opening an empty directory would make a new one of it.
pub(crate) fn check_data(config: &Config) -> Result<(), ServeError> {
    let path = config.data.clone();
    match store::has_data_file(&path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ServeError::NoData { path }),
        Err(error) => Err(ServeError::Open { path, error: error.into() }),
    }
}
