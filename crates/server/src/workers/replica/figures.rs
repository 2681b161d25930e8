//! State of a replica, for `cn=monitor`, the metrics and the page `/ready`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use replication::comparison::Findings;

use crate::limits::{DIFFERING_PARTS_LOGGED, SUPPLIER_ANSWER_MAX};

/// State of a replica, which all threads share.
#[derive(Debug)]
pub(crate) struct ReplicaFigures(Mutex<ReplicaState>);

/// Stage of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaStage {
    /// There is no connection to the supplier.
    Disconnected,
    /// Records arrive as the supplier commits them.
    Following,
    /// The replica cannot continue without an administrator: it needs a new copy, or its history differs from the
    /// supplier's.
    Halted,
    /// The replica was promoted and is the writer.
    Promoted,
    /// The replica was promoted. It does not know yet whether its former supplier was promoted later.
    Undecided,
}

impl ReplicaStage {
    /// Returns the name of the stage in `cn=monitor`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ReplicaStage::Disconnected => "disconnected",
            ReplicaStage::Following => "following",
            ReplicaStage::Halted => "halted",
            ReplicaStage::Promoted => "promoted",
            ReplicaStage::Undecided => "undecided",
        }
    }
}

/// Data of [`ReplicaFigures`].
#[derive(Clone, Debug)]
pub(crate) struct ReplicaState {
    pub(crate) supplier: String,
    pub(crate) stage: ReplicaStage,
    /// Reason why the replica does not follow now.
    pub(crate) error: Option<String>,
    /// Time of the request for records that is not answered yet.
    pub(crate) requested: Option<Instant>,
    /// Reason why records cannot be applied now.
    pub(crate) apply_error: Option<String>,
    /// Position of the last applied record.
    pub(crate) position: u64,
    /// Position of the supplier's last record, from the supplier's last answer.
    pub(crate) newest: u64,
    /// Number of the present epoch.
    pub(crate) epoch: u64,
    /// Time at which the replica last had all records of the supplier. Initially the time of the start.
    pub(crate) complete: Instant,
    /// Time from the last change at the writer until it was durable here, in microseconds. It is computed from the
    /// clocks of both servers.
    pub(crate) delay_micros: u64,
    pub(crate) records: u64,
    pub(crate) connections: u64,
    pub(crate) forwarded: u64,
    pub(crate) waiting: u64,
    /// Results of comparing the data with the supplier's data.
    pub(crate) findings: Findings,
}

impl ReplicaState {
    /// Returns the number of records that the supplier has and that are not applied here yet.
    pub(crate) fn lag_records(&self) -> u64 {
        self.newest.saturating_sub(self.position)
    }

    /// Returns the reason to send all requests to another server, if there is one.
    pub(crate) fn not_ready(&self) -> Option<String> {
        let error = self.error.as_ref().filter(|_| self.stage == ReplicaStage::Halted)?;
        Some(format!("this replica does not follow its supplier, and its data grows old: {error}"))
    }

    /// Returns the reason why a promoted server makes no changes yet.
    pub(super) fn undecided(&self) -> String {
        let supplier = &self.supplier;
        let error = self.error.as_deref().unwrap_or("no answer yet");
        format!(
            "this server was promoted, and its former supplier {supplier}, which the table [replica] names, has not \
             said whether it was promoted later ({error}): if this server is to write, remove the table and restart it"
        )
    }

    /// Returns the parts of the data that differ from the supplier's data, if any do.
    pub(crate) fn differing(&self) -> Option<String> {
        let parts = self.findings.parts();
        let listed = parts.iter().take(DIFFERING_PARTS_LOGGED).copied().collect::<Vec<_>>().join("; ");
        (!parts.is_empty()).then_some(listed)
    }

    /// Returns the reason to send changes to another server, if there is one.
    pub(crate) fn refusal(&self, now: Instant) -> Option<String> {
        if self.stage == ReplicaStage::Undecided {
            return Some(self.undecided());
        }
        let silence = self.requested.map(|requested| now.saturating_duration_since(requested));
        if let Some(silence) =
            silence.filter(|&silence| self.stage == ReplicaStage::Following && silence > SUPPLIER_ANSWER_MAX)
        {
            let seconds = silence.as_secs();
            return Some(format!("the supplier of this replica has not answered for {seconds} seconds"));
        }
        let error = self.error.as_ref().filter(|_| self.stage == ReplicaStage::Disconnected)?;
        Some(format!("this replica cannot reach its supplier: {error}"))
    }
}

impl ReplicaFigures {
    pub(crate) fn new(supplier: String, now: Instant) -> ReplicaFigures {
        ReplicaFigures(Mutex::new(ReplicaState {
            supplier,
            stage: ReplicaStage::Disconnected,
            error: None,
            requested: None,
            apply_error: None,
            position: 0,
            newest: 0,
            epoch: 1,
            complete: now,
            delay_micros: 0,
            records: 0,
            connections: 0,
            forwarded: 0,
            waiting: 0,
            findings: Findings::default(),
        }))
    }

    pub(crate) fn get(&self) -> ReplicaState {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ReplicaState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the replica does not follow. Returns true if the reason is new.
    pub(super) fn failed(&self, stage: ReplicaStage, text: &str) -> bool {
        let mut state = self.lock();
        let is_new = state.error.as_deref() != Some(text) && state.stage != ReplicaStage::Promoted;
        if state.stage != ReplicaStage::Promoted {
            (state.stage, state.error) = (stage, Some(text.to_owned()));
        }
        is_new
    }

    /// Records that this server begins the stage `stage`, without an error.
    pub(super) fn begins(&self, stage: ReplicaStage) {
        let mut state = self.lock();
        (state.stage, state.error) = (stage, None);
    }

    /// Records that this server is the writer now, in the epoch with this number.
    pub(super) fn promoted(&self, epoch: u64) {
        let mut state = self.lock();
        (state.stage, state.error, state.apply_error, state.epoch) =
            (ReplicaStage::Promoted, None, None, epoch);
        state.findings = Findings::default();
    }

    /// Records that the replica has requested records.
    pub(super) fn record_request(&self, now: Instant) {
        self.lock().requested = Some(now);
    }

    /// Records an answer to the request for records. `newest` is the supplier's last position.
    pub(super) fn record_answer(&self, newest: u64) {
        let mut state = self.lock();
        state.requested = None;
        if state.stage != ReplicaStage::Promoted {
            (state.stage, state.error, state.newest) = (ReplicaStage::Following, None, newest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_supplier_that_does_not_answer_is_noticed_within_five_seconds() {
        let begin = Instant::now();
        let figures = ReplicaFigures::new("ldaps://supplier".to_owned(), begin);
        let refusal = |millis| figures.get().refusal(begin + Duration::from_millis(millis));
        figures.record_answer(1);
        figures.record_request(begin);
        assert_eq!(refusal(3_000), None);
        assert!(refusal(5_000).unwrap().contains("has not answered for 5 seconds"));
        figures.record_answer(2);
        assert_eq!(refusal(60_000), None, "no request is pending while records are applied");
        figures.record_request(begin);
        figures.failed(ReplicaStage::Disconnected, "no route");
        assert!(refusal(3_000).unwrap().contains("no route"));
        figures.promoted(2);
        assert_eq!(refusal(60_000), None);
    }
}
