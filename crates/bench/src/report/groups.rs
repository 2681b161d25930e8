//! Groups results for comparison. Results of the same workload under the same load are in one group, even if they come
//! from different files.

use super::text;
use crate::result::{DocumentRow, Load, RunResult, SweepAxis, WorkloadResult, setting};

/// All results, ready for the report.
pub(crate) struct Groups<'a> {
    /// The servers. The first server is the reference of comparisons.
    pub(crate) servers: Vec<Server<'a>>,
    pub(crate) groups: Vec<Group<'a>>,
    /// Steps of sweeps, in the order in which they were measured.
    pub(crate) sweeps: Vec<(SweepAxis, usize, &'a WorkloadResult)>,
}

/// A server with one configuration.
pub(crate) struct Server<'a> {
    /// Product. If a product occurs more than once, the label also has the settings that distinguish its servers.
    pub(crate) label: String,
    /// All results of the server.
    pub(crate) results: Vec<&'a WorkloadResult>,
    identity: Identity<'a>,
}

/// Results of one workload under one load with one size of data.
pub(crate) struct Group<'a> {
    pub(crate) workload: &'a str,
    pub(crate) title: &'a str,
    pub(crate) entries: Option<u64>,
    /// Rows of the servers, in the order of [`Groups::servers`].
    pub(crate) rows: Vec<Row<'a>>,
    /// Result of the null responder under the same load, if there is one.
    pub(crate) floor: Option<&'a WorkloadResult>,
}

/// Results of one server in one workload, of one or several rounds.
pub(crate) struct Row<'a> {
    /// Index of the server.
    pub(crate) server: usize,
    /// Rounds in the order in which they were measured. There is at least one.
    pub(crate) rounds: Vec<&'a WorkloadResult>,
}

/// Properties by which a report distinguishes servers.
#[derive(Clone, PartialEq, Eq)]
struct Identity<'a> {
    product: &'a str,
    settings: Vec<Option<&'a str>>,
}

/// Settings by which servers differ. Indexes, passwords and the identity of clients belong to the workload.
const DISTINGUISHING_SETTINGS: [&str; 3] = [setting::DURABILITY, setting::TLS, setting::ACCESS_CONTROL];

/// The load of a group.
#[derive(PartialEq)]
struct Shape<'a> {
    workload: &'a str,
    entries: Option<u64>,
    connections: u64,
    outstanding: u64,
    load: Load,
}

