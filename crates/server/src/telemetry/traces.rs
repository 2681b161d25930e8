//! The choice of the operations to trace, and their queue to the thread that sends traces.
//!
//! At the start of an operation the event loop decides whether to sample it, and at the end whether it was slow. It
//! adds sampled and slow operations to the queue, as numbers and the shape of the filter. The thread makes spans from
//! the operations. The size of the queue in bytes is bounded. If the queue is full because the receiver does not
//! answer, further operations are only counted as lost.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use replication::OperationId;
use sha2::{Digest as _, Sha256};

use crate::config::traces::TraceSettings;
use crate::limits::traces::{TRACE_BATCH, TRACE_GATHER, TRACE_WAITING_BYTES_MAX};

/// A finished operation to trace. It contains no values of entries, no names and no addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TracedOperation {
    /// Name of the operation.
    pub(crate) name: &'static str,
    /// Time at which the operation began, in microseconds since 1970.
    pub(crate) started_micros: u64,
    pub(crate) took_micros: u64,
    /// Result code of the operation.
    pub(crate) code: u32,
    /// Number of the connection; `None` if the client is connected to another server. The same applies to `message_id`.
    pub(crate) connection: Option<u64>,
    pub(crate) message_id: Option<u64>,
    /// Number of RDNs in the DN that the operation applies to.
    pub(crate) depth: Option<u64>,
    /// Number of entries that the search returned.
    pub(crate) entries: Option<u64>,
    /// Number of entries that the search examined.
    pub(crate) examined: Option<u64>,
    /// Scope of the search.
    pub(crate) scope: Option<&'static str>,
    /// Shape of the search's filter. It contains no values.
    pub(crate) filter: Option<String>,
    /// Plan of the search, if it was slow. It contains no values.
    pub(crate) plan: Option<String>,
    /// OID of the extended operation.
    pub(crate) oid: Option<String>,
    /// Method of the bind: `simple`, or the name of the SASL mechanism if this server knows it.
    pub(crate) method: Option<String>,
    /// The stages of the operation: the name, the begin and the end. Times are in microseconds after the start of the
    /// operation.
    pub(crate) stages: Vec<(&'static str, u64, u64)>,
    /// Link to the trace of the server that forwarded the operation to this server.
    pub(crate) received: Option<TraceLink>,
    /// Link to the trace of the server to which this server forwarded the operation.
    pub(crate) forwarded: Option<TraceLink>,
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

/// A stage of an operation: its name and its end. A stage begins at the end of the previous stage. The first stage
/// begins with the operation.
pub(crate) type Stage = (&'static str, Instant);

/// Returns the name, the begin and the end of each stage. Times are in microseconds after `started`.
pub(crate) fn spans_of(started: Instant, stages: &[Stage]) -> Vec<(&'static str, u64, u64)> {
    let ends = stages.iter().map(|(_, end)| {
        u64::try_from(end.saturating_duration_since(started).as_micros()).unwrap_or(u64::MAX)
    });
    let mut begin = 0;
    let span = |((name, _), end): (&Stage, u64)| {
        let (first, last) = (begin, end.max(begin));
        begin = last;
        (*name, first, last)
    };
    stages.iter().zip(ends).map(span).collect()
}

/// Name of the stage in which another server makes the change.
pub(crate) const FORWARDING: &str = "forward to the writer";

/// The stages of a change outside of the event loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeStages {
    pub(crate) stages: [Stage; 3],
    /// The id under which the change was forwarded; `None` if it was not forwarded.
    pub(crate) forwarded: Option<OperationId>,
}

impl ChangeStages {
    /// Returns the stages of a change that was sent to another server. `decided` is the time of that server's answer,
    /// and `shown` the time from which this server's reads show the change.
    pub(crate) fn forwarded(operation: OperationId, [sent, decided, shown]: [Instant; 3]) -> ChangeStages {
        let stages = [("wait to be forwarded", sent), (FORWARDING, decided), ("wait for the records", shown)];
        ChangeStages { stages, forwarded: Some(operation) }
    }

    /// Returns the stages of a change that this cluster node, as the writer, made and appended to the log.
    #[cfg(feature = "kafka")]
    pub(crate) fn of_node([started, decided, appended]: [Instant; 3]) -> ChangeStages {
        let stages = [("wait for the writer", started), ("decide", decided), ("append to the log", appended)];
        ChangeStages { stages, forwarded: None }
    }
}

/// The ids that make the spans of a forwarded operation one trace. The server that forwards the operation and the
/// server that makes the change both derive these ids from the generation of the data and the id of the operation.
/// Therefore no message contains these ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceLink {
    pub(crate) trace: [u8; 16],
    /// Id of the span of the stage [`FORWARDING`].
    pub(crate) span: [u8; 8],
}

impl TraceLink {
    /// Returns the link for an operation. `generation` identifies the data that the operation changes.
    pub(crate) fn of(generation: &[u8; 16], operation: OperationId) -> TraceLink {
        let hash = Sha256::new()
            .chain_update(b"pando trace")
            .chain_update(generation)
            .chain_update(operation.node.0.to_be_bytes())
            .chain_update(operation.incarnation.to_be_bytes())
            .chain_update(operation.sequence.to_be_bytes())
            .finalize();
        let mut link = TraceLink { trace: [0; 16], span: [0; 8] };
        link.trace.iter_mut().chain(&mut link.span).zip(hash).for_each(|(to, from)| *to = from);
        link
    }
}

