//! The directory: entries, the tree, indexes, links, and all operations on them.
//!
//! Every change has two steps. A *decide* function (one file per operation: `add.rs`, `delete.rs`, `modify.rs`,
//! `modify_dn.rs`) reads the state, checks the request, and returns a [`record::Record`]: the validated effect of the
//! request. The decide function writes nothing, so a refused request has no effect. [`apply`] then turns the record
//! into rows. [`apply`] is idempotent and cannot refuse a record. Start-up replay, replicas and restore use only
//! [`apply`].
//! Reads use [`search::Search`], a state machine that runs in slices. Any thread may run a slice, on its own
//! [`Snapshot`].
//!
//! The modules are layers, called floors. Each floor uses only lower floors, in the order of
//! `crates/house/floors.toml`. Items for other crates are re-exported at the root.
//!
//! This crate opens no socket, starts no thread, and reads neither a clock nor a random source: a [`Stamp`] contains
//! the time and random bits.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

// Unit tests and integration tests share `testing.rs`, which uses the name `directory`.
#[cfg(test)]
extern crate self as directory;

pub mod access;
mod accounts;
pub mod catalog;
mod database;
mod filter;
pub mod index;
pub mod links;
mod maintenance;
mod model;
pub mod password;
mod read;
pub mod settings;
mod snapshot;
pub mod tree;
mod write;
// Unit tests do not use all items that integration tests use.
#[cfg(test)]
#[allow(dead_code)]
mod testing;

pub use access::{RequestContext, Requester};
pub use database::{
    ExtendedResult, OpenOptions, ReadOnlyDirectory, RecordRoom, WriteBatch, Writer, data_formats, replica,
    replicated,
};
pub use maintenance::{
    backup, check, content_diff, digest, export, follow, import, index_build, ldif_check, ldif_diff,
    rehearse, salvage, violations,
};
pub use model::client_link::{BindMethod, ClientLink, ListenerName, WeekTime};
pub use model::name_mapping::NameMapping;
pub use model::open_error::OpenError;
pub use model::outcome::{OperationError, Outcome, ServerFault};
pub use model::sasl_keys::SaslKeyRules;
pub use model::stamp::{HistoryChecks, Stamp};
pub use model::{
    csn, entry, index_definition, limits, name, origin, outcome, own_changes, record, rows, tombstone,
    virtual_entries,
};
pub use read::{
    access_question, bind, bind_names, compare, controls, deleted, history, identity, log_changes,
    own_credentials, password_state, read_ahead, reset_by_mail, search,
};
pub use settings::{DirectorySettings, FollowedTree, NodeSettings, Settings};
pub use snapshot::{Directory, Snapshot};
pub use tree::{operational, stored_values, target};
pub use write::dynamic_entries;
pub use write::{account_update, apply, decide, passwords};
pub use write::{joins, linking, value_ends};
