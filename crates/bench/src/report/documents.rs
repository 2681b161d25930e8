//! The tables of published benchmarks. A published benchmark is called a document. Each table has the layout of the
//! document's table, with our measurements next to or below the document's figures.
//!
//! The tables are data (`crates/bench/documents`). The figures of a document were measured on other hardware, so no
//! ratio is computed from them. Every table states this.

use super::groups::{Groups, Row};
use super::text;
use crate::result::{BulkLoad, OperationKind, Second, ServerDescription, WorkloadResult, setting};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use strum::Display;

/// The documents, in the order of the page.
const DOCUMENTS: [&str; 5] = [
    include_str!("../../documents/oid.toml"),
    include_str!("../../documents/salford.toml"),
    include_str!("../../documents/m-vault.toml"),
    include_str!("../../documents/sun.toml"),
    include_str!("../../documents/edirectory.toml"),
];

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    title: String,
    hardware: String,
    #[serde(skip_serializing)]
    table: Vec<Table>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    title: String,
    /// Headings of the document's columns.
    columns: Vec<String>,
    /// Measures of the measured columns, in a table with measurements next to the document's figures.
    #[serde(default)]
    measures: Vec<Measure>,
    #[serde(default)]
    ours: Layout,
    /// Number of users, if all measurements of the table have the same number.
    entries: Option<u64>,
    /// Template of the data, if the table measures how long it takes to load.
    template: Option<String>,
    rows: Vec<TableRow>,
    /// Lookups of the measured columns, in a table with measurements below the document's figures.
    #[serde(default)]
    our_columns: Vec<Query>,
}

#[derive(Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Layout {
    #[default]
    Columns,
    Rows,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct TableRow {
    label: String,
    cells: Vec<String>,
    workload: Option<String>,
    /// Measure of this row, if it differs from the table's measure.
    measure: Option<Measure>,
    /// Kinds of operation whose rates are shown separately.
    #[serde(default)]
    kinds: Vec<OperationKind>,
}

/// Properties by which the workload of a measured cell is found.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Query {
    workload: Option<String>,
    entries: Option<u64>,
    kind: Option<OperationKind>,
    measure: Option<Measure>,
    /// Whether cn must be indexed or must not be indexed; `None` if it does not matter.
    indexed: Option<bool>,
}

/// Measure that a column or row shows. The name of the measure is the heading in the table.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Display)]
#[serde(rename_all = "snake_case")]
enum Measure {
    #[strum(serialize = "clients")]
    Clients,
    #[strum(serialize = "operations/s")]
    PerSecond,
    #[strum(serialize = "mean latency")]
    MeanMs,
    #[strum(serialize = "searches/s")]
    SearchPerSecond,
    #[strum(serialize = "mean latency")]
    SearchMeanMs,
    #[strum(serialize = "time")]
    SecondsToFullSpeed,
    #[strum(serialize = "entries/s")]
    LoadPerSecond,
    #[strum(serialize = "load time")]
    LoadClock,
}

/// A document on the page.
#[derive(Debug, Serialize)]
pub(crate) struct DocumentView {
    document: &'static Document,
    tables: Vec<TableView>,
    /// Titles of the tables that no run repeated.
    absent: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct TableView {
    table: &'static Table,
    /// Headings of the measured columns, each with a server and a size of the data.
    our_columns: Vec<String>,
    /// Measures of each measured cell.
    measures: String,
    /// Measured cells of each row, in a table with measurements next to the document's figures.
    ours: Vec<Vec<Cell>>,
    /// Servers with their measured cells, in a table with measurements below the document's figures.
    our_rows: Vec<(String, Vec<Cell>)>,
}

/// One measured figure.
#[derive(Clone, Debug, Default, Serialize)]
struct Cell {
    text: String,
    /// Clients and latency, in smaller type after the figure.
    detail: String,
    /// Whether the figure has a problem, which the workload's section explains.
    is_flagged: bool,
    /// Reason why the server does not support the workload.
    unsupported: Option<String>,
}

/// One server with data of one size. Each variant has its own measured columns.
#[derive(Clone, Copy, PartialEq)]
struct Variant {
    server: usize,
    entries: Option<u64>,
    memory_limit_bytes: Option<u64>,
}

/// All documents.
static PARSED: LazyLock<Vec<Document>> = LazyLock::new(|| DOCUMENTS.iter().map(|text| parse(text)).collect());

/// Returns the documents that were repeated by a run, at least in part.
pub(crate) fn views(groups: &Groups<'_>) -> Vec<DocumentView> {
    let views = PARSED.iter().map(|document| {
        let (mut tables, mut absent) = (Vec::new(), Vec::new());
        for table in &document.table {
            match table.view(groups) {
                Some(view) => tables.push(view),
                None => absent.push(table.title.as_str()),
            }
        }
        DocumentView { document, tables, absent }
    });
    views.filter(|view| !view.tables.is_empty()).collect()
}

fn parse(text: &str) -> Document {
    toml::from_str(text).expect("a shipped file, which a test reads")
}

impl Table {
    /// Returns the table; `None` if no run repeated any part of the table.
    fn view(&'static self, groups: &Groups<'_>) -> Option<TableView> {
        match self.ours {
            Layout::Columns => self.as_columns(groups),
            Layout::Rows => self.below(groups),
        }
    }

