//! Import of a whole directory from LDIF text, without the log and the batches of single changes.
//!
//! The rows of millions of entries are produced out of order and written in order. Some data are known only after all
//! entries were read: the id of a superior, the entry that a link names, the postings of an index key. These data pass
//! through sorters on disk, so memory does not grow with the number of entries:
//!
//! ```text
//!   text -> Preparer (a thread each) --entry rows, in order of ids--> Builder: `entries`
//!              |   checks an entry,  --fields for `nodes`-------------> Builder: a file
//!              |   builds its rows
//!              +--names and links, by normal DN--> resolve: superiors, targets --+--by id------> Builder: `nodes`
//!              +--rows by map and key------------------------------------------ -+--by map, key-> Builder: the rest
//! ```
//!
//! Normal DNs start at the root, so sorted DNs list every entry after its superiors. One pass with a stack finds
//! parents, duplicates, orphans, links and counts, regardless of the order in the text. Entries that this pass refuses
//! are only recorded by id. The writers of rows skip these entries.
//!
//! Ids are allocated in the order of the text, one for each record. A refused record leaves a gap. Entries of naming
//! contexts that the import does not replace are *carried over* first: they are copied into the new data file, with
//! their ids.
//!
//! This module starts no thread, reads no clock, and opens no file except temporary files in the data directory. The
//! caller reads the text in chunks, passes the chunks to one preparer per thread, and keeps the order of the chunks.

mod build;
mod carry;
mod draft;
mod emit;
mod foreign;
mod id_blocks;
mod ids;
mod job;
mod large;
mod prepare;
mod resolve;
mod resolved;
mod sorters;
pub(super) mod vendor;

pub use build::{Builder, RefusedIds};
pub(super) use id_blocks::IdMerger;
pub use job::{ImportError, ImportOptions, Job};
pub use large::LargeText;
pub use prepare::{
    PreparedRows, Preparer, RandomSource, RecordPlace, Refusal, RejectedRecord, Statistics, Text,
};
pub use resolve::{Resolution, resolve};
pub(super) use sorters::{Destination, destination};
pub use sorters::{Names, ROW_BLOCK_SIZE, RowBlock, Rows, SortedRows, Sorters};
