//! Directory-wide settings: what every node of a directory agrees on, and what a backup of it contains.
//!
//! [`DirectorySettings`] is all of them as a person states them: suffixes, indexes, schema texts and the
//! [`GeneralSettings`] (limits, access, passwords, links). However they arrive, as a text file of `pando apply` or as
//! operations on the entries below `cn=config` ([`entries`], [`change_entries`]), they take one way:
//! [`check`](mod@check) makes the proposal canonical or says what is wrong and where, [`decide`](mod@decide) makes one
//! record of the difference, and [`apply`](mod@apply) makes the rows and the catalogue say so. [`Difference`]s say the
//! same for people, with what each costs.
//!
//! What belongs to one machine (listeners, threads, the administrator's name and password) is a [`NodeSettings`] or the
//! server's own affair. [`Settings`] is what operations ask: both together, as they are in force.

pub mod apply;
pub mod change_entries;
pub mod check;
pub mod decide;
pub mod difference;
pub mod entries;
mod expectations;
mod rule_readers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schema::Schema;

use crate::catalog::{Catalog, DEFAULT_INDEXES, without_effect};
use crate::index::possible_kinds;
use crate::model::index_definition::IndexKinds;
pub use crate::model::settings::{
    GENERAL, GeneralSetting, GeneralSettings, NodeSettings, SettingPath, SettingValue, Settings,
    SettingsProblem, SettingsRecord, SuffixNumber,
};
pub use check::{Checked, check};
pub use decide::{Decided, SettingsError, decide, notes, notes_of_new, policy_notices};
pub use difference::Difference;

/// The suffix of a new directory unless something else is said.
pub const DEFAULT_SUFFIX: &str = "dc=example,dc=com";

/// All directory-wide settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySettings {
    /// DNs of the naming contexts. Their order means nothing.
    pub suffixes: Vec<String>,
    /// Exactly the indexes that are kept, by attribute type.
    pub indexes: BTreeMap<String, IndexKinds>,
    /// Schema definitions besides the shipped ones: texts by name. Read in the order of their names.
    pub schema: BTreeMap<String, String>,
    /// Everything else.
    pub general: GeneralSettings,
}

impl DirectorySettings {
    /// What they have that may stay and is without effect: extensions in schema texts that nothing here follows.
    pub fn notices(&self) -> Vec<SettingsProblem> {
        without_effect(&self.schema).1
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

/// The indexes of a new directory unless something else is said.
pub fn default_indexes() -> BTreeMap<String, IndexKinds> {
    let schema = Schema::shipped();
    let types = DEFAULT_INDEXES.iter().filter_map(|name| schema.attribute_type(name));
    let kinds = IndexKinds::EQUALITY.with(IndexKinds::ORDERING);
    types.map(|known| (known.name().to_owned(), possible_kinds(known, &schema, kinds))).collect()
}

impl DirectorySettings {
    /// The settings of a directory.
    pub fn of(catalog: &Catalog) -> DirectorySettings {
        let indexed =
            catalog.attributes().iter().filter(|def| def.id == def.base && !def.index.kinds.is_none());
        let indexes = indexed.map(|def| {
            let attribute_type = catalog.schema.type_by_id(def.description.type_id);
            // The first version of the program asked for both of types that have no order, too.
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
