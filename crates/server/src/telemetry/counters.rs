//! What each event loop counts, and how it is added up.
//!
//! A counter has one writer, its event loop, so that counting is a plain load and store in its own cache line, without
//! a locked instruction; readers add up all loops and see values that are a moment old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ldap::{ResponseOp, ResultCode, Tag, request_tag};

/// The operations that are counted, in the order of their indexes.
pub(crate) const OPERATION_NAMES: [&str; OPERATIONS] =
    ["bind", "unbind", "search", "modify", "add", "delete", "modifydn", "compare", "abandon", "extended"];

/// Number of kinds of operations.
pub(crate) const OPERATIONS: usize = 10;

/// Result codes at or above this are counted together under it.
const CODES: usize = 124;

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

    /// The kind that a request's tag announces.
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

    /// What ends an operation of this kind; abandon and unbind have no response.
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
        OPERATION_NAMES[self.0]
    }
}

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the counter's own thread may.
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one event loop.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// Requests received, by kind.
    pub(crate) received: [Counter; OPERATIONS],
    /// Operations finished, by kind and result code.
    completed: Vec<[Counter; CODES + 1]>,
    /// Connections open now: raised by the acceptor, which balances by it, and lowered by the loop.
    connections: AtomicU64,
    /// Search result entries sent.
    pub(crate) entries: Counter,
    /// Entries that searches, now finished, have looked at.
    pub(crate) examined: Counter,
    /// Bytes received.
    pub(crate) bytes_in: Counter,
    /// Bytes sent.
    pub(crate) bytes_out: Counter,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            received: std::array::from_fn(|_| Counter::default()),
            completed: (0..OPERATIONS).map(|_| std::array::from_fn(|_| Counter::default())).collect(),
            connections: AtomicU64::new(0),
            entries: Counter::default(),
            examined: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
        }
    }
}

impl Counters {
    /// The acceptor gives this loop a connection.
    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// The loop has closed a connection.
    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Connections open now.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts a request.
    pub(crate) fn received(&self, operation: Operation) {
        self.received[operation.0].add(1);
    }

    /// Counts an answer.
    pub(crate) fn completed(&self, operation: Operation, code: ResultCode) {
        self.completed[operation.0][(code.0 as usize).min(CODES)].add(1);
    }
}

/// Finished operations of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OperationTotal {
    /// The kind's name.
    pub(crate) name: &'static str,
    /// Requests received.
    pub(crate) received: u64,
    /// Result codes that occurred, with how often; `None` is everything above the named ones.
    pub(crate) results: Vec<(Option<ResultCode>, u64)>,
}

/// Adds up the operations of all loops.
pub(crate) fn operation_totals(loops: &[Arc<Counters>]) -> Vec<OperationTotal> {
    let of_kind = |index: usize| {
        let received = loops.iter().map(|counters| counters.received[index].value()).sum();
        let results = (0..=CODES).filter_map(|code| {
            let count = loops.iter().map(|counters| counters.completed[index][code].value()).sum();
            let name = (code < CODES).then_some(ResultCode(code as u32));
            (count > 0).then_some((name, count))
        });
        OperationTotal { name: OPERATION_NAMES[index], received, results: results.collect() }
    };
    (0..OPERATIONS).map(of_kind).collect()
}

/// Adds up one counter of all loops.
pub(crate) fn total(loops: &[Arc<Counters>], counter: impl Fn(&Counters) -> &Counter) -> u64 {
    loops.iter().map(|counters| counter(counters).value()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_loops_and_fold_large_codes() {
        let loops = [Arc::new(Counters::default()), Arc::new(Counters::default())];
        for counters in &loops {
            counters.received(Operation::SEARCH);
            counters.completed(Operation::SEARCH, ResultCode::SUCCESS);
        }
        loops[1].completed(Operation::SEARCH, ResultCode::E_SYNC_REFRESH_REQUIRED);
        let search = &operation_totals(&loops)[2];
        assert_eq!((search.name, search.received), ("search", 2));
        assert_eq!(search.results, [(Some(ResultCode::SUCCESS), 2), (None, 1)]);
        loops[0].bytes_in.add(3);
        loops[1].bytes_in.add(4);
        assert_eq!(total(&loops, |counters| &counters.bytes_in), 7);
    }
}
