//! [`Pending`]: changes that are durable in the redo log but not in the data file yet, and the thread that checkpoints
//! them.
//!
//! ```text
//!   Batch::commit:  redo log, one sync --> a new overlay is published --> answered
//!   checkpointer:   the active layer becomes the frozen one --> data file, in slices --> no frozen layer
//!                   --> redo log trimmed
//! ```
//!
//! A reader takes the [`Published`] state without a lock, and only if a new state was published since the reader last
//! took one. The state is consistent with an older snapshot of the data file if that snapshot contains the transaction
//! [`Published::base_txn`]: the frozen layer covers everything that the checkpoint in progress has written. While there
//! is no frozen layer, the data file is written only by [`write_through`](Pending::write_through), which requires that
//! the overlay is empty.
//!
//! New batches wait while the limit of pending changes is reached. A checkpoint that finds the disk full, or too little
//! memory to begin, is retried; until then pending changes stay readable and durable. Any other failure of a checkpoint
//! stops writes. The [`Observer`] is notified when checkpoints begin to fail, when they succeed again, and when writes
//! stop.
//!
//! Locks: `state` is never held while waiting for the disk.

pub(crate) mod checkpoint;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};

use crate::disk::Room;
use crate::lmdb::{Env, Failure, Txn, TxnKind};
use crate::overlay::{Layer, Overlay};
use crate::redo::{Group, RedoLog};
use crate::{Event, Observer, Options, Result, StoreError, meta};
use checkpoint::Pace;
use system::CooperativeYield;

/// A checkpoint begins when the pending bytes reach their limit divided by this number. In a large checkpoint many
/// changes share a page, so each change costs less.
const CHECKPOINT_PARTS: usize = 4;
/// Maximum delay from the first pending change to the checkpoint.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(2);
/// Interval of checks whether a checkpoint is due and whether checkpointed layers can be dropped.
const LOOK_EVERY: Duration = Duration::from_millis(125);
/// Delay before a failed checkpoint is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum pause between slices of a checkpoint that no thread waits for.
const PAUSE_MAX: Duration = Duration::from_millis(50);

pub(crate) struct Pending {
    env: Arc<Env>,
    room: Room,
    redo: RedoLog,
    map_count: usize,
    /// Pending bytes at which batches wait.
    bytes_max: usize,
    state: Mutex<PendingState>,
    /// Signalled when anything changes that the checkpointer, or a thread that waits for it, depends on.
    changed: Condvar,
    /// State that readers see. It is replaced only while the lock of `state` is held.
    published: ArcSwap<Published>,
    /// Number of the last publication. It is cheaper to read than the published state.
    publication: AtomicU64,
    /// Cause of the failure that stopped writes. Set once.
    stopped: OnceLock<String>,
    observer: Option<Arc<dyn Observer>>,
}

/// Changes that are durable but not in the data file yet, as readers see them.
#[derive(Clone)]
pub(crate) struct Published {
    overlay: Arc<Overlay>,
    /// Number of publications.
    pub(crate) number: u64,
    /// Number of commits with changes, through the redo log or not.
    version: u64,
    /// Number of the engine's transaction that a snapshot must contain to be consistent with the overlay.
    pub(crate) base_txn: u64,
}

impl Published {
    /// Returns the overlay; `None` if nothing is pending.
    pub(crate) fn overlay(&self) -> Option<Arc<Overlay>> {
        (!self.overlay.is_empty()).then(|| Arc::clone(&self.overlay))
    }

    /// Returns the version of the state seen by a view with this overlay and a snapshot of the engine's transaction
    /// `txn_id`. A batch that was written through can be in the snapshot before it is published; the version is then
    /// one higher.
    pub(crate) fn version(&self, txn_id: u64) -> u64 {
        let is_ahead = self.overlay.frozen.is_none() && txn_id > self.base_txn;
        self.version + u64::from(is_ahead)
    }
}

