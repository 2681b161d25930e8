//! The load driver: runs a [`Workload`] against any LDAP server and measures it.
//!
//! The driver must never be the bottleneck. Each thread is one event loop (`worker`), which sends the next requests
//! before it waits again. Requests are filled in from templates (`request`). Answers are checked in the receive buffer
//! (`answers`). After all answers of one read, the next requests are sent in one write. The result reports threads that
//! were busy almost all the time. The driver checks every answer: its result code, its number of entries, and whether
//! the expected entry is among them.
//!
//! In a closed loop, a client sends its next request when it has received the answer to its previous request. A closed
//! loop finds the maximum rate of a server. In an open loop, requests have intended start times at a fixed rate.
//! Latency counts from the intended start, so the latency of a request that is sent late includes the wait that a user
//! would experience.
//!
//! # Placeholders
//!
//! Texts of a workload may contain placeholders, which are replaced in each request: `{n}`, `{part:50}`, `{dn}`,
//! `{attribute}`, `{attribute:4}`, `{random:alphanumeric:11}`.

mod answers;
mod data;
mod find_max;
mod keys;
mod line;
pub(crate) mod observe;
mod outcome;
mod pattern;
mod plan;
mod prepare;
mod request;
mod sasl;
mod secured;
mod tally;
pub(crate) mod worker;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::result::{Second, WorkloadResult, moment_text};
use crate::template::TemplateError;
use crate::workload::Workload;
use data::KeyData;
pub use find_max::find_max;
use observe::Observer;
use outcome::{Collected, Seconds};
pub(crate) use plan::{CANNED_DN, check};
use plan::{Plan, PlannedKeys};
use tally::Tally;
use worker::{Schedule, Shared, Worker};

/// Options of a run. Unless a field states otherwise, `None` means that the workload's own value applies. Fields that
/// are not serialized are not sent to other load machines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Number of entries on the server that requests use as keys.
    pub entries: Option<u64>,
    /// Number of clients of the first job. Other jobs are scaled in proportion.
    pub clients: Option<usize>,
    /// Number of outstanding requests on each connection.
    pub outstanding: Option<usize>,
    /// Duration of the measurement.
    pub duration: Option<Duration>,
    /// Duration of the warm-up. There is no warm-up if it would use up the entries of the workload.
    pub warm_up: Option<Duration>,
    /// Idle time between warm-up and measurement.
    pub pause: Option<Duration>,
    /// Requests per second of the first job. A job with a rate is an open loop.
    pub rate: Option<f64>,
    /// Threads of the driver.
    pub threads: usize,
    /// Seed of random keys and values.
    pub seed: u64,
    /// Seed of the data. The seed is needed if the DNs of the keys come from a template.
    pub data_seed: u64,
    /// Name and password for the binds of connections. `None` means anonymous.
    pub bind: Option<(String, String)>,
    /// Trusted authorities for TLS. They are required for `ldaps://` and StartTLS, and are otherwise not used.
    #[serde(skip)]
    pub tls: Option<client::Tls>,
    /// Whether to use StartTLS on `ldap://` targets.
    pub start_tls: bool,
    /// Ids of the server's processes, if they are on this machine.
    #[serde(skip)]
    pub server_processes: Vec<u32>,
    /// Local addresses from which the clients connect, used in turn. If the list is empty, connections to IPv4 loopback
    /// use 127.0.0.2 to 127.0.0.251.
    #[serde(skip)]
    pub sources: Vec<IpAddr>,
    /// Index of this load machine, and the number of load machines. The load machines divide the keys of the data among
    /// themselves.
    pub shard: (u64, u64),
    /// Whether the target is the null responder. If true, no preparation is made, and every search expects the
    /// responder's only entry.
    pub canned: bool,
    /// Whether to check that the data exists before the measurement.
    pub check_data: bool,
    /// Whether to remove the workload's own entries afterwards.
    pub clean_up: bool,
    /// Whether to store the histogram of every second, for merging with other load machines.
    pub keep_histograms: bool,
    /// Synchronization with other load machines, before the load begins and again before the cleanup. `None` means that
    /// there are no other load machines.
    #[serde(skip)]
    pub together: Option<StartBarrier>,
}

