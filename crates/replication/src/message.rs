//! Encoding of the messages in the log. `docs/reference/cluster-protocol.md` defines their meaning.
//!
//! Every message begins with its version, its kind, the number of its key and its generation, and ends with a tag under
//! that key. The tag is verified before anything else is read. Integers are unsigned and big-endian; sizes are in
//! bytes. An *address* is a length (4) of at most 160 and that many bytes of UTF-8; a *point* is a length (4) of at
//! most 512 and that many bytes.
//!
//! ```text
//! version, 1 (1) | kind (1) | number of the key (4) | generation (16) | body | tag (32)
//!
//!   1 generation    the generation that it follows (16), zero for none; position of its snapshot (8). The head of the
//!                   message names the new generation
//!  2 claim         node (4); incarnation (8): number of this start of the node's process, increasing, from 1; attempt
//!                  (8): number of the claim in the incarnation, from 1; position that the claimant had read up to (8);
//!                  tag of the last group or generation that it had accepted (32)
//!  3 group         epoch (8): offset of the writer's claim; number in the epoch, from 1, without holes (8); position
//!                  of the first record (8); tag of the previous group or generation, of any epoch (32); number of
//!                  records, 1 to 65,536 (4); for each its operation id: node (4), incarnation (8), sequence (8);
//!                  length (4); the record
//!  4 announcement  node (4); type (1): 1 durable, 2 snapshot, 3 has left, 4 level; offset of the last message accepted
//!                  by then, zero for type 3, the level for type 4 (8)
//!  5 mark          node that requests it (4)
//!  6 digests       node (4); offset of the mark (8); number of parts, at most 1,024 (4); for each the length of its
//!                  name (4), the name in UTF-8, its digest (32)
//!  7 offer         node (4); fingerprint of the key (32): HMAC-SHA-256 of `pando cluster key` under it; address. The
//!                  number of a key is the first four bytes of its fingerprint, or 2 if that is less; the first key
//!                  of a cluster has the number 1
//!  8 holder        node (4); number of the key (4); address
//!  9 rotation      epoch (8); number of the key (4)
//! 10 sealed group  as 3 up to the number of records; node (4), incarnation (8), number (8) of the proposal; the
//!                  records, encrypted with AES-256-GCM (NIST SP 800-38D), and its tag (16)
//! 11 slice mark    node that requests it (4); round of the generation, from 1, or 0 for a slice that is compared again
//!                  (8); time of the request, in seconds since 1970 (8); size of the slice in bytes, as measured by
//!                  that node (8); first point, empty for the first row; end point, empty for the end of the data
//! ```

mod keys;
mod records;

use std::borrow::Cow;

use crate::codec::Reader;
use crate::digest::{Parts, put_parts, read_parts};
use crate::key::{ClusterKey, KeyRing, Tag};
use crate::limits::{KEYS_LEVEL, MESSAGE_BYTES_MAX, SLICES_LEVEL};
use crate::operation::NodeId;
pub use crate::round::SliceMark;
pub use keys::{KeyHolder, KeyOffer, KeyRotation};
pub(crate) use records::{Proposal, put_record};
pub use records::{Record, Records, record_size};

/// Version of messages that this build writes, and the newest that it reads.
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

const ANNOUNCE_DURABLE: u8 = 1;
const ANNOUNCE_SNAPSHOT: u8 = 2;
const ANNOUNCE_LEAVING: u8 = 3;
const ANNOUNCE_LEVEL: u8 = 4;

/// Bytes of version, kind, key, generation.
const HEAD_SIZE: usize = 1 + 1 + 4 + 16;
/// Bytes of epoch, number, first position, tag of the previous group, and record count.
const GROUP_HEAD_SIZE: usize = 8 + 8 + 8 + Tag::SIZE + 4;
/// Size of a sealed group without records.
pub const GROUP_SIZE_MIN: usize = HEAD_SIZE + GROUP_HEAD_SIZE + records::SEAL_SIZE + Tag::SIZE;

/// Identity of a generation: 16 random bytes; all zero for none.
pub type GenerationId = [u8; 16];

