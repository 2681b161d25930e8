//! The bytes of a message in the log. `docs/reference/cluster-protocol.md` draws them.
//!
//! Every message begins with its version, its kind, the number of its key and the generation that it belongs to, and
//! ends with a tag under that key. The tag is verified before anything else is looked at.

mod keys;
mod records;

use std::borrow::Cow;

use crate::codec::{Reader, put_length};
use crate::digest::{Parts, RollingDigest};
use crate::key::{ClusterKey, KeyRing, Tag};
use crate::limits::{DIGEST_PARTS_MAX, KEYS_LEVEL, MESSAGE_BYTES_MAX, SLICES_LEVEL};
use crate::operation::NodeId;
pub use crate::round::SliceMark;
pub use keys::{KeyHolder, KeyOffer, KeyRotation};
pub(crate) use records::{Proposal, put_record};
pub use records::{Record, Records, record_size};

/// The version of messages that this build writes, and the newest that it reads.
pub const VERSION: u8 = 1;

const KIND_GENERATION: u8 = 1;
const KIND_CLAIM: u8 = 2;
const KIND_GROUP: u8 = 3;
const KIND_MEMBER: u8 = 4;
const KIND_MARK: u8 = 5;
const KIND_DIGESTS: u8 = 6;
const KIND_OFFER: u8 = 7;
const KIND_HOLDER: u8 = 8;
const KIND_ROTATION: u8 = 9;
const KIND_SEALED: u8 = 10;
const KIND_SLICE_MARK: u8 = 11;

const NEWS_DURABLE: u8 = 1;
const NEWS_SNAPSHOT: u8 = 2;
const NEWS_GONE: u8 = 3;
const NEWS_LEVEL: u8 = 4;

/// Version, kind, key, generation.
const HEAD_SIZE: usize = 1 + 1 + 4 + 16;
/// Epoch, number, first position, tag of the group before, count.
const GROUP_HEAD_SIZE: usize = 8 + 8 + 8 + Tag::SIZE + 4;
/// The size of a group without records, were it sealed.
pub const GROUP_SIZE_MIN: usize = HEAD_SIZE + GROUP_HEAD_SIZE + records::SEAL_SIZE + Tag::SIZE;

/// The identity of a generation: 16 random bytes; all zero for none.
pub type GenerationId = [u8; 16];

/// An authentic message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// Which generation it belongs to. For [`Body::Generation`] the one that begins.
    pub generation: GenerationId,
    /// What it says.
    pub body: Body<'m>,
    /// Its tag.
    pub tag: Tag,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'m> {
    /// All data is new from here on.
    Generation(Generation),
    /// A node wants to write.
    Claim(Claim),
    /// The writer's changes.
    Group(Group<'m>),
    /// News of a node.
    Member(Member),
    /// This node wants all to compare all data that they have here.
    Mark(NodeId),
    /// All compare a slice of the data that they have here.
    SliceMark(SliceMark),
    /// What the data of a node came to at a mark.
    Digests(Digests<'m>),
    /// There is a new key.
    Offer(KeyOffer<'m>),
    /// A node has it.
    Holder(KeyHolder<'m>),
    /// It comes in force.
    Rotation(KeyRotation),
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'m> {
    /// The offset of the writer's claim.
    pub epoch: u64,
    /// Counts the groups of the epoch, from 1, without holes.
    pub number: u64,
    /// The position of the first record.
    pub first_position: u64,
    /// The tag of the group (or generation) before it, of whatever epoch.
    pub previous: Tag,
    /// Whether only nodes can read its records.
    pub is_sealed: bool,
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
        decode(kind, reader, content, tag, keys.get(key)).ok_or(MessageError::Malformed)
    }

    /// The feature level that it takes.
    pub(crate) fn level(bytes: &[u8]) -> u64 {
        match bytes.get(1) {
            Some(KIND_SLICE_MARK..) => SLICES_LEVEL,
            Some(KIND_OFFER..) => KEYS_LEVEL,
            _ => 1,
        }
    }

    /// The number of the key that bytes say to be under.
    pub(crate) fn key(bytes: &[u8]) -> Option<u32> {
        bytes.get(2..)?.first_chunk().copied().map(u32::from_be_bytes)
    }
}

fn decode<'m>(
    kind: u8,
    mut reader: Reader<'m>,
    bytes: &[u8],
    tag: Tag,
    key: Option<&ClusterKey>,
) -> Option<Message<'m>> {
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
        KIND_SLICE_MARK => Body::SliceMark(SliceMark::decode(&mut reader)?),
        KIND_OFFER => Body::Offer(KeyOffer::decode(&mut reader)?),
        KIND_HOLDER => Body::Holder(KeyHolder::decode(&mut reader)?),
        KIND_ROTATION => Body::Rotation(KeyRotation::decode(&mut reader)?),
        KIND_GROUP | KIND_SEALED => {
            let is_sealed = kind == KIND_SEALED;
            let group = decode_group(&mut reader, is_sealed.then_some(key?), &generation, bytes)?;
            return Some(Message { generation, body: Body::Group(group), tag });
        }
        _ => return None,
    };
    reader.end()?;
    Some(Message { generation, body, tag })
}