/// Synchronization of several load machines. The function is called when this machine is ready, and waits for the other
/// machines. It returns the time at which all machines continue, or `None` if the run must not continue.
#[derive(Clone)]
pub struct StartBarrier(Arc<dyn Fn() -> Option<Instant> + Send + Sync>);

impl StartBarrier {
    /// Creates a synchronization from a function that waits.
    pub fn new(wait: impl Fn() -> Option<Instant> + Send + Sync + 'static) -> StartBarrier {
        StartBarrier(Arc::new(wait))
    }
}

impl std::fmt::Debug for StartBarrier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Together")
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            entries: None,
            clients: None,
            outstanding: None,
            duration: None,
            warm_up: None,
            pause: None,
            rate: None,
            threads: 1,
            seed: 1,
            data_seed: 1,
            bind: None,
            tls: None,
            start_tls: false,
            server_processes: Vec::new(),
            sources: Vec::new(),
            shard: (0, 1),
            canned: false,
            check_data: true,
            clean_up: true,
            keep_histograms: false,
            together: None,
        }
    }
}

/// The servers, or the addresses of one server, among which connections are distributed.
#[derive(Clone, Debug)]
pub struct Targets {
    /// URIs, as given.
    pub uris: Vec<String>,
    addresses: Vec<SocketAddr>,
    /// For each server, its host name for the certificate check, and whether its URI is `ldaps://`.
    hosts: Vec<(String, bool)>,
}

impl Targets {
    /// Resolves the names.
    ///
    /// # Errors
    /// There is no target, a target is not `ldap://HOST:PORT` or `ldaps://HOST:PORT`, or its host is unknown.
    pub fn resolve<S: AsRef<str>>(uris: &[S]) -> Result<Targets, DriveError> {
        let (mut addresses, mut hosts) = (Vec::new(), Vec::new());
        for uri in uris {
            let uri = uri.as_ref();
            let wrong = |why: &str| DriveError::Target { uri: uri.to_owned(), why: why.to_owned() };
            let url = ldap::LdapUrl::parse(uri).map_err(|error| wrong(&error.to_string()))?;
            if url.scheme == ldap::UrlScheme::Ldapi {
                return Err(wrong("only ldap:// and ldaps:// can be measured"));
            }
            let host = url.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
            let port = url.port_or_default().unwrap_or(389);
            hosts.push((host.clone(), url.scheme == ldap::UrlScheme::Ldaps));
            let mut found = (host.trim_matches(['[', ']']), port)
                .to_socket_addrs()
                .map_err(|error| wrong(&error.to_string()))?;
            addresses.push(found.next().ok_or_else(|| wrong("the name has no address"))?);
        }
        if addresses.is_empty() {
            return Err(DriveError::Target { uri: String::new(), why: "there is no target".to_owned() });
        }
        let uris = uris.iter().map(|uri| uri.as_ref().to_owned()).collect();
        Ok(Targets { uris, addresses, hosts })
    }

