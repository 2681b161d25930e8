//! The thread that measures the sizes of indexes for readers of `cn=monitor`.
//!
//! A measurement reads a sample of the entries. Reading the sample may take longer than an event loop may work at a
//! time. Therefore a reader receives the last sizes, and requests a measurement if they are old. Without readers
//! nothing is measured. Measurements take at most about a hundredth of the thread's time.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use directory::Directory;
use directory::index::sizes::IndexSizes;
use system::lower_priority;

use crate::limits::{BACKUP_NICENESS, INDEX_SAMPLE, INDEX_SIZES_FRESH, INDEX_SIZES_PAUSE};
use crate::workers::service::Service;

/// The last measured sizes, and the request for the next measurement.
#[derive(Default)]
pub(crate) struct MeasuredIndexes {
    state: Mutex<State>,
    ordered: Condvar,
}

#[derive(Default)]
struct State {
    sizes: Option<Arc<IndexSizes>>,
    /// Time from which a reader may request the next measurement; `None` before the first one.
    next: Option<Instant>,
    is_wanted: bool,
    has_stopped: bool,
}

impl MeasuredIndexes {
    /// Returns the last sizes; `None` before the first measurement. Requests a measurement if the sizes are old.
    pub(crate) fn read(&self, now: Instant) -> Option<Arc<IndexSizes>> {
        let mut state = self.lock();
        if !state.is_wanted && state.next.is_none_or(|next| now >= next) {
            state.is_wanted = true;
            self.ordered.notify_one();
        }
        state.sizes.clone()
    }

    /// Waits until a measurement is requested. Returns false if the thread must stop.
    fn wait(&self) -> bool {
        let state = self.lock();
        let waits = |state: &mut State| !state.is_wanted && !state.has_stopped;
        let state = self.ordered.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        !state.has_stopped
    }

    /// Stores the result of a measurement. `None` means that the measurement failed. In that case the last sizes
    /// remain.
    fn store(&self, sizes: Option<IndexSizes>, began: Instant, now: Instant) {
        let pause = now.saturating_duration_since(began).saturating_mul(INDEX_SIZES_PAUSE);
        let mut state = self.lock();
        state.is_wanted = false;
        state.next = Some(now + pause.clamp(INDEX_SIZES_FRESH, Duration::from_secs(3_600)));
        if let Some(sizes) = sizes {
            state.sizes = Some(Arc::new(sizes));
        }
    }

    fn stop(&self) {
        self.lock().has_stopped = true;
        self.ordered.notify_one();
    }

    /// Each step leaves the state consistent. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(measured: &Arc<MeasuredIndexes>, directory: &Arc<Directory>) -> io::Result<Service> {
    let (own, directory) = (Arc::clone(measured), Arc::downgrade(directory));
    let stop = Arc::clone(measured);
    Service::start("pando-index-sizes", move || run(&own, &directory), move || stop.stop())
}

fn run(measured: &MeasuredIndexes, directory: &Weak<Directory>) {
    lower_priority(BACKUP_NICENESS, "the measurement of indexes has no low priority");
    while measured.wait() {
        let Some(directory) = directory.upgrade() else { return };
        let began = Instant::now();
        let sizes = directory.index_sizes(INDEX_SAMPLE);
        let sizes = sizes.map_err(|error| tracing::warn!(%error, "the sizes of indexes are not known")).ok();
        measured.store(sizes, began, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_request_a_measurement_if_the_last_one_is_old() {
        let measured = MeasuredIndexes::default();
        let start = Instant::now();
        assert!(measured.read(start).is_none() && measured.wait(), "the first reader asks");
        measured.store(Some(IndexSizes { entries: 7, ..IndexSizes::default() }), start, start);
        let is_wanted = || measured.lock().is_wanted;
        assert_eq!(measured.read(start).map(|sizes| sizes.entries), Some(7));
        assert!(!is_wanted(), "they are fresh");
        // A measurement took one second. The next measurement may follow after a hundred seconds.
        measured.store(None, start, start + Duration::from_secs(1));
        assert!(measured.read(start + Duration::from_secs(100)).is_some() && !is_wanted());
        assert!(measured.read(start + Duration::from_secs(101)).is_some() && is_wanted());
        measured.stop();
        assert!(!measured.wait());
    }
}
