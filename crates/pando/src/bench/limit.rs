//! `pando bench limit`: serves or measures the null responder.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::driver::{self, DriveError, Options, Progress, Targets};
use bench::responder::{self, Delay, Faults, Stall};
use bench::result::{RunResult, WorkloadResult};
use bench::workload::{self, KeyOrder, Workload};
use clap::Args;

use super::live::Live;
use super::{Cpus, Stop, failed, parse_duration, summary, this_program};

/// The simplest shipped workload. The null responder is measured with this workload, as the lower bound of every
/// server.
const WORKLOAD: &str = "oid-search-sequential";
/// Duration in seconds of a measurement of the null responder within another run.
const EMBEDDED_SECONDS: u64 = 3;
/// Beginning of the line that the null responder prints when it accepts connections.
const READY: &str = "pando bench limit: ready on ldap://";

/// The options of `pando bench limit`.
#[derive(Debug, Args)]
pub(crate) struct LimitArguments {
    /// Serve on this address until killed, instead of measuring
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Processors that the responder runs on, as 0 or 0-3
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<Cpus>,
    /// Processors that the load runs on
    #[arg(long, value_name = "CPUS", conflicts_with = "listen")]
    load_cpus: Option<Cpus>,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with = "listen")]
    clients: usize,
    /// Requests outstanding on each connection
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "listen")]
    outstanding: usize,
    /// Duration of the measurement
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, conflicts_with = "listen")]
    duration: Duration,
    /// Threads of the load
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "listen")]
    threads: usize,
    /// Delay responses: constant:2ms, uniform:1ms,5ms, exponential:2ms or bimodal:1ms,50ms,5%
    #[arg(long, value_name = "HOW", default_value = "none")]
    delay: Delay,
    /// Stall at intervals: LENGTH/INTERVAL, such as 1s/10s
    #[arg(long, value_name = "HOW")]
    stall: Option<Stall>,
    /// Send one wrong response in this number of searches
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    wrong_every: Option<u64>,
    /// Close the connection after this number of requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    close_every: Option<u64>,
    /// Seed of random delays
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Exit when standard input ends, together with the parent process
    #[arg(long, hide = true, requires = "listen")]
    until_input_ends: bool,
}

pub(super) fn run(arguments: &LimitArguments) -> Result<ExitCode, Stop> {
    match arguments.listen {
        Some(address) => serve(address, arguments),
        None => measure(arguments),
    }
}