    /// Returns the addresses of the servers.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// A target is not valid.
    #[error("target {uri:?}: {why}")]
    Target {
        /// URI, as given.
        uri: String,
        /// Description of the error.
        why: String,
    },
    /// The workload contradicts the command line.
    #[error("workload {workload}: {message}")]
    Workload {
        /// Name of the workload.
        workload: String,
        /// Description of the error.
        message: String,
    },
    /// The template of the data is invalid.
    #[error("the data's template: {0}")]
    Template(#[from] TemplateError),
    /// The server did not respond to a request of the preparation.
    #[error("{what}: {source}")]
    Server {
        /// Step that failed.
        what: String,
        /// Description of the failure.
        source: client::ClientError,
    },
    /// The server refused a request of the preparation.
    #[error("{what}: result code {code}{}{diagnostic}", if diagnostic.is_empty() { "" } else { ": " })]
    Refused {
        /// Step that failed.
        what: String,
        /// The server's result code.
        code: u32,
        /// The server's diagnostic text.
        diagnostic: String,
    },
    /// Entries of the data are missing on the server.
    #[error(
        "{missing} of {sampled} sampled entries are not there, or cannot be read as {identity}, for one {example}\n\
         hint: {hint}"
    )]
    MissingData {
        /// Number of entries not found.
        missing: usize,
        /// Number of entries looked for.
        sampled: usize,
        /// Name of an entry that was not found.
        example: String,
        /// Identity of the client. It may lack the right to read the entries.
        identity: String,
        /// Advice for loading the data.
        hint: String,
    },
    /// This load machine cannot continue, because the other load machines do not.
    #[error("the coordinator of the load machines has gone")]
    LeftAlone,
    /// An error of the driver itself.
    #[error("the load driver: {0}")]
    Io(#[from] std::io::Error),
}

/// Progress of a run, reported once a second.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Remaining time of the phase.
    pub left: Duration,
    /// Counts of the last complete second of the measurement, if there is one.
    pub second: Option<Second>,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Checking and adding entries, and connecting.
    Prepare,
    /// Sending requests without counting them.
    WarmUp,
    /// Idle between warm-up and measurement.
    Pause,
    /// Sending requests and counting them.
    Measure,
}

/// Runs a workload and measures it.
///
/// # Errors
/// The measurement could not begin. Later failures are in the result.
pub fn run(workload: &Workload, targets: &Targets, options: &Options) -> Result<WorkloadResult, DriveError> {
    run_watched(workload, targets, options, &mut |_| {})
}

/// Runs a workload, measures it, and reports progress every second.
///
/// # Errors
/// The same as for [`run`].
pub fn run_watched(
    workload: &Workload,
    targets: &Targets,
    options: &Options,
    watch: &mut dyn FnMut(&Progress),
) -> Result<WorkloadResult, DriveError> {
    watch(&Progress { phase: Phase::Prepare, left: Duration::ZERO, second: None });
    let options = &Options { start_tls: options.start_tls || workload.needs.tls, ..options.clone() };
    if let Some(unsupported) = prepare::unsupported(workload, targets, options)? {
        let mut result = outcome::unsupported(workload, targets, options, unsupported);
        result.server.product = prepare::product(targets, options).unwrap_or_default();
        return Ok(result);
    }
    let plan = ready(workload, options)?;
    if !options.canned && options.check_data {
        prepare::check_data(workload, &plan.data, targets, options)?;
    }
    if !options.canned {
        prepare::add_own(workload, targets, options)?;
    }
    let collected = drive(workload, &plan, targets, options, watch);
    if let Some(together) = options.together.as_ref().filter(|_| collected.is_ok()) {
        // If the other load machines do not respond, they have ended, so the cleanup cannot disturb them.
        let _ = (together.0)();
    }
    let added = collected.as_ref().map(|collected| collected.added.clone()).unwrap_or_default();
    let cleaned = if options.clean_up && !options.canned {
        prepare::remove_own(workload, &added, targets, options)
    } else {
        Ok(())
    };
    let mut result = outcome::result(workload, &plan, targets, options, collected?);
    if !options.canned {
        result.server.product = prepare::product(targets, options).unwrap_or_default();
    }
    if let Err(error) = cleaned {
        result.failures.push(format!("cleaning up: {error}"));
    }
    Ok(result)
}

