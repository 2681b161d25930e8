//! Computation of a run's result from the counts of the threads.

use std::collections::BTreeMap;

use super::observe::Observer;
use super::plan::{Plan, PlannedKeys};
use super::worker::{Finished, Schedule};
use super::{Options, Targets};
use crate::result::{
    DataSet, Load, OperationKind, OperationTotals, Parameters, Second, ServerDescription, WorkloadResult,
    setting,
};
use crate::workload::{KeyOrder, KeySource, Operation, OperationName, Workload};

/// Maximum share of the time that a driver thread may be working. Above this share, the thread is the bottleneck.
const BUSY_SHARE_MAX: f64 = 0.95;

/// Counts of each second from all threads, merged as they arrive.
#[derive(Debug)]
pub(crate) struct Seconds {
    threads: usize,
    keep_histograms: bool,
    seconds: BTreeMap<u64, (usize, Second)>,
    whole: Option<u64>,
}

impl Seconds {
    pub(crate) fn new(threads: usize, keep_histograms: bool) -> Seconds {
        Seconds { threads, keep_histograms, seconds: BTreeMap::new(), whole: None }
    }

    pub(crate) fn add(&mut self, second: Second) {
        let number = second.second;
        let (count, merged) =
            self.seconds.entry(number).or_insert_with(|| (0, Second { second: number, ..Second::default() }));
        // Both seconds have histograms, so merging cannot fail.
        let _ = merged.merge(&second);
        *count += 1;
        if *count == self.threads {
            merged.set_percentiles();
            // All threads have reported this second, so its histograms are no longer needed.
            if !self.keep_histograms {
                merged.latency = None;
            }
            self.whole = self.whole.max(Some(number));
        }
    }

    /// Returns the counts of the last second that all threads have reported.
    pub(crate) fn last_whole(&self) -> Option<&Second> {
        self.whole.and_then(|number| self.seconds.get(&number)).map(|(_, second)| second)
    }

    /// Returns all seconds without gaps, including the samples of the server.
    fn finish(self, of_server: Vec<Second>) -> Vec<Second> {
        let last = self.seconds.keys().chain(of_server.iter().map(|second| &second.second)).max();
        let Some(last) = last.copied() else { return Vec::new() };
        let mut all: Vec<Second> =
            (0..=last).map(|number| Second { second: number, ..Second::default() }).collect();
        for (number, (_, mut second)) in self.seconds {
            second.set_percentiles();
            if !self.keep_histograms {
                second.latency = None;
            }
            all[number as usize] = second;
        }
        for seen in of_server {
            all[seen.second as usize].set_cost(&seen);
        }
        all
    }
}

/// Counts of all threads.
pub(crate) struct Collected {
    kinds: BTreeMap<OperationKind, OperationTotals>,
    seconds: Seconds,
    schedule: Schedule,
    observer: Observer,
    pub(crate) added: Vec<u64>,
    connections: u64,
    connections_closed: u64,
    unanswered: u64,
    due: u64,
    unsent: u64,
    drain_nanos: u64,
    failures: Vec<String>,
    busy: f64,
    last: u64,
    threads: u64,
    /// Wall-clock time at which measuring began.
    started: String,
    /// TLS version and cipher that the first server negotiated; `None` without TLS.
    pub(crate) agreed: Option<String>,
    pub(crate) tls: String,
}

impl Collected {
    pub(crate) fn new(
        seconds: Seconds,
        schedule: Schedule,
        observer: Observer,
        started: String,
    ) -> Collected {
        Collected {
            kinds: BTreeMap::new(),
            seconds,
            schedule,
            observer,
            added: Vec::new(),
            connections: 0,
            connections_closed: 0,
            unanswered: 0,
            due: 0,
            unsent: 0,
            drain_nanos: 0,
            failures: Vec::new(),
            busy: 0.0,
            last: 0,
            threads: 0,
            started,
            agreed: None,
            tls: String::new(),
        }
    }

