//! `pando bench sweep`: one workload over entries, memory or connections.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench::driver::Options;
use bench::peers::under_load::Driven;
use bench::peers::{Product, Programs};
use bench::result::{Environment, RunResult, WorkloadResult};
use bench::sweep::{self, Steps, Sweep, SweepError};
use bench::workload::Workload;
use clap::Args;

use super::run::{command_line, of_file, shipped};
use super::{Cpus, live, parse_duration};
use crate::exit;

/// The options of `pando bench sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// A shipped workload (`pando bench list`), or a file that ends in .toml
    #[arg(value_name = "WORKLOAD", default_value = "people-search")]
    workload: String,
    /// Numbers of entries, as 10k,100k,1m
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_count)]
    entries: Vec<u64>,
    /// Limits of the server's memory, page cache included, as 256M,1G; takes root
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = parse_size)]
    memory: Vec<u64>,
    /// Numbers of connections
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    connections: Vec<NonZeroUsize>,
    /// The servers: pando, openldap, ds389, opendj
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "pando")]
    servers: Vec<Product>,
    /// How long each step measures [default: as the workload says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// How long each step goes before that [default: as the workload says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warmup: Option<Duration>,
    /// Requests outstanding on each connection
    #[arg(long, value_name = "N")]
    outstanding: Option<NonZeroUsize>,
    /// Threads of the load
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// Seed of the data and of the keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where data is kept meanwhile; a folder of the sweep's own is made in it and removed [default: the temporary
    /// folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// OpenDJ as it was unpacked; ./dev peers puts it there
    #[arg(long, value_name = "DIR", env = "PANDO_OPENDJ", default_value = ".dev/peers/opendj")]
    opendj: PathBuf,
    /// Processors that each server runs on
    #[arg(long, value_name = "CPUS", default_value = "0")]
    server_cpus: Cpus,
    /// Processors that the load runs on
    #[arg(long, value_name = "CPUS", default_value = "1")]
    load_cpus: Cpus,
    /// File for the result, for `pando bench report`
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// `500`, `10k`, `1m`.
fn parse_count(text: &str) -> Result<u64, String> {
    parse_scaled(text, &[("k", 1000), ("m", 1_000_000)]).ok_or("write a number, as 500, 10k or 1m".to_owned())
}

/// `256M`, `1G`.
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

pub(crate) fn run(arguments: &SweepArguments) -> ExitCode {
    match measure(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => exit::some_failed(),
        Err((message, true)) => exit::refused(&message),
        Err((message, false)) => exit::failure(&message),
    }
}

/// Whether every step was clean; why there is none, and whether that is the command line's fault.
fn measure(arguments: &SweepArguments) -> Result<bool, (String, bool)> {
    let refused = |message: String| (message, true);
    let workload = workload(&arguments.workload).map_err(refused)?;
    let steps = Steps {
        entries: arguments.entries.clone(),
        memory_bytes: arguments.memory.clone(),
        connections: arguments.connections.iter().map(|count| count.get()).collect(),
    };
    steps.axis().map_err(|error| refused(error.to_string()))?;
    let failed = |message: String| (message, false);
    let pando = std::env::current_exe().map_err(|error| failed(format!("find this program: {error}")))?;
    let programs = Programs { pando, opendj: arguments.opendj.clone() };
    let folder = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = std::path::absolute(&folder).map_err(|error| refused(error.to_string()))?;
    let folder = folder.join(format!("pando-sweep-{}", std::process::id()));
    let plan = Sweep {
        products: &arguments.servers,
        programs: &programs,
        folder: folder.clone(),
        server_cores: arguments.server_cpus.0.clone(),
        seed: arguments.seed,
        steps,
    };
    let mut result = RunResult::begin(command_line(std::env::args()), Environment::detect());
    result.environment.load_generator_cpus = Some(arguments.load_cpus.to_string());
    result.environment.server_cpus = Some(arguments.server_cpus.to_string());
    let mut watch = live::of_each();
    let mut driven = Driven {
        workloads: &[],
        options: options(arguments),
        cores: arguments.load_cpus.0.clone(),
        watch: &mut watch,
        warm: HashSet::new(),
    };
    let mut say = |text: &str| eprintln!("pando: {text}");
    let done = sweep::sweep(&plan, &workload, &mut driven, &mut result, &mut say);
    // Whatever happened: what servers left there is of no use to anybody.
    let _ = std::fs::remove_dir_all(&folder);
    done.map_err(|error| match error {
        error @ (SweepError::Axes | SweepError::Workload { .. }) => (error.to_string(), true),
        error => (error.to_string(), false),
    })?;
    result.write(&arguments.output).map_err(|error| failed(error.to_string()))?;
    Ok(result.workloads.iter().all(WorkloadResult::is_clean))
}

fn workload(name: &str) -> Result<Workload, String> {
    if name.ends_with(".toml") {
        return of_file(Path::new(name));
    }
    match shipped(name)?.as_slice() {
        [workload] if !workload.jobs.is_empty() => Ok(workload.clone()),
        _ => Err(format!("{name} is not one workload with operations; `pando bench list` shows them")),
    }
}

fn options(arguments: &SweepArguments) -> Options {
    Options {
        outstanding: arguments.outstanding.map(NonZeroUsize::get),
        duration: arguments.duration,
        warm_up: arguments.warmup,
        threads: arguments.threads.get(),
        seed: arguments.seed,
        ..Options::default()
    }
}

pub(crate) const HELP: &str = "\
For each step data is generated, and the server loaded and started on it, one server at a time. Give several values
to one of --entries, --memory and --connections, and at most one to the others. The report draws the curves: rate,
CPU time a request, latency, memory.

A limit of memory counts the page cache too: files are taken out of the cache before the server starts. It is put on
by control groups, and where that is not permitted, the command says so.

Examples:
  pando bench sweep people-search --entries 10k,100k,1m,10m -o sweep.json
  pando bench sweep people-search --entries 1m --memory 256M,512M,1G,2G --servers pando,openldap -o memory.json
  pando bench sweep oid-search-random --connections 1,8,64,512,4096 -o connections.json
  pando bench report sweep.json -o sweep.html

Exit codes:
  0  measured, and every answer was right
  1  could not be measured
  2  the command line or the workload file is wrong
  7  measured, but not everything, or some answers were wrong: the result says what";

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
