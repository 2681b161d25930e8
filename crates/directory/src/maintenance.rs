//! Operations on whole directories: import, export, backup, check, comparison, salvage.

pub mod backup;
pub mod check;
pub mod content_diff;
pub mod digest;
mod duplicates;
mod entry_uuid;
pub mod export;
pub mod follow;
pub mod import;
pub mod index_build;
pub mod ldif_check;
pub mod ldif_diff;
pub mod rehearse;
pub mod salvage;
mod sorted_entries;
pub mod violations;