impl<'a> Shape<'a> {
    fn of(result: &'a WorkloadResult) -> Shape<'a> {
        Shape {
            workload: &result.workload,
            entries: result.server.entries,
            connections: result.parameters.connections,
            outstanding: result.parameters.outstanding,
            load: result.parameters.load,
        }
    }
}

impl<'a> Groups<'a> {
    /// Sorts the results of all runs. The reference is the server whose name begins with `reference`, or the first
    /// server.
    pub(crate) fn new(runs: &'a [RunResult], reference: Option<&str>) -> Groups<'a> {
        let results = || runs.iter().flat_map(|run| &run.workloads);
        let mut servers: Vec<Server<'a>> = Vec::new();
        for result in results() {
            let identity = Identity::of(result);
            match servers.iter_mut().find(|server| server.identity == identity) {
                Some(server) => server.results.push(result),
                None => servers.push(Server { label: String::new(), results: vec![result], identity }),
            }
        }
        let chosen =
            |server: &Server<'_>| reference.is_some_and(|name| server.identity.product.starts_with(name));
        servers.sort_by_key(|server| !chosen(server));
        label(&mut servers);
        let server_of = |result: &'a WorkloadResult| {
            let identity = Identity::of(result);
            servers.iter().position(|server| server.identity == identity).unwrap_or_default()
        };
        let mut groups: Vec<(Shape<'a>, Group<'a>)> = Vec::new();
        // A result without figures states no load. So it joins a group that has results with figures.
        let (idle, measured): (Vec<_>, Vec<_>) = results()
            .filter(|result| result.sweep.is_none() && !is_load_only(result))
            .partition(|result| not_started(result).is_some());
        for result in measured.into_iter().chain(idle) {
            let shape = Shape::of(result);
            let place = groups.iter().position(|(other, _)| match not_started(result) {
                None => *other == shape,
                Some(_) => other.is_like(&shape),
            });
            let place = place.unwrap_or_else(|| {
                groups.push((shape, Group::new(result)));
                groups.len() - 1
            });
            groups[place].1.add(server_of(result), result);
        }
        let mut groups: Vec<Group<'a>> = groups.into_iter().map(|(_, group)| group).collect();
        for group in &mut groups {
            group.rows.sort_by_key(|row| row.server);
            group.floor = floor_of(runs, group.rows[0].rounds[0]);
        }
        let sweeps =
            results().filter_map(|result| Some((result.sweep?, server_of(result), result))).collect();
        Groups { servers, groups, sweeps }
    }
}

/// Returns true if data was only loaded. The report shows such results with the bulk loads.
fn is_load_only(result: &WorkloadResult) -> bool {
    result.operations.is_empty()
        && result.unsupported.is_none()
        && result.failures.is_empty()
        && result.server.bulk_load.is_some()
}

/// Reason why a result has no figures.
pub(crate) enum NotStarted<'a> {
    /// The server does not support the workload.
    Unsupported(&'a str),
    /// A step before the first request failed, such as opening the connections.
    Failed(&'a str),
}

/// Returns the reason why a result has no figures; `None` if it has figures.
fn not_started(result: &WorkloadResult) -> Option<NotStarted<'_>> {
    if let Some(reason) = &result.unsupported {
        return Some(NotStarted::Unsupported(reason));
    }
    let has_no_requests = result.parameters.connections == 0 && result.operations.is_empty();
    result.failures.first().filter(|_| has_no_requests).map(|failure| NotStarted::Failed(failure))
}

impl Shape<'_> {
    /// Returns true if both shapes have the same workload and the same size of data, or if `other` states no size. The
    /// load may differ.
    fn is_like(&self, other: &Shape<'_>) -> bool {
        self.workload == other.workload && (self.entries == other.entries || other.entries.is_none())
    }
}

impl<'a> Identity<'a> {
    fn of(result: &'a WorkloadResult) -> Identity<'a> {
        let settings = DISTINGUISHING_SETTINGS.iter().map(|name| result.server.setting(name)).collect();
        let address = result.server.uris.first().map_or("a server", String::as_str);
        let product = Some(result.server.product.as_str()).filter(|product| !product.is_empty());
        Identity { product: product.unwrap_or(address), settings }
    }
}

/// Labels servers with their products. If a product occurs more than once, the label also has the settings that differ.
fn label(servers: &mut [Server<'_>]) {
    let identities: Vec<_> = servers.iter().map(|server| server.identity.clone()).collect();
    for server in servers {
        let mine = &server.identity;
        let same: Vec<_> = identities.iter().filter(|other| other.product == mine.product).collect();
        let differs =
            |index: &usize| same.iter().any(|other| other.settings[*index] != mine.settings[*index]);
        let remarks = (0..DISTINGUISHING_SETTINGS.len()).filter(differs).map(|index| {
            format!("{} {}", DISTINGUISHING_SETTINGS[index], mine.settings[index].unwrap_or("not stated"))
        });
        let remarks: Vec<_> = remarks.collect();
        server.label = match remarks.is_empty() {
            true => mine.product.to_owned(),
            false => format!("{}, {}", mine.product, remarks.join(", ")),
        };
    }
}

/// Returns the null responder's result under the same load, if possible for the same workload. The number of
/// connections may differ; the result with the nearest number is used.
fn floor_of<'a>(runs: &'a [RunResult], result: &WorkloadResult) -> Option<&'a WorkloadResult> {
    let run = runs.iter().find(|run| run.workloads.iter().any(|other| std::ptr::eq(other, result)))?;
    let same = |limit: &&WorkloadResult| {
        limit.parameters.outstanding == result.parameters.outstanding
            && limit.parameters.load == result.parameters.load
            && limit.unsupported.is_none()
    };
    let near = |limit: &&WorkloadResult| limit.parameters.connections.abs_diff(result.parameters.connections);
    let by_name =
        run.limits.iter().filter(same).filter(|limit| limit.workload == result.workload).min_by_key(near);
    by_name.or_else(|| run.limits.iter().filter(same).min_by_key(near))
}

