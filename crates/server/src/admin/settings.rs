//! Directory-wide settings as a text file: what `pando plan`, `pando apply` and `pando export --settings-only` do.
//!
//! [`text`] reads and writes the file; what the settings mean and whether they can be is
//! [`directory::settings`]'s. A file states everything: what is left out has its default. So the difference between a
//! file and a directory is exactly what applying it changes, and applying it twice changes nothing the second time.

mod file;
pub mod online;
#[cfg(test)]
mod tests;

use std::path::Path;

use directory::index::maintenance::{IndexProgress, SliceBudget};
use directory::settings::{self, Difference, SettingsError};
use directory::tree::State;
use directory::{DirectorySettings, ReadOnlyDirectory};

use crate::admin::verify::open_read_only;
use crate::config::{Config, settings_text as text};
use crate::error::ServeError;
use crate::open::{Opened, new_stamp};
pub use file::SettingsFile;

/// What applying a settings file would do, or has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Whether there was no directory yet.
    pub is_new: bool,
    /// What changes, a line each; nothing where the settings are in force already.
    pub lines: Vec<String>,
}

/// Says what applying a settings file to a data directory would do. Reads beside a server at work; changes nothing.
///
/// # Errors
/// The file or the data cannot be read, or the settings cannot be.
pub fn plan(config: &Config, file: &SettingsFile) -> Result<Changes, ServeError> {
    match existing(config)? {
        Some(directory) => {
            let state = directory.state();
            let decided = settings::decide(state, file.settings()).map_err(|error| located(error, file))?;
            Ok(Changes { is_new: false, lines: describe(&decided.differences, Some(state))? })
        }
        None => first_changes(file),
    }
}

/// Puts the settings of a file in force in a data directory that nobody serves, all of them or none; makes the
/// directory where there is none. Then makes and removes index rows; `report` hears now and then what is being done.
///
/// # Errors
/// As [`plan`]; another process has the directory; the disk is full or fails.
pub fn apply(
    config: Config,
    file: &SettingsFile,
    mut report: impl FnMut(&IndexProgress),
) -> Result<Changes, ServeError> {
    /// Slices between two reports.
    const SLICES_PER_REPORT: usize = 128;
    if existing(&config)?.is_none() {
        let changes = first_changes(file)?;
        drop(Opened::open_as_is(Config { initial: Some(file.settings().clone()), ..config })?);
        return Ok(changes);
    }
    let requester = config.admin_dn.as_str().to_owned();
    let mut opened = Opened::open_for_reading(config)?;
    // Counts what goes before it goes.
    let snapshot = opened.directory().snapshot()?;
    let decided =
        settings::decide(snapshot.state(), file.settings()).map_err(|error| located(error, file))?;
    let lines = describe(&decided.differences, Some(snapshot.state()))?;
    drop(snapshot);
    let (writer, random) = opened.writer();
    let stamp = new_stamp(random)?;
    writer.change_settings(&requester, file.settings(), &stamp).map_err(|error| located(error, file))?;
    let mut slices = 0;
    while writer.run_maintenance_slice(&SliceBudget::default(), &mut || ())? {
        slices += 1;
        if slices % SLICES_PER_REPORT == 0 {
            writer.index_progress()?.iter().for_each(&mut report);
        }
    }
    Ok(Changes { is_new: false, lines })
}

/// The settings of a data directory as the text of a file. Reads beside a server at work.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn export(config: &Config) -> Result<String, ServeError> {
    Ok(text::write(&of_directory(config)?))
}

/// The settings of a data directory. Reads beside a server at work.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn of_directory(config: &Config) -> Result<DirectorySettings, ServeError> {
    let directory = open_read_only(config)?;
    Ok(DirectorySettings::of(directory.state().catalog))
}

/// Makes a new data directory with the settings of a file. One that exists must have them already: it is changed by
/// [`apply`] alone.
///
/// # Errors
/// As [`apply`].
pub(crate) fn begin(config: &mut Config, file: &SettingsFile) -> Result<(), ServeError> {
    let planned = plan(config, file)?;
    if planned.is_new {
        config.initial = Some(file.settings().clone());
    } else if !planned.lines.is_empty() {
        let what = format!(
            "{} has other settings; put these in force with `pando apply` first",
            config.data.display()
        );
        return Err(ServeError::Settings(vec![file.error_at_top(what)]));
    }
    Ok(())
}

/// The data directory, if there is one.
fn existing(config: &Config) -> Result<Option<ReadOnlyDirectory>, ServeError> {
    match open_read_only(config) {
        Ok(directory) => Ok(Some(directory)),
        // A first start, or a first `apply`, may have been killed before it wrote anything.
        Err(ServeError::NoData { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn first_changes(file: &SettingsFile) -> Result<Changes, ServeError> {
    let checked = settings::check(file.settings()).map_err(|problems| located(problems.into(), file))?;
    let nothing = DirectorySettings {
        suffixes: Vec::new(),
        indexes: std::collections::BTreeMap::new(),
        ..DirectorySettings::default()
    };
    let differences = Difference::between(&nothing, &checked.settings);
    Ok(Changes { is_new: true, lines: describe(&differences, None)? })
}

fn describe(differences: &[Difference], state: Option<State<'_>>) -> Result<Vec<String>, ServeError> {
    let mut lines = Vec::new();
    for difference in differences {
        lines.extend(difference.describe(state, true)?);
    }
    Ok(lines)
}

/// What is wrong with settings, at its place in the file.
fn located(error: SettingsError, file: &SettingsFile) -> ServeError {
    match error {
        SettingsError::Operation(error) => error.into(),
        SettingsError::Problems(problems) => {
            ServeError::Settings(problems.into_iter().map(|problem| file.error(&problem)).collect())
        }
        other => ServeError::Settings(vec![file.error_at_top(other.to_string())]),
    }
}

/// Reads a settings file.
///
/// # Errors
/// It, or a schema file that it names, cannot be read; or it is no settings file.
pub fn read(path: &Path) -> Result<SettingsFile, ServeError> {
    SettingsFile::read(path)
}
