//! A bounded pool of threads for long searches.
//!
//! A search that is known to be long moves from its event loop to the pool. Free threads claim ranges of its candidates
//! (see [`crate::workers::scan`]), each a few milliseconds of work. A turn is one range. Identities take turns, and so
//! do the searches of an identity. Therefore all identities get equal shares of the time, and a single search gets all
//! threads. The event loop remains responsible for the connection, the limits, the time, and cancellation.
//!
//! The threads have the lowest priority, so that an event loop with work gets the core. Each thread has its own
//! snapshot, which it renews for every range and parks while it waits.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use directory::search::{Budget, PartScanner, Piece};
use directory::{Directory, OperationError, Snapshot};
use system::lower_priority;

use crate::limits::{SCAN_ENTRIES_MAX, SCAN_NICENESS, SCANS_MAX, SCANS_OF_IDENTITY_MAX, SLICE_BYTES_MAX};
use crate::net::client_identity::ClientIdentity;
use crate::net::mailbox::{Address, LoopMessage, Mailbox};
use crate::net::released_memory::ReleasedMemory;
use crate::stamp::{micros_since, thread_micros};
use crate::workers::scan::{Claim, Scan, ScanActions, ScanOwner};
use crate::workers::turns::Turns;

/// Limits on the work for one piece of a scan.
const PIECE: Budget = Budget { entries_examined_max: SCAN_ENTRIES_MAX, out_bytes_max: SLICE_BYTES_MAX };

/// The scan pool. Dropping it drops the queued scans and ends the threads.
pub(crate) struct ScanPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<WaitingScans>,
    work_arrived: Condvar,
    figures: Arc<ScanFigures>,
}

#[derive(Default)]
struct WaitingScans {
    scans: Turns<ClientIdentity, Arc<Scan>>,
    /// Number of each identity's searches in the pool.
    places: HashMap<ClientIdentity, usize>,
    closed: bool,
}

/// Counters of the scan pool.
#[derive(Debug, Default)]
pub(crate) struct ScanFigures {
    pub(crate) threads: AtomicUsize,
    /// Number of searches in the pool.
    pub(crate) running: AtomicUsize,
    /// Number of searches that the pool has accepted since the start.
    pub(crate) started: AtomicU64,
    /// Number of candidates that the threads examined.
    pub(crate) examined: AtomicU64,
    /// Processor time of the threads in microseconds.
    pub(crate) micros: AtomicU64,
}

/// A session's search in the pool. Dropping this handle cancels the search.
pub(crate) struct ScanHandle {
    scan: Arc<Scan>,
    queue: Arc<Queue>,
}

impl ScanPool {
    /// Starts `threads` threads. If `threads` is 0, searches stay on the event loops. An event loop receives a message
    /// when a piece is ready.
    ///
    /// # Errors
    /// The system cannot start a thread, or the directory returns no snapshot.
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

    /// Accepts a search. `split` divides it into a scanner and the first id. Returns `None` if the pool has no threads,
    /// or if `split` returns `None`. Also returns `None` if the pool has [`SCANS_MAX`] searches, or
    /// [`SCANS_OF_IDENTITY_MAX`] of this identity, because each search occupies memory.
    pub(crate) fn begin(
        &self,
        address: Address,
        owner: ScanOwner,
        is_measured: bool,
        split: impl FnOnce() -> Option<(PartScanner, u64)>,
    ) -> Option<ScanHandle> {
        if self.threads.is_empty() || !self.queue.take_place(owner.identity) {
            return None;
        }
        let identity = owner.identity;
        let Some((scanner, from)) = split() else {
            self.queue.leave(identity);
            return None;
        };
        self.queue.figures.started.fetch_add(1, Ordering::Relaxed);
        let scan = Arc::new(Scan::new(address, owner, scanner, from, is_measured));
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
            // The thread may have ended by a panic outside of `catch_unwind`. No caller could handle that.
            let _ = thread.join();
        }
    }
}