    fn as_columns(&'static self, groups: &Groups<'_>) -> Option<TableView> {
        let variants = self.variants(groups);
        let cells = |row: &TableRow| -> Vec<Cell> {
            variants.iter().map(|variant| self.cell(row, *variant, groups)).collect()
        };
        (!variants.is_empty()).then(|| TableView {
            table: self,
            our_columns: variants.iter().map(|variant| variant.label(groups)).collect(),
            measures: self.measures.iter().map(Measure::to_string).collect::<Vec<_>>().join(", "),
            ours: self.rows.iter().map(cells).collect(),
            our_rows: Vec::new(),
        })
    }

    fn below(&'static self, groups: &Groups<'_>) -> Option<TableView> {
        let mut our_rows = Vec::new();
        for (index, server) in groups.servers.iter().enumerate() {
            let cell = |query: &Query| match query.measure {
                Some(measure) => {
                    load_cell(measure, self.template.as_deref(), query, &descriptions(groups, index))
                }
                None => {
                    let workload = query.workload.as_deref().unwrap_or_default();
                    let row = find(
                        groups,
                        workload,
                        |entries| match (query.entries, entries) {
                            (Some(theirs), Some(ours)) => is_near(ours, theirs),
                            (theirs, _) => theirs.is_none(),
                        },
                        index,
                    );
                    row.map(|row| Cell::of(row, |result| kind_rate(result, query.kind))).unwrap_or_default()
                }
            };
            let ours: Vec<Cell> = self.our_columns.iter().map(cell).collect();
            if ours.iter().any(|cell| !cell.is_empty()) {
                our_rows.push((server.label.clone(), ours));
            }
        }
        (!our_rows.is_empty()).then(|| TableView {
            table: self,
            our_columns: Vec::new(),
            measures: String::new(),
            ours: Vec::new(),
            our_rows,
        })
    }

    /// Returns the combinations of server, size of the data and memory limit that have a figure for this table.
    fn variants(&self, groups: &Groups<'_>) -> Vec<Variant> {
        let mut variants = Vec::new();
        let wanted = |workload: &str| self.rows.iter().any(|row| row.workload.as_deref() == Some(workload));
        for group in groups.groups.iter().filter(|group| wanted(group.workload)) {
            if self.entries.is_some_and(|entries| group.entries.is_some_and(|ours| !is_near(ours, entries))) {
                continue;
            }
            for row in &group.rows {
                let memory_limit_bytes = row.rounds[0].server.memory_limit_bytes;
                let variant = Variant { server: row.server, entries: group.entries, memory_limit_bytes };
                if !variants.contains(&variant) {
                    variants.push(variant);
                }
            }
        }
        if self.rows.iter().any(|row| row.measure.is_some()) {
            self.add_loads(groups, &mut variants);
        }
        variants.sort_by_key(|variant| (variant.server, variant.entries, variant.memory_limit_bytes));
        variants
    }

    /// Adds servers that loaded the table's data, if the table measures loading.
    fn add_loads(&self, groups: &Groups<'_>, variants: &mut Vec<Variant>) {
        for (server, held) in groups.servers.iter().enumerate() {
            for loaded in held.results.iter().map(|result| &result.server) {
                let template = loaded.data.as_ref().map(|data| &data.template);
                let variant = Variant { server, entries: loaded.entries, memory_limit_bytes: None };
                let counts =
                    loaded.bulk_load.is_some() && template.is_some() && template == self.template.as_ref();
                if counts && !variants.contains(&variant) {
                    variants.push(variant);
                }
            }
        }
    }

