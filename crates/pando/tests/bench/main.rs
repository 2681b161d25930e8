//! `pando bench`: its measurements, compared with the counts of the measured servers.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agents;
mod load_security;
mod peers;
mod report_folder;
mod suite;
mod sweep;
mod workloads;
mod yardstick;