/// State under [`Pending`]'s lock.
pub(crate) struct PendingState {
    /// The overlay, which is also published to readers.
    pub(crate) overlay: Arc<Overlay>,
    /// Sequence number of the last group that is or was in the overlay.
    sequence: u64,
    /// Sequence number of the last group in the frozen layer.
    frozen_sequence: u64,
    /// Sequence number of the last group that is in the data file.
    checkpointed: u64,
    /// Time when the first change of the active layer was published.
    pending_since: Option<Instant>,
    /// The next active layer, created in advance because clearing its filter takes time.
    fresh: Option<Layer>,
    /// Whether a batch is open. The layers do not change until it ends.
    batch_open: bool,
    /// Number of threads that wait for a checkpoint to end.
    waiting: u32,
    /// Whether the checkpointer must end.
    closing: bool,
    /// Failure of the last checkpoint.
    failed: Option<StoreError>,
}

impl PendingState {
    fn is_due(&self, checkpoint_bytes: usize) -> bool {
        let active = &self.overlay.active;
        if active.is_empty() {
            return false;
        }
        let is_old = self.pending_since.is_none_or(|since| since.elapsed() >= CHECKPOINT_AFTER);
        self.waiting > 0 || self.closing || is_old || active.bytes >= checkpoint_bytes
    }
}

impl Pending {
    /// Creates the pending changes. `overlay` contains the redo groups after `checkpointed`, up to the last group.
    pub(crate) fn new(
        env: Arc<Env>,
        room: Room,
        redo: RedoLog,
        map_count: usize,
        options: &Options,
        overlay: Overlay,
        checkpointed: u64,
    ) -> Result<Pending> {
        let overlay = Arc::new(overlay);
        let base_txn = env.facts()?.last_txn_id;
        let published = Published { overlay: Arc::clone(&overlay), number: 1, version: 1, base_txn };
        let state = PendingState {
            overlay,
            sequence: redo.last_sequence(),
            frozen_sequence: checkpointed,
            checkpointed,
            pending_since: None,
            fresh: None,
            batch_open: false,
            waiting: 0,
            closing: false,
            failed: None,
        };
        Ok(Pending {
            env,
            room,
            redo,
            map_count,
            bytes_max: usize::try_from(options.pending_bytes_max).unwrap_or(usize::MAX),
            state: Mutex::new(state),
            changed: Condvar::new(),
            published: ArcSwap::from_pointee(published),
            publication: AtomicU64::new(1),
            stopped: OnceLock::new(),
            observer: options.observer.clone(),
        })
    }

