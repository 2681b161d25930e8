//! `cn=monitor`: the state of the server as entries, made for each search.
//!
//! The tree has the shape and the attribute names of OpenLDAP's, so that existing monitoring tools can read it:
//! `cn=Operations` with received and finished operations by type, `cn=Connections`, `cn=Statistics`, `cn=Time`. Below
//! each operation are counts by result code. `cn=TLS`, `cn=Scans`, `cn=Passwords`, `cn=Read Ahead`, `cn=Request
//! Memory`,
//! `cn=Log`, `cn=Storage`, `cn=Indexes` and `cn=Process` are our own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use directory::Directory;
use directory::csn::generalized_time;
use directory::index::Phase;
use directory::virtual_entries::{MonitorSource, VirtualEntry};

use crate::hex::hex;
use crate::net::acceptor::AcceptorControl;
use crate::net::certificate::Certificates;
use crate::net::request_memory::RequestMemory;
use crate::stamp::now_micros;
use crate::telemetry::counters::{Counters, OperationTotal, operation_totals, total};
use crate::telemetry::health::Health;
use crate::telemetry::process::ProcessUsage;
use crate::workers::audit_feed::AuditFeed;
use crate::workers::backups::{BackupFigures, BackupState};
use crate::workers::hash_pool::HashFigures;
use crate::workers::read_ahead::ReadAheadFigures;
use crate::workers::scan_pool::ScanFigures;
use crate::workers::writer::WriteQueue;

/// The name of the tree.
const ROOT: &str = "cn=monitor";

/// Makes the entries.
pub(crate) struct Monitor {
    started: Instant,
    /// Seconds since 1970.
    started_at: u64,
    /// Set when the server has started its threads.
    sources: OnceLock<Sources>,
}

/// The sources of the numbers.
pub(crate) struct Sources {
    #[cfg(feature = "kafka")]
    pub(crate) cluster: Option<Arc<crate::cluster::figures::Figures>>,
    /// Which data positions are of.
    pub(crate) generation: [u8; 16],
    pub(crate) counters: Arc<[Arc<Counters>]>,
    pub(crate) acceptor: Arc<AcceptorControl>,
    pub(crate) writes: Arc<WriteQueue>,
    pub(crate) scans: Arc<ScanFigures>,
    pub(crate) hashes: Arc<HashFigures>,
    pub(crate) read_ahead: Arc<ReadAheadFigures>,
    pub(crate) request_memory: Arc<RequestMemory>,
    pub(crate) health: Arc<Health>,
    pub(crate) certificates: Arc<Certificates>,
    /// The audit trail, if there is one.
    pub(crate) audit: Option<Arc<AuditFeed>>,
    /// The backup that is kept, if one is.
    pub(crate) backup: Option<Arc<BackupFigures>>,
    /// Weak, because the directory owns the monitor.
    pub(crate) directory: Weak<Directory>,
}

impl Monitor {
    pub(crate) fn new() -> Monitor {
        Monitor { started: Instant::now(), started_at: now_micros() / 1_000_000, sources: OnceLock::new() }
    }

    /// Sets the sources of the numbers.
    pub(crate) fn attach(&self, sources: Sources) {
        // There is no second call: a directory has one server.
        let _ = self.sources.set(sources);
    }
}

impl MonitorSource for Monitor {
    fn entries(&self) -> Vec<VirtualEntry> {
        let mut tree = MonitorTree::default();
        let version = concat!("Pando ", env!("CARGO_PKG_VERSION"));
        tree.add(ROOT.to_owned(), "monitorServer", vec![("monitoredInfo", version.to_owned())]);
        self.add_time(&mut tree);
        add_process(&mut tree);
        if let Some(sources) = self.sources.get() {
            add_operations(&mut tree, &operation_totals(&sources.counters));
            add_connections(&mut tree, sources);
            add_tls(&mut tree, &sources.certificates);
            add_statistics(&mut tree, sources);
            add_scans(&mut tree, &sources.scans);
            add_hashes(&mut tree, &sources.hashes);
            add_read_ahead(&mut tree, &sources.read_ahead);
            add_request_memory(&mut tree, &sources.request_memory);
            add_storage(&mut tree, sources);
            if let Some(feed) = &sources.audit {
                add_audit(&mut tree, feed);
            }
            if let Some(figures) = &sources.backup {
                add_backup(&mut tree, figures, &sources.directory);
            }
            #[cfg(feature = "kafka")]
            if let Some(figures) = &sources.cluster {
                add_cluster(&mut tree, figures, &sources.directory);
            }
        }
        tree.entries
    }

