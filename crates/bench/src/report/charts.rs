//! The plots of a workload.

use super::axis::{Axis, Quantity};
use super::groups::{Group, Row, Server};
use super::plot::{Line, Paint, Plot, PlotError};
use super::text;
use crate::result::{Latency, NINES_MAX, Second};
use serde::Serialize;
use std::ops::Range;

/// A plot on the page.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// Text with the quantities on the axes and notes for the reader.
    pub(crate) caption: String,
    pub(crate) svg: String,
}

/// Maximum number of points of a line. A reader could not distinguish more points, and a point for each second of an
/// hour would make a page of megabytes.
const POINTS_MAX: usize = 240;

/// Returns the plots of one workload, each with a line for each server.
pub(crate) fn figures(group: &Group<'_>, servers: &[Server<'_>]) -> Result<Vec<Figure>, PlotError> {
    let rows: Vec<&Row<'_>> = group.rows.iter().filter(|row| row.unsupported().is_none()).collect();
    let context = Context { group, servers, rows };
    let drawn = [
        context.throughput(),
        context.distribution(),
        context.latency_over_time(),
        context.cpu(),
        context.memory(),
        context.disk(),
        context.errors(),
    ];
    drawn.into_iter().flatten().map(Draft::draw).collect()
}

/// A plot with its texts, before it is drawn.
struct Draft {
    title: &'static str,
    caption: String,
    plot: Plot,
}

impl Draft {
    fn draw(self) -> Result<Figure, PlotError> {
        Ok(Figure { title: self.title.to_owned(), caption: self.caption, svg: self.plot.to_svg()? })
    }
}

struct Context<'a> {
    group: &'a Group<'a>,
    servers: &'a [Server<'a>],
    /// Servers that could run the workload.
    rows: Vec<&'a Row<'a>>,
}

