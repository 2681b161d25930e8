//! Tests of a server in the test's own process: behaviour that depends on its threads, limits and settings. The
//! protocol itself is tested with the real binary, in `crates/pando/tests`.
//!
//! All are one binary, so that it is linked once and tests that wait run in parallel.
#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure we want to see")]

#[path = "../running/mod.rs"]
mod running;

mod large;
mod pages;
mod scans;
mod sessions;
mod start;
