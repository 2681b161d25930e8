//! Comparison of this node's data with the data of the other nodes. At digest barriers of the log each node computes
//! digests of a slice of its data, by part, and announces them.
//!
//! A barrier lies between two messages, so correct nodes have equal data there. A separate thread computes the digests,
//! so changes are not slowed down. The thread reads the stored rows, so it detects rows that the disk lost or
//! corrupted.
//!
//! A barrier names a slice of the rows. The node that sets the barrier plans the slice first: it reads its own rows
//! from the end of the last slice until their total size reaches the maximum size of a slice. So a barrier costs every
//! node a bounded amount of work, however large the data is. The thread has the lowest priority and reads no faster
//! than [`DIGEST_BYTES_PER_SECOND`](forwarding::row_digests::DIGEST_BYTES_PER_SECOND).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use data_encoding::HEXLOWER;
use directory::Snapshot;
use forwarding::row_digests::{digests, plan};
use replication::digest::{Comparison, Divergence, Parts, RollingDigest};
use replication::limits::COMPARISONS_KEPT;
use replication::{PlannedSlice, Role, Slice};
use system::lower_priority;

use super::Node;
use crate::environment::Runtime;
use crate::event::NodeEvent;
use crate::limits::{BACKGROUND_NICENESS, DIGEST_PATIENCE};

/// Maximum number of disputed slices that are stored.
const DISPUTES_MAX: usize = 16;

/// State of comparisons with other nodes.
#[derive(Default)]
pub(crate) struct Digests {
    comparison: Comparison,
    /// Barriers for which reports are missing, with the times at which this node read the barriers.
    open: BTreeMap<u64, Instant>,
    /// Slices of the last digest barriers. Their number is limited to the number of stored comparisons.
    slices: BTreeMap<u64, Slice>,
    is_summing: bool,
    /// Newest digest barrier that was read during the computation of the digests of an earlier barrier. The slice and
    /// the snapshot are those of the newest barrier.
    waiting: Option<(u64, Slice, Snapshot)>,
    is_planning: bool,
    /// Dropping this value ends the threads that read rows.
    alive: Arc<()>,
    /// Time at which this node last set or read a digest barrier.
    marked: Option<Instant>,
    /// Result of the last comparison, and the offset of its digest barrier.
    found: Option<(u64, Divergence)>,
    /// Slices in which nodes differ and no majority agrees, each with a description of the difference. While there is
    /// such a slice, changes are refused.
    disputed: VecDeque<(Slice, String)>,
    /// Description of this node's difference from a majority. The node stops serving.
    pub(super) diverged: Option<String>,
}

impl Node {
    /// Sets a barrier if one is due. A node sets its first barrier when it has read the whole log. After that, the
    /// writer sets a barrier at each interval, unless it still waits for reports on an earlier barrier.
    pub(super) fn set_barrier_if_due(&mut self) {
        let interval = self.parts.digest_interval;
        let member = self.member.as_ref().filter(|_| self.parts.log.is_open());
        let (Some(member), Some(interval)) = (member, interval) else { return };
        let is_due = match self.digests.marked {
            None => self.parts.figures.lock().lag_messages() == 0 && self.announced.is_known(),
            Some(last) => {
                let is_writer = matches!(member.role(), Role::Leading { .. });
                is_writer && self.elapsed(last) >= interval && self.digests.open.is_empty()
            }
        };
        if !is_due || self.digests.is_planning || self.stopped.is_some() {
            return;
        }
        self.digests.marked = Some(self.now());
        if !member.follower().compares_slices() {
            return self.slice_planned(Ok(PlannedSlice::default()));
        }
        let (from, bytes_max) = (member.follower().round().next.clone(), self.parts.digest_bytes_max);
        let planning = self.parts.directory.snapshot().map_err(|error| error.to_string());
        let planning = planning.and_then(|snapshot| {
            let (sender, alive) = (self.parts.runtime.sender(), Arc::downgrade(&self.digests.alive));
            in_background(&mut *self.parts.runtime, move || {
                let _ = sender.send(NodeEvent::SlicePlanned(plan(&snapshot, from, bytes_max, alive)));
            })
        });
        match planning {
            Ok(()) => self.digests.is_planning = true,
            Err(error) => tracing::warn!("the data is not compared with that of other nodes: {error}"),
        }
    }

