//! Figures about the server. `cn=monitor` shows them as entries that are created for each search. The metrics show them
//! as time series.

#[cfg(feature = "kafka")]
mod cluster;
mod entries;
mod figure;
mod follow;
mod metrics;
mod replicas;
mod usage;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use directory::Directory;
use directory::index::Phase;
use directory::rows::EntryId;
use directory::search::MissingIndex;
use directory::virtual_entries::{MonitorSource, VirtualEntry};

use self::figure::{Group, Value};
pub(crate) use self::usage::named_listeners;
use crate::backup::time_text;
use crate::config::ListenerIndex;
use crate::net::acceptor::AcceptorControl;
use crate::net::certificate::Certificates;
use crate::net::http::Page;
use crate::net::listening_places::ListeningPlaces;
use crate::net::request_memory::RequestMemory;
use crate::stamp::now_micros;
use crate::telemetry::counter::Counter;
use crate::telemetry::counters::{Counters, OperationTotal, operation_totals, refusal_totals, total};
use crate::telemetry::health::Health;
use crate::telemetry::index_advice::IndexAdvice;
use crate::telemetry::process::ProcessUsage;
use crate::telemetry::readiness::Readiness;
use crate::telemetry::slow::SlowOperations;
use crate::telemetry::traces::TraceFeed;
use crate::workers::audit_feed::AuditFeed;
use crate::workers::backups::{BackupFigures, BackupState};
use crate::workers::follow::FollowFigures;
use crate::workers::hash_pool::HashFigures;
use crate::workers::index_sizes::MeasuredIndexes;
use crate::workers::log_reader::LogReader;
use crate::workers::read_age::ReadAge;
use crate::workers::read_ahead::ReadAheadFigures;
use crate::workers::replica::figures::ReplicaFigures;
use crate::workers::reset_mails::MailFigures;
use crate::workers::scan_pool::ScanFigures;
use crate::workers::scan_shares::ScanShares;
use crate::workers::usage::Usage;
use crate::workers::writer::WriteQueue;

/// Version of the running server.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The source of the entries of `cn=monitor` and of the metrics.
pub(crate) struct Monitor {
    started: Instant,
    /// Time at which the server started, in seconds since 1970.
    started_at: u64,
    /// The parts of the server with the figures. Set during the start.
    sources: OnceLock<Sources>,
}

/// The parts of the server that contain figures.
pub(crate) struct Sources {
    #[cfg(feature = "kafka")]
    pub(crate) cluster: Option<Arc<::cluster::figures::Figures>>,
    /// Generation of the data. Positions are only comparable within one generation.
    pub(crate) generation: [u8; 16],
    pub(crate) counters: Arc<[Arc<Counters>]>,
    /// Work by listener, client and index. There is one element for each event loop.
    pub(crate) usage: Arc<[Arc<Usage>]>,
    /// All listeners and their names.
    pub(crate) listener_names: Vec<(ListenerIndex, String)>,
    pub(crate) acceptor: Arc<AcceptorControl>,
    pub(crate) writes: Arc<WriteQueue>,
    pub(crate) scans: Arc<ScanFigures>,
    /// Figures of mail for password resets. Only set if the server sends mail.
    pub(crate) mails: Option<Arc<MailFigures>>,
    pub(crate) slow: Arc<SlowOperations>,
    pub(crate) scan_shares: Arc<ScanShares>,
    pub(crate) index_advice: Arc<IndexAdvice>,
    pub(crate) index_sizes: Arc<MeasuredIndexes>,
    pub(crate) hashes: Arc<HashFigures>,
    pub(crate) read_ahead: Arc<ReadAheadFigures>,
    pub(crate) request_memory: Arc<RequestMemory>,
    /// Number of running persistent searches, and their maximum number.
    pub(crate) listening: Arc<ListeningPlaces>,
    pub(crate) health: Arc<Health>,
    /// The event loops' answers to probes. Only set if there is a listener for the metrics.
    pub(crate) readiness: Option<Arc<Readiness>>,
    pub(crate) certificates: Arc<Certificates>,
    /// The maximum age of the data that this node returns. `None` if the settings contain no maximum age.
    pub(crate) read_age: Option<Arc<ReadAge>>,
    /// The audit trail, if there is one.
    pub(crate) audit: Option<Arc<AuditFeed>>,
    /// The queue of operations to trace. Only set if the settings contain a receiver.
    pub(crate) traces: Option<Arc<TraceFeed>>,
    /// State of the backup. Only set if the settings contain a backup.
    pub(crate) backup: Option<Arc<BackupFigures>>,
    /// State of each copy of a followed server's tree, by name.
    pub(crate) follow: Vec<(String, Arc<FollowFigures>)>,
    /// State of this server as a replica; `None` if it is not a replica.
    pub(crate) replica: Option<Arc<ReplicaFigures>>,
    /// The thread that reads the log for replicas.
    pub(crate) log_reader: Arc<LogReader>,
    /// A weak reference, because the directory owns the monitor.
    pub(crate) directory: Weak<Directory>,
}

