//! Rounds of comparisons while no faults occur, and their results.

use super::{Event, NodeId, QUIET, World};
use crate::message::Announcement;
use crate::simulation::Violation;
use crate::simulation::node::{Node, part_of};

/// Interval between barriers, time of the last barrier, and time of the alteration.
const MARK_INTERVAL: u64 = 60_000;
const LAST_MARK: u64 = QUIET - 300_000;
const PLANTED_AT: u64 = 5_000_000;

/// Detection of an altered value.
pub(in crate::simulation) struct PlantedAlteration {
    pub(in crate::simulation) found: String,
    pub(in crate::simulation) expected: String,
    /// Number of rounds that ended between the alteration and its detection.
    pub(in crate::simulation) rounds: u64,
    /// Whether the altered row was the first row.
    pub(in crate::simulation) is_first_slice: bool,
}

impl World {
    /// Alters a value on one node after the faults have ended. Returns what the nodes find, and the number of rounds
    /// until then. Returns `None` if the node is not running or has no value.
    pub(in crate::simulation) fn plant(mut self) -> Result<Option<PlantedAlteration>, Violation> {
        while self.now < PLANTED_AT {
            self.step()?;
        }
        let at = self.rng.usize(..self.nodes.len());
        let node_count = self.nodes.len();
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            process.waits_for_all = true;
        }
        let Node { disk, process: Some(process), .. } = &mut self.nodes[at] else { return Ok(None) };
        let before = process.member.follower().round().clone();
        let keys: Vec<u32> = process.values.keys().copied().collect();
        let Some(&key) = keys.get(self.rng.usize(..keys.len().max(1))) else { return Ok(None) };
        for values in [&mut process.values, &mut disk.values] {
            values.entry(key).and_modify(|value| *value += 1_000);
        }
        let found = loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => {
                    return Err(Violation(format!("key {key} of node {at} is altered, and not found")));
                }
                Err(Violation(text)) => break text,
            }
        };
        let ended =
            self.nodes[at].process.as_ref().map_or(0, |process| process.member.follower().round().ended);
        let expected = match node_count {
            2 => format!("finds Divergence {{ wrong: {{}}, disputed: {{{:?}}} }}", part_of(key)),
            _ => format!(
                "finds Divergence {{ wrong: {{NodeId({at}): {{{:?}}}}}, disputed: {{}} }}",
                part_of(key)
            ),
        };
        let is_first_slice = keys.first() == Some(&key);
        Ok(Some(PlantedAlteration { found, expected, rounds: ended - before.ended, is_first_slice }))
    }

    /// Announces all nodes, so that comparisons include their data. Then a random node sets the barrier for the next
    /// slice.
    pub(super) fn mark_in_peace(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.register(node));
        let node = self.rng.usize(..self.nodes.len());
        if let Some(process) = &self.nodes[node].process
            && let Some(message) = process.mark(self.now)
        {
            let incarnation = process.incarnation;
            self.send_once(false, Event::Append { node, incarnation, ticket: u64::MAX, message });
        }
        if self.now < LAST_MARK {
            self.schedule(MARK_INTERVAL, Event::Mark);
        }
    }

    /// Sends the announcements of the node unless it is registered. Repeats announcements that were sent under a key
    /// that is no longer in force.
    fn register(&mut self, node: usize) {
        let Some(process) = &self.nodes[node].process else { return };
        let (follower, incarnation) = (process.member.follower(), process.incarnation);
        let own = NodeId(node as u32);
        if follower.registered().contains(&own) {
            return;
        }
        let message = follower.announcement_of(own, Announcement::Durable(follower.cursor().offset));
        self.send_once(false, Event::Append { node, incarnation, ticket: u64::MAX, message });
    }
}
