//! Conversions of the settings in the node file to the schema, the directory's settings and a stored password.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use directory::{DirectorySettings, NodeSettings, password};
use schema::{Schema, SchemaBuilder};

use crate::config::{Config, ConfigError, FollowSettings};
use crate::error::ServeError;
use crate::stamp::Random;

/// Returns the built-in schema with the additions of the settings: `texts` contains schema texts by name, and `files`
/// the paths of further texts.
///
/// # Errors
/// A file cannot be read, or its definitions are invalid.
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

/// Converts a clear password to the stored value.
///
/// # Errors
/// The system returns no random salt.
pub fn hash_password(scheme: password::StorageScheme, clear: &[u8]) -> Result<Vec<u8>, ServeError> {
    Ok(password::hash(scheme, clear, &Random::default().bytes()?))
}

/// Returns the directory's settings for this node, without the administrator's password.
pub fn node_settings(config: &Config) -> NodeSettings {
    NodeSettings {
        admin_dn: config.admin_dn.as_str().to_owned(),
        admin_password: None,
        anonymous_read: config.anonymous_read,
        followed: config.follow.iter().map(FollowSettings::tree).collect(),
    }
}

/// Returns the directory-wide settings with which a new data directory starts. If the command line contains suffixes,
/// they replace the default suffix.
pub(super) fn initial_settings(config: &Config) -> DirectorySettings {
    match &config.initial {
        Some(stated) => stated.clone(),
        None if config.suffixes.is_empty() => DirectorySettings::default(),
        None => DirectorySettings { suffixes: Vec::new(), ..DirectorySettings::default() },
    }
}
