//! What an administrator does with data that is not served, or to a server: settings, import, checks, indexes.

pub mod import;
pub(crate) mod indexes;
pub mod load;
pub(crate) mod salvage;
pub mod settings;
pub(crate) mod verify;