impl Monitor {
    pub(crate) fn new() -> Monitor {
        Monitor { started: Instant::now(), started_at: now_micros() / 1_000_000, sources: OnceLock::new() }
    }

    /// Sets the parts of the server that contain figures.
    pub(crate) fn attach(&self, sources: Sources) {
        // A directory has only one server. Therefore this function is called only once.
        let _ = self.sources.set(sources);
    }
}

impl MonitorSource for Monitor {
    fn entries(&self) -> Vec<VirtualEntry> {
        entries::entries(&self.groups(), &self.operations())
    }

    fn root_dse(&self) -> Vec<(&'static str, Vec<String>)> {
        let mut own = Vec::new();
        let Some(sources) = self.sources.get() else { return own };
        own.push(("pandoGeneration", vec![HEXLOWER.encode(&sources.generation)]));
        let directory = sources.directory.upgrade();
        if let Some(position) = directory.and_then(|directory| directory.newest_position().ok()) {
            own.push(("pandoPosition", vec![position.to_string()]));
        }
        #[cfg(feature = "kafka")]
        if let Some(figures) = &sources.cluster {
            own.extend(figures.get().root_dse());
        }
        own
    }
}

impl Monitor {
    /// Returns a page of the metrics listener. `knows_token` is true if the request contains the right token.
    pub(crate) fn page(&self, path: &str, knows_token: bool) -> Page {
        match path {
            "/metrics" if !knows_token => Page::NeedsToken,
            "/metrics" => Page::Metrics,
            "/live" => Page::Found("text/plain", "live\n".to_owned()),
            "/ready" => match self.not_ready().or_else(|| self.refusal()) {
                None => Page::Found("text/plain", "ready\n".to_owned()),
                Some(reason) => Page::Unavailable(reason),
            },
            "/ready/read" => match (self.not_ready(), self.refusal()) {
                (Some(reason), _) => Page::Unavailable(reason),
                (None, Some(reason)) => {
                    Page::Found("text/plain", format!("ready for reads only: {reason}\n"))
                }
                (None, None) => Page::Found("text/plain", "ready\n".to_owned()),
            },
            _ => Page::Unknown,
        }
    }

    /// Returns the page with the metrics. Some figures are read from the store.
    pub(crate) fn metrics_page(&self) -> Page {
        match metrics::metrics(self.groups(), self.operations()) {
            Ok(text) => Page::Found(metrics::MEDIA_TYPE, text),
            Err(fmt::Error) => Page::Unavailable("the metrics cannot be written".to_owned()),
        }
    }

    /// Returns the reason why clients should currently send their changes to another server, if there is one.
    fn refusal(&self) -> Option<String> {
        let sources = self.sources.get()?;
        let now = Instant::now();
        let refusal = sources.health.refusal(now).or_else(|| sources.readiness.as_ref()?.refusal(now));
        #[cfg(feature = "kafka")]
        let refusal = refusal.or_else(|| sources.cluster.as_ref()?.refusal(now));
        refusal.or_else(|| sources.replica.as_ref()?.get().refusal(now))
    }

