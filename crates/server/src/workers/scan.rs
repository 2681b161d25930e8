//! One long search that scan threads share. The threads claim ranges of ids, and produce a piece of the result from
//! each range.
//!
//! Threads claim ranges in ascending order. The client receives the pieces in ascending order, even if they are
//! finished in another order. If a piece uses up its budget, the rest of its range is claimed before any later range.
//! The number and the size of the pieces that wait for their turn are bounded. The piece that the client needs next is
//! exempt from the bound, because the scan could otherwise not continue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directory::search::{PartScanner, Piece, PieceEnd};

use crate::limits::{SCAN_BYTES_WAITING_MAX, SCAN_ENTRIES_MAX, SCAN_PIECES_WAITING_MAX, SLICE_BYTES_MAX};
use crate::net::client_identity::ClientIdentity;
use crate::net::mailbox::Address;
use crate::workers::scan_shares::ScanAccount;

/// Width of the first range, in ids. Later ranges are wider if few of the ids are candidates.
const FIRST_WIDTH: u64 = SCAN_ENTRIES_MAX as u64;

/// Maximum width of a range, in ids.
const WIDTH_MAX: u64 = 1 << 32;

/// A search in progress on scan threads.
pub(crate) struct Scan {
    /// Address of the operation that receives the pieces.
    pub(crate) address: Address,
    /// The client of the search.
    pub(crate) owner: ScanOwner,
    /// Whether the time of each piece is measured.
    pub(crate) is_measured: bool,
    /// Whether the search has ended. A thread checks this before it begins a piece.
    cancelled: AtomicBool,
    progress: Mutex<Progress>,
}

/// The client of a scan.
pub(crate) struct ScanOwner {
    pub(crate) identity: ClientIdentity,
    /// Account for the processor time of the search, if the search is costly.
    pub(crate) account: Option<Arc<ScanAccount>>,
}

struct Progress {
    /// Scanners that no thread uses. A thread takes a scanner for a range. The first scanner always remains, and is
    /// copied if more scanners are needed.
    scanners: Vec<PartScanner>,
    /// Ranges before `next_id` whose pieces have not been taken, by their first id.
    parts: BTreeMap<u64, Part>,
    /// The first id after all ranges that were claimed so far.
    next_id: u64,
    /// Width of the next range, in ids.
    width: u64,
    /// Whether no id from `next_id` on is a candidate.
    ended: bool,
    /// Number of pieces being produced.
    running: usize,
    /// Size in octets of the pieces that wait to be taken.
    waiting_bytes: usize,
    /// Whether the pool's queue contains the scan.
    queued: bool,
    /// Whether the event loop was notified that the next piece can be taken.
    notified: bool,
}

enum Part {
    /// Unclaimed rest of a range. The rest ends before this id.
    Open(u64),
    Running,
    Done(Piece),
}

/// A range that a thread has claimed.
pub(crate) struct Claim {
    pub(crate) from: u64,
    pub(crate) end: u64,
    pub(crate) scanner: PartScanner,
    /// Whether another range can be claimed. If so, the caller must put the scan back into the queue.
    pub(crate) has_more: bool,
}

/// Actions that the caller must take after a piece was finished or taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanActions {
    /// Put the scan into the pool's queue.
    pub(crate) enqueue: bool,
    /// Send [`Scanned`](crate::net::mailbox::LoopMessage::Scanned) to the event loop.
    pub(crate) notify: bool,
}

