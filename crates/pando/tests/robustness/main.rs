//! Crashes, power cuts, damage, and want of everything: disk, descriptors, threads, time.
//!
//! One binary, so that it is linked once and tests that wait do so at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

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
