//! Summary of a result as text.

use std::fmt::Write;

use bench::report::text::{self, count};
use bench::result::{Load, WorkloadResult};

/// Maximum number of published figures in the summary. The report has all of them.
const FIGURES_MAX: usize = 3;

/// Minimum share of stolen processor time that the summary reports. Stolen time is time that the hypervisor gave to
/// other virtual machines. It may reduce the measured rates.
const STOLEN_SHARE_SAID: f64 = 0.02;

/// Returns the summary of a workload's result.
pub(super) fn of(result: &WorkloadResult) -> String {
    let mut text = format!("{}: {}\n", result.workload, result.title);
    // Writing to a String cannot fail.
    let _ = put(result, &mut text);
    text
}

fn put(result: &WorkloadResult, out: &mut String) -> std::fmt::Result {
    if let Some(reason) = &result.unsupported {
        return writeln!(out, "  unsupported: {reason}");
    }
    let parameters = &result.parameters;
    let load = match parameters.load {
        Load::Closed => "as fast as it goes".to_owned(),
        Load::Open { per_second } => format!("at {}/s", count(per_second as u64)),
    };
    writeln!(
        out,
        "  {} connections x {} outstanding, {load}, {:.1} s",
        count(parameters.connections),
        parameters.outstanding,
        result.measured_seconds
    )?;
    // Failures come before the figures, because failures make the figures less meaningful.
    for failure in &result.failures {
        writeln!(out, "  failure: {failure}")?;
    }
    for (kind, totals) in &result.operations {
        let at = |percentile: f64| micros(totals.latency.percentile_micros(percentile));
        writeln!(
            out,
            "  {:<15} {:>12}/s   p50 {}  p99 {}  p99.9 {}  max {}   errors {}  wrong {}",
            kind.name(),
            count((totals.operations as f64 / result.measured_seconds.max(1e-9)) as u64),
            at(50.0),
            at(99.0),
            at(99.9),
            micros(totals.latency.max_micros()),
            totals.errors,
            totals.wrong_answers,
        )?;
        for example in &totals.examples {
            writeln!(out, "    {example}")?;
        }
    }
    if let Some(cost) = &result.cost {
        let written = cost.disk_written_bytes_per_operation.filter(|bytes| *bytes > 0.0);
        let memory = cost.rss_anon_peak_bytes.unwrap_or_default() as f64 / 1e6;
        writeln!(
            out,
            "  server: {:.2} us CPU an operation; {memory:.0} MB private memory",
            cost.cpu_micros_per_operation
        )?;
        if let (Some(bytes), Some(disk)) = (written, &cost.disk) {
            writeln!(out, "  disk: {bytes:.0} octets written an operation, by all who use {disk}")?;
        }
    }
    let load_cpu: u64 = result.seconds.iter().filter_map(|second| second.load_cpu_micros).sum();
    if load_cpu > 0 && result.operations_total() > 0 {
        let micros = load_cpu as f64 / result.operations_total() as f64;
        writeln!(out, "  load driver: {micros:.2} us CPU an operation")?;
    }
    let stolen: u64 = result.seconds.iter().filter_map(|second| second.stolen_cpu_micros).sum();
    let stolen_share = stolen as f64 / 1e6 / result.measured_seconds.max(1e-9);
    if stolen_share >= STOLEN_SHARE_SAID {
        let percent = stolen_share * 100.0;
        writeln!(out, "  the hypervisor gave {percent:.0}% of a processor to other machines meanwhile")?;
    }
    if let Some(document) = &result.document {
        let figures: Vec<String> = document.figures.iter().take(FIGURES_MAX).map(figure).collect();
        let more = document.figures.len().saturating_sub(FIGURES_MAX);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        writeln!(out, "  {} says, on other hardware: {}{more}", document.document, figures.join("; "))?;
    }
    if result.unanswered > 0 {
        writeln!(out, "  {} requests were not answered", count(result.unanswered))?;
    }
    if result.connections_closed > 0 {
        writeln!(out, "  {} connections broke", count(result.connections_closed))?;
    }
    for note in &result.notes {
        writeln!(out, "  note: {note}")?;
    }
    Ok(())
}

fn figure(figure: &bench::result::DocumentFigure) -> String {
    let mut line = figure.label.clone();
    if let Some(per_second) = figure.per_second {
        let space = if line.is_empty() { "" } else { " " };
        let _ = write!(line, "{space}{}/s", text::rate(per_second));
    }
    if let Some(latency) = figure.latency_ms {
        let _ = write!(line, ", {latency} ms");
    }
    line
}

/// Formats microseconds in a readable unit.
pub(super) fn micros(micros: Option<u64>) -> String {
    micros.map_or("-".to_owned(), |micros| text::micros(micros as f64))
}