    /// Returns the reason why clients should currently send all of their requests to another server, if there is one.
    fn not_ready(&self) -> Option<String> {
        let Some(sources) = self.sources.get() else { return Some("the server is starting".to_owned()) };
        if sources.acceptor.is_stopping() {
            return Some("the server is stopping".to_owned());
        }
        #[cfg(feature = "kafka")]
        if let Some(figures) = &sources.cluster
            && let Some(role) = figures.stopped()
        {
            return Some(format!("this node follows its cluster no longer, and its data grows old: {role}"));
        }
        if let Some(reason) = sources.replica.as_ref().and_then(|figures| figures.get().not_ready()) {
            return Some(reason);
        }
        let now = Instant::now();
        let silent = sources.readiness.as_ref().and_then(|readiness| readiness.silent(now));
        silent.or_else(|| sources.read_age.as_ref().and_then(|age| age.too_old(now)))
    }

    fn operations(&self) -> Vec<OperationTotal> {
        self.sources.get().map_or_else(Vec::new, |sources| operation_totals(&sources.counters))
    }

    /// Returns all figures in their groups.
    fn groups(&self) -> Vec<Group> {
        let mut groups = vec![self.time(), process()];
        let Some(sources) = self.sources.get() else { return groups };
        groups.extend([
            connections(sources),
            usage::listeners(sources),
            usage::indexes(sources),
            usage::index_sizes(sources),
            usage::clients(sources),
            tls(&sources.certificates),
            statistics(sources),
            refusals(sources),
            durations(sources),
            threads(sources),
            scans(sources),
            hashes(&sources.hashes),
            policies(&sources.directory),
            dynamic_groups(&sources.directory),
            collective_attributes(&sources.directory),
            automatic_members(&sources.directory),
            links(&sources.directory),
            read_ahead(&sources.read_ahead),
            request_memory(&sources.request_memory),
            listening(&sources.listening),
        ]);
        groups.extend(storage(sources));
        groups.extend(sources.mails.as_deref().map(mails));
        groups.extend(sources.audit.as_deref().map(audit));
        groups.extend(sources.traces.as_deref().map(traces));
        groups.extend(sources.backup.as_deref().map(|figures| backup(figures, &sources.directory)));
        groups.extend(sources.backup.as_deref().map(backup_moments));
        groups.extend(follow::group(&sources.follow));
        groups.extend(sources.replica.as_deref().map(replicas::own));
        groups.extend(replicas::group(&sources.log_reader, newest_position(&sources.directory)));
        #[cfg(feature = "kafka")]
        groups.extend(sources.cluster.as_deref().map(|figures| cluster::group(figures, &sources.directory)));
        groups
    }

    fn time(&self) -> Group {
        let mut group = Group::new("Time");
        group.time("Start", "When the server started", self.started_at);
        group.time("Current", "What the server's clock says", now_micros() / 1_000_000);
        group.text("Uptime", "Seconds since the server started", self.started.elapsed().as_secs());
        group
    }
}

/// Returns the value of a counter that several threads may write.
fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn process() -> Group {
    let usage = ProcessUsage::read();
    let mut group = Group::new("Process");
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    group.count("CPU User Milliseconds", "Processor time in user mode", millis(usage.user));
    group.count("CPU System Milliseconds", "Processor time in the kernel", millis(usage.system));
    group.level("Private Memory Bytes", "Memory without mapped pages of the data file", usage.private_bytes);
    group.level("Resident Memory Bytes", "Memory with mapped pages of the data file", usage.resident_bytes);
    group
}

fn connections(sources: &Sources) -> Group {
    let mut group = Group::new("Connections");
    let acceptor = &sources.acceptor;
    let open = sources.counters.iter().map(|counters| counters.connections()).sum();
    group.level("Current", "Connections that are open", open);
    group.count("Total", "Connections accepted", load(&acceptor.accepted));
    group.count("Total Local", "Connections accepted over a Unix socket", load(&acceptor.accepted_local));
    group.count("Refused", "Connections refused because too many were open", load(&acceptor.refused));
    group.level("Max", "Connections that may be open", acceptor.effective_max() as u64);
    group
}

fn tls(certificates: &Certificates) -> Group {
    let mut group = Group::new("TLS");
    group.count("Established", "Handshakes that were completed", load(&certificates.established));
    group.count("Resumed", "Handshakes that went on with an earlier session", load(&certificates.resumed));
    group.count("Failed", "Handshakes that failed", load(&certificates.failed));
    group.time("Certificate Expires", "Until when the certificate is valid", certificates.not_after());
    group
}

