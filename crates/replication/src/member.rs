//! A node: a follower that may become the writer.
//!
//! The election is not part of this protocol: a consumer group of the log performs it. The consumer group only selects
//! the node that should claim; the log alone gives the right to write. When a node reads back its own claim, it has
//! applied all messages before the claim and becomes the writer. It then decides a batch, appends the group of the
//! batch, and holds the batch until the outcome is known. [`GroupOutcome::Accepted`] means that the node has read the
//! group back: it commits the batch and answers the clients. [`GroupOutcome::Dropped`] means that the group can no
//! longer be accepted: the node rolls the batch back and decides its requests again. One group is in flight at a time.
//!
//! If the outcome of a group is unknown, the writer is in doubt. It appends nothing more in that epoch and claims a
//! new epoch. If the group precedes this claim in the log, the group is accepted. Otherwise the group belongs to an
//! older epoch and has no effect.

mod group_builder;
mod own;
#[cfg(test)]
mod tests;

use crate::follower::{Alarm, Follower, Rotated, Verdict};
use crate::key::{KeyRing, Tag};
use crate::message::{Announcement, Proposal};
use crate::operation::NodeId;
use crate::shared_log::AppendError;
pub use group_builder::{Fit, GroupBuilder};
use own::OwnMessages;

/// State of a node in the protocol.
#[derive(Clone, Debug)]
pub struct Member {
    follower: Follower,
    node: NodeId,
    incarnation: u64,
    attempt: u64,
    role: Role,
    proposed: Option<ProposedGroup>,
    /// Tag of the key rotation message in flight. The node appends nothing else in the epoch until it has read this
    /// message back.
    rotating: Option<Tag>,
    /// Number of groups sealed in this incarnation.
    proposals: u64,
    own: OwnMessages,
}

/// Role of a node in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node follows the log.
    Following,
    /// The node has sent a claim and has not read it back yet.
    Claiming {
        /// Number of the claim.
        attempt: u64,
    },
    /// The node is the writer.
    Leading {
        /// Epoch in which the node is the writer.
        epoch: u64,
    },
    /// The node does not know the outcome of its last group, and appends nothing more in the epoch.
    Doubtful {
        /// Epoch of the last group.
        epoch: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProposedGroup {
    tag: Tag,
    epoch: u64,
}

/// Verdict on a message, and its effect on the batch that this node proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'m> {
    /// The verdict. It is the same on all nodes that have the same state and the same keys.
    pub verdict: Verdict<'m>,
    /// Outcome of the proposed batch, if this message determines it.
    pub outcome: Option<GroupOutcome>,
}

/// Outcome of a proposed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOutcome {
    /// The verdict is [`Verdict::Apply`] for the group of the batch. The caller commits the batch with the verdict's
    /// rows, without applying the records again, and then sends all answers that depend on it.
    Accepted,
    /// The group never becomes part of the log. The caller rolls the batch back before it applies anything else, and
    /// sends none of its answers. The present writer decides the requests again.
    Dropped,
    /// The node has stopped reading and cannot determine the outcome. The caller rolls the batch back. The next writer
    /// recognizes applied operations by their ids.
    Unknown,
}

/// Reason why a node must not claim now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CannotClaim {
    /// The node is already the writer.
    #[error("the node is the writer")]
    Leading,
    /// The node has stopped reading the log.
    #[error("the node has stopped reading the log: {0}")]
    Stopped(Alarm),
    /// The node has left the cluster.
    #[error("the node does not belong to the cluster any longer")]
    Left,
}

/// Reason why a group cannot be appended now. The caller rolls its batch back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CannotPropose {
    /// The node is not the writer, or a group or a key rotation of this node is in flight.
    #[error("the node may not decide now")]
    NotNow,
    /// The batch has no record. Its answers can be sent without a group.
    #[error("the group is empty")]
    Empty,
    /// The group cannot be sealed.
    #[error("the group cannot be sealed")]
    NotSealed,
}

impl Member {
    /// Returns a member that follows. `incarnation` must be at least 1 and greater than at every earlier start.
    pub fn new(follower: Follower, node: NodeId, incarnation: u64) -> Member {
        let own = OwnMessages::default();
        let (role, proposed, rotating) = (Role::Following, None, None);
        Member { follower, node, incarnation, attempt: 0, role, proposed, rotating, proposals: 0, own }
    }

    /// Returns the follower.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// Returns the node's id.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the number of this start of the process.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns true if a batch waits for the outcome of its group.
    pub fn holds_batch(&self) -> bool {
        self.proposed.is_some()
    }