fn serve(address: SocketAddr, arguments: &LimitArguments) -> Result<ExitCode, Stop> {
    arguments.server_cpus.as_ref().map_or(Ok(()), Cpus::pin_this_process)?;
    let faults = Faults {
        delay: arguments.delay.clone(),
        stall: arguments.stall,
        wrong_every: arguments.wrong_every,
        close_every: arguments.close_every,
        seed: arguments.seed,
    };
    let ready = |address| {
        let mut out = std::io::stdout();
        // A closed pipe must not stop the responder.
        let _ = writeln!(out, "{READY}{address}").and_then(|()| out.flush());
    };
    let stop = Arc::new(AtomicBool::new(false));
    if arguments.until_input_ends {
        let stop = stop.clone();
        std::thread::spawn(move || {
            // A read error counts as the end of the input.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            stop.store(true, Ordering::Relaxed);
        });
    }
    let served = responder::serve(address, faults, &stop, ready);
    served.map_err(|error| failed(format!("cannot serve on {address}: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// A null responder in a separate process. The process ends when this value is dropped.
struct Process {
    child: Child,
    /// URI of the responder's listener.
    uri: String,
}

impl Process {
    /// Starts a null responder on these processors.
    fn start(cpus: Option<&Cpus>, more: &[String]) -> Result<Process, Stop> {
        let mut command = Command::new(this_program()?);
        command.args(["bench", "limit", "--until-input-ends", "--listen", "127.0.0.1:0"]).args(more);
        if let Some(cpus) = cpus {
            command.args(["--server-cpus", &cpus.to_string()]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("cannot start the null responder: {error}")))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            // If the read fails, the line stays empty, and the code below reports an error.
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let uri = line.trim().strip_prefix(READY).map(|address| format!("ldap://{address}"));
        let mut process = Process { child, uri: String::new() };
        process.uri = uri.ok_or_else(|| failed("the null responder has not started"))?;
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the workload with the simplest search.
fn simple_search() -> Result<Workload, Stop> {
    let mut workload = workload::shipped(WORKLOAD).ok_or_else(|| failed("a shipped workload is missing"))?;
    "limit".clone_into(&mut workload.name);
    "Null responder: a search that returns one entry".clone_into(&mut workload.title);
    workload.about.clear();
    workload.document = None;
    for job in &mut workload.jobs {
        job.operations.iter_mut().for_each(|operation| operation.order = KeyOrder::Random);
    }
    Ok(workload)
}

/// Measures the null responder under each load of a run. Prints the measured rates, and adds them to the result.
pub(super) fn add_floors(run: &mut RunResult, options: &Options, cpus: Option<&Cpus>) -> Result<(), Stop> {
    let is_loaded =
        |result: &&WorkloadResult| result.unsupported.is_none() && result.parameters.connections > 0;
    let shape = |result: &WorkloadResult| (result.parameters.connections, result.parameters.outstanding);
    let mut shapes: Vec<(u64, u64)> = run.workloads.iter().filter(is_loaded).map(shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    for (connections, outstanding) in shapes {
        let result = floor(connections as usize, outstanding as usize, options, cpus)?;
        print!("{}", summary::of(&result));
        run.limits.push(result);
    }
    Ok(())
}

/// Measures the null responder under one load.
fn floor(
    clients: usize,
    outstanding: usize,
    options: &Options,
    cpus: Option<&Cpus>,
) -> Result<WorkloadResult, Stop> {
    let process = Process::start(cpus, &[])?;
    let options = Options {
        clients: Some(clients),
        outstanding: Some(outstanding),
        warm_up: Some(Duration::from_secs(1)),
        duration: Some(Duration::from_secs(EMBEDDED_SECONDS)),
        pause: None,
        rate: None,
        bind: None,
        ..options.clone()
    };
    measure_responder(&process, options)
}

fn measure_responder(process: &Process, options: Options) -> Result<WorkloadResult, Stop> {
    let wrong = |error: DriveError| failed(format!("null responder: {error}"));
    let options = Options { canned: true, server_processes: vec![process.child.id()], ..options };
    let targets = Targets::resolve(&[&process.uri]).map_err(wrong)?;
    let mut live = Live::new("null responder");
    let mut watch = |progress: &Progress| live.show(progress);
    let mut result = driver::run_watched(&simple_search()?, &targets, &options, &mut watch).map_err(wrong)?;
    "Null responder".clone_into(&mut result.server.product);
    result.server.entries = None;
    result.server.data = None;
    Ok(result)
}

fn measure(arguments: &LimitArguments) -> Result<ExitCode, Stop> {
    arguments.load_cpus.as_ref().map_or(Ok(()), Cpus::pin_this_process)?;
    let process = Process::start(arguments.server_cpus.as_ref(), &words(arguments))?;
    let options = Options {
        clients: Some(arguments.clients),
        outstanding: Some(arguments.outstanding),
        duration: Some(arguments.duration),
        warm_up: Some(Duration::from_secs(1)),
        threads: arguments.threads,
        ..Options::default()
    };
    print!("{}", summary::of(&measure_responder(&process, options)?));
    Ok(ExitCode::SUCCESS)
}

/// Returns the command-line options with which another process injects the same faults.
fn words(arguments: &LimitArguments) -> Vec<String> {
    let mut words = vec![format!("--delay={}", arguments.delay), format!("--seed={}", arguments.seed)];
    words.extend(arguments.stall.map(|stall| format!("--stall={stall}")));
    words.extend(arguments.wrong_every.map(|every| format!("--wrong-every={every}")));
    words.extend(arguments.close_every.map(|every| format!("--close-every={every}")));
    words
}

pub(crate) const HELP: &str = "\
The null responder parses the envelope of each message and sends a prepared response, so that it shows the cost of the
kernel and the driver. Searches return one entry that only the driver of `pando bench` accepts.

Examples:
  pando bench limit --server-cpus 0 --load-cpus 1
  pando bench limit --clients 64 --outstanding 16
  pando bench limit --listen 127.0.0.1:3890 --delay uniform:1ms,5ms --stall 1s/10s

Exit codes:
  0  measured, or served until killed
  1  the measurement failed
  2  the command line is wrong";