/// Returns the total duration of the finished operations of each kind.
fn durations(sources: &Sources) -> Group {
    let mut group = Group::new("Durations");
    for total in operation_totals(&sources.counters) {
        let name = format!("{} Microseconds", total.name);
        // This is a text, not a number, because the metrics already contain a histogram of these durations.
        group.text(name, "Total time of finished operations", total.latency.micros());
    }
    group
}

fn statistics(sources: &Sources) -> Group {
    let mut group = Group::new("Statistics");
    let sum = |counter: fn(&Counters) -> &Counter| total(&sources.counters, counter);
    group.count("Bytes", "Octets sent", sum(|counters| &counters.bytes_out));
    group.count("Bytes Received", "Octets received", sum(|counters| &counters.bytes_in));
    group.count("Entries", "Search result entries sent", sum(|counters| &counters.entries));
    group.count("Entries Examined", "Entries that searches looked at", sum(|counters| &counters.examined));
    group.count(
        "Slow Operations",
        "Operations that took log.slow_milliseconds or more",
        sources.slow.count(),
    );
    group
}

/// Returns the number of refusals by their cause.
fn refusals(sources: &Sources) -> Group {
    let mut group = Group::new("Refusals");
    let totals = refusal_totals(&sources.counters);
    group.add("Total", "Refusals with unwillingToPerform, by cause", Value::By("cause", true, totals));
    group
}

fn threads(sources: &Sources) -> Group {
    let mut group = Group::new("Threads");
    group.level("Event Loops", "Threads that answer requests", sources.counters.len() as u64);
    let scan_threads = sources.scans.threads.load(Ordering::Relaxed) as u64;
    group.level("Scan Threads", "Threads that go through many entries", scan_threads);
    group
}

fn scans(Sources { scans, scan_shares, .. }: &Sources) -> Group {
    let mut group = Group::new("Scans");
    group.level("Running", "Long searches under way", scans.running.load(Ordering::Relaxed) as u64);
    group.count("Total", "Long searches begun", load(&scans.started));
    group.count("Entries Examined", "Entries that long searches looked at", load(&scans.examined));
    let millis = load(&scans.micros) / 1_000;
    group.count("CPU Milliseconds", "Processor time that scan threads took for searches", millis);
    group.count(
        "Refused",
        "Searches that examined as much without an index as they may",
        scan_shares.refused(),
    );
    group
}

/// Returns the figures of the hash pool.
fn hashes(hashes: &HashFigures) -> Group {
    let mut group = Group::new("Passwords");
    group.count("Jobs", "Passwords that were to be hashed", load(&hashes.submitted));
    group.count("Jobs Dropped", "Passwords not hashed because the client had gone", load(&hashes.dropped));
    group.count("Known", "Binds by a password verified a short time before", load(&hashes.from_cache));
    group.count("Jobs Refused", "Passwords not hashed because too many waited", load(&hashes.refused));
    let waiting = load(&hashes.waiting);
    group.level("Hashes Waiting", "Hashes that the waiting passwords cost", waiting);
    let millis = load(&hashes.waited_micros) / 1_000;
    group.count("Waited Milliseconds", "Time that passwords waited for a thread", millis);
    group.count("Hashes Verified", "Hashes that passwords were held against", load(&hashes.verified));
    group
}

/// Returns the figures of mail for password resets.
fn mails(figures: &MailFigures) -> Group {
    let mut group = Group::new("Mail");
    group.count("Requests", "Requests for a link to set another password", load(&figures.requests));
    group.count("Refused", "Requests that got no link because there were too many", load(&figures.refused));
    group.count("Sent", "Mails with a link that the mail server took", load(&figures.sent));
    group.count("Failed", "Mails that the mail server did not take", load(&figures.failed));
    group.count("Links Used", "Links that were used", load(&figures.used));
    let help = "Whether the last conversation with the mail server failed";
    group.add("Failing", help, Value::Flag(figures.is_failing.load(Ordering::Relaxed)));
    group
}

