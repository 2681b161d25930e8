//! A node: a follower that may become the writer.
//!
//! The writer is elected outside (a consumer group of the log does it). Election only says who should claim; who may
//! write follows from the log alone. A claim that is read back makes the claimant the writer, with everything before
//! the claim applied. From then on it decides a batch, has its group appended and holds the batch until it reads the
//! group back ([`Held::Accepted`]: commit and answer) or anything that makes that impossible ([`Held::Dropped`]: roll
//! back and decide anew). One group is in flight at a time.
//!
//! If the fate of a group is unknown, the writer is in doubt: it appends nothing more in that epoch. Its next claim
//! settles the matter: the group stands before the claim in the log, or it is of an older epoch for ever.

mod group_builder;
mod own;
#[cfg(test)]
mod tests;

use crate::follower::{Alarm, Follower, Rotated, Verdict};
use crate::key::{KeyRing, Tag};
use crate::message::{News, Proposal};
use crate::operation::NodeId;
use crate::shared_log::AppendError;
pub use group_builder::{Fit, GroupBuilder};
use own::Own;

/// A node's part in the protocol.
#[derive(Clone, Debug)]
pub struct Member {
    follower: Follower,
    node: NodeId,
    incarnation: u64,
    attempt: u64,
    role: Role,
    held: Option<HeldGroup>,
    /// The rotation on its way: until it is read back, nothing else is appended in the epoch.
    rotating: Option<Tag>,
    /// Counts the sealed groups of the incarnation.
    proposals: u64,
    own: Own,
}

/// What a node is in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It follows.
    Following,
    /// Its claim is on the way.
    Claiming {
        /// Which.
        attempt: u64,
    },
    /// It writes.
    Leading {
        /// Its epoch.
        epoch: u64,
    },
    /// It does not know what became of its last group, and appends nothing more in the epoch.
    Doubtful {
        /// The epoch.
        epoch: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldGroup {
    tag: Tag,
    epoch: u64,
}

/// A verdict, and what it means for the batch that this node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'m> {
    /// As every node gives it.
    pub verdict: Verdict<'m>,
    /// Set when the fate of the held batch is known by it.
    pub held: Option<Held>,
}

/// The fate of a held batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The verdict is [`Verdict::Apply`] of its group. Commit it with the verdict's rows instead of applying the
    /// records once more, then answer everything decided on it.
    Accepted,
    /// Its group never becomes part of the log. Roll it back before anything else is applied, and answer nothing of it:
    /// the requests are decided anew, by whoever writes.
    Dropped,
    /// The node has stopped reading and cannot know. Roll it back; the next writer knows by the operation ids.
    Unknown,
}

/// Why a node must not claim now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CannotClaim {
    /// It writes already.
    #[error("the node is the writer")]
    Leading,
    /// It has stopped reading.
    #[error("the node has stopped reading the log: {0}")]
    Stopped(Alarm),
    /// It does not belong to the cluster any longer.
    #[error("the node does not belong to the cluster any longer")]
    Gone,
}

/// Why a group cannot be appended now. Its batch is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CannotPropose {
    /// The node does not write, or a group is in flight.
    #[error("the node may not decide now")]
    NotNow,
    /// There is no record in it: its answers need no group.
    #[error("the group is empty")]
    Empty,
    /// It cannot be sealed.
    #[error("the group cannot be sealed")]
    NotSealed,
}

impl Member {
    /// A node that follows. The incarnation is greater than that of every start before, and at least 1.
    pub fn new(follower: Follower, node: NodeId, incarnation: u64) -> Member {
        let own = Own::default();
        let (role, held, rotating) = (Role::Following, None, None);
        Member { follower, node, incarnation, attempt: 0, role, held, rotating, proposals: 0, own }
    }

    /// The follower's state.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// Who this is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Which start of it.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// What it is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether a batch waits for the fate of its group.
    pub fn holds_batch(&self) -> bool {
        self.held.is_some()
    }

