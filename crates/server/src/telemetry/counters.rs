//! The counters of each event loop, and their sums.
//!
//! Only its own event loop writes a counter. Therefore counting is a plain load and a plain store, without a locked
//! instruction, and no other loop writes to the same cache lines. Readers add up the counters of all loops. They may
//! read values that are slightly old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ldap::{ResponseOp, ResultCode, Tag, request_tag};

use super::client_use::Work;
use super::counter::Counter;
use super::latency::{Latency, LatencyCounters};
use super::refusals::{self, Refusals};

/// Names of the counted kinds of operations, indexed by [`Operation`].
pub(crate) const OPERATION_NAMES: [&str; OPERATIONS] =
    ["bind", "unbind", "search", "modify", "add", "delete", "modifydn", "compare", "abandon", "extended"];

/// Number of the counted kinds of operations.
pub(crate) const OPERATIONS: usize = 10;

/// Lowest result code without a separate counter. This code and all higher codes share one counter.
const CODES: u32 = 124;

/// A kind of operation, as an index into [`OPERATION_NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation(usize);

impl Operation {
    pub(crate) const BIND: Operation = Operation(0);
    pub(crate) const UNBIND: Operation = Operation(1);
    pub(crate) const SEARCH: Operation = Operation(2);
    pub(crate) const MODIFY: Operation = Operation(3);
    pub(crate) const ADD: Operation = Operation(4);
    pub(crate) const DELETE: Operation = Operation(5);
    pub(crate) const MODIFY_DN: Operation = Operation(6);
    pub(crate) const COMPARE: Operation = Operation(7);
    pub(crate) const ABANDON: Operation = Operation(8);
    pub(crate) const EXTENDED: Operation = Operation(9);

    /// Returns the kind of the operation that a request with this tag starts; `None` if the tag is unknown.
    pub(crate) fn of(tag: Tag) -> Option<Operation> {
        Some(match tag {
            request_tag::BIND => Operation::BIND,
            request_tag::UNBIND => Operation::UNBIND,
            request_tag::SEARCH => Operation::SEARCH,
            request_tag::MODIFY => Operation::MODIFY,
            request_tag::ADD => Operation::ADD,
            request_tag::DELETE => Operation::DELETE,
            request_tag::MODIFY_DN => Operation::MODIFY_DN,
            request_tag::COMPARE => Operation::COMPARE,
            request_tag::ABANDON => Operation::ABANDON,
            request_tag::EXTENDED => Operation::EXTENDED,
            _ => return None,
        })
    }

    /// Returns the type of the final response to an operation of this kind; `None` for Abandon and Unbind.
    pub(crate) fn response(self) -> Option<ResponseOp> {
        Some(match self {
            Operation::BIND => ResponseOp::Bind,
            Operation::SEARCH => ResponseOp::SearchDone,
            Operation::MODIFY => ResponseOp::Modify,
            Operation::ADD => ResponseOp::Add,
            Operation::DELETE => ResponseOp::Delete,
            Operation::MODIFY_DN => ResponseOp::ModifyDn,
            Operation::COMPARE => ResponseOp::Compare,
            Operation::EXTENDED => ResponseOp::Extended,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        OPERATION_NAMES.get(self.0).copied().unwrap_or_default()
    }
}

/// The counters of one event loop.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// The counters of each kind of operation.
    kinds: [KindCounters; OPERATIONS],
    /// Number of open connections. The acceptor increments it, and reads it to choose an event loop. The event loop
    /// decrements it.
    connections: AtomicU64,
    /// Number of operations that began in the current turn and have already finished.
    in_turn: Counter,
    /// Number of search result entries that were sent.
    pub(crate) entries: Counter,
    /// Number of entries that searches examined. A search is counted when it finishes.
    pub(crate) examined: Counter,
    /// Number of finished operations.
    finished: Counter,
    /// Processor time in microseconds: of all turns, and of the scan threads for the searches that have finished.
    pub(crate) micros: Counter,
    /// Number of received bytes.
    pub(crate) bytes_in: Counter,
    /// Number of sent bytes.
    pub(crate) bytes_out: Counter,
    /// Operations that were refused with unwillingToPerform, by cause.
    refusals: Refusals,
}

/// The counters of one kind of operation.
#[derive(Debug)]
struct KindCounters {
    received: Counter,
    /// Number of finished operations by result code. The last counter is for [`CODES`] and all higher codes.
    completed: [Counter; CODES as usize + 1],
    /// The same as [`Counters::in_turn`] for operations of this kind.
    in_turn: Counter,
    latency: LatencyCounters,
}

impl Default for KindCounters {
    fn default() -> KindCounters {
        KindCounters {
            received: Counter::default(),
            completed: std::array::from_fn(|_| Counter::default()),
            in_turn: Counter::default(),
            latency: LatencyCounters::default(),
        }
    }
}

impl Counters {
    /// Counts a connection that the acceptor passes to this event loop.
    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that the event loop has closed.
    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of open connections.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts a received request.
    pub(crate) fn received(&self, operation: Operation) {
        if let Some(kind) = self.kinds.get(operation.0) {
            kind.received.add(1);
        }
    }

