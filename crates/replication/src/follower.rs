//! Rules by which a node accepts messages of the log. Every node that reads the log in order reaches the same verdicts:
//! a verdict depends only on the message and on the messages accepted before it.

mod keys;
mod marks;
mod resume;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::digest::Parts;
use crate::key::{KeyRing, Tag};
use crate::limits::{KEYS_LEVEL, LEVEL_MAX, TRANSACTIONS_LEVEL};
use crate::members::Members;
use crate::message::{
    self, Announcement, Body, Claim, Digests, Generation, GenerationId, Group, Member, Message, MessageError,
    Proposal, Records,
};
use crate::operation::{NodeId, OperationId};
use crate::retention::RetentionReason;
use crate::rotation::Rotation;
use crate::round::{Round, Slice};
use crate::rows::{Cursor, Epoch, MemberRow, Row, RowChange, StateError};
pub use crate::window::OperationStatus;
use crate::window::Window;
pub use resume::Reseed;

/// Reader of the log, with the state that decides whether a message is accepted.
#[derive(Clone, Debug)]
pub struct Follower {
    keys: KeyRing,
    cursor: Cursor,
    /// Offset of the next message to read. The messages between the cursor and this offset were ignored.
    next_offset: u64,
    window: Window,
    members: Members,
    rotation: Rotation,
    round: Round,
    stopped: Option<Alarm>,
    /// Defect that a test gives this follower, to verify that the checks detect it.
    #[cfg(test)]
    pub(crate) defect: Option<crate::simulation::Defect>,
}

/// Verdict on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'m> {
    /// The records become part of the directory. Records and rows go into one commit.
    Apply(Accepted<'m>),
    /// A node becomes the writer.
    NewEpoch(NewEpoch),
    /// A node announced something about itself, or announced that another node has left.
    Member(MemberUpdate),
    /// Digest barrier: all nodes compute digests of their data, or of a slice of the data, at this message.
    Mark(Mark),
    /// Digests of a node's data at a digest barrier.
    Digests {
        /// Node that computed the digests.
        node: NodeId,
        /// Offset of the digest barrier.
        mark: u64,
        /// The digests.
        parts: Parts,
    },
    /// The rotation of the cluster's key advanced by one step.
    Key(KeyUpdate),
    /// The key with this number is in force after the previous message, and this node does not have it. The message is
    /// not judged yet: [`Follower::step`] must receive it again after [`Follower::set_keys`] has added the key.
    NeedsKey(u32),
    /// The log continues with a new generation. The node must stop, and begin again from a snapshot of the new
    /// generation.
    NewGeneration(GenerationId),
    /// The message has no effect. This happens in normal operation.
    Ignored(IgnoreReason),
    /// The message has no effect, and an administrator must find the cause.
    Alarm(Alarm),
    /// The message at this offset was judged before.
    Seen,
    /// Messages are missing: read again from `expected`. If the log has no message at that offset, it has lost
    /// messages.
    Missing {
        /// Offset of the first missing message.
        expected: u64,
    },
}

/// An accepted group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted<'m> {
    /// Offset of the message.
    pub offset: u64,
    /// Epoch of the group.
    pub epoch: Epoch,
    /// Number of the group in the epoch.
    pub number: u64,
    /// Position of the first record; each further record has the next position.
    pub first_position: u64,
    /// The records.
    pub records: Records<'m>,
    /// Whether the records were encrypted.
    pub is_sealed: bool,
    /// Rows to commit together with the records, in this order.
    pub rows: Vec<RowChange>,
}

/// An accepted claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    /// Epoch that begins.
    pub epoch: Epoch,
    /// Incarnation of the claimant: the number of the start of its process.
    pub incarnation: u64,
    /// Number of the claim within the incarnation.
    pub attempt: u64,
    /// Rows to commit, alone or together with the rows of the next group.
    pub rows: Vec<RowChange>,
}

/// Digest barrier: nodes compare the data that results from all messages before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Offset of the message.
    pub offset: u64,
    /// Comparison slice: the rows that are compared.
    pub slice: Slice,
    /// Rows to commit, alone or together with the rows of the next group.
    pub rows: Vec<RowChange>,
}

