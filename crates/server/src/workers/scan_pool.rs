//! A bounded pool of threads for long searches.
//!
//! A search that is known to be long leaves its event loop: its candidates are handed out in ranges of ids (see
//! [`crate::workers::scan`]), a millisecond or two of work each, to as many threads as are free. Searches stand in one
//! queue and go to its end after every range, so that each gets as much as any other, and a single one gets all
//! threads. The event loop keeps what only it knows: the connection, the limits, the time, and whether the answer is
//! still wanted.
//!
//! The threads have the lowest priority, so that a loop with something to do gets the core. Each has a view of its own,
//! renewed for every range and let go of while it waits.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use directory::search::{Budget, PartScanner, Piece};
use directory::{Directory, OperationError, Snapshot};

use crate::limits::{SCAN_ENTRIES_MAX, SCAN_NICENESS, SCANS_MAX, SLICE_BYTES_MAX};
use crate::net::mailbox::{Address, LoopMessage, Mailbox};
use crate::stamp::micros_since;
use crate::telemetry::process::lower_priority;
use crate::workers::scan::{Claim, Next, Scan};

/// What one piece of a scan may take.
const PIECE: Budget = Budget { entries_examined_max: SCAN_ENTRIES_MAX, out_bytes_max: SLICE_BYTES_MAX };

/// The pool. Dropping it gives up what is under way and ends the threads.
pub(crate) struct ScanPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    work_arrived: Condvar,
    figures: Arc<ScanFigures>,
}

#[derive(Default)]
struct State {
    scans: VecDeque<Arc<Scan>>,
    closed: bool,
}

/// What the pool does, for monitoring.
#[derive(Debug, Default)]
pub(crate) struct ScanFigures {
    pub(crate) threads: AtomicUsize,
    /// Searches that are with the pool now.
    pub(crate) running: AtomicUsize,
    /// Searches that have been with it.
    pub(crate) begun: AtomicU64,
    /// Candidates that its threads have looked at.
    pub(crate) examined: AtomicU64,
}

/// A search with the pool, as its session holds it. Dropping it gives the search up.
pub(crate) struct ScanHandle {
    scan: Arc<Scan>,
    queue: Arc<Queue>,
}

impl ScanPool {
    /// Starts `threads` threads; with none, searches stay on the event loops. Whoever waits for a piece is told by
    /// message.
    ///
    /// # Errors
    /// The system cannot start a thread, or the directory gives no view.
    pub(crate) fn start(
        threads: usize,
        directory: &Arc<Directory>,
        mailboxes: &Arc<[Mailbox]>,
    ) -> std::io::Result<ScanPool> {
        let mut pool = ScanPool { queue: Arc::default(), threads: Vec::new() };
        pool.queue.figures.threads.store(threads, Ordering::Relaxed);
        for index in 0..threads {
            let mut snapshot = directory.snapshot().map_err(std::io::Error::other)?;
            snapshot.park();
            let (queue, mailboxes) = (Arc::clone(&pool.queue), Arc::clone(mailboxes));
            let thread = std::thread::Builder::new()
                .name(format!("pando-scan-{index}"))
                .spawn(move || work(&queue, snapshot, &mailboxes))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Takes a search that is to be looked at from the id `from` on. `None` when there are no threads, or as many
    /// searches as the pool may have: each holds memory.
    pub(crate) fn begin(
        &self,
        address: Address,
        is_measured: bool,
        split: impl FnOnce() -> Option<(PartScanner, u64)>,
    ) -> Option<ScanHandle> {
        let running = &self.queue.figures.running;
        let is_taken = !self.threads.is_empty() && running.fetch_add(1, Ordering::Relaxed) < SCANS_MAX;
        let Some((scanner, from)) = is_taken.then(split).flatten() else {
            if !self.threads.is_empty() {
                running.fetch_sub(1, Ordering::Relaxed);
            }
            return None;
        };
        self.queue.figures.begun.fetch_add(1, Ordering::Relaxed);
        let scan = Arc::new(Scan::new(address, scanner, from, is_measured));
        self.queue.push(Arc::clone(&scan));
        Some(ScanHandle { scan, queue: Arc::clone(&self.queue) })
    }

    pub(crate) fn figures(&self) -> Arc<ScanFigures> {
        Arc::clone(&self.queue.figures)
    }
}

impl Drop for ScanPool {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.work_arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A thread only ends early by a panic outside of the guarded work; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

impl ScanHandle {
    /// How many scanners look at the search, at most: one for each thread.
    pub(crate) fn scanners(&self) -> usize {
        self.queue.figures.threads.load(Ordering::Relaxed)
    }

    /// The next piece, in the order of ids. With `None` a message follows when there is one.
    pub(crate) fn take(&self) -> Option<Piece> {
        let (piece, next) = self.scan.take();
        if next.enqueue {
            self.queue.push(Arc::clone(&self.scan));
        }
        piece
    }
}

impl Drop for ScanHandle {
    fn drop(&mut self) {
        self.scan.cancel();
        self.queue.figures.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queue {
    /// Scans are pushed and popped whole, so a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, scan: Arc<Scan>) {
        self.lock().scans.push_back(scan);
        self.work_arrived.notify_one();
    }

    /// The scan that waited longest, if there is one; `None` when the pool is closed. Before it waits, `snapshot` lets
    /// go of its position.
    fn next(&self, snapshot: &mut Snapshot) -> Option<Arc<Scan>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(scan) = state.scans.pop_front() {
                return Some(scan);
            }
            snapshot.park();
            state = self.work_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn work(queue: &Queue, mut snapshot: Snapshot, mailboxes: &[Mailbox]) {
    lower_priority(SCAN_NICENESS, "scan threads have no low priority");
    while let Some(scan) = queue.next(&mut snapshot) {
        let Some(Claim { from, end, mut scanner, has_more }) = scan.claim() else { continue };
        if has_more {
            queue.push(Arc::clone(&scan));
        }
        let begun_at = scan.is_measured.then(Instant::now);
        // Filters and values come from peers: a bug there costs one search, not the pool.
        let examined = catch_unwind(AssertUnwindSafe(|| match snapshot.renew() {
            Ok(()) => scanner.examine(&snapshot, from, end, &PIECE),
            Err(error) => Piece::failed(error.into()),
        }));
        let mut piece = examined.unwrap_or_else(|_| {
            Piece::failed(OperationError::Defect("the search met a defect in the server"))
        });
        if let Some(begun_at) = begun_at {
            piece.measured(micros_since(begun_at));
        }
        queue.figures.examined.fetch_add(piece.examined_count(), Ordering::Relaxed);
        let Next { enqueue, tell } = scan.done(from, end, scanner, piece);
        if tell && let Some(mailbox) = mailboxes.get(usize::from(scan.address.event_loop)) {
            mailbox.post(LoopMessage::Scanned(scan.address));
        }
        if enqueue {
            queue.push(scan);
        }
    }
}
