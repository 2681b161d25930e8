//! Import: a whole directory made from LDIF text, without the log and the batches that single changes take.
//!
//! The rows of millions of entries are made out of order and written in order. Everything that belongs together only
//! when all entries are known (a superior's id, the entry that a link names, the postings of an index key) goes through
//! sorters on disk, so memory does not grow with the number of entries:
//!
//! ```text
//!   text -> Preparer (a thread each) --entry rows, in order of ids--> Builder: `entries`
//!              |   checks an entry,  --what `nodes` needs-----------> Builder: a file
//!              |   makes its rows
//!              +--names and links, by normal DN--> resolve: superiors, targets --+--by id------> Builder: `nodes`
//!              +--rows by map and key------------------------------------------ -+--by map, key-> Builder: the rest
//! ```
//!
//! Normal DNs stand root first, so in their order every entry comes right behind its superiors: one pass with a stack
//! finds parents, duplicates, orphans, links and counts, whatever the order of the text. What is refused that late is
//! only noted by id, and left out wherever rows are written.
//!
//! Ids are given in the order of the text, one for each record, and what is refused leaves a gap. Entries of naming
//! contexts that are not loaded keep theirs: they are carried over first.
//!
//! What this module leaves out: it starts no thread and reads no clock, and opens no file but its temporary ones beside
//! the data. Its caller reads the text in pieces, hands them to as many preparers as it has threads, and keeps the
//! order.

mod build;
mod carry;
mod draft;
mod emit;
mod foreign;
mod id_blocks;
mod ids;
mod job;
mod known;
mod large;
mod prepare;
mod resolve;
mod sorters;

pub use build::{Builder, Refused};
pub(super) use id_blocks::Merged;
pub use job::{ImportError, ImportOptions, Job};
pub use large::LargeText;
pub use prepare::{Prepared, Preparer, RandomSource, RecordPlace, Refusal, Rejected, Statistics, Text};
pub use resolve::{Resolved, resolve};
pub(super) use sorters::{Destination, destination};
pub use sorters::{Names, ROW_BLOCK_SIZE, RowBlock, Rows, SortedRows, Sorters};