impl ScanHandle {
    /// Returns the maximum number of scanners that examine the search concurrently: one per thread.
    pub(crate) fn scanners(&self) -> usize {
        self.queue.figures.threads.load(Ordering::Relaxed)
    }

    /// Takes the next piece in the order of ids. If the piece is not ready, returns `None`. The event loop then
    /// receives a message when the piece is ready.
    pub(crate) fn take(&self) -> Option<Piece> {
        let (piece, enqueue) = self.scan.take();
        if enqueue {
            self.queue.push(Arc::clone(&self.scan));
        }
        piece
    }
}

impl Drop for ScanHandle {
    fn drop(&mut self) {
        self.scan.cancel();
        self.queue.leave(self.scan.owner.identity);
    }
}

impl Queue {
    /// Scans are pushed and popped in one step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, WaitingScans> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place in the pool for a search of this identity. Returns false if no place is free.
    fn take_place(&self, identity: ClientIdentity) -> bool {
        let mut waiting = self.lock();
        let own = waiting.places.get(&identity).copied().unwrap_or(0);
        let has_room =
            self.figures.running.load(Ordering::Relaxed) < SCANS_MAX && own < SCANS_OF_IDENTITY_MAX;
        if has_room {
            waiting.places.insert(identity, own + 1);
            self.figures.running.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Releases the place of a search of this identity.
    fn leave(&self, identity: ClientIdentity) {
        let mut waiting = self.lock();
        self.figures.running.fetch_sub(1, Ordering::Relaxed);
        match waiting.places.get_mut(&identity) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waiting.places.remove(&identity)),
        }
    }

    fn push(&self, scan: Arc<Scan>) {
        self.lock().scans.push(scan.owner.identity, scan);
        self.work_arrived.notify_one();
    }

    /// Waits for the next scan in turn. Returns `None` when the pool is closed. Before it waits, parks `snapshot` and
    /// returns freed memory to the system.
    fn next(&self, snapshot: &mut Snapshot, released: &mut ReleasedMemory) -> Option<Arc<Scan>> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(scan) = waiting.scans.pop() {
                return Some(scan);
            }
            snapshot.park();
            if released.take_due(true, Instant::now()) {
                drop(waiting);
                system::give_back_memory();
                waiting = self.lock();
            } else {
                waiting = self.work_arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn work(queue: &Queue, mut snapshot: Snapshot, mailboxes: &[Mailbox]) {
    lower_priority(SCAN_NICENESS, "scan threads have no low priority");
    // The event loops free the pieces, but cannot return the memory of a scan thread to the system. The thread does
    // that itself.
    let threads = queue.figures.threads.load(Ordering::Relaxed);
    let mut released = ReleasedMemory::new(threads, Instant::now());
    while let Some(scan) = queue.next(&mut snapshot, &mut released) {
        let Some(Claim { from, end, mut scanner, has_more }) = scan.claim() else { continue };
        if has_more {
            queue.push(Arc::clone(&scan));
        }
        let begun_at = scan.is_measured.then(Instant::now);
        let micros_before = thread_micros();
        // The search contains filters and values from clients. A defect that they trigger must cost one search, not the
        // thread.
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
        released.add(piece.size());
        queue.figures.examined.fetch_add(piece.examined_count(), Ordering::Relaxed);
        let micros = thread_micros().saturating_sub(micros_before);
        queue.figures.micros.fetch_add(micros, Ordering::Relaxed);
        if let Some(account) = &scan.owner.account {
            account.charge_scan(micros, Instant::now());
        }
        let ScanActions { enqueue, notify } = scan.done(from, end, scanner, piece);
        if notify && let Some(mailbox) = mailboxes.get(usize::from(scan.address.event_loop)) {
            mailbox.post(LoopMessage::Scanned(scan.address));
        }
        if enqueue {
            queue.push(scan);
        }
    }
}