/// Accepted announcement of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberUpdate {
    /// Offset of the message.
    pub offset: u64,
    /// Node that the announcement is about.
    pub node: NodeId,
    /// The announcement.
    pub announcement: Announcement,
    /// Rows to commit, alone or together with the rows of the next group.
    pub rows: Vec<RowChange>,
}

/// Accepted message about the cluster's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUpdate {
    /// Offset of the message.
    pub offset: u64,
    /// Step of the rotation.
    pub what: Rotated,
    /// Rows to commit, alone or together with the rows of the next group.
    pub rows: Vec<RowChange>,
}

/// Step of a rotation of the cluster's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// A node offers a new key.
    Offered(NodeId),
    /// A node has stored the offered key.
    Stored(NodeId),
    /// The key with this number is in force after this message.
    InForce(u32),
}

/// Reason why a message has no effect, if this happens in normal operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoreReason {
    /// The message belongs to another generation, or begins a generation that does not follow the present generation.
    #[error("another generation")]
    OtherGeneration,
    /// Another writer was elected before the message reached the log.
    #[error("an older epoch")]
    OlderEpoch,
    /// The group is in the log twice.
    #[error("a group that is there already")]
    Repeated,
    /// The node that sent the message, or the writer of the epoch, no longer belongs to the cluster.
    #[error("a node that does not belong to the cluster any longer")]
    FormerMember,
    /// The message was sent before the key changed and arrived after the change.
    #[error("a message under another key than the one in force")]
    OtherKey,
    /// The message is about a key that is not offered, or that too few nodes have stored.
    #[error("a key that is not offered, or that few nodes have")]
    NotOffered,
    /// The slice was compared already. The message is in the log twice, or another node's barrier for the slice
    /// precedes the message.
    #[error("a mark of a slice that is compared already")]
    ComparedAlready,
    /// The log has a newer claim of the same node before this claim.
    #[error("a claim older than another of its node")]
    OlderClaim,
}

/// Reason why a message has no effect, if an administrator must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Alarm {
    /// The message has no valid tag: a program without the cluster's key writes to the topic.
    #[error("a message that is not authentic")]
    NotAuthentic,
    /// The message is authenticated with a key of the cluster that is not in force. Its writer may be a node that
    /// left.
    #[error("a message under key {0}, which is not in force: its writer may have left the cluster")]
    OtherKey(u32),
    /// The message has a newer version: a newer build writes to the log.
    #[error("a message of version {0}, which this build does not know")]
    NewerVersion(u8),
    /// All other nodes support a feature level that this build does not support.
    #[error("feature level {0}, and this build of Pando knows levels up to {LEVEL_MAX}: update it")]
    NewerLevel(u64),
    /// The message has a valid tag and cannot be decoded. No correct build writes it.
    #[error("an authentic message that cannot be read")]
    Malformed,
    /// An earlier group of the epoch is missing.
    #[error("group {number} of an epoch where {expected} was to come")]
    Gap {
        /// Number of the group.
        number: u64,
        /// Number of the next group of the epoch.
        expected: u64,
    },
    /// The epoch's claim was not accepted by this node.
    #[error("a group of the unknown epoch {0}")]
    UnknownEpoch(u64),
    /// The history of the writer or claimant differs from this node's history.
    #[error("another history up to position {position}")]
    OtherHistory {
        /// Position of the last record that this node accepted.
        position: u64,
    },
    /// The log has lost messages. It reported an offset for an appended message or for its own end, and this node has
    /// already read another message at that offset.
    #[error(
        "the log has gone back to offset {offset}, and this node has read it up to {expected}: it lost messages"
    )]
    WentBack {
        /// Offset that the log reports.
        offset: u64,
        /// Offset of the next message that this node expects.
        expected: u64,
    },
    /// An operation of the group was applied before, or its id is too old to determine this.
    #[error("a record of an operation that is in the log already")]
    RepeatedOperation,
    /// The cluster has the maximum number of nodes.
    #[error("a claim or a record of one node too many")]
    TooManyNodes,
}

