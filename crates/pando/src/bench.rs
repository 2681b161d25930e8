//! `pando bench`: measures directory servers. The crate `bench` implements it.

mod agent;
mod limit;
mod list;
mod live;
mod options;
mod peers;
mod report;
mod run;
mod serve;
mod suite;
mod summary;
mod sweep;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench::result::RunResult;
use clap::{Args, Subcommand};

use self::agent::AgentArguments;
use self::limit::LimitArguments;
use self::list::ListArguments;
use self::peers::PeersArguments;
use self::report::ReportArguments;
use self::run::RunArguments;
use self::suite::SuiteArguments;
use self::sweep::SweepArguments;
use crate::exit;

/// The options of `pando bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    verb: BenchVerb,
}

#[derive(Debug, Subcommand)]
enum BenchVerb {
    /// Compare Pando with OpenLDAP, 389 DS and OpenDJ on this machine: same data, indexes and load, in turn
    #[command(after_help = peers::HELP)]
    Peers(Box<PeersArguments>),
    /// Make a report page from results: rates, ratios, latencies and errors
    #[command(after_help = report::HELP)]
    Report(ReportArguments),
    /// List the shipped workloads, or print one
    #[command(after_help = list::HELP)]
    List(ListArguments),
    /// Run workloads against an LDAP server and measure it
    #[command(after_help = run::HELP)]
    Run(Box<RunArguments>),
    /// Measure or serve the null responder: the lower bound of every server on this machine
    #[command(after_help = limit::HELP)]
    Limit(Box<LimitArguments>),
    /// Generate load for a coordinator on another machine (`pando bench run --agents`)
    #[command(after_help = agent::HELP)]
    Agent(AgentArguments),
    /// Run one workload with increasing numbers of entries or connections, or increasing memory of the server
    #[command(after_help = sweep::HELP)]
    Sweep(Box<SweepArguments>),
    /// Run the steps of a suite file, and report which goals are reached
    #[command(after_help = suite::HELP)]
    Suite(SuiteArguments),
}

/// Reason why a command ends without a result.
enum Stop {
    /// The command line, or a file that it names, is wrong.
    Refused(String),
    /// The measurement failed.
    Failed(String),
}

pub(crate) fn run(arguments: BenchArguments) -> ExitCode {
    let done = match arguments.verb {
        BenchVerb::Peers(arguments) => peers::run(&arguments),
        BenchVerb::Report(arguments) => report::run(&arguments),
        BenchVerb::List(arguments) => list::run(&arguments),
        BenchVerb::Run(arguments) => run::run(&arguments),
        BenchVerb::Agent(arguments) => agent::run(&arguments),
        BenchVerb::Sweep(arguments) => sweep::run(&arguments),
        BenchVerb::Suite(arguments) => suite::run(&arguments),
        BenchVerb::Limit(arguments) => limit::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(Stop::Refused(message)) => exit::refused(&message),
        Err(Stop::Failed(message)) => exit::failure(&message),
    }
}

/// Returns the exit code of a measurement. `is_clean` is true if the measurement had no failures.
fn code_of(is_clean: bool) -> ExitCode {
    if is_clean { ExitCode::SUCCESS } else { exit::some_failed() }
}

fn is_clean(result: &RunResult) -> bool {
    result.workloads.iter().all(|workload| workload.is_clean())
}

/// Converts an error in the command line. For use with `map_err`.
fn refused(error: impl ToString) -> Stop {
    Stop::Refused(error.to_string())
}

/// Converts an error of a measurement. For use with `map_err`.
fn failed(error: impl ToString) -> Stop {
    Stop::Failed(error.to_string())
}

/// Reads a file that the command line names.
fn read(path: &Path) -> Result<String, Stop> {
    std::fs::read_to_string(path).map_err(|error| refused(format!("cannot read {}: {error}", path.display())))
}

/// Returns the path of this program, with which it starts itself as a child process.
fn this_program() -> Result<PathBuf, Stop> {
    std::env::current_exe().map_err(|error| failed(format!("cannot find this program: {error}")))
}

fn make_folder(path: &Path) -> Result<(), Stop> {
    let created = std::fs::create_dir_all(path);
    created.map_err(|error| failed(format!("cannot make {}: {error}", path.display())))
}

/// Prints the progress of a command.
fn say(text: &str) {
    eprintln!("pando: {text}");
}

/// Parses `10`, `90s`, `5m`, `8h`, `500ms`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and a unit: 500ms, 90s, 5m, 8h".to_owned();
    let end =
        text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Set of processors in the syntax of `taskset`: `0`, `0-3`, `0,2`.
#[derive(Clone, Debug)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

impl std::str::FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpus, String> {
        let wrong = || "write processors as 0, 0-3 or 0,2".to_owned();
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let mut cpus = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last > 4095 {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        Ok(Cpus(cpus))
    }
}

impl Cpus {
    /// Pins the calling thread, and the threads that it starts later, to these processors.
    fn pin_this_process(&self) -> Result<(), Stop> {
        let mut set = rustix::thread::CpuSet::new();
        self.0.iter().for_each(|cpu| set.set(*cpu));
        rustix::thread::sched_setaffinity(None, &set)
            .map_err(|error| failed(format!("cannot run on processors {self}: {error}")))
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list: Vec<String> = self.0.iter().map(usize::to_string).collect();
        formatter.write_str(&list.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_processors_are_read() {
        for (text, millis) in [
            ("10", Some(10_000)),
            ("1.5s", Some(1500)),
            ("500ms", Some(500)),
            ("8h", Some(28_800_000)),
            ("2m", Some(120_000)),
            ("-1s", None),
            ("5 days", None),
            ("s", None),
        ] {
            assert_eq!(parse_duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
        for (text, cpus) in [
            ("0", Some(vec![0])),
            ("0-2,5", Some(vec![0, 1, 2, 5])),
            ("2-1", None),
            ("a", None),
            ("0-99999", None),
        ] {
            assert_eq!(text.parse::<Cpus>().ok().map(|cpus| cpus.0), cpus, "{text}");
        }
    }
}
