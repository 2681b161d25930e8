//! State that the sessions of one event loop share.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use directory::search::Feed;
use directory::{Directory, Requester, ServerFault, Snapshot};
use ldap::{DecodeLimits, ResultCode};
use store::StoreError;

use super::outstanding::RequestHead;
use crate::config::OnlineSettings;
use crate::kerberos::KerberosExchanges;
use crate::net::arrivals::Arrivals;
use crate::net::certificate::Certificates;
use crate::net::listening_places::ListeningPlaces;
use crate::net::released_memory::ReleasedMemory;
use crate::net::request_memory::RequestMemory;
use crate::net::stream::RefusedProxies;
use crate::stamp::Random;
use crate::telemetry::counters::Counters;
use crate::telemetry::health::{FailedOperation, Health};
use crate::telemetry::index_advice::IndexAdvice;
use crate::telemetry::slow::SlowOperations;
use crate::telemetry::traces::TraceFeed;
use crate::workers::audit_feed::{AuditBuffer, AuditFeed};
use crate::workers::backup_reader::BackupReader;
use crate::workers::copies::Copies;
use crate::workers::delays::Delays;
use crate::workers::guesses::Guesses;
use crate::workers::hash_pool::HashPool;
use crate::workers::log_reader::LogReader;
use crate::workers::logins::Logins;
use crate::workers::pass_through::PassThrough;
use crate::workers::read_age::ReadAge;
use crate::workers::read_ahead::{ColdLoopDetector, PrefetchJob, ReadAheadPool};
use crate::workers::reset_mails::ResetMails;
use crate::workers::scan_pool::ScanPool;
use crate::workers::scan_shares::ScanShares;
use crate::workers::settings_reader::SettingsReader;
use crate::workers::trail_reader::TrailReader;
use crate::workers::usage::{Usage, UsageCounters};
use crate::workers::writer::{WriteQueue, WriteRequest};

/// State that all threads of a server share.
pub(crate) struct Shared {
    pub(crate) directory: Arc<Directory>,
    pub(crate) writes: Arc<WriteQueue>,
    /// Last logins that are not recorded in the directory yet.
    pub(crate) logins: Arc<Logins>,
    /// Bound on the age of the data that this node returns; `None` if the settings contain no bound.
    pub(crate) read_age: Option<Arc<ReadAge>>,
    pub(crate) hash_pool: HashPool,
    /// Verification of passwords by another server; `None` if the settings name no such server.
    pub(crate) pass_through: Option<PassThrough>,
    /// Sender of mails with links for a password reset; `None` if the settings name no mail server.
    pub(crate) reset_mails: Option<Arc<ResetMails>>,
    /// Kerberos binds in progress.
    pub(crate) kerberos: KerberosExchanges,
    pub(crate) guesses: Arc<Guesses>,
    pub(crate) delays: Delays,
    pub(crate) scan_pool: ScanPool,
    /// Statistics about searches for which an index is missing.
    pub(crate) index_advice: Arc<IndexAdvice>,
    /// Counts of slow operations.
    pub(crate) slow: Arc<SlowOperations>,
    /// Processor time of costly searches, by client.
    pub(crate) scan_shares: Arc<ScanShares>,
    pub(crate) read_ahead: ReadAheadPool,
    pub(crate) request_memory: Arc<RequestMemory>,
    /// Work by listener, client and index, for each event loop.
    pub(crate) usage: Arc<[Arc<Usage>]>,
    /// Counts of persistent searches by client.
    pub(crate) listening: Arc<ListeningPlaces>,
    /// Counts of connections by client.
    pub(crate) arrivals: Arrivals,
    /// Number of connections refused because a proxy header was missing or unexpected.
    pub(crate) proxies: RefusedProxies,
    /// Faults that the server detected.
    pub(crate) health: Arc<Health>,
    /// Certificates and settings for new TLS sessions.
    pub(crate) certificates: Arc<Certificates>,
    /// Size of the row cache of each event loop, in bytes.
    pub(crate) row_cache_bytes: usize,
    /// Thread that copies the data for new replicas.
    pub(crate) copies: Copies,
    /// Thread that reads the log for replicas.
    pub(crate) log_reader: Arc<LogReader>,
    /// Thread that reads the audit trail for clients, if there is a trail.
    pub(crate) trail_reader: Option<TrailReader>,
    /// Thread that reads the server's backup for clients, if there is a backup.
    pub(crate) backup_reader: Option<BackupReader>,
    /// Thread that reads settings for clients.
    pub(crate) settings_reader: SettingsReader,
    /// Queue of events for the audit trail, if there is one.
    pub(crate) audit: Option<Arc<AuditFeed>>,
    /// Queue of operations to trace, if the settings name a receiver of traces.
    pub(crate) traces: Option<Arc<TraceFeed>>,
    /// Generation of the data, in the form that clients receive. A position is valid only together with its generation.
    pub(crate) generation: [u8; 16],
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The log reader's thread owns a reference to the directory and would keep it open.
        self.log_reader.stop();
    }
}

