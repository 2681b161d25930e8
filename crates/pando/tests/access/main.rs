//! Access rules: how they are written, tried out and explained.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod explain;
mod hidden;
#[path = "../support/hidden_data/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "as for the rest of support")]
mod hidden_data;
mod rehearse;
mod rules;
mod secrets;
mod settings;
mod translate;