/// A group, opened with the key where it is sealed. `message` is all of it but its tag.
fn decode_group<'m>(
    reader: &mut Reader<'m>,
    opens: Option<&ClusterKey>,
    generation: &GenerationId,
    message: &[u8],
) -> Option<Group<'m>> {
    let (epoch, number, first_position) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (previous, count) = (Tag(reader.array()?), reader.u32()?);
    let records = match opens {
        None => Cow::Borrowed(reader.0),
        Some(key) => {
            let proposal = Proposal::decode(reader)?;
            let head = message.get(..message.len().checked_sub(reader.0.len())?)?;
            Cow::Owned(proposal.open(key, generation, head, reader.0)?)
        }
    };
    let records = Records::decode(count, records)?;
    Some(Group { epoch, number, first_position, previous, is_sealed: opens.is_some(), records })
}

/// The message that begins the generation `id`, under the key of this number, and its tag.
pub fn encode_generation(
    keys: &KeyRing,
    key: u32,
    id: &GenerationId,
    generation: &Generation,
) -> (Vec<u8>, Tag) {
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

/// The message with which a node wants all data compared.
pub(crate) fn encode_mark(keys: &KeyRing, key: u32, generation: &GenerationId, node: NodeId) -> Vec<u8> {
    let mut out = head(key, KIND_MARK, generation);
    out.extend(node.0.to_be_bytes());
    sealed(keys, key, out).0
}

/// The message of a mark that names a slice.
pub(crate) fn encode_slice_mark(
    keys: &KeyRing,
    key: u32,
    generation: &GenerationId,
    mark: &SliceMark,
) -> Vec<u8> {
    let mut out = head(key, KIND_SLICE_MARK, generation);
    mark.put(&mut out);
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

/// The message of a group whose records are those that [`put_record`] encoded; sealed, where it says as which proposal.
/// `None` where it cannot be.
pub(crate) fn encode_group(
    keys: &KeyRing,
    group: &GroupHead,
    seal: Option<Proposal>,
    records: &[u8],
) -> Option<(Vec<u8>, Tag)> {
    let kind = if seal.is_some() { KIND_SEALED } else { KIND_GROUP };
    let mut out = head(group.key, kind, &group.generation);
    out.reserve(GROUP_SIZE_MIN + records.len());
    out.extend(group.epoch.to_be_bytes());
    out.extend(group.number.to_be_bytes());
    out.extend(group.first_position.to_be_bytes());
    out.extend(group.previous.0);
    out.extend(group.count.to_be_bytes());
    match seal {
        None => out.extend(records),
        Some(proposal) => {
            proposal.put(&mut out);
            proposal.seal(keys.get(group.key)?, &group.generation, &mut out, records)?;
        }
    }
    Some(sealed(keys, group.key, out))
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
    use crate::key::Fingerprint;
    use crate::operation::OperationId;
    use crate::round::{PlannedSlice, Slice};

    const GENERATION: GenerationId = [7; 16];

    fn keys() -> KeyRing {
        KeyRing::new(1, ClusterKey::new(&[1; 32]))
    }

    fn operation(sequence: u64) -> OperationId {
        OperationId { node: NodeId(3), incarnation: 2, sequence }
    }

    fn group() -> Vec<u8> {
        group_of(None)
    }

    fn group_of(seal: Option<Proposal>) -> Vec<u8> {
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
        encode_group(&keys(), &head, seal, &records).unwrap().0
    }

    #[test]
    fn a_group_comes_back() {
        let size = GROUP_SIZE_MIN + record_size(3) + record_size(0);
        let proposal = Proposal { node: NodeId(3), incarnation: 2, number: 1 };
        let sealed = group_of(Some(proposal));
        assert_eq!((group().len(), sealed.len()), (size - records::SEAL_SIZE, size));
        let holds = |bytes: &[u8]| bytes.windows(3).any(|window| window == b"one");
        assert!(holds(&group()) && !holds(&sealed), "what is sealed cannot be read");
        expect_group(&group(), false);
        expect_group(&sealed, true);
        let other = group_of(Some(Proposal { number: 2, ..proposal }));
        assert_ne!(sealed[sealed.len() - 60..], other[other.len() - 60..], "no two are alike");
    }

    /// Who has the key of the MAC and alters what is sealed does not get it past AES-GCM; neither does one who says
    /// something else of it.
    #[test]
    fn what_is_sealed_is_whole_or_nothing() {
        let bytes = group_of(Some(Proposal { node: NodeId(3), incarnation: 2, number: 1 }));
        let end = bytes.len() - Tag::SIZE;
        for at in HEAD_SIZE..end {
            let mut altered = bytes[..end].to_vec();
            altered[at] ^= 1;
            keys().seal(1, &mut altered);
            assert_eq!(Message::decode(&altered, &keys(), 1), Err(MessageError::Malformed), "octet {at}");
        }
    }

    fn expect_group(bytes: &[u8], is_sealed: bool) {
        let message = Message::decode(bytes, &keys(), 1).expect("it is whole");
        assert_eq!((message.generation, Some(message.tag)), (GENERATION, Tag::of_message(bytes)));
        let Body::Group(group) = message.body else { panic!("{message:?}") };
        assert_eq!(
            (group.epoch, group.number, group.first_position, group.previous, group.is_sealed),
            (5, 1, 8, Tag([9; 32]), is_sealed)
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
        let slice = Slice { from: b"a".to_vec(), to: b"b".to_vec() };
        let planned = PlannedSlice { slice, bytes: 7 };
        let mark = SliceMark { node: NodeId(6), round: 8, at: 9, planned };
        let bytes = encode_slice_mark(&keys(), 1, &GENERATION, &mark);
        assert_eq!(Message::level(&bytes), SLICES_LEVEL);
        let read = Message::decode(&bytes, &keys(), 1).map(|message| message.body);
        assert_eq!(read, Ok(Body::SliceMark(mark)));
        let (node, number, fingerprint) = (NodeId(4), 77, Fingerprint([8; 32]));
        let offer = KeyOffer { node, fingerprint, address: "host:1" };
        let holder = KeyHolder { node, number, address: "" };
        let rotation = KeyRotation { epoch: 9, number };
        let bodies = [
            (offer.encode(&keys(), 1, &GENERATION), Body::Offer(offer)),
            (holder.encode(&keys(), 1, &GENERATION), Body::Holder(holder)),
            (rotation.encode(&keys(), 1, &GENERATION), Body::Rotation(rotation)),
        ];
        for (bytes, body) in bodies {
            assert_eq!((Message::level(&bytes), Message::key(&bytes)), (KEYS_LEVEL, Some(1)));
            assert_eq!(Message::decode(&bytes, &keys(), 1).map(|message| message.body), Ok(body));
        }
        let generation = Generation { follows: [1; 16], position: 77 };
        let (bytes, tag) = encode_generation(&keys(), 1, &GENERATION, &generation);
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
        check(|bytes| bytes[1] = 12, MessageError::Malformed);
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