    /// Returns a cell. The figure of the first measure is large; the other measures are details.
    fn cell(&self, row: &TableRow, variant: Variant, groups: &Groups<'_>) -> Cell {
        if let Some(measure) = row.measure {
            let query = Query { entries: variant.entries, ..Query::default() };
            return load_cell(
                measure,
                self.template.as_deref(),
                &query,
                &descriptions(groups, variant.server),
            );
        }
        let workload = row.workload.as_deref().unwrap_or_default();
        let Some(found) = find(groups, workload, |entries| entries == variant.entries, variant.server) else {
            return Cell::default();
        };
        let value = |measure: Measure, result: &WorkloadResult| match row.kinds.as_slice() {
            [] => measured(measure, result),
            kinds => {
                let rates: Option<Vec<_>> = kinds.iter().map(|kind| kind_rate(result, Some(*kind))).collect();
                Some(rates?.join(" / "))
            }
        };
        let Some((first, others)) = self.measures.split_first() else { return Cell::default() };
        let mut cell = Cell::of(found, |result| value(*first, result));
        if cell.unsupported.is_none() {
            let details = others.iter().filter_map(|measure| value(*measure, found.median()));
            cell.detail = details.collect::<Vec<_>>().join(", ");
        }
        cell
    }
}

impl Variant {
    fn label(self, groups: &Groups<'_>) -> String {
        let mut label = groups.servers[self.server].label.clone();
        if let Some(entries) = self.entries {
            label += &format!(", {} entries", text::short(entries as f64));
        }
        if let Some(limit) = self.memory_limit_bytes {
            label += &format!(", {} memory", text::bytes(limit as f64));
        }
        label
    }
}

impl Cell {
    fn of(row: &Row<'_>, value: impl Fn(&WorkloadResult) -> Option<String>) -> Cell {
        if let Some(reason) = row.unsupported() {
            return Cell {
                text: "unsupported".to_owned(),
                unsupported: Some(reason.to_owned()),
                ..Cell::default()
            };
        }
        Cell { text: value(row.median()).unwrap_or_default(), is_flagged: !row.is_clean(), ..Cell::default() }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// Returns true if a measured size counts as a size in the document: for example, 1,000,011 measured entries count as
/// the document's million users.
fn is_near(ours: u64, theirs: u64) -> bool {
    ours.abs_diff(theirs) <= theirs / 20
}

fn find<'a, 'b>(
    groups: &'b Groups<'a>,
    workload: &str,
    size: impl Fn(Option<u64>) -> bool,
    server: usize,
) -> Option<&'b Row<'a>> {
    let near = groups.groups.iter().filter(|group| group.workload == workload && size(group.entries));
    near.flat_map(|group| &group.rows).find(|row| row.server == server)
}

fn descriptions<'a>(groups: &Groups<'a>, server: usize) -> Vec<&'a ServerDescription> {
    groups.servers[server].results.iter().map(|result| &result.server).collect()
}

/// Returns the time or the rate of loading data of this template, depending on the measure.
fn load_cell(
    measure: Measure,
    template: Option<&str>,
    query: &Query,
    servers: &[&ServerDescription],
) -> Cell {
    let is_wanted = |server: &&&ServerDescription| {
        let indexed = server.setting(setting::INDEXES).is_some_and(|indexes| {
            indexes.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == "cn")
        });
        server.data.as_ref().is_some_and(|data| Some(data.template.as_str()) == template)
            && query.entries.is_none_or(|entries| server.entries.is_some_and(|ours| is_near(ours, entries)))
            && query.indexed.is_none_or(|wanted| wanted == indexed)
    };
    let load: Option<&BulkLoad> =
        servers.iter().filter(is_wanted).find_map(|server| server.bulk_load.as_ref());
    let text = load.map(|load| match measure {
        Measure::LoadClock => text::clock(load.seconds),
        _ => text::rate(load.entries as f64 / load.seconds.max(0.001)),
    });
    Cell { text: text.unwrap_or_default(), ..Cell::default() }
}