/// Returns the workload in executable form, with its keys.
fn ready(workload: &Workload, options: &Options) -> Result<Plan, DriveError> {
    let wrong =
        |(_, message): (usize, String)| DriveError::Workload { workload: workload.name.clone(), message };
    if workload.jobs.is_empty() {
        let message =
            "it measures bulk loading, which is no LDAP operation: `pando bench peers` does".to_owned();
        return Err(DriveError::Workload { workload: workload.name.clone(), message });
    }
    let columns = plan::columns(workload).map_err(wrong)?;
    let data = &workload.data;
    let entries = options.entries.unwrap_or(data.entries);
    let keys = if columns.0.is_empty() || options.canned {
        KeyData::numbers(data.first, entries)
    } else if data.template.is_empty() {
        let message = format!(
            "it names values of entries ({}) but no template to take them from",
            columns.0.join(", ")
        );
        return Err(DriveError::Workload { workload: workload.name.clone(), message });
    } else {
        KeyData::of_template(data, entries, options.data_seed, &columns)?
    };
    plan::plan(workload, keys, options).map_err(wrong)
}

/// Returns the source addresses of connections. If the options contain no source addresses, connections to IPv4
/// loopback use 250 addresses, because only about 28,000 connections are possible between a source address and a
/// server's address.
fn sources(targets: &Targets, options: &Options) -> Vec<IpAddr> {
    let are_loopback =
        targets.addresses.iter().all(|address| address.ip().is_loopback() && address.is_ipv4());
    if !options.sources.is_empty() || !are_loopback {
        return options.sources.clone();
    }
    (2..=251).map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))).collect()
}

/// Starts the threads, follows their progress, and gathers their counts.
fn drive(
    workload: &Workload,
    plan: &Plan,
    targets: &Targets,
    options: &Options,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Collected, DriveError> {
    let threads = options.threads.max(1);
    let sources = sources(targets, options);
    let secured = secured::secured(targets, options)?;
    let binds_itself = plan.jobs.iter().all(|job| !job.keeps(plan::On::Main));
    let shared = Shared {
        plan,
        targets: &targets.addresses,
        secured: &secured,
        sources: &sources,
        identity: options.bind.clone().filter(|_| !binds_itself),
        seed: options.seed,
        threads,
        base: Instant::now(),
        connected: Barrier::new(threads + 1),
        scheduled: Barrier::new(threads + 1),
        schedule: OnceLock::new(),
    };
    let (sender, seconds) = mpsc::channel();
    let mut workers = Vec::new();
    let own = own_for_deletes(workload, options);
    let deleting = threads_that_delete(plan, threads);
    for index in 0..threads {
        let (shard, shards) = options.shard;
        let is_mine = |number: &u64| {
            let turn = (number / shards) as usize % deleting.len().max(1);
            number % shards == shard && deleting.get(turn) == Some(&index)
        };
        let mine: VecDeque<u64> = own.clone().filter(is_mine).collect();
        workers.push(Worker::new(&shared, index, Tally::new(&plan.kinds, sender.clone()), mine)?);
    }
    drop(sender);
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (index, worker) in workers.into_iter().enumerate() {
            // A failure here would leave the other threads waiting at the barrier forever. On Linux, starting a thread
            // practically never fails.
            handles.push(
                std::thread::Builder::new()
                    .name(format!("bench-load-{index}"))
                    .spawn_scoped(scope, || worker.run())?,
            );
        }
        shared.connected.wait();
        // If the other machines do not continue, nothing is measured. The threads must still be ended.
        let together = options.together.as_ref().map(|together| (together.0)());
        let schedule = match together {
            Some(None) => Schedule::nothing(shared.base.elapsed()),
            Some(Some(moment)) => {
                let now = shared.base.elapsed();
                schedule(workload, options, now.max(moment.saturating_duration_since(shared.base)))
            }
            None => schedule(workload, options, shared.base.elapsed()),
        };
        let _ = shared.schedule.set(schedule);
        let until_begin = Duration::from_nanos(schedule.from).saturating_sub(shared.base.elapsed());
        let started = moment_text(until_begin);
        let mut observer = Observer::new(&options.server_processes);
        shared.scheduled.wait();
        let seconds = follow(&shared, &schedule, seconds, &mut observer, options, watch);
        let mut finished = Vec::new();
        for handle in handles {
            let joined = handle.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread has failed")));
            finished.push(joined?);
        }
        if together == Some(None) {
            return Err(DriveError::LeftAlone);
        }
        let collected = Collected::new(seconds, schedule, observer, started);
        let mut collected = finished.into_iter().fold(collected, Collected::add);
        collected.tls = secured::stated(collected.agreed.as_deref(), &secured);
        Ok(collected)
    })
}

