//! Settings file on disk, with the schema files that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use directory::DirectorySettings;
use directory::settings::{self, SettingPath, SettingsProblem};

use crate::config::ConfigError;
use crate::config::settings_text::{self as text, SettingsText, TextProblem};
use crate::error::ServeError;

/// Settings of a file, and the line of each.
#[derive(Clone, Debug)]
pub struct SettingsFile {
    path: PathBuf,
    text: SettingsText,
    /// Files of schema texts by their names in the settings.
    schema_files: BTreeMap<String, PathBuf>,
}

impl SettingsFile {
    /// Reads a settings file. Paths of schema files in it are relative to the file's folder.
    ///
    /// # Errors
    /// The file, or a schema file that it names, cannot be read, or it is not a settings file.
    pub fn read(path: &Path) -> Result<SettingsFile, ServeError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Read { file: path.to_owned(), error })?;
        SettingsFile::parse(path, &text)
    }

    /// Reads the text of a settings file that has this path.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<SettingsFile, ServeError> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut schema_files = BTreeMap::new();
        let parsed = text::parse(text, &mut |name, file| {
            let file = folder.join(file);
            let content = std::fs::read_to_string(&file)
                .map_err(|error| format!("cannot read {}: {error}", file.display()));
            schema_files.insert(name.to_owned(), file);
            content
        });
        let located = |problem: TextProblem| ConfigError::File {
            file: path.to_owned(),
            line: problem.line,
            what: problem.what,
        };
        let text =
            parsed.map_err(|problems| ServeError::Settings(problems.into_iter().map(located).collect()))?;
        Ok(SettingsFile { path: path.to_owned(), text, schema_files })
    }

    /// Sets the suffix if the file names none.
    pub fn or_suffix(mut self, dn: &str) -> SettingsFile {
        if !self.text.names_suffixes() {
            self.text.settings.suffixes = vec![dn.to_owned()];
        }
        self
    }

    /// Returns the settings of the file.
    pub fn settings(&self) -> &DirectorySettings {
        &self.text.settings
    }

    /// Checks the settings, without a data directory.
    ///
    /// # Errors
    /// A setting is not valid: all problems, each with its line.
    pub fn check(&self) -> Result<(), ServeError> {
        match settings::check(self.settings()) {
            Ok(_) => Ok(()),
            Err(problems) => {
                Err(ServeError::Settings(problems.iter().map(|problem| self.error(problem)).collect()))
            }
        }
    }

    /// Returns the file and the line of a member of a list.
    pub fn line_of(&self, key: &str, number: usize) -> (&Path, usize) {
        (&self.path, self.text.line(&SettingPath::Member(key.to_owned(), number)))
    }

    /// Returns settings that are permitted and have no effect, each with its place.
    pub fn notices(&self) -> Vec<String> {
        self.settings().notices().iter().map(|notice| self.error(notice).to_string()).collect()
    }

    /// Converts a problem to an error with its file and line.
    pub(crate) fn error(&self, problem: &SettingsProblem) -> ConfigError {
        let what = problem.what.clone();
        if let SettingPath::Line(key, line) = &problem.place
            && let Some(file) = key.strip_prefix("schema.").and_then(|name| self.schema_files.get(name))
        {
            return ConfigError::File { file: file.clone(), line: *line, what };
        }
        ConfigError::File { file: self.path.clone(), line: self.text.line(&problem.place), what }
    }

    pub(crate) fn error_at_top(&self, what: String) -> ConfigError {
        ConfigError::File { file: self.path.clone(), line: 1, what }
    }
}
