//! Whether this node's data is that of the others: at marks of the log each node sums up what it has, by part, and
//! tells the log.
//!
//! A mark stands between two messages, so all nodes have the same there if they have ever had. The rows themselves are
//! read, on a thread of their own: a change costs nothing for it, and what a disk has lost or altered is found too.

use std::collections::BTreeMap;
use std::time::Instant;

use directory::{Snapshot, digest};
use replication::Role;
use replication::digest::{Comparison, Divergence, Parts, RollingDigest};

use super::{Node, NodeEvent};
use crate::limits::CLUSTER_DIGEST_PATIENCE;

/// What a node knows of comparisons.
#[derive(Default)]
pub(super) struct Digests {
    comparison: Comparison,
    /// Marks of which nothing is said yet, and since when they are known.
    open: BTreeMap<u64, Instant>,
    is_summing: bool,
    /// What was there at the newest mark that came meanwhile.
    waiting: Option<(u64, Snapshot)>,
    /// When this node last set a mark, or read one.
    marked: Option<Instant>,
    /// What was found last, and at which mark.
    found: Option<(u64, Divergence)>,
    /// Where nodes differ and no majority agrees: changes are refused.
    pub(super) disputed: Option<String>,
    /// Where this node differs from a majority: it serves no longer.
    pub(super) diverged: Option<String>,
}

impl Node {
    /// Sets a mark: at the start, once it has read all of the log, and as the writer from time to time.
    pub(super) fn mark_if_due(&mut self) {
        let interval = self.parts.digest_interval;
        let (Some(member), Some(clients), Some(interval)) = (&self.member, &self.clients, interval) else {
            return;
        };
        let is_due = match self.digests.marked {
            None => self.parts.figures.lock().lag_messages() == 0 && self.told.is_known(),
            Some(last) => matches!(member.role(), Role::Leading { .. }) && last.elapsed() >= interval,
        };
        if is_due && self.stopped.is_none() {
            self.digests.marked = Some(Instant::now());
            self.tickets += 1;
            clients.appender.append(self.tickets, b"", &member.follower().mark_of(self.ids.node));
        }
    }

    /// Sums up what this node has at a mark, after what it is busy with. Everything before the mark is committed,
    /// and nothing behind it.
    pub(super) fn sum_up(&mut self, mark: u64) {
        let now = Instant::now();
        self.digests.marked = Some(now);
        self.digests.comparison.begin(mark);
        self.digests.open.insert(mark, now);
        match self.parts.directory.snapshot() {
            Ok(snapshot) if self.digests.is_summing => self.digests.waiting = Some((mark, snapshot)),
            Ok(snapshot) => self.sum_up_in_background(mark, snapshot),
            Err(error) => tracing::warn!(%error, "the data is not compared with that of other nodes"),
        }
    }

    fn sum_up_in_background(&mut self, mark: u64, snapshot: Snapshot) {
        let sender = self.parts.sender.clone();
        let sum = move || {
            let _ = sender.send(NodeEvent::Digested(mark, digests(&snapshot)));
        };
        match std::thread::Builder::new().name("pando-digest".to_owned()).spawn(sum) {
            Ok(_) => self.digests.is_summing = true,
            Err(error) => tracing::warn!(%error, "the data is not compared with that of other nodes"),
        }
    }

    /// What this node has at a mark.
    pub(super) fn digested(&mut self, mark: u64, summed: Result<Parts, String>) {
        self.digests.is_summing = false;
        if let Some((next, snapshot)) = self.digests.waiting.take() {
            self.sum_up_in_background(next, snapshot);
        }
        let (Some(member), Some(clients)) = (&self.member, &self.clients) else { return };
        match summed {
            Ok(parts) => {
                self.tickets += 1;
                let message = member.follower().digests_of(self.ids.node, mark, &parts);
                clients.appender.append(self.tickets, b"", &message);
                self.parts.figures.lock().digest = Some((mark, sum_of(&parts)));
            }
            Err(error) => tracing::error!(%error, "the data cannot be compared with that of other nodes"),
        }
    }

    /// What a node has at a mark.
    pub(super) fn take_digests(&mut self, node: replication::NodeId, mark: u64, parts: Parts) {
        self.digests.comparison.tell(node, mark, parts);
        self.compare(mark, false);
    }

    /// Says what there is to say of marks that no more is to come of.
    pub(super) fn compare_late(&mut self) {
        let late = |since: &Instant| since.elapsed() > CLUSTER_DIGEST_PATIENCE;
        while let Some((&mark, _)) = self.digests.open.first_key_value().filter(|(_, since)| late(since)) {
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
                self.digests.disputed = Some(text);
            }
            true if found.is_empty() && self.digests.disputed.take().is_some() => {
                tracing::warn!(mark, "all nodes have the same data again: changes are made");
            }
            true => tracing::info!(mark, "the data of nodes is compared: {} differ", found.wrong.len()),
        }
    }
}

/// Sums of the rows of a snapshot, by part.
fn digests(snapshot: &Snapshot) -> Result<Parts, String> {
    let mut parts = Parts::new();
    // Most rows are of the part of the row before.
    let mut last: (String, RollingDigest) = Default::default();
    let mut add = |part: &str, key: &[u8], value: &[u8]| {
        if last.0 != part {
            let next = parts.remove(part).unwrap_or_default();
            let (name, digest) = std::mem::replace(&mut last, (part.to_owned(), next));
            parts.insert(name, digest);
        }
        last.1.add(key, value);
    };
    digest::each_row(snapshot, &mut add).map_err(|error| error.to_string())?;
    parts.insert(last.0, last.1);
    parts.remove("");
    Ok(parts)
}

/// All parts in one: for people who compare nodes.
fn sum_of(parts: &Parts) -> String {
    let mut all = RollingDigest::default();
    parts.iter().for_each(|(name, digest)| all.add(name.as_bytes(), &digest.to_bytes()));
    all.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
