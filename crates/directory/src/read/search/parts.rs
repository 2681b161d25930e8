//! A long search in parts: several threads scan ranges of entry ids, each thread on its own snapshot.
//!
//! The guarantees of a search still hold. Entry ids never change and are never reused, every id is in one range, and
//! every range is scanned once. Therefore an entry that matches throughout is returned exactly once, and an entry that
//! changes during the search at most once. Each result is consistent, because it is read on one snapshot.
//! [`Search::take`] receives the pieces in ascending order of ids, and enforces the limits as if it had examined the
//! candidates itself.
//!
//! This crate starts no threads. The caller copies the [`PartScanner`] for each thread, distributes the ranges, and
//! passes the pieces to the search in order.
//!
//! [`Search::take`]: super::Search::take

use super::budget::Budget;
use super::scanner::{Reached, Scanner, Sink};
use crate::filter::Term;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::snapshot::Snapshot;
use crate::tree::TreeState;

/// Scanner for ranges of the candidates of one search. It is `Send` and owns all its data.
pub struct PartScanner(Scanner);

/// The results of a range of ids.
#[derive(Debug)]
pub struct Piece {
    /// The messages of the results, one after another.
    pub(super) results: Vec<u8>,
    pub(super) marks: Vec<Mark>,
    /// Number of candidates examined.
    pub(super) examined_count: u64,
    /// Number of candidates that are not results.
    pub(super) rejected_count: u64,
    /// A result that is too large for a piece. It follows the other results of the piece.
    pub(super) giant: Option<EntryId>,
    /// Elapsed microseconds, if the search is explained.
    pub(super) micros: u64,
    /// Reason for the end of the piece. Results before an error are valid.
    pub(super) end: Result<PieceEnd, OperationError>,
}

/// Position of one result in a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) id: EntryId,
    /// End of the message of the result.
    pub(super) end: usize,
    /// Number of rejected candidates of the piece before this result.
    pub(super) rejected_before: u64,
}

/// Reason for the end of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// The budget was used up; the rest of the range starts at this id.
    Cut(u64),
    /// The range is complete. No candidate after the range has an id lower than this id.
    Complete(u64),
    /// The range is complete, and no candidates follow it.
    Last,
    /// The search failed.
    Failed,
}

impl PartScanner {
    pub(super) fn new(scanner: Scanner) -> PartScanner {
        PartScanner(scanner)
    }

    /// Returns a copy for another thread.
    pub fn copy(&mut self) -> PartScanner {
        PartScanner(self.0.copy())
    }

    /// Examines the candidates with ids in `from..end` until the budget is used up.
    pub fn examine(&mut self, snapshot: &Snapshot, from: u64, end: u64, budget: &Budget) -> Piece {
        let mut piece = Piece::empty(PieceEnd::Last);
        let mut results = Vec::new();
        let examined = self
            .0
            .catch_up(snapshot)
            .and_then(|()| self.0.examine(snapshot, (from, end), budget, &mut results, &mut piece));
        piece.results = results;
        if let Ok(Reached::Giant(id)) = examined {
            piece.giant = Some(id);
        }
        piece.end = examined.map(|reached| match reached {
            Reached::Giant(id) => PieceEnd::Cut(id.0 + 1),
            Reached::Budget(next) => PieceEnd::Cut(next),
            Reached::RangeEnd(next) => PieceEnd::Complete(next),
            Reached::End | Reached::Full(_) => PieceEnd::Last,
        });
        piece
    }
}

impl Piece {
    fn empty(end: PieceEnd) -> Piece {
        Piece {
            results: Vec::new(),
            marks: Vec::new(),
            examined_count: 0,
            rejected_count: 0,
            giant: None,
            micros: 0,
            end: Ok(end),
        }
    }

    /// Returns a piece that reports a failure.
    pub fn failed(error: OperationError) -> Piece {
        Piece { end: Err(error), ..Piece::empty(PieceEnd::Failed) }
    }

    /// Records the elapsed time, for a search that is explained.
    pub fn measured(&mut self, micros: u64) {
        self.micros = micros;
    }

    /// Returns the reason for the end of the piece.
    pub fn end(&self) -> PieceEnd {
        *self.end.as_ref().unwrap_or(&PieceEnd::Failed)
    }

    /// Returns the size of the results, in bytes.
    pub fn size(&self) -> usize {
        self.results.len()
    }

    /// Returns the number of candidates examined.
    pub fn examined_count(&self) -> u64 {
        self.examined_count
    }
}

/// A piece only counts candidates. [`Search::take`](super::Search::take) enforces the limits.
impl Sink for Piece {
    fn examined(&mut self) {
        self.examined_count += 1;
    }

    fn rejected(&mut self, _: TreeState<'_>, _: &Term) -> Result<(), OperationError> {
        self.rejected_count += 1;
        Ok(())
    }

    fn accepts(&mut self) -> bool {
        true
    }

    fn written(&mut self, id: EntryId, end: usize) {
        self.marks.push(Mark { id, end, rejected_before: self.rejected_count });
    }
}