/// State that an event loop lends to the session that runs.
pub(crate) struct Context {
    /// Index of the event loop.
    pub(crate) event_loop: u16,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    /// Work of this loop by listener, client and index.
    pub(crate) usage: RefCell<UsageCounters>,
    /// Snapshot of the directory, taken at the start of this pass of the loop or after a later commit.
    pub(crate) snapshot: Snapshot,
    /// Value of [`WriteQueue::commits`] when the snapshot was renewed.
    commits_seen: u64,
    /// Start of this pass of the loop.
    pub(crate) now: Instant,
    /// End of the last turn of a connection.
    turn_ended: Instant,
    pub(crate) settings: Arc<OnlineSettings>,
    /// Whether an event is created for each operation when it begins, for the log, the audit trail or traces.
    pub(crate) describes: bool,
    /// Requester of each session without a bind.
    pub(crate) anonymous: Arc<Requester>,
    pub(crate) random: Random,
    /// Amount of memory that connections have freed and that the allocator has not returned to the system.
    pub(crate) released: ReleasedMemory,
    /// The last search base that an event was allowed to contain. See
    /// [`Disclosure`](crate::telemetry::operation_event::Disclosure).
    pub(crate) last_base: RefCell<String>,
    /// Events for the audit trail.
    pub(crate) audit: AuditBuffer,
    /// Changes that this pass submits to the writer.
    pub(crate) outbox: Vec<WriteRequest>,
    /// Prefetch jobs that this pass submits.
    pub(crate) jobs: Vec<PrefetchJob>,
    /// Feed that notifies the searches of this loop of changes.
    pub(crate) feed: Feed,
    /// Number of connections of this loop with a request that waits for a position.
    pub(crate) position_waiters: usize,
    /// Output buffer for dry runs of requests. Its contents are discarded.
    pub(crate) look_scratch: Vec<u8>,
    /// Measures whether this loop waits for the disk; `None` if there is no prefetch pool.
    coldness: Option<ColdLoopDetector>,
}

impl Context {
    pub(crate) fn new(
        event_loop: u16,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
        settings: Arc<OnlineSettings>,
    ) -> Result<Context, StoreError> {
        let mut snapshot = shared.directory.snapshot()?;
        if shared.row_cache_bytes > 0 {
            snapshot.cache_rows(shared.row_cache_bytes);
        }
        let loop_count = shared.usage.len();
        let usage = shared.usage.get(usize::from(event_loop)).cloned().unwrap_or_default();
        let audit = AuditBuffer::new(shared.audit.clone(), &snapshot);
        let describes = describes(&settings, &shared);
        Ok(Context {
            event_loop,
            shared,
            counters,
            usage: RefCell::new(UsageCounters::new(usage)),
            snapshot,
            commits_seen: 0,
            now: Instant::now(),
            turn_ended: Instant::now(),
            describes,
            settings,
            anonymous: Arc::new(Requester::Anonymous),
            random: Random::default(),
            released: ReleasedMemory::new(loop_count, Instant::now()),
            last_base: RefCell::default(),
            audit,
            outbox: Vec::new(),
            jobs: Vec::new(),
            feed: Feed::default(),
            position_waiters: 0,
            look_scratch: Vec::new(),
            coldness: Some(ColdLoopDetector::new(Instant::now())),
        })
    }

