//! Comparison of this server's data with the data of its replicas.
//!
//! While there are replicas, the thread that reads the log sets a mark at intervals. A mark is a digest barrier: a
//! comparison slice and the newest position. Another thread computes the digests of the slice at that position. The
//! replicas do the same and send their digests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use directory::{OperationError, Snapshot};
use forwarding::row_digests::{digests, plan};
use replication::Slice;
use replication::comparison::{Mark, Marks, Notice, Verdict};

use super::{Consumer, LogRead};
use crate::limits::{COMPARE_INTERVAL, COMPARE_SLICE_BYTES, DIFFERING_PARTS_LOGGED};
use crate::workers::digest_thread::DigestThread;

/// State of the comparisons.
#[derive(Default)]
pub(super) struct Comparisons {
    shared: Arc<Mutex<State>>,
    reading: Mutex<DigestThread>,
}

#[derive(Default)]
struct State {
    marks: Marks,
    /// Time at which a slice was last planned.
    started: Option<Instant>,
    /// The next slice, for which no mark is set yet.
    planned: Option<Slice>,
    /// Number of comparisons that found a difference.
    differences: u64,
}

impl Comparisons {
    /// Plans the next slice if it is due, or sets the mark of a planned slice. `snapshot` must return the newest data,
    /// because it must contain every record that any replica has.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn go_on(
        &self,
        now: Instant,
        snapshot: impl FnOnce() -> Result<Snapshot, OperationError>,
    ) -> Result<(), OperationError> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.is_busy() {
            return Ok(());
        }
        let mut state = lock(&self.shared);
        let shared = Arc::clone(&self.shared);
        let started = if let Some(slice) = state.planned.take() {
            let snapshot = snapshot()?;
            let mark = Mark { position: snapshot.position()?, slice };
            state.marks.set(mark.clone());
            reading.start(move |alive| match digests(&snapshot, &mark.slice, alive) {
                Ok(parts) => lock(&shared).marks.summed(&mark, parts),
                Err(error) => tracing::error!("the data cannot be compared with that of replicas: {error}"),
            })
        } else {
            if state.started.is_some_and(|started| now.saturating_duration_since(started) < COMPARE_INTERVAL)
            {
                return Ok(());
            }
            state.started = Some(now);
            let (snapshot, from) = (snapshot()?, state.marks.next().to_vec());
            reading.start(move |alive| match plan(&snapshot, from, COMPARE_SLICE_BYTES, alive) {
                Ok(planned) => lock(&shared).planned = Some(planned.slice),
                Err(error) => tracing::error!("the data cannot be compared with that of replicas: {error}"),
            })
        };
        if let Err(error) = started {
            tracing::warn!("the data is not compared with that of replicas: {error}");
        }
        Ok(())
    }

    /// Returns the encoded notice for a replica: the mark to use, and the verdict on its last digests. Logs a
    /// difference between the replica's data and the data of this server.
    pub(super) fn notice(&self, read: &LogRead) -> Vec<u8> {
        let mut state = lock(&self.shared);
        let mark = state.marks.for_replica(read.position).cloned();
        let verdict = read.report.as_ref().map(|report| state.marks.judge(report));
        if let (Some(Verdict::Compared(parts)), Some(report)) = (&verdict, &read.report)
            && !parts.is_empty()
        {
            state.differences += 1;
            let (Consumer { name, .. }, position) = (&read.consumer, report.mark.position);
            let parts: Vec<&str> = parts.iter().take(DIFFERING_PARTS_LOGGED).map(String::as_str).collect();
            tracing::error!(
                "conn={} replica {name:?} has other data at position {position}, in: {}",
                read.address.connection,
                parts.join("; ")
            );
        }
        drop(state);
        Notice { mark, verdict }.encode()
    }

    /// Returns the number of comparisons that found a difference.
    pub(super) fn differences(&self) -> u64 {
        lock(&self.shared).differences
    }

    /// Ends the thread that computes digests.
    pub(super) fn stop(&self) {
        let reading = std::mem::take(&mut *self.reading.lock().unwrap_or_else(PoisonError::into_inner));
        drop(reading);
    }
}

/// A panic under the lock cannot leave half a mark. Therefore a poisoned lock is usable.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
