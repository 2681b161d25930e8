//! The values of the page's template, all as text, so that the template computes nothing.

use super::charts::{self, Figure};
use super::documents::{self, DocumentView};
use super::groups::anchor;
use super::groups::{Group, Groups, Row};
use super::overview::{self, Overview};
use super::plot::PlotError;
use super::problems::{self, Problem, problems_of};
use super::sweeps::{self, SweepView};
use super::text::{self, NOTHING};
use super::verdict::{self, Verdict};
use super::{environment, environment::EnvironmentView};
use crate::result::{AgentState, OperationTotals, Parameters, RunResult, WorkloadResult};
use serde::Serialize;

/// The whole page.
#[derive(Debug, Serialize)]
pub(crate) struct Page<'a> {
    title: String,
    subtitle: String,
    problems: Vec<Problem>,
    /// Sentence that names the checks that all results passed; empty if there are problems.
    assurance: String,
    verdicts: Vec<Verdict>,
    overview: Option<Overview>,
    glance: Vec<GlanceGroup>,
    workloads: Vec<WorkloadView<'a>>,
    documents: Vec<DocumentView>,
    sweeps: Vec<SweepView>,
    environment: EnvironmentView<'a>,
    series_count: usize,
}

/// One workload in the summary at the top of the page.
#[derive(Debug, Serialize)]
struct GlanceGroup {
    anchor: String,
    title: String,
    load: String,
    floor: Option<String>,
    rows: Vec<GlanceRow>,
}

#[derive(Debug, Serialize)]
struct GlanceRow {
    server: String,
    colour: usize,
    unsupported: Option<String>,
    /// Whether the figure has a problem.
    is_flagged: bool,
    rate: String,
    /// Length of the bar, in percent of the longest bar.
    share: String,
    /// Ratio of the first server's rate to the rate of this server.
    ratio: Option<String>,
    p50: String,
    p99: String,
    cpu: String,
}

/// All details of one workload.
#[derive(Debug, Serialize)]
struct WorkloadView<'a> {
    anchor: String,
    name: String,
    title: String,
    load: String,
    request: String,
    parameters: &'a Parameters,
    agents: &'a [AgentState],
    document: Option<String>,
    problems: Vec<Problem>,
    notes: Vec<String>,
    rows: Vec<ResultRow>,
    kinds: Vec<KindRow>,
    figures: Vec<Figure>,
    is_cost_unknown: bool,
}

/// The figures of one server, or of the null responder.
#[derive(Debug, Default, Serialize)]
struct ResultRow {
    server: String,
    colour: Option<usize>,
    unsupported: Option<String>,
    is_flagged: bool,
    cells: Vec<String>,
    /// Rates of the slowest and the fastest round, if there are several.
    rounds: Option<String>,
    errors: String,
}

/// Figures of one kind of operation in a mix.
#[derive(Debug, Serialize)]
struct KindRow {
    server: String,
    colour: usize,
    kind: String,
    cells: Vec<String>,
}

/// Headings of [`ResultRow::cells`], in the template's order: rate, latencies, cost.
pub(crate) const RESULT_HEADINGS: [&str; 11] = [
    "Operations/s",
    "mean",
    "50%",
    "90%",
    "99%",
    "99.9%",
    "longest",
    "CPU a request",
    "CPU",
    "private memory",
    "written a request",
];

impl<'a> Page<'a> {
    pub(crate) fn new(runs: &'a [RunResult], groups: &Groups<'a>) -> Result<Page<'a>, PlotError> {
        let workloads =
            groups.groups.iter().enumerate().map(|(index, group)| workload_view(index, group, groups));
        let glance =
            groups.groups.iter().enumerate().map(|(index, group)| glance_group(index, group, groups));
        let mut names: Vec<&str> = groups.servers.iter().map(|server| server.label.as_str()).collect();
        names.dedup();
        Ok(Page {
            title: if names.is_empty() { "LDAP benchmark".to_owned() } else { names.join(" · ") },
            subtitle: environment::subtitle(runs),
            problems: problems::all(runs, groups, anchor),
            assurance: assurance(runs),
            verdicts: verdict::verdicts(groups),
            overview: overview::overview(groups),
            glance: glance.collect(),
            workloads: workloads.collect::<Result<_, _>>()?,
            documents: documents::views(groups),
            sweeps: sweeps::views(groups)?,
            environment: environment::view(runs, groups),
            series_count: groups.servers.len(),
        })
    }
}