impl Context<'_> {
    /// Returns one line for each server. `value` returns the figure of a second.
    fn lines(&self, value: impl Fn(&Second) -> Option<f64>, how: Reduce) -> Vec<Line> {
        let line = |row: &&Row<'_>| {
            let seconds = &row.median().seconds;
            let values = seconds.iter().filter_map(|second| Some((second.second as f64, value(second)?)));
            let (points, band) = reduce(&values.collect::<Vec<_>>(), how);
            let mut line =
                Line::new(self.servers[row.server].label.clone(), Paint::Series(row.server), points);
            line.band = band;
            line
        };
        self.rows.iter().map(line).filter(|line| line.points.len() > 1).collect()
    }

    fn time_axis(&self) -> Axis {
        let ends = self.rows.iter().filter_map(|row| row.median().seconds.last());
        let last = ends.map(|second| second.second).max().unwrap_or_default();
        Axis::exact(Quantity::Seconds, 0.0..(last + 1) as f64)
    }

    fn draft(&self, title: &'static str, caption: String, x: Axis, y: Axis, lines: Vec<Line>) -> Draft {
        let description = format!("{title}: {}. {caption}", self.group.title);
        Draft { title, caption, plot: Plot { description, x, y, lines } }
    }

    fn throughput(&self) -> Option<Draft> {
        let mut lines = self.lines(|second| Some(second.operations_total() as f64), Reduce::Mean);
        let largest = largest(&lines)?;
        let x = self.time_axis();
        let mut caption = "Operations answered a second.".to_owned();
        let mut top = largest;
        if let Some(floor) = self.group.floor {
            // The null responder's line is drawn if enough space remains for the lines of the servers. Otherwise the
            // caption states its rate.
            if floor.per_second <= largest * 2.5 {
                top = top.max(floor.per_second);
                lines.push(level(floor_label(), floor.per_second, &x));
            } else {
                caption += &format!(
                    " The null responder reached {}/s, beyond this plot.",
                    text::rate(floor.per_second)
                );
            }
        }
        caption += &self.thinning();
        Some(self.draft("Throughput", caption, x, Axis::linear(Quantity::Number, top), lines))
    }

    fn latency_over_time(&self) -> Option<Draft> {
        let mut lines = self.lines(|second| Some(second.p99_micros? as f64), Reduce::Max);
        lines.iter_mut().for_each(|line| line.label = format!("{} 99%", short_name(&line.label)));
        let mut medians = self.lines(|second| Some(second.p50_micros? as f64), Reduce::Mean);
        for line in &mut medians {
            line.label = format!("{} 50%", short_name(&line.label));
            line.is_thin = true;
            line.band.clear();
        }
        lines.extend(medians);
        let range = positive_range(&lines)?;
        let y = Axis::log(Quantity::Micros, range);
        let caption = format!(
            "Latency that 99% (thick) and half (thin) of each second's operations did not exceed, logarithmic.{}",
            self.thinning()
        );
        Some(self.draft("Latency over time", caption, self.time_axis(), y, lines))
    }

    fn distribution(&self) -> Option<Draft> {
        let mut lines: Vec<Line> = Vec::new();
        for row in &self.rows {
            let latency = row.median().latency();
            let label = self.servers[row.server].label.clone();
            lines.push(Line::new(label, Paint::Series(row.server), distribution(&latency)));
        }
        lines.retain(|line| line.points.len() > 1);
        if lines.is_empty() {
            return None;
        }
        if let Some(floor) = self.group.floor {
            lines.push(Line::new(floor_label(), Paint::Floor, distribution(&floor.latency())));
        }
        let range = positive_range(&lines)?;
        let most =
            lines.iter().filter_map(|line| line.points.last()).map(|(nines, _)| *nines).fold(2.0, f64::max);
        let x = Axis::exact(Quantity::Nines, 0.0..most.min(NINES_MAX));
        let caption =
            "Latency by percentile, both logarithmic: at 99.9%, one operation in a thousand took longer."
                .to_owned();
        Some(self.draft("Latency distribution", caption, x, Axis::log(Quantity::Micros, range), lines))
    }

    fn cpu(&self) -> Option<Draft> {
        // 10,000 µs of CPU time in a second are 1% of a processor.
        let lines = self.lines(|second| Some(second.server_cpu_micros? as f64 / 1e4), Reduce::Mean);
        let y = Axis::linear(Quantity::Percent, largest(&lines)?);
        let caption = format!("CPU time of the server; 100% is one processor.{}", self.thinning());
        Some(self.draft("Server CPU", caption, self.time_axis(), y, lines))
    }

    fn memory(&self) -> Option<Draft> {
        let mut lines = self.lines(|second| Some(second.rss_anon_bytes? as f64), Reduce::Max);
        let mut mapped = self.lines(|second| Some(second.rss_file_bytes? as f64), Reduce::Max);
        for line in &mut mapped {
            line.label = format!("{} mapped", short_name(&line.label));
            line.is_thin = true;
        }
        lines.extend(mapped);
        lines.iter_mut().for_each(|line| line.band.clear());
        let y = Axis::linear(Quantity::Bytes, largest(&lines)?);
        let caption =
            "Private memory (thick), and mapped file pages that the kernel may take back (thin).".to_owned();
        Some(self.draft("Server memory", caption, self.time_axis(), y, lines))
    }

    fn disk(&self) -> Option<Draft> {
        let mut lines = self.lines(|second| Some(second.disk_written_bytes? as f64), Reduce::Mean);
        let mut reads = self.lines(|second| Some(second.disk_read_bytes? as f64), Reduce::Mean);
        reads.retain(|line| line.points.iter().any(|(_, bytes)| *bytes > 0.0));
        for line in &mut reads {
            line.label = format!("{} read", short_name(&line.label));
            line.is_thin = true;
        }
        lines.extend(reads);
        let largest = largest(&lines).filter(|largest| *largest > 0.0)?;
        let caption = format!("Octets written to the disk a second (thin: read).{}", self.thinning());
        Some(self.draft("Disk", caption, self.time_axis(), Axis::linear(Quantity::Bytes, largest), lines))
    }

    fn errors(&self) -> Option<Draft> {
        let lines = self.lines(|second| Some(second.errors as f64), Reduce::Max);
        let largest = largest(&lines).filter(|largest| *largest > 0.0)?;
        let caption = "Unexpected result codes, wrong answers and closed connections, a second.".to_owned();
        Some(self.draft("Errors", caption, self.time_axis(), Axis::linear(Quantity::Number, largest), lines))
    }

    /// Describes how seconds are combined, if a point represents several seconds.
    fn thinning(&self) -> String {
        let longest = self.rows.iter().map(|row| row.median().seconds.len()).max().unwrap_or_default();
        match longest.div_ceil(POINTS_MAX) {
            0 | 1 => String::new(),
            each => {
                format!(" Each point stands for {each} s; the band spans their lowest and highest second.")
            }
        }
    }
}

