//! The audit trail: signed, hash-chained records of operations. A reader detects every changed byte.
//!
//! An [`EventWriter`] appends an event to a buffer, which costs only copying. A [`Trail`] compresses buffered events
//! into blocks, chains the blocks by their hashes, signs the chain at intervals, and removes segments by size and age.
//! A [`Traversal`] reads the blocks in a folder, checks each block, and continues after damage. [`verify()`] reads a
//! whole trail, and checks the chain of blocks, the signatures and the file `head`. `docs/reference/audit-format.md`
//! describes the encoding.
//!
//! This crate handles only text, numbers and files. The caller decides what an event means and what it may reveal. This
//! crate reads no clock and starts no thread.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod error;
mod event;
mod format;
mod key;
pub mod limits;
mod segments;
mod trail;
mod traversal;
mod verify;

pub use error::{AuditError, Damage, TrailPlace};
pub use event::{Event, EventWriter, Events, Field, Kind, ValueEffect, Values, put_values};
pub use key::{NodeKey, PublicKey};
pub use trail::{Opening, Options, Torn, Trail};
pub use traversal::{Block, Item, Traversal};
pub use verify::{Anchored, Report, verify};
