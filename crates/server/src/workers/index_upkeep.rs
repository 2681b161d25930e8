//! Index work of the writer: it adds and removes rows of indexes between the changes of clients.
//!
//! An index that is defined while the server runs is built in slices of a few milliseconds. If no change waits, the
//! slices follow one another. If changes wait, one slice follows every [`BATCHES_PER_INDEX_SLICE`] batches, so that
//! even a busy server finishes the index. A slice also yields to the event loops. The next start of the server
//! continues unfinished work.

use std::time::Duration;

use directory::Writer;
use directory::index::Phase;
use directory::index::maintenance::{IndexProgress, SliceBudget};
use system::CooperativeYield;

use crate::limits::{BATCHES_PER_INDEX_SLICE, INDEX_SLICE_RETRY};

/// Number of slices from one report in the log to the next.
const SLICES_PER_REPORT: u64 = 256;

/// The writer's index work.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Whether the last slice failed, usually because the disk is full. The slice is tried again after a change or a
    /// pause, because another process may have freed space.
    has_failed: bool,
    batches: u32,
    slices: u64,
}

impl Upkeep {
    /// Returns how long the writer may wait for changes before it runs a slice; `None` when there is no index work.
    pub(crate) fn patience(&self, writer: &Writer) -> Option<Duration> {
        let patience = if self.has_failed { INDEX_SLICE_RETRY } else { Duration::ZERO };
        writer.maintenance_pending().then_some(patience)
    }

    /// Counts a batch. Returns true if a slice is due although changes wait.
    pub(crate) fn is_due(&mut self, writer: &Writer) -> bool {
        self.batches += 1;
        if self.batches < BATCHES_PER_INDEX_SLICE {
            return false;
        }
        self.batches = 0;
        writer.maintenance_pending()
    }

    /// Runs a slice.
    pub(crate) fn run(&mut self, writer: &mut Writer) {
        let mut cooperative = CooperativeYield::default();
        let more =
            match writer.run_maintenance_slice(&SliceBudget::default(), &mut || cooperative.maybe_yield()) {
                Ok(more) => more,
                Err(error) => {
                    if !self.has_failed {
                        tracing::warn!(%error, "index rows are not made for now, it is tried again");
                    }
                    self.has_failed = true;
                    return;
                }
            };
        if std::mem::take(&mut self.has_failed) {
            tracing::info!("index rows are made again");
        }
        if !more {
            tracing::info!("all indexes are complete");
            self.slices = 0;
            return;
        }
        if self.slices.is_multiple_of(SLICES_PER_REPORT) {
            report(writer);
        }
        self.slices += 1;
    }
}

fn report(writer: &Writer) {
    let progress = match writer.index_progress() {
        Ok(progress) => progress,
        Err(error) => return tracing::warn!(%error, "no progress of indexes"),
    };
    for part in progress {
        tracing::info!("{}", progress_text(&part));
    }
}

/// Describes index work in progress in one line for people.
pub fn progress_text(progress: &IndexProgress) -> String {
    let IndexProgress { attribute, part, built_to, last_entry, .. } = progress;
    let what = match part {
        Some(part) => format!("{} of the index on {attribute}", part.name()),
        None => format!("the sort order {attribute}"),
    };
    match progress.phase {
        Phase::Building => format!("building {what}: entry {built_to} of {last_entry}"),
        _ => format!("removing {what}"),
    }
}
