//! Check of the clients' answers and the nodes' data against the log.
//!
//! The check reads the log with a second, simple implementation of the protocol's rules.

use std::collections::{BTreeMap, HashSet};

use super::client::{Response, ResponseRecord};
use super::directory::{Action, Effect, Values, put};
use super::node::Process;
use super::world::{History, World};
use super::{Defect, Violation};
use crate::message::{Announcement, Body, Member, Message, MessageError};
use crate::operation::NodeId;

/// Result of a run.
pub(super) struct Checked {
    pub(super) records: u64,
    pub(super) epochs: u64,
}

pub(super) fn check(world: &World) -> Result<Checked, Violation> {
    let model = Model::read(world)?;
    for node in &world.nodes {
        let process = node.process.as_ref().ok_or_else(|| Violation("a node is down in peace".to_owned()))?;
        let follower = process.member.follower();
        if follower.next_offset() != world.log.len() as u64 {
            return violation(format!(
                "node {} read up to {}, the log has {}",
                node.id,
                follower.next_offset(),
                world.log.len()
            ));
        }
        if follower.position() != model.effects.len() as u64 || process.values != model.values {
            return violation(format!(
                "node {} has {:?} at {}, the log says {:?} at {}",
                node.id,
                process.values,
                follower.position(),
                model.values,
                model.effects.len()
            ));
        }
        if node.disk.values != model.values {
            return violation(format!("the disk of node {} has {:?}", node.id, node.disk.values));
        }
    }
    // All disks have the same rows, including operation ids. The exception is a run with the defect that loses these
    // ids: other checks must find the harm that it causes.
    if world.defect != Some(Defect::WindowLostInSnapshot)
        && let Some(pair) = world.nodes.windows(2).find(|pair| pair[0].disk.rows != pair[1].disk.rows)
    {
        return violation(format!("nodes {} and {} have different rows", pair[0].id, pair[1].id));
    }
    let facts = || world.clients.iter().flat_map(|client| &client.facts);
    facts().try_for_each(|fact| model.check(fact))?;
    // Liveness: without faults, clients receive answers.
    if let Some(client) = world.clients.iter().find(|client| client.outstanding.is_some()) {
        let nodes: Vec<String> =
            world.nodes.iter().filter_map(|node| Some(node.process.as_ref()?.to_string())).collect();
        return violation(format!(
            "client {} waits in peace for {:?}; {nodes:?}",
            client.id, client.outstanding
        ));
    }
    Ok(Checked { records: model.effects.len() as u64, epochs: model.epochs })
}

/// Checks a run whose log lost messages: all nodes that have read the whole log without noticing the loss have the
/// same data.
pub(super) fn check_equal_or_stopped(world: &World) -> Result<(), Violation> {
    let end = world.log.len() as u64;
    let all = world.nodes.iter().filter_map(|node| node.process.as_ref());
    let going: Vec<_> = all
        .filter(|process| {
            let follower = process.member.follower();
            follower.stopped().is_none() && follower.next_offset() == end
        })
        .collect();
    let differ = |pair: &[&Process]| {
        let [one, other] = [pair[0].member.follower().cursor(), pair[1].member.follower().cursor()];
        pair[0].values != pair[1].values || (one.position, one.previous) != (other.position, other.previous)
    };
    match going.windows(2).find(|pair| differ(pair)) {
        Some(pair) => violation(format!("{} and {} differ, and neither noticed", pair[0], pair[1])),
        None => Ok(()),
    }
}

fn violation<T>(text: String) -> Result<T, Violation> {
    Err(Violation(text))
}

#[derive(Default)]
struct Model {
    values: Values,
    history: History,
    effects: Vec<Effect>,
    epochs: u64,
}

/// Members of the cluster, and the state of its key.
struct Members {
    registered: HashSet<NodeId>,
    departed: HashSet<NodeId>,
    key: u32,
    has_rotated: bool,
    offered: Option<u32>,
    holders: HashSet<NodeId>,
}

impl Default for Members {
    fn default() -> Members {
        let (registered, departed, holders) = Default::default();
        Members { registered, departed, key: 1, has_rotated: false, offered: None, holders }
    }
}

impl Members {
    fn take(&mut self, member: &Member) {
        match member.announcement {
            Announcement::Left => {
                // A repeated announcement that a node left has no effect.
                if self.departed.insert(member.node) {
                    self.registered.remove(&member.node);
                    (self.offered, self.holders) = (None, HashSet::new());
                }
            }
            _ if self.departed.contains(&member.node) => {}
            _ => drop(self.registered.insert(member.node)),
        }
    }

