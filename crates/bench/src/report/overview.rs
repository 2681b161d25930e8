//! The table of all workloads, with the servers in columns. It is part of the page, and is also written as Markdown.

use std::io::{self, Write};

use super::groups::anchor;
use super::groups::{Group, Groups, NotStarted, Row};
use super::text::{self, NOTHING};
use super::verdict;
use serde::Serialize;

/// Minimum number of workloads for which the page has this table.
const WORKLOADS_MIN: usize = 4;
/// Ratio up to which two rates count as equal.
const EQUAL_WITHIN: f64 = 1.03;

/// The table.
#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    /// The servers. The first server is the reference of comparisons.
    pub(crate) servers: Vec<String>,
    pub(crate) parts: Vec<Part>,
}

/// Workloads that come from the same document and have the same size of data.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

/// A workload.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    anchor: String,
    pub(crate) name: String,
    title: String,
    pub(crate) cells: Vec<Cell>,
}

/// Figures of one server in one workload.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Cell {
    pub(crate) rate: Option<String>,
    /// Rate of the first server divided by the rate of this server.
    pub(crate) ratio: Option<String>,
    /// Verdict on the ratio: "faster", "slower" or "equal".
    verdict: &'static str,
    cpu: Option<String>,
    /// CPU time per request of the first server divided by the CPU time per request of this server.
    cpu_ratio: Option<String>,
    pub(crate) lack: Option<MissingFigure>,
    is_flagged: bool,
}

/// Reason why there is no figure.
#[derive(Debug, Serialize)]
pub(crate) struct MissingFigure {
    /// One word: "cannot" or "failed".
    pub(crate) word: &'static str,
    pub(crate) reason: String,
}

impl MissingFigure {
    fn of(not_started: &NotStarted<'_>) -> MissingFigure {
        match not_started {
            NotStarted::Unsupported(reason) => MissingFigure { word: "cannot", reason: (*reason).to_owned() },
            NotStarted::Failed(reason) => MissingFigure { word: "failed", reason: (*reason).to_owned() },
        }
    }
}

/// Returns the table, if there is enough to compare.
pub(crate) fn overview(groups: &Groups<'_>) -> Option<Overview> {
    if groups.groups.len() < WORKLOADS_MIN {
        return None;
    }
    let mut parts: Vec<Part> = Vec::new();
    for (index, group) in groups.groups.iter().enumerate() {
        let title = part_title(group);
        let line = Line {
            anchor: anchor(index),
            name: group.workload.to_owned(),
            title: group.title.to_owned(),
            cells: (0..groups.servers.len()).map(|server| cell(group, server)).collect(),
        };
        match parts.iter_mut().find(|part| part.title == title) {
            Some(part) => part.lines.push(line),
            None => parts.push(Part { title, lines: vec![line] }),
        }
    }
    Some(Overview { servers: groups.servers.iter().map(|server| server.label.clone()).collect(), parts })
}

fn part_title(group: &Group<'_>) -> String {
    let document = group.document().map(|row| row.document.as_str()).unwrap_or_default();
    let name = if document.is_empty() { "Of our own" } else { document };
    // The size is rounded, because each data set has a few more entries than people.
    match group.entries {
        Some(entries) => format!("{name}, {} entries", text::count(round_size(entries))),
        None => name.to_owned(),
    }
}

/// Rounds to two digits, because data sets of 100,000 people may have 100,002 or 100,053 entries.
fn round_size(entries: u64) -> u64 {
    let unit = 10_u64.pow(entries.max(1).ilog10().saturating_sub(1));
    (entries + unit / 2) / unit * unit
}

