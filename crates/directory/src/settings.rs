//! Directory-wide settings. All nodes of a directory share these settings, and the directory's backup contains them.
//!
//! [`DirectorySettings`] contains the settings as an administrator writes them: suffixes, indexes, schema texts and the
//! [`GeneralSettings`] (limits, access, passwords, links). A proposal of settings arrives in a file for `pando apply`,
//! or as a request to change an entry at or below `cn=config`, or `cn=subschema` ([`entries`], [`change_entries`]).
//! [`check`](mod@check) makes the proposal canonical, or reports problems with their places. [`decide`](mod@decide)
//! makes one record of the difference from the settings in force. [`apply`](mod@apply) updates the rows and the
//! catalog. [`Difference`]s describe the changes to an administrator, with the cost of each.
//!
//! Settings of one machine are in [`NodeSettings`] (such as the administrator's name and password) or belong to the
//! server (such as listeners and threads). For operations, [`Settings`] combines the settings of the directory and of
//! the node.

pub mod apply;
pub mod change_entries;
pub mod check;
pub mod decide;
mod definitions;
pub mod difference;
pub mod entries;
mod expectations;
mod rule_readers;
mod subschema;
#[cfg(test)]
mod tests;
pub mod user_template;
mod value_rules;

use std::collections::BTreeMap;

use schema::Schema;

use crate::catalog::{Catalog, DEFAULT_INDEXES, without_effect};
use crate::index::possible_kinds;
use crate::model::index_definition::IndexKinds;
pub use crate::model::settings::{
    FollowedTree, GENERAL, GeneralSetting, GeneralSettings, NodeSettings, SettingPath, SettingValue,
    Settings, SettingsProblem, SettingsRecord, SuffixNumber,
};
pub use check::{CheckedSettings, check};
pub use decide::{SettingsDecision, SettingsError, decide, notes, notes_of_new, policy_notices};
pub use difference::Difference;

/// Default suffix of a new directory.
pub const DEFAULT_SUFFIX: &str = "dc=example,dc=com";

/// All directory-wide settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySettings {
    /// DNs of the naming contexts, in any order.
    pub suffixes: Vec<String>,
    /// Kinds of indexes by attribute type. A type that is not listed has no index.
    pub indexes: BTreeMap<String, IndexKinds>,
    /// Schema texts by name, in addition to the shipped schema. The texts are read in the order of their names.
    pub schema: BTreeMap<String, String>,
    /// All other settings.
    pub general: GeneralSettings,
}

impl DirectorySettings {
    /// Returns notices about settings that are valid but have no effect: unknown extensions in schema texts.
    pub fn notices(&self) -> Vec<SettingsProblem> {
        without_effect(&self.schema)
    }
}

impl Default for DirectorySettings {
    fn default() -> DirectorySettings {
        DirectorySettings {
            suffixes: vec![DEFAULT_SUFFIX.to_owned()],
            indexes: default_indexes(),
            schema: BTreeMap::new(),
            general: GeneralSettings::default(),
        }
    }
}

/// Returns the default indexes of a new directory.
pub fn default_indexes() -> BTreeMap<String, IndexKinds> {
    let schema = Schema::shipped();
    let types = DEFAULT_INDEXES.iter().filter_map(|name| schema.attribute_type(name));
    let kinds = IndexKinds::EQUALITY.with(IndexKinds::ORDERING);
    types.map(|known| (known.name().to_owned(), possible_kinds(known, &schema, kinds))).collect()
}

/// Returns the version of a directory's settings. The version is the log position of the last change of a setting.
pub fn version(catalog: &Catalog) -> u64 {
    catalog.settings.position
}

impl DirectorySettings {
    /// Returns the settings of a directory.
    pub fn of(catalog: &Catalog) -> DirectorySettings {
        let indexed =
            catalog.attributes().iter().filter(|def| def.id == def.base && !def.index.kinds.is_none());
        let indexes = indexed.map(|def| {
            let attribute_type = catalog.schema.type_by_id(def.description.type_id);
            // The first version of the program requested both equality and ordering, even for types without an ordering
            // rule.
            (def.name.clone(), possible_kinds(attribute_type, &catalog.schema, def.index.kinds))
        });
        DirectorySettings {
            suffixes: catalog.suffixes.iter().map(|suffix| suffix.dn.clone()).collect(),
            indexes: indexes.collect(),
            schema: catalog.settings.schema.as_ref().clone(),
            general: catalog.settings.general.clone(),
        }
    }
}
