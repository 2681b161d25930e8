//! Errors of opening a data directory or its catalog.

use store::StoreError;

use crate::model::outcome::OperationError;
use crate::model::settings::SettingsProblem;

/// Returns the remedy for data whose format version is not supported.
fn remedy(what: &str, found: u32, supported: u32) -> String {
    if found > supported {
        return format!("a newer build reads it: one whose `pando version` lists {what} version {found}");
    }
    "export it with the program that wrote it and import it again".to_owned()
}

/// Reason why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store cannot be opened: it is in use, has another format or is not a Pando database, or the disk failed.
    #[error(transparent)]
    Open(#[from] store::OpenError),
    /// Reading or writing failed after the store was opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows or normal forms have a version that the program does not support.
    #[error(
        "the data has {what} version {found}, this program has {supported}; {}",
        remedy(what, *found, *supported)
    )]
    Version {
        /// Kind of the version: of rows or of normal forms.
        what: &'static str,
        /// Version of the data.
        found: u32,
        /// Newest version that this program supports.
        supported: u32,
    },
    /// An attribute type or object class that entries use is not in the schema.
    #[error("{what} {oid} is used by entries but not defined: add the schema file that defines it")]
    MissingDefinition {
        /// "attribute type" or "object class".
        what: &'static str,
        /// OID of the definition.
        oid: String,
    },
    /// The syntax or rules of an attribute type differ from the syntax or rules under which its values were stored.
    #[error(
        "attribute type {name} has values stored under syntax and rules `{stored}`, its definition now says `{now}`: \
         restore the definition, or export the data with it and import it under the new one"
    )]
    ChangedDefinition {
        /// Name of the attribute type.
        name: String,
        /// Syntax, equality and ordering rules of the stored values, as OIDs.
        stored: String,
        /// Syntax, equality and ordering rules in the current definition, as OIDs.
        now: String,
    },
    /// The program would have to change the data to open the directory, but a cluster node changes only by records of
    /// the cluster's log.
    #[error(
        "this data directory is a node of a cluster or a replica, and this program would change it at the start: it \
         serves another suffix, or ships other schema definitions, than the log knows of"
    )]
    ChangedNode,
    /// The source of a copy does not contain the data of a cluster node.
    #[error("the source contains no data of a cluster node")]
    NoNode,
    /// The target of a copy already contains data.
    #[error("the new data directory already contains data")]
    HasData,
    /// A naming context is invalid.
    #[error("suffix {dn:?}: {reason}")]
    Suffix {
        /// DN of the naming context, as given.
        dn: String,
        /// Reason why the naming context is invalid.
        reason: String,
    },
    /// A setting is invalid.
    #[error("setting {setting}: {reason}")]
    Setting {
        /// Name of the setting.
        setting: String,
        /// Reason why the setting is invalid.
        reason: String,
    },
    /// The data file contains no rows, because the first start was interrupted.
    #[error("there is a data file, but no directory in it yet")]
    Empty,
    /// Rows of the catalog are damaged.
    #[error("the data is damaged: {0}")]
    Damaged(String),
}

impl OpenError {
    pub(crate) fn damaged(what: &str) -> OpenError {
        OpenError::Damaged(what.to_owned())
    }
}

impl From<OperationError> for OpenError {
    fn from(error: OperationError) -> OpenError {
        match error {
            OperationError::Store(error) => OpenError::Store(error),
            other => OpenError::Damaged(other.to_string()),
        }
    }
}

/// Converts the first problem, and drops the others.
impl From<Vec<SettingsProblem>> for OpenError {
    fn from(problems: Vec<SettingsProblem>) -> OpenError {
        match problems.into_iter().next() {
            Some(problem) => OpenError::Setting { setting: problem.place.to_string(), reason: problem.what },
            None => OpenError::damaged("settings"),
        }
    }
}
