//! The audit trail: who did what, when, and what came of it, kept so that a changed byte shows.
//!
//! An [`EventWriter`] appends an event to a buffer, which costs copies and no more. A [`Trail`] compresses what has
//! gathered into blocks, chains them by their hashes, signs the chain now and then, and keeps segments by size and age.
//! A [`Walk`] reads the blocks of a folder, checks each and goes on behind damage; [`verify()`] is a walk to the end
//! that holds everything against everything. `docs/reference/audit-format.md` draws the bytes.
//!
//! The crate knows text, numbers and files. What an event means, whose filter it holds and what may be told is its
//! caller's. It reads no clock and starts no thread.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod error;
mod event;
mod format;
mod key;
pub mod limits;
mod segments;
mod trail;
mod verify;
mod walk;

pub use error::{AuditError, Damage, TrailPlace};
pub use event::{Event, EventWriter, Events, Field, Kind, ValueFate, Values, put_values};
pub use key::{NodeKey, PublicKey};
pub use trail::{Opening, Options, Torn, Trail};
pub use verify::{Anchored, Report, verify};
pub use walk::{Block, Item, Walk};
