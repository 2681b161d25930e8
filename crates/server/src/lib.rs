//! The LDAP server: sockets, sessions, threads, settings, log, monitoring.
//!
//! ```text
//!  acceptor ──connection──▶ event loop, one per core ──change──▶ writer, one
//!                           │  ▲  ▲                                │
//!                           │  │  └───────────answers──────────────┘
//!                           │  └──verdicts──┐
//!                           └──passwords──▶ hash pool
//! ```
//!
//! An `event_loop` owns a connection from accept to close. It processes a short operation to its end: read, frame,
//! decode, answer, write. This requires no lock, no other thread and, once the buffers have grown to their size, no
//! allocation. A search runs in slices, between which other connections have their turns. A search runs only as fast as
//! its client reads. Changes are sent to the one `writer`, which makes all waiting changes durable with one sync. Slow
//! password hashes are computed by the `hash_pool`. The writer and the hash pool send their answers to the event loop's
//! `mailbox`.
//!
//! [`serve()`] is the whole process: settings, log, signals and service manager. [`Opened`] and [`Server`] are parts of
//! it for tests and other programs. Apart from the log and the list of [`unfinished`] files, there is no global state.
//!
//! Entries, filters and indexes are in the crate `directory`, and the SASL mechanisms in the crate `sasl`.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod admin;
mod backup;
#[cfg(feature = "kafka")]
mod cluster_host;
pub mod config;
mod error;
mod event_loop;
mod kerberos;
pub mod limits;
pub mod log;
mod monitor;
mod net;
mod open;
mod serve;
mod session;
mod stamp;
mod telemetry;
pub mod unfinished;
mod web_client;
mod workers;

pub use admin::backup::{
    BackupChain, RestoredCopy, TrialRestore, check_backup, list_backup, make_backup, restore_backup,
    scratch_folder, try_backup,
};
#[cfg(feature = "kafka")]
pub use admin::cluster::{
    Initialized, copy_of_node, init_cluster, invite_node, join_cluster, join_from, renew_certificate,
    take_certificate,
};
#[cfg(feature = "kafka")]
pub use admin::generation::{begin_generation, finish_generation, reseed_from, reseed_node};
pub use admin::indexes::{ExplainError, IndexChange, Indexes, change_index, explain, list_indexes};
#[cfg(feature = "kafka")]
pub use admin::membership::{
    SnapshotOutcome, TrimOutcome, fetch_keys, keep_snapshot, leave_cluster, rotate_key, trim_log,
    unregister_node,
};
pub use admin::salvage::salvage;
pub use admin::verify::{compact, duplicates_of_few, open_read_only, repair, verify, violations};
pub use admin::{import, load, settings};
pub use backup::encryption::BackupIdentities;
pub use backup::make::{BackupOutcome, BackupRules, WrittenPart};
pub use backup::restore::Restored;
pub use backup::{BackupError, time_text};
pub use config::backup::{BackupPlace, BackupRecipient};
pub use config::{Arguments, Config, ConfigError, FollowKeys, values};
pub use error::{Fault, LoadError, RunAsError, ServeError};
pub use event_loop::EventLoopError;
pub use net::certificate::AuthorityFile;
pub use net::listener::{ListenError, SOCKET_NAME};
pub use net::proxy_header;
pub use open::{Handle, Opened, Reloaded, Server, hash_password, load_schema, node_settings};
pub use serve::privileges::{CORE_DUMPS_VARIABLE, forbid_core_dumps};
pub use serve::serve;
pub use telemetry::client_use::{ClientUse, ClientUseError, Work};
pub use telemetry::index_advice::{IndexProposal, NoProposal, SearchCosts};
pub use telemetry::operation_event::{logged_filter, scope_name};
pub use workers::index_upkeep::progress_text;
