//! `pando bench report`: makes a report page from results.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::report::Report;
use bench::result::RunResult;
use clap::Args;

use super::{Stop, failed, refused, say};
use crate::exit;
use crate::output::Output;

/// The options of `pando bench report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Result files of pando bench; results of the same workload are shown together. A folder means all its files
    /// NAME.json.zst, and implies --csv and --markdown
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,
    /// The page to write, or the folder for its report.html; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Also write CSV files next to the page: one with a row for each workload, one with a row for each second
    #[arg(long)]
    csv: bool,
    /// Also write the figures as JSON next to the page
    #[arg(long)]
    json: bool,
    /// Also write Markdown tables of all workloads and servers next to the page
    #[arg(long)]
    markdown: bool,
    /// Server that the others are compared with, by a prefix of its name [default: the first one measured]
    #[arg(long, value_name = "PRODUCT")]
    compare_with: Option<String>,
}

impl ReportArguments {
    fn is_to_standard_output(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// Returns the path of the page. If the output is a directory, the page has a default name in it.
    fn page(&self) -> PathBuf {
        if self.output.is_dir() { self.output.join("report.html") } else { self.output.clone() }
    }

    /// Returns true if a result is a directory and the report is written to a file. The CSV and Markdown tables are
    /// then written too.
    fn is_of_folder(&self) -> bool {
        !self.is_to_standard_output() && self.results.iter().any(|path| path.is_dir())
    }
}

pub(super) fn run(arguments: &ReportArguments) -> Result<ExitCode, Stop> {
    if arguments.is_to_standard_output() && (arguments.csv || arguments.json || arguments.markdown) {
        return Err(refused(
            "--csv, --json and --markdown write files next to the page: name it with --output",
        ));
    }
    let runs: Result<Vec<Vec<RunResult>>, _> =
        arguments.results.iter().map(|path| RunResult::read_all(path)).collect();
    let mut report = Report::new(runs.map_err(refused)?.concat());
    if let Some(product) = &arguments.compare_with {
        report.compare_with(product).map_err(|products| {
            let products = products.join(", ");
            refused(format!("no server's name begins with {product:?}; measured were: {products}"))
        })?;
    }
    write_all(&report, arguments)
}

fn write_all(report: &Report, arguments: &ReportArguments) -> Result<ExitCode, Stop> {
    let html = report.html().map_err(failed)?;
    let page = arguments.page();
    let beside = |ending: &str| {
        let mut name = page.file_stem().unwrap_or_default().to_owned();
        name.push(ending);
        page.with_file_name(name)
    };
    let mut files: Vec<(PathBuf, Box<Fill<'_>>)> =
        vec![(page.clone(), Box::new(|sink| sink.write_all(html.as_bytes())))];
    if arguments.csv || arguments.is_of_folder() {
        files.push((beside(".csv"), Box::new(|sink| report.write_csv(sink))));
        files.push((beside("-seconds.csv"), Box::new(|sink| report.write_seconds_csv(sink))));
    }
    if arguments.json {
        files.push((beside("-figures.json"), Box::new(|sink| report.write_json(sink))));
    }
    if arguments.markdown || arguments.is_of_folder() {
        files.push((beside(".md"), Box::new(|sink| report.write_markdown(sink))));
    }
    if let Some((path, _)) = files.iter().find(|(path, _)| arguments.results.contains(path)) {
        let path = path.display();
        return Err(refused(format!("{path} is one of the results; write the report elsewhere")));
    }
    for (path, fill) in &files {
        if let Err(error) = write(path, fill) {
            return Ok(exit::not_written(path.display(), &error));
        }
        if path.as_os_str() != "-" {
            say(&format!("wrote {}", path.display()));
        }
    }
    if !report.is_clean() {
        say("something went wrong in these runs; the page says at its top what");
    }
    Ok(ExitCode::SUCCESS)
}

type Fill<'a> = dyn Fn(&mut Output) -> io::Result<()> + 'a;

fn write(path: &Path, fill: &Fill<'_>) -> io::Result<()> {
    let mut output = Output::create(Some(path), None)?;
    fill(&mut output)?;
    output.finish()
}

pub(crate) const HELP: &str = "\
The page is one file without scripts; open it in a browser, or print it. docs/how-to/benchmark.md explains it.

Examples:
  pando bench report result.json
  pando bench report monday.json tuesday.json -o week.html --csv
  pando bench report result.json --compare-with OpenLDAP
  pando bench report bench-runs/2026-11-22-full -o /tmp

Exit codes:
  0  written; the page shows errors of the runs, if any
  1  the page could not be written
  2  the command line is wrong, or a file is not a result";
