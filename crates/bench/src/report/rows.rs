//! The report's figures for other programs: CSV and JSON with one row for each result, and CSV with one row for each
//! second.

use crate::result::{Load, OperationKind, RunResult, WorkloadResult};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// One result as a row. The names of columns end in their units.
#[derive(Debug, Serialize)]
struct ResultRow<'a> {
    run_started: &'a str,
    workload: &'a str,
    title: &'a str,
    document: &'a str,
    product: &'a str,
    sweep: Option<&'static str>,
    round: u32,
    started: &'a str,
    entries: Option<u64>,
    memory_limit_bytes: Option<u64>,
    connections: u64,
    outstanding: u64,
    open_loop_per_second: Option<f64>,
    key_order: &'a str,
    measured_seconds: f64,
    operations: u64,
    per_second: f64,
    latency_mean_micros: Option<f64>,
    latency_p50_micros: Option<u64>,
    latency_p90_micros: Option<u64>,
    latency_p99_micros: Option<u64>,
    latency_p99_9_micros: Option<u64>,
    latency_p99_99_micros: Option<u64>,
    latency_max_micros: Option<u64>,
    server_cpu_micros_per_operation: Option<f64>,
    server_rss_anon_peak_bytes: Option<u64>,
    server_rss_file_peak_bytes: Option<u64>,
    server_disk_read_bytes: Option<u64>,
    server_disk_written_bytes: Option<u64>,
    errors: u64,
    wrong_answers: u64,
    connections_closed: u64,
    unanswered: u64,
    complete: bool,
    unsupported: &'a str,
    failures: String,
}

impl<'a> ResultRow<'a> {
    fn new(run: &'a RunResult, result: &'a WorkloadResult, product: &'a str) -> ResultRow<'a> {
        let latency = result.latency();
        let cost = result.cost.as_ref();
        ResultRow {
            run_started: &run.started,
            workload: &result.workload,
            title: &result.title,
            document: result.document.as_ref().map(|row| row.document.as_str()).unwrap_or_default(),
            product,
            sweep: result.sweep.map(Into::into),
            round: result.round,
            started: &result.started,
            entries: result.server.entries,
            memory_limit_bytes: result.server.memory_limit_bytes,
            connections: result.parameters.connections,
            outstanding: result.parameters.outstanding,
            open_loop_per_second: match result.parameters.load {
                Load::Open { per_second } => Some(per_second),
                Load::Closed => None,
            },
            key_order: &result.parameters.key_order,
            measured_seconds: result.measured_seconds,
            operations: result.operations_total(),
            per_second: result.per_second,
            latency_mean_micros: latency.mean_micros(),
            latency_p50_micros: latency.percentile_micros(50.0),
            latency_p90_micros: latency.percentile_micros(90.0),
            latency_p99_micros: latency.percentile_micros(99.0),
            latency_p99_9_micros: latency.percentile_micros(99.9),
            latency_p99_99_micros: latency.percentile_micros(99.99),
            latency_max_micros: latency.max_micros(),
            server_cpu_micros_per_operation: cost.map(|cost| cost.cpu_micros_per_operation),
            server_rss_anon_peak_bytes: cost.and_then(|cost| cost.rss_anon_peak_bytes),
            server_rss_file_peak_bytes: cost.and_then(|cost| cost.rss_file_peak_bytes),
            server_disk_read_bytes: cost.and_then(|cost| cost.disk_read_bytes),
            server_disk_written_bytes: cost.and_then(|cost| cost.disk_written_bytes),
            errors: result.errors_total(),
            wrong_answers: result.wrong_answers_total(),
            connections_closed: result.connections_closed,
            unanswered: result.unanswered,
            complete: result.complete,
            unsupported: result.unsupported.as_deref().unwrap_or_default(),
            failures: result.failures.join("; "),
        }
    }
}

/// Returns the results in the order in which they were measured. In each run, the results of the null responder come
/// last.
fn results(runs: &[RunResult]) -> impl Iterator<Item = (&RunResult, &WorkloadResult, &str)> {
    runs.iter().flat_map(|run| {
        let servers = run.workloads.iter().map(move |result| (run, result, result.server.product.as_str()));
        servers.chain(run.limits.iter().map(move |result| (run, result, "null responder")))
    })
}

/// Writes one row for each result.
pub(crate) fn write_results(runs: &[RunResult], sink: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    for (run, result, product) in results(runs) {
        writer.serialize(ResultRow::new(run, result, product))?;
    }
    writer.flush()
}

/// Writes the rows of [`write_results`] as JSON, with the conditions and the comparisons of each run.
pub(crate) fn write_json(runs: &[RunResult], sink: impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Run<'a> {
        started: &'a str,
        command: &'a str,
        tool: &'a crate::result::Tool,
        environment: &'a crate::result::Environment,
        comparisons: &'a [crate::result::Comparison],
    }
    #[derive(Serialize)]
    struct Summary<'a> {
        runs: Vec<Run<'a>>,
        results: Vec<ResultRow<'a>>,
    }
    let summary = Summary {
        runs: runs
            .iter()
            .map(|run| Run {
                started: &run.started,
                command: &run.command,
                tool: &run.tool,
                environment: &run.environment,
                comparisons: &run.comparisons,
            })
            .collect(),
        results: results(runs).map(|(run, result, product)| ResultRow::new(run, result, product)).collect(),
    };
    let mut sink = io::BufWriter::new(sink);
    serde_json::to_writer_pretty(&mut sink, &summary)?;
    sink.write_all(b"\n")?;
    sink.flush()
}

/// Writes one row for each second, with a column for each kind of operation that occurs.
pub(crate) fn write_seconds(runs: &[RunResult], sink: impl Write) -> io::Result<()> {
    let kinds: BTreeSet<OperationKind> =
        results(runs).flat_map(|(_, result, _)| result.operations.keys().copied()).collect();
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(sink);
    let heads = "run_started workload product entries connections round second operations".split(' ');
    let kind_heads: Vec<_> = kinds.iter().map(|kind| format!("{kind}_operations")).collect();
    let tails = "errors p50_micros p99_micros max_micros server_cpu_micros load_cpu_micros rss_anon_bytes \
                 rss_file_bytes disk_read_bytes disk_written_bytes stolen_cpu_micros";
    writer.write_record(heads.chain(kind_heads.iter().map(String::as_str)).chain(tails.split(' ')))?;
    for (run, result, product) in results(runs) {
        let of_result = (&run.started, &result.workload, product, result.server.entries);
        let load = (result.parameters.connections, result.round);
        for second in &result.seconds {
            let counts = |kind| second.operations.get(kind).copied().unwrap_or_default();
            let counts: Vec<u64> = kinds.iter().map(counts).collect();
            let latency = (second.errors, second.p50_micros, second.p99_micros, second.max_micros);
            let cpu = (second.server_cpu_micros, second.load_cpu_micros);
            let memory = (second.rss_anon_bytes, second.rss_file_bytes);
            let disk = (second.disk_read_bytes, second.disk_written_bytes, second.stolen_cpu_micros);
            let count = (second.second, second.operations_total());
            writer.serialize((of_result, load, count, counts, latency, cpu, memory, disk))?;
        }
    }
    writer.flush()
}