/// Times of the stages of a batch of changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTimes {
    /// Time at which the writer took the batch from its queue.
    pub(crate) dequeued: Instant,
    /// Time at which the writer had determined the results of all changes of the batch.
    pub(crate) decided: Instant,
    /// Time at which the batch was durable or had failed.
    pub(crate) committed: Instant,
}

impl WriteTimes {
    /// Returns the times of a batch that the writer takes from its queue now.
    pub(crate) fn begin() -> WriteTimes {
        let now = Instant::now();
        WriteTimes { dequeued: now, decided: now, committed: now }
    }
}

impl From<WriteTimes> for ChangeStages {
    fn from(WriteTimes { dequeued, decided, committed }: WriteTimes) -> ChangeStages {
        let stages = [("wait for the writer", dequeued), ("decide", decided), ("sync the log", committed)];
        ChangeStages { stages, forwarded: None }
    }
}

/// The queue of finished operations to the thread that sends traces.
pub(crate) struct TraceFeed {
    sampled: u64,
    slow: Option<Duration>,
    /// Whether this server forwards changes to another server.
    pub(crate) forwards: bool,
    /// State of the generator of pseudo-random numbers, which chooses the sampled operations.
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

/// Figures of the traces for the monitor.
#[derive(Debug, Default)]
pub(crate) struct TraceFigures {
    /// Number of operations that the receiver has accepted.
    pub(crate) sent: AtomicU64,
    /// Number of operations that were chosen but could not be sent.
    pub(crate) dropped: AtomicU64,
    /// Whether the receiver is currently unreachable or refuses traces.
    pub(crate) is_failing: AtomicBool,
}

impl TraceFeed {
    /// Creates an empty queue. `forwards` is true if this server forwards changes to another server.
    pub(crate) fn new(settings: &TraceSettings, forwards: bool, seed: u64) -> TraceFeed {
        TraceFeed {
            sampled: settings.sampled,
            slow: settings.slow,
            forwards,
            chooser: AtomicU64::new(seed),
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            waiting_bytes: AtomicUsize::new(0),
            figures: TraceFigures::default(),
        }
    }

    /// Returns true if an operation that begins now must be sampled.
    pub(crate) fn samples(&self) -> bool {
        match self.sampled {
            0 => false,
            u64::MAX => true,
            sampled => scattered(self.chooser.fetch_add(1, Ordering::Relaxed)) < sampled,
        }
    }

    /// Returns true if a forwarded operation must be sampled. Servers with the same sampled share of operations return
    /// the same result.
    pub(crate) fn samples_link(&self, link: &TraceLink) -> bool {
        let [.., a, b, c, d, e, f, g, h] = link.trace;
        match self.sampled {
            u64::MAX => true,
            sampled => u64::from_be_bytes([a, b, c, d, e, f, g, h]) < sampled,
        }
    }

    /// Returns true if slow operations are traced. In that case the caller must check the duration of each operation.
    pub(crate) fn watches_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// Returns true if an operation of this duration is slow.
    pub(crate) fn is_slow(&self, took_micros: u64) -> bool {
        self.slow.is_some_and(|slow| u128::from(took_micros) >= slow.as_micros())
    }

    /// Returns true if the queue has room for another operation. Otherwise counts one lost operation.
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

    /// Waits until the queue contains an operation or is closed, and then a short time for further operations. Returns
    /// at most one batch of operations, and whether the queue is closed.
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

    /// Waits for `time`. Returns earlier if the queue is closed.
    pub(crate) fn pause(&self, time: Duration) {
        let is_open = |waiting: &mut Waiting| !waiting.is_closed;
        drop(self.arrived.wait_timeout_while(self.lock(), time, is_open));
    }

    /// Closes the queue. The thread then sends the operations in the queue and ends.
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
        // Every update under the lock is one step. Therefore a poisoned lock is usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a pseudo-random number. Different inputs have different results. This is the output function of SplitMix64.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use replication::NodeId;

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
        TraceFeed::new(&settings, false, 7)
    }

    #[test]
    fn two_servers_sample_the_same_forwarded_operations() {
        let link = |generation, sequence| {
            let operation = OperationId { node: NodeId(1), incarnation: 2, sequence };
            TraceLink::of(&[generation; 16], operation)
        };
        assert_eq!(link(1, 5), link(1, 5));
        assert!(link(1, 5).trace != link(1, 6).trace && link(1, 5).trace != link(2, 5).trace);
        let (one, other) = (feed(u64::MAX / 10, None), feed(u64::MAX / 10, None));
        let sampled = |feed: &TraceFeed| -> Vec<u64> {
            (0..10_000).filter(|sequence| feed.samples_link(&link(1, *sequence))).collect()
        };
        assert_eq!(sampled(&one), sampled(&other));
        assert!((850..1_150).contains(&sampled(&one).len()), "{}", sampled(&one).len());
        assert!(!feed(0, None).samples_link(&link(1, 1)) && feed(u64::MAX, None).samples_link(&link(1, 1)));
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