/// Reduction of the figures of several seconds to one point.
#[derive(Clone, Copy)]
enum Reduce {
    Mean,
    Max,
}

/// Reduces a line to at most [`POINTS_MAX`] points. Also returns, for each point, the lowest and the highest figure of
/// the seconds that the point represents. This list is empty if each point represents only one second.
#[allow(clippy::type_complexity)]
fn reduce(values: &[(f64, f64)], how: Reduce) -> (Vec<(f64, f64)>, Vec<(f64, f64, f64)>) {
    let each = values.len().div_ceil(POINTS_MAX);
    if each <= 1 {
        return (values.to_vec(), Vec::new());
    }
    let pieces = || values.chunks(each).map(|piece| (piece[0].0, piece));
    let highest = |piece: &[(f64, f64)]| piece.iter().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
    let lowest = |piece: &[(f64, f64)]| piece.iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let point = |(x, piece): (f64, &[(f64, f64)])| match how {
        Reduce::Max => (x, highest(piece)),
        Reduce::Mean => (x, piece.iter().map(|(_, y)| y).sum::<f64>() / piece.len() as f64),
    };
    let band = pieces().map(|(x, piece)| (x, lowest(piece), highest(piece)));
    (pieces().map(point).collect(), band.collect())
}

/// Returns the points of the distribution: number of nines of the quantile, and latency.
fn distribution(latency: &Latency) -> Vec<(f64, f64)> {
    latency.distribution().into_iter().map(|(nines, micros)| (nines, micros as f64)).collect()
}

fn floor_label() -> String {
    "null responder".to_owned()
}

fn level(label: String, value: f64, x: &Axis) -> Line {
    let (first, last) = x.ends();
    Line::new(label, Paint::Floor, vec![(first, value), (last, value)])
}

/// Returns the product without its version: the first word of a label.
fn short_name(label: &str) -> &str {
    label.split([' ', ',']).next().unwrap_or(label)
}

/// Returns the largest value, or `None` if there are no lines.
fn largest(lines: &[Line]) -> Option<f64> {
    let highest = |line: &Line| {
        let band = line.band.iter().map(|(_, _, high)| *high);
        line.points.iter().map(|(_, y)| *y).chain(band).fold(0.0, f64::max)
    };
    lines.iter().map(highest).reduce(f64::max)
}

/// Returns the range of positive values, or `None` if there are none.
fn positive_range(lines: &[Line]) -> Option<Range<f64>> {
    let values = || lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).filter(|y| *y > 0.0);
    Some(values().reduce(f64::min)?..values().reduce(f64::max)?)
}

/// Returns a curve of a sweep, with one line for each server and workload.
pub(crate) fn sweep_figure(
    title: &'static str,
    caption: &str,
    axes: (Quantity, Quantity),
    lines: Vec<Line>,
) -> Option<Result<Figure, PlotError>> {
    let lines: Vec<Line> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let xs = || lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
    let x = Axis::log(axes.0, xs().reduce(f64::min)?..xs().reduce(f64::max)?);
    let y = Axis::linear(axes.1, largest(&lines)?);
    let plot = Plot { description: format!("{title}. {caption}"), x, y, lines };
    Some(Draft { title, caption: caption.to_owned(), plot }.draw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduced_series_keep_their_spikes() {
        let values: Vec<_> =
            (0..3600).map(|second| (f64::from(second), if second == 1805 { 0.0 } else { 100.0 })).collect();
        let (points, band) = reduce(&values, Reduce::Mean);
        assert_eq!(points.len(), 240);
        assert_eq!(band[120], (1800.0, 0.0, 100.0));
        assert_eq!(points[120], (1800.0, 1400.0 / 15.0));
        let (short, none) = reduce(&values[..100], Reduce::Max);
        assert_eq!((short.len(), none.len()), (100, 0));
    }
}