    /// Returns true if the node may decide requests: it is the writer, has applied all earlier messages, and has
    /// nothing in flight.
    pub fn may_decide(&self) -> bool {
        matches!(self.role, Role::Leading { .. }) && self.proposed.is_none() && self.rotating.is_none()
    }

    /// Returns the claim to append. The caller calls this again if the previous claim seems lost or its outcome is
    /// unknown; a claim that arrives late has no effect.
    ///
    /// # Errors
    /// The node must not claim.
    pub fn claim(&mut self) -> Result<Vec<u8>, CannotClaim> {
        if let Some(alarm) = self.follower.stopped() {
            return Err(CannotClaim::Stopped(alarm));
        }
        if let Role::Leading { .. } = self.role {
            return Err(CannotClaim::Leading);
        }
        if self.follower.has_left(self.node) {
            return Err(CannotClaim::Left);
        }
        self.attempt += 1;
        self.role = Role::Claiming { attempt: self.attempt };
        let message = self.follower.claim_of(self.node, self.incarnation, self.attempt);
        Tag::of_message(&message).into_iter().for_each(|tag| self.own.sent(tag));
        Ok(message)
    }

    /// Returns the group to append for a batch. The caller holds the batch until it knows the outcome. The group is
    /// sealed if `is_sealed` is true and all nodes can read sealed groups.
    ///
    /// # Errors
    /// The group cannot be appended.
    pub fn propose(&mut self, group: GroupBuilder, is_sealed: bool) -> Result<Vec<u8>, CannotPropose> {
        let Role::Leading { epoch } = self.role else { return Err(CannotPropose::NotNow) };
        if !self.may_decide() {
            return Err(CannotPropose::NotNow);
        }
        let (count, records) = group.into_parts();
        if count == 0 {
            return Err(CannotPropose::Empty);
        }
        self.proposals += 1;
        let (node, incarnation, number) = (self.node, self.incarnation, self.proposals);
        let seal = is_sealed.then_some(Proposal { node, incarnation, number });
        let sealed = self.follower.group_of(epoch, count, seal, &records);
        let (message, tag) = sealed.ok_or(CannotPropose::NotSealed)?;
        self.proposed = Some(ProposedGroup { tag, epoch });
        self.own.sent(tag);
        Ok(message)
    }

    /// Returns the message that puts the offered key in force, if this node is the writer and has the key, nothing is
    /// in flight, and most nodes have the key. The node decides nothing until it reads the message back.
    pub fn rotate(&mut self) -> Option<Vec<u8>> {
        let Role::Leading { epoch } = self.role else { return None };
        let message = self.follower.rotation_of(epoch).filter(|_| self.may_decide())?;
        self.rotating = Tag::of_message(&message);
        self.rotating.into_iter().for_each(|tag| self.own.sent(tag));
        Some(message)
    }

    /// Records that appending the rotation failed.
    pub fn rotation_failed(&mut self, error: AppendError) {
        if self.rotating.take().is_some()
            && error == AppendError::Unknown
            && let Role::Leading { epoch } = self.role
        {
            self.role = Role::Doubtful { epoch };
        }
    }

    /// Replaces the key ring by a ring with additional keys.
    pub fn set_keys(&mut self, keys: KeyRing) {
        self.follower.set_keys(keys);
    }

    /// Records that the log has durably stored the node's message with this tag at `offset`. If the node has read a
    /// different message at that offset, the log has lost messages, for example by electing a leader that lacked them.
    ///
    /// # Errors
    /// The log lost messages. The node has stopped; the caller rolls its batch back as for [`GroupOutcome::Unknown`].
    pub fn acknowledged(&mut self, tag: Tag, offset: u64) -> Result<(), Alarm> {
        let is_possible = offset >= self.follower.next_offset() || self.own.may_be_at(tag, offset);
        if is_possible { Ok(()) } else { Err(self.went_back(offset)) }
    }

    /// Records that the log ends at `end`, before messages that this node has read: the log lost messages.
    pub fn went_back(&mut self, end: u64) -> Alarm {
        let alarm = Alarm::WentBack { offset: end, expected: self.follower.next_offset() };
        self.follower.stop(alarm);
        (self.proposed, self.rotating, self.role) = (None, None, Role::Following);
        alarm
    }

    /// Records that appending the proposed group failed. Returns the outcome of the batch if it is known.
    pub fn group_failed(&mut self, error: AppendError) -> Option<GroupOutcome> {
        self.proposed?;
        match error {
            AppendError::NotAppended => {
                self.proposed = None;
                Some(GroupOutcome::Dropped)
            }
            AppendError::Unknown => {
                if let Role::Leading { epoch } = self.role {
                    self.role = Role::Doubtful { epoch };
                }
                None
            }
        }
    }

