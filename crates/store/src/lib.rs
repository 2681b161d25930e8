//! Embedded storage engine of the directory: ordered maps, id sets, counters and the log, with durable batches.
//!
//! The store knows bytes, not LDAP. Three parts are hidden from its users: a redo log that makes commits durable, an
//! overlay in memory that makes them visible, and LMDB. A checkpoint writes the changes of the overlay to LMDB's data
//! file in sorted batches. The interface requires two features of an engine: reads at one position, and batches that
//! become durable together. Id sets and counters are separate kinds of maps, so that no caller has to read, change and
//! write back shared chunks.
//!
//! ```text
//!   Store ---- view() ----> View  --+
//!     |                             +--> Read: get, scan, ids, scan_keys, count, log_records
//!   Writer --- begin() ---> Batch --+
//!                             |
//!                             +--> put, delete, insert_id, remove_id, bump, append_record; commit or drop
//! ```
//!
//! - [`Store::open`] returns a [`Store`], which can be cloned, and the only [`Writer`]. The data directory is locked as
//!   long as a store, the writer or a view exists.
//! - A [`View`] shows one durable position and moves to a newer position on request. The pages of that position cannot
//!   be reused while the view holds it. Renewing a view costs little, so each thread holds one view for all its
//!   requests.
//! - A [`Batch`] sees its own writes. Its [`commit`](Batch::commit) returns when everything is on the disk, usually
//!   after one sync; views see the changes only after that. Dropping the batch discards its changes. There are no
//!   nested batches. So before writing the rows of an operation, a caller must decide whether to refuse the operation.
//! - [`View`] and [`Batch`] dereference to [`Read`]. Results borrow from the `Read`, so the compiler ensures that no
//!   slice or cursor outlives a write or a renewal.
//! - The log is part of the same batch: a record exists if and only if the rows written with it exist.
//!
//! Path of a change from its batch to the data file (see the modules of the same names):
//!
//! ```text
//!   batch --commit--> redo (one sync) --> overlay, seen by views --checkpoint--> lmdb --> redo trimmed
//! ```
//!
//! [`RankedKeys`] are sorted sets in a plain map. They find the key with a given rank, and the rank of a key.
//!
//! For whole stores there are also:
//!
//! ```text
//!   rows in any order --> Sorter --> Sorted --> BulkStore --- finish() --> a new data file in the old one's place
//!   Store::open_read_only() --> ReadOnlyStore --- view() --> View     in a process other than the writer's
//!   compact()
//!   View --- copy() --> StreamWriter, bytes, read_stream() --> BulkStore
//! ```
//!
//! - A [`BulkStore`] accepts rows in key order and writes them at the speed of a file, into a new data file that
//!   replaces the old one when it is complete. It is for loading, restoring and compacting.
//! - A [`Sorter`] sorts rows into that order, in bounded memory.
//! - A [`SetInserter`] adds ids in key order straight to the data file of an open store: for building an index.
//! - A [`ReadOnlyStore`] reads a store that a server has open: for exporting and verifying.
//!
//! Failures and their effects:
//!
//! - the process is killed, or the power fails: the next open restores every acknowledged batch, and all or nothing of
//!   the batch that was being committed
//! - the disk is full, or less than the reserve is free: `DiskFull`; the batch is rolled back, and reads and later
//!   batches continue
//! - the system is out of descriptors or memory before a write: `Exhausted`; nothing is written, writes are not
//!   stopped, and the next batch tries again
//! - a sync or the write of the root fails: `WritesStopped` until the store is opened again; reads continue
//! - a log record is damaged: `DamagedLog` with its position when it is read; damaged records are never returned
//! - a build in bulk is killed, fails, or finds the disk full: the old data is unchanged; the next open removes the
//!   incomplete new file
//! - another process opens the store: `InUse` with the owner's process id
//! - a checkpoint finds the disk full: the checkpoint is retried; pending changes stay visible and durable; batches
//!   fail with `DiskFull` when the limit of pending changes is reached
//! - a segment of the redo log is damaged: `DamagedRedo` when the store is opened; nothing is changed. [`salvage()`]
//!   reads the intact groups
//! - another process reads the store: the reader sees only durable states; the data file cannot be replaced until the
//!   reader closes it; if the reader dies, the writer frees the pages that the reader pinned
//!
//! The store has no notion of entries, attributes and DNs. It reads the clock only to time checkpoints and yields, and
//! starts only the thread of the checkpointer, and short-lived threads that allocate large tables of the row cache. The
//! on-disk format is drawn in docs/reference/store-format.md. All `unsafe` code is in the module `lmdb`, which
//! documents its assumptions. The crate `powercut` tests durability by reverting writes that were not synced.

#![deny(unsafe_code)]
// The bytes of the data directory are untrusted input, so each cast or index below needs a bounds check or a reason why
// it needs none.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]

mod batch;
mod bulk;
mod compact;
mod copy;
mod disk;
mod error;
mod insert_sets;
mod layout;
mod lmdb;
mod log;
mod maps;
mod meta;
mod open;
mod options;
mod overlay;
mod pending;
mod ranked;
mod read;
mod redo;
mod salvage;
mod shared;
mod snapshot_map;
mod sort;
mod stream;
mod view;

// The model and the scratch directory of `tests/` are also used by unit tests that have to delay a checkpoint.
#[cfg(test)]
extern crate self as store;
#[cfg(test)]
#[path = "../tests/model_state/mod.rs"]
mod model_state;
#[cfg(test)]
#[path = "../tests/scratch/mod.rs"]
mod scratch;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Savepoint, Writer};
pub use bulk::BulkStore;
pub use compact::{Compacted, compact};
pub use copy::{RowSink, copy, copy_log};
pub use error::{LogDamage, OpenError, RedoDamage, RedoFinding, StoreError};
pub use insert_sets::SetInserter;
pub use layout::{FORMAT_VERSION, FORMAT_VERSION_MIN, KEY_LEN_MAX, VALUE_LEN_MAX};
pub use lmdb::{AbsentPages, PageNumber};
pub use maps::{Direction, KeyRange, MapId, MapKind, MapSpec};
pub use open::read_only::ReadOnlyStore;
pub use open::{Facts, Store, has_data_file, make_data_directory, move_data_file};
pub use options::{Event, Observer, Options};
pub use ranked::RankedKeys;
pub use read::Read;
pub use read::ids::IdCursor;
pub use read::log_scan::LogScan;
pub use read::scan::{KeyScan, Scan};
pub use redo::{FileDamage, FileDamageKind};
pub use salvage::{OmittedRecord, Salvage, salvage};
pub use sort::run::temporary_file;
pub use sort::{Sorted, Sorter};
pub use stream::{StreamError, StreamWriter, read_stream};
pub use view::View;

/// Position in the log: 1 for the first record, one more for each following record; 0 before the first.
pub type Position = u64;

/// Result whose error is a [`StoreError`] by default.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
