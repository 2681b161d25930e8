//! Comparison of this replica's data with the supplier's data, at the marks (digest barriers) that arrive with records.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forwarding::row_digests::digests;
use replication::comparison::{Mark, Report, Verdict};

use super::Replica;
use super::figures::ReplicaFigures;

/// Digests of this replica's data at the last mark, until the supplier has compared them.
#[derive(Default)]
pub(super) struct Reports(Mutex<Option<Report>>);

impl Reports {
    /// Returns the digests to send with the next request, if there are any.
    pub(super) fn next(&self) -> Option<Report> {
        self.lock().clone()
    }

    /// Handles the supplier's verdict on the digests in `report`.
    pub(super) fn judged(&self, report: &Report, verdict: Verdict, figures: &ReplicaFigures) {
        if verdict == Verdict::Pending {
            return;
        }
        // The digests of a later mark may have replaced these digests. In that case the later digests remain.
        drop(self.lock().take_if(|next| next == report));
        let Verdict::Compared(parts) = verdict else { return };
        let position = report.mark.position;
        let mut state = figures.lock();
        if state.findings.take(report.mark.slice.clone(), parts) {
            let parts = state.differing().unwrap_or_default();
            tracing::error!(
                "the data of this replica differs from the supplier's at position {position}, in: {parts}. `pando \
                 verify` on both may show which is damaged; to copy the data again, move the data directory away and \
                 start again"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Report>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replica {
    /// Computes the digests of the mark's slice, if the data is at the mark's position.
    pub(super) fn compare(&mut self, mark: Mark) {
        if self.progress.position() != mark.position || self.digests.is_busy() {
            return;
        }
        let snapshot = match self.parts.directory.snapshot() {
            Ok(snapshot) if snapshot.position().is_ok_and(|position| position == mark.position) => snapshot,
            Ok(_) => return,
            Err(error) => return tracing::warn!(%error, "the data is not compared with the supplier's"),
        };
        let reports = Arc::clone(&self.reports);
        let started = self.digests.start(move |alive| match digests(&snapshot, &mark.slice, alive) {
            Ok(parts) => *reports.lock() = Some(Report { mark, parts }),
            Err(error) => tracing::error!("the data cannot be compared with the supplier's: {error}"),
        });
        if let Err(error) = started {
            tracing::warn!("the data is not compared with the supplier's: {error}");
        }
    }
}