    /// Gives up writing because another node was elected. A proposed batch remains held, because its group may be in
    /// the log.
    pub fn resign(&mut self) {
        self.rotating = None;
        self.role = match (self.role, self.proposed) {
            (_, Some(proposed)) => Role::Doubtful { epoch: proposed.epoch },
            (_, None) => Role::Following,
        };
    }

    /// Judges the message at `offset`: see [`Follower::step`].
    pub fn step<'m>(&mut self, offset: u64, bytes: &'m [u8]) -> Step<'m> {
        let verdict = self.follower.step(offset, bytes);
        if !matches!(verdict, Verdict::Seen | Verdict::Missing { .. }) {
            Tag::of_message(bytes).into_iter().for_each(|tag| self.own.read(tag, offset));
        }
        let outcome = match &verdict {
            Verdict::Apply(_) => self.settle(|tag| match Tag::of_message(bytes) == Some(tag) {
                true => GroupOutcome::Accepted,
                // The log has accepted a group other than the proposed one. The proposed group does not name that group
                // as its predecessor, so it cannot be accepted any more.
                false => GroupOutcome::Dropped,
            }),
            Verdict::NewEpoch(_) | Verdict::NewGeneration(_) => self.settle(|_| GroupOutcome::Dropped),
            // After the rotation, no group under the old key is accepted.
            Verdict::Key(update) if matches!(update.what, Rotated::InForce(_)) => {
                self.settle(|_| GroupOutcome::Dropped)
            }
            Verdict::NeedsKey(_) => self.settle(|_| GroupOutcome::Unknown),
            Verdict::Alarm(alarm) if alarm.stops() => self.settle(|_| GroupOutcome::Unknown),
            // After a node has left, none of its groups is accepted.
            Verdict::Member(member)
                if member.node == self.node && member.announcement == Announcement::Left =>
            {
                self.settle(|_| GroupOutcome::Dropped)
            }
            Verdict::Member(_) | Verdict::Key(_) => None,
            Verdict::Ignored(_) | Verdict::Alarm(_) => {
                let is_own =
                    self.proposed.is_some_and(|proposed| Tag::of_message(bytes) == Some(proposed.tag));
                if is_own { self.settle(|_| GroupOutcome::Dropped) } else { None }
            }
            Verdict::Seen | Verdict::Missing { .. } | Verdict::Mark(_) | Verdict::Digests { .. } => None,
        };
        let is_own = self.rotating.is_some() && self.rotating == Tag::of_message(bytes);
        let is_answered = is_own && !matches!(verdict, Verdict::Missing { .. });
        if is_answered || matches!(verdict, Verdict::NewEpoch(_) | Verdict::NeedsKey(_)) {
            self.rotating = None;
        }
        self.role = self.role_after(&verdict, outcome);
        Step { verdict, outcome }
    }

    fn settle(&mut self, fate: impl FnOnce(Tag) -> GroupOutcome) -> Option<GroupOutcome> {
        self.proposed.take().map(|proposed| fate(proposed.tag))
    }

    fn role_after(&self, verdict: &Verdict<'_>, outcome: Option<GroupOutcome>) -> Role {
        match verdict {
            Verdict::NewEpoch(new) => {
                let is_own = new.epoch.node == self.node && new.incarnation == self.incarnation;
                match self.role {
                    Role::Claiming { attempt } if is_own && new.attempt == attempt => {
                        Role::Leading { epoch: new.epoch.offset }
                    }
                    // The accepted claim is not the claim that the node awaits. That claim may still follow in the
                    // log.
                    Role::Claiming { attempt } => Role::Claiming { attempt },
                    _ => Role::Following,
                }
            }
            Verdict::NewGeneration(_) | Verdict::NeedsKey(_) => Role::Following,
            // A claim under the old key has no effect; the node claims again.
            Verdict::Key(update) if matches!(update.what, Rotated::InForce(_)) => match self.role {
                Role::Leading { epoch } => Role::Leading { epoch },
                _ => Role::Following,
            },
            Verdict::Member(member)
                if member.node == self.node && member.announcement == Announcement::Left =>
            {
                Role::Following
            }
            Verdict::Alarm(alarm) if alarm.stops() => Role::Following,
            _ => match (self.role, outcome) {
                // The log did not accept the node's own group, so the node's state may differ from the log in an
                // unknown way.
                (Role::Leading { .. } | Role::Doubtful { .. }, Some(GroupOutcome::Dropped)) => {
                    Role::Following
                }
                (Role::Doubtful { .. }, Some(GroupOutcome::Accepted)) => Role::Following,
                (role, _) => role,
            },
        }
    }
}
