//! The directory: entries, the tree, indexes, links, planning and every operation.
//!
//! Two functions carry every change. A *decide* (one file per operation: `add.rs`, `delete.rs`, `modify.rs`,
//! `modify_dn.rs`) reads the state, checks the request and returns a [`record::Record`]: a validated effect. It
//! writes nothing, so a refused request leaves no trace. [`apply`] turns a record into rows; it is idempotent and
//! cannot be refused, and start-up replay, replicas and restore use nothing else.
//!
//! Reading goes the other way: [`search::Search`] is a state machine that any thread may run in slices, each
//! slice on that thread's own [`Snapshot`].
//!
//! What this crate leaves out: it reads no clock and no random source (a [`Stamp`] brings both), opens no socket,
//! starts no thread.

#![forbid(unsafe_code)]

// So that `testing.rs` names this crate alike from within and from the integration tests.
#[cfg(test)]
extern crate self as directory;

pub mod access;
pub mod apply;
pub mod attribute_index;
pub mod bind;
pub mod catalog;
pub mod check;
pub mod compare;
pub mod controls;
pub mod csn;
pub mod decide;
pub mod entry;
pub mod export;
pub mod import;
pub mod ldif_check;
pub mod ldif_diff;
pub mod limits;
pub mod links;
pub mod operational;
pub mod outcome;
pub mod password;
pub mod passwords;
pub mod read_ahead;
pub mod record;
pub mod rows;
pub mod salvage;
pub mod search;
pub mod settings;
pub mod stored_values;
pub mod target;
pub mod tree;
pub mod virtual_entries;

mod add;
mod allocations;
mod attribute_head;
mod attribute_numbers;
mod codec;
mod database;
mod delete;
mod given_values;
mod known_names;
mod modify;
mod modify_dn;
mod name_cache;
mod names_clock;
mod new_entry;
mod quoted;
mod read_only;
mod referral;
mod schema_check;
mod schema_times;
// The integration tests use what the unit tests do not.
#[cfg(test)]
#[allow(dead_code)]
mod testing;
mod value_list;
mod whole_entry;
mod working_entry;

pub use access::Requester;
pub use database::{Directory, OpenError, OpenOptions, Snapshot, Stamp, WriteBatch, Writer};
pub use outcome::{OperationError, Outcome, ServerFault};
pub use read_only::ReadOnlyDirectory;
pub use settings::{DirectorySettings, NodeSettings, Settings};
