//! Steps of a node in a rotation of the cluster's key, as a server performs them, and an attacker with an old key.

use super::Violation;
use super::directory::Effect;
use super::node::{Process, Sent};
use super::world::World;
use crate::follower::{Follower, Rotated};
use crate::key::{ClusterKey, KeyRing};
use crate::member::Role;
use crate::message::{self, GroupHead, put_record};
use crate::operation::{NodeId, OperationId};

/// Time after which a node repeats a request or an announcement.
const AGAIN: u64 = 70_000;
/// Time that the writer waits for nodes without the key.
const PATIENCE: u64 = 150_000;
/// Client id of forged records.
const FORGER: u32 = 0x00f0_4e47;

/// State of a process for rotations of the key.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Whether the process seals its groups.
    pub(super) seals: bool,
    /// Number of the key in force that this node lacks.
    pub(super) needed: Option<u32>,
    /// Key that this node has created. The node gives it to no other node before it has read its own offer back.
    created: Option<(u32, ClusterKey)>,
    /// Ticket of the append of this node's rotation message.
    pub(super) rotation: Option<u64>,
    offered_since: u64,
    /// Time at which the offer was last sent.
    offered_at: Option<u64>,
    announced_at: Option<u64>,
    requested_at: Option<u64>,
    requests: usize,
    count: u32,
}

impl Keys {
    /// Resets the wait times, because the rotation advanced by one step: messages of the new step may be sent at once.
    pub(super) fn settle(&mut self, what: &Rotated) {
        match what {
            Rotated::Offered(_) => {
                (self.offered_since, self.announced_at, self.requested_at) = (u64::MAX, None, None);
            }
            Rotated::InForce(_) => (self.offered_at, self.needed, self.rotation) = (None, None, None),
            Rotated::Stored(_) => {}
        }
    }
}

fn is_due(last: &mut Option<u64>, now: u64) -> bool {
    let is_due = last.is_none_or(|last| now > last + AGAIN);
    if is_due {
        *last = Some(now);
    }
    is_due
}

impl Process {
    pub(super) fn rotate(&mut self, now: u64, sent: &mut Vec<Sent>) {
        self.store_created_key();
        let (is_leading, node) = (matches!(self.member.role(), Role::Leading { .. }), self.member.node());
        if self.keys.offered_since == u64::MAX {
            self.keys.offered_since = now;
        }
        let waited = now.saturating_sub(self.keys.offered_since);
        let follower = self.member.follower();
        let lacks = follower.lacks_offered();
        // If the writer has lacked the offered key for long, it offers a new key: the node that created the offered
        // key may have lost that key in a crash.
        let wants = follower.key_is_due() || (lacks && waited > 3 * PATIENCE);
        if is_leading && wants && is_due(&mut self.keys.offered_at, now) {
            self.offer(sent);
        }
        if self.keys.needed.is_some() || lacks {
            return self.request_key(now, sent);
        }
        let follower = self.member.follower();
        let address = node.0.to_string();
        if let Some(message) = follower.holder_of(node, &address)
            && is_due(&mut self.keys.announced_at, now)
        {
            sent.push(Sent::Append { ticket: u64::MAX, message });
        }
        if (follower.all_have_key() || waited > PATIENCE)
            && let Some(message) = self.member.rotate()
        {
            self.keys.rotation = Some(self.append(message));
        }
    }

    fn offer(&mut self, sent: &mut Vec<Sent>) {
        self.keys.count += 1;
        let node = self.member.node();
        let mut secret = [node.0 as u8; 32];
        secret[..8].copy_from_slice(&self.incarnation.to_be_bytes());
        secret[8] = self.keys.count as u8;
        let key = ClusterKey::new(&secret);
        let fingerprint = key.fingerprint();
        self.keys.created = Some((fingerprint.number(), key));
        let message = self.member.follower().offer_of(node, fingerprint, &node.0.to_string());
        sent.push(Sent::Append { ticket: u64::MAX, message });
    }