    /// Sets the barrier for a planned slice, unless another node has set a barrier in the meantime.
    pub(super) fn slice_planned(&mut self, planned: Result<PlannedSlice, String>) {
        self.digests.is_planning = false;
        let Some(member) = self.member.as_ref().filter(|_| self.parts.log.is_open()) else { return };
        match planned {
            Ok(planned) => {
                let now = self.now_seconds();
                if let Some(message) = member.follower().mark_of(self.ids.node, planned, now) {
                    self.append(&message);
                }
            }
            Err(error) => tracing::error!("the data cannot be compared with that of other nodes: {error}"),
        }
    }

    /// Computes this node's digests at a barrier. If a computation is in progress, the new computation follows it. The
    /// data contains all messages before the barrier and none after it.
    pub(super) fn sum_up(&mut self, mark: u64, slice: Slice) {
        let now = self.now();
        self.digests.marked = Some(now);
        self.digests.comparison.begin(mark);
        self.digests.open.insert(mark, now);
        self.digests.slices.insert(mark, slice.clone());
        while self.digests.slices.len() > COMPARISONS_KEPT {
            self.digests.slices.pop_first();
        }
        match self.parts.directory.snapshot() {
            Ok(snapshot) if self.digests.is_summing => self.digests.waiting = Some((mark, slice, snapshot)),
            Ok(snapshot) => self.sum_up_in_background(mark, slice, snapshot),
            Err(error) => tracing::warn!(%error, "the data is not compared with that of other nodes"),
        }
    }

    fn sum_up_in_background(&mut self, mark: u64, slice: Slice, snapshot: Snapshot) {
        let (sender, alive) = (self.parts.runtime.sender(), Arc::downgrade(&self.digests.alive));
        let summing = in_background(&mut *self.parts.runtime, move || {
            let _ = sender.send(NodeEvent::Digested(mark, digests(&snapshot, &slice, alive)));
        });
        match summing {
            Ok(()) => self.digests.is_summing = true,
            Err(error) => tracing::warn!("the data is not compared with that of other nodes: {error}"),
        }
    }

    /// Announces this node's digests at a digest barrier. First starts the computation for the next barrier, if one was
    /// read in the meantime.
    pub(super) fn digested(&mut self, mark: u64, summed: Result<Parts, String>) {
        self.digests.is_summing = false;
        if let Some((next, slice, snapshot)) = self.digests.waiting.take() {
            self.sum_up_in_background(next, slice, snapshot);
        }
        let Some(member) = self.member.as_ref().filter(|_| self.parts.log.is_open()) else { return };
        match summed {
            Ok(parts) => {
                let message = member.follower().digests_of(self.ids.node, mark, &parts);
                self.append(&message);
                self.parts.figures.lock().digest = Some((mark, sum_of(&parts)));
            }
            Err(error) => tracing::error!(%error, "the data cannot be compared with that of other nodes"),
        }
    }

    /// Receives the digests of a node at a digest barrier.
    pub(super) fn take_digests(&mut self, node: replication::NodeId, mark: u64, parts: Parts) {
        self.digests.comparison.report(node, mark, parts);
        self.compare(mark, false);
        let registered =
            self.member.as_ref().map(|member| member.follower().registered()).unwrap_or_default();
        if self.digests.comparison.is_complete(mark, &registered) {
            self.digests.open.remove(&mark);
        }
    }

    /// Compares the digests of barriers whose time limit for missing reports has passed.
    pub(super) fn compare_late(&mut self) {
        let now = self.now();
        let is_late = |since: &Instant| now.saturating_duration_since(*since) > DIGEST_PATIENCE;
        while let Some((&mark, _)) = self.digests.open.first_key_value().filter(|(_, since)| is_late(since)) {
            self.compare(mark, true);
            self.digests.open.remove(&mark);
        }
    }