impl Scan {
    /// Creates a scan of all ids from `from` on. The caller must put the scan into the queue.
    pub(crate) fn new(
        address: Address,
        owner: ScanOwner,
        scanner: PartScanner,
        from: u64,
        is_measured: bool,
    ) -> Scan {
        let progress = Progress {
            scanners: vec![scanner],
            parts: BTreeMap::new(),
            next_id: from,
            width: FIRST_WIDTH,
            ended: false,
            running: 0,
            waiting_bytes: 0,
            queued: true,
            notified: false,
        };
        Scan {
            address,
            owner,
            is_measured,
            cancelled: AtomicBool::new(false),
            progress: Mutex::new(progress),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// No step under the lock can panic halfway. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the next range for a thread that has taken the scan from the queue. Returns `None` if the scan is
    /// cancelled or has no range to claim.
    pub(crate) fn claim(&self) -> Option<Claim> {
        let mut progress = self.lock();
        progress.queued = false;
        if self.is_cancelled() {
            return None;
        }
        let (from, end) = progress.claim()?;
        let scanner = progress.scanner()?;
        progress.queued = progress.can_claim();
        Some(Claim { from, end, scanner, has_more: progress.queued })
    }

    /// Accepts the finished piece of the range from `from` to `end`.
    pub(crate) fn done(&self, from: u64, end: u64, scanner: PartScanner, piece: Piece) -> ScanActions {
        let mut progress = self.lock();
        progress.running -= 1;
        progress.scanners.push(scanner);
        if self.is_cancelled() {
            return ScanActions::default();
        }
        progress.finish(from, end, piece);
        progress.actions()
    }

    /// Takes the next piece, if it is finished. The flag is true if the caller must put the scan into the queue.
    pub(crate) fn take(&self) -> (Option<Piece>, bool) {
        let mut progress = self.lock();
        let piece = progress.take();
        if piece.is_none() {
            progress.notified = false;
        }
        let enqueue = progress.actions().enqueue;
        (piece, enqueue)
    }

    /// Ends the scan and drops its waiting pieces.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let mut progress = self.lock();
        progress.parts.clear();
        progress.waiting_bytes = 0;
    }
}

impl Progress {
    fn scanner(&mut self) -> Option<PartScanner> {
        if self.scanners.len() > 1 {
            self.scanners.pop()
        } else {
            self.scanners.first_mut().map(PartScanner::copy)
        }
    }

    /// Returns the rest of a range that can be claimed, if there is one.
    fn first_open(&self) -> Option<(u64, u64)> {
        self.parts.iter().find_map(|(from, part)| match part {
            Part::Open(end) => Some((*from, *end)),
            Part::Running | Part::Done(_) => None,
        })
    }

    /// Returns true if the client needs the piece of the range from `from` next.
    fn is_first(&self, from: u64) -> bool {
        self.parts.first_key_value().is_none_or(|(first, _)| *first >= from)
    }

    fn can_claim(&self) -> bool {
        let from = match self.first_open() {
            Some((from, _)) => from,
            None if self.ended => return false,
            None => self.next_id,
        };
        let bytes_ahead = self.waiting_bytes + self.running * SLICE_BYTES_MAX;
        self.is_first(from)
            || (bytes_ahead < SCAN_BYTES_WAITING_MAX && self.parts.len() < SCAN_PIECES_WAITING_MAX)
    }

    fn claim(&mut self) -> Option<(u64, u64)> {
        if !self.can_claim() {
            return None;
        }
        let range = match self.first_open() {
            Some(range) => range,
            None => {
                let from = self.next_id;
                self.next_id = from.saturating_add(self.width);
                (from, self.next_id)
            }
        };
        self.parts.insert(range.0, Part::Running);
        self.running += 1;
        Some(range)
    }

    fn finish(&mut self, from: u64, end: u64, piece: Piece) {
        match piece.end() {
            PieceEnd::Cut(next) => {
                self.width = (self.width / 2).max(FIRST_WIDTH);
                self.parts.insert(next, Part::Open(end));
            }
            PieceEnd::Complete(next) => {
                if piece.examined_count() < u64::from(SCAN_ENTRIES_MAX) / 4 {
                    self.width = (self.width * 2).min(WIDTH_MAX);
                }
                self.next_id = self.next_id.max(next);
            }
            PieceEnd::Last | PieceEnd::Failed => self.ended = true,
        }
        self.waiting_bytes += piece.size();
        self.parts.insert(from, Part::Done(piece));
    }

    fn take(&mut self) -> Option<Piece> {
        let first = self.parts.first_entry()?;
        if !matches!(first.get(), Part::Done(_)) {
            return None;
        }
        let Part::Done(piece) = first.remove() else { return None };
        self.waiting_bytes -= piece.size();
        Some(piece)
    }

    /// Returns the actions that the caller must take, and records them as taken.
    fn actions(&mut self) -> ScanActions {
        let can_leave = matches!(self.parts.first_key_value(), Some((_, Part::Done(_))));
        let enqueue = !self.queued && self.can_claim();
        let notify = can_leave && !self.notified;
        self.queued |= enqueue;
        self.notified |= notify;
        ScanActions { enqueue, notify }
    }
}
