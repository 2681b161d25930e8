//! Keys of the cluster: the key in force, the offered key, and the treatment of messages under other keys.

use super::{Alarm, Follower, IgnoreReason, KeyUpdate, Rotated, Verdict};
use crate::key::{Fingerprint, KeyRing, Tag};
use crate::limits::KEYS_LEVEL;
use crate::message::{Body, KeyHolder, KeyOffer, KeyRotation, Message};
use crate::operation::NodeId;
use crate::rows::OfferedKey;
use crate::rows::{Cursor, RowChange};

impl Follower {
    /// Judges a message that is not under the key in force. Such a message is never applied. A group raises an alarm if
    /// it would be accepted under the key in force, because its writer may be a node that has left the cluster.
    pub(super) fn judge_other_key<'m>(&self, bytes: &'m [u8]) -> Verdict<'m> {
        let Some(named) = Message::key(bytes).filter(|key| *key != self.cursor.key) else {
            return Verdict::Alarm(Alarm::NotAuthentic);
        };
        let message = match Message::decode(bytes, &self.keys, named) {
            Ok(message) => message,
            Err(_) => return Verdict::Alarm(Alarm::NotAuthentic),
        };
        if message.generation != self.cursor.generation && !matches!(message.body, Body::Generation(_)) {
            return Verdict::Ignored(IgnoreReason::OtherGeneration);
        }
        match message.body {
            Body::Generation(generation) if generation.follows != self.cursor.generation => {
                Verdict::Ignored(IgnoreReason::OtherGeneration)
            }
            Body::Generation(_) => Verdict::Alarm(Alarm::OtherKey(named)),
            Body::Group(group) => match self.check_fence(&group) {
                // The group would have no effect under the key in force either, for example because it arrived late.
                Err(Verdict::Ignored(reason)) => Verdict::Ignored(reason),
                _ => Verdict::Alarm(Alarm::OtherKey(named)),
            },
            // The message was sent before the key changed. Nodes send messages of these kinds again.
            _ => Verdict::Ignored(IgnoreReason::OtherKey),
        }
    }

    pub(super) fn offer<'m>(&mut self, offset: u64, tag: Tag, offer: &KeyOffer<'_>) -> Verdict<'m> {
        if self.members.has_left(offer.node) {
            return Verdict::Ignored(IgnoreReason::FormerMember);
        }
        if offer.fingerprint.number() == self.cursor.key {
            return Verdict::Ignored(IgnoreReason::NotOffered);
        }
        let offered = OfferedKey {
            offset,
            node: offer.node,
            fingerprint: offer.fingerprint,
            address: offer.address.to_owned(),
        };
        let mut rows = Vec::new();
        self.rotation.offer(offered, &mut rows);
        self.key_update(offset, tag, Rotated::Offered(offer.node), rows)
    }

    pub(super) fn holder<'m>(&mut self, offset: u64, tag: Tag, holder: &KeyHolder<'_>) -> Verdict<'m> {
        if self.members.has_left(holder.node) {
            return Verdict::Ignored(IgnoreReason::FormerMember);
        }
        let is_offered = self.offered_number() == Some(holder.number);
        if !is_offered || !self.members.is_present(holder.node) {
            return Verdict::Ignored(IgnoreReason::NotOffered);
        }
        let mut rows = Vec::new();
        self.rotation.hold(holder.node, holder.address, &mut rows);
        self.key_update(offset, tag, Rotated::Stored(holder.node), rows)
    }

    pub(super) fn rotate<'m>(&mut self, offset: u64, tag: Tag, rotation: &KeyRotation) -> Verdict<'m> {
        match self.cursor.epoch {
            Some(epoch) if epoch.offset == rotation.epoch && self.members.has_left(epoch.node) => {
                return Verdict::Ignored(IgnoreReason::FormerMember);
            }
            Some(epoch) if epoch.offset == rotation.epoch => {}
            Some(epoch) if rotation.epoch < epoch.offset => {
                return Verdict::Ignored(IgnoreReason::OlderEpoch);
            }
            _ => return Verdict::Alarm(Alarm::UnknownEpoch(rotation.epoch)),
        }
        let offered = self.rotation.offered.as_ref().map(|offered| offered.fingerprint);
        let Some(offered) = offered.filter(|key| key.number() == rotation.number && self.most_have_key())
        else {
            return Verdict::Ignored(IgnoreReason::NotOffered);
        };
        if !self.keys.has_key(&offered) {
            return self.lacks_key(rotation.number);
        }
        let mut rows = Vec::new();
        self.rotation.done(&mut rows);
        self.cursor.key = rotation.number;
        self.key_update(offset, tag, Rotated::InForce(rotation.number), rows)
    }

    #[cfg(not(test))]
    fn lacks_key<'m>(&self, number: u32) -> Verdict<'m> {
        Verdict::NeedsKey(number)
    }

    #[cfg(test)]
    fn lacks_key<'m>(&self, number: u32) -> Verdict<'m> {
        match self.defect {
            Some(crate::simulation::Defect::RotationIgnored) => Verdict::Ignored(IgnoreReason::NotOffered),
            _ => Verdict::NeedsKey(number),
        }
    }

    fn key_update<'m>(
        &mut self,
        offset: u64,
        tag: Tag,
        what: Rotated,
        mut rows: Vec<RowChange>,
    ) -> Verdict<'m> {
        self.cursor = Cursor { offset, message: tag, ..self.cursor };
        rows.push(RowChange::cursor(&self.cursor));
        Verdict::Key(KeyUpdate { offset, what, rows })
    }

    /// Returns the keys that this node has.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Replaces the key ring. The new ring must also contain all keys of the present ring.
    pub fn set_keys(&mut self, keys: KeyRing) {
        self.keys = keys;
    }

    /// Returns true if a node that has the key in force has left, no new key is offered yet, and the feature level
    /// permits key rotation.
    pub fn key_is_due(&self) -> bool {
        self.rotation.is_due && self.rotation.offered.is_none() && self.level() >= KEYS_LEVEL
    }

    /// Returns the offered key.
    pub fn offered(&self) -> Option<&OfferedKey> {
        self.rotation.offered.as_ref()
    }

    fn offered_number(&self) -> Option<u32> {
        self.offered().map(|offered| offered.fingerprint.number())
    }

    /// Returns true if a key is offered that this node does not have.
    pub fn lacks_offered(&self) -> bool {
        self.offered().is_some_and(|offered| !self.keys.has_key(&offered.fingerprint))
    }

    /// Returns the nodes that have the offered key, with their addresses.
    pub fn key_holders(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.rotation.holders.iter().map(|(node, address)| (*node, &**address))
    }

    fn registered_holders(&self) -> usize {
        self.rotation.holders.keys().filter(|node| self.members.is_present(**node)).count()
    }

    /// Returns true if more than half of the nodes have the offered key, so that the key survives the loss of one node.
    pub fn most_have_key(&self) -> bool {
        self.registered_holders() * 2 > self.registered().len()
    }

    /// Returns true if all nodes have the offered key.
    pub fn all_have_key(&self) -> bool {
        self.registered_holders() == self.registered().len()
    }

    /// Encodes the message with which `node`, reached at `address`, offers a key.
    pub fn offer_of(&self, node: NodeId, fingerprint: Fingerprint, address: &str) -> Vec<u8> {
        KeyOffer { node, fingerprint, address }.encode(&self.keys, self.cursor.key, &self.cursor.generation)
    }

    /// Encodes the message with which `node`, reached at `address`, announces that it has the offered key. Returns
    /// `None` if no key is offered, or if the node does not have the key, has already announced it with the same
    /// address, or is not registered.
    pub fn holder_of(&self, node: NodeId, address: &str) -> Option<Vec<u8>> {
        let offered = self.offered().filter(|offered| self.keys.has_key(&offered.fingerprint))?;
        let is_said = self.rotation.holders.get(&node).is_some_and(|known| known == address);
        if is_said || !self.members.is_present(node) {
            return None;
        }
        let holder = KeyHolder { node, number: offered.fingerprint.number(), address };
        Some(holder.encode(&self.keys, self.cursor.key, &self.cursor.generation))
    }

    /// Encodes the message with which the writer of the epoch puts the offered key in force. Returns `None` unless the
    /// writer and more than half of the nodes have the key.
    pub(crate) fn rotation_of(&self, epoch: u64) -> Option<Vec<u8>> {
        let number = self.offered_number().filter(|_| self.most_have_key() && !self.lacks_offered())?;
        let rotation = KeyRotation { epoch, number };
        Some(rotation.encode(&self.keys, self.cursor.key, &self.cursor.generation))
    }
}