/// Message whose tag is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// Generation that the message belongs to. For [`Body::Generation`], the generation that begins.
    pub generation: GenerationId,
    /// Content of the message.
    pub body: Body<'m>,
    /// Tag of the message.
    pub tag: Tag,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'m> {
    /// A new generation of the data begins.
    Generation(Generation),
    /// A node claims the right to write.
    Claim(Claim),
    /// Changes of the writer.
    Group(Group<'m>),
    /// Announcement of a node.
    Member(Member),
    /// Digest barrier, set by this node: all nodes compare all data.
    Mark(NodeId),
    /// Digest barrier: all nodes compare a slice of the data.
    SliceMark(SliceMark),
    /// Digests of a node's data at a digest barrier.
    Digests(Digests<'m>),
    /// A node offers a new key.
    Offer(KeyOffer<'m>),
    /// A node has stored the offered key.
    Holder(KeyHolder<'m>),
    /// The offered key takes effect.
    Rotation(KeyRotation),
}

/// Beginning of a generation. The initial data of a generation was not produced by records of the log: it was imported,
/// for example. Every node takes a snapshot of that data and continues after this message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Generation that ends; zero if this is the first message of the topic. If two messages follow the same
    /// generation, the first of these messages in the log is accepted.
    pub follows: GenerationId,
    /// Position of the snapshot. The next record has the next position.
    pub position: u64,
}

/// Claim of a node to write. The offset of the claim names the epoch that the claim begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Claimant.
    pub node: NodeId,
    /// Incarnation of the claimant: the number of the start of its process.
    pub incarnation: u64,
    /// Number of the claim within the incarnation, from 1. A claim has no effect after a later claim of the same node.
    pub attempt: u64,
    /// Position that the claimant had read up to when it encoded the claim.
    pub position: u64,
    /// Tag of the last group or generation that the claimant had accepted.
    pub previous: Tag,
}

/// Announcement of a node about itself, or about another node that has left. Announcements need no writer, and their
/// order does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Node that the announcement is about.
    pub node: NodeId,
    /// The announcement.
    pub announcement: Announcement,
}

/// Announcement about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// The node belongs to the cluster, and its last durable commit is at this offset.
    Durable(u64),
    /// The node's machine has a snapshot at this offset, and has read the snapshot back completely.
    Snapshot(u64),
    /// The node has left the cluster and never returns.
    Left,
    /// Highest feature level that the node's build supports.
    Level(u64),
}

/// Group of records that are accepted together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'m> {
    /// Offset of the writer's claim.
    pub epoch: u64,
    /// Number of the group in the epoch, from 1, without gaps.
    pub number: u64,
    /// Position of the first record.
    pub first_position: u64,
    /// Tag of the previous group or generation, in any epoch.
    pub previous: Tag,
    /// Whether the records are encrypted.
    pub is_sealed: bool,
    /// The records; at least one.
    pub records: Records<'m>,
}

/// Digests of a node's data at a digest barrier, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests<'m> {
    /// Node that computed the digests.
    pub node: NodeId,
    /// Offset of the digest barrier.
    pub mark: u64,
    /// Encoded digests, known to be complete.
    parts: &'m [u8],
}

impl<'m> Digests<'m> {
    fn decode(reader: &mut Reader<'m>) -> Option<Digests<'m>> {
        let digests = Digests { node: NodeId(reader.u32()?), mark: reader.u64()?, parts: reader.0 };
        read_parts(reader)?;
        Some(digests)
    }

    /// Decodes the digests.
    pub fn parts(&self) -> Parts {
        read_parts(&mut Reader(self.parts)).unwrap_or_default()
    }
}

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The tag does not match, the message names a key other than the key in force, or the length is impossible.
    #[error("it is not authentic under a key that this node knows")]
    NotAuthentic,
    /// A newer build wrote the message.
    #[error("it has version {0}, which this build does not know")]
    NewerVersion(u8),
    /// The tag is valid but the content is not.
    #[error("it is authentic and cannot be read")]
    Malformed,
}

impl<'m> Message<'m> {
    /// Decodes a message. The message must be authenticated with the key of this number.
    ///
    /// # Errors
    /// The bytes are not a valid message.
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

    /// Returns the feature level that a node needs to read the message.
    pub(crate) fn level(bytes: &[u8]) -> u64 {
        match bytes.get(1) {
            Some(KIND_SLICE_MARK..) => SLICES_LEVEL,
            Some(KIND_OFFER..) => KEYS_LEVEL,
            _ => 1,
        }
    }

