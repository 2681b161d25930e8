//! A result in some lines of text.

use std::fmt::Write;
use std::time::Duration;

use bench::result::{Load, WorkloadResult};

/// Figures of a document that are shown; the report has them all.
const FIGURES_MAX: usize = 3;

/// From this share of one processor on, it is said what the hypervisor took: then rates may be its doing.
const STOLEN_SHARE_SAID: f64 = 0.02;

/// What is printed of a workload's result.
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
    // Before the figures, which mean less than they seem to when something failed.
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
    let mut text = figure.label.clone();
    if let Some(per_second) = figure.per_second {
        let space = if text.is_empty() { "" } else { " " };
        let _ = write!(
            text,
            "{space}{}/s",
            if per_second < 100.0 { per_second.to_string() } else { count(per_second as u64) }
        );
    }
    if let Some(latency) = figure.latency_ms {
        let _ = write!(text, ", {latency} ms");
    }
    text
}

/// With a comma at every thousand.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds in a unit that reads well.
pub(super) fn micros(micros: Option<u64>) -> String {
    match micros {
        None => "-".to_owned(),
        Some(micros @ 0..1000) => format!("{micros} us"),
        Some(micros @ 1000..1_000_000) => format!("{:.2} ms", micros as f64 / 1e3),
        Some(micros) => format!("{:.2} s", micros as f64 / 1e6),
    }
}

/// A time that is left.
pub(super) fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(
            [Some(5), Some(1500), Some(2_500_000), None].map(micros),
            ["5 us", "1.50 ms", "2.50 s", "-"]
        );
        assert_eq!(
            [5, 65, 7265].map(|seconds| duration(Duration::from_secs(seconds))),
            ["5 s", "1 min 5 s", "2 h 1 min"]
        );
    }
}
