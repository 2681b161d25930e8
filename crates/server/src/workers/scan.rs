//! One long search that scan threads share: which ranges of ids are handed out, and the pieces that came of them.
//!
//! Ranges are handed out in ascending order and pieces leave in ascending order, whatever order they get done in. A
//! piece that used up its budget leaves the rest of its range to be handed out again, before anything behind it. How
//! far threads may run ahead of the client is bounded: by bytes and by pieces. The piece that the client waits for is
//! exempt, or nothing would ever move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use directory::search::{PartScanner, Piece, PieceEnd};

use crate::limits::{SCAN_BYTES_WAITING_MAX, SCAN_ENTRIES_MAX, SCAN_PIECES_WAITING_MAX, SLICE_BYTES_MAX};
use crate::net::mailbox::Address;

/// Ids in the first range that is handed out; later ones grow where few of the ids are candidates.
const FIRST_WIDTH: u64 = SCAN_ENTRIES_MAX as u64;

/// Ids in a range at most.
const WIDTH_MAX: u64 = 1 << 32;

/// A search under way on scan threads.
pub(crate) struct Scan {
    /// Who waits for the pieces.
    pub(crate) address: Address,
    /// Whether the time of every piece is wanted.
    pub(crate) is_measured: bool,
    /// Nobody wants it any more. Threads look before they begin a piece.
    pub(crate) cancelled: AtomicBool,
    progress: Mutex<Progress>,
}

struct Progress {
    /// For threads to use, one each; the first is always there, to be copied.
    scanners: Vec<PartScanner>,
    /// Ranges handed out whose pieces have not left, by their first id.
    parts: BTreeMap<u64, Part>,
    /// The lowest id that was not handed out yet.
    next_id: u64,
    /// Ids in the next range.
    width: u64,
    /// Whether there are no candidates from `next_id` on.
    ended: bool,
    /// Pieces being made.
    running: usize,
    /// Bytes of pieces that wait to leave.
    waiting_bytes: usize,
    /// Whether the scan stands in the pool's queue.
    queued: bool,
    /// Whether the client's event loop knows that a piece can leave.
    told: bool,
}

enum Part {
    /// To be looked at, up to this id.
    Open(u64),
    Running,
    Done(Piece),
}

/// A range handed out to a thread.
pub(crate) struct Claim {
    pub(crate) from: u64,
    pub(crate) end: u64,
    pub(crate) scanner: PartScanner,
    /// Whether another range can be handed out: the scan is to stand in the queue again.
    pub(crate) has_more: bool,
}

/// What is to be done after a piece came or left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// The scan is to stand in the queue.
    pub(crate) enqueue: bool,
    /// The client's event loop is to be told.
    pub(crate) tell: bool,
}

impl Scan {
    /// A scan of all ids from `from` on, standing in the queue.
    pub(crate) fn new(address: Address, scanner: PartScanner, from: u64, is_measured: bool) -> Scan {
        let progress = Progress {
            scanners: vec![scanner],
            parts: BTreeMap::new(),
            next_id: from,
            width: FIRST_WIDTH,
            ended: false,
            running: 0,
            waiting_bytes: 0,
            queued: true,
            told: false,
        };
        Scan { address, is_measured, cancelled: AtomicBool::new(false), progress: Mutex::new(progress) }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Every change under the lock is made of steps that cannot fail, so what a panicking thread leaves is whole.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next range for a thread that took the scan from the queue.
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

    /// Brings the piece of a range.
    pub(crate) fn done(&self, from: u64, end: u64, scanner: PartScanner, piece: Piece) -> Next {
        let mut progress = self.lock();
        progress.running -= 1;
        progress.scanners.push(scanner);
        if self.is_cancelled() {
            return Next::default();
        }
        progress.finish(from, end, piece);
        progress.next()
    }

    /// The next piece to leave; the first id it is about is above all that left before.
    pub(crate) fn take(&self) -> (Option<Piece>, Next) {
        let mut progress = self.lock();
        let piece = progress.take();
        if piece.is_none() {
            progress.told = false;
        }
        let next = Next { tell: false, ..progress.next() };
        (piece, next)
    }

    /// Nobody wants it any more: what waits is given up.
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

    /// The first part that is to be looked at, and whether all before it have left.
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

    /// What is to be done now; taken as done.
    fn next(&mut self) -> Next {
        let can_leave = matches!(self.parts.first_key_value(), Some((_, Part::Done(_))));
        let next = Next { enqueue: !self.queued && self.can_claim(), tell: can_leave && !self.told };
        self.queued |= next.enqueue;
        self.told |= next.tell;
        next
    }
}
