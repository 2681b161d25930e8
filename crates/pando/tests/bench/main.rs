//! `pando bench`: what it measures, and what servers themselves count.
//!
//! One binary, so that it is linked once and tests that wait do so at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod load_security;
mod peers;
mod report_folder;
mod suite;
mod sweep;
mod workloads;
mod yardstick;
