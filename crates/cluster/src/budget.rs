//! Limit on the bytes of messages that were read and not applied yet. A reader that reaches the limit waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits::READ_BYTES_MAX;

/// Limit on the bytes of messages that one reader has read and the node has not applied yet.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    is_closed: bool,
}

impl Budget {
    /// Reserves `bytes` for a message. Waits until the budget has room for them. Returns false if the budget is closed.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        // A message of any size is accepted if no other message is pending.
        while !state.is_closed && state.bytes > 0 && state.bytes + bytes > READ_BYTES_MAX {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
        !state.is_closed
    }

    /// Gives the bytes of an applied message back to the budget.
    pub(super) fn release(&self, bytes: usize) {
        self.lock().bytes -= bytes;
        self.changed.notify_all();
    }

    /// Closes the budget: readers stop waiting.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_reader_waits_for_the_budget_or_its_end() {
        let budget = Arc::new(Budget::default());
        assert!(budget.take(READ_BYTES_MAX + 1), "a single reader may take any size");
        let waiting = Arc::clone(&budget);
        let reader = std::thread::spawn(move || [waiting.take(1), waiting.take(READ_BYTES_MAX)]);
        budget.release(READ_BYTES_MAX + 1);
        budget.close();
        let [_, second] = reader.join().unwrap();
        assert!(!second, "the budget is closed");
    }
}