fn measured(measure: Measure, result: &WorkloadResult) -> Option<String> {
    let milliseconds = |mean: f64| format!("{:.3} ms", mean / 1000.0);
    let search = result.operations.get(&OperationKind::Search);
    match measure {
        Measure::Clients => Some(format!("{} clients", text::count(result.parameters.connections))),
        Measure::PerSecond => Some(text::rate(result.per_second)),
        Measure::MeanMs => result.latency().mean_micros().map(milliseconds),
        Measure::SearchPerSecond => kind_rate(result, Some(OperationKind::Search)),
        Measure::SearchMeanMs => search?.latency.mean_micros().map(milliseconds),
        Measure::SecondsToFullSpeed => {
            seconds_to_full_speed(&result.seconds).map(|seconds| text::duration(seconds as f64))
        }
        Measure::LoadPerSecond | Measure::LoadClock => None,
    }
}

fn kind_rate(result: &WorkloadResult, kind: Option<OperationKind>) -> Option<String> {
    let Some(kind) = kind else { return Some(text::rate(result.per_second)) };
    let operations = result.operations.get(&kind)?.operations;
    (result.measured_seconds > 0.0).then(|| text::rate(operations as f64 / result.measured_seconds))
}

/// Returns the time in seconds until the end of the first second whose rate is at least 95% of the median rate in the
/// last third of the run.
fn seconds_to_full_speed(seconds: &[Second]) -> Option<u64> {
    let mut last: Vec<u64> =
        seconds[seconds.len() - seconds.len() / 3..].iter().map(Second::operations_total).collect();
    last.sort_unstable();
    let full = *last.get(last.len() / 2)?;
    let first = seconds.iter().find(|second| second.operations_total() as f64 >= 0.95 * full as f64)?;
    Some(first.second + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_shipped_tables_have_a_cell_per_column() {
        let documents: Vec<Document> = DOCUMENTS.iter().map(|text| parse(text)).collect();
        let tables: usize = documents.iter().map(|document| document.table.len()).sum();
        assert_eq!(tables, 24, "the tables of the five documents");
        for table in documents.iter().flat_map(|document| &document.table) {
            for row in &table.rows {
                assert_eq!(row.cells.len(), table.columns.len(), "{}: {}", table.title, row.label);
                let is_ours = row.workload.is_some() || row.measure.is_some();
                assert_eq!(is_ours, table.ours == Layout::Columns, "{}: {}", table.title, row.label);
            }
            let ours = if table.ours == Layout::Rows { table.columns.len() } else { 0 };
            assert_eq!(table.our_columns.len(), ours, "{}", table.title);
            assert_eq!(table.measures.is_empty(), table.ours == Layout::Rows, "{}", table.title);
        }
    }

    #[test]
    fn tables_and_shipped_workloads_refer_to_each_other() {
        let documents: Vec<Document> = DOCUMENTS.iter().map(|text| parse(text)).collect();
        let mut named: Vec<(String, String)> = Vec::new();
        for document in &documents {
            for table in &document.table {
                let ours = table.our_columns.iter().filter_map(|query| query.workload.clone());
                let names = table.rows.iter().filter_map(|row| row.workload.clone()).chain(ours);
                named.extend(names.map(|name| (document.name.clone(), name)));
            }
        }
        for (document, name) in &named {
            let workload =
                crate::workload::shipped(name).unwrap_or_else(|| panic!("there is no workload {name}"));
            assert_eq!(&workload.document.expect("a document").name, document, "{name}");
        }
        for name in crate::workload::shipped_names() {
            let workload = crate::workload::shipped(name).expect("one of the shipped");
            // Tables show bulk loads as a measure, so only workloads with requests must be named in a table.
            if workload.document.is_some() && !workload.jobs.is_empty() {
                assert!(named.iter().any(|(_, other)| other == name), "{name} is in no table");
            }
        }
    }

    #[test]
    fn full_speed_begins_when_the_rate_stops_rising() {
        let second = |(index, count): (usize, u64)| Second {
            second: index as u64,
            operations: [(OperationKind::Search, count)].into(),
            ..Second::default()
        };
        let seconds: Vec<_> =
            [10, 20, 50, 96, 100, 101, 99, 100, 100].into_iter().enumerate().map(second).collect();
        assert_eq!(seconds_to_full_speed(&seconds), Some(4));
        assert_eq!(seconds_to_full_speed(&[]), None);
    }
}
