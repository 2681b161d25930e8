//! Curves over the axis of a sweep: entries, memory of the server, or connections.

use super::axis::Quantity;
use super::charts::{self, Figure};
use super::groups::Groups;
use super::plot::{Line, Paint, PlotError};
use super::text::{self, NOTHING};
use crate::result::{SweepAxis, WorkloadResult};
use serde::Serialize;

/// One workload over one axis.
#[derive(Debug, Serialize)]
pub(crate) struct SweepView {
    title: String,
    axis: &'static str,
    figures: Vec<Figure>,
    rows: Vec<SweepRow>,
}

#[derive(Debug, Serialize)]
struct SweepRow {
    server: String,
    colour: usize,
    is_flagged: bool,
    unsupported: Option<String>,
    cells: Vec<String>,
}

type Step<'a> = (SweepAxis, usize, &'a WorkloadResult);

pub(crate) fn views(groups: &Groups<'_>) -> Result<Vec<SweepView>, PlotError> {
    let mut sweeps: Vec<(SweepAxis, &str)> = Vec::new();
    for (axis, _, result) in &groups.sweeps {
        if !sweeps.contains(&(*axis, &result.workload)) {
            sweeps.push((*axis, &result.workload));
        }
    }
    let view = |(axis, workload): (SweepAxis, &str)| {
        let mut steps: Vec<Step<'_>> = groups
            .sweeps
            .iter()
            .copied()
            .filter(|step| (step.0, step.2.workload.as_str()) == (axis, workload))
            .collect();
        steps.sort_by_key(|(_, server, result)| (*server, axis.value(result)));
        view(axis, &steps, groups)
    };
    sweeps.into_iter().map(view).collect()
}

fn view(axis: SweepAxis, steps: &[Step<'_>], groups: &Groups<'_>) -> Result<SweepView, PlotError> {
    let (name, quantity) = match axis {
        SweepAxis::Entries => ("entries", Quantity::Number),
        SweepAxis::Memory => ("memory of the server", Quantity::Bytes),
        SweepAxis::Connections => ("connections", Quantity::Number),
    };
    let lines = |value: &dyn Fn(&WorkloadResult) -> Option<f64>| -> Vec<Line> {
        let lines = groups.servers.iter().enumerate().map(|(index, server)| {
            let mine =
                steps.iter().filter(|(_, other, result)| *other == index && result.unsupported.is_none());
            let points =
                mine.filter_map(|(axis, _, result)| Some((axis.value(result)? as f64, value(result)?)));
            let mut line = Line::new(server.label.clone(), Paint::Series(index), points.collect());
            line.has_dots = true;
            line
        });
        lines.collect()
    };
    let across = format!("Across: {name}, logarithmic.");
    let figures = [
        charts::sweep_figure(
            "Throughput",
            &format!("Operations a second. {across}"),
            (quantity, Quantity::Number),
            lines(&|result| Some(result.per_second)),
        ),
        charts::sweep_figure(
            "CPU a request",
            &format!("CPU time of the server for one operation. {across}"),
            (quantity, Quantity::Micros),
            lines(&|result| Some(result.cost.as_ref()?.cpu_micros_per_operation)),
        ),
        charts::sweep_figure(
            "Latency, 99%",
            &format!("99% of the operations took no longer. {across}"),
            (quantity, Quantity::Micros),
            lines(&|result| Some(result.latency().percentile_micros(99.0)? as f64)),
        ),
        charts::sweep_figure(
            "Private memory",
            &format!("The most private memory of the server. {across}"),
            (quantity, Quantity::Bytes),
            lines(&|result| Some(result.cost.as_ref()?.rss_anon_peak_bytes? as f64)),
        ),
    ];
    let title = steps.first().map(|(_, _, result)| result.title.clone()).unwrap_or_default();
    Ok(SweepView {
        title,
        axis: name,
        figures: figures.into_iter().flatten().collect::<Result<_, _>>()?,
        rows: steps.iter().map(|step| row(step, groups)).collect(),
    })
}

fn row(&(axis, server, result): &Step<'_>, groups: &Groups<'_>) -> SweepRow {
    let latency = result.latency();
    let cost = result.cost.as_ref();
    let step = axis.value(result).map(|step| match axis {
        SweepAxis::Memory => text::bytes(step as f64),
        _ => text::count(step),
    });
    let micros = |percent| text::percentile(&latency, percent);
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| text::bytes(bytes as f64));
    let cells = [
        step,
        Some(text::rate(result.per_second)),
        micros(50.0),
        micros(99.0),
        cost.map(|cost| text::micros(cost.cpu_micros_per_operation)),
        bytes(cost.and_then(|cost| cost.rss_anon_peak_bytes)),
        bytes(cost.and_then(|cost| cost.disk_read_bytes)),
    ];
    SweepRow {
        server: groups.servers[server].label.clone(),
        colour: server,
        is_flagged: !result.is_clean(),
        unsupported: result.unsupported.clone(),
        cells: cells.into_iter().map(|cell| cell.unwrap_or(NOTHING.to_owned())).collect(),
    }
}
