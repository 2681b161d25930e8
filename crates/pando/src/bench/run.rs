//! `pando bench run`.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bench::agents::Machines;
use bench::driver::{self, DriveError, Options, Targets};
use bench::result::{Environment, RunResult, ServerDescription, WorkloadResult};
use bench::workload::{self, Listed, Workload};
use clap::Args;
use client::Tls;

use super::agent::read_token;
use super::live::Live;
use super::options::LoadArguments;
use super::serve::{self, Serving};
use super::{Cpus, Stop, code_of, failed, is_clean, limit, read, refused, say, summary};

/// Open files that are left for everything but connections.
const OTHER_FILES: u64 = 200;

/// The options of `pando bench run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Shipped workloads (`pando bench list`); a star at the end takes all that begin so
    #[arg(value_name = "WORKLOAD")]
    names: Vec<String>,
    /// A workload file of one's own; may be given several times
    #[arg(long = "workload", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Searches from a list or an access log, asked in its order with the last workload's clients
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Where filters of a list are asked
    #[arg(short = 'b', long, value_name = "DN", requires = "list")]
    base: Option<String>,
    /// The server, as ldap://HOST:PORT; connections are spread over several
    #[arg(long, value_name = "URI", default_value = "ldap://127.0.0.1:1389")]
    target: Vec<String>,
    /// How many entries of the workload's kind there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    entries: Option<u64>,
    /// Seed that the data was generated with
    #[arg(long, value_name = "N", default_value_t = 1)]
    data_seed: u64,
    #[command(flatten)]
    load: LoadArguments,
    /// Requests a second (open loop, latency from the intended start), instead of as many as the server can
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Raise the number of clients until it brings no more
    #[arg(long, conflicts_with_all = ["rate", "clients"])]
    find_max: bool,
    /// Simple bind DN of every connection that the workload does not bind itself
    #[arg(short = 'D', long, value_name = "DN")]
    bind_dn: Option<String>,
    /// Its password; every user of this machine can read it in the process list
    #[arg(
        short = 'w',
        long,
        value_name = "PASSWORD",
        requires = "bind_dn",
        conflicts_with = "password_file"
    )]
    password: Option<String>,
    /// File with its password; one newline at its end is ignored
    #[arg(short = 'y', long, value_name = "FILE", requires = "bind_dn")]
    password_file: Option<PathBuf>,
    /// Ask ldap:// targets for TLS (StartTLS)
    #[arg(long)]
    start_tls: bool,
    /// TLS: trust servers whose certificates these have signed, a file in PEM form
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tls_insecure", "agents"])]
    tls_ca: Option<PathBuf>,
    /// TLS: trust whoever answers; for measuring only
    #[arg(long, conflicts_with = "agents")]
    tls_insecure: bool,
    /// TLS: new connections take up sessions of earlier ones
    #[arg(long, conflicts_with = "agents")]
    tls_resume: bool,
    /// Measure a Pando of its own: data is generated and imported into a temporary folder with the indexes that each
    /// workload needs
    #[arg(long, conflicts_with_all = ["target", "server_pid", "bind_dn", "list", "find_max", "no_check", "agents"])]
    serve: bool,
    /// Measure a Pando that serves this data directory meanwhile; -D says who asks, PANDO_ADMIN_PASSWORD gives its
    /// administrator a password
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "server_pid", "agents", "serve"])]
    data: Option<PathBuf>,
    /// Processors that the Pando of --serve or --data and the null responder run on, as 0 or 0-3
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<Cpus>,
    /// A process of the server on this machine, to read its CPU time, memory and disk; may be given several times
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Processors that the load runs on, as 0 or 0-3
    #[arg(long, value_name = "CPUS")]
    load_cpus: Option<Cpus>,
    /// Local addresses to connect from, in turn; a loopback target gets 127.0.0.2 to 127.0.0.251
    #[arg(long, value_name = "ADDRESS")]
    source: Vec<IpAddr>,
    /// Load machines that do it together, each running `pando bench agent`; clients, rate and keys are shared out
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    #[arg(requires = "token_file", conflicts_with_all = ["find_max", "source"])]
    agents: Vec<String>,
    /// File with the secret that they share with this coordinator
    #[arg(long, value_name = "FILE", requires = "agents")]
    token_file: Option<PathBuf>,
    /// Do not look for the data first
    #[arg(long)]
    no_check: bool,
    /// Leave the entries that the workload added
    #[arg(long)]
    no_cleanup: bool,
    /// Do not measure the null responder under the same load
    #[arg(long)]
    no_limit: bool,
    /// Write the result here, as JSON
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "write a number")?;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err("a rate is above 0".to_owned()) }
}

pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, Stop> {
    let workloads = workloads(arguments)?;
    let options = options(arguments)?;
    let command = command_line(std::env::args());
    let mut run = RunResult::begin(command, Environment::detect());
    let done = if arguments.serve {
        measure_own(arguments, workloads, &options, &mut run)
    } else if let Some(data) = &arguments.data {
        measure_data(data, arguments, &workloads, &options, &mut run)
    } else {
        let served = Served { uris: &arguments.target, process: arguments.server_pid.first().copied() };
        measure_target(&served, arguments, &workloads, &options, &mut run)
    };
    // What was measured before something failed is worth keeping.
    if !run.workloads.is_empty() {
        save(arguments, &run)?;
    }
    done?;
    Ok(code_of(is_clean(&run)))
}

fn save(arguments: &RunArguments, run: &RunResult) -> Result<(), Stop> {
    match &arguments.output {
        Some(path) => run.write(path).map_err(failed),
        None => Ok(()),
    }
}

/// Load machines, if there are any.
fn machines(arguments: &RunArguments) -> Result<Option<Machines>, Stop> {
    let Some(path) = arguments.token_file.as_ref().filter(|_| !arguments.agents.is_empty()) else {
        return Ok(None);
    };
    let token = read_token(path)?;
    Machines::connect(&arguments.agents, &token).map(Some).map_err(failed)
}

fn run_together(
    machines: &mut Machines,
    workload: &Workload,
    targets: &Targets,
    options: &Options,
) -> Result<WorkloadResult, Stop> {
    let mut live = Live::new(&workload.name);
    let result = machines.run(workload, &targets.uris, options, &mut |progress| live.show(progress));
    drop(live);
    result.map_err(|error| failed(format!("{}: {error}", workload.name)))
}

/// Measures a Pando of its own.
fn measure_own(
    arguments: &RunArguments,
    workloads: Vec<Workload>,
    options: &Options,
    run: &mut RunResult,
) -> Result<(), Stop> {
    // Apart from each other where there is more than one processor.
    let count = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let apart =
        |cpus: &Option<Cpus>, default: Vec<usize>| cpus.clone().or((count > 1).then_some(Cpus(default)));
    let server_cpus = apart(&arguments.server_cpus, vec![0]);
    let load_cpus = apart(&arguments.load_cpus, (1..count).collect());
    run.environment.server_cpus = server_cpus.as_ref().map(Cpus::to_string);
    run.environment.load_generator_cpus = load_cpus.as_ref().map(Cpus::to_string);
    run.environment.is_shared_with_server = Some(true);
    let serving = Serving { options, server_cpus: server_cpus.as_ref(), load_cpus: load_cpus.as_ref() };
    for workload in &workloads {
        need_files(workload, options)?;
    }
    serve::measure(workloads, &serving, run)?;
    load_cpus.as_ref().map_or(Ok(()), Cpus::pin_this_process)?;
    if arguments.no_limit {
        return Ok(());
    }
    limit::add_floors(run, options, server_cpus.as_ref())
}

/// Measures a Pando over data that is there.
fn measure_data(
    data: &Path,
    arguments: &RunArguments,
    workloads: &[Workload],
    options: &Options,
    run: &mut RunResult,
) -> Result<(), Stop> {
    let server = serve::existing(data, arguments.server_cpus.as_ref())?;
    let options = Options { server_processes: vec![server.id()], ..options.clone() };
    let served = Served { uris: &[format!("ldap://{}", server.address())], process: Some(server.id()) };
    let done = measure_target(&served, arguments, workloads, &options, run);
    done.and(server.stop().map_err(failed))
}

/// A server that is there.
struct Served<'a> {
    uris: &'a [String],
    /// Its process, if it is on this machine and was named.
    process: Option<u32>,
}