    /// Adds the created key to the node's keys once its offer is read back.
    fn store_created_key(&mut self) {
        let offered = self.member.follower().offered().map(|offered| offered.fingerprint.number());
        if let Some((number, key)) = self.keys.created.take_if(|(number, _)| Some(*number) == offered) {
            self.member.set_keys(self.member.follower().keys().clone().with(number, key));
        }
    }

    /// Requests the key from the nodes that offer it or have it, in turn.
    fn request_key(&mut self, now: u64, sent: &mut Vec<Sent>) {
        if !is_due(&mut self.keys.requested_at, now) {
            return;
        }
        let follower = self.member.follower();
        let Some(offered) = follower.offered() else { return };
        let own = self.member.node();
        let holders = follower.key_holders().map(|(node, address)| (node, address.to_owned()));
        let all: Vec<_> = [(offered.node, offered.address.clone())]
            .into_iter()
            .chain(holders)
            .filter(|(node, _)| *node != own)
            .collect();
        self.keys.requests += 1;
        if let Some((node, address)) = all.get(self.keys.requests % all.len().max(1)) {
            assert_eq!(node.0.to_string(), *address);
            sent.push(Sent::KeyRequest { to: node.0, number: offered.fingerprint.number() });
        }
    }

    /// Answers a key request of another node.
    pub(super) fn key_requested(&self, from: u32, number: u32) -> Option<Sent> {
        let follower = self.member.follower();
        let is_given = !follower.has_left(NodeId(from)) && follower.keys().has(number);
        is_given.then(|| Sent::KeyResponse { to: from, keys: follower.keys().clone() })
    }

    /// Receives the keys of another node.
    pub(super) fn keys_received(&mut self, given: &KeyRing) {
        let mut keys = self.member.follower().keys().clone();
        keys.extend(given);
        self.member.set_keys(keys);
        if self.keys.needed.take_if(|number| given.has(*number)).is_some() {
            let next = self.member.follower().next_offset();
            crate::shared_log::SharedLog::read_from(&mut self.log, next);
        }
    }

    /// Judges a group under a key that is not in force. A correct node never writes such a group.
    pub(super) fn other_key(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Violation> {
        self.counted.old_keys += 1;
        // A log that loses messages may lose a rotation, and then groups under the old key are correct.
        match self.may_stop || bytes.windows(4).any(|window| window == FORGER.to_be_bytes()) {
            true => Ok(()),
            false => Err(Violation(format!("{}: a group under an old key at {offset}", self.member.node()))),
        }
    }
}

impl World {
    /// Forges a group: an attacker with all keys except the newest key appends a group that would otherwise be
    /// accepted.
    pub(super) fn forge(&mut self) {
        let mut all = self.keys.clone();
        self.nodes.iter().for_each(|node| all.extend(&node.keys));
        let processes = self.nodes.iter().filter_map(|node| node.process.as_ref());
        processes.for_each(|process| all.extend(process.member.follower().keys()));
        let mut reader = Follower::load(all.clone(), &self.first_rows).expect("the rows of a node");
        let mut last = None;
        for (offset, bytes) in (0..).zip(&self.log) {
            let before = reader.cursor().key;
            reader.step(offset, bytes);
            if reader.cursor().key != before {
                last = Some(before);
            }
        }
        let cursor = *reader.cursor();
        let (Some(key), Some(epoch)) = (last, cursor.epoch) else { return };
        let effect =
            Effect { client: FORGER, number: self.log.len() as u32, key: 1, old: None, new: Some(7) };
        let operation =
            OperationId { node: epoch.node, incarnation: u64::MAX, sequence: effect.number.into() };
        let mut records = Vec::new();
        put_record(&mut records, &operation, &effect.encode());
        let head = GroupHead {
            key,
            generation: cursor.generation,
            epoch: epoch.offset,
            number: cursor.number + 1,
            first_position: cursor.position + 1,
            previous: cursor.previous,
            count: 1,
        };
        let (message, _) = message::encode_group(&all, &head, None, &records).expect("a group");
        self.log.push(message);
    }
}