/// Returns the figures of password policies. A notice describes a policy that does not have the effect that its text
/// states. The first notice is shown.
fn policies(directory: &Weak<Directory>) -> Group {
    let mut group = Group::new("Password Policies");
    let Some(directory) = directory.upgrade() else { return group };
    group.level("In Force", "Password policies that are in force", directory.policy_count() as u64);
    let help = "What does not hold of password policies as it is written";
    group.add("Failing", help, first_of(directory.policy_notices()));
    group
}

/// Returns the figures of dynamic groups. The members of such a group are the results of a search.
fn dynamic_groups(directory: &Weak<Directory>) -> Group {
    let mut group = Group::new("Dynamic Groups");
    let Some(directory) = directory.upgrade() else { return group };
    let (count, notices) = directory.dynamic_groups();
    group.level("In Force", "Groups whose members a memberURL describes", count as u64);
    group.add("Failing", "What does not hold of groups with memberURL as it is written", first_of(notices));
    group
}

/// Returns the figures of the subentries with collective attributes.
fn collective_attributes(directory: &Weak<Directory>) -> Group {
    let mut group = Group::new("Collective Attributes");
    let Some(directory) = directory.upgrade() else { return group };
    let (count, notices) = directory.collective_subentries();
    group.level("In Force", "Subentries that give collective attributes to entries", count as u64);
    group.add("Failing", "What does not hold of such subentries as it is written", first_of(notices));
    group
}

/// Returns the progress of the rules that add existing entries to groups.
fn automatic_members(directory: &Weak<Directory>) -> Group {
    let mut group = Group::new("Automatic Members");
    let pending =
        directory.upgrade().map_or_else(|| Ok((Vec::new(), EntryId::ROOT)), |of| of.pending_joins());
    let (pending, newest) = match pending {
        Ok(pending) => pending,
        Err(error) => {
            group.add("Failing", AUTO_MEMBERS_FAILING, Value::Fault(Err(error.to_string())));
            return group;
        }
    };
    let (refused, active): (Vec<_>, Vec<_>) = pending.into_iter().partition(|join| !join.refusal.is_empty());
    group.level("Pending", "Rules by which existing entries have yet to join a group", active.len() as u64);
    let refused = refused.into_iter().map(|join| format!("{:?}: {}", join.rule, join.refusal));
    group.add("Failing", AUTO_MEMBERS_FAILING, first_of(refused.collect()));
    for (number, join) in (1..).zip(active) {
        let (after, joined, rule) = (join.after.0, join.joined, &join.rule);
        let text = format!("{joined} entries joined, up to entry {after} of {}: {rule}", newest.0);
        group.text(format!("Rule {number}"), "A rule that is pending, and its progress", text);
    }
    group
}

/// Returns the progress of the conversion of attribute values to links.
fn links(directory: &Weak<Directory>) -> Group {
    let mut group = Group::new("Links");
    let Some(directory) = directory.upgrade() else { return group };
    let (progress, names) = match directory.link_progress() {
        Ok(links) => links,
        Err(error) => {
            group.add("Failing", LINKS_FAILING, Value::Fault(Err(error.to_string())));
            return group;
        }
    };
    let pending = if progress.is_pending() { names.len() as u64 } else { 0 };
    group.level("Pending", "Attributes whose plain values have yet to become links (X-LINK)", pending);
    group.add("Failing", LINKS_FAILING, first_of(Vec::new()));
    if pending > 0 {
        let (values, dangling, after) = (progress.values, progress.dangling, progress.after.0);
        let text = format!(
            "{values} values have become links, {dangling} of them name no entry, up to entry {after}: {}",
            names.join(", ")
        );
        group.text("Progress", "Values that have become links", text);
    }
    group
}

const LINKS_FAILING: &str = "Why plain values do not become links";

const AUTO_MEMBERS_FAILING: &str = "Why existing entries do not join the group of a rule";

/// Returns the first of `notices` and the number of the other notices, as a figure.
fn first_of(notices: Vec<String>) -> Value {
    let others = notices.len().saturating_sub(1);
    let fault = notices.into_iter().next().map(|first| match others {
        0 => first,
        others => format!("{first}; and {others} more, which the log has"),
    });
    Value::Fault(fault.map_or(Ok("no"), Err))
}

