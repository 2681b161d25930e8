//! The schema of another server, which an import adds to the settings of the directory.

use std::path::PathBuf;

use schema::DefinitionSet;

use super::file::SettingsFile;
use super::schema_source::{self, SchemaSource};
use super::{apply, existing, export};
use crate::config::{Config, ConfigError};
use crate::error::ServeError;

/// OID of the arc in which slapd defines the schema of its own configuration.
const SLAPD_CONFIGURATION: &str = "1.3.6.1.4.1.4203.1.12.2.";

/// Path from which the name of a schema text is derived if its definitions come from a server.
const PUBLISHED: &str = "subschema.ldif";

/// Source of a schema.
#[derive(Clone, Debug)]
pub enum SchemaFrom {
    /// A file with definitions, or a folder with schema files.
    Path(PathBuf),
    /// Definitions in the subschema subentry of a server.
    Server {
        /// Address of the server.
        url: String,
        /// The definitions as LDIF.
        text: String,
    },
}

impl SchemaFrom {
    fn name(&self) -> PathBuf {
        match self {
            SchemaFrom::Path(path) => path.clone(),
            SchemaFrom::Server { url, .. } => PathBuf::from(url),
        }
    }

    /// Reads the schema texts. Returns each text with the path from which its name is derived.
    fn read(&self) -> Result<Vec<(PathBuf, SchemaSource)>, String> {
        let named = |source: SchemaSource| (source.path.clone(), source);
        match self {
            SchemaFrom::Path(path) => Ok(schema_source::read(path)?.into_iter().map(named).collect()),
            SchemaFrom::Server { url, text } => {
                let mut text = text.clone();
                let is_own = |word: &str| word.starts_with(SLAPD_CONFIGURATION);
                schema::leave_out(std::iter::once(&mut text), &is_own);
                let source = SchemaSource { path: PathBuf::from(url), text, is_latin_1: false };
                Ok(vec![(PathBuf::from(PUBLISHED), source)])
            }
        }
    }
}

/// Settings for an import, with the schema of another server.
#[derive(Debug)]
pub struct ForeignSchema {
    /// The settings, with the schema of the other server.
    pub file: SettingsFile,
    /// Whether the settings come from an existing directory.
    of_directory: bool,
}

impl ForeignSchema {
    /// Adds the schema of another server to the settings of a file. Without a file, the schema is added to the settings
    /// of the existing directory, or to the defaults if there is none. Definitions with a name or OID in `leave_out`
    /// are omitted.
    ///
    /// # Errors
    /// A source cannot be read or has no definitions, or the existing data cannot be read.
    pub fn add(
        config: &Config,
        settings: Option<SettingsFile>,
        sources: &[SchemaFrom],
        leave_out: &[String],
    ) -> Result<ForeignSchema, ServeError> {
        let of_directory = settings.is_none() && existing(config)?.is_some();
        let base = || if of_directory { export(config) } else { Ok(String::new()) };
        let mut file = match settings {
            Some(file) => file,
            None => SettingsFile::parse(&config.data, &base()?)?,
        };
        for from in sources {
            let failed = |what| ConfigError::File { file: from.name(), line: 1, what };
            let mut read = from.read().map_err(|what| ServeError::Settings(vec![failed(what)]))?;
            if DefinitionSet::of(read.iter().map(|(_, source)| &source.text)).is_empty() {
                let what = "there are no definitions of a schema".to_owned();
                return Err(ServeError::Settings(vec![failed(what)]));
            }
            let is_left_out = |word: &str| leave_out.iter().any(|name| name.eq_ignore_ascii_case(word));
            schema::leave_out(read.iter_mut().map(|(_, source)| &mut source.text), &is_left_out);
            for (named, source) in read {
                file.add_schema(&named, source, of_directory);
            }
        }
        Ok(ForeignSchema { file, of_directory })
    }

    /// If the settings come from the existing directory, puts them in force together with the added schema. Otherwise
    /// does nothing. Returns a line for each change.
    ///
    /// # Errors
    /// The same as those of [`apply`].
    pub fn apply(&self, config: &Config) -> Result<Vec<String>, ServeError> {
        match self.of_directory {
            true => Ok(apply(config.clone(), &self.file, |_| ())?.lines),
            false => Ok(Vec::new()),
        }
    }
}