impl Alarm {
    /// Returns true if the node must stop reading, because its own state may be wrong or it cannot determine the effect
    /// of the message. The node then reads again from its last commit. If the node must stop at the same message again,
    /// it needs a snapshot of another node or a newer build. Until then, the node must not claim an epoch.
    pub fn stops(self) -> bool {
        use Alarm::{Gap, NewerLevel, NewerVersion, OtherHistory, UnknownEpoch, WentBack};
        let is_newer = matches!(self, NewerVersion(_) | NewerLevel(_));
        is_newer || matches!(self, Gap { .. } | UnknownEpoch(_) | OtherHistory { .. } | WentBack { .. })
    }
}

impl Follower {
    /// Returns a follower for the first snapshot of `generation`, and the rows to commit with that snapshot. The
    /// message that begins the generation is at `offset` of `topic` and has the tag `tag`; `key` is the number of the
    /// key in force.
    pub fn seed(
        (keys, key): (KeyRing, u32),
        topic: [u8; 16],
        id: GenerationId,
        generation: &Generation,
        offset: u64,
        tag: Tag,
    ) -> (Follower, Vec<RowChange>) {
        let position = generation.position;
        let cursor = Cursor {
            topic,
            generation: id,
            key,
            offset,
            message: tag,
            epoch: None,
            number: 0,
            position,
            previous: tag,
        };
        let follower =
            Follower::new(keys, cursor, (Window::default(), Members::default(), Rotation::default()));
        (follower, vec![RowChange::cursor(&cursor)])
    }

    /// Returns all rows of the state at the beginning of `generation`. `generation` must follow the present
    /// generation. The members of the cluster and its feature level remain.
    pub fn succeed(
        &self,
        id: GenerationId,
        generation: &Generation,
        offset: u64,
        tag: Tag,
    ) -> Vec<RowChange> {
        let keys = (self.keys.clone(), self.cursor.key);
        let (_, mut rows) = Follower::seed(keys, self.cursor.topic, id, generation, offset, tag);
        rows.extend(self.members.rows());
        rows
    }

    /// Returns a follower that continues after its last commit. If the node received another node's snapshot, the
    /// follower continues after the last commit in the snapshot. `rows` are all rows of that state.
    ///
    /// # Errors
    ///
    /// The rows are not a valid state of a node.
    pub fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        keys: KeyRing,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Follower, StateError> {
        let (mut found, mut window, mut members) = (None, Window::default(), Members::default());
        let (mut rotation, mut round) = (Rotation::default(), Round::default());
        for (key, value) in rows {
            match Row::decode(key.as_ref(), value.as_ref()) {
                Some(Row::Cursor(cursor)) => found = Some(cursor),
                Some(Row::Node(node, row)) => window.load_node(node, row),
                Some(Row::Member(node, row)) => members.load(node, row),
                Some(Row::Level(level)) if level > LEVEL_MAX => return Err(StateError::NewerLevel(level)),
                Some(Row::Level(level)) => members.load_level(level),
                Some(Row::Rotation(is_due, offered)) => {
                    (rotation.is_due, rotation.offered) = (is_due, offered);
                }
                Some(Row::Holder(node, address)) => drop(rotation.holders.insert(node, address)),
                Some(Row::Round(loaded)) => round = loaded,
                Some(Row::Operation(operation, position)) => window.load_operation(operation, position),
                None => return Err(StateError::Damaged(key.as_ref().to_vec())),
            }
        }
        let cursor = found.ok_or(StateError::NoCursor)?;
        if !keys.has(cursor.key) {
            return Err(StateError::NoKey(cursor.key));
        }
        Ok(Follower { round, ..Follower::new(keys, cursor, (window, members, rotation)) })
    }

    fn new(keys: KeyRing, cursor: Cursor, state: (Window, Members, Rotation)) -> Follower {
        let (window, members, rotation) = state;
        Follower {
            keys,
            cursor,
            next_offset: cursor.offset.saturating_add(1),
            window,
            members,
            rotation,
            round: Round::default(),
            stopped: None,
            #[cfg(test)]
            defect: None,
        }
    }

