//! Why a data directory, or its catalogue, cannot be opened.

use store::StoreError;

use crate::model::outcome::OperationError;
use crate::model::settings::SettingsProblem;

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store refused: in use, another format, not ours, or the disk.
    #[error(transparent)]
    Open(#[from] store::OpenError),
    /// Reading or writing failed after that.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows or normal forms are of another version.
    #[error(
        "the data has {what} version {found}, this program has {supported}; export it with the program that wrote it \
         and import it again"
    )]
    Version {
        /// Which version.
        what: &'static str,
        /// In the data.
        found: u32,
        /// Here.
        supported: u32,
    },
    /// An attribute type or object class that entries use is not in the schema.
    #[error("{what} {oid} is used by entries but not defined: add the schema file that defines it")]
    MissingDefinition {
        /// "attribute type" or "object class".
        what: &'static str,
        /// Its OID.
        oid: String,
    },
    /// Syntax or rules of an attribute type are not those under which values were stored.
    #[error(
        "attribute type {name} has values stored under syntax and rules `{stored}`, its definition now says `{now}`: \
         restore the definition, or export the data with it and import it under the new one"
    )]
    ChangedDefinition {
        /// Name of the type.
        name: String,
        /// Syntax, equality and ordering then, as OIDs.
        stored: String,
        /// Now.
        now: String,
    },
    /// A node of a cluster would have to be changed behind the cluster's log.
    #[error(
        "this data directory is a node of a cluster, and this program would change it at the start: it serves another \
         suffix, or ships other schema definitions, than the cluster's log knows of"
    )]
    ChangedNode,
    /// What is to be copied is no node.
    #[error("there is no data of a node of a cluster to be copied")]
    NoNode,
    /// What is to be written over is data.
    #[error("the data directory that is to become a node has data already")]
    HasData,
    /// A naming context cannot be.
    #[error("suffix {dn:?}: {reason}")]
    Suffix {
        /// As given.
        dn: String,
        /// Why not.
        reason: String,
    },
    /// A setting cannot be.
    #[error("setting {setting}: {reason}")]
    Setting {
        /// Its name.
        setting: String,
        /// Why not.
        reason: String,
    },
    /// There is a data file, but nothing has been written to it: a first start was killed before.
    #[error("there is a data file, but no directory in it yet")]
    Empty,
    /// Rows of the catalogue are damaged.
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

/// The first problem as an error of opening.
impl From<Vec<SettingsProblem>> for OpenError {
    fn from(problems: Vec<SettingsProblem>) -> OpenError {
        match problems.into_iter().next() {
            Some(problem) => OpenError::Setting { setting: problem.place.to_string(), reason: problem.what },
            None => OpenError::damaged("settings"),
        }
    }
}