/// Returns the figures of the prefetching of data that was not in memory.
fn read_ahead(figures: &ReadAheadFigures) -> Group {
    let mut group = Group::new("Read Ahead");
    group.level("Threads", "Threads that read ahead", load(&figures.threads));
    group.count("Requests", "Requests that were read ahead", load(&figures.requests));
    group.count("Pages", "Pages that reading ahead brought into memory", load(&figures.pages));
    group
}

/// Returns the number of bytes that requests and answers occupy, and how often a limit was reached.
fn request_memory(memory: &RequestMemory) -> Group {
    let mut group = Group::new("Request Memory");
    group.level("Used Bytes", "Octets that requests and answers hold", memory.used() as u64);
    let reserve = memory.reserve_used() as u64;
    group.level(
        "Used Bytes of Administrators",
        "Octets that those of administrators hold of a reserve",
        reserve,
    );
    group.level("Max Bytes", "Octets that requests and answers may hold", memory.limit() as u64);
    group.level("Holders", "Sources and identities that hold some", memory.holders() as u64);
    group.count("Waited", "Times that a connection waited for room", load(&memory.waited));
    group.count("Refused", "Requests refused for lack of room", load(&memory.refused));
    group
}

/// Returns the figures of persistent searches, including those of refreshAndPersist (RFC 4533).
fn listening(places: &ListeningPlaces) -> Group {
    let mut group = Group::new("Persistent Searches");
    group.level("Current", "Searches that listen for changes", places.count() as u64);
    group.level("Max", "Searches that may listen for changes", places.count_max() as u64);
    group.count("Refused", "Searches that were refused because too many listen", places.refused());
    group.count("Cut Off", "Searches that ended because their clients read too slowly", places.cut_off());
    group
}

/// Returns the figures of the audit trail. They include lost events and requests that had to wait for the audit trail.
fn audit(feed: &AuditFeed) -> Group {
    let mut group = Group::new("Audit");
    let figures = &feed.figures;
    group.count("Events", "Events written to the trail", load(&figures.events));
    group.count("Blocks", "Blocks of the trail written", load(&figures.blocks));
    group.count("Bytes", "Octets of the trail written", load(&figures.bytes));
    group.level("Position", "The last change in the trail", load(&figures.position));
    group.count("Lost Events", "Events that the trail lacks", load(&figures.lost));
    group.count("Held Requests", "Requests that waited for the trail", load(&figures.held));
    let is_failing = figures.is_failing.load(Ordering::Relaxed);
    group.add("Failing", "Whether the trail cannot be written", Value::Flag(is_failing));
    group
}

/// Returns the figures of traces.
fn traces(feed: &TraceFeed) -> Group {
    let mut group = Group::new("Traces");
    group.count("Sent", "Operations whose traces were accepted", load(&feed.figures.sent));
    group.count("Dropped", "Operations whose traces were lost", load(&feed.figures.dropped));
    let is_failing = feed.figures.is_failing.load(Ordering::Relaxed);
    group.add("Failing", "Whether traces cannot be sent", Value::Flag(is_failing));
    group
}

/// Returns the figures of the backup. Omits the time and position of the last backup if none was made since the start.
fn backup(figures: &BackupFigures, directory: &Weak<Directory>) -> Group {
    let mut group = Group::new("Backup");
    let BackupState { last, error, interval_seconds, place, .. } = figures.get();
    let (seconds, position) = last.unwrap_or_default();
    if seconds > 0 {
        group.time("Last Backup", "When the backup last had everything", seconds);
        group.level("Position", "The last change that the backup has", position);
    }
    let lacking = newest_position(directory).saturating_sub(position);
    group.level("Changes Since", "Changes that the backup lacks", lacking);
    group.level("Interval Seconds", "Seconds from a backup to the next", interval_seconds);
    if !place.is_empty() {
        group.text("Place", "Folder or bucket of the backup", place);
    }
    group.add("Failing", "Why nothing is added to the backup", Value::Fault(error.map_or(Ok("no"), Err)));
    group
}