/// Measures the server that is there. What cannot be measured is in the result with the reason, and the others go on.
fn measure_target(
    served: &Served<'_>,
    arguments: &RunArguments,
    workloads: &[Workload],
    options: &Options,
    run: &mut RunResult,
) -> Result<(), Stop> {
    let targets = Targets::resolve(served.uris).map_err(refused)?;
    let mut machines = machines(arguments)?;
    if let Some(cpus) = &arguments.load_cpus {
        cpus.pin_this_process()?;
        run.environment.load_generator_cpus = Some(cpus.to_string());
    }
    if let Some(process) = served.process {
        run.environment.set_server_process(process);
    }
    let mut failure = None;
    for workload in workloads {
        let result = match &mut machines {
            Some(machines) => run_together(machines, workload, &targets, options),
            None => need_files(workload, options)
                .and_then(|()| run_one(workload, &targets, options, arguments.find_max)),
        };
        match result {
            Ok(result) => {
                print!("{}", summary::of(&result));
                run.workloads.push(result);
            }
            Err(Stop::Failed(message)) if workloads.len() > 1 => {
                say(&message);
                run.workloads.push(workload.failed(ServerDescription::default(), message.clone()));
                failure = Some(message);
            }
            Err(stop) => return Err(stop),
        }
    }
    if let Some(message) = failure.filter(|_| run.workloads.iter().all(|result| !result.complete)) {
        return Err(Stop::Failed(message));
    }
    // A floor of this machine says nothing about others.
    if arguments.no_limit || machines.is_some() {
        return Ok(());
    }
    let told = run.environment.server_cpus.as_deref().and_then(|cpus| cpus.parse().ok());
    let cpus = arguments.server_cpus.clone().or(told);
    limit::add_floors(run, options, cpus.as_ref())
}

/// The command as it was given, without a password in it and fit for a shell.
pub(super) fn command_line(words: impl Iterator<Item = String>) -> String {
    let mut line: Vec<String> = Vec::new();
    for word in words {
        let word = match line.last().map(String::as_str) {
            Some("-w" | "--password") => "...".to_owned(),
            None => "pando".to_owned(),
            _ if word.starts_with("--password=") => "--password=...".to_owned(),
            _ if word.starts_with("-w") && !word.starts_with("--") && word != "-w" => "-w...".to_owned(),
            _ => word,
        };
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&octet);
        let quoted = if word.bytes().all(is_plain) && !word.is_empty() {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        };
        line.push(quoted);
    }
    line.join(" ")
}

fn run_one(
    workload: &Workload,
    targets: &Targets,
    options: &Options,
    find_max: bool,
) -> Result<WorkloadResult, Stop> {
    let mut live = Live::new(&workload.name);
    let mut watch = |progress: &driver::Progress| live.show(progress);
    let result = if find_max {
        driver::find_max(workload, targets, options, &mut watch)
    } else {
        driver::run_watched(workload, targets, options, &mut watch)
    };
    drop(live);
    result.map_err(|error| match error {
        DriveError::Workload { .. } | DriveError::Target { .. } | DriveError::Template(_) => refused(error),
        error => failed(format!("{}: {error}", workload.name)),
    })
}

fn workloads(arguments: &RunArguments) -> Result<Vec<Workload>, Stop> {
    let mut workloads = Vec::new();
    for name in &arguments.names {
        let mut named = shipped(name)?;
        named.retain(|workload| !workload.jobs.is_empty() || workload.name == *name);
        workloads.append(&mut named);
    }
    for path in &arguments.files {
        workloads.push(of_file(path)?);
    }
    if let Some(path) = &arguments.list {
        let name = path.to_string_lossy();
        let base = arguments.base.as_deref().unwrap_or_default();
        let listed = Listed::parse(&name, &read(path)?, base, &[]);
        workloads.push(Workload::of_list(Arc::new(listed.map_err(refused)?)));
    }
    if workloads.is_empty() {
        return Err(refused("name a workload, a file by --workload, or a list by --list"));
    }
    Ok(workloads)
}

/// The shipped workload of this name, or those that begin so if it ends with a star.
pub(super) fn shipped(name: &str) -> Result<Vec<Workload>, Stop> {
    let found: Vec<_> = match name.strip_suffix('*') {
        Some(start) => {
            let names = workload::shipped_names().filter(|name| name.starts_with(start));
            names.filter_map(workload::shipped).collect()
        }
        None => workload::shipped(name).into_iter().collect(),
    };
    if found.is_empty() {
        return Err(refused(format!(
            "there is no workload {name:?}; `pando bench list` shows them, --workload takes a file"
        )));
    }
    Ok(found)
}