impl<'a> Group<'a> {
    fn new(result: &'a WorkloadResult) -> Group<'a> {
        Group {
            workload: &result.workload,
            title: if result.title.is_empty() { &result.workload } else { &result.title },
            entries: result.server.entries,
            rows: Vec::new(),
            floor: None,
        }
    }

    fn add(&mut self, server: usize, result: &'a WorkloadResult) {
        match self.rows.iter_mut().find(|row| row.server == server) {
            Some(row) => row.rounds.push(result),
            None => self.rows.push(Row { server, rounds: vec![result] }),
        }
    }

    /// Returns a result that states the load of the group. If possible, this is the result of a server that supports
    /// the workload.
    pub(crate) fn any(&self) -> &'a WorkloadResult {
        let measured = self.rows.iter().find(|row| row.not_started().is_none());
        measured.unwrap_or(&self.rows[0]).rounds[0]
    }

    pub(crate) fn is_open_loop(&self) -> bool {
        matches!(self.any().parameters.load, Load::Open { .. })
    }

    pub(crate) fn document(&self) -> Option<&'a DocumentRow> {
        self.rows.iter().flat_map(|row| &row.rounds).find_map(|result| result.document.as_ref())
    }

    /// Describes the load in a few words.
    pub(crate) fn load_text(&self) -> String {
        let parameters = &self.any().parameters;
        let mut parts = Vec::new();
        if let Some(entries) = self.entries {
            parts.push(format!("{} entries", text::count(entries)));
        }
        if parameters.connections > 0 {
            parts.push(format!("{} connections", text::count(parameters.connections)));
        }
        if parameters.outstanding > 1 {
            parts.push(format!("{} requests outstanding on each", parameters.outstanding));
        }
        if let Load::Open { per_second } = parameters.load {
            parts.push(format!("open loop at {}/s", text::rate(per_second)));
        }
        parts.join(", ")
    }
}

impl<'a> Row<'a> {
    /// Returns the round with the median rate, which represents the server. For an even number of rounds, this is the
    /// slower of the two middle rounds.
    pub(crate) fn median(&self) -> &'a WorkloadResult {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
        rounds[(rounds.len() - 1) / 2]
    }

    /// Returns the rates of the slowest and the fastest round.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let rates = self.rounds.iter().map(|round| round.per_second);
        rates.fold((f64::INFINITY, 0.0), |(low, high), rate| (low.min(rate), high.max(rate)))
    }

    pub(crate) fn unsupported(&self) -> Option<&'a str> {
        self.rounds.iter().find_map(|round| round.unsupported.as_deref())
    }

    /// Returns the reason why no round has a figure.
    pub(crate) fn not_started(&self) -> Option<NotStarted<'a>> {
        let mut reasons: Vec<_> = self.rounds.iter().map(|round| not_started(round)).collect();
        let all = reasons.iter().all(Option::is_some);
        reasons.swap_remove(0).filter(|_| all)
    }

    /// Returns true if the figures can be compared: the measurement ran to its end and every answer was right.
    pub(crate) fn is_clean(&self) -> bool {
        self.unsupported().is_none() && self.rounds.iter().all(|round| round.is_clean())
    }
}

/// Returns the anchor of the group at `index` in the page.
pub(crate) fn anchor(index: usize) -> String {
    format!("workload-{}", index + 1)
}
