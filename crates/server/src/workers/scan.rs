//! One long search that scan threads share: the ranges of ids that they claim, and the pieces that they make of them.
//!
//! Ranges are claimed in ascending order, and pieces leave in ascending order, whatever order they are finished in.
//! When a piece uses up its budget, the rest of its range is claimed before any later range. Bytes and pieces that
//! wait to leave are bounded. The piece that the client waits for is exempt from the bound, or the scan would stand
//! still.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directory::search::{PartScanner, Piece, PieceEnd};

use crate::limits::{SCAN_BYTES_WAITING_MAX, SCAN_ENTRIES_MAX, SCAN_PIECES_WAITING_MAX, SLICE_BYTES_MAX};
use crate::net::client_identity::ClientIdentity;
use crate::net::mailbox::Address;
use crate::workers::scan_shares::ScanAccount;

/// Ids in the first range. Later ranges grow where few of the ids are candidates.
const FIRST_WIDTH: u64 = SCAN_ENTRIES_MAX as u64;

/// Most ids in a range.
const WIDTH_MAX: u64 = 1 << 32;

/// A search under way on scan threads.
pub(crate) struct Scan {
    /// The operation that waits for the pieces.
    pub(crate) address: Address,
    /// The client that it belongs to.
    pub(crate) owner: ScanOwner,
    /// Whether the time of each piece is measured.
    pub(crate) is_measured: bool,
    /// Whether the search is over. Threads check this before they begin a piece.
    cancelled: AtomicBool,
    progress: Mutex<Progress>,
}

/// The client of a scan.
pub(crate) struct ScanOwner {
    pub(crate) identity: ClientIdentity,
    /// Account of the time that the threads take, if the search is costly.
    pub(crate) account: Option<Arc<ScanAccount>>,
}

struct Progress {
    /// Free scanners, one for each thread. The first always stays and is copied when more are needed.
    scanners: Vec<PartScanner>,
    /// Claimed ranges whose pieces have not left, by their first id.
    parts: BTreeMap<u64, Part>,
    /// The lowest id in no range yet.
    next_id: u64,
    /// Ids in the next range.
    width: u64,
    /// Whether no id from `next_id` on is a candidate.
    ended: bool,
    /// Pieces being made.
    running: usize,
    /// Bytes of pieces that wait to leave.
    waiting_bytes: usize,
    /// Whether the scan is in the pool's queue.
    queued: bool,
    /// Whether the event loop knows that a piece can leave.
    notified: bool,
}

enum Part {
    /// Unclaimed, up to this id.
    Open(u64),
    Running,
    Done(Piece),
}

/// A range that a thread has claimed.
pub(crate) struct Claim {
    pub(crate) from: u64,
    pub(crate) end: u64,
    pub(crate) scanner: PartScanner,
    /// Whether another range can be claimed. The caller then puts the scan into the queue again.
    pub(crate) has_more: bool,
}

/// Actions of the caller after a piece arrived or left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanActions {
    /// Put the scan into the pool's queue.
    pub(crate) enqueue: bool,
    /// Send [`Scanned`](crate::net::mailbox::LoopMessage::Scanned) to the event loop.
    pub(crate) notify: bool,
}

impl Scan {
    /// Makes a scan of all ids from `from` on. The caller puts it into the queue.
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

    /// No step under the lock can panic halfway, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next range for a thread that took the scan from the queue.
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

    /// Takes the finished piece of a range.
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

    /// Returns the next piece to leave, if it is ready, and whether to put the scan into the queue.
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

    /// Returns the first range to claim.
    fn first_open(&self) -> Option<(u64, u64)> {
        self.parts.iter().find_map(|(from, part)| match part {
            Part::Open(end) => Some((*from, *end)),
            Part::Running | Part::Done(_) => None,
        })
    }

    /// Whether the piece of the range that begins at `from` is the next to leave.
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

    /// Returns what the caller must do next, and marks it as done.
    fn actions(&mut self) -> ScanActions {
        let can_leave = matches!(self.parts.first_key_value(), Some((_, Part::Done(_))));
        let enqueue = !self.queued && self.can_claim();
        let notify = can_leave && !self.notified;
        self.queued |= enqueue;
        self.notified |= notify;
        ScanActions { enqueue, notify }
    }
}
