//! Tests of a server in the process of the test. They test behaviour that depends on its threads, limits and settings.
//! The protocol itself is tested with the real program, in `crates/pando/tests`.
//!
//! All of these tests are in one program. It is linked only once, and tests that wait run in parallel.
#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure we want to see")]

#[path = "../running/mod.rs"]
mod running;

mod large;
mod pages;
mod scans;
mod sessions;
mod start;
