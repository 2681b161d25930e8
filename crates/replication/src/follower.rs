//! Who accepts what. Fed with the messages of the log in order, every node gives the same verdicts, because a verdict
//! depends on nothing but the message and those accepted before it.

mod keys;
mod marks;
mod resume;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::digest::Parts;
use crate::key::{KeyRing, Tag};
use crate::limits::{KEYS_LEVEL, LEVEL_MAX};
use crate::members::Members;
use crate::message::{
    self, Body, Claim, Digests, Generation, GenerationId, Group, Member, Message, MessageError, News,
    Proposal, Records,
};
use crate::operation::{NodeId, OperationId};
use crate::retention::Kept;
use crate::rotation::Rotation;
use crate::round::{Round, Slice};
use crate::rows::{Cursor, Epoch, MemberRow, Row, RowChange, StateError};
pub use crate::window::Known;
use crate::window::Window;
pub use resume::Reseed;

/// A reader of the log.
#[derive(Clone, Debug)]
pub struct Follower {
    keys: KeyRing,
    cursor: Cursor,
    /// Where it reads on: behind the cursor and behind what was ignored since.
    next_offset: u64,
    window: Window,
    members: Members,
    rotation: Rotation,
    round: Round,
    stopped: Option<Alarm>,
    /// What a test has this follower do wrong.
    #[cfg(test)]
    pub(crate) defect: Option<crate::simulation::Defect>,
}

/// What a message comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'m> {
    /// Its records are part of the directory. They and the rows go into one commit.
    Apply(Accepted<'m>),
    /// A node begins to write.
    NewEpoch(NewEpoch),
    /// Something is new of a node.
    Member(MemberNews),
    /// Here the data of all nodes is compared.
    Mark(Mark),
    /// What the data of a node came to at a mark.
    Digests {
        /// Whose.
        node: NodeId,
        /// The offset of the mark.
        mark: u64,
        /// The digests.
        parts: Parts,
    },
    /// Something is new about the cluster's key.
    Key(KeyNews),
    /// The key of this number is in force behind this message, and this node does not have it. It is not judged: once
    /// [`Follower::set_keys`] has brought the key, it comes again.
    NeedsKey(u32),
    /// All data is new from here: stop, and begin again from a snapshot of this generation.
    NewGeneration(GenerationId),
    /// It counts for nobody, as happens in the life of a cluster.
    Ignored(Ignored),
    /// It counts for nobody, and somebody must look at it.
    Alarm(Alarm),
    /// The message at this offset had its verdict before.
    Seen,
    /// Messages were left out: read again from `expected`. If the log has none there, it has lost messages.
    Missing {
        /// The offset that was to come.
        expected: u64,
    },
}

/// An accepted group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted<'m> {
    /// Where it stands.
    pub offset: u64,
    /// Whose it is.
    pub epoch: Epoch,
    /// Its number in the epoch.
    pub number: u64,
    /// The position of its first record; each further one has the next.
    pub first_position: u64,
    /// The records.
    pub records: Records<'m>,
    /// Whether they were sealed.
    pub is_sealed: bool,
    /// What goes into the same commit, in this order.
    pub rows: Vec<RowChange>,
}

/// An accepted claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    /// The epoch that begins.
    pub epoch: Epoch,
    /// Which start of the node's process it was.
    pub incarnation: u64,
    /// Which claim of it.
    pub attempt: u64,
    /// What goes into a commit, alone or with the next group's.
    pub rows: Vec<RowChange>,
}

/// A mark, at which all nodes compare what they have from the messages before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where it stands.
    pub offset: u64,
    /// Which rows are compared.
    pub slice: Slice,
    /// What goes into a commit, alone or with the next group's.
    pub rows: Vec<RowChange>,
}

/// Accepted news of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberNews {
    /// Where they stand.
    pub offset: u64,
    /// Which node.
    pub node: NodeId,
    /// What is new.
    pub news: News,
    /// What goes into a commit, alone or with the next group's.
    pub rows: Vec<RowChange>,
}

