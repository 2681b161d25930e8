//! Access rules: how they are written, tried out and explained.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod explain;
mod hidden;
mod rehearse;
mod rules;
mod secrets;
mod settings;
mod translate;