    /// Locks the state. The state changes in single steps, so a panic of another thread leaves it consistent.
    pub(crate) fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, PendingState>) -> MutexGuard<'s, PendingState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for<'s>(
        &self,
        state: MutexGuard<'s, PendingState>,
        limit: Duration,
    ) -> MutexGuard<'s, PendingState> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns a number that changes with each publication.
    #[inline]
    pub(crate) fn publication(&self) -> u64 {
        self.publication.load(Ordering::Acquire)
    }

    /// Returns the newest published state. A view may call this only after it has taken its snapshot of the data file.
    pub(crate) fn published(&self) -> Guard<Arc<Published>> {
        self.published.load()
    }

    /// Publishes a state with this overlay. `change` sets the other fields of the state.
    fn publish(&self, state: &mut PendingState, overlay: Overlay, change: impl FnOnce(&mut Published)) {
        state.overlay = Arc::new(overlay);
        let mut published = Published::clone(&self.published.load());
        published.overlay = Arc::clone(&state.overlay);
        published.number += 1;
        change(&mut published);
        let number = published.number;
        self.published.store(Arc::new(published));
        self.publication.store(number, Ordering::Release);
    }

    /// Returns the number of pending bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().overlay.bytes()
    }

    /// Waits for room and prevents changes of the layers until [`end_batch`](Pending::end_batch).
    pub(crate) fn begin_batch(&self) -> Result<MutexGuard<'_, PendingState>> {
        let mut state = self.lock();
        while state.overlay.bytes() >= self.bytes_max {
            self.check_writes()?;
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = self.wait_for_checkpoint(state);
        }
        state.batch_open = true;
        Ok(state)
    }

    pub(crate) fn end_batch(&self) {
        let mut state = self.lock();
        state.batch_open = false;
        self.begin_checkpoint_if_due(&mut state);
    }

    /// Begins a checkpoint if one is due, none is in progress, and no batch is open.
    fn begin_checkpoint_if_due(&self, state: &mut PendingState) {
        if !state.batch_open
            && state.overlay.frozen.is_none()
            && state.is_due(self.bytes_max / CHECKPOINT_PARTS)
        {
            let frozen = Some(Arc::new(state.overlay.active.clone()));
            let active = state.fresh.take().unwrap_or_else(|| Layer::new(self.map_count));
            self.publish(state, Overlay { active, frozen }, |_| ());
            state.frozen_sequence = state.sequence;
            state.pending_since = None;
            self.changed.notify_all();
        }
    }

    /// Makes the changes of a batch durable and then visible: `group` contains them, and `active` contains them
    /// together with earlier pending changes.
    pub(crate) fn commit(&self, active: &Layer, group: &mut Group) -> Result<()> {
        self.check_writes()?;
        let sequence = self.redo.last_sequence() + 1;
        self.redo.append(sequence, group).map_err(|error| match error {
            StoreError::DiskFull { .. } | StoreError::Exhausted { .. } => error,
            error => self.stop_writes_by(&error),
        })?;
        let mut state = self.lock();
        let frozen = state.overlay.frozen.clone();
        self.publish(&mut state, Overlay { active: active.clone(), frozen }, |published| {
            published.version += 1;
        });
        state.sequence = sequence;
        if state.pending_since.is_none() {
            state.pending_since = Some(Instant::now());
            // Wakes the checkpointer, which then starts its timer.
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Writes a batch without the redo log. The method is used if the batch is too large for the log, or if the disk or
    /// the map is nearly full. Checkpoints all pending changes, then writes the batch as one transaction of the engine,
    /// which fails as a whole if the disk or the map has no room.
    pub(crate) fn write_through(&self, active: &Layer) -> Result<()> {
        self.lock().batch_open = false;
        self.checkpoint_all()?;
        self.check_writes()?;
        checkpoint::write_through(&self.env, active).map_err(|failure| self.write_failed(failure))?;
        self.written_through()
    }

    /// Publishes the engine's last transaction as the base transaction, after it wrote to the data file while nothing
    /// was pending.
    pub(crate) fn written_through(&self) -> Result<()> {
        let base_txn = self.env.facts()?.last_txn_id;
        let mut state = self.lock();
        self.publish(&mut state, Overlay::new(self.map_count), |published| {
            published.version += 1;
            published.base_txn = base_txn;
        });
        Ok(())
    }

    /// Writes to the data file all changes that are pending at the time of the call, and returns when they are written.
    pub(crate) fn checkpoint_all(&self) -> Result<()> {
        let mut state = self.lock();
        let target = state.sequence;
        state.failed = None;
        while state.checkpointed < target {
            self.check_writes()?;
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = self.wait_for_checkpoint(state);
        }
        Ok(())
    }

    /// Begins a checkpoint, unless one is in progress or a batch is open.
    #[cfg(test)]
    pub(crate) fn freeze_now(&self) {
        let mut state = self.lock();
        state.waiting += 1;
        self.begin_checkpoint_if_due(&mut state);
        state.waiting -= 1;
    }

    /// Waits until the checkpointer signals progress. The checkpointer does not pause in the meantime.
    fn wait_for_checkpoint<'s>(
        &'s self,
        mut state: MutexGuard<'s, PendingState>,
    ) -> MutexGuard<'s, PendingState> {
        state.waiting += 1;
        self.begin_checkpoint_if_due(&mut state);
        self.changed.notify_all();
        state = self.wait(state);
        state.waiting -= 1;
        state
    }

    /// Starts the checkpointer's thread.
    pub(crate) fn start(pending: &Arc<Pending>) -> std::io::Result<JoinHandle<()>> {
        let pending = Arc::clone(pending);
        thread::Builder::new().name("store-fold".to_owned()).spawn(move || pending.run())
    }

    /// Makes the thread checkpoint all pending changes and end.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// Returns true if everything is in the data file, so that the redo log is no longer needed. Returns false if
    /// writes are stopped.
    pub(crate) fn is_checkpointed(&self) -> bool {
        let state = self.lock();
        state.overlay.is_empty() && state.checkpointed == state.sequence && !self.writes_stopped()
    }

    /// Removes the redo log once all its groups are checkpointed. The data file is then complete by itself, and
    /// requires no mark.
    pub(crate) fn remove_redo_log(&self) -> Result<()> {
        let failed = |error| self.room.io_error("remove the redo log", &error);
        self.redo.close().map_err(failed)?;
        self.env.write(|txn| meta::put_marked(txn, false))?;
        self.redo.remove_all().map_err(failed)
    }

    fn run(&self) {
        let _guard = StopsIfPanicking(self);
        // Layers that are already in the data file. This thread drops each layer once no view uses the layer. The lock
        // is released meanwhile, because freeing a hundred thousand rows takes milliseconds.
        let mut retired: Vec<Arc<Layer>> = Vec::new();
        let mut has_failed = false;
        let mut state = self.lock();
        while !self.writes_stopped() {
            self.begin_checkpoint_if_due(&mut state);
            let Some(frozen) = state.overlay.frozen.clone() else {
                if state.closing {
                    return;
                }
                let unused: Vec<_> = retired.extract_if(.., |layer| Arc::strong_count(layer) == 1).collect();
                if !unused.is_empty() {
                    drop(state);
                    drop(unused);
                    state = self.lock();
                    continue;
                }
                state = match (state.pending_since, retired.is_empty()) {
                    (None, true) => self.wait(state),
                    _ => self.wait_for(state, LOOK_EVERY),
                };
                continue;
            };
            let checkpointed = state.frozen_sequence;
            drop(state);
            // Views must move to the transaction that wrote the layer. If the engine does not return the number of that
            // transaction, no later layer could be published. So writes stop, and readers still see the layer.
            let outcome = self.checkpoint(&frozen, checkpointed).and_then(|()| {
                let facts = self.env.facts().map_err(|failure| self.stop_writes(failure))?;
                Ok(facts.last_txn_id)
            });
            state = self.lock();
            match outcome {
                Ok(base_txn) => {
                    let active = state.overlay.active.clone();
                    self.publish(&mut state, Overlay { active, frozen: None }, |published| {
                        published.base_txn = base_txn;
                    });
                    state.checkpointed = checkpointed;
                    state.failed = None;
                    retired.push(frozen);
                    self.changed.notify_all();
                    drop(state);
                    if std::mem::take(&mut has_failed) {
                        self.notice(&Event::CheckpointRecovered);
                    }
                    // If one of these operations fails, a segment is not reused yet, and the log stays usable.
                    for outcome in [self.redo.trim(checkpointed), self.redo.prepare_spare()] {
                        self.notice_segment(outcome);
                    }
                    let fresh = Layer::new(self.map_count);
                    state = self.lock();
                    state.fresh = Some(fresh);
                }
                Err(error) => {
                    let is_new = !std::mem::replace(&mut has_failed, true);
                    state.failed = Some(error.clone());
                    self.changed.notify_all();
                    if is_new && !self.writes_stopped() {
                        drop(state);
                        self.notice(&Event::CheckpointFailed { error: &error });
                        state = self.lock();
                    }
                    if state.closing {
                        return;
                    }
                    state = self.wait_for(state, RETRY_AFTER);
                }
            }
        }
    }

    /// Checkpoints a layer. Yields the processor and pauses between slices unless the checkpoint is urgent.
    fn checkpoint(&self, layer: &Layer, checkpointed: u64) -> Result<()> {
        self.env.forget_dead_readers()?;
        let mut pace = Pacing {
            pending: self,
            is_urgent: self.is_urgent(),
            slice_began: Instant::now(),
            cooperative: CooperativeYield::default(),
        };
        checkpoint::checkpoint(&self.env, layer, checkpointed, &mut pace)
            .map_err(|failure| self.write_failed(failure))
    }

    /// Returns true if a checkpoint must run at full speed because a thread waits for it or will soon wait for it.
    fn is_urgent(&self) -> bool {
        let state = self.lock();
        state.waiting > 0 || state.closing || state.overlay.bytes() >= self.bytes_max / 2
    }

    fn notice(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.notice(event);
        }
    }

    /// Reports a failure with a segment to the observer. Does not report a full disk, because the batches that need the
    /// space return that error.
    fn notice_segment(&self, outcome: Result<()>) {
        match outcome {
            Ok(()) | Err(StoreError::DiskFull { .. }) => {}
            Err(error) => self.notice(&Event::SegmentFailed { error: &error }),
        }
    }

    /// Returns the error of a failed write to the data file. Stops writes unless the failure certainly changed nothing.
    ///
    /// A full disk changes nothing, and neither does a lack of memory before the commit. A transaction writes only new
    /// pages, and nothing refers to them until the root is written after the sync. The next transaction writes every
    /// page that it refers to again. So the failed pages do not matter as long as the root was not written. A failure
    /// in writing the root makes the environment unusable, which the next transaction detects.
    pub(crate) fn write_failed(&self, failure: Failure) -> StoreError {
        let is_exhausted = failure.is_before_commit() && failure.is_exhausted();
        let is_usable = match Txn::begin(&self.env, TxnKind::Read) {
            Ok(_) => true,
            Err(error) => error.code == Failure::READERS_FULL || (is_exhausted && error.is_exhausted()),
        };
        match self.room.full(failure) {
            Some(error) if is_usable => error,
            None if is_usable && is_exhausted => failure.exhausted(),
            _ => self.stop_writes(failure),
        }
    }

    /// Returns the error `WritesStopped` if writes are stopped.
    pub(crate) fn check_writes(&self) -> Result<()> {
        match self.stopped.get() {
            Some(cause) => Err(StoreError::WritesStopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn stop_writes(&self, failure: Failure) -> StoreError {
        self.stop_writes_by(&failure.into())
    }

    /// Stops writes, with `error` as the cause. The caller must not hold the lock.
    fn stop_writes_by(&self, error: &StoreError) -> StoreError {
        let mut is_first = false;
        let cause = self.stopped.get_or_init(|| {
            is_first = true;
            match error {
                StoreError::WritesStopped { cause } => cause.clone(),
                error => error.to_string(),
            }
        });
        if is_first {
            self.notice(&Event::WritesStopped { cause });
        }
        // A thread holds the lock from its check whether writes are stopped until it waits. Taking the lock here
        // ensures that the thread receives the notification.
        drop(self.lock());
        self.changed.notify_all();
        StoreError::WritesStopped { cause: cause.clone() }
    }

    pub(crate) fn writes_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Returns the size in bytes above which a group bypasses the redo log.
    pub(crate) fn group_bytes_max(&self) -> usize {
        self.bytes_max / 2
    }

    /// Returns true if a commit of `group_bytes` bytes should be [written through](Pending::write_through), because the
    /// disk or the map has little room left. `has_reserve` is whether the reserve is free, if known.
    pub(crate) fn prefers_write_through(
        &self,
        group_bytes: usize,
        has_reserve: Option<bool>,
    ) -> Result<bool> {
        let engine = self.env.facts()?;
        let room_in_map = engine.map_bytes.saturating_sub(engine.used_bytes);
        let has_reserve = || has_reserve.unwrap_or_else(|| self.room.check_reserve().is_ok());
        Ok(room_in_map < 2 * (self.bytes_max + group_bytes) as u64 || !has_reserve())
    }
}

/// Pace of the checkpointer: at most half of the disk's time, and at most half of a core that other threads need.
struct Pacing<'p> {
    pending: &'p Pending,
    /// Urgency at the last slice.
    is_urgent: bool,
    slice_began: Instant,
    cooperative: CooperativeYield,
}

impl Pace for Pacing<'_> {
    fn maybe_yield(&mut self) {
        if !self.is_urgent {
            self.cooperative.maybe_yield();
        }
    }

    fn rest(&mut self) {
        self.is_urgent = self.pending.is_urgent();
        if !self.is_urgent {
            thread::sleep(self.slice_began.elapsed().min(PAUSE_MAX));
        }
        self.slice_began = Instant::now();
    }
}

/// Stops writes if the checkpointer panics; otherwise batches would wait for ever.
struct StopsIfPanicking<'p>(&'p Pending);

impl Drop for StopsIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let cause = "a defect was met while checkpointing".to_owned();
            self.0.stop_writes_by(&StoreError::WritesStopped { cause });
        }
    }
}
