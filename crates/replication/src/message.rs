//! The bytes of a message in the log. `docs/reference/cluster-protocol.md` draws them.
//!
//! Every message begins with its version, its kind, the number of its key and the generation that it belongs to, and
//! ends with a tag under that key. The tag is verified before anything else is looked at.

use crate::codec::{Reader, put_length, put_operation};
use crate::digest::{Parts, RollingDigest};
use crate::key::{KeyRing, Tag};
use crate::limits::{DIGEST_PARTS_MAX, GROUP_RECORDS_MAX, MESSAGE_BYTES_MAX};
use crate::operation::{NodeId, OperationId};

/// The version of messages that this build writes, and the newest that it reads.
pub const VERSION: u8 = 1;

const KIND_GENERATION: u8 = 1;
const KIND_CLAIM: u8 = 2;
const KIND_GROUP: u8 = 3;
const KIND_MEMBER: u8 = 4;
const KIND_MARK: u8 = 5;
const KIND_DIGESTS: u8 = 6;

const NEWS_DURABLE: u8 = 1;
const NEWS_SNAPSHOT: u8 = 2;
const NEWS_GONE: u8 = 3;
const NEWS_LEVEL: u8 = 4;

/// Version, kind, key, generation.
const HEAD_SIZE: usize = 1 + 1 + 4 + 16;
/// Epoch, number, first position, tag of the group before, count.
const GROUP_HEAD_SIZE: usize = 8 + 8 + 8 + Tag::SIZE + 4;
/// Operation id and length.
const RECORD_HEAD_SIZE: usize = 4 + 8 + 8 + 4;

/// The size of a group without records.
pub const GROUP_SIZE_MIN: usize = HEAD_SIZE + GROUP_HEAD_SIZE + Tag::SIZE;

/// How much of a group a record of `length` bytes takes.
pub const fn record_size(length: usize) -> usize {
    RECORD_HEAD_SIZE + length
}

/// The identity of a generation: 16 random bytes; all zero for none.
pub type GenerationId = [u8; 16];

/// An authentic message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// Which generation it belongs to. For [`Body::Generation`] the one that begins.
    pub generation: GenerationId,
    /// What it says.
    pub body: Body<'m>,
    /// Its tag.
    pub tag: Tag,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'m> {
    /// All data is new from here on.
    Generation(Generation),
    /// A node wants to write.
    Claim(Claim),
    /// The writer's changes.
    Group(Group<'m>),
    /// News of a node.
    Member(Member),
    /// This node wants all to compare the data that they have here.
    Mark(NodeId),
    /// What the data of a node came to at a mark.
    Digests(Digests<'m>),
}

/// The beginning of a generation: data that did not come about by records, such as an import. Every node takes a
/// snapshot of it and goes on behind this message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The generation that ends, zero if this is the first message of the topic. Of two that follow the same one, the
    /// first in the log holds.
    pub follows: GenerationId,
    /// The position of the snapshot. The next record has the one behind it.
    pub position: u64,
}

/// The claim of a node to write. It becomes the epoch that its offset names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who.
    pub node: NodeId,
    /// Which start of its process.
    pub incarnation: u64,
    /// Counts the claims of that incarnation, from 1. A claim that lands behind a later one of its node is void.
    pub attempt: u64,
    /// The position that the claimant had read up to when it wrote the claim.
    pub position: u64,
    /// The tag of the last group or generation that it had accepted.
    pub previous: Tag,
}

/// News of a node: of its own, or of one that is gone. They need no writer and no order among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub node: NodeId,
    /// What is new.
    pub news: News,
}

/// What is new of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It belongs to the cluster, and its last durable commit is at this offset.
    Durable(u64),
    /// A snapshot of this offset is kept on its machine, and was read back whole.
    Snapshot(u64),
    /// It does not belong to the cluster any longer, and never will again.
    Gone,
    /// The highest feature level that its build knows.
    Level(u64),
}

