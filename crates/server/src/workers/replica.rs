//! A replica: a server that applies the log of its supplier, another server, record by record.
//!
//! Its thread replaces the writer's loop. The thread applies the records that `fetch` reads, and forwards the changes
//! of its clients to the supplier with `forward`. The thread answers each change when its own data contains the result.
//!
//! A change is forwarded at most once. If the connection breaks before the answer, the client receives an error that
//! says that the change may have been made.

mod apply;
mod compare;
pub(crate) mod copy;
mod fetch;
pub(crate) mod figures;
mod forward;
mod requests;
mod undecided;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::{Duration, Instant};

use directory::{Directory, Outcome, Writer};
use replication::{Lineage, Progress};

use self::compare::Reports;
use self::fetch::{Block, Fetcher, Source};
use self::figures::ReplicaFigures;
use self::forward::{Answers, Forwarder};
use self::requests::{Decided, Pending, SentBatch};
use self::undecided::Decision;
use self::watch::Watch;
use crate::config::ReplicaSettings;
use crate::limits::{BLOCKS_WAITING_MAX, REPLICA_STOP, REPLICA_TICK};
use crate::net::mailbox::Address;
use crate::stamp::now_micros;
use crate::telemetry::health::Health;
use crate::workers::digest_thread::DigestThread;
use crate::workers::index_upkeep::Upkeep;
use crate::workers::read_age::ReadAge;
use crate::workers::writer::replaced::{self, promote};
use crate::workers::writer::{self, Fetched, WriteQueue};

/// Parts of the server that a replica needs.
pub(crate) struct ReplicaParts {
    pub(crate) settings: ReplicaSettings,
    pub(crate) directory: Arc<Directory>,
    pub(crate) figures: Arc<ReplicaFigures>,
    /// Bound on the age of the data that this server returns; `None` if the settings contain no bound.
    pub(crate) read_age: Option<Arc<ReadAge>>,
}

/// State of the thread of a running replica.
struct Replica {
    parts: ReplicaParts,
    queue: Arc<WriteQueue>,
    fetcher: Fetcher,
    blocks: Receiver<Block>,
    forwarder: Forwarder,
    answers: Receiver<Answers>,
    /// Position and lineage of the last commit.
    progress: Progress,
    /// Number of the present connection that reads records; 0 if there is none.
    reading: u64,
    /// Number of the last connection whose records are ignored, because earlier records from it could not be applied.
    unwanted: u64,
    /// Time before which no record is applied, because applying failed.
    apply_after: Option<Instant>,
    /// Whether records remain that did not fit into the last commit.
    has_more_blocks: bool,
    /// Changes that wait to be forwarded.
    waiting: VecDeque<Pending>,
    /// Changes that were forwarded and are not answered yet.
    sent: Option<SentBatch>,
    /// Time at which the changes in `sent` were forwarded.
    sent_at: Instant,
    /// Changes whose results the supplier has sent. Each is answered when this replica has applied the records up to
    /// the change's position.
    decided: Vec<Decided>,
    /// Time at which forwarding changes last failed.
    forward_failed: Option<Instant>,
    /// Start time of this server in microseconds. It forms the ids of forwarded changes, together with `sequence`, the
    /// number of the last change.
    incarnation: u64,
    sequence: u64,
    /// Time at which the server began to stop. From then on, no client sends changes.
    closing: Option<Instant>,
    /// Name of the epoch in which this server will write. It is set by the first attempt to promote the server.
    epoch: Option<[u8; 16]>,
    /// Client that requested the promotion. It is set when the promotion can be made.
    promoting: Option<Address>,
    /// Thread that computes digests of the data.
    digests: DigestThread,
    reports: Arc<Reports>,
}

/// Runs a replica until the queue is closed and empty. A replica that is promoted becomes the writer. If this server
/// was promoted before this start, it makes no changes until its former supplier has sent its lineage. A writer keeps
/// requesting this lineage at intervals.
pub(crate) fn run(parts: ReplicaParts, mut writer: Writer, queue: &Arc<WriteQueue>, health: &Health) {
    let watch = Watch::of(&parts, queue);
    let decided = match writer.replication_role() {
        Ok(role) if role.may_write() => undecided::run(&parts, &mut writer, queue),
        _ => Ok(Decision::Follows),
    };
    let ended = decided.and_then(|decision| match decision {
        Decision::Follows => {
            let promoted = Replica::start(parts, queue)?.run(&mut writer, health);
            Ok(promoted.map_or(Decision::Ends, |address| Decision::Writes(Some(address))))
        }
        other => Ok(other),
    });
    match ended {
        Ok(Decision::Writes(promoter)) => {
            queue.committed();
            if let Some(address) = promoter {
                queue.answer(address, Outcome::success().into());
            }
            let _watch = watch.start().inspect_err(|error| {
                tracing::warn!("the former supplier is not asked whether another server writes: {error}");
            });
            writer::run(writer, queue, health);
        }
        Ok(Decision::Replaced) => replaced::run(writer, queue, health, Vec::new()),
        Ok(Decision::Follows | Decision::Ends) => queue.refuse_all(),
        Err(error) => {
            health.stop_changes(&format!("the replica cannot start: {error}"));
            queue.refuse_all();
        }
    }
}

