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
mod general;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use ldap::ResultCode;
use schema::Schema;

use crate::catalog::{Catalog, DEFAULT_INDEXES};
use crate::index::{IndexKinds, possible_kinds};

pub use check::{Checked, check};
pub use decide::{Decided, SettingsError, decide};
pub use difference::Difference;
pub use general::{GENERAL, GeneralSetting, GeneralSettings, SettingValue};
pub(crate) use stored::StoredSettings;
pub use stored::{SettingsRecord, SuffixNumber};

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

/// Where in the settings something is wrong. Shows itself as the path of a key: `limits.size_limit`, `suffixes[1]`,
/// `indexes.mail`, `schema.local:3` for the third line of a schema text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A key.
    Key(String),
    /// A member of a list, counted from 0.
    Member(String, usize),
    /// A line of a text, counted from 1.
    Line(String, usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Key(key) => f.write_str(key),
            Place::Member(key, number) => write!(f, "{key}[{number}]"),
            Place::Line(key, line) => write!(f, "{key}:{line}"),
        }
    }
}

impl std::str::FromStr for Place {
    type Err = std::convert::Infallible;

    /// As it shows itself. Lists are no members of tables, and only schema texts have lines, so that an index of any
    /// name is told from both.
    fn from_str(text: &str) -> Result<Place, Self::Err> {
        let member = text.strip_suffix(']').filter(|text| !text.contains('.'));
        let member = member.and_then(|text| text.rsplit_once('['));
        if let Some((key, Ok(number))) = member.map(|(key, number)| (key, number.parse())) {
            return Ok(Place::Member(key.to_owned(), number));
        }
        let line = text.rsplit_once(':').filter(|(key, _)| key.starts_with("schema."));
        if let Some((key, Ok(line))) = line.map(|(key, line)| (key, line.parse())) {
            return Ok(Place::Line(key.to_owned(), line));
        }
        Ok(Place::Key(text.to_owned()))
    }
}

/// A setting that cannot be, or cannot be now. Whoever states the settings has to repair it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct SettingsProblem {
    /// Where.
    pub place: Place,
    /// What is wrong, and what would be right.
    pub what: String,
    /// What an LDAP client gets for it: constraintViolation where the setting itself is wrong, unwillingToPerform where
    /// only the entries that there are stand against it.
    pub code: ResultCode,
}

impl SettingsProblem {
    pub(crate) fn new(place: Place, what: impl Into<String>) -> SettingsProblem {
        SettingsProblem { place, what: what.into(), code: ResultCode::CONSTRAINT_VIOLATION }
    }

    pub(crate) fn unwilling(self) -> SettingsProblem {
        SettingsProblem { code: ResultCode::UNWILLING_TO_PERFORM, ..self }
    }

    pub(crate) fn key(key: impl Into<String>, what: impl Into<String>) -> SettingsProblem {
        SettingsProblem::new(Place::Key(key.into()), what)
    }
}

/// What one node adds to the directory's settings.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// DN of the administrator; it needs no entry.
    pub admin_dn: String,
    /// The administrator's password in stored form; `None` means the one kept in the data directory.
    pub admin_password: Option<Vec<u8>>,
    /// Whether anonymous clients of this node read the tree, whatever the directory says.
    pub anonymous_read: bool,
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings { admin_dn: "cn=admin".to_owned(), admin_password: None, anonymous_read: false }
    }
}

/// The settings in force, as operations ask for them.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What this node says.
    pub node: NodeSettings,
    /// What the directory says.
    pub general: GeneralSettings,
}

impl Settings {
    /// What is in force where the directory and the node say this.
    pub fn of(node: &NodeSettings, general: &GeneralSettings) -> Settings {
        Settings { node: node.clone(), general: general.clone() }
    }

    /// Whether anonymous clients read the tree (never userPassword): one of both is enough.
    pub fn anonymous_read(&self) -> bool {
        self.node.anonymous_read || self.general.anonymous_read
    }
}