/// Records that are accepted together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'m> {
    /// The offset of the writer's claim.
    pub epoch: u64,
    /// Counts the groups of the epoch, from 1, without holes.
    pub number: u64,
    /// The position of the first record.
    pub first_position: u64,
    /// The tag of the group (or generation) before it, of whatever epoch.
    pub previous: Tag,
    /// At least one.
    pub records: Records<'m>,
}

/// The digests of a node's data at a mark, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests<'m> {
    /// Whose.
    pub node: NodeId,
    /// The offset of the mark.
    pub mark: u64,
    /// Known to be whole.
    parts: &'m [u8],
}

impl<'m> Digests<'m> {
    fn decode(reader: &mut Reader<'m>) -> Option<Digests<'m>> {
        let digests = Digests { node: NodeId(reader.u32()?), mark: reader.u64()?, parts: reader.0 };
        read_parts(reader)?;
        Some(digests)
    }

    /// The digests.
    pub fn parts(&self) -> Parts {
        read_parts(&mut Reader(self.parts)).unwrap_or_default()
    }
}

fn read_parts(reader: &mut Reader<'_>) -> Option<Parts> {
    let count = usize::try_from(reader.u32()?).ok().filter(|count| *count <= DIGEST_PARTS_MAX)?;
    let mut parts = Parts::new();
    for _ in 0..count {
        let name = std::str::from_utf8(reader.bytes()?).ok()?.to_owned();
        parts.insert(name, RollingDigest::of_bytes(reader.array()?));
    }
    reader.end()?;
    (parts.len() == count).then_some(parts)
}

/// One record in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'m> {
    /// Which operation it is the effect of.
    pub operation: OperationId,
    /// The record.
    pub bytes: &'m [u8],
}

/// The records of a group, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Records<'m> {
    /// Known to be whole.
    bytes: &'m [u8],
    count: u32,
}

impl<'m> Records<'m> {
    /// How many they are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Record<'m>> + use<'m> {
        let mut reader = Reader(self.bytes);
        std::iter::from_fn(move || record(&mut reader))
    }

    fn decode(count: u32, reader: &mut Reader<'m>) -> Option<Records<'m>> {
        let is_possible = (1..=GROUP_RECORDS_MAX).contains(&usize::try_from(count).ok()?);
        let whole = Records { bytes: is_possible.then_some(reader.0)?, count };
        for _ in 0..count {
            record(reader)?;
        }
        reader.end()?;
        Some(whole)
    }
}

impl std::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records", self.count)
    }
}

fn record<'m>(reader: &mut Reader<'m>) -> Option<Record<'m>> {
    Some(Record { operation: reader.operation()?, bytes: reader.bytes()? })
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Whoever wrote it does not have the key of the cluster, or this node does not have it.
    #[error("it is not authentic under a key that this node knows")]
    NotAuthentic,
    /// A node of a newer build wrote it.
    #[error("it has version {0}, which this build does not know")]
    NewerVersion(u8),
    /// It is authentic and makes no sense.
    #[error("it is authentic and cannot be read")]
    Malformed,
}

impl<'m> Message<'m> {
    /// Reads a message, which must be under the key of this number.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &'m [u8], keys: &KeyRing, key: u32) -> Result<Message<'m>, MessageError> {
        let (content, tag) = bytes.split_last_chunk().ok_or(MessageError::NotAuthentic)?;
        let tag = Tag(*tag);
        let mut reader = Reader(content);
        let (Some(version), Some(kind), Some(named)) = (reader.u8(), reader.u8(), reader.u32()) else {
            return Err(MessageError::NotAuthentic);
        };
        if bytes.len() > MESSAGE_BYTES_MAX || named != key || !keys.is_authentic(key, content, &tag) {
            return Err(MessageError::NotAuthentic);
        }
        if version != VERSION {
            return Err(MessageError::NewerVersion(version));
        }
        decode(kind, reader, tag).ok_or(MessageError::Malformed)
    }
}

