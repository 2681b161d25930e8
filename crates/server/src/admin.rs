//! Commands of the administrator on a data directory: settings, import, checks, indexes, backups, clusters.

pub(crate) mod backup;
#[cfg(feature = "kafka")]
pub(crate) mod cluster;
#[cfg(feature = "kafka")]
pub(crate) mod generation;
pub mod import;
pub(crate) mod indexes;
pub mod load;
#[cfg(feature = "kafka")]
pub(crate) mod membership;
pub(crate) mod ownership;
pub(crate) mod salvage;
pub mod settings;
pub(crate) mod verify;
