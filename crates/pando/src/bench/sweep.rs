//! `pando bench sweep`: runs one workload with several numbers of entries, memory sizes or numbers of connections.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::peers::Product;
use bench::peers::under_load::GroupDriver;
use bench::result::{Environment, RunResult};
use bench::sweep::{self, Steps, Sweep, SweepError};
use bench::workload::Workload;
use clap::Args;

use super::options::{LoadArguments, PlaceArguments};
use super::run::{command_line, of_file, shipped};
use super::{Stop, code_of, failed, is_clean, live, refused, say};

/// The options of `pando bench sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// A shipped workload (`pando bench list`), or a file that ends in .toml
    #[arg(value_name = "WORKLOAD", default_value = "people-search")]
    workload: String,
    /// Numbers of entries, such as 10k,100k,1m
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_count)]
    entries: Vec<u64>,
    /// Limits of the memory of the server, including the page cache, such as 256M,1G; requires root
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = parse_size)]
    memory: Vec<u64>,
    /// Numbers of connections
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    connections: Vec<NonZeroUsize>,
    /// The servers to measure: pando, openldap, ds389, opendj
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "pando")]
    servers: Vec<Product>,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    place: PlaceArguments,
    /// File for the result, for `pando bench report`
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Parses `500`, `10k`, `1m`.
fn parse_count(text: &str) -> Result<u64, String> {
    parse_scaled(text, &[("k", 1000), ("m", 1_000_000)]).ok_or("write a number, as 500, 10k or 1m".to_owned())
}

/// Parses `256M`, `1G`.
fn parse_size(text: &str) -> Result<u64, String> {
    parse_scaled(text, &[("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)])
        .ok_or("write a size, as 256M or 1G".to_owned())
}

fn parse_scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let unit = units.iter().find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((&lower, 1));
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|number| *number > 0)
}

pub(super) fn run(arguments: &SweepArguments) -> Result<ExitCode, Stop> {
    let workload = workload(&arguments.workload)?;
    let steps = Steps {
        entries: arguments.entries.clone(),
        memory_bytes: arguments.memory.clone(),
        connections: arguments.connections.iter().map(|count| count.get()).collect(),
    };
    steps.axis().map_err(refused)?;
    let PlaceArguments { server_cpus, load_cpus, .. } = &arguments.place;
    let plan = Sweep {
        products: &arguments.servers,
        programs: &arguments.place.programs()?,
        folder: arguments.place.own_folder()?,
        server_cores: server_cpus.0.clone(),
        seed: arguments.load.seed,
        steps,
    };
    let mut result = RunResult::begin(command_line(std::env::args()), Environment::detect());
    result.environment.load_generator_cpus = Some(load_cpus.to_string());
    result.environment.server_cpus = Some(server_cpus.to_string());
    let mut driven = GroupDriver {
        workloads: &[],
        options: arguments.load.options(),
        cores: load_cpus.0.clone(),
        watch: &mut live::of_each(),
        warm: HashSet::new(),
    };
    let done = sweep::sweep(&plan, &workload, &mut driven, &mut result, &mut say);
    // The data are no longer needed, even after an error.
    let _ = std::fs::remove_dir_all(&plan.folder);
    done.map_err(|error| match error {
        SweepError::Axes | SweepError::Workload { .. } => refused(error),
        error => failed(error),
    })?;
    result.write(&arguments.output).map_err(failed)?;
    Ok(code_of(is_clean(&result)))
}

fn workload(name: &str) -> Result<Workload, Stop> {
    if name.ends_with(".toml") {
        return of_file(Path::new(name));
    }
    match shipped(name)?.as_slice() {
        [workload] if !workload.jobs.is_empty() => Ok(workload.clone()),
        _ => {
            Err(refused(format!("{name} is not one workload with operations; `pando bench list` shows them")))
        }
    }
}

pub(crate) const HELP: &str = "\
For each step, the command generates data, loads it and starts the server, one server at a time. Give several values to
one of --entries, --memory and --connections, and at most one to the others. The report draws curves of the rate, the
CPU time for each request, the latency and the memory.

A memory limit includes the page cache; files are evicted from the cache before the server starts. The limit uses
control groups; if they are not permitted, the command reports it.

Examples:
  pando bench sweep people-search --entries 10k,100k,1m,10m -o sweep.json
  pando bench sweep people-search --entries 1m --memory 256M,512M,1G,2G --servers pando,openldap -o memory.json
  pando bench sweep oid-search-random --connections 1,8,64,512,4096 -o connections.json
  pando bench report sweep.json -o sweep.html

Exit codes:
  0  measured, and every response was correct
  1  the measurement failed
  2  the command line or the workload file is wrong
  7  measured incompletely, or some responses were wrong; see the result";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_are_read() {
        for (text, count, size) in [
            ("500", Some(500), Some(500)),
            ("10k", Some(10_000), Some(10_240)),
            ("1M", Some(1_000_000), Some(1 << 20)),
            ("2g", None, Some(2 << 30)),
            ("0", None, None),
            ("-1", None, None),
            ("k", None, None),
            ("99999999999999999999", None, None),
            ("99999999999999999k", None, None),
        ] {
            assert_eq!((parse_count(text).ok(), parse_size(text).ok()), (count, size), "{text}");
        }
    }
}