/// Accepted news about the cluster's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyNews {
    /// Where they stand.
    pub offset: u64,
    /// What is new.
    pub what: Rotated,
    /// What goes into a commit, alone or with the next group's.
    pub rows: Vec<RowChange>,
}

/// What is new about the cluster's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// This node offers a new one.
    Offered(NodeId),
    /// This node has the one that is offered.
    Held(NodeId),
    /// The key of this number is in force from here on.
    InForce(u32),
}

/// Why a message counts for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ignored {
    /// It is of another generation, or follows another than the one in force.
    #[error("another generation")]
    OtherGeneration,
    /// Its writer was followed by another before it landed.
    #[error("an older epoch")]
    OlderEpoch,
    /// It landed twice.
    #[error("a group that is there already")]
    Repeated,
    /// Its node, or its writer, does not belong to the cluster any longer.
    #[error("a node that does not belong to the cluster any longer")]
    Gone,
    /// It was on its way when the key changed.
    #[error("a message under another key than the one in force")]
    OtherKey,
    /// It is about a key that is not offered, or that too few have.
    #[error("a key that is not offered, or that few nodes have")]
    NotOffered,
    /// It landed twice, or behind one of another node for the same slice.
    #[error("a mark of a slice that is compared already")]
    ComparedAlready,
    /// The claimant has made a newer claim, which landed first.
    #[error("a claim older than another of its node")]
    OlderClaim,
}

/// Why a message counts for nobody and is a matter for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Alarm {
    /// Somebody without the key writes the topic.
    #[error("a message that is not authentic")]
    NotAuthentic,
    /// Somebody writes the topic who has a key of the cluster, but not the one in force, such as a node that left.
    #[error("a message under key {0}, which is not in force: whoever wrote it may have left the cluster")]
    OtherKey(u32),
    /// A newer build writes the log.
    #[error("a message of version {0}, which this build does not know")]
    NewerVersion(u8),
    /// All other nodes know a feature level that this build does not.
    #[error("feature level {0}, and this build of Pando knows levels up to {LEVEL_MAX}: update it")]
    NewerLevel(u64),
    /// A message that no right build writes.
    #[error("an authentic message that cannot be read")]
    Malformed,
    /// A group of the epoch is missing before it.
    #[error("group {number} of an epoch where {expected} was to come")]
    Gap {
        /// Its number.
        number: u64,
        /// The number that was to come.
        expected: u64,
    },
    /// Its epoch's claim was not accepted here.
    #[error("a group of the unknown epoch {0}")]
    UnknownEpoch(u64),
    /// Its writer, or claimant, stands on another history than this node.
    #[error("another history up to position {position}")]
    OtherHistory {
        /// The position of the last record that was accepted here.
        position: u64,
    },
    /// The log says that it has put, or would put, a message where this node has read another one.
    #[error(
        "the log has gone back to offset {offset}, and this node has read it up to {expected}: it lost messages"
    )]
    WentBack {
        /// Where it says that a message stands, or that it ends.
        offset: u64,
        /// The offset that was to come here.
        expected: u64,
    },
    /// A record of an operation that was applied before, or whose id is too old to know.
    #[error("a record of an operation that is in the log already")]
    RepeatedOperation,
    /// More nodes than may be.
    #[error("a claim or a record of one node too many")]
    TooManyNodes,
}

impl Alarm {
    /// Whether the node reads no further, because it may be wrong itself or cannot know what the message does. It reads
    /// again from its last commit; if it comes to the same, it begins again from a snapshot, or needs the newer build.
    /// It must not claim.
    pub fn stops(self) -> bool {
        use Alarm::{Gap, NewerLevel, NewerVersion, OtherHistory, UnknownEpoch, WentBack};
        let is_newer = matches!(self, NewerVersion(_) | NewerLevel(_));
        is_newer || matches!(self, Gap { .. } | UnknownEpoch(_) | OtherHistory { .. } | WentBack { .. })
    }
}

