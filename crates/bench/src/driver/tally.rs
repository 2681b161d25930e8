//! Counts of a thread: totals by kind of operation, and counts of each second.

use std::sync::mpsc::Sender;

use crate::result::{Latency, OperationKind, OperationTotals, Second};

/// Maximum number of examples of errors that are stored for each kind of operation, and of failures of a thread.
const EXAMPLES_MAX: usize = 5;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Outcome of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Ending<'a> {
    Right,
    /// An unexpected result code, with the server's diagnostic message.
    Error(&'a [u8]),
    /// The expected result code with wrong content, and a description.
    Wrong(&'static str),
}

/// Counts of one thread.
pub(crate) struct Tally {
    kinds: Vec<(OperationKind, OperationTotals)>,
    second: Second,
    second_latency: Latency,
    /// Start and end of the measurement, in nanoseconds since the run began.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) connections_closed: u64,
    pub(crate) unanswered: u64,
    pub(crate) failures: Vec<String>,
    seconds: Sender<Second>,
    counts: Vec<u64>,
    /// CPU time of this thread at the beginning of the current second. The next field is its CPU time at the beginning
    /// of the measurement.
    cpu_second: u64,
    cpu_from: Option<u64>,
    cpu_to: u64,
    handed_in: u64,
}

impl Tally {
    pub(crate) fn new(kinds: &[OperationKind], seconds: Sender<Second>) -> Tally {
        Tally {
            kinds: kinds.iter().map(|kind| (*kind, OperationTotals::default())).collect(),
            counts: vec![0; kinds.len()],
            second: Second::default(),
            second_latency: Latency::new(),
            from: u64::MAX,
            to: u64::MAX,
            connections_closed: 0,
            unanswered: 0,
            failures: Vec::new(),
            seconds,
            cpu_second: 0,
            cpu_from: None,
            cpu_to: 0,
            handed_in: 0,
        }
    }

    /// Starts the measurement; later calls have no effect.
    pub(crate) fn begin_once(&mut self) {
        if self.cpu_from.is_none() {
            let cpu = thread_cpu_micros();
            self.cpu_from = Some(cpu);
            self.cpu_second = cpu;
        }
    }

    /// Returns the share of the measured time that this thread was working.
    pub(crate) fn busy(&self) -> f64 {
        let Some(from) = self.cpu_from else { return 0.0 };
        let seconds = self.handed_in.max(1);
        (self.cpu_to.saturating_sub(from)) as f64 / 1e6 / seconds as f64
    }

    /// Returns true if a time is within the measurement.
    pub(crate) fn is_measured(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }

    /// Counts an operation that was answered during the measurement. Only a correct answer counts as an operation and
    /// has a latency. Otherwise a server that refuses everything would seem fast.
    pub(crate) fn answered(&mut self, kind: usize, code: u32, entries: u32, ending: &Ending<'_>) {
        let (_, totals) = &mut self.kinds[kind];
        *totals.result_codes.entry(code).or_default() += 1;
        let example = match ending {
            Ending::Right => {
                self.counts[kind] += 1;
                totals.operations += 1;
                totals.entries += u64::from(entries);
                return;
            }
            Ending::Error(diagnostic) => {
                totals.errors += 1;
                format!("result code {code}: {}", String::from_utf8_lossy(diagnostic))
            }
            Ending::Wrong(what) => {
                totals.wrong_answers += 1;
                (*what).to_owned()
            }
        };
        self.second.errors += 1;
        if totals.examples.len() < EXAMPLES_MAX && !totals.examples.contains(&example) {
            totals.examples.push(example);
        }
    }

    /// Records the latency of a correct answer.
    pub(crate) fn took(&mut self, kind: usize, nanos: u64) {
        let micros = nanos.div_ceil(1000);
        self.second_latency.record_micros(micros);
        self.kinds[kind].1.latency.record_micros(micros);
    }

    /// Counts a connection that broke while in use.
    pub(crate) fn closed(&mut self, why: String) {
        self.connections_closed += 1;
        self.second.errors += 1;
        self.fail(why);
    }

    /// Records a failure. Records no failure twice, and at most [`EXAMPLES_MAX`] failures.
    pub(crate) fn fail(&mut self, why: String) {
        if self.failures.len() < EXAMPLES_MAX && !self.failures.contains(&why) {
            self.failures.push(why);
        }
    }

    /// Returns the end of the current second.
    pub(crate) fn second_end(&self) -> u64 {
        self.from.saturating_add((self.second.second + 1) * NANOS_PER_SECOND)
    }

    /// Reports all seconds that are over.
    pub(crate) fn hand_in(&mut self, now: u64) {
        while now >= self.second_end() {
            self.hand_in_one();
        }
    }

    fn hand_in_one(&mut self) {
        let next = Second { second: self.second.second + 1, ..Second::default() };
        let mut second = std::mem::replace(&mut self.second, next);
        for (count, (kind, _)) in self.counts.iter_mut().zip(&self.kinds) {
            if *count > 0 {
                *second.operations.entry(*kind).or_default() += std::mem::take(count);
            }
        }
        let cpu = thread_cpu_micros();
        second.load_cpu_micros = Some(cpu.saturating_sub(std::mem::replace(&mut self.cpu_second, cpu)));
        if self.from.saturating_add(second.second * NANOS_PER_SECOND) < self.to {
            self.cpu_to = cpu;
            self.handed_in += 1;
        }
        second.latency = Some(self.second_latency.clone());
        self.second_latency.clear();
        // Sending fails only if the run is being aborted.
        let _ = self.seconds.send(second);
    }

    /// Reports the remaining counts, if there are any.
    pub(crate) fn finish(mut self) -> TallyTotals {
        if self.second.errors > 0 || self.counts.iter().any(|count| *count > 0) {
            self.hand_in_one();
        }
        TallyTotals {
            kinds: self.kinds,
            connections_closed: self.connections_closed,
            unanswered: self.unanswered,
            failures: self.failures,
        }
    }
}

/// Counts of a thread at its end.
pub(crate) struct TallyTotals {
    pub(crate) kinds: Vec<(OperationKind, OperationTotals)>,
    pub(crate) connections_closed: u64,
    pub(crate) unanswered: u64,
    pub(crate) failures: Vec<String>,
}

fn thread_cpu_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}