fn decode<'m>(kind: u8, mut reader: Reader<'m>, tag: Tag) -> Option<Message<'m>> {
    let generation = reader.array()?;
    let body = match kind {
        KIND_GENERATION => Body::Generation(Generation { follows: reader.array()?, position: reader.u64()? }),
        KIND_CLAIM => Body::Claim(Claim {
            node: NodeId(reader.u32()?),
            incarnation: reader.u64()?,
            attempt: reader.u64()?,
            position: reader.u64()?,
            previous: Tag(reader.array()?),
        }),
        KIND_MEMBER => {
            let (node, news, offset) = (NodeId(reader.u32()?), reader.u8()?, reader.u64()?);
            let news = match news {
                NEWS_DURABLE => News::Durable(offset),
                NEWS_SNAPSHOT => News::Snapshot(offset),
                NEWS_GONE if offset == 0 => News::Gone,
                NEWS_LEVEL => News::Level(offset),
                _ => return None,
            };
            Body::Member(Member { node, news })
        }
        KIND_MARK => Body::Mark(NodeId(reader.u32()?)),
        KIND_DIGESTS => {
            let body = Body::Digests(Digests::decode(&mut reader)?);
            return Some(Message { generation, body, tag });
        }
        KIND_GROUP => {
            let (epoch, number, first_position) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let (previous, count) = (Tag(reader.array()?), reader.u32()?);
            let records = Records::decode(count, &mut reader)?;
            return Some(Message {
                generation,
                body: Body::Group(Group { epoch, number, first_position, previous, records }),
                tag,
            });
        }
        _ => return None,
    };
    reader.end()?;
    Some(Message { generation, body, tag })
}

/// The message that begins the generation `id`, and its tag.
pub fn encode_generation(keys: &KeyRing, id: &GenerationId, generation: &Generation) -> (Vec<u8>, Tag) {
    let key = keys.current_id();
    let mut out = head(key, KIND_GENERATION, id);
    out.extend(generation.follows);
    out.extend(generation.position.to_be_bytes());
    sealed(keys, key, out)
}

/// The message of a claim under the key of this number.
pub fn encode_claim(keys: &KeyRing, key: u32, generation: &GenerationId, claim: &Claim) -> Vec<u8> {
    let mut out = head(key, KIND_CLAIM, generation);
    out.extend(claim.node.0.to_be_bytes());
    out.extend(claim.incarnation.to_be_bytes());
    out.extend(claim.attempt.to_be_bytes());
    out.extend(claim.position.to_be_bytes());
    out.extend(claim.previous.0);
    sealed(keys, key, out).0
}

/// The message of a node's news under the key of this number.
pub(crate) fn encode_member(keys: &KeyRing, key: u32, generation: &GenerationId, member: &Member) -> Vec<u8> {
    let mut out = head(key, KIND_MEMBER, generation);
    out.extend(member.node.0.to_be_bytes());
    let (news, offset) = match member.news {
        News::Durable(offset) => (NEWS_DURABLE, offset),
        News::Snapshot(offset) => (NEWS_SNAPSHOT, offset),
        News::Gone => (NEWS_GONE, 0),
        News::Level(level) => (NEWS_LEVEL, level),
    };
    out.push(news);
    out.extend(offset.to_be_bytes());
    sealed(keys, key, out).0
}

/// The message with which a node wants the data compared.
pub(crate) fn encode_mark(keys: &KeyRing, key: u32, generation: &GenerationId, node: NodeId) -> Vec<u8> {
    let mut out = head(key, KIND_MARK, generation);
    out.extend(node.0.to_be_bytes());
    sealed(keys, key, out).0
}