fn assurance(runs: &[RunResult]) -> String {
    let results = || runs.iter().flat_map(|run| &run.workloads);
    let answers: u64 = results().map(WorkloadResult::operations_total).sum();
    let compared: u64 =
        runs.iter().flat_map(|run| &run.comparisons).map(|comparison| comparison.requests).sum();
    let same = match compared {
        0 => String::new(),
        _ => format!(" The servers gave the same answers to {} requests.", text::count(compared)),
    };
    format!(
        "Every one of {} answers was checked, and none was wrong; no connection was closed; every run came to its \
         end.{same}",
        text::count(answers)
    )
}

fn glance_group(index: usize, group: &Group<'_>, groups: &Groups<'_>) -> GlanceGroup {
    let fastest = group.rows.iter().map(|row| row.median().per_second).fold(0.0, f64::max);
    let reference = group.rows.first().filter(|row| row.server == 0 && row.unsupported().is_none());
    let row = |row: &Row<'_>| {
        let result = row.median();
        let latency = result.latency();
        let micros = |percent| text::percentile(&latency, percent);
        GlanceRow {
            server: groups.servers[row.server].label.clone(),
            colour: row.server,
            unsupported: row.unsupported().map(str::to_owned),
            is_flagged: !row.is_clean(),
            rate: text::rate(result.per_second),
            share: format!("{:.1}", 100.0 * result.per_second / fastest.max(f64::MIN_POSITIVE)),
            ratio: reference
                .filter(|reference| reference.server != row.server && row.unsupported().is_none())
                .and_then(|reference| verdict::ratio(group, reference, row))
                .map(text::ratio),
            p50: micros(50.0).unwrap_or(NOTHING.to_owned()),
            p99: micros(99.0).unwrap_or(NOTHING.to_owned()),
            cpu: cpu_each(result),
        }
    };
    GlanceGroup {
        anchor: anchor(index),
        title: group.title.to_owned(),
        load: group.load_text(),
        floor: group.floor.map(|floor| text::rate(floor.per_second)),
        rows: group.rows.iter().map(row).collect(),
    }
}

fn cpu_each(result: &WorkloadResult) -> String {
    let cost = result.cost.as_ref().filter(|_| result.operations_total() > 0);
    cost.map_or(NOTHING.to_owned(), |cost| text::micros(cost.cpu_micros_per_operation))
}

fn workload_view<'a>(
    index: usize,
    group: &Group<'a>,
    groups: &Groups<'a>,
) -> Result<WorkloadView<'a>, PlotError> {
    let anchor = anchor(index);
    let mut problems = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for row in &group.rows {
        for round in &row.rounds {
            let texts = problems_of(round).into_iter();
            let subject = groups.servers[row.server].label.clone();
            problems.extend(texts.map(|text| Problem { subject: subject.clone(), anchor: None, text }));
            let new = round.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>();
            notes.extend(new);
        }
    }
    let mut rows: Vec<ResultRow> = group.rows.iter().map(|row| result_row(row, groups)).collect();
    if let Some(floor) = group.floor {
        let cells = result_cells(floor);
        rows.push(ResultRow { server: "null responder".to_owned(), cells, ..ResultRow::default() });
    }
    let any = group.any();
    Ok(WorkloadView {
        anchor,
        name: group.workload.to_owned(),
        title: group.title.to_owned(),
        load: group.load_text(),
        request: any.parameters.request.clone(),
        parameters: &any.parameters,
        agents: &any.agents,
        document: group.document().map(document_text),
        problems,
        notes,
        rows,
        kinds: kind_rows(group, groups),
        figures: charts::figures(group, &groups.servers)?,
        is_cost_unknown: group
            .rows
            .iter()
            .any(|row| row.unsupported().is_none() && row.median().cost.is_none()),
    })
}