/// Returns the numbers of the workload's own entries if deletes may use them: an operation must use added entries as
/// keys, and no operation may use the workload's own entries as keys. Otherwise returns an empty range.
fn own_for_deletes(workload: &Workload, options: &Options) -> std::ops::Range<u64> {
    use crate::workload::KeySource;
    let uses = |keys: KeySource| {
        workload.jobs.iter().flat_map(|job| &job.operations).any(|operation| operation.keys == keys)
    };
    if uses(KeySource::Added) && !uses(KeySource::Own) {
        prepare::own_numbers(workload, options)
    } else {
        0..0
    }
}

/// Returns the threads that have clients with deletes. These threads divide the workload's own entries among
/// themselves. The share of any other thread would remain unused.
fn threads_that_delete(plan: &Plan, threads: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let clients = plan.jobs.iter().flat_map(|job| std::iter::repeat_n(job, job.clients));
    for (job, thread) in clients.zip(worker::threads_of_clients(threads)) {
        let deletes = job.operations.iter().any(|operation| matches!(operation.keys, PlannedKeys::Added));
        if deletes && !found.contains(&thread) {
            found.push(thread);
        }
    }
    found
}

pub(crate) fn schedule(workload: &Workload, options: &Options, now: Duration) -> Schedule {
    let nanos = |duration: Duration| duration.as_nanos() as u64;
    let warm_up = match workload.can_be_used_up() {
        true => Duration::ZERO,
        false => options.warm_up.unwrap_or(Duration::from_secs(workload.warm_up_seconds)),
    };
    let measured = options.duration.unwrap_or(Duration::from_secs(workload.duration_seconds));
    // The threads have one millisecond until the start.
    let start = nanos(now) + 1_000_000;
    let warm_up_end = start + nanos(warm_up);
    let from = warm_up_end + nanos(options.pause.unwrap_or(Duration::from_secs(workload.pause_seconds)));
    Schedule { start, warm_up_end, from, to: from + nanos(measured) }
}

/// Gathers the counts of each second until all threads are done.
fn follow(
    shared: &Shared<'_>,
    schedule: &Schedule,
    incoming: Receiver<Second>,
    observer: &mut Observer,
    options: &Options,
    watch: &mut dyn FnMut(&Progress),
) -> Seconds {
    let mut seconds = Seconds::new(shared.threads, options.keep_histograms);
    let mut reported = 0;
    let now = || shared.base.elapsed().as_nanos() as u64;
    loop {
        // The server's processes are sampled at the beginning and the end of the measurement, so that CPU time and
        // answers cover the same time.
        let until_due = Duration::from_nanos(observer.next_due(schedule).saturating_sub(now()));
        match incoming.recv_timeout(until_due.min(Duration::from_millis(20))) {
            Ok(second) => seconds.add(second),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let now = now();
        observer.observe(now, schedule);
        let (phase, end) = match now {
            now if now < schedule.warm_up_end => (Phase::WarmUp, schedule.warm_up_end),
            now if now < schedule.from => (Phase::Pause, schedule.from),
            _ => (Phase::Measure, schedule.to),
        };
        let left = Duration::from_nanos(end.saturating_sub(now));
        if now / 1_000_000_000 > reported {
            reported = now / 1_000_000_000;
            watch(&Progress { phase, left, second: seconds.last_whole().cloned() });
        }
    }
    observer.observe_end(now(), schedule);
    seconds
}
