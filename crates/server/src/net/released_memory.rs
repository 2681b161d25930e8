//! Decides when a thread returns freed memory to the system.
//!
//! The allocator keeps a page while one of its blocks is in use. It keeps the free pages of a thread until that thread
//! allocates again. Without a request to return them, memory that a hostile client has released would stay resident.

use std::time::Instant;

use crate::limits::{GIVE_BACK_INTERVAL, GIVE_BACK_MIN, GIVE_BACK_SHARE_MIN};

/// Memory that a thread has released since it last returned memory to the system.
#[derive(Debug)]
pub(crate) struct ReleasedMemory {
    bytes: usize,
    /// Number of released bytes from which the memory is returned.
    bytes_min: usize,
    last_return: Instant,
}

impl ReleasedMemory {
    /// Creates the counter of one of `thread_count` threads, among which [`GIVE_BACK_MIN`] is divided.
    pub(crate) fn new(thread_count: usize, now: Instant) -> ReleasedMemory {
        let bytes_min = (GIVE_BACK_MIN / thread_count.max(1)).max(GIVE_BACK_SHARE_MIN);
        ReleasedMemory { bytes: 0, bytes_min, last_return: now }
    }

    /// Counts released bytes.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Returns true if the thread must return memory now, and restarts the count. A busy thread would soon need the
    /// memory again. Therefore it returns memory at most once in [`GIVE_BACK_INTERVAL`].
    #[inline]
    pub(crate) fn take_due(&mut self, is_idle: bool, now: Instant) -> bool {
        let is_due = self.bytes >= self.bytes_min
            && (is_idle || now.duration_since(self.last_return) >= GIVE_BACK_INTERVAL);
        if is_due {
            (self.bytes, self.last_return) = (0, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_loop_returns_memory_as_soon_as_its_share_is_reached() {
        let now = Instant::now();
        let mut released = ReleasedMemory::new(4, now);
        released.add(GIVE_BACK_MIN / 4 - 1);
        assert!(!released.take_due(true, now), "less than its share");
        released.add(1);
        assert!(released.take_due(true, now));
        assert!(!released.take_due(true, now), "nothing was released since");
    }

    #[test]
    fn a_busy_loop_returns_memory_at_intervals() {
        let now = Instant::now();
        let mut released = ReleasedMemory::new(1, now);
        released.add(GIVE_BACK_MIN);
        assert!(!released.take_due(false, now));
        let later = now + GIVE_BACK_INTERVAL;
        assert!(released.take_due(false, later));
        released.add(GIVE_BACK_MIN);
        assert!(!released.take_due(false, later));
        assert!(released.take_due(false, later + GIVE_BACK_INTERVAL));
    }

    #[test]
    fn one_of_many_loops_returns_no_less_than_a_minimum() {
        let now = Instant::now();
        let mut released = ReleasedMemory::new(1_000, now);
        released.add(GIVE_BACK_SHARE_MIN - 1);
        assert!(!released.take_due(true, now));
        released.add(1);
        assert!(released.take_due(true, now));
    }
}
