//! `pando bench list`: lists the shipped workloads.

use std::process::ExitCode;

use bench::workload;
use clap::Args;

use super::{Stop, refused};

/// The options of `pando bench list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Print the file of this workload, as a start for your own
    #[arg(value_name = "WORKLOAD")]
    workload: Option<String>,
}

pub(super) fn run(arguments: &ListArguments) -> Result<ExitCode, Stop> {
    let text = match &arguments.workload {
        None => workload::shipped_names().filter_map(workload::shipped).map(|it| line_of(&it)).collect(),
        Some(name) => workload::shipped_text(name).map(str::to_owned).ok_or_else(|| {
            refused(format!("there is no workload {name:?}; `pando bench list` shows them"))
        })?,
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn line_of(workload: &workload::Workload) -> String {
    let document = workload.document.as_ref().map(|document| document.name.as_str()).unwrap_or_default();
    format!("{:<36} {:<11} {}\n", workload.name, document, workload.title)
}

pub(crate) const HELP: &str = "\
A workload is a TOML file (docs/how-to/benchmark.md). The shipped workloads repeat the rows of published benchmarks.

Examples:
  pando bench list
  pando bench list oid-search-sequential > mine.toml";