fn cell(group: &Group<'_>, server: usize) -> Cell {
    let row_of = |server: usize| group.rows.iter().find(|row| row.server == server);
    let Some(row) = row_of(server) else { return Cell::default() };
    if let Some(not_started) = row.not_started() {
        return Cell { lack: Some(MissingFigure::of(&not_started)), ..Cell::default() };
    }
    let cost = |row: &Row<'_>| row.median().cost.as_ref().map(|cost| cost.cpu_micros_per_operation);
    let compared = row_of(0).filter(|first| server > 0 && first.is_clean() && row.is_clean());
    let ratio = compared.and_then(|first| verdict::ratio(group, first, row));
    let costs = compared.and_then(cost).zip(cost(row)).filter(|(_, theirs)| *theirs > 0.0);
    Cell {
        rate: Some(text::rate(row.median().per_second)),
        ratio: ratio.map(text::ratio),
        verdict: match ratio {
            Some(ratio) if ratio > EQUAL_WITHIN => "faster",
            Some(ratio) if ratio < 1.0 / EQUAL_WITHIN => "slower",
            Some(_) => "equal",
            None => "",
        },
        cpu: cost(row).filter(|cost| *cost > 0.0).map(text::micros),
        cpu_ratio: costs.map(|(mine, theirs)| text::ratio(mine / theirs)),
        lack: None,
        is_flagged: !row.is_clean(),
    }
}

/// Writes two tables for a README, one of rates and one of CPU times, and lists what was not measured.
pub(crate) fn write_markdown(overview: &Overview, sink: impl Write) -> io::Result<()> {
    let mut sink = io::BufWriter::new(sink);
    let first = overview.servers.first().map(String::as_str).unwrap_or_default();
    writeln!(sink, "Operations a second; in brackets how many times as many {first} answers.\n")?;
    table(overview, &mut sink, &|cell| (cell.rate.clone(), cell.ratio.clone()))?;
    writeln!(
        sink,
        "\nCPU time of the server for one operation; in brackets what {first} needs as a part of that.\n"
    )?;
    table(overview, &mut sink, &|cell| (cell.cpu.clone(), cell.cpu_ratio.clone()))?;
    let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for line in overview.parts.iter().flat_map(|part| &part.lines) {
        for (server, cell) in overview.servers.iter().zip(&line.cells) {
            let Some(MissingFigure { reason, .. }) = &cell.lack else { continue };
            match reasons.iter_mut().find(|(of, other, _)| of == server && other == reason) {
                Some((_, _, names)) => names.push(&line.name),
                None => reasons.push((server, reason, vec![&line.name])),
            }
        }
    }
    if !reasons.is_empty() {
        writeln!(sink, "\nNot measured:\n")?;
    }
    for (server, reason, names) in reasons {
        writeln!(sink, "- {server}, {}: {}", names.join(", "), reason.replace('\n', " "))?;
    }
    sink.flush()
}

type Figure = (Option<String>, Option<String>);

fn table(overview: &Overview, sink: &mut impl Write, figure: &dyn Fn(&Cell) -> Figure) -> io::Result<()> {
    writeln!(sink, "| | {} |", overview.servers.join(" | "))?;
    writeln!(sink, "|---|{}", "---:|".repeat(overview.servers.len()))?;
    for part in &overview.parts {
        writeln!(sink, "| **{}** |{}", part.title, " |".repeat(overview.servers.len()))?;
        for line in &part.lines {
            let cells = line.cells.iter().map(|cell| match (&cell.lack, figure(cell)) {
                (Some(lack), _) => lack.word.to_owned(),
                (None, (Some(figure), ratio)) => {
                    let mark = if cell.is_flagged { " ⚠" } else { "" };
                    format!("{figure}{mark}{}", ratio.map(|ratio| format!(" ({ratio})")).unwrap_or_default())
                }
                (None, (None, _)) => NOTHING.to_owned(),
            });
            writeln!(sink, "| `{}` | {} |", line.name, cells.collect::<Vec<_>>().join(" | "))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_counts_are_rounded_to_the_requested_size() {
        for (entries, size) in [(100_053, 100_000), (1_000_002, 1_000_000), (2_053, 2_100), (7, 7), (0, 0)] {
            assert_eq!(round_size(entries), size);
        }
    }
}
