//! Administrators' tools for access rules: translation, explanation, rehearsal.
//!
//! [`translate()`] turns the access rules of OpenLDAP, 389 DS and OpenDJ into Pando's. [`Review`] reads a data
//! directory: it explains a decision, lists former versions of the rules, and rehearses new ones, either on sampled
//! entries or on the operations that an audit trail recorded.
//!
//! The crate only reads. It evaluates rules with `directory`, and opens neither configuration files nor sockets: the
//! caller opens the data directory and the files.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod review;
mod trail_operations;
mod translate;

pub use review::{RecordedRehearsal, Review, ReviewError, TakeExplained};
pub use trail_operations::EventPlace;
pub use translate::{LeftOut, Translation, translate};