/// The message of a node's digests at a mark. Parts beyond the most that may be are left out.
pub(crate) fn encode_digests(
    keys: &KeyRing,
    key: u32,
    generation: &GenerationId,
    (node, mark): (NodeId, u64),
    parts: &Parts,
) -> Vec<u8> {
    let mut out = head(key, KIND_DIGESTS, generation);
    out.extend(node.0.to_be_bytes());
    out.extend(mark.to_be_bytes());
    put_length(&mut out, parts.len().min(DIGEST_PARTS_MAX));
    for (name, digest) in parts.iter().take(DIGEST_PARTS_MAX) {
        put_length(&mut out, name.len());
        out.extend(name.as_bytes());
        out.extend(digest.to_bytes());
    }
    sealed(keys, key, out).0
}

/// The head of a group, before its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupHead {
    pub(crate) key: u32,
    pub(crate) generation: GenerationId,
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) first_position: u64,
    pub(crate) previous: Tag,
    pub(crate) count: u32,
}

/// The message of a group whose records are those that [`put_record`] encoded.
pub(crate) fn encode_group(keys: &KeyRing, group: &GroupHead, records: &[u8]) -> (Vec<u8>, Tag) {
    let mut out = head(group.key, KIND_GROUP, &group.generation);
    out.reserve(GROUP_SIZE_MIN + records.len());
    out.extend(group.epoch.to_be_bytes());
    out.extend(group.number.to_be_bytes());
    out.extend(group.first_position.to_be_bytes());
    out.extend(group.previous.0);
    out.extend(group.count.to_be_bytes());
    out.extend(records);
    sealed(keys, group.key, out)
}

pub(crate) fn put_record(out: &mut Vec<u8>, operation: &OperationId, bytes: &[u8]) {
    put_operation(out, operation);
    put_length(out, bytes.len());
    out.extend(bytes);
}

fn head(key: u32, kind: u8, generation: &GenerationId) -> Vec<u8> {
    let mut out = vec![VERSION, kind];
    out.extend(key.to_be_bytes());
    out.extend(generation);
    out
}

