//! What the sessions of one event loop share.

use std::sync::Arc;
use std::time::Instant;

use directory::{Directory, Requester, Snapshot};
use ldap::DecodeLimits;
use store::StoreError;

use crate::config::OnlineSettings;
use crate::counters::Counters;
use crate::hash_pool::HashPool;
use crate::scan_pool::ScanPool;
use crate::stamp::Random;
use crate::writer::{WriteQueue, WriteRequest};

/// What all threads of a server share.
pub(crate) struct Shared {
    pub(crate) directory: Arc<Directory>,
    pub(crate) writes: Arc<WriteQueue>,
    pub(crate) hash_pool: HashPool,
    pub(crate) scan_pool: ScanPool,
    /// Bytes that one event loop spends on remembering where rows are.
    pub(crate) row_cache_bytes: usize,
}

/// What one event loop lends to the session that it runs.
pub(crate) struct Context {
    /// Index of the event loop.
    pub(crate) event_loop: u16,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    /// The directory as of this pass of the loop, or as of the last commit seen since.
    pub(crate) snapshot: Snapshot,
    /// [`WriteQueue::commits`] when the snapshot was renewed.
    commits_seen: u64,
    /// When this pass of the loop began.
    pub(crate) now: Instant,
    pub(crate) settings: Arc<OnlineSettings>,
    /// The requester of every session that has not bound.
    pub(crate) anonymous: Arc<Requester>,
    pub(crate) random: Random,
    /// Bytes that connections of this loop keep of input they are not done with.
    pub(crate) kept_input: usize,
    /// Changes of this pass, for the writer.
    pub(crate) outbox: Vec<WriteRequest>,
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
            snapshot.remember_rows(shared.row_cache_bytes);
        }
        Ok(Context {
            event_loop,
            shared,
            counters,
            snapshot,
            commits_seen: 0,
            now: Instant::now(),
            settings,
            anonymous: Arc::new(Requester::Anonymous),
            random: Random::default(),
            kept_input: 0,
            outbox: Vec::new(),
        })
    }

    /// Begins a pass: the present, and the directory as it is now.
    pub(crate) fn begin_pass(&mut self) -> Result<(), StoreError> {
        self.now = Instant::now();
        self.renew(self.shared.writes.commits())
    }

    /// Makes sure that everything that was answered before now is visible. Called after requests were received and before
    /// they are looked at: a client that got an answer on another connection, of another loop, may have sent them since
    /// the pass began. Costs one load of a shared counter when nothing was committed.
    pub(crate) fn catch_up(&mut self) -> Result<(), StoreError> {
        let commits = self.shared.writes.commits();
        if commits == self.commits_seen { Ok(()) } else { self.renew(commits) }
    }

    fn renew(&mut self, commits: u64) -> Result<(), StoreError> {
        self.snapshot.renew()?;
        self.commits_seen = commits;
        Ok(())
    }

    /// What a peer may send, before and after it has bound.
    pub(crate) fn decode_limits(&self, authenticated: bool) -> DecodeLimits {
        let message_size_max = if authenticated {
            self.settings.message_size_max
        } else {
            self.settings.message_size_unauthenticated_max
        };
        DecodeLimits { message_size_max, ..DecodeLimits::AUTHENTICATED }
    }
}