    /// Returns the number of the key that the message names.
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
            let (node, announcement, offset) = (NodeId(reader.u32()?), reader.u8()?, reader.u64()?);
            let announcement = match announcement {
                ANNOUNCE_DURABLE => Announcement::Durable(offset),
                ANNOUNCE_SNAPSHOT => Announcement::Snapshot(offset),
                ANNOUNCE_LEAVING if offset == 0 => Announcement::Left,
                ANNOUNCE_LEVEL => Announcement::Level(offset),
                _ => return None,
            };
            Body::Member(Member { node, announcement })
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

/// Decodes a group, and decrypts it if it is sealed. `message` is the whole message without its tag.
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

/// Encodes the message that begins the generation `id`, under the key with number `key`, and returns it with its tag.
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

/// Encodes a claim under the key with number `key`.
pub fn encode_claim(keys: &KeyRing, key: u32, generation: &GenerationId, claim: &Claim) -> Vec<u8> {
    let mut out = head(key, KIND_CLAIM, generation);
    out.extend(claim.node.0.to_be_bytes());
    out.extend(claim.incarnation.to_be_bytes());
    out.extend(claim.attempt.to_be_bytes());
    out.extend(claim.position.to_be_bytes());
    out.extend(claim.previous.0);
    sealed(keys, key, out).0
}

/// Encodes an announcement under the key with number `key`.
pub(crate) fn encode_member(keys: &KeyRing, key: u32, generation: &GenerationId, member: &Member) -> Vec<u8> {
    let mut out = head(key, KIND_MEMBER, generation);
    out.extend(member.node.0.to_be_bytes());
    let (announcement, offset) = match member.announcement {
        Announcement::Durable(offset) => (ANNOUNCE_DURABLE, offset),
        Announcement::Snapshot(offset) => (ANNOUNCE_SNAPSHOT, offset),
        Announcement::Left => (ANNOUNCE_LEAVING, 0),
        Announcement::Level(level) => (ANNOUNCE_LEVEL, level),
    };
    out.push(announcement);
    out.extend(offset.to_be_bytes());
    sealed(keys, key, out).0
}

/// Encodes a digest barrier for all data.
pub(crate) fn encode_mark(keys: &KeyRing, key: u32, generation: &GenerationId, node: NodeId) -> Vec<u8> {
    let mut out = head(key, KIND_MARK, generation);
    out.extend(node.0.to_be_bytes());
    sealed(keys, key, out).0
}

/// Encodes a digest barrier for a slice.
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

/// Encodes a node's digests at a digest barrier. Parts beyond the limit are left out.
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
    put_parts(&mut out, parts);
    sealed(keys, key, out).0
}

/// Head of a group, before its records.
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

/// Encodes a group. `records` were encoded by [`put_record`]. Seals (encrypts) the group if a proposal is given.
/// Returns `None` if the group cannot be encoded.
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
    use crate::digest::RollingDigest;
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
    fn a_group_decodes_as_encoded() {
        let size = GROUP_SIZE_MIN + record_size(3) + record_size(0);
        let proposal = Proposal { node: NodeId(3), incarnation: 2, number: 1 };
        let sealed = group_of(Some(proposal));
        assert_eq!((group().len(), sealed.len()), (size - records::SEAL_SIZE, size));
        let holds = |bytes: &[u8]| bytes.windows(3).any(|window| window == b"one");
        assert!(holds(&group()) && !holds(&sealed), "sealed records cannot be read");
        expect_group(&group(), false);
        expect_group(&sealed, true);
        let other = group_of(Some(Proposal { number: 2, ..proposal }));
        assert_ne!(sealed[sealed.len() - 60..], other[other.len() - 60..], "no two encryptions are equal");
    }

    /// AES-GCM rejects altered bytes of a sealed group or of its head, even if the attacker has the key of the MAC.
    #[test]
    fn rejects_a_sealed_group_with_any_altered_byte() {
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
        let message = Message::decode(bytes, &keys(), 1).expect("the message decodes");
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
    fn claims_and_generations_decode_as_encoded() {
        let previous = Tag([4; 32]);
        let claim = Claim { node: NodeId(1), incarnation: 2, attempt: 3, position: 4, previous };
        let bytes = encode_claim(&keys(), 1, &GENERATION, &claim);
        assert_eq!(Message::decode(&bytes, &keys(), 1).map(|message| message.body), Ok(Body::Claim(claim)));
        for announcement in
            [Announcement::Durable(5), Announcement::Snapshot(6), Announcement::Left, Announcement::Level(7)]
        {
            let member = Member { node: NodeId(8), announcement };
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
    fn digests_decode_as_encoded() {
        let mut digest = RollingDigest::default();
        digest.add(b"key", b"value");
        let parts =
            Parts::from([("dc=example".to_owned(), digest), ("settings".to_owned(), Default::default())]);
        for parts in [parts, Parts::new()] {
            let bytes = encode_digests(&keys(), 1, &GENERATION, (NodeId(2), 9), &parts);
            let message = Message::decode(&bytes, &keys(), 1).expect("the message decodes");
            let Body::Digests(digests) = message.body else { panic!("{message:?}") };
            assert_eq!((digests.node, digests.mark, digests.parts()), (NodeId(2), 9, parts));
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
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
    fn a_message_is_decoded_with_the_key_that_it_names() {
        let newer = KeyRing::new(2, ClusterKey::new(&[2; 32]));
        assert_eq!(Message::decode(&group(), &newer, 1), Err(MessageError::NotAuthentic));
        let both = newer.with(1, ClusterKey::new(&[1; 32]));
        assert!(Message::decode(&group(), &both, 1).is_ok());
        assert_eq!(Message::decode(&group(), &both, 2), Err(MessageError::NotAuthentic));
    }

    /// Another build or a faulty node may send messages that are malformed but authentic.
    #[test]
    fn rejects_malformed_messages_with_a_valid_tag() {
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
