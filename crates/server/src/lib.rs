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
//! An `event_loop` owns its connections from accept to close and runs short operations to completion: read, frame,
//! decode, answer, write, without a lock, a hand-over or (once warm) an allocation of its own. Searches run in slices
//! between which others have their turn, and only as fast as the client reads. Changes go to the one `writer`, which
//! makes everything that waits durable with one sync; slow password hashes go to the `hash_pool`. Both answer through
//! the loop's `mailbox`.
//!
//! [`serve()`] is the whole process: settings, log, signals, service manager. [`Opened`] and [`Server`] are the parts,
//! for tests and other programs: there is no global state but the log.
//!
//! What this crate leaves out: it knows nothing of entries, filters or indexes, which are the directory's; TLS is not
//! there yet, and of SASL only EXTERNAL, over sockets of the file system.

#![forbid(unsafe_code)]

mod acceptor;
mod buffers;
pub mod config;
mod connection;
mod context;
mod counters;
mod descriptors;
mod event_loop;
mod hash_pool;
mod health;
pub mod import;
mod indexes;
pub mod limits;
mod listener;
pub mod load;
pub mod log;
mod mailbox;
mod memory;
mod monitor;
mod node_file;
mod operation_log;
mod process;
mod read_ahead;
mod request_memory;
mod salvage;
mod scan;
mod scan_pool;
mod serve;
mod session;
pub mod settings;
mod stamp;
mod start;
mod stream;
mod upkeep;
pub mod values;
mod verify;
mod warm_up;
mod writer;

pub use config::{Arguments, Config, ConfigError};
pub use event_loop::EventLoopError;
pub use indexes::{ExplainError, IndexChange, Indexes, change_index, explain, list_indexes, progress_text};
pub use listener::{ListenError, SOCKET_NAME};
pub use salvage::salvage;
pub use serve::serve;
pub use start::{Fault, Handle, Opened, Reloaded, ServeError, Server, hash_password, load_schema};
pub use verify::{compact, open_read_only, repair, verify};