    /// Counts a finished operation. `waited` is the time from the arrival of the request to the start of the event
    /// loop's current pass. It is zero if the operation began in the current turn. In that case,
    /// [`turn_ended`](Counters::turn_ended) adds its time.
    pub(crate) fn completed(&self, operation: Operation, code: ResultCode, waited: Duration) {
        let Some(kind) = self.kinds.get(operation.0) else { return };
        if let Some(counter) = kind.completed.get(code.0.min(CODES) as usize) {
            counter.add(1);
        }
        self.finished.add(1);
        if waited.is_zero() {
            kind.in_turn.add(1);
            self.in_turn.add(1);
        } else {
            kind.latency.add(1, waited);
        }
    }

    /// Counts a refusal by its cause, which is determined from the diagnostic text. Does nothing if `code` is not
    /// unwillingToPerform.
    #[inline]
    pub(crate) fn refused(&self, code: ResultCode, text: &str) {
        if code == ResultCode::UNWILLING_TO_PERFORM {
            self.refusals.add(text);
        }
    }

    /// Adds the time of the operations that began and finished in the connection's turn that ends now. `began` is the
    /// start of the event loop's current pass.
    #[inline]
    pub(crate) fn turn_ended(&self, began: Instant, now: Instant) {
        if self.in_turn.value() > 0 {
            self.count_turn(now.saturating_duration_since(began));
        }
    }

    /// Returns the sum of all work of the event loop.
    pub(crate) fn work(&self) -> Work {
        Work {
            micros: self.micros.value(),
            operations: self.finished.value(),
            examined: self.examined.value(),
            bytes_received: self.bytes_in.value(),
            bytes_sent: self.bytes_out.value(),
        }
    }

    fn count_turn(&self, took: Duration) {
        self.in_turn.clear();
        for kind in &self.kinds {
            let operations = kind.in_turn.value();
            if operations > 0 {
                kind.in_turn.clear();
                kind.latency.add(operations, took);
            }
        }
    }
}

/// Sums for one kind of operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OperationTotal {
    /// Name of the kind of operation.
    pub(crate) name: &'static str,
    /// Number of received requests.
    pub(crate) received: u64,
    /// The result codes that occurred, and how often. `None` stands for the codes that have one common counter.
    pub(crate) results: Vec<(Option<ResultCode>, u64)>,
    /// Durations of the finished operations. A duration begins with the pass of the event loop in which the request
    /// arrived, and ends with the answer.
    pub(crate) latency: Latency,
}

/// Returns the sums over all event loops for each kind of operation.
pub(crate) fn operation_totals(loops: &[Arc<Counters>]) -> Vec<OperationTotal> {
    let of_kind = |(index, name): (usize, &'static str)| {
        let kinds = || loops.iter().filter_map(|counters| counters.kinds.get(index));
        let received = kinds().map(|kind| kind.received.value()).sum();
        let results = (0..=CODES).filter_map(|code| {
            let count =
                kinds().filter_map(|kind| kind.completed.get(code as usize)).map(Counter::value).sum();
            let code = (code < CODES).then_some(ResultCode(code));
            (count > 0).then_some((code, count))
        });
        let latency = Latency::of(kinds().map(|kind| &kind.latency));
        OperationTotal { name, received, results: results.collect(), latency }
    };
    OPERATION_NAMES.into_iter().enumerate().map(of_kind).collect()
}

/// Returns the numbers of refusals with unwillingToPerform in all event loops, by cause. Omits causes that did not
/// occur.
pub(crate) fn refusal_totals(loops: &[Arc<Counters>]) -> Vec<(String, u64)> {
    refusals::totals(&loops.iter().map(|counters| &counters.refusals).collect::<Vec<_>>())
}

/// Returns the sum of one counter over all event loops.
pub(crate) fn total(loops: &[Arc<Counters>], counter: impl Fn(&Counters) -> &Counter) -> u64 {
    loops.iter().map(|counters| counter(counters).value()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_summed_over_loops_and_combine_large_result_codes() {
        let loops = [Arc::new(Counters::default()), Arc::new(Counters::default())];
        for counters in &loops {
            counters.received(Operation::SEARCH);
            counters.completed(Operation::SEARCH, ResultCode::SUCCESS, Duration::ZERO);
        }
        loops[1].completed(Operation::SEARCH, ResultCode::E_SYNC_REFRESH_REQUIRED, Duration::from_secs(1));
        let search = &operation_totals(&loops)[2];
        assert_eq!((search.name, search.received), ("search", 2));
        assert_eq!(search.results, [(Some(ResultCode::SUCCESS), 2), (None, 1)]);
        assert_eq!(search.latency.count(), 1, "two turns have not ended");
        let now = Instant::now();
        loops[0].turn_ended(now, now);
        loops[0].turn_ended(now, now);
        assert_eq!(operation_totals(&loops)[2].latency.count(), 2);
        loops[1].turn_ended(now, now);
        assert_eq!(operation_totals(&loops)[2].latency.count(), 3);
        loops[0].bytes_in.add(3);
        loops[1].bytes_in.add(4);
        assert_eq!(total(&loops, |counters| &counters.bytes_in), 7);
    }
}