impl Follower {
    /// A follower whose data is the snapshot that `generation` begins with: the message of tag `tag` at `offset` of the
    /// topic `topic`, under the key of this number. The rows go into the data's first commit.
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

    /// All rows of a node whose data is the snapshot that `generation`, behind the one in force, begins with: who
    /// belongs to the cluster and what all can stays known.
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

    /// A follower that goes on from its last commit, or from that of the node whose snapshot it took: from all rows of
    /// the state.
    ///
    /// # Errors
    /// They are not those of a node.
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

    /// The message at `offset`. The records and rows of verdicts are committed in the order of the verdicts. After an
    /// alarm that stops the follower, and after a new generation, it comes to the same verdict for ever.
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
        // One key is in force at each offset, for all nodes, whatever others they have.
        let message = match Message::decode(bytes, &self.keys, self.judged_key(bytes)) {
            Ok(message) => message,
            Err(MessageError::NotAuthentic) => return self.judge_other_key(bytes),
            Err(MessageError::NewerVersion(version)) => return Verdict::Alarm(Alarm::NewerVersion(version)),
            Err(MessageError::Malformed) => return Verdict::Alarm(Alarm::Malformed),
        };
        // Before that level is in force there are builds that cannot read it.
        if Message::level(bytes) > self.level() {
            return Verdict::Alarm(Alarm::Malformed);
        }
        if let Body::Generation(generation) = message.body {
            return match generation.follows == self.cursor.generation {
                true => Verdict::NewGeneration(message.generation),
                false => Verdict::Ignored(Ignored::OtherGeneration),
            };
        }
        if message.generation != self.cursor.generation {
            return Verdict::Ignored(Ignored::OtherGeneration);
        }
        match message.body {
            Body::Claim(claim) => self.claim(offset, message.tag, &claim),
            Body::Group(group) => self.group(offset, message.tag, group),
            Body::Member(member) => self.member(offset, message.tag, &member),
            Body::Mark(node) | Body::Digests(Digests { node, .. }) if self.members.is_gone(node) => {
                Verdict::Ignored(Ignored::Gone)
            }
            // They are no part of the state: a node that reads them again may do so.
            Body::Mark(_) => Verdict::Mark(Mark { offset, slice: Slice::default(), rows: Vec::new() }),
            Body::SliceMark(mark) => self.slice_mark(offset, message.tag, &mark),
            Body::Digests(digests) => {
                Verdict::Digests { node: digests.node, mark: digests.mark, parts: digests.parts() }
            }
            Body::Offer(offer) => self.offer(offset, message.tag, &offer),
            Body::Holder(holder) => self.holder(offset, message.tag, &holder),
            Body::Rotation(rotation) => self.rotate(offset, message.tag, &rotation),
            Body::Generation(_) => Verdict::Ignored(Ignored::OtherGeneration),
        }
    }

    fn member<'m>(&mut self, offset: u64, tag: Tag, member: &Member) -> Verdict<'m> {
        if self.members.is_gone(member.node) {
            return Verdict::Ignored(Ignored::Gone);
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
        if member.news == News::Gone && self.level() >= KEYS_LEVEL {
            self.rotation.gone(&mut rows);
        }
        self.cursor = Cursor { offset, message: tag, ..self.cursor };
        rows.push(RowChange::cursor(&self.cursor));
        Verdict::Member(MemberNews { offset, node: member.node, news: member.news, rows })
    }

    fn claim<'m>(&mut self, offset: u64, tag: Tag, claim: &Claim) -> Verdict<'m> {
        if self.members.is_gone(claim.node) {
            return Verdict::Ignored(Ignored::Gone);
        }
        let position = self.cursor.position;
        let is_ahead = claim.position > position;
        if is_ahead || (claim.position == position && claim.previous != self.cursor.previous) {
            return Verdict::Alarm(Alarm::OtherHistory { position });
        }
        if !self.window.takes_claim(claim) {
            return match self.window.knows(claim.node) {
                true => Verdict::Ignored(Ignored::OlderClaim),
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
        if !self.window.are_new(&group.records) {
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

    /// That a group is the next one of the epoch in force.
    fn check_fence<'m>(&self, group: &Group<'m>) -> Result<Epoch, Verdict<'m>> {
        let unknown = Verdict::Alarm(Alarm::UnknownEpoch(group.epoch));
        let Some(epoch) = self.cursor.epoch else { return Err(unknown) };
        if !self.checks_epochs() {
            return Ok(epoch);
        }
        if group.epoch < epoch.offset {
            return Err(Verdict::Ignored(Ignored::OlderEpoch));
        }
        if group.epoch > epoch.offset {
            return Err(unknown);
        }
        if self.members.is_gone(epoch.node) {
            return Err(Verdict::Ignored(Ignored::Gone));
        }
        let expected = self.cursor.number.saturating_add(1);
        if group.number < expected {
            return Err(Verdict::Ignored(Ignored::Repeated));
        }
        if group.number > expected && self.checks_gaps() {
            return Err(Verdict::Alarm(Alarm::Gap { number: group.number, expected }));
        }
        Ok(epoch)
    }

    /// How far it has come.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The position of the last accepted record.
    pub fn position(&self) -> u64 {
        self.cursor.position
    }

    /// The epoch in force.
    pub fn epoch(&self) -> Option<Epoch> {
        self.cursor.epoch
    }

    /// The offset that is to come.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Whether a node does not belong to the cluster any longer.
    pub fn is_gone(&self, node: NodeId) -> bool {
        self.members.is_gone(node)
    }

    /// All nodes that were ever heard of, those that are gone included.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, MemberRow)> {
        self.members.iter()
    }

    /// The offset before which the log may be deleted: see [`deletable_before`](crate::retention::deletable_before).
    ///
    /// # Errors
    /// Nothing may be deleted.
    pub fn deletable_before(&self) -> Result<u64, Kept> {
        self.members.deletable_before()
    }

    /// The feature level in force: what nodes may write into the log. It never falls.
    pub fn level(&self) -> u64 {
        self.members.level()
    }

    /// The nodes that belong to the cluster, as far as they have told.
    pub fn registered(&self) -> BTreeSet<NodeId> {
        self.members.iter().filter(|(_, row)| !row.is_gone).map(|(node, _)| node).collect()
    }

    /// What the data of a node came to at a mark, as a message.
    pub fn digests_of(&self, node: NodeId, mark: u64, parts: &Parts) -> Vec<u8> {
        message::encode_digests(&self.keys, self.cursor.key, &self.cursor.generation, (node, mark), parts)
    }

    /// News of a node, as a message.
    pub fn news_of(&self, node: NodeId, news: News) -> Vec<u8> {
        let member = Member { node, news };
        message::encode_member(&self.keys, self.cursor.key, &self.cursor.generation, &member)
    }

    /// What is known of an operation.
    pub fn operation(&self, operation: &OperationId) -> Known {
        self.window.operation(operation)
    }

    /// Has it read no further.
    pub(crate) fn stop(&mut self, alarm: Alarm) {
        self.stopped.get_or_insert(alarm);
    }

    /// Why it reads no further, if it does not: see [`Alarm::stops`].
    pub fn stopped(&self) -> Option<Alarm> {
        self.stopped
    }

    /// The claim that `node` would make now, as a message.
    pub(crate) fn claim_of(&self, node: NodeId, incarnation: u64, attempt: u64) -> Vec<u8> {
        let Cursor { position, previous, .. } = self.cursor;
        let claim = Claim { node, incarnation, attempt, position, previous };
        message::encode_claim(&self.keys, self.cursor.key, &self.cursor.generation, &claim)
    }

    /// The next group of the epoch in force, as a message, and its tag; sealed, where it says as which proposal and the
    /// level in force has that. `None` where it cannot be.
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
