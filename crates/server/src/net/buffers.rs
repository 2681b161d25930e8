//! Buffers of an event loop, lent to connections while they have data to read or write.
//!
//! An idle connection has no buffer. Returned buffers keep their capacity, so a warm loop reads, answers and writes
//! without allocating.

use crate::limits::{BUFFER_KEPT_SIZE_MAX, BUFFER_SIZE, BUFFERS_KEPT_MAX};

/// Free buffers of one event loop.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
}

impl Buffers {
    /// Returns an empty buffer with a capacity of at least [`BUFFER_SIZE`].
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_SIZE))
    }

    /// Takes back a buffer. Frees it if it is too large or if there are enough free buffers.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let fits = (BUFFER_SIZE..=BUFFER_KEPT_SIZE_MAX).contains(&buffer.capacity());
        if fits && self.free.len() < BUFFERS_KEPT_MAX {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_bounded() {
        let mut buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(b"abc");
        buffers.give(buffer);
        assert_eq!(buffers.free.len(), 1);
        assert!(buffers.take().is_empty());
        buffers.give(Vec::with_capacity(BUFFER_KEPT_SIZE_MAX * 2));
        buffers.give(Vec::new());
        assert!(buffers.free.is_empty());
        for _ in 0..BUFFERS_KEPT_MAX + 5 {
            buffers.give(Vec::with_capacity(BUFFER_SIZE));
        }
        assert_eq!(buffers.free.len(), BUFFERS_KEPT_MAX);
    }
}
