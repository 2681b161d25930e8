//! `pando bench suite`: runs the steps of a suite file, and evaluates its goals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use bench::peers::OpenDj;
use bench::report::Report;
use bench::result::RunResult;
use bench::suite::{Outcome, Step, Suite, table};
use clap::Args;

use super::{Stop, code_of, failed, make_folder, read, refused, say, this_program};

/// The options of `pando bench suite`.
#[derive(Debug, Args)]
pub(crate) struct SuiteArguments {
    /// The suite file
    #[arg(value_name = "SUITE")]
    suite: PathBuf,
    /// Folder for the results, goals.md and report.html; the same command continues an interrupted run in it
    #[arg(short, long, value_name = "DIR", required_unless_present = "list")]
    output: Option<PathBuf>,
    /// Override a variable of the suite; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    set: Vec<(String, String)>,
    /// Run only these steps; goals are evaluated with all results in the folder
    #[arg(long, value_name = "STEP,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder for the data of servers, emptied afterwards [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print the commands of the steps and the goals, without measuring
    #[arg(long)]
    list: bool,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(arguments: &SuiteArguments) -> Result<ExitCode, Stop> {
    let file = arguments.suite.display().to_string();
    let text = read(&arguments.suite)?;
    let suite = Suite::parse(&file, &text, &arguments.set).map_err(refused)?;
    let unknown = |name: &&String| !suite.steps.iter().any(|step| step.name == **name);
    if let Some(name) = arguments.only.iter().find(unknown) {
        return Err(refused(format!("{file}: there is no step {name}; --list shows them")));
    }
    let Some(output) = arguments.output.as_ref().filter(|_| !arguments.list) else {
        print!("{}", listed(&suite));
        return Ok(ExitCode::SUCCESS);
    };
    measure(arguments, &suite, &text, output)
}

fn listed(suite: &Suite) -> String {
    let steps = suite.steps.iter().map(|step| format!("{}\n    pando bench {}\n", step.name, step.run));
    let goals = suite.goals.iter().map(|goal| format!("goal: {} {}\n", goal.title, goal.wanted()));
    steps.chain(goals).collect()
}

fn measure(arguments: &SuiteArguments, suite: &Suite, text: &str, output: &Path) -> Result<ExitCode, Stop> {
    make_folder(output)?;
    let output = std::path::absolute(output).map_err(failed)?;
    let folder = arguments.folder.as_ref().map(std::path::absolute).transpose().map_err(failed)?;
    folder.as_deref().map_or(Ok(()), make_folder)?;
    write(&output.join("suite.toml"), text)?;
    for step in &suite.steps {
        if arguments.only.is_empty() || arguments.only.contains(&step.name) {
            take(step, arguments, &output, folder.as_deref())?;
        }
    }
    judge(suite, &output)
}

/// Returns the path of a step's result. The result is compressed so that the folder can be archived.
fn result_file(step: &Step, output: &Path) -> PathBuf {
    output.join(format!("{}.json.zst", step.name))
}

/// Runs one step, unless the directory already contains the result of the same command.
fn take(step: &Step, arguments: &SuiteArguments, output: &Path, folder: Option<&Path>) -> Result<(), Stop> {
    let wrong = |error: std::io::Error| failed(format!("step {}: {error}", step.name));
    let result = result_file(step, output);
    let done = output.join(format!("{}.done", step.name));
    if std::fs::read_to_string(&done).is_ok_and(|command| command == step.run) && result.exists() {
        say(&format!("{}: is measured", step.name));
        return Ok(());
    }
    say(&format!("{}: pando bench {}", step.name, step.run));
    let mut command = Command::new(this_program()?);
    command.arg("bench").args(step.run.split_whitespace()).arg("--output").arg(&result);
    let is_comparison = step.run.starts_with("peers");
    if is_comparison {
        command.arg("--resume");
    }
    if let Some(folder) = folder.filter(|_| is_comparison || step.run.starts_with("sweep")) {
        command.arg("--folder").arg(folder);
    }
    // Paths of files in a step are relative to the suite file. Programs of peers are relative to the current directory.
    let beside = arguments.suite.parent().filter(|parent| !parent.as_os_str().is_empty());
    command.current_dir(beside.unwrap_or(Path::new(".")));
    if std::env::var_os(OpenDj::VARIABLE).is_none() {
        command.env(OpenDj::VARIABLE, std::path::absolute(OpenDj::USUAL_FOLDER).map_err(wrong)?);
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(wrong)?;
    match status.code() {
        Some(0) => write(&done, &step.run),
        // The result contains the failures, and the goals report them, so the suite continues.
        Some(7) => Ok(()),
        _ => Err(failed(format!("step {}: its command ended with {status}", step.name))),
    }
}

/// Evaluates the goals with the results in the directory, and writes the report.
fn judge(suite: &Suite, output: &Path) -> Result<ExitCode, Stop> {
    let mut results = BTreeMap::new();
    for step in &suite.steps {
        let file = result_file(step, output);
        if file.exists() {
            results.insert(step.name.clone(), RunResult::read(&file).map_err(failed)?);
        }
    }
    let verdicts = suite.verdicts(&results);
    let is_reached = verdicts.iter().all(|verdict| matches!(verdict.outcome, Outcome::Reached(_)));
    let is_clean = results.len() == suite.steps.len();
    let goals = table(&verdicts);
    let page =
        format!("# {}\n\n{}\n\n{}\n\n{goals}", suite.title, suite.about.trim(), circumstances(&results));
    write(&output.join("goals.md"), &page)?;
    let html = Report::new(results.into_values().collect()).html().map_err(failed)?;
    write(&output.join("report.html"), &html)?;
    print!("{goals}");
    say(&format!("{}: goals.md has this table, report.html all figures", output.display()));
    Ok(code_of(is_reached && is_clean))
}

/// Describes the machine and the measured servers.
fn circumstances(results: &BTreeMap<String, RunResult>) -> String {
    let mut servers: Vec<_> =
        results.values().flat_map(|result| &result.workloads).map(|of| of.server.product.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let Some(environment) = results.values().next().map(|result| &result.environment) else {
        return String::new();
    };
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let cpus = environment.cpus.map_or_else(|| "an unknown number of".to_owned(), |cpus| cpus.to_string());
    let (model, kernel) = (known(&environment.cpu_model), known(&environment.kernel));
    format!("{cpus} processors, {model}, {kernel}; {}", servers.join(", "))
}

fn write(file: &Path, text: &str) -> Result<(), Stop> {
    std::fs::write(file, text).map_err(|error| failed(format!("write {}: {error}", file.display())))
}

pub(crate) const HELP: &str = "\
A suite is a TOML file with steps, each a command of `pando bench`, and goals; bench/suites contains some. Steps with
results are not run again, so the same command continues after an interruption.

A step writes a result: peers, sweep or run, without --output. File names are relative to the suite's folder. WORKLOAD@N
is the workload with N clients. A goal has a figure: per-second, cpu-micros, p50-micros, p99-micros, p999-micros or
private-mib; for a loader loaded-per-second, loader-mib, disk-per-ldif, exported-mb-per-second (workload bulk-load); for
a long run steady-seconds, rate-trend, memory-growth. kind = \"search\" selects one kind of operation of a mix. `of` and
`over` are STEP/WORKLOAD/SERVER, in a sweep followed by its value (search/people-read/pando/10000); servers are pando,
openldap, ds389, opendj, and null for the null responder. The figure is the median of the rounds; of several in `over`,
the best counts. With an error or a wrong answer, the goal is not measured.

Examples:
  pando bench suite bench/suites/goals.toml --list
  pando bench suite bench/suites/goals.toml -o bench-runs/2027-01-31-goals
  pando bench suite bench/suites/goals.toml -o /tmp/try --set entries=20000 --set seconds=1s --only reads

Exit codes:
  0  measured, and every goal is reached
  1  a step failed
  2  the command line or the suite is wrong
  7  measured, but a goal is missed or has no result";
