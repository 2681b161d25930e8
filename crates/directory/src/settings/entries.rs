//! Settings as entries at and below `cn=config`. These entries are computed when requested.
//!
//! ```text
//! cn=config                        pandoConfig: suffixes, limits, access, passwords, links
//!   cn=indexes,cn=config
//!      cn=ATTRIBUTE,cn=indexes,...  pandoIndex: kinds of an attribute type's index
//!   cn=schema,cn=config
//!     cn=NAME,cn=schema,...        pandoSchema: a text of definitions
//! ```
//!
//! Only the administrator sees these entries. For other requesters they do not exist. [`super::change_entries`]
//! handles requests to change these entries.

use super::{DirectorySettings, GENERAL};
use crate::model::virtual_entries::{CONFIG_DN, VirtualEntry};

/// DN of the container of indexes.
pub const INDEXES_DN: &str = "cn=indexes,cn=config";

/// DN of the container of schema texts.
pub const SCHEMA_DN: &str = "cn=schema,cn=config";

/// Attribute type of the suffixes.
pub(crate) const SUFFIX: &str = "pandoSuffix";
/// Attribute type of the kinds of an index.
pub(crate) const INDEX_KIND: &str = "pandoIndexKind";
/// Attribute type of the definitions of a schema text.
pub(crate) const SCHEMA_TEXT: &str = "pandoSchemaText";

/// Kind of an entry at or below `cn=config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigEntry {
    /// `cn=config` itself.
    Root,
    /// The container of indexes.
    Indexes,
    /// The index of this attribute type.
    Index(String),
    /// The container of schema texts.
    Schema,
    /// The schema text with this name.
    SchemaText(String),
}

/// Returns all entries, superiors first.
pub(crate) fn entries(settings: &DirectorySettings) -> Vec<(ConfigEntry, VirtualEntry)> {
    let entry = |dn: &str, class: &str, name: &str| {
        VirtualEntry::new(dn).with("objectClass", ["top", class]).with("cn", [name])
    };
    let mut root = entry(CONFIG_DN, "pandoConfig", "config");
    root = root.with(SUFFIX, settings.suffixes.iter().map(String::as_str));
    for setting in &GENERAL {
        root = root.with(setting.attribute, setting.texts(&settings.general));
    }
    let mut all = vec![
        (ConfigEntry::Root, root),
        (ConfigEntry::Indexes, entry(INDEXES_DN, "pandoConfigContainer", "indexes")),
    ];
    for (attribute, kinds) in &settings.indexes {
        let dn = format!("cn={attribute},{INDEXES_DN}");
        let kinds = kinds.to_string();
        let index = entry(&dn, "pandoIndex", attribute).with(INDEX_KIND, kinds.split(','));
        all.push((ConfigEntry::Index(attribute.clone()), index));
    }
    all.push((ConfigEntry::Schema, entry(SCHEMA_DN, "pandoConfigContainer", "schema")));
    for (name, text) in &settings.schema {
        let dn = format!("cn={name},{SCHEMA_DN}");
        let schema = entry(&dn, "pandoSchema", name).with(SCHEMA_TEXT, [text.as_str()]);
        all.push((ConfigEntry::SchemaText(name.clone()), schema));
    }
    all
}