impl Replica {
    fn start(parts: ReplicaParts, queue: &Arc<WriteQueue>) -> io::Result<Replica> {
        let (passed_on, blocks) = sync_channel(BLOCKS_WAITING_MAX);
        let (answered, answers) = channel();
        let snapshot = parts.directory.snapshot().map_err(io::Error::other)?;
        let position = snapshot.position().map_err(io::Error::other)?;
        let lineage = Lineage::decode(snapshot.lineage().map_err(io::Error::other)?).unwrap_or_default();
        drop(snapshot);
        {
            let mut figures = parts.figures.lock();
            (figures.position, figures.newest, figures.epoch) = (position, position, lineage.number());
        }
        let reports = Arc::<Reports>::default();
        let source = Source {
            reports: Arc::clone(&reports),
            settings: parts.settings.clone(),
            directory: Arc::clone(&parts.directory),
            queue: Arc::clone(queue),
            figures: Arc::clone(&parts.figures),
            blocks: passed_on,
        };
        let forwarder = Forwarder::start(parts.settings.clone(), Arc::clone(queue), answered)?;
        Ok(Replica {
            fetcher: Fetcher::start(source)?,
            queue: Arc::clone(queue),
            blocks,
            forwarder,
            answers,
            progress: Progress::new(position, lineage),
            reading: 0,
            unwanted: 0,
            apply_after: None,
            has_more_blocks: false,
            waiting: VecDeque::new(),
            sent: None,
            sent_at: Instant::now(),
            decided: Vec::new(),
            forward_failed: None,
            incarnation: now_micros(),
            sequence: 0,
            closing: None,
            epoch: None,
            promoting: None,
            digests: DigestThread::default(),
            reports,
            parts,
        })
    }

    /// Runs until the queue is closed or the replica is promoted. After a promotion, returns the address of the client
    /// that requested it.
    fn run(&mut self, writer: &mut Writer, health: &Health) -> Option<Address> {
        let mut upkeep = Upkeep::default();
        let mut requests = Vec::new();
        while !self.may_end() {
            let patience =
                upkeep.patience(writer).map_or(REPLICA_TICK, |patience| patience.min(REPLICA_TICK));
            let patience = if self.has_block() { Duration::ZERO } else { patience };
            let fetched = match self.closing {
                // No client sends changes any more. Changes that were forwarded are still answered.
                Some(_) => self.queue.await_poke(REPLICA_TICK),
                None => self.queue.fetch(&mut requests, Some(patience)),
            };
            if fetched == Fetched::Closed && self.closing.is_none() {
                self.close();
            }
            requests.drain(..).for_each(|request| self.take(request));
            let has_applied = self.apply_blocks(writer);
            while let Ok(answers) = self.answers.try_recv() {
                self.take_answers(answers);
            }
            self.note_connection();
            self.expire();
            if let Some(address) = self.promoting.take()
                && self.promote(writer, address)
            {
                return Some(address);
            }
            self.forward_if_due();
            let idle = fetched == Fetched::Nothing && !has_applied && writer.maintenance_pending();
            if idle || upkeep.is_due(writer) {
                upkeep.run(writer);
                self.queue.committed();
            }
            if let Some(cause) = health.changes_stopped() {
                self.refuse_all(&format!("this replica applies no changes until a restart: {cause}"));
            }
        }
        None
    }

    /// Makes this server the writer. If that fails, answers the client and returns false.
    fn promote(&mut self, writer: &mut Writer, address: Address) -> bool {
        let Some(epoch) = self.epoch else { return false };
        let supplier = self.parts.settings.supplier.to_string();
        match promote(writer, epoch, &supplier) {
            Ok(number) => {
                self.parts.figures.promoted(number);
                self.refuse_sent();
                self.refuse_all("this server was just promoted: send the change again");
                true
            }
            Err(error) => {
                tracing::error!(%error, "this server is not promoted");
                self.queue.answer(address, Outcome::from(error).into());
                false
            }
        }
    }

    /// Returns true if the queue is closed and either no change waits for its answer or the wait was too long.
    fn may_end(&self) -> bool {
        let Some(since) = self.closing else { return false };
        let is_done = self.waiting.is_empty() && self.sent.is_none() && self.decided.is_empty();
        is_done || since.elapsed() > REPLICA_STOP
    }
}