fn document_text(row: &crate::result::DocumentRow) -> String {
    let place = [&row.document, &row.table, &row.row].into_iter().filter(|part| !part.is_empty());
    let figures = row.figures.iter().map(|figure| {
        let mut parts = Vec::new();
        parts.extend(figure.per_second.map(|rate| format!("{}/s", text::rate(rate))));
        parts.extend(figure.latency_ms.map(|latency| format!("{latency} ms")));
        parts.extend(figure.clients.map(|clients| format!("{} clients", text::count(clients))));
        parts.extend(Some(&figure.note).filter(|note| !note.is_empty()).cloned());
        let figure_text = parts.join(", ");
        if figure.label.is_empty() { figure_text } else { format!("{}: {figure_text}", figure.label) }
    });
    let figures: Vec<_> = figures.collect();
    let place = place.cloned().collect::<Vec<_>>().join(", ");
    if figures.is_empty() {
        place
    } else {
        format!("{place}. Its figures, from other hardware: {}", figures.join("; "))
    }
}

fn result_row(row: &Row<'_>, groups: &Groups<'_>) -> ResultRow {
    let result = row.median();
    let (low, high) = row.spread();
    ResultRow {
        server: groups.servers[row.server].label.clone(),
        colour: Some(row.server),
        unsupported: row.unsupported().map(str::to_owned),
        is_flagged: !row.is_clean(),
        cells: result_cells(result),
        rounds: (row.rounds.len() > 1)
            .then(|| format!("{} rounds: {}–{}", row.rounds.len(), text::rate(low), text::rate(high))),
        errors: text::count(
            row.rounds.iter().map(|round| round.errors_total() + round.wrong_answers_total()).sum(),
        ),
    }
}

fn result_cells(result: &WorkloadResult) -> Vec<String> {
    let latency = result.latency();
    let percentile = |percent| text::percentile(&latency, percent);
    let cost = result.cost.as_ref();
    let seconds = result.measured_seconds.max(f64::MIN_POSITIVE);
    let cells = [
        Some(text::rate(result.per_second)),
        latency.mean_micros().map(text::micros),
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        percentile(99.9),
        percentile(100.0),
        cost.map(|_| cpu_each(result)),
        cost.map(|cost| format!("{:.0}%", cost.cpu_micros as f64 / 1e4 / seconds)),
        cost.and_then(|cost| cost.rss_anon_peak_bytes).map(|bytes| text::bytes(bytes as f64)),
        cost.and_then(|cost| cost.disk_written_bytes_per_operation).map(text::bytes),
    ];
    cells.into_iter().map(|cell| cell.unwrap_or(NOTHING.to_owned())).collect()
}

/// Returns the rows of a mix, one for each server and kind of operation; none for workloads with only one kind of
/// operation.
fn kind_rows(group: &Group<'_>, groups: &Groups<'_>) -> Vec<KindRow> {
    let is_mix = group.rows.iter().any(|row| row.median().operations.len() > 1);
    let measured = group.rows.iter().filter(|row| is_mix && row.unsupported().is_none());
    let rows = measured.flat_map(|row| {
        let result = row.median();
        result.operations.iter().map(move |(kind, totals)| KindRow {
            server: groups.servers[row.server].label.clone(),
            colour: row.server,
            kind: kind.name().to_owned(),
            cells: kind_cells(result, totals),
        })
    });
    rows.collect()
}

fn kind_cells(result: &WorkloadResult, totals: &OperationTotals) -> Vec<String> {
    let percentile = |percent| text::percentile(&totals.latency, percent);
    let seconds = result.measured_seconds.max(f64::MIN_POSITIVE);
    let codes = totals.result_codes.iter().filter(|(code, _)| **code != 0);
    let codes: Vec<_> =
        codes.map(|(code, count)| format!("{} {}", ldap::ResultCode(*code), text::count(*count))).collect();
    let cells = [
        Some(text::rate(totals.operations as f64 / seconds)),
        percentile(50.0),
        percentile(99.0),
        percentile(99.9),
        percentile(100.0),
        Some(text::count(totals.errors + totals.wrong_answers)),
        Some(codes.join(", ")).filter(|codes| !codes.is_empty()),
    ];
    cells.into_iter().map(|cell| cell.unwrap_or(NOTHING.to_owned())).collect()
}
