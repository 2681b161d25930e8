//! Sampling of operations to trace, and the queue of finished operations for the thread that sends them.
//!
//! When an operation begins, the event loop decides whether it is sampled. When it ends, the event loop decides whether
//! it was slow. The loop stores numbers and the shape of the filter, from which the thread makes spans. The queue is
//! bounded in bytes. If it is full because the receiver does not answer, operations are only counted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::traces::TraceSettings;
use crate::limits::traces::{TRACE_BATCH, TRACE_GATHER, TRACE_WAITING_BYTES_MAX};

/// A finished operation. Contains no values of entries, no names and no addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TracedOperation {
    /// Name of the operation.
    pub(crate) name: &'static str,
    /// Start, in microseconds since 1970.
    pub(crate) started_micros: u64,
    pub(crate) took_micros: u64,
    /// Result code of the operation.
    pub(crate) code: u32,
    pub(crate) connection: u64,
    pub(crate) message_id: u64,
    /// Number of RDNs in the DN of the entry or the base.
    pub(crate) depth: Option<u64>,
    /// Entries that a search returned.
    pub(crate) entries: Option<u64>,
    /// Entries that a search examined.
    pub(crate) examined: Option<u64>,
    /// Scope of a search.
    pub(crate) scope: Option<&'static str>,
    /// Shape of the filter of a search, without values.
    pub(crate) filter: Option<String>,
    /// Plan of a slow search, without values.
    pub(crate) plan: Option<String>,
    /// OID of an extended operation.
    pub(crate) oid: Option<String>,
    /// Method of a bind: `simple`, or the mechanism, if this server knows it.
    pub(crate) method: Option<String>,
    /// Stages with known times: the name, and the first and last microsecond after the start.
    pub(crate) stages: Vec<(&'static str, u64, u64)>,
    /// Whether the operation was slow.
    pub(crate) is_slow: bool,
}

impl TracedOperation {
    fn bytes(&self) -> usize {
        let texts = [&self.filter, &self.plan, &self.oid, &self.method].into_iter().flatten();
        size_of::<TracedOperation>()
            + texts.map(String::len).sum::<usize>()
            + self.stages.len() * size_of::<(&'static str, u64, u64)>()
    }
}

/// A stage of an operation: its name and its end. It begins at the end of the stage before it, or with the operation.
pub(crate) type Stage = (&'static str, Instant);

/// Stages that an operation spends with other threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeStages {
    pub(crate) stages: [Stage; 3],
}

/// Times of a batch of changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTimes {
    /// Time at which the writer took the batch from its queue.
    pub(crate) taken: Instant,
    /// Time at which all changes of the batch were decided.
    pub(crate) decided: Instant,
    /// Time at which the batch was durable, or had failed.
    pub(crate) committed: Instant,
}

impl WriteTimes {
    /// Returns the times of a batch that is taken from the queue now.
    pub(crate) fn begin() -> WriteTimes {
        let now = Instant::now();
        WriteTimes { taken: now, decided: now, committed: now }
    }
}

impl From<WriteTimes> for ChangeStages {
    fn from(WriteTimes { taken, decided, committed }: WriteTimes) -> ChangeStages {
        let stages = [("wait for the writer", taken), ("decide", decided), ("sync the log", committed)];
        ChangeStages { stages }
    }
}

/// Queue of operations for the thread that sends traces.
pub(crate) struct TraceFeed {
    sampled: u64,
    slow: Option<Duration>,
    /// State of the pseudo-random numbers for sampling.
    chooser: AtomicU64,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    waiting_bytes: AtomicUsize,
    pub(crate) figures: TraceFigures,
}

#[derive(Default)]
struct Waiting {
    operations: Vec<TracedOperation>,
    is_closed: bool,
}

/// Figures about traces for the monitor.
#[derive(Debug, Default)]
pub(crate) struct TraceFigures {
    /// Number of operations that the receiver has accepted.
    pub(crate) sent: AtomicU64,
    /// Number of operations that should have been traced but were lost.
    pub(crate) dropped: AtomicU64,
    /// Whether the receiver cannot be reached now, or refuses traces.
    pub(crate) is_failing: AtomicBool,
}

impl TraceFeed {
    pub(crate) fn new(settings: &TraceSettings, seed: u64) -> TraceFeed {
        TraceFeed {
            sampled: settings.sampled,
            slow: settings.slow,
            chooser: AtomicU64::new(seed),
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            waiting_bytes: AtomicUsize::new(0),
            figures: TraceFigures::default(),
        }
    }

