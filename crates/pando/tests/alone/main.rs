//! Tests that must run one at a time, because another test would disturb their measurements or their files.
//!
//! These tests are one binary, so that it is linked once. Cargo runs no other binary at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bind_timing;
#[cfg(feature = "kafka")]
mod cluster_smoke;
mod cold;
mod guessing;
mod needs;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this binary runs. The test holds the guard until its end.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
