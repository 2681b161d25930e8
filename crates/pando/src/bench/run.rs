//! `pando bench run`: runs workloads against an LDAP server.

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

/// Number of open files that are reserved for uses other than connections.
const OTHER_FILES: u64 = 200;

/// The options of `pando bench run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Shipped workloads (`pando bench list`); a star at the end matches any rest
    #[arg(value_name = "WORKLOAD")]
    names: Vec<String>,
    /// Your own workload file; may be given several times
    #[arg(long = "workload", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Searches from a list or an access log, sent in the order of the file with the clients of the last workload
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Base of the searches of a list
    #[arg(short = 'b', long, value_name = "DN", requires = "list")]
    base: Option<String>,
    /// The server, as ldap://HOST:PORT; with several, connections are distributed over them
    #[arg(long, value_name = "URI", default_value = "ldap://127.0.0.1:1389")]
    target: Vec<String>,
    /// Number of entries of the workload's kind
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    entries: Option<u64>,
    /// Seed with which the data was generated
    #[arg(long, value_name = "N", default_value_t = 1)]
    data_seed: u64,
    #[command(flatten)]
    load: LoadArguments,
    /// Requests per second (open loop, latency from the intended start) [default: as many as the server can handle]
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Increase the number of clients until the rate stops growing
    #[arg(long, conflicts_with_all = ["rate", "clients"])]
    find_max: bool,
    /// DN of the simple bind on every connection that the workload does not bind itself
    #[arg(short = 'D', long, value_name = "DN")]
    bind_dn: Option<String>,
    /// Password for the bind DN; every user of this machine can read it in the process list
    #[arg(
        short = 'w',
        long,
        value_name = "PASSWORD",
        requires = "bind_dn",
        conflicts_with = "password_file"
    )]
    password: Option<String>,
    /// File with the password for the bind DN; one newline at its end is ignored
    #[arg(short = 'y', long, value_name = "FILE", requires = "bind_dn")]
    password_file: Option<PathBuf>,
    /// Use StartTLS with ldap:// targets
    #[arg(long)]
    start_tls: bool,
    /// TLS: file with the trusted certificate authorities, in PEM form
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tls_insecure", "agents"])]
    tls_ca: Option<PathBuf>,
    /// TLS: accept any certificate; for measurements only
    #[arg(long, conflicts_with = "agents")]
    tls_insecure: bool,
    /// TLS: new connections resume earlier sessions
    #[arg(long, conflicts_with = "agents")]
    tls_resume: bool,
    /// Start and measure a Pando server on generated data in a temporary folder, with the indexes of each workload
    #[arg(long, conflicts_with_all = ["target", "server_pid", "bind_dn", "list", "find_max", "no_check", "agents"])]
    serve: bool,
    /// Start and measure a Pando server on this data directory; -D sets the bind DN, PANDO_ADMIN_PASSWORD the
    /// administrator's password
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "server_pid", "agents", "serve"])]
    data: Option<PathBuf>,
    /// Processors of the server of --serve or --data and of the null responder, as 0 or 0-3
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<Cpus>,
    /// Process of a server on this machine, to measure its CPU time, memory and disk; may be given several times
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Processors that the load runs on, as 0 or 0-3
    #[arg(long, value_name = "CPUS")]
    load_cpus: Option<Cpus>,
    /// Local addresses to connect from, in turn; a loopback target gets 127.0.0.2 to 127.0.0.251
    #[arg(long, value_name = "ADDRESS")]
    source: Vec<IpAddr>,
    /// Load machines that run `pando bench agent`; clients, rate and keys are divided among them
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    #[arg(requires = "token_file", conflicts_with_all = ["find_max", "source"])]
    agents: Vec<String>,
    /// File with the secret that agents share with this coordinator
    #[arg(long, value_name = "FILE", requires = "agents")]
    token_file: Option<PathBuf>,
    /// Do not check the data first
    #[arg(long)]
    no_check: bool,
    /// Keep the entries that the workload added
    #[arg(long)]
    no_cleanup: bool,
    /// Do not measure the null responder under the same load
    #[arg(long)]
    no_limit: bool,
    /// File for the result, as JSON
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
        let served =
            MeasuredServer { uris: &arguments.target, process: arguments.server_pid.first().copied() };
        measure_target(&served, arguments, &workloads, &options, &mut run)
    };
    // Measurements that were made before a failure are saved.
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