    fn root_dse(&self) -> Vec<(&'static str, Vec<String>)> {
        let mut own = Vec::new();
        let Some(sources) = self.sources.get() else { return own };
        own.push(("pandoGeneration", vec![hex(&sources.generation)]));
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
    fn add_time(&self, tree: &mut MonitorTree) {
        let parent = tree.container("Time", ROOT);
        tree.timestamp("Start", &parent, self.started_at);
        tree.timestamp("Current", &parent, now_micros() / 1_000_000);
        tree.info("Uptime", &parent, self.started.elapsed().as_secs());
    }
}

fn add_process(tree: &mut MonitorTree) {
    let usage = ProcessUsage::read();
    let parent = tree.container("Process", ROOT);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    tree.counter("CPU User Milliseconds", &parent, millis(usage.user));
    tree.counter("CPU System Milliseconds", &parent, millis(usage.system));
    tree.counter("Private Memory Bytes", &parent, usage.private_bytes);
    tree.counter("Resident Memory Bytes", &parent, usage.resident_bytes);
}

/// `cn=Operations`: received and finished operations, in total, by kind, and by kind and result.
fn add_operations(tree: &mut MonitorTree, totals: &[OperationTotal]) {
    let finished = |total: &OperationTotal| total.results.iter().map(|(_, count)| count).sum::<u64>();
    let received = totals.iter().map(|total| total.received).sum();
    let parent = format!("cn=Operations,{ROOT}");
    tree.operation(parent.clone(), received, totals.iter().map(finished).sum());
    for total in totals {
        let of_kind = format!("cn={},{parent}", total.name);
        tree.operation(of_kind.clone(), total.received, finished(total));
        for (code, count) in &total.results {
            let name = code.map_or_else(|| "other codes".to_owned(), |code| code.to_string());
            tree.counter(&name, &of_kind, *count);
        }
    }
}

fn add_connections(tree: &mut MonitorTree, sources: &Sources) {
    let parent = tree.container("Connections", ROOT);
    let open = sources.counters.iter().map(|counters| counters.connections()).sum();
    let max = sources.acceptor.effective_max() as u64;
    tree.counter("Current", &parent, open);
    tree.counter("Total", &parent, sources.acceptor.accepted.load(Ordering::Relaxed));
    tree.counter("Total Local", &parent, sources.acceptor.accepted_local.load(Ordering::Relaxed));
    tree.counter("Refused", &parent, sources.acceptor.refused.load(Ordering::Relaxed));
    tree.counter("Max", &parent, max);
}

/// `cn=TLS`: handshakes since the start, and when the certificate expires.
fn add_tls(tree: &mut MonitorTree, certificates: &Certificates) {
    let parent = tree.container("TLS", ROOT);
    tree.counter("Established", &parent, certificates.established.load(Ordering::Relaxed));
    tree.counter("Resumed", &parent, certificates.resumed.load(Ordering::Relaxed));
    tree.counter("Failed", &parent, certificates.failed.load(Ordering::Relaxed));
    tree.timestamp("Certificate Expires", &parent, certificates.not_after());
}

fn add_statistics(tree: &mut MonitorTree, sources: &Sources) {
    let parent = tree.container("Statistics", ROOT);
    let counters = &sources.counters;
    tree.counter("Bytes", &parent, total(counters, |counters| &counters.bytes_out));
    tree.counter("Bytes Received", &parent, total(counters, |counters| &counters.bytes_in));
    tree.counter("Entries", &parent, total(counters, |counters| &counters.entries));
    tree.counter("Entries Examined", &parent, total(counters, |counters| &counters.examined));
    let parent = tree.container("Threads", ROOT);
    tree.counter("Event Loops", &parent, counters.len() as u64);
    tree.counter("Scan Threads", &parent, sources.scans.threads.load(Ordering::Relaxed) as u64);
}

/// `cn=Scans`: long searches, which scan threads run.
fn add_scans(tree: &mut MonitorTree, scans: &ScanFigures) {
    let parent = tree.container("Scans", ROOT);
    tree.counter("Running", &parent, scans.running.load(Ordering::Relaxed) as u64);
    tree.counter("Total", &parent, scans.begun.load(Ordering::Relaxed));
    tree.counter("Entries Examined", &parent, scans.examined.load(Ordering::Relaxed));
}

/// `cn=Passwords`: jobs of the hash pool.
fn add_hashes(tree: &mut MonitorTree, hashes: &HashFigures) {
    let parent = tree.container("Passwords", ROOT);
    tree.counter("Jobs", &parent, hashes.submitted.load(Ordering::Relaxed));
    tree.counter("Jobs Dropped", &parent, hashes.dropped.load(Ordering::Relaxed));
    tree.counter("Known", &parent, hashes.known.load(Ordering::Relaxed));
    tree.counter("Jobs Refused", &parent, hashes.refused.load(Ordering::Relaxed));
    tree.counter("Hashes Verified", &parent, hashes.verified.load(Ordering::Relaxed));
}

/// `cn=Read Ahead`: requests that other threads went through first, and pages that they brought in, because data was
/// not in memory.
fn add_read_ahead(tree: &mut MonitorTree, figures: &ReadAheadFigures) {
    let parent = tree.container("Read Ahead", ROOT);
    tree.counter("Threads", &parent, figures.threads.load(Ordering::Relaxed));
    tree.counter("Requests", &parent, figures.requests.load(Ordering::Relaxed));
    tree.counter("Pages", &parent, figures.pages.load(Ordering::Relaxed));
}

/// `cn=Request Memory`: bytes that requests hold, and how often a bound was met.
fn add_request_memory(tree: &mut MonitorTree, memory: &RequestMemory) {
    let parent = tree.container("Request Memory", ROOT);
    tree.counter("Used Bytes", &parent, memory.used() as u64);
    tree.counter("Used Bytes of Administrators", &parent, memory.reserve_used() as u64);
    tree.counter("Max Bytes", &parent, memory.limit() as u64);
    tree.counter("Holders", &parent, memory.holders() as u64);
    tree.counter("Waited", &parent, memory.waited.load(Ordering::Relaxed));
    tree.counter("Refused", &parent, memory.refused.load(Ordering::Relaxed));
}

/// `cn=Audit`: the trail, and what of it is missing or was held back for it.
fn add_audit(tree: &mut MonitorTree, feed: &AuditFeed) {
    let parent = tree.container("Audit", ROOT);
    let figures = &feed.figures;
    tree.counter("Events", &parent, figures.events.load(Ordering::Relaxed));
    tree.counter("Blocks", &parent, figures.blocks.load(Ordering::Relaxed));
    tree.counter("Bytes", &parent, figures.bytes.load(Ordering::Relaxed));
    tree.counter("Position", &parent, figures.position.load(Ordering::Relaxed));
    tree.counter("Lost Events", &parent, figures.lost.load(Ordering::Relaxed));
    tree.counter("Held Requests", &parent, figures.held.load(Ordering::Relaxed));
    tree.info("Failing", &parent, figures.is_failing.load(Ordering::Relaxed));
}

/// `cn=Backup`: what the backup has, and what it lacks. Without a time none was made since the start.
fn add_backup(tree: &mut MonitorTree, figures: &BackupFigures, directory: &Weak<Directory>) {
    let parent = tree.container("Backup", ROOT);
    let BackupState { last, error } = figures.get();
    let (seconds, position) = last.unwrap_or_default();
    if seconds > 0 {
        tree.timestamp("Last Backup", &parent, seconds);
        tree.counter("Position", &parent, position);
    }
    tree.counter("Changes Since", &parent, newest_position(directory).saturating_sub(position));
    tree.info("Failing", &parent, error.unwrap_or_else(|| "no".to_owned()));
}

/// The position that reads show; 0 where there is nothing to read.
fn newest_position(directory: &Weak<Directory>) -> u64 {
    directory.upgrade().and_then(|directory| directory.newest_position().ok()).unwrap_or(0)
}

/// `cn=Cluster`: what this node is in its cluster, and how far it is behind.
#[cfg(feature = "kafka")]
fn add_cluster(
    tree: &mut MonitorTree,
    figures: &crate::cluster::figures::Figures,
    directory: &Weak<Directory>,
) {
    let state = figures.get();
    let parent = tree.container("Cluster", ROOT);
    tree.info("Node", &parent, state.node);
    tree.info("Address", &parent, &state.address);
    tree.info("Generation", &parent, hex(&state.generation));
    tree.info("Role", &parent, &state.role);
    tree.info("Writer", &parent, state.writer.map_or_else(|| "none".to_owned(), |node| node.0.to_string()));
    tree.counter("Epoch", &parent, state.epoch);
    if state.epoch_since > 0 {
        tree.timestamp("Last Failover", &parent, state.epoch_since);
    }
    tree.info("Log", &parent, state.unreachable.clone().unwrap_or_else(|| "reachable".to_owned()));
    tree.counter("Level", &parent, state.level);
    tree.counter("Key", &parent, state.key.into());
    if let Some(number) = state.key_offered {
        tree.counter("Key Offered", &parent, number.into());
    }
    tree.info("Seals Groups", &parent, if state.seals { "yes" } else { "no" });
    if let Some((mark, digest)) = &state.digest {
        tree.info("Digest", &parent, format!("at offset {mark}: {digest}"));
    }
    tree.info("Comparison Round", &parent, round_text(&state.round));
    if state.round.ended > 0 {
        tree.timestamp("Last Comparison Round", &parent, state.round.ended_at);
    }
    // What reads show, which the node's thread says of itself only after it has answered.
    tree.counter("Position", &parent, newest_position(directory));
    tree.counter("Next Offset", &parent, state.next_offset);
    tree.counter("Log Start Offset", &parent, state.start_offset);
    tree.counter("Log Messages", &parent, state.end_offset.saturating_sub(state.start_offset));
    tree.counter("Log Bytes", &parent, state.log_bytes);
    if let Some(bytes) = state.log_bytes_per_day {
        tree.counter("Log Bytes Per Day", &parent, bytes);
        // As if nothing were deleted: for disks.
        tree.counter(
            "Log Bytes In 30 Days",
            &parent,
            state.log_bytes.saturating_add(bytes.saturating_mul(30)),
        );
    }
    tree.counter("Deletable Bytes", &parent, state.deletable_bytes);
    match &state.snapshot {
        Some(Ok((offset, at))) => {
            tree.info("Own Snapshot", &parent, format!("of offset {offset}, at {}", generalized_time(*at)));
        }
        Some(Err(error)) => tree.info("Own Snapshot", &parent, format!("failed: {error}")),
        None => {}
    }
    match &state.trimmed {
        Some(Ok(at)) => tree.timestamp("Last Trim", &parent, *at),
        Some(Err(error)) => tree.info("Last Trim", &parent, format!("failed: {error}")),
        None => {}
    }
    match &state.deletable {
        Some(Ok(offset)) => tree.counter("Deletable Before", &parent, *offset),
        Some(Err(kept)) => tree.info("Kept Whole", &parent, kept),
        None => {}
    }
    for (node, row) in &state.members {
        tree.info(&format!("Node {}", node.0), &parent, member_text(row));
    }
    tree.counter("Lag Messages", &parent, state.lag_messages());
    tree.counter("Lag Seconds", &parent, state.lag_seconds);
    tree.counter("Waiting Changes", &parent, state.waiting);
    tree.counter("Groups Followed", &parent, state.groups_followed);
    tree.counter("Groups Decided", &parent, state.groups_decided);
    tree.counter("Groups Dropped", &parent, state.groups_dropped);
    tree.counter("Groups Sealed", &parent, state.groups_sealed);
    tree.counter("Forwarded", &parent, state.forwarded);
    tree.counter("Alarms", &parent, state.alarms);
}

/// How far the comparison of all data is.
#[cfg(feature = "kafka")]
fn round_text(round: &replication::Round) -> String {
    let last = match round.ended {
        0 => String::new(),
        ended => format!("; round {ended} had {} bytes", round.ended_bytes),
    };
    match round.next.is_empty() {
        true => format!("none under way{last}"),
        false => format!(
            "round {} since {}: {} bytes{last}",
            round.ended.saturating_add(1),
            generalized_time(round.began_at),
            round.bytes
        ),
    }
}

/// What the log says of a node.
#[cfg(feature = "kafka")]
fn member_text(row: &replication::MemberRow) -> String {
    if row.is_gone {
        return "gone: its certificate is refused".to_owned();
    }
    let offset = |offset: Option<u64>| offset.map_or_else(|| "none".to_owned(), |offset| offset.to_string());
    format!("committed up to offset {}, snapshot of offset {}", offset(row.durable), offset(row.snapshot))
}

fn add_storage(tree: &mut MonitorTree, sources: &Sources) {
    let log = tree.container("Log", ROOT);
    tree.counter("Waiting Changes", &log, sources.writes.reserved_count() as u64);
    let Some(directory) = sources.directory.upgrade() else { return };
    let facts = match directory.facts() {
        Ok(facts) => facts,
        Err(error) => {
            tracing::warn!(%error, "the store gives no figures");
            return;
        }
    };
    tree.counter("Position", &log, facts.position);
    let stopped = sources.health.changes_stopped();
    tree.info("Writes Stopped", &log, facts.writes_stopped || stopped.is_some());
    if let Some(cause) = stopped {
        tree.info("Writes Stopped Cause", &log, cause);
    }
    let storage = tree.container("Storage", ROOT);
    tree.counter("Used Bytes", &storage, facts.used_bytes);
    tree.counter("Pending Bytes", &storage, facts.pending_bytes);
    tree.counter("Map Bytes", &storage, facts.map_bytes);
    tree.counter("Disk Bytes", &storage, facts.disk_bytes);
    tree.counter("Disk Free Bytes", &storage, facts.disk_free_bytes);
    add_indexes(tree, &directory);
}

/// `cn=Indexes`: one entry for each part of an index that is being built or removed.
fn add_indexes(tree: &mut MonitorTree, directory: &Directory) {
    let parent = tree.container("Indexes", ROOT);
    let progress = match directory.index_progress() {
        Ok(progress) => progress,
        Err(error) => return tracing::warn!(%error, "the directory does not say what its indexes do"),
    };
    for part in progress {
        let what = match part.phase {
            Phase::Building => format!("building: entry {} of {}", part.built_to, part.last_entry),
            _ => "removing".to_owned(),
        };
        tree.info(&format!("{} {}", part.attribute, part.part.name()), &parent, what);
    }
}

/// The entries, parents first.
#[derive(Default)]
struct MonitorTree {
    entries: Vec<VirtualEntry>,
}

impl MonitorTree {
    fn add(&mut self, dn: String, class: &str, attributes: Vec<(&str, String)>) {
        let name = dn.split([',', '=']).nth(1).unwrap_or_default().to_owned();
        let classes = vec![b"top".to_vec(), class.as_bytes().to_vec()];
        let mut all = vec![("objectClass".to_owned(), classes), ("cn".to_owned(), vec![name.into_bytes()])];
        all.extend(attributes.into_iter().map(|(name, value)| (name.to_owned(), vec![value.into_bytes()])));
        self.entries.push(VirtualEntry { dn, attributes: all });
    }