fn sealed(keys: &KeyRing, key: u32, mut out: Vec<u8>) -> (Vec<u8>, Tag) {
    let tag = keys.seal(key, &mut out);
    (out, tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ClusterKey;

    const GENERATION: GenerationId = [7; 16];

    fn keys() -> KeyRing {
        KeyRing::new(1, ClusterKey::new(&[1; 32]))
    }

    fn operation(sequence: u64) -> OperationId {
        OperationId { node: NodeId(3), incarnation: 2, sequence }
    }

    fn group() -> Vec<u8> {
        let mut records = Vec::new();
        put_record(&mut records, &operation(1), b"one");
        put_record(&mut records, &operation(2), b"");
        let previous = Tag([9; 32]);
        let head = GroupHead {
            key: 1,
            generation: GENERATION,
            epoch: 5,
            number: 1,
            first_position: 8,
            previous,
            count: 2,
        };
        encode_group(&keys(), &head, &records).0
    }

    #[test]
    fn a_group_comes_back() {
        let bytes = group();
        assert_eq!(bytes.len(), GROUP_SIZE_MIN + record_size(3) + record_size(0));
        let message = Message::decode(&bytes, &keys(), 1).expect("it is whole");
        assert_eq!((message.generation, Some(message.tag)), (GENERATION, Tag::of_message(&bytes)));
        let Body::Group(group) = message.body else { panic!("{message:?}") };
        assert_eq!(
            (group.epoch, group.number, group.first_position, group.previous),
            (5, 1, 8, Tag([9; 32]))
        );
        let records: Vec<_> = group.records.iter().map(|record| (record.operation, record.bytes)).collect();
        assert_eq!(records, [(operation(1), &b"one"[..]), (operation(2), &b""[..])]);
    }

    #[test]
    fn claims_and_generations_come_back() {
        let previous = Tag([4; 32]);
        let claim = Claim { node: NodeId(1), incarnation: 2, attempt: 3, position: 4, previous };
        let bytes = encode_claim(&keys(), 1, &GENERATION, &claim);
        assert_eq!(Message::decode(&bytes, &keys(), 1).map(|message| message.body), Ok(Body::Claim(claim)));
        for news in [News::Durable(5), News::Snapshot(6), News::Gone, News::Level(7)] {
            let member = Member { node: NodeId(8), news };
            let bytes = encode_member(&keys(), 1, &GENERATION, &member);
            let read = Message::decode(&bytes, &keys(), 1).map(|message| message.body);
            assert_eq!(read, Ok(Body::Member(member)));
        }
        let bytes = encode_mark(&keys(), 1, &GENERATION, NodeId(6));
        let read = Message::decode(&bytes, &keys(), 1).map(|message| message.body);
        assert_eq!(read, Ok(Body::Mark(NodeId(6))));
        let generation = Generation { follows: [1; 16], position: 77 };
        let (bytes, tag) = encode_generation(&keys(), &GENERATION, &generation);
        let body = Body::Generation(generation);
        assert_eq!(Message::decode(&bytes, &keys(), 1), Ok(Message { generation: GENERATION, body, tag }));
    }

    #[test]
    fn digests_come_back() {
        let mut digest = RollingDigest::default();
        digest.add(b"key", b"value");
        let parts =
            Parts::from([("dc=example".to_owned(), digest), ("settings".to_owned(), Default::default())]);
        for parts in [parts, Parts::new()] {
            let bytes = encode_digests(&keys(), 1, &GENERATION, (NodeId(2), 9), &parts);
            let message = Message::decode(&bytes, &keys(), 1).expect("it is whole");
            let Body::Digests(digests) = message.body else { panic!("{message:?}") };
            assert_eq!((digests.node, digests.mark, digests.parts()), (NodeId(2), 9, parts));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = group();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Message::decode(&flipped, &keys(), 1), Err(MessageError::NotAuthentic), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(Message::decode(&bytes[..length], &keys(), 1), Err(MessageError::NotAuthentic));
        }
    }

    #[test]
    fn the_key_is_the_one_that_the_message_names() {
        let newer = KeyRing::new(2, ClusterKey::new(&[2; 32]));
        assert_eq!(Message::decode(&group(), &newer, 1), Err(MessageError::NotAuthentic));
        let both = newer.with(1, ClusterKey::new(&[1; 32]));
        assert!(Message::decode(&group(), &both, 1).is_ok());
        assert_eq!(Message::decode(&group(), &both, 2), Err(MessageError::NotAuthentic));
    }

    /// Authentic bytes of other builds, or of a build with a fault.
    #[test]
    fn what_is_authentic_may_still_be_refused() {
        fn check(change: impl Fn(&mut Vec<u8>), expected: MessageError) {
            let mut bytes = group();
            bytes.truncate(bytes.len() - Tag::SIZE);
            change(&mut bytes);
            keys().seal(1, &mut bytes);
            assert_eq!(Message::decode(&bytes, &keys(), 1), Err(expected));
        }
        let count_at = HEAD_SIZE + GROUP_HEAD_SIZE - 1;
        check(|bytes| bytes[0] = 2, MessageError::NewerVersion(2));
        check(|bytes| bytes[1] = 9, MessageError::Malformed);
        check(|bytes| bytes[count_at] = 1, MessageError::Malformed);
        check(|bytes| bytes[count_at] = 3, MessageError::Malformed);
        check(|bytes| bytes[count_at - 3] = 0xff, MessageError::Malformed);
        check(|bytes| bytes.truncate(bytes.len() - 1), MessageError::Malformed);
        check(|bytes| bytes.push(0), MessageError::Malformed);
        check(|bytes| bytes.truncate(HEAD_SIZE + 3), MessageError::Malformed);
        check(
            |bytes| {
                bytes[count_at] = 0;
                bytes.truncate(count_at + 1);
            },
            MessageError::Malformed,
        );
    }
}
