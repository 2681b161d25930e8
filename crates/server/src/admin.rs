//! The administrator's commands on a data directory: settings, import, checks, indexes.

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
