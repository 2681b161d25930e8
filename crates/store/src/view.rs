//! [`View`]: a long-lived reader that moves to the newest durable state on request.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::lmdb::{Failure, Txn, TxnKind};
use crate::meta::RedoFacts;
use crate::pending::Pending;
use crate::redo::RedoLog;
use crate::shared::{DataWriter, Shared};
use crate::{Read, Result};

/// A [`Read`] at one durable position. Each reading thread has its own view. A view may move to another thread.
///
/// Renew a view once per pass of an event loop, never per request. Renewing costs next to nothing while nothing has
/// changed. The pages of a view's position cannot be reused, so an idle view makes the file grow during writes: call
/// [`park`](View::park) before an unbounded wait.
///
/// After a failed commit views continue at the last durable position; see [`Writer`](crate::Writer).
pub struct View {
    read: Read,
    shared: Arc<Shared>,
    /// Number of the visible publication.
    publication: u64,
    version: u64,
    /// If another process writes: the engine's number of the transaction that is read, and the last redo group.
    seen: (u64, u64),
    /// Memory that the row cache may use.
    cache_bytes_max: Option<usize>,
}

impl View {
    pub(crate) fn begin(shared: &Arc<Shared>) -> Result<View> {
        let mut txn = begin(shared)?;
        // `renew` below moves the transaction and the pending changes to the newest state together.
        txn.reset();
        let mut read = Read::new(txn, shared.maps);
        read.parked = true;
        let shared = Arc::clone(shared);
        let mut view = View { read, shared, publication: 0, version: 0, seen: (0, 0), cache_bytes_max: None };
        view.renew()?;
        Ok(view)
    }

    /// Caches rows in up to `bytes_max` bytes of memory, which are allocated as needed: the ids of keys with a single
    /// id, 64 bytes each, and the locations of rows with numeric keys, 16 bytes each. Reading a cached row costs a
    /// fraction of a look-up. A checkpoint evicts the rows that it changed, and the rows that shared their pages. Call
    /// this method for a view that answers many requests.
    pub fn cache_rows(&mut self, bytes_max: usize) {
        self.cache_bytes_max = Some(bytes_max);
        self.read.txn.cache_rows(bytes_max);
    }

    /// Moves to the newest durable position. Also wakes a parked view.
    ///
    /// # Errors
    /// `Engine`; `DamagedRedo` if another process writes the store. After an error the view is parked.
    #[inline]
    pub fn renew(&mut self) -> Result<()> {
        if let DataWriter::Us(pending, _) = &self.shared.written_by
            && !self.read.parked
            && self.publication == pending.publication()
        {
            return Ok(());
        }
        self.move_on()
    }

    fn move_on(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        match &shared.written_by {
            DataWriter::Us(pending, _) => self.follow(pending),
            DataWriter::Others(directory) => self.read_redo_log(directory),
        }
    }

    /// Takes the published state, and a consistent snapshot that is older than the state but contains all checkpointed
    /// changes.
    fn follow(&mut self, pending: &Pending) -> Result<()> {
        loop {
            let published = pending.published();
            // Keep the present snapshot if the state is consistent with it. A newer snapshot would show no further
            // changes, and the root of every map would have to be looked up again.
            if !self.read.parked && self.read.txn.id() >= published.base_txn {
                self.read.overlay = published.overlay();
                self.publication = published.number;
                self.version = published.version(self.read.txn.id());
                return Ok(());
            }
            drop(published);
            self.move_snapshot()?;
            // Ensures that the next publication is read after the root of the data file, even on processors that
            // reorder reads.
            fence(Ordering::SeqCst);
        }
    }

    /// Takes a new snapshot of the data file, and the redo groups that it does not contain.
    ///
    /// The two are consistent if the data file's facts about the log did not change while they were read. If the log
    /// was trimmed in between, the snapshot and the log may both lack some groups. If a batch was written through in
    /// between, later groups in the log depend on that batch, but the snapshot may not contain it.
    fn read_redo_log(&mut self, directory: &Path) -> Result<()> {
        loop {
            self.move_snapshot()?;
            let facts = RedoFacts::read(&self.read.txn)?;
            let replayed = self.replay(directory, &facts);
            let now = begin(&self.shared).and_then(|txn| RedoFacts::read(&txn));
            match (replayed, now) {
                (_, Ok(now)) if now != facts => {}
                (Ok(last), Ok(_)) => {
                    let now = (self.read.txn.id(), last);
                    self.version += u64::from(now != self.seen);
                    self.seen = now;
                    return Ok(());
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.park();
                    return Err(error);
                }
            }
        }
    }

    /// Builds an overlay of the groups that are not in the data file. Returns the number of the last group.
    fn replay(&mut self, directory: &Path, facts: &RedoFacts) -> Result<u64> {
        let mut replay = RedoLog::read(directory, &self.shared.room, &facts.owner)?;
        facts.replay(&mut self.read, &mut replay)?;
        Ok(facts.owner.checkpointed + replay.group_count() as u64)
    }

    /// Moves to the newest state of the data file.
    fn move_snapshot(&mut self) -> Result<()> {
        self.park();
        match self.read.txn.renew() {
            Ok(()) => {}
            Err(failure) if failure.code == Failure::PANIC => {
                self.read.txn = begin(&self.shared)?;
                if let Some(bytes_max) = self.cache_bytes_max {
                    self.read.txn.cache_rows(bytes_max);
                }
            }
            Err(failure) => return Err(failure.into()),
        }
        self.read.parked = false;
        Ok(())
    }

    /// Returns a number that changes if and only if the visible state does. Costs nothing, unlike
    /// [`position`](Read::position).
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Releases the position, so that its pages can be reused. Reads fail with `Parked` until [`renew`](View::renew).
    pub fn park(&mut self) {
        self.read.txn.reset();
        self.read.parked = true;
        self.read.overlay = None;
    }
}

/// Begins a reading transaction of the environment, or of the frozen environment that replaces it after a permanent
/// failure.
fn begin(shared: &Shared) -> Result<Txn> {
    match Txn::begin(&shared.env, TxnKind::Read) {
        Err(failure) if failure.code == Failure::PANIC => {
            Ok(Txn::begin(&shared.frozen_env()?, TxnKind::Read)?)
        }
        outcome => Ok(outcome?),
    }
}

impl Deref for View {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.read
    }
}
