//! Crashes, power cuts, damage, and shortage of disk space, descriptors, threads and time.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod crash;
mod damage;
mod descriptors;
mod faults;
mod full;
mod interrupted;
mod limits;
mod readiness;
mod restart;
mod salvage;
mod scans;
mod settings_killed;
mod transactions;