/// Returns the moments that the backup covers, as one text for each chain. A chain is a file with all rows, and the
/// files with the changes after it.
fn backup_moments(figures: &BackupFigures) -> Group {
    let mut group = Group::new("Backup Moments");
    let time = |seconds: u64| time_text(seconds.saturating_mul(1_000_000));
    for chain in figures.get().chains.iter() {
        let verified = match chain.verified {
            None => "no".to_owned(),
            Some((seconds, position)) => format!("{} up to {position}", time(seconds)),
        };
        let text = format!(
            "until {}; positions {} to {}; files {}; bytes {}; encrypted {}; verified {verified}",
            time(chain.last_seconds),
            chain.rows_position,
            chain.last_position,
            chain.files.len(),
            chain.bytes,
            if chain.is_encrypted { "yes" } else { "no" },
        );
        let name = format!("{} position {}", time(chain.rows_seconds), chain.rows_position);
        group.text(name, "Moments that can be restored, from this one on", text);
    }
    group
}

/// Returns the position of the last change that reads show; 0 if it cannot be read.
fn newest_position(directory: &Weak<Directory>) -> u64 {
    directory.upgrade().and_then(|directory| directory.newest_position().ok()).unwrap_or(0)
}

/// Returns the figures of the log, the data file and the indexes.
fn storage(sources: &Sources) -> Vec<Group> {
    let mut log = Group::new("Log");
    let waiting = sources.writes.reserved_count() as u64;
    log.level("Waiting Changes", "Changes without an answer", waiting);
    let Some(directory) = sources.directory.upgrade() else { return vec![log] };
    let facts = match directory.facts() {
        Ok(facts) => facts,
        Err(error) => {
            tracing::warn!(%error, "the store gives no figures");
            return vec![log];
        }
    };
    log.level("Position", "The last change that reads show", facts.position);
    let stopped = sources.health.changes_stopped();
    let is_stopped = facts.writes_stopped || stopped.is_some();
    log.add("Writes Stopped", "Whether no change is made until a restart", Value::Flag(is_stopped));
    let is_refused = is_stopped || facts.disk_free_bytes < facts.disk_reserve_bytes;
    log.add(
        "Changes Refused",
        "Whether changes are refused: stopped, or too little disk",
        Value::Flag(is_refused),
    );
    if let Some(cause) = stopped {
        log.text("Writes Stopped Cause", "Why no change is made", cause);
    }
    let mut storage = Group::new("Storage");
    storage.level("Used Bytes", "The data file, with what is free in it", facts.used_bytes);
    storage.level("Free Bytes", "What is free in the data file, for later changes", facts.free_bytes);
    storage.level("Pending Bytes", "Changes that are not in the data file yet", facts.pending_bytes);
    storage.level("Map Bytes", "What the data file may grow into", facts.map_bytes);
    storage.level("Disk Bytes", "The size of the disk", facts.disk_bytes);
    storage.level("Disk Free Bytes", "What is free on the disk", facts.disk_free_bytes);
    vec![log, storage, indexes(&directory), index_advice(&sources.index_advice, &directory)]
}

/// Returns one figure for each part of an index that is being built or removed.
fn indexes(directory: &Directory) -> Group {
    let mut group = Group::new("Indexes");
    let progress = directory.index_progress().unwrap_or_else(|error| {
        tracing::warn!(%error, "the directory does not say what its indexes do");
        Vec::new()
    });
    for part in progress {
        let value = match part.phase {
            Phase::Building => Value::Progress(part.built_to, part.last_entry),
            _ => Value::Text("removing".to_owned()),
        };
        let of = part.part.map_or("order", |part| part.name());
        group.add(format!("{} {of}", part.attribute), "How much of an index is built", value);
    }
    group
}

/// Returns one text for each attribute for which searches lacked an index.
fn index_advice(advice: &IndexAdvice, directory: &Directory) -> Group {
    let mut group = Group::new("Index Advice");
    let defined = directory.indexes();
    let is_defined = |index: &MissingIndex| {
        defined.iter().any(|(name, kinds)| *name == index.attribute && kinds.contains(index.kind))
    };
    for (attribute, proposal) in advice.proposals(is_defined) {
        group.text(attribute, "The index that searches lacked, and what they cost", proposal);
    }
    group
}
