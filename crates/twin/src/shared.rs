//! State that the proxy's threads share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::figures::Figures;

/// State that forwarding, replay and control share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Bytes of exchanges that are in progress or wait for their replay.
    bytes: AtomicUsize,
    bytes_max: usize,
    /// Number of events that are not replayed yet.
    waiting: AtomicUsize,
    /// Reason why the other server lacks some changes; `None` if it has all changes.
    out_of_step: Mutex<Option<String>>,
    figures: Mutex<Figures>,
}

impl Shared {
    pub(crate) fn new(bytes_max: usize) -> Shared {
        Shared {
            bytes: AtomicUsize::new(0),
            bytes_max,
            waiting: AtomicUsize::new(0),
            out_of_step: Mutex::new(None),
            figures: Mutex::new(Figures::default()),
        }
    }

    pub(crate) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why the other server lacks some changes; `None` if it has all changes.
    pub(crate) fn out_of_step(&self) -> Option<String> {
        self.out_of_step.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that a change will not reach the other server.
    pub(crate) fn set_out_of_step(&self, reason: &str) {
        let mut noted = self.out_of_step.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() {
            *noted = Some(reason.to_owned());
        }
    }

    /// Reserves bytes in the queue. Part of the queue is reserved for requests on which later ones depend: changes and
    /// binds. Returns false if too few bytes are free.
    pub(crate) fn reserve(&self, bytes: usize, is_needed: bool) -> bool {
        let max = if is_needed { self.bytes_max } else { self.bytes_max / 2 };
        let reserved = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= max)
        });
        reserved.is_ok()
    }

    /// Releases reserved bytes.
    pub(crate) fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts an event that is put into the queue.
    pub(crate) fn queued(&self) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts an event that is replayed.
    pub(crate) fn replayed(&self) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the number of events that are not replayed yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_queue_is_reserved_for_changes() {
        let shared = Shared::new(100);
        assert!(shared.reserve(50, false) && !shared.reserve(1, false));
        assert!(shared.reserve(50, true) && !shared.reserve(1, true));
        shared.release(60);
        assert_eq!(shared.bytes(), 40);
        assert!(shared.reserve(10, false) && !shared.reserve(1, false));
        shared.set_out_of_step("first");
        shared.set_out_of_step("second");
        assert_eq!(shared.out_of_step().as_deref(), Some("first"));
    }
}