    fn compare(&mut self, mark: u64, is_over: bool) {
        let Some(member) = &self.member else { return };
        let registered = member.follower().registered();
        let Some(found) = self.digests.comparison.found(mark, &registered, is_over) else { return };
        let is_known = self.digests.found.as_ref().is_some_and(|known| *known == (mark, found.clone()));
        if is_known {
            return;
        }
        self.say_found(mark, &found);
        self.digests.found = Some((mark, found));
    }

    /// Records that nodes differ in the slice of a barrier and no majority agrees.
    fn dispute(&mut self, mark: u64, text: String) {
        let Some(slice) = self.digests.slices.get(&mark).cloned() else { return };
        let disputed = &mut self.digests.disputed;
        disputed.retain(|(of, _)| !slice.covers(of));
        // One disputed slice is enough to refuse changes. The next round finds the dropped slices again.
        disputed.truncate(DISPUTES_MAX - 1);
        disputed.push_back((slice, text));
    }

    /// Handles a digest barrier at which no nodes differ: ends the disputes about all slices that the slice of the
    /// barrier covers. If another slice is still disputed, starts another comparison of that slice.
    fn settle(&mut self, mark: u64) {
        let Some(slice) = self.digests.slices.get(&mark).cloned() else { return };
        self.digests.disputed.retain(|(of, _)| !slice.covers(of));
        let Some((disputed, _)) = self.digests.disputed.front() else {
            tracing::warn!(mark, "all nodes have the same data again: changes are made");
            return;
        };
        let Some(member) = self.member.as_ref().filter(|_| self.parts.log.is_open()) else { return };
        let now = self.now_seconds();
        let message = member.follower().mark_again_of(self.ids.node, disputed.clone(), now);
        self.append(&message);
    }

    fn say_found(&mut self, mark: u64, found: &Divergence) {
        for (node, parts) in &found.wrong {
            let parts = parts.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
            self.parts.figures.lock().alarms += 1;
            if *node != self.ids.node {
                tracing::error!(
                    mark,
                    "{node} has other data than most: it stops serving. It differs in: {parts}"
                );
                continue;
            }
            let text = format!(
                "the data of this node is not that of the cluster, in: {parts}. It must not be served: copy another \
                 node's with `pando cluster reseed`"
            );
            tracing::error!(mark, "{text}");
            self.stop(&text);
            self.digests.diverged = Some(text);
        }
        match found.disputed.is_empty() {
            false => {
                let parts = found.disputed.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
                let text = format!(
                    "nodes of the cluster have different data, and no majority says which is right, in: {parts}"
                );
                self.parts.figures.lock().alarms += 1;
                tracing::error!(mark, "{text}; changes are refused until a comparison finds nothing");
                self.dispute(mark, text);
            }
            true if found.is_empty() && !self.digests.disputed.is_empty() => self.settle(mark),
            true => tracing::info!(mark, "the data of nodes is compared: {} differ", found.wrong.len()),
        }
    }
}

impl Digests {
    /// Returns the reason why changes are refused; `None` if no slice is disputed.
    pub(super) fn dispute(&self) -> Option<&String> {
        self.disputed.front().map(|(_, text)| text)
    }
}

fn in_background(runtime: &mut dyn Runtime, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let work = move || {
        lower_priority(BACKGROUND_NICENESS, "comparing data with other nodes has no low priority");
        work();
    };
    runtime.spawn("pando-digest", Box::new(work)).map_err(|error| error.to_string())
}

/// Returns one digest of all parts, for administrators who compare nodes.
fn sum_of(parts: &Parts) -> String {
    let mut all = RollingDigest::default();
    parts.iter().for_each(|(name, digest)| all.add(name.as_bytes(), &digest.to_bytes()));
    HEXLOWER.encode(&all.to_bytes())
}
