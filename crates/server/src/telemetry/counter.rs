//! [`Counter`]: a number that one thread increments without a locked instruction.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only one thread writes and that every thread may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Must be called only by the thread that writes the counter.
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Sets the counter to 0. Must be called only by the thread that writes the counter.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
