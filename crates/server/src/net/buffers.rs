//! Buffers of an event loop. A connection borrows them while it has data to read or write.
//!
//! An idle connection has no buffer. Returned buffers keep their capacity, so that a warm loop reads, answers and
//! writes without allocating. The total size of the free buffers is bounded. The loop frees all of them before it
//! returns memory to the system, because a single buffer would keep a page of the allocator, up to 4 MiB, resident.

use crate::limits::{BUFFER_SIZE, BUFFERS_KEPT_BYTES_MAX};

/// Free buffers of one event loop.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
    /// Total capacity of the free buffers, in bytes.
    bytes: usize,
}

impl Buffers {
    /// Returns an empty buffer with a capacity of at least [`BUFFER_SIZE`].
    pub(crate) fn take(&mut self) -> Vec<u8> {
        match self.free.pop() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(BUFFER_SIZE),
        }
    }

    /// Takes back a buffer. Frees it if it is too small, or if the free buffers would exceed
    /// [`BUFFERS_KEPT_BYTES_MAX`].
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity >= BUFFER_SIZE && capacity <= BUFFERS_KEPT_BYTES_MAX - self.bytes {
            buffer.clear();
            self.bytes += capacity;
            self.free.push(buffer);
        }
    }

    /// Frees all free buffers.
    pub(crate) fn clear(&mut self) {
        *self = Buffers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_buffers_are_empty_and_bounded_in_total() {
        let mut buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(b"abc");
        buffers.give(buffer);
        assert_eq!(buffers.free.len(), 1);
        assert!(buffers.take().is_empty());
        buffers.give(Vec::with_capacity(BUFFERS_KEPT_BYTES_MAX + 1));
        buffers.give(Vec::new());
        assert!(buffers.free.is_empty());
        for _ in 0..BUFFERS_KEPT_BYTES_MAX / BUFFER_SIZE + 5 {
            buffers.give(Vec::with_capacity(BUFFER_SIZE));
        }
        assert_eq!(buffers.bytes, BUFFERS_KEPT_BYTES_MAX);
        assert_eq!(buffers.take().capacity(), BUFFER_SIZE);
        assert_eq!(buffers.bytes, BUFFERS_KEPT_BYTES_MAX - BUFFER_SIZE);
        buffers.clear();
        assert!(buffers.free.is_empty());
    }

    /// Regression: clients that read no answers made the buffers grow. The pool limited the number of its buffers but
    /// not their size. Therefore it kept 16 MiB for each event loop, and the allocator's pages around the buffers.
    #[test]
    fn large_buffers_count_by_their_capacity() {
        let mut buffers = Buffers::default();
        for _ in 0..64 {
            buffers.give(Vec::with_capacity(BUFFERS_KEPT_BYTES_MAX / 4));
        }
        assert_eq!(buffers.free.len(), 4);
    }
}
