//! Merging of the results of several load machines.

use super::{OperationTotals, Second, WorkloadResult};
use std::collections::BTreeMap;

/// Maximum number of examples of errors that are kept for one kind of operation.
const EXAMPLES_MAX: usize = 10;

/// Reason why two results cannot be merged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// The results belong to different workloads.
    #[error("results of {mine} and of {other} do not add up")]
    Workload {
        /// Name of the workload of the first result.
        mine: String,
        /// Name of the workload of the second result.
        other: String,
    },
    /// A second has percentiles but no histogram. Merging requires a histogram, because percentiles cannot be merged.
    #[error("second {second} has latencies but no histogram of them, so percentiles cannot be merged")]
    NoHistogram {
        /// Number of the second.
        second: u64,
    },
}

impl OperationTotals {
    /// Adds the counts of another load machine.
    pub fn merge(&mut self, other: &OperationTotals) {
        self.operations += other.operations;
        self.entries += other.entries;
        add_counts(&mut self.result_codes, &other.result_codes);
        self.errors += other.errors;
        self.wrong_answers += other.wrong_answers;
        let new: Vec<_> = other.examples.iter().filter(|example| !self.examples.contains(example)).collect();
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(new.into_iter().take(room).cloned());
        self.latency.add(&other.latency);
    }
}

impl Second {
    /// Adds the counts of another load machine in the same second. Measurements of the server (CPU, memory, disk) are
    /// taken from the machine that has them.
    ///
    /// # Errors
    /// A second has percentiles but no histogram.
    pub fn merge(&mut self, other: &Second) -> Result<(), MergeError> {
        for second in [&*self, other] {
            if second.latency.is_none() && second.max_micros.is_some() {
                return Err(MergeError::NoHistogram { second: second.second });
            }
        }
        add_counts(&mut self.operations, &other.operations);
        self.errors += other.errors;
        match (&mut self.latency, &other.latency) {
            (Some(mine), Some(theirs)) => mine.add(theirs),
            (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            (_, None) => {}
        }
        self.set_percentiles();
        self.server_cpu_micros = self.server_cpu_micros.or(other.server_cpu_micros);
        self.load_cpu_micros = match (self.load_cpu_micros, other.load_cpu_micros) {
            (Some(mine), Some(theirs)) => Some(mine + theirs),
            (mine, theirs) => mine.or(theirs),
        };
        self.rss_anon_bytes = self.rss_anon_bytes.or(other.rss_anon_bytes);
        self.rss_file_bytes = self.rss_file_bytes.or(other.rss_file_bytes);
        self.disk_read_bytes = self.disk_read_bytes.or(other.disk_read_bytes);
        self.disk_written_bytes = self.disk_written_bytes.or(other.disk_written_bytes);
        self.stolen_cpu_micros = self.stolen_cpu_micros.or(other.stolen_cpu_micros);
        Ok(())
    }
}

impl WorkloadResult {
    /// Adds the results of another load machine for the same workload in the same run. Counts and histograms are added
    /// without loss. Seconds count from the beginning of the measurement, which is the same on all load machines. The
    /// caller must compare the machines' clocks, and set `agents` and, if known, the server's cost.
    ///
    /// # Errors
    /// The results belong to different workloads, or their seconds cannot be merged.
    pub fn merge(&mut self, other: &WorkloadResult) -> Result<(), MergeError> {
        if self.workload != other.workload {
            return Err(MergeError::Workload { mine: self.workload.clone(), other: other.workload.clone() });
        }
        for (kind, totals) in &other.operations {
            self.operations.entry(*kind).or_default().merge(totals);
        }
        for second in &other.seconds {
            match self.seconds.binary_search_by_key(&second.second, |mine| mine.second) {
                Ok(index) => self.seconds[index].merge(second)?,
                Err(index) => self.seconds.insert(index, second.clone()),
            }
        }
        self.parameters.connections += other.parameters.connections;
        self.parameters.load_threads = match (self.parameters.load_threads, other.parameters.load_threads) {
            (Some(mine), Some(theirs)) => Some(mine + theirs),
            (mine, theirs) => mine.or(theirs),
        };
        if let (super::Load::Open { per_second: mine }, super::Load::Open { per_second: theirs }) =
            (&mut self.parameters.load, &other.parameters.load)
        {
            *mine += theirs;
        }
        self.measured_seconds = self.measured_seconds.max(other.measured_seconds);
        self.drain_seconds = self.drain_seconds.into_iter().chain(other.drain_seconds).reduce(f64::max);
        self.connections_closed += other.connections_closed;
        self.unanswered += other.unanswered;
        self.cost = self.cost.take().or_else(|| other.cost.clone());
        self.agents.extend(other.agents.iter().cloned());
        self.failures.extend(other.failures.iter().cloned());
        self.notes.extend(
            other.notes.iter().filter(|note| !self.notes.contains(note)).cloned().collect::<Vec<_>>(),
        );
        self.unsupported = self.unsupported.take().or_else(|| other.unsupported.clone());
        self.complete &= other.complete;
        self.set_rates();
        Ok(())
    }
}

fn add_counts<K: Ord + Copy>(mine: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
    for (key, count) in other {
        *mine.entry(*key).or_default() += count;
    }
}
