//! Tools for administrators of access rules: translation, explanation and rehearsal.
//!
//! [`translate()`] translates access rules of OpenLDAP, 389 DS and OpenDJ. [`Review`] reads a data directory. It
//! explains a decision, lists former versions of the rules, and rehearses new rules: either on sampled entries, or on
//! the operations that an audit trail recorded.
//!
//! This crate only reads. It evaluates rules with the crate `directory`. The caller opens the data directory and
//! configuration files.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod review;
mod trail_operations;
mod translate;

pub use review::{RecordedRehearsal, Review, ReviewError, TakeExplained};
pub use trail_operations::EventPlace;
pub use translate::{OmittedClause, Translation, translate};
