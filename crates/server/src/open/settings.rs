//! The schema, directory settings and stored passwords in the settings of a node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use directory::{DirectorySettings, NodeSettings, password};
use schema::{Schema, SchemaBuilder};

use crate::config::{Config, ConfigError, FollowSettings};
use crate::error::ServeError;
use crate::stamp::Random;

/// Returns the built-in schema, extended by the named schema texts in the settings and by files.
///
/// # Errors
/// A file cannot be read, or definitions cannot be used.
pub fn load_schema(texts: &BTreeMap<String, String>, files: &[PathBuf]) -> Result<Arc<Schema>, ServeError> {
    if texts.is_empty() && files.is_empty() {
        return Ok(Schema::shipped());
    }
    let mut builder = SchemaBuilder::shipped();
    for (name, text) in texts {
        builder.add_text(name, text);
    }
    for file in files {
        let text =
            std::fs::read_to_string(file).map_err(|error| ConfigError::Read { file: file.clone(), error })?;
        builder.add_text(&file.display().to_string(), &text);
    }
    Ok(builder.build()?)
}

/// Returns the stored form of a clear password.
///
/// # Errors
/// The system provides no random salt.
pub fn hash_password(scheme: password::StorageScheme, clear: &[u8]) -> Result<Vec<u8>, ServeError> {
    Ok(password::hash(scheme, clear, &Random::default().bytes()?))
}

/// Returns the settings of the node, without the administrator's password.
pub fn node_settings(config: &Config) -> NodeSettings {
    NodeSettings {
        admin_dn: config.admin_dn.as_str().to_owned(),
        admin_password: None,
        anonymous_read: config.anonymous_read,
        followed: config.follow.iter().map(FollowSettings::tree).collect(),
    }
}

/// Returns the directory-wide settings of a new data directory. Suffixes on the command line replace the default.
pub(super) fn initial_settings(config: &Config) -> DirectorySettings {
    match &config.initial {
        Some(stated) => stated.clone(),
        None if config.suffixes.is_empty() => DirectorySettings::default(),
        None => DirectorySettings { suffixes: Vec::new(), ..DirectorySettings::default() },
    }
}
