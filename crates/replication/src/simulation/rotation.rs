//! What a node does about the cluster's key, as a server does, and somebody who has an old one.

use super::Violation;
use super::directory::Effect;
use super::node::{Process, Sent};
use super::world::World;
use crate::follower::{Follower, Rotated};
use crate::key::{ClusterKey, KeyRing};
use crate::member::Role;
use crate::message::{self, GroupHead, put_record};
use crate::operation::{NodeId, OperationId};

/// After how long a node asks or says something again.
const AGAIN: u64 = 70_000;
/// How long the writer waits for nodes that do not have the key.
const PATIENCE: u64 = 150_000;
/// The client of records that somebody forges.
const FORGER: u32 = 0x00f0_4e47;

/// A process's part in changes of the key.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Whether its groups are sealed.
    pub(super) seals: bool,
    /// A rotation to this key was read, and it is not here.
    pub(super) needed: Option<u32>,
    /// The key that this node has made, until its offer is read back: nobody is given it before.
    made: Option<(u32, ClusterKey)>,
    /// The ticket of its rotation.
    pub(super) rotation: Option<u64>,
    offered_since: u64,
    /// When what is to be said, or asked, was last.
    offered_at: Option<u64>,
    said_at: Option<u64>,
    asked_at: Option<u64>,
    asked: usize,
    count: u32,
}

impl Keys {
    /// Something is new: what was said of what was before need not wait.
    pub(super) fn settle(&mut self, what: &Rotated) {
        match what {
            Rotated::Offered(_) => {
                (self.offered_since, self.said_at, self.asked_at) = (u64::MAX, None, None);
            }
            Rotated::InForce(_) => (self.offered_at, self.needed, self.rotation) = (None, None, None),
            Rotated::Held(_) => {}
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
        self.keep_made();
        let (is_leading, node) = (matches!(self.member.role(), Role::Leading { .. }), self.member.node());
        if self.keys.offered_since == u64::MAX {
            self.keys.offered_since = now;
        }
        let waited = now.saturating_sub(self.keys.offered_since);
        let follower = self.member.follower();
        let lacks = follower.lacks_offered();
        // Whoever made it may have died with it.
        let wants = follower.key_is_due() || (lacks && waited > 3 * PATIENCE);
        if is_leading && wants && is_due(&mut self.keys.offered_at, now) {
            self.offer(sent);
        }
        if self.keys.needed.is_some() || lacks {
            return self.ask_for_key(now, sent);
        }
        let follower = self.member.follower();
        let address = node.0.to_string();
        if let Some(message) = follower.holder_of(node, &address)
            && is_due(&mut self.keys.said_at, now)
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
        self.keys.made = Some((fingerprint.number(), key));
        let message = self.member.follower().offer_of(node, fingerprint, &node.0.to_string());
        sent.push(Sent::Append { ticket: u64::MAX, message });
    }

    /// The own key is one like others once its offer is read back.
    fn keep_made(&mut self) {
        let offered = self.member.follower().offered().map(|offered| offered.fingerprint.number());
        if let Some((number, key)) = self.keys.made.take_if(|(number, _)| Some(*number) == offered) {
            self.member.set_keys(self.member.follower().keys().clone().with(number, key));
        }
    }

    /// Asks whoever offers the key or has it, in turn.
    fn ask_for_key(&mut self, now: u64, sent: &mut Vec<Sent>) {
        if !is_due(&mut self.keys.asked_at, now) {
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
        self.keys.asked += 1;
        if let Some((node, address)) = all.get(self.keys.asked % all.len().max(1)) {
            assert_eq!(node.0.to_string(), *address);
            sent.push(Sent::KeyAsked { to: node.0, number: offered.fingerprint.number() });
        }
    }

    /// Another node asks for a key.
    pub(super) fn key_asked(&self, from: u32, number: u32) -> Option<Sent> {
        let follower = self.member.follower();
        let is_given = !follower.is_gone(NodeId(from)) && follower.keys().has(number);
        is_given.then(|| Sent::KeysGiven { to: from, keys: follower.keys().clone() })
    }

    /// Another node gives its keys.
    pub(super) fn keys_given(&mut self, given: &KeyRing) {
        let mut keys = self.member.follower().keys().clone();
        keys.extend(given);
        self.member.set_keys(keys);
        if self.keys.needed.take_if(|number| given.has(*number)).is_some() {
            let next = self.member.follower().next_offset();
            crate::shared_log::SharedLog::read_from(&mut self.log, next);
        }
    }

    /// A group under a key that is not in force. None of a right node ever looks so.
    pub(super) fn other_key(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Violation> {
        self.counted.old_keys += 1;
        // A log that loses messages may lose a rotation.
        match self.may_stop || bytes.windows(4).any(|window| window == FORGER.to_be_bytes()) {
            true => Ok(()),
            false => Err(Violation(format!("{}: a group under an old key at {offset}", self.member.node()))),
        }
    }
}

impl World {
    /// Somebody who had all keys but the last appends a group that would fit.
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