    /// Judges the message at `offset`. The caller commits the records and rows of verdicts in the order of the
    /// verdicts. After an alarm that stops the follower, and after a new generation, the verdict never changes.
    pub fn step<'m>(&mut self, offset: u64, bytes: &'m [u8]) -> Verdict<'m> {
        if let Some(alarm) = self.stopped {
            return Verdict::Alarm(alarm);
        }
        if offset < self.next_offset {
            return Verdict::Seen;
        }
        if offset > self.next_offset && self.checks_gaps() {
            return Verdict::Missing { expected: self.next_offset };
        }
        let verdict = self.judge(offset, bytes);
        match &verdict {
            Verdict::Alarm(alarm) if alarm.stops() => self.stopped = Some(*alarm),
            Verdict::NewGeneration(_) | Verdict::NeedsKey(_) => {}
            _ => self.next_offset = offset.saturating_add(1),
        }
        verdict
    }

    fn judge<'m>(&mut self, offset: u64, bytes: &'m [u8]) -> Verdict<'m> {
        // All nodes judge a message by the key in force at its offset, whatever other keys they have.
        let message = match Message::decode(bytes, &self.keys, self.judged_key(bytes)) {
            Ok(message) => message,
            Err(MessageError::NotAuthentic) => return self.judge_other_key(bytes),
            Err(MessageError::NewerVersion(version)) => return Verdict::Alarm(Alarm::NewerVersion(version)),
            Err(MessageError::Malformed) => return Verdict::Alarm(Alarm::Malformed),
        };
        // If the level in force is lower than the level of the message, some nodes run builds that cannot read the
        // message.
        if Message::level(bytes) > self.level() {
            return Verdict::Alarm(Alarm::Malformed);
        }
        if let Body::Generation(generation) = message.body {
            return match generation.follows == self.cursor.generation {
                true => Verdict::NewGeneration(message.generation),
                false => Verdict::Ignored(IgnoreReason::OtherGeneration),
            };
        }
        if message.generation != self.cursor.generation {
            return Verdict::Ignored(IgnoreReason::OtherGeneration);
        }
        match message.body {
            Body::Claim(claim) => self.claim(offset, message.tag, &claim),
            Body::Group(group) => self.group(offset, message.tag, group),
            Body::Member(member) => self.member(offset, message.tag, &member),
            Body::Mark(node) | Body::Digests(Digests { node, .. }) if self.members.has_left(node) => {
                Verdict::Ignored(IgnoreReason::FormerMember)
            }
            // The state does not contain earlier barriers, so a node that reads a barrier again may accept it again.
            Body::Mark(_) => Verdict::Mark(Mark { offset, slice: Slice::default(), rows: Vec::new() }),
            Body::SliceMark(mark) => self.slice_mark(offset, message.tag, &mark),
            Body::Digests(digests) => {
                Verdict::Digests { node: digests.node, mark: digests.mark, parts: digests.parts() }
            }
            Body::Offer(offer) => self.offer(offset, message.tag, &offer),
            Body::Holder(holder) => self.holder(offset, message.tag, &holder),
            Body::Rotation(rotation) => self.rotate(offset, message.tag, &rotation),
            Body::Generation(_) => Verdict::Ignored(IgnoreReason::OtherGeneration),
        }
    }

    fn member<'m>(&mut self, offset: u64, tag: Tag, member: &Member) -> Verdict<'m> {
        if self.members.has_left(member.node) {
            return Verdict::Ignored(IgnoreReason::FormerMember);
        }
        if !self.members.has_room(member.node) {
            return Verdict::Alarm(Alarm::TooManyNodes);
        }
        let mut rows = Vec::new();
        let mut members = self.members.clone();
        members.take(member, &mut rows);
        if members.level() > LEVEL_MAX {
            return Verdict::Alarm(Alarm::NewerLevel(members.level()));
        }
        self.members = members;
        if member.announcement == Announcement::Left && self.level() >= KEYS_LEVEL {
            self.rotation.node_left(&mut rows);
        }
        self.cursor = Cursor { offset, message: tag, ..self.cursor };
        rows.push(RowChange::cursor(&self.cursor));
        Verdict::Member(MemberUpdate { offset, node: member.node, announcement: member.announcement, rows })
    }

    fn claim<'m>(&mut self, offset: u64, tag: Tag, claim: &Claim) -> Verdict<'m> {
        if self.members.has_left(claim.node) {
            return Verdict::Ignored(IgnoreReason::FormerMember);
        }
        let position = self.cursor.position;
        let is_ahead = claim.position > position;
        if is_ahead || (claim.position == position && claim.previous != self.cursor.previous) {
            return Verdict::Alarm(Alarm::OtherHistory { position });
        }
        if !self.window.takes_claim(claim) {
            return match self.window.knows(claim.node) {
                true => Verdict::Ignored(IgnoreReason::OlderClaim),
                false => Verdict::Alarm(Alarm::TooManyNodes),
            };
        }
        let mut rows = Vec::new();
        self.window.claim(claim, &mut rows);
        let epoch = Epoch { offset, node: claim.node };
        self.cursor = Cursor { offset, message: tag, epoch: Some(epoch), number: 0, ..self.cursor };
        rows.push(RowChange::cursor(&self.cursor));
        Verdict::NewEpoch(NewEpoch { epoch, incarnation: claim.incarnation, attempt: claim.attempt, rows })
    }

    fn group<'m>(&mut self, offset: u64, tag: Tag, group: Group<'m>) -> Verdict<'m> {
        let epoch = match self.check_fence(&group) {
            Ok(epoch) => epoch,
            Err(verdict) => return verdict,
        };
        let position = self.cursor.position;
        let last_position = position.checked_add(u64::from(group.records.count()));
        let is_next = Some(group.first_position) == position.checked_add(1);
        let is_next = is_next && group.previous == self.cursor.previous;
        let Some(last_position) = last_position.filter(|_| is_next || !self.checks_gaps()) else {
            return Verdict::Alarm(Alarm::OtherHistory { position });
        };
        let may_have_transactions = self.level() >= TRANSACTIONS_LEVEL;
        if !self.window.are_new(&group.records, may_have_transactions) {
            return Verdict::Alarm(Alarm::RepeatedOperation);
        }
        if !self.window.has_room(&group.records) {
            return Verdict::Alarm(Alarm::TooManyNodes);
        }
        let mut rows = Vec::new();
        let (first_position, number) = (group.first_position, group.number);
        self.window.apply(&group.records, first_position, &mut rows);
        self.cursor =
            Cursor { offset, message: tag, number, position: last_position, previous: tag, ..self.cursor };
        rows.push(RowChange::cursor(&self.cursor));
        let Group { records, is_sealed, .. } = group;
        Verdict::Apply(Accepted { offset, epoch, number, first_position, records, is_sealed, rows })
    }

    /// Returns the epoch in force if the group is the next group of that epoch. Otherwise returns the verdict on the
    /// group as an error.
    fn check_fence<'m>(&self, group: &Group<'m>) -> Result<Epoch, Verdict<'m>> {
        let unknown = Verdict::Alarm(Alarm::UnknownEpoch(group.epoch));
        let Some(epoch) = self.cursor.epoch else { return Err(unknown) };
        if !self.checks_epochs() {
            return Ok(epoch);
        }
        if group.epoch < epoch.offset {
            return Err(Verdict::Ignored(IgnoreReason::OlderEpoch));
        }
        if group.epoch > epoch.offset {
            return Err(unknown);
        }
        if self.members.has_left(epoch.node) {
            return Err(Verdict::Ignored(IgnoreReason::FormerMember));
        }
        let expected = self.cursor.number.saturating_add(1);
        if group.number < expected {
            return Err(Verdict::Ignored(IgnoreReason::Repeated));
        }
        if group.number > expected && self.checks_gaps() {
            return Err(Verdict::Alarm(Alarm::Gap { number: group.number, expected }));
        }
        Ok(epoch)
    }

    /// Returns the position of the follower in the log.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Returns the position of the last accepted record.
    pub fn position(&self) -> u64 {
        self.cursor.position
    }

    /// Returns the epoch in force.
    pub fn epoch(&self) -> Option<Epoch> {
        self.cursor.epoch
    }

    /// Returns the offset of the next message to read.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Returns true if the node has left the cluster.
    pub fn has_left(&self, node: NodeId) -> bool {
        self.members.has_left(node)
    }

    /// Returns all nodes that ever announced themselves, including those that have left.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, MemberRow)> {
        self.members.iter()
    }

    /// Returns the offset before which the log may be deleted: see
    /// [`deletable_before`](crate::retention::deletable_before).
    ///
    /// # Errors
    /// Nothing may be deleted; the error is the reason.
    pub fn deletable_before(&self) -> Result<u64, RetentionReason> {
        self.members.deletable_before()
    }

    /// Returns the feature level in force, which determines what nodes may write to the log. It never falls.
    pub fn level(&self) -> u64 {
        self.members.level()
    }

    /// Returns the nodes that belong to the cluster and have announced themselves.
    pub fn registered(&self) -> BTreeSet<NodeId> {
        self.members.iter().filter(|(_, row)| !row.has_left).map(|(node, _)| node).collect()
    }

    /// Encodes the digests of a node's data at a digest barrier as a message.
    pub fn digests_of(&self, node: NodeId, mark: u64, parts: &Parts) -> Vec<u8> {
        message::encode_digests(&self.keys, self.cursor.key, &self.cursor.generation, (node, mark), parts)
    }

    /// Encodes an announcement about a node as a message.
    pub fn announcement_of(&self, node: NodeId, announcement: Announcement) -> Vec<u8> {
        let member = Member { node, announcement };
        message::encode_member(&self.keys, self.cursor.key, &self.cursor.generation, &member)
    }

    /// Returns whether the operation with this id was applied.
    pub fn operation(&self, operation: &OperationId) -> OperationStatus {
        self.window.operation(operation)
    }

    /// Stops reading the log because of `alarm`.
    pub(crate) fn stop(&mut self, alarm: Alarm) {
        self.stopped.get_or_insert(alarm);
    }

    /// Returns the alarm that stopped reading. `None` if the follower has not stopped. See [`Alarm::stops`].
    pub fn stopped(&self) -> Option<Alarm> {
        self.stopped
    }

    /// Encodes the claim that `node` would make now as a message.
    pub(crate) fn claim_of(&self, node: NodeId, incarnation: u64, attempt: u64) -> Vec<u8> {
        let Cursor { position, previous, .. } = self.cursor;
        let claim = Claim { node, incarnation, attempt, position, previous };
        message::encode_claim(&self.keys, self.cursor.key, &self.cursor.generation, &claim)
    }

    /// Encodes the next group of the epoch in force as a message, and returns it with its tag. Seals (encrypts) the
    /// group if a proposal is given and the level in force permits it. Returns `None` if the group cannot be encoded.
    pub(crate) fn group_of(
        &self,
        epoch: u64,
        count: u32,
        seal: Option<Proposal>,
        records: &[u8],
    ) -> Option<(Vec<u8>, Tag)> {
        let Cursor { key, generation, number, position, previous, .. } = self.cursor;
        let (number, first_position) = (number.saturating_add(1), position.saturating_add(1));
        let head = message::GroupHead { key, generation, epoch, number, first_position, previous, count };
        let seal = seal.filter(|_| self.level() >= KEYS_LEVEL);
        message::encode_group(&self.keys, &head, seal, records)
    }
}

#[cfg(not(test))]
impl Follower {
    const fn checks_gaps(&self) -> bool {
        true
    }

    const fn checks_epochs(&self) -> bool {
        true
    }

    const fn judged_key(&self, _: &[u8]) -> u32 {
        self.cursor.key
    }
}

#[cfg(test)]
impl Follower {
    fn checks_gaps(&self) -> bool {
        self.checks_epochs() && self.defect != Some(crate::simulation::Defect::MissingGroupAccepted)
    }

    fn judged_key(&self, bytes: &[u8]) -> u32 {
        let named = Message::key(bytes).filter(|key| self.keys.has(*key));
        let any = self.defect == Some(crate::simulation::Defect::OldKeyAccepted);
        named.filter(|_| any).unwrap_or(self.cursor.key)
    }

    fn checks_epochs(&self) -> bool {
        self.defect != Some(crate::simulation::Defect::NoEpochCheck)
    }
}