    /// Whether it may decide requests: it writes, everything before is applied here, and nothing is in flight.
    pub fn may_decide(&self) -> bool {
        matches!(self.role, Role::Leading { .. }) && self.held.is_none() && self.rotating.is_none()
    }

    /// A claim to append. Called again when the claim before seems lost, or in doubt; a claim that lands late is void.
    ///
    /// # Errors
    /// It must not claim.
    pub fn claim(&mut self) -> Result<Vec<u8>, CannotClaim> {
        if let Some(alarm) = self.follower.stopped() {
            return Err(CannotClaim::Stopped(alarm));
        }
        if let Role::Leading { .. } = self.role {
            return Err(CannotClaim::Leading);
        }
        if self.follower.is_gone(self.node) {
            return Err(CannotClaim::Gone);
        }
        self.attempt += 1;
        self.role = Role::Claiming { attempt: self.attempt };
        let message = self.follower.claim_of(self.node, self.incarnation, self.attempt);
        Tag::of_message(&message).into_iter().for_each(|tag| self.own.sent(tag));
        Ok(message)
    }

    /// The group to append for a batch, which is held from now on; sealed if that is wanted and all nodes can read it.
    ///
    /// # Errors
    /// It cannot be appended.
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
        let made = self.follower.group_of(epoch, count, seal, &records);
        let (message, tag) = made.ok_or(CannotPropose::NotSealed)?;
        self.held = Some(HeldGroup { tag, epoch });
        self.own.sent(tag);
        Ok(message)
    }

    /// The message that puts the key that is offered in force, where this node writes, nothing is in flight, and most
    /// nodes have it. Nothing else is decided until it is read back.
    pub fn rotate(&mut self) -> Option<Vec<u8>> {
        let Role::Leading { epoch } = self.role else { return None };
        let message = self.follower.rotation_of(epoch).filter(|_| self.may_decide())?;
        self.rotating = Tag::of_message(&message);
        self.rotating.into_iter().for_each(|tag| self.own.sent(tag));
        Some(message)
    }

    /// That appending the rotation failed.
    pub fn rotation_failed(&mut self, error: AppendError) {
        if self.rotating.take().is_some()
            && error == AppendError::Unknown
            && let Role::Leading { epoch } = self.role
        {
            self.role = Role::Doubtful { epoch };
        }
    }

    /// Has more keys from here on.
    pub fn set_keys(&mut self, keys: KeyRing) {
        self.follower.set_keys(keys);
    }

    /// That the log has the node's own message of this tag for good, at `offset`. Where something else was read at that
    /// offset, the log has lost what was there: it has been cut, as by the election of a leader that lacked messages.
    ///
    /// # Errors
    /// It went back. The node has stopped; what it holds is rolled back as with [`Held::Unknown`].
    pub fn acknowledged(&mut self, tag: Tag, offset: u64) -> Result<(), Alarm> {
        let is_possible = offset >= self.follower.next_offset() || self.own.may_stand(tag, offset);
        if is_possible { Ok(()) } else { Err(self.went_back(offset)) }
    }

    /// That the log ends at `end`, before what this node had read when that was asked: it has been cut.
    pub fn went_back(&mut self, end: u64) -> Alarm {
        let alarm = Alarm::WentBack { offset: end, expected: self.follower.next_offset() };
        self.follower.stop(alarm);
        (self.held, self.rotating, self.role) = (None, None, Role::Following);
        alarm
    }

    /// That appending the held group failed. What it means for the held batch.
    pub fn group_failed(&mut self, error: AppendError) -> Option<Held> {
        self.held?;
        match error {
            AppendError::NotAppended => {
                self.held = None;
                Some(Held::Dropped)
            }
            AppendError::Unknown => {
                if let Role::Leading { epoch } = self.role {
                    self.role = Role::Doubtful { epoch };
                }
                None
            }
        }
    }

    /// Gives up writing, because another was elected. A held batch is held on: its group may be in the log.
    pub fn resign(&mut self) {
        self.rotating = None;
        self.role = match (self.role, self.held) {
            (_, Some(held)) => Role::Doubtful { epoch: held.epoch },
            (_, None) => Role::Following,
        };
    }

    /// The message at `offset`: see [`Follower::step`].
    pub fn step<'m>(&mut self, offset: u64, bytes: &'m [u8]) -> Step<'m> {
        let verdict = self.follower.step(offset, bytes);
        if !matches!(verdict, Verdict::Seen | Verdict::Missing { .. }) {
            Tag::of_message(bytes).into_iter().for_each(|tag| self.own.read(tag, offset));
        }
        let held = match &verdict {
            Verdict::Apply(_) => self.settle(|tag| match Tag::of_message(bytes) == Some(tag) {
                true => Held::Accepted,
                // The held group names another predecessor.
                false => Held::Dropped,
            }),
            Verdict::NewEpoch(_) | Verdict::NewGeneration(_) => self.settle(|_| Held::Dropped),
            // No group under the key of before is accepted behind that.
            Verdict::Key(news) if matches!(news.what, Rotated::InForce(_)) => self.settle(|_| Held::Dropped),
            Verdict::NeedsKey(_) => self.settle(|_| Held::Unknown),
            Verdict::Alarm(alarm) if alarm.stops() => self.settle(|_| Held::Unknown),
            // No group of it is accepted behind that.
            Verdict::Member(member) if member.node == self.node && member.news == News::Gone => {
                self.settle(|_| Held::Dropped)
            }
            Verdict::Member(_) | Verdict::Key(_) => None,
            Verdict::Ignored(_) | Verdict::Alarm(_) => {
                let is_own = self.held.is_some_and(|held| Tag::of_message(bytes) == Some(held.tag));
                if is_own { self.settle(|_| Held::Dropped) } else { None }
            }
            Verdict::Seen | Verdict::Missing { .. } | Verdict::Mark(_) | Verdict::Digests { .. } => None,
        };
        let is_own = self.rotating.is_some() && self.rotating == Tag::of_message(bytes);
        let is_answered = is_own && !matches!(verdict, Verdict::Missing { .. });
        if is_answered || matches!(verdict, Verdict::NewEpoch(_) | Verdict::NeedsKey(_)) {
            self.rotating = None;
        }
        self.role = self.role_after(&verdict, held);
        Step { verdict, held }
    }

    fn settle(&mut self, fate: impl FnOnce(Tag) -> Held) -> Option<Held> {
        self.held.take().map(|held| fate(held.tag))
    }

    fn role_after(&self, verdict: &Verdict<'_>, held: Option<Held>) -> Role {
        match verdict {
            Verdict::NewEpoch(new) => {
                let is_own = new.epoch.node == self.node && new.incarnation == self.incarnation;
                match self.role {
                    Role::Claiming { attempt } if is_own && new.attempt == attempt => {
                        Role::Leading { epoch: new.epoch.offset }
                    }
                    // The own claim may come yet.
                    Role::Claiming { attempt } => Role::Claiming { attempt },
                    _ => Role::Following,
                }
            }
            Verdict::NewGeneration(_) | Verdict::NeedsKey(_) => Role::Following,
            // A claim under the key of before counts for nobody; it is made again.
            Verdict::Key(news) if matches!(news.what, Rotated::InForce(_)) => match self.role {
                Role::Leading { epoch } => Role::Leading { epoch },
                _ => Role::Following,
            },
            Verdict::Member(member) if member.node == self.node && member.news == News::Gone => {
                Role::Following
            }
            Verdict::Alarm(alarm) if alarm.stops() => Role::Following,
            _ => match (self.role, held) {
                // A group of its own counted for nobody: there is something that it does not understand.
                (Role::Leading { .. } | Role::Doubtful { .. }, Some(Held::Dropped)) => Role::Following,
                (Role::Doubtful { .. }, Some(Held::Accepted)) => Role::Following,
                (role, _) => role,
            },
        }
    }
}