    /// Decides whether the operation that begins now is sampled.
    pub(crate) fn samples(&self) -> bool {
        match self.sampled {
            0 => false,
            u64::MAX => true,
            sampled => scattered(self.chooser.fetch_add(1, Ordering::Relaxed)) < sampled,
        }
    }

    /// Returns true if slow operations are traced, so that the duration of each operation must be checked.
    pub(crate) fn watches_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// Returns true if an operation of this duration is slow.
    pub(crate) fn is_slow(&self, took_micros: u64) -> bool {
        self.slow.is_some_and(|slow| u128::from(took_micros) >= slow.as_micros())
    }

    /// Returns true if there is room for another operation. Otherwise counts a lost operation.
    pub(crate) fn has_room(&self) -> bool {
        let has_room = self.waiting_bytes.load(Ordering::Relaxed) < TRACE_WAITING_BYTES_MAX;
        if !has_room {
            self.lost(1);
        }
        has_room
    }

    /// Adds a finished operation to the queue.
    pub(crate) fn push(&self, operation: TracedOperation) {
        self.waiting_bytes.fetch_add(operation.bytes(), Ordering::Relaxed);
        let mut waiting = self.lock();
        waiting.operations.push(operation);
        let count = waiting.operations.len();
        drop(waiting);
        if count == 1 || count == TRACE_BATCH {
            self.arrived.notify_one();
        }
    }

    /// Waits for operations, and then for a short time for more. Returns them, up to a batch, and whether the queue is
    /// closed.
    pub(crate) fn fetch(&self) -> (Vec<TracedOperation>, bool) {
        let is_idle = |waiting: &mut Waiting| waiting.operations.is_empty() && !waiting.is_closed;
        let is_small = |waiting: &mut Waiting| waiting.operations.len() < TRACE_BATCH && !waiting.is_closed;
        let waiting = self.arrived.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
        let gathered = self.arrived.wait_timeout_while(waiting, TRACE_GATHER, is_small);
        let mut waiting = gathered.unwrap_or_else(PoisonError::into_inner).0;
        let count = waiting.operations.len().min(TRACE_BATCH);
        let batch: Vec<TracedOperation> = waiting.operations.drain(..count).collect();
        let is_closed = waiting.is_closed;
        drop(waiting);
        self.waiting_bytes.fetch_sub(batch.iter().map(TracedOperation::bytes).sum(), Ordering::Relaxed);
        (batch, is_closed)
    }

    /// Waits for this time, or until the queue is closed.
    pub(crate) fn pause(&self, time: Duration) {
        let is_open = |waiting: &mut Waiting| !waiting.is_closed;
        drop(self.arrived.wait_timeout_while(self.lock(), time, is_open));
    }

    /// Closes the queue, so that the thread sends the queued operations and ends.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Counts operations that the receiver has accepted.
    pub(crate) fn sent(&self, count: usize) {
        self.figures.sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts lost operations.
    pub(crate) fn lost(&self, count: usize) {
        self.figures.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every update under the lock is a single step, so a poisoned lock is usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a pseudo-random number, a different one for each input (the output function of SplitMix64).
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(sampled: u64, slow: Option<Duration>) -> TraceFeed {
        let settings = TraceSettings {
            endpoint: "http://127.0.0.1/".parse().unwrap(),
            headers: Vec::new(),
            header_file: None,
            sampled,
            slow,
            service: "pando".to_owned(),
        };
        TraceFeed::new(&settings, 7)
    }

    #[test]
    fn a_share_of_operations_is_sampled() {
        let count = |sampled| {
            let feed = feed(sampled, None);
            (0..10_000).filter(|_| feed.samples()).count()
        };
        assert_eq!((count(0), count(u64::MAX)), (0, 10_000));
        let tenth = count(u64::MAX / 10);
        assert!((850..1_150).contains(&tenth), "{tenth}");
    }

    #[test]
    fn the_queue_is_bounded_and_counts_lost_operations() {
        let feed = feed(u64::MAX, Some(Duration::from_millis(5)));
        assert!(feed.is_slow(5_000) && !feed.is_slow(4_999));
        let operation = TracedOperation { plan: Some("x".repeat(1 << 20)), ..TracedOperation::default() };
        let mut held = 0;
        while feed.has_room() {
            feed.push(operation.clone());
            held += 1;
        }
        assert!(held <= TRACE_WAITING_BYTES_MAX / (1 << 20) + 1, "{held}");
        assert_eq!(feed.figures.dropped.load(Ordering::Relaxed), 1);
        feed.close();
        let (batch, is_closed) = feed.fetch();
        assert_eq!((batch.len(), is_closed), (held, true));
        assert!(feed.has_room());
        assert_eq!(feed.waiting_bytes.load(Ordering::Relaxed), 0);
    }
}
