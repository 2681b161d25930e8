//! Buffers that are reused. The kernel would have to zero the pages of new buffers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Spare buffers that are not in use.
pub(super) struct Spares {
    buffers: Mutex<Vec<Vec<u8>>>,
    count_max: usize,
    size_max: usize,
}

impl Spares {
    /// Creates a list of up to `count_max` buffers of up to `size_max` bytes.
    pub(super) fn new(count_max: usize, size_max: usize) -> Spares {
        Spares { buffers: Mutex::new(Vec::new()), count_max, size_max }
    }

    /// Returns an empty buffer, which may have any capacity.
    pub(super) fn take(&self) -> Vec<u8> {
        self.buffers().pop().unwrap_or_default()
    }

    /// Clears a buffer and adds it to the list. Drops the buffer if the list is full, or if the buffer has no capacity
    /// or too much.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut buffers = self.buffers();
        if buffers.len() < self.count_max && (1..=self.size_max).contains(&buffer.capacity()) {
            buffers.push(buffer);
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_buffers_up_to_a_maximum_count_are_reused() {
        let spares = Spares::new(2, 100);
        for size in [10, 1_000, 0, 20, 30] {
            spares.give(vec![1; size]);
        }
        let reused: Vec<_> = (0..3).map(|_| spares.take()).collect();
        assert!(reused.iter().all(Vec::is_empty));
        assert!(reused.iter().map(Vec::capacity).eq([20, 10, 0]));
    }
}
