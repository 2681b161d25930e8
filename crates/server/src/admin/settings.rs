//! Settings of a directory as a text file, for `pando plan`, `pando apply` and `pando export --settings-only`.
//!
//! [`text`] reads and writes the file. [`directory::settings`] defines the settings and checks them. A file determines
//! all settings. Settings that the file omits have their defaults. Therefore applying a file makes exactly the changes
//! from the directory's settings to those of the file, and applying it again changes nothing.

mod file;
mod foreign_schema;
pub mod online;
mod schema_source;
#[cfg(test)]
mod tests;

use std::path::Path;

use directory::index::maintenance::IndexProgress;
use directory::index_build::build_indexes;
use directory::rehearse::RulesVersion;
use directory::settings::{self, Difference, SettingsError};
use directory::tree::TreeState;
use directory::{DirectorySettings, ReadOnlyDirectory};

use crate::admin::ownership::FolderOwner;
use crate::admin::verify::open_read_only;
use crate::config::{Config, settings_text as text};
use crate::error::ServeError;
use crate::limits::INDEX_BUILD_MEMORY;
use crate::open::Opened;
use crate::stamp::new_stamp;
use crate::workers::settings_change::{Extent, Planned};
pub use file::SettingsFile;
pub use foreign_schema::{ForeignSchema, SchemaFrom};

/// Changes that applying a settings file makes or would make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChanges {
    /// Whether the directory did not exist before.
    pub is_new: bool,
    /// One line for each change; empty if the settings are already in force.
    pub lines: Vec<String>,
    /// Further notes for the administrator.
    pub notes: Vec<String>,
}

/// Returns the changes that applying a settings file to a data directory would make, without making them. The directory
/// may be served at the same time.
///
/// # Errors
/// The file or the data cannot be read, or the settings are not valid.
pub fn plan(config: &Config, file: &SettingsFile) -> Result<SettingsChanges, ServeError> {
    match existing(config)? {
        Some(directory) => {
            let Planned { lines, notes } = planned(directory.state(), file)?;
            Ok(SettingsChanges { is_new: false, lines, notes })
        }
        None => first_changes(file),
    }
}

/// Puts the settings of a file in force in a data directory that is not served, either all of them or none. Creates the
/// directory if it does not exist. Then finishes all index work, and calls `report` at intervals.
///
/// # Errors
/// The same as those of [`plan`], or another process has the directory open, or the disk is full or fails.
pub fn apply(
    config: Config,
    file: &SettingsFile,
    report: impl FnMut(&IndexProgress),
) -> Result<SettingsChanges, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    if existing(&config)?.is_none() {
        let changes = first_changes(file)?;
        drop(Opened::open_as_is(Config { initial: Some(file.settings().clone()), ..config })?);
        return Ok(changes);
    }
    let requester = config.admin_dn.as_str().to_owned();
    let folder = config.data.clone();
    let mut opened = Opened::open_for_reading(config)?;
    // The lines contain the numbers of rows that the change will remove. Therefore the lines are made before the
    // change.
    let snapshot = opened.directory().snapshot()?;
    let Planned { lines, notes } = planned(snapshot.state(), file)?;
    drop(snapshot);
    let (writer, random) = opened.writer();
    let stamp = new_stamp(random)?;
    writer.change_settings(&requester, file.settings(), &stamp).map_err(|error| located(error, file))?;
    build_indexes(writer, &folder, INDEX_BUILD_MEMORY, report)?;
    Ok(SettingsChanges { is_new: false, lines, notes })
}

/// Returns the settings of a data directory as the text of a settings file. The directory may be served at the same
/// time.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn export(config: &Config) -> Result<String, ServeError> {
    Ok(text::write(&of_directory(config)?))
}

/// Returns the settings of a data directory. The directory may be served at the same time.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn of_directory(config: &Config) -> Result<DirectorySettings, ServeError> {
    let directory = open_read_only(config)?;
    Ok(DirectorySettings::of(directory.state().catalog))
}

/// Returns the settings of a data directory as a settings file, but with the access rules and expectations of
/// `version`.
///
/// Rules and expectations are replaced together, because the rules of one version need not meet the expectations of
/// another version.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn with_rules(config: &Config, version: &RulesVersion) -> Result<SettingsFile, ServeError> {
    let mut settings = of_directory(config)?;
    settings.general.access_rules.clone_from(&version.rules);
    settings.general.access_expectations.clone_from(&version.expectations);
    SettingsFile::parse(Path::new("the version before"), &text::write(&settings))
}

/// Makes `config` create a new data directory with the settings of a file. An existing directory must already have
/// these settings, because only [`apply`] changes them.
///
/// # Errors
/// The same as those of [`plan`], or an existing directory has other settings.
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

/// Opens the data directory read-only; `None` if it does not exist.
fn existing(config: &Config) -> Result<Option<ReadOnlyDirectory>, ServeError> {
    match open_read_only(config) {
        Ok(directory) => Ok(Some(directory)),
        // A first start or `apply` that was interrupted may have left an empty directory. An empty directory counts as
        // no directory.
        Err(ServeError::NoData { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn first_changes(file: &SettingsFile) -> Result<SettingsChanges, ServeError> {
    let checked = settings::check(file.settings()).map_err(|problems| located(problems.into(), file))?;
    let notes = settings::notes_of_new(&checked).map_err(|error| located(error, file))?;
    let nothing = DirectorySettings {
        suffixes: Vec::new(),
        indexes: std::collections::BTreeMap::new(),
        ..DirectorySettings::default()
    };
    let mut lines = Vec::new();
    for difference in Difference::between(&nothing, &checked.settings) {
        lines.extend(difference.describe(None, true)?);
    }
    Ok(SettingsChanges { is_new: true, lines, notes })
}

fn planned(state: TreeState<'_>, file: &SettingsFile) -> Result<Planned, ServeError> {
    Planned::of(state, file.settings(), Extent::All).map_err(|error| located(error, file))
}

/// Adds the file, and the lines in it, to an error in settings.
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
/// The file, or a schema file that it names, cannot be read, or the file is not a settings file.
pub fn read(path: &Path) -> Result<SettingsFile, ServeError> {
    SettingsFile::read(path)
}
