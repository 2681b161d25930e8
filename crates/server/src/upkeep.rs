//! Index rows made and removed by the writer between the changes of clients.
//!
//! An index that is defined while the server runs is made in slices of a few milliseconds. Without changes waiting they
//! follow one another; with changes waiting there is one slice to so many batches, so that an index is finished some day
//! however busy the server is. What is left when the server stops goes on at the next start.

use directory::Writer;
use directory::attribute_index::maintenance::SliceBudget;

use crate::indexes::progress_text;
use crate::limits::BATCHES_PER_INDEX_SLICE;

/// Slices between two lines in the log.
const SLICES_PER_REPORT: u64 = 256;

/// What the writer knows of that work.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// After a failure there is no other try before a change has been made: without one, nothing would be different.
    is_paused: bool,
    batches: u32,
    slices: u64,
}

impl Upkeep {
    /// Whether there is something to do while nothing else is.
    pub(crate) fn is_wanted(&self, writer: &Writer) -> bool {
        !self.is_paused && writer.maintenance_pending()
    }

    /// Whether it is time for a slice though changes are waiting. To be asked after every batch.
    pub(crate) fn is_due(&mut self, writer: &Writer) -> bool {
        self.is_paused = false;
        self.batches += 1;
        if self.batches < BATCHES_PER_INDEX_SLICE {
            return false;
        }
        self.batches = 0;
        self.is_wanted(writer)
    }

    /// Does a slice.
    pub(crate) fn run(&mut self, writer: &mut Writer) {
        let more = match writer.run_maintenance_slice(&SliceBudget::default()) {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(%error, "index rows are not made for now");
                self.is_paused = true;
                return;
            }
        };
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
