//! Counters of cases over runs.

use std::fmt;

/// Case that must occur in some run, because it is not tested otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Acknowledged,
    Reads,
    Busy,
    Unavailable,
    /// A writer has stopped for another epoch.
    Stops,
    PlannedPromotions,
    ForcedPromotions,
    /// A token was refused, because its position is lost.
    LostTokens,
    /// Acknowledged changes that a promotion without the supplier has lost.
    LostChanges,
    /// Records began before the next position of a replica.
    Overlaps,
    /// The outcome of a decided change became unknown, because the connection to the supplier broke.
    UnknownOutcomes,
    Diverged,
    Replaced,
    Trimmed,
    Crashes,
    Cuts,
    LostMessages,
    Copies,
    NewSuppliers,
    MovedAddresses,
    /// A promoted server has asked its former supplier which of the two is the writer.
    Undecided,
}

const CASES: [Case; 21] = [
    Case::Acknowledged,
    Case::Reads,
    Case::Busy,
    Case::Unavailable,
    Case::Stops,
    Case::PlannedPromotions,
    Case::ForcedPromotions,
    Case::LostTokens,
    Case::LostChanges,
    Case::Overlaps,
    Case::UnknownOutcomes,
    Case::Diverged,
    Case::Replaced,
    Case::Trimmed,
    Case::Crashes,
    Case::Cuts,
    Case::LostMessages,
    Case::Copies,
    Case::NewSuppliers,
    Case::MovedAddresses,
    Case::Undecided,
];

#[derive(Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) runs: u64,
    counts: [u64; CASES.len()],
}

impl Figures {
    /// Returns the counters at the beginning of a run.
    pub(super) fn of_run() -> Figures {
        Figures { runs: 1, ..Figures::default() }
    }

    pub(super) fn count(&mut self, case: Case) {
        self.counts[case as usize] += 1;
    }

    pub(super) fn of(&self, case: Case) -> u64 {
        self.counts[case as usize]
    }

    pub(super) fn add(&mut self, other: &Figures) {
        self.runs += other.runs;
        self.counts.iter_mut().zip(other.counts).for_each(|(own, other)| *own += other);
    }

    /// Returns the cases that never occurred.
    pub(super) fn missing(&self) -> Vec<Case> {
        CASES.into_iter().filter(|case| self.of(*case) == 0).collect()
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} runs", self.runs)?;
        CASES.iter().try_for_each(|case| write!(out, ", {case:?} {}", self.of(*case)))
    }
}