    /// Applies new settings.
    pub(crate) fn take_settings(&mut self, settings: Arc<OnlineSettings>) {
        self.describes = describes(&settings, &self.shared);
        self.settings = settings;
    }

    /// Counts the turn of a connection, which ends now.
    pub(crate) fn end_turn(&mut self) {
        let (began, now) = (self.turn_ended.max(self.now), Instant::now());
        self.turn_ended = now;
        self.counters.turn_ended(self.now, now);
        let took = now.saturating_duration_since(began).as_micros();
        self.counters.micros.add(u64::try_from(took).unwrap_or(0));
    }

    /// Records that the loop waits for events until the next pass begins.
    pub(crate) fn begin_wait(&mut self) {
        if let Some(coldness) = &mut self.coldness {
            coldness.idle_from(Instant::now());
        }
    }

    /// Begins a pass: sets the time and renews the snapshot.
    pub(crate) fn begin_pass(&mut self) -> Result<(), StoreError> {
        self.now = Instant::now();
        self.audit.hand_over_old(self.now);
        if let Some(coldness) = &mut self.coldness
            && coldness.tick(self.now)
            && !self.shared.read_ahead.start()
        {
            self.coldness = None;
        }
        self.renew(self.shared.writes.commits())
    }

    /// Returns true if this is a cold loop. A cold loop prefetches the pages of requests.
    pub(crate) fn is_cold(&self) -> bool {
        self.coldness.as_ref().is_some_and(ColdLoopDetector::is_cold)
    }

    /// Makes every commit visible that was answered before this call. The event loop calls this between receiving
    /// requests and handling them. A client may have received the answer to a change on a connection of another loop
    /// since the pass began. Without a new commit, the cost is one load of a shared counter.
    pub(crate) fn catch_up(&mut self) -> Result<(), StoreError> {
        let commits = self.shared.writes.commits();
        if commits == self.commits_seen { Ok(()) } else { self.renew(commits) }
    }

    /// Returns true if there was a commit that the snapshot does not contain.
    pub(crate) fn is_outdated(&self) -> bool {
        self.shared.writes.commits() != self.commits_seen
    }

    /// Returns the value of the commit counter for the snapshot.
    pub(crate) fn commits_seen(&self) -> u64 {
        self.commits_seen
    }

    fn renew(&mut self, commits: u64) -> Result<(), StoreError> {
        self.snapshot.renew().inspect_err(|error| {
            tracing::error!(%error, "an event loop cannot read the directory");
        })?;
        self.commits_seen = commits;
        Ok(())
    }

    /// Logs that an operation failed because of a fault of the server.
    #[cold]
    pub(super) fn report_fault(
        &self,
        fault: ServerFault,
        connection: u64,
        head: &RequestHead,
        code: ResultCode,
        text: &str,
    ) {
        let failed = FailedOperation { connection, id: head.id, name: head.operation.name(), code };
        self.shared.health.log_failure(self.now, fault, failed, text);
    }

    /// Returns the bounds on the messages of a peer, before or after its bind.
    pub(crate) fn decode_limits(&self, authenticated: bool) -> DecodeLimits {
        let message_size_max = if authenticated {
            self.settings.message_size_max
        } else {
            self.settings.message_size_unauthenticated_max
        };
        DecodeLimits { message_size_max, ..DecodeLimits::AUTHENTICATED }
    }
}

/// Returns true if an event is created for each operation when it begins.
fn describes(settings: &OnlineSettings, shared: &Shared) -> bool {
    settings.describes_operations() || shared.audit.is_some() || shared.traces.is_some()
}
