//! Opening and changing a data directory.
//!
//! [`Directory::open`](crate::Directory::open) (`open.rs`) returns the directory and its only [`Writer`] (`writer.rs`),
//! which changes the directory in [`WriteBatch`]es.

mod auto_members;
mod copies;
mod due_changes;
mod extended;
mod followed;
mod open;
pub(crate) mod read_only;
mod record_limit;
pub mod replica;
pub mod replicated;
mod role;
mod transaction;
mod writer;

pub use extended::ExtendedResult;
pub use open::{OpenOptions, data_formats};
pub(crate) use open::{check_versions, versions};
pub use read_only::ReadOnlyDirectory;
pub use record_limit::RecordRoom;
pub use writer::{WriteBatch, Writer};

/// Server number in CSNs. All nodes use the same number.
pub(crate) const SERVER_NUMBER: u16 = 0;