/// Connects to the load machines, if the arguments name any.
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

/// Starts a server on generated data, and measures it.
fn measure_own(
    arguments: &RunArguments,
    workloads: Vec<Workload>,
    options: &Options,
    run: &mut RunResult,
) -> Result<(), Stop> {
    // The server and the load run on different processors if the machine has several.
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

/// Starts a server on an existing data directory, and measures it.
fn measure_data(
    data: &Path,
    arguments: &RunArguments,
    workloads: &[Workload],
    options: &Options,
    run: &mut RunResult,
) -> Result<(), Stop> {
    let server = serve::existing(data, arguments.server_cpus.as_ref())?;
    let options = Options { server_processes: vec![server.id()], ..options.clone() };
    let served =
        MeasuredServer { uris: &[format!("ldap://{}", server.address())], process: Some(server.id()) };
    let done = measure_target(&served, arguments, workloads, &options, run);
    done.and(server.stop().map_err(failed))
}

/// A running server that is measured.
struct MeasuredServer<'a> {
    uris: &'a [String],
    /// Process id of the server, if it runs on this machine and is known.
    process: Option<u32>,
}

/// Measures a running server. If one of several workloads fails, the result contains the reason, and the next workload
/// follows.
fn measure_target(
    served: &MeasuredServer<'_>,
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
    // The rate of the null responder on this machine does not apply to load from other machines.
    if arguments.no_limit || machines.is_some() {
        return Ok(());
    }
    let recorded = run.environment.server_cpus.as_deref().and_then(|cpus| cpus.parse().ok());
    let cpus = arguments.server_cpus.clone().or(recorded);
    limit::add_floors(run, options, cpus.as_ref())
}

/// Returns the command line, quoted for a shell. Each password is replaced by `...`.
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

/// Returns the shipped workload with this name. If the name ends with a star, returns all shipped workloads with this
/// prefix.
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

/// Reads a workload of the user from a file.
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

/// Returns the TLS settings, or `None` if the arguments contain neither `--tls-ca` nor `--tls-insecure`.
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

/// Checks that the limit of open files suffices for all connections, before the first connection is opened.
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

/// Raises the soft limit of open files to the hard limit, for this process and its future children. This requires no
/// privilege.
pub(super) fn raise_open_files() -> Result<(), Stop> {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limits.maximum, maximum: limits.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised)
        .map_err(|error| failed(format!("cannot raise the limit of open files: {error}")))
}

pub(crate) const HELP: &str = "\
The command checks the data first. It adds the entries that a workload needs for itself, and removes them afterwards.
Every response is checked. At the end, the null responder is measured under the same load: the floor of this machine.
docs/how-to/benchmark.md explains how to measure well.

--find-max doubles the number of clients, starting at 1, until the rate grows by less than 3% twice, or once while p99
doubles.

Examples:
  pando bench run oid-search-random --target ldap://localhost:1389 -D cn=admin -y password --entries 100000 --clients 64
  pando bench run 'salford-*' --target ldap://10.0.0.1 -D cn=admin -y password --duration 60s -o result.json
  pando bench run 'people-*' --serve --entries 100000 -o result.json
  pando bench run oid-search-random --rate 5000 --duration 5m
  pando bench run --list filters.txt -b dc=example,dc=com --duration 30s

Exit codes:
  0  measured, and every response was correct
  1  the measurement failed
  2  the command line or a workload file is wrong; the message names the line
  7  measured, but some responses were wrong or connections broke; see the result";

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