    pub(crate) fn add(mut self, finished: Finished) -> Collected {
        for (kind, totals) in &finished.tally.kinds {
            self.kinds.entry(*kind).or_default().merge(totals);
        }
        self.added.extend(finished.added);
        self.connections += finished.connections;
        self.connections_closed += finished.tally.connections_closed;
        self.unanswered += finished.tally.unanswered;
        self.due += finished.due;
        self.unsent += finished.unsent;
        self.drain_nanos = self.drain_nanos.max(finished.drain_nanos);
        for failure in finished.tally.failures {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
        self.busy = self.busy.max(finished.busy);
        self.last = self.last.max(finished.last);
        self.threads += 1;
        self.agreed = self.agreed.or(finished.tls);
        self
    }
}

/// Returns the result of a run.
pub(crate) fn result(
    workload: &Workload,
    plan: &Plan,
    targets: &Targets,
    options: &Options,
    collected: Collected,
) -> WorkloadResult {
    let Schedule { start, warm_up_end, from, to } = collected.schedule;
    let ended_early = workload.can_be_used_up() && collected.last < to && collected.last > from;
    let measured_nanos = if ended_early { collected.last - from } else { to - from };
    let (cost, of_server, failure) = collected.observer.finish();
    let connections: usize =
        plan.jobs.iter().map(|job| job.clients * usize::from(job.keeps(super::plan::On::Main)).max(1)).sum();
    let mut result = WorkloadResult {
        started: collected.started,
        measured_seconds: measured_nanos as f64 / 1e9,
        operations: collected.kinds,
        seconds: collected.seconds.finish(of_server),
        cost,
        connections_closed: collected.connections_closed,
        unanswered: collected.unanswered,
        failures: collected.failures,
        complete: true,
        ..frame(workload, targets, options)
    };
    result.failures.extend(failure);
    result.server.set(setting::TLS, collected.tls);
    result.parameters.connections = collected.connections.max(connections as u64);
    result.parameters.outstanding = plan.jobs.iter().map(|job| job.outstanding).max().unwrap_or(1) as u64;
    result.parameters.warm_up_seconds = (warm_up_end - start) as f64 / 1e9;
    result.parameters.duration_seconds = Some((to - from) as f64 / 1e9);
    result.parameters.load_threads = Some(collected.threads);
    result.parameters.connections_per_server_process =
        Some(result.parameters.connections.div_ceil(targets.uris.len() as u64));
    let rates: Vec<f64> = plan.jobs.iter().filter_map(|job| job.rate).collect();
    if !rates.is_empty() {
        result.parameters.load = Load::Open { per_second: rates.iter().sum() };
    }
    if collected.busy > BUSY_SHARE_MAX {
        result.notes.push(format!(
            "the load driver was busy {:.0}% of the time: the server may be able to do more; give the driver more \
             threads or machines",
            collected.busy * 100.0
        ));
    }
    result.drain_seconds = Some(collected.drain_nanos as f64 / 1e9);
    if let Some(missed) = missed(&result, collected.due, collected.unsent) {
        // This is inserted as the first failure, because it qualifies all other figures.
        result.failures.insert(0, missed);
    }
    result.notes.extend(rounds(plan));
    if ended_early {
        result.notes.push("the workload was used up before its time".to_owned());
    }
    result.set_rates();
    result
}

/// Describes by how much the answers fell short of the intended rate. Returns `None` if all due requests were sent and
/// enough of them were answered.
///
/// By Little's law, the number of outstanding requests is the rate multiplied by the mean latency. At the end, this
/// number of requests, but at most a quarter of all requests, may be unanswered. In addition, 1% of all requests may be
/// unanswered.
fn missed(result: &WorkloadResult, due: u64, unsent: u64) -> Option<String> {
    let answered = result.operations_total() + result.errors_total() + result.wrong_answers_total();
    let left = due.saturating_sub(unsent).saturating_sub(answered);
    let latency_seconds = result.latency().mean_micros().unwrap_or_default() / 1e6;
    let under_way = latency_seconds / result.measured_seconds.max(1e-9) * due as f64;
    let due_count = due as f64;
    if unsent == 0 && left as f64 <= under_way.min(due_count / 4.0) + due_count / 100.0 {
        return None;
    }
    Some(format!(
        "the server did not keep up with the rate: of {due} requests that were due, {unsent} could not be sent, and \
         {left} were sent and not answered in the measured time"
    ))
}

/// Describes how many times an operation has used all entries of its sequence, if it has used all of them at least
/// once.
fn rounds(plan: &Plan) -> Option<String> {
    let of = |operation: &super::plan::PlannedOperation| match &operation.keys {
        PlannedKeys::Sequence { sequence, is_own: false } => Some((sequence.rounds(), sequence.count())),
        _ => None,
    };
    let all = plan.jobs.iter().flat_map(|job| &job.operations).filter_map(of);
    let (rounds, count) = all.max()?;
    (rounds > 0).then(|| {
        format!("each of the {count} entries was asked for {rounds} times or more: the run was longer than the data")
    })
}

/// Returns a result without figures, for a server that does not support the workload.
pub(crate) fn unsupported(
    workload: &Workload,
    targets: &Targets,
    options: &Options,
    why: String,
) -> WorkloadResult {
    WorkloadResult { unsupported: Some(why), complete: true, ..frame(workload, targets, options) }
}

/// Returns a result that contains everything known before the measurement.
fn frame(workload: &Workload, targets: &Targets, options: &Options) -> WorkloadResult {
    let data = (!workload.data.template.is_empty()).then(|| DataSet {
        template: workload.data.template.clone(),
        seed: options.data_seed,
        entry_bytes: None,
    });
    WorkloadResult {
        server: ServerDescription {
            uris: targets.uris.clone(),
            entries: Some(options.entries.unwrap_or(workload.data.entries)),
            data,
            bind_identity: options.bind.as_ref().map_or("anonymous", |(name, _)| name).to_owned(),
            ..ServerDescription::default()
        },
        parameters: Parameters {
            key_order: key_order(workload),
            seed: options.seed,
            request: request(workload),
            ..Parameters::default()
        },
        notes: if workload.about.is_empty() { Vec::new() } else { vec![workload.about.clone()] },
        ..workload.result()
    }
}

fn key_order(workload: &Workload) -> String {
    let mut orders: Vec<String> = Vec::new();
    for operation in workload.jobs.iter().flat_map(|job| &job.operations) {
        if operation.keys != KeySource::Data || operation.weight == 0 {
            continue;
        }
        let share = match operation.share {
            Some(share) if share < 1.0 => format!("sparse {}%", share * 100.0),
            _ => "exhaustive".to_owned(),
        };
        let text = match operation.order {
            KeyOrder::Random => format!("random, {share}"),
            order => format!("{order}, no key twice, {share}"),
        };
        if !orders.contains(&text) {
            orders.push(text);
        }
    }
    orders.join("; ")
}

/// Describes the requests in words.
fn request(workload: &Workload) -> String {
    let mut parts = Vec::new();
    for job in &workload.jobs {
        let total: u32 = job.operations.iter().map(|operation| operation.weight).sum();
        for operation in job.operations.iter().filter(|operation| operation.weight > 0) {
            let share = if operation.weight == total {
                String::new()
            } else {
                format!("{}% ", (f64::from(operation.weight) * 100.0 / f64::from(total)).round())
            };
            parts.push(format!("{share}{}", describe(operation)));
        }
    }
    parts.join("; ")
}

fn describe(operation: &Operation) -> String {
    let text = |field: &Option<crate::workload::Text>| {
        field.as_ref().map(|text| text.get_ref().clone()).unwrap_or_default()
    };
    let list = |texts: &[crate::workload::Text]| {
        texts.iter().map(|text| text.get_ref().as_str()).collect::<Vec<_>>().join(", ")
    };
    if let Some(listed) = &operation.listed {
        return format!("{} searches from {}", listed.searches.len(), listed.source);
    }
    let search = || {
        let filter = operation.filter.as_ref().map_or("(objectClass=*)", |filter| filter.get_ref());
        let attributes = if operation.attributes.is_empty() {
            "all attributes".to_owned()
        } else {
            list(&operation.attributes)
        };
        format!("search {:?} {} {filter} for {attributes}", text(&operation.base), operation.scope)
    };
    match operation.kind.get_ref() {
        OperationName::Search => search(),
        OperationName::Authentication => format!("{}, then bind as {}", search(), text(&operation.dn)),
        OperationName::Bind => {
            let how = operation.mechanism.sasl_name().unwrap_or("simple");
            let who = if operation.user.is_some() { text(&operation.user) } else { text(&operation.dn) };
            format!("{} ({how}) as {who}", operation.kind())
        }
        OperationName::Compare => {
            format!("compare {} of {}", text(&operation.attribute), text(&operation.dn))
        }
        OperationName::Modify => format!("modify {}: {}", text(&operation.dn), list(&operation.changes)),
        OperationName::Add => format!("add {}", text(&operation.dn)),
        OperationName::Delete => format!("delete {}", text(&operation.dn)),
        OperationName::Rename => {
            format!("rename {} to {} and back", text(&operation.dn), text(&operation.new_rdn))
        }
    }
}