/// A workload of one's own.
pub(super) fn of_file(path: &Path) -> Result<Workload, Stop> {
    Workload::parse(&path.to_string_lossy(), &read(path)?).map_err(refused)
}

fn options(arguments: &RunArguments) -> Result<Options, Stop> {
    let bind = match &arguments.bind_dn {
        None => None,
        Some(dn) => Some((dn.clone(), password(arguments)?)),
    };
    Ok(Options {
        entries: arguments.entries,
        rate: arguments.rate,
        data_seed: arguments.data_seed,
        bind,
        tls: tls(arguments)?,
        start_tls: arguments.start_tls,
        server_processes: arguments.server_pid.clone(),
        sources: arguments.source.clone(),
        check_data: !arguments.no_check,
        clean_up: !arguments.no_cleanup,
        ..arguments.load.options()
    })
}

/// Whom to trust, if that was said.
fn tls(arguments: &RunArguments) -> Result<Option<Tls>, Stop> {
    let tls = match &arguments.tls_ca {
        Some(path) => Tls::authorities(read(path)?.as_bytes())
            .map_err(|error| refused(format!("{}: {error}", path.display())))?,
        None if arguments.tls_insecure => Tls::insecure().map_err(refused)?,
        None => return Ok(None),
    };
    Ok(Some(if arguments.tls_resume { tls.resuming() } else { tls }))
}

fn password(arguments: &RunArguments) -> Result<String, Stop> {
    if let Some(password) = &arguments.password {
        return Ok(password.clone());
    }
    if let Some(path) = &arguments.password_file {
        let text = read(path)?;
        return Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned());
    }
    rpassword::prompt_password("Password: ")
        .map_err(|error| refused(format!("cannot ask for the password: {error}; use -y FILE")))
}

/// Says before connecting that the kernel will not allow it.
fn need_files(workload: &Workload, options: &Options) -> Result<(), Stop> {
    let wanted: usize = workload.jobs.iter().map(|job| job.clients).sum();
    let wanted = options.clients.unwrap_or(wanted) as u64 + OTHER_FILES;
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let hard = limits.maximum.unwrap_or(u64::MAX);
    if wanted > hard {
        return Err(failed(format!(
            "{} wants {wanted} open files, the hard limit is {hard} (ulimit -Hn): give --clients, or several load \
             machines",
            workload.name
        )));
    }
    if limits.current.is_some_and(|soft| soft < wanted) { raise_open_files() } else { Ok(()) }
}

/// Lets this process, and those that it starts from now on, open as many files as the hard limit allows; up to that
/// everyone may.
pub(super) fn raise_open_files() -> Result<(), Stop> {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limits.maximum, maximum: limits.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised)
        .map_err(|error| failed(format!("cannot raise the limit of open files: {error}")))
}

pub(crate) const HELP: &str = "\
Entries are looked for before anything is measured; entries that a workload needs for itself are added before and
removed afterwards. Every answer is checked. The null responder is measured under the same load at the end: the
floor of this machine. docs/how-to/benchmark.md says how to measure well.

--find-max doubles the clients from 1 on; it ends when the rate grows by less than 3% twice, or once with p99 doubled.

Examples:
  pando bench run oid-search-random --target ldap://localhost:1389 -D cn=admin -y password --entries 100000 --clients 64
  pando bench run 'salford-*' --target ldap://10.0.0.1 -D cn=admin -y password --duration 60s -o result.json
  pando bench run 'people-*' --serve --entries 100000 -o result.json
  pando bench run oid-search-random --rate 5000 --duration 5m
  pando bench run --list filters.txt -b dc=example,dc=com --duration 30s

Exit codes:
  0  measured, and every answer was right
  1  could not be measured
  2  the command line or a workload file is wrong; the message names the line
  7  measured, but some answers were wrong, or connections broke: the result says what";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_the_command_without_its_password() {
        for (words, line) in [
            ("/x/pando bench run a -D cn=a -w secret -o r", "pando bench run a -D cn=a -w ... -o r"),
            ("pando --password=secret", "pando --password=..."),
            ("pando -wsecret salford-*", "pando -w... 'salford-*'"),
        ] {
            assert_eq!(command_line(words.split(' ').map(str::to_owned)), line);
        }
    }
}
