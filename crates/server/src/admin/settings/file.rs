//! A settings file on disk, with the schema files that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use directory::DirectorySettings;
use directory::settings::{self, SettingPath, SettingsProblem};

use super::schema_source::{self, SchemaSource};
use crate::config::ConfigError;
use crate::config::settings_text::{self as text, SettingsText, TextProblem};
use crate::error::ServeError;

/// Settings in a file, with the line of each setting.
#[derive(Clone, Debug)]
pub struct SettingsFile {
    path: PathBuf,
    text: SettingsText,
    /// File of each schema text, by the name of the text in the settings.
    schema_files: BTreeMap<String, PathBuf>,
    /// Schema files that are not UTF-8.
    latin_1: Vec<PathBuf>,
}

impl SettingsFile {
    /// Reads a settings file. Paths of schema files are relative to the folder of the settings file.
    ///
    /// # Errors
    /// The file, or a schema file that it names, cannot be read, or the file is not a settings file.
    pub fn read(path: &Path) -> Result<SettingsFile, ServeError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Read { file: path.to_owned(), error })?;
        SettingsFile::parse(path, &text)
    }

    /// Parses the text of a settings file with this path.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<SettingsFile, ServeError> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let (mut schema_files, mut latin_1) = (BTreeMap::new(), Vec::new());
        let parsed = text::parse(text, &mut |file| {
            let mut texts = Vec::new();
            for source in schema_source::read(&folder.join(file))? {
                let is_free =
                    |name: &str| !schema_files.keys().any(|known: &String| known.eq_ignore_ascii_case(name));
                let name = schema_source::name_of(&source.path, &is_free);
                latin_1.extend(source.is_latin_1.then(|| source.path.clone()));
                schema_files.insert(name.clone(), source.path);
                texts.push((name, source.text));
            }
            Ok(texts)
        });
        let located = |problem: TextProblem| {
            let in_schema = problem.in_schema.and_then(|(name, line)| Some((schema_files.get(&name)?, line)));
            let (file, line) = in_schema.map_or((path, problem.line), |(file, line)| (file.as_path(), line));
            ConfigError::File { file: file.to_owned(), line, what: problem.what }
        };
        let text =
            parsed.map_err(|problems| ServeError::Settings(problems.into_iter().map(located).collect()))?;
        Ok(SettingsFile { path: path.to_owned(), text, schema_files, latin_1 })
    }

    /// Sets the suffix if the file sets none.
    pub fn or_suffix(mut self, dn: &str) -> SettingsFile {
        if !self.text.names_suffixes() {
            self.text.settings.suffixes = vec![dn.to_owned()];
        }
        self
    }

    /// Adds a schema text whose name is derived from the path `named`. If `replaces` is set, the text replaces the text
    /// with the same name in the settings. Otherwise the text gets an unused name, unless the settings already contain
    /// an equal text. In that case nothing is added.
    pub(super) fn add_schema(&mut self, named: &Path, source: SchemaSource, replaces: bool) {
        let defined = &self.text.settings.schema;
        if !replaces && defined.values().any(|text| *text == source.text) {
            return;
        }
        let is_taken = |defined: &String, name: &str| defined.eq_ignore_ascii_case(name);
        let name = schema_source::name_of(named, &|name| match replaces {
            true => !self.schema_files.keys().any(|defined| is_taken(defined, name)),
            false => !defined.keys().any(|defined| is_taken(defined, name)),
        });
        self.latin_1.extend(source.is_latin_1.then(|| source.path.clone()));
        self.schema_files.insert(name.clone(), source.path);
        self.text.settings.schema.insert(name, source.text);
    }

    /// Returns the settings of the file.
    pub fn settings(&self) -> &DirectorySettings {
        &self.text.settings
    }

    /// Checks the settings without a data directory.
    ///
    /// # Errors
    /// Some settings are not valid. The error contains all problems, each with its line.
    pub fn check(&self) -> Result<(), ServeError> {
        match settings::check(self.settings()) {
            Ok(_) => Ok(()),
            Err(problems) => {
                Err(ServeError::Settings(problems.iter().map(|problem| self.error(problem)).collect()))
            }
        }
    }

    /// Returns the file and the line of element `number` of the list `key`.
    pub fn line_of(&self, key: &str, number: usize) -> (&Path, usize) {
        (&self.path, self.text.line(&SettingPath::Member(key.to_owned(), number)))
    }

    /// Returns notes about settings that are permitted but have no effect, and about files that are not UTF-8. Each
    /// note begins with its file.
    pub fn notices(&self) -> Vec<String> {
        let latin_1 = self.latin_1.iter();
        let latin_1 = latin_1.map(|file| format!("{}: not UTF-8, read as ISO 8859-1", file.display()));
        latin_1.chain(self.settings().notices().iter().map(|notice| self.error(notice).to_string())).collect()
    }

    /// Converts a problem to an error that contains its file and line.
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