    /// Adds an entry that only has others below it. Returns its DN.
    fn container(&mut self, name: &str, parent: &str) -> String {
        let dn = format!("cn={name},{parent}");
        self.add(dn.clone(), "monitorContainer", Vec::new());
        dn
    }

    fn counter(&mut self, name: &str, parent: &str, count: u64) {
        let attributes = vec![("monitorCounter", count.to_string())];
        self.add(format!("cn={name},{parent}"), "monitorCounterObject", attributes);
    }

    fn info(&mut self, name: &str, parent: &str, value: impl ToString) {
        let attributes = vec![("monitoredInfo", value.to_string())];
        self.add(format!("cn={name},{parent}"), "monitoredObject", attributes);
    }

    fn timestamp(&mut self, name: &str, parent: &str, unix_seconds: u64) {
        let attributes = vec![("monitorTimestamp", generalized_time(unix_seconds))];
        self.add(format!("cn={name},{parent}"), "monitoredObject", attributes);
    }

    fn operation(&mut self, dn: String, received: u64, finished: u64) {
        let attributes =
            vec![("monitorOpInitiated", received.to_string()), ("monitorOpCompleted", finished.to_string())];
        self.add(dn, "monitorOperation", attributes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ldap::ResultCode;

    use super::*;
    use crate::telemetry::counters::Operation;

    #[test]
    fn parents_stand_before_children_and_names_are_their_rdns() {
        let counters = Counters::default();
        counters.received(Operation::SEARCH);
        counters.completed(Operation::SEARCH, ResultCode::NO_SUCH_OBJECT);
        let mut tree = MonitorTree::default();
        tree.add(ROOT.to_owned(), "monitorServer", Vec::new());
        Monitor::new().add_time(&mut tree);
        add_process(&mut tree);
        add_operations(&mut tree, &operation_totals(&[Arc::new(counters)]));
        let mut seen = HashSet::new();
        for entry in &tree.entries {
            let dn = ldap::Dn::parse(&entry.dn).unwrap();
            if entry.dn != ROOT {
                assert!(seen.contains(dn.text_from(1)), "{}", entry.dn);
            }
            let cn = &entry.attributes[1].1[0];
            assert!(entry.dn.starts_with(&format!("cn={}", String::from_utf8_lossy(cn))), "{}", entry.dn);
            assert!(seen.insert(entry.dn.as_str()), "{}", entry.dn);
        }
        assert!(seen.contains("cn=noSuchObject,cn=search,cn=Operations,cn=monitor"));
    }
}
