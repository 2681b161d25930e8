//! A long search in parts: ranges of entry ids that several threads look at, each on a snapshot of its own.
//!
//! The promise of a search survives that. Entry ids never change and are never used twice, every id lies in one range
//! and every range is looked at once: so an entry that matches throughout is returned exactly once and one that changes
//! meanwhile at most once, and each is consistent in itself because it is read on one snapshot. [`Search::take`] gets
//! the pieces in the order of their ids, and keeps the limits as if it had looked at the candidates itself.
//!
//! This crate starts no thread. Whoever does copies the [`PartScanner`] for each of them, hands out ranges, and brings
//! the pieces back in order.
//!
//! [`Search::take`]: super::Search::take

use super::budget::Budget;
use super::scanner::{Reached, Scanner, Sink};
use crate::filter::Term;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::snapshot::Snapshot;
use crate::tree::TreeState;

/// Looks at ranges of the candidates of one search. `Send`; owns what it needs.
pub struct PartScanner(Scanner);

/// What came of a range of ids.
#[derive(Debug)]
pub struct Piece {
    /// Messages of entries, one after another.
    pub(super) results: Vec<u8>,
    pub(super) marks: Vec<Mark>,
    /// Candidates looked at.
    pub(super) examined_count: u64,
    /// Those of them that are no results.
    pub(super) rejected_count: u64,
    /// A result behind the others that is too large for a piece.
    pub(super) giant: Option<EntryId>,
    /// How long it took, where somebody measures.
    pub(super) micros: u64,
    /// Why it ends; what comes before the error is good.
    pub(super) end: Result<PieceEnd, OperationError>,
}

/// A result in a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) id: EntryId,
    /// Where its message ends.
    pub(super) end: usize,
    /// Candidates of the piece rejected before it.
    pub(super) rejected_before: u64,
}

/// Where a piece ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// The budget was used up: the range is to be looked at further from this id on.
    Cut(u64),
    /// The range is done; there is no candidate before this id, which lies behind it.
    Complete(u64),
    /// There are no candidates behind the range either.
    Last,
    /// The search failed here.
    Failed,
}

impl PartScanner {
    pub(super) fn new(scanner: Scanner) -> PartScanner {
        PartScanner(scanner)
    }

    /// One more, for another thread.
    pub fn copy(&mut self) -> PartScanner {
        PartScanner(self.0.copy())
    }

    /// Looks at the candidates with ids from `from` up to and without `end`, until the budget is used up.
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

    /// What stands for a piece that could not be made.
    pub fn failed(error: OperationError) -> Piece {
        Piece { end: Err(error), ..Piece::empty(PieceEnd::Failed) }
    }

    /// Says how long it took to make, for whom wants the search explained.
    pub fn measured(&mut self, micros: u64) {
        self.micros = micros;
    }

    /// Where it ends.
    pub fn end(&self) -> PieceEnd {
        *self.end.as_ref().unwrap_or(&PieceEnd::Failed)
    }

    /// Bytes of results.
    pub fn size(&self) -> usize {
        self.results.len()
    }

    /// Candidates looked at.
    pub fn examined_count(&self) -> u64 {
        self.examined_count
    }
}

/// Counts; the limits are kept where all pieces come together.
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