    fn most_hold(&self) -> bool {
        self.holders.intersection(&self.registered).count() * 2 > self.registered.len()
    }
}

impl Model {
    fn read(world: &World) -> Result<Model, Violation> {
        let mut model = Model::default();
        let (mut epoch, mut number) = (None, 0);
        let mut claims = BTreeMap::new();
        let (mut ids, mut requests) = (HashSet::new(), HashSet::new());
        let mut keys = world.keys.clone();
        world.nodes.iter().for_each(|node| keys.extend(&node.keys));
        let mut members = Members::default();
        for (offset, bytes) in (0u64..).zip(&world.log) {
            let message = match Message::decode(bytes, &keys, members.key) {
                Ok(message) => message,
                // The message is under another key: it arrived late, or it is forged.
                Err(MessageError::NotAuthentic) if members.has_rotated => continue,
                Err(error) => return violation(error.to_string()),
            };
            match message.body {
                Body::Generation(_) | Body::Mark(_) | Body::SliceMark(_) | Body::Digests(_) => {}
                Body::Member(member) => members.take(&member),
                Body::Offer(offer) => {
                    (members.offered, members.holders) = (Some(offer.fingerprint.number()), HashSet::new());
                }
                Body::Holder(holder) if members.offered == Some(holder.number) => {
                    members.holders.insert(holder.node);
                }
                Body::Holder(_) => {}
                Body::Rotation(rotation) => {
                    let counts = members.offered == Some(rotation.number) && Some(rotation.epoch) == epoch;
                    if counts && members.most_hold() {
                        (members.key, members.has_rotated) = (rotation.number, true);
                        (members.offered, members.holders) = (None, HashSet::new());
                    }
                }
                Body::Claim(claim) => {
                    let last = claims.entry(claim.node).or_insert((0, 0));
                    if (claim.incarnation, claim.attempt) > *last {
                        *last = (claim.incarnation, claim.attempt);
                        (epoch, number) = (Some(offset), 0);
                        model.epochs += 1;
                    }
                }
                Body::Group(group) if Some(group.epoch) == epoch && group.number == number + 1 => {
                    number += 1;
                    for record in group.records.iter() {
                        let effect = Effect::decode(record.bytes);
                        if !ids.insert(record.operation) || !requests.insert((effect.client, effect.number)) {
                            return violation(format!(
                                "{effect:?} is applied twice, the second time at {offset}"
                            ));
                        }
                        if model.values.get(&effect.key).copied() != effect.old {
                            return violation(format!("{effect:?} at {offset} was decided on another state"));
                        }
                        put(&mut model.values, &effect);
                        model.effects.push(effect);
                        let position = model.effects.len() as u64;
                        model.history.entry(effect.key).or_default().push((position, effect.new));
                    }
                }
                Body::Group(_) => {}
            }
        }
        Ok(model)
    }

    /// Returns the value of a key at a position.
    fn value(&self, key: u32, position: u64) -> Option<u32> {
        let changes = self.history.get(&key)?;
        changes.iter().rev().find(|(at, _)| *at <= position).and_then(|(_, value)| *value)
    }

    fn check(&self, fact: &ResponseRecord) -> Result<(), Violation> {
        let (request, key) = (fact.request, fact.request.action.key());
        let is_its = |effect: &Effect| (effect.client, effect.number) == (request.client, request.number);
        let at = |position: u64| self.effects.get((position as usize).wrapping_sub(1)).copied();
        let end = self.effects.len() as u64;
        let holds = match fact.response {
            Response::Done { position, value } => {
                at(position).is_some_and(|effect| is_its(&effect) && effect.new == value)
            }
            Response::Applied { position } => at(position).is_some_and(|effect| is_its(&effect)),
            Response::Refused { position } => {
                let value = self.value(key, position);
                let is_right = match request.action {
                    Action::Create(_) => value.is_some(),
                    Action::Delete(_) => value.is_none(),
                    _ => false,
                };
                // If the client sent the request to more than one node, another copy of the request may be applied.
                is_right && (fact.repeated || !self.effects.iter().any(is_its))
            }
            Response::Shown { position, value } => position <= end && self.value(key, position) == value,
            Response::Unavailable => true,
        };
        let is_stale = fact.response.position().is_some_and(|position| position < fact.token);
        match holds && !is_stale {
            true => Ok(()),
            false => violation(format!("{fact:?}, but {key} is {:?} in the log", self.history.get(&key))),
        }
    }
}
