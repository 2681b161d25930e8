//! Rows with the state of the protocol. They are committed together with the records that changed the state.
//!
//! | key | value |
//! |---|---|
//! | `c` | the [`Cursor`]: topic, generation, key, last message, last group |
//! | `n`, node (4) | a node's last claim: incarnation, attempt; the floor of its operation ids: incarnation, sequence |
//! | `l` | the feature level in force (8), if it was ever raised |
//! | `m`, node (4) | flags: 1 has left, 2 and 4 the offsets are present; durable commit (8), snapshot (8) |
//! | `k` | whether a key is due (1); of an offer: its offset (8), node (4), fingerprint (32), address |
//! | `h`, node (4) | the address of a node that has the offered key |
//! | `r` | the round of comparisons: five numbers (8), the start of the next slice (length (4), point) |
//! | `o`, node (4), incarnation (8), sequence (8) | the position of an applied operation |

use crate::codec::{Reader, put_operation};
use crate::key::{Fingerprint, Tag};
use crate::limits::LEVEL_MAX;
use crate::message::GenerationId;
use crate::operation::{NodeId, OperationId};
use crate::round::Round;

const CURSOR_KEY: &[u8] = b"c";
const LEVEL_KEY: &[u8] = b"l";
const ROTATION_KEY: &[u8] = b"k";
const ROUND_KEY: &[u8] = b"r";
const HOLDER_PREFIX: u8 = b'h';
const NODE_PREFIX: u8 = b'n';
const OPERATION_PREFIX: u8 = b'o';
const MEMBER_PREFIX: u8 = b'm';
const MEMBER_LEFT: u8 = 1;
const MEMBER_DURABLE: u8 = 2;
const MEMBER_SNAPSHOT: u8 = 4;
const CURSOR_VERSION: u8 = 1;

/// Row to write, or to delete if it has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// Key, at most 40 bytes.
    pub key: Vec<u8>,
    /// Value, at most 640 bytes.
    pub value: Option<Vec<u8>>,
}

/// State of a member of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberRow {
    /// Whether the node has left or was unregistered. Such a node never belongs to the cluster again.
    pub has_left: bool,
    /// Offset of the last durable commit that the node has announced.
    pub durable: Option<u64>,
    /// Offset of the newest verified snapshot on the node's machine.
    pub snapshot: Option<u64>,
    /// Highest feature level that the node's build supports.
    pub level: u64,
}

/// New key that a node offers to the other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedKey {
    /// Offset of the message with the offer.
    pub offset: u64,
    /// Node that made the key.
    pub node: NodeId,
    /// Fingerprint of the key.
    pub fingerprint: Fingerprint,
    /// Address of the node that made the key.
    pub address: String,
}

/// Progress of a node: its state after the last message that it accepted. Ignored messages do not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Identity of the topic.
    pub topic: [u8; 16],
    /// Generation of the data.
    pub generation: GenerationId,
    /// Number of the key in force.
    pub key: u32,
    /// Offset of the last accepted message.
    pub offset: u64,
    /// Tag of the last accepted message. When the node starts, the log must have a message with this tag at `offset`.
    pub message: Tag,
    /// Epoch in force; `None` before the first epoch.
    pub epoch: Option<Epoch>,
    /// Number of the epoch's last group, 0 if there is none.
    pub number: u64,
    /// Position of the last record.
    pub position: u64,
    /// Tag of the last group or generation, which the next group must name.
    pub previous: Tag,
}

impl Cursor {
    /// Returns the cursor in the rows of a node. `None` if the rows contain no cursor.
    pub fn of_rows<K: AsRef<[u8]>, V: AsRef<[u8]>>(rows: &[(K, V)]) -> Option<Cursor> {
        rows.iter().find_map(|(key, value)| match Row::decode(key.as_ref(), value.as_ref()) {
            Some(Row::Cursor(cursor)) => Some(cursor),
            _ => None,
        })
    }
}

/// Period of one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Offset of the claim.
    pub offset: u64,
    /// Claimant.
    pub node: NodeId,
}

/// Reason why rows are not the state of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The rows contain no cursor: the node's state was never created.
    #[error("the data directory has no place in a shared log")]
    NoCursor,
    /// The key in force is not in the node's key ring.
    #[error(
        "key {0} of the cluster is in force, and this node does not have it: `pando cluster fetch-keys` takes it from \
         another node"
    )]
    NoKey(u32),
    /// The cluster needs a newer build.
    #[error(
        "the cluster has feature level {0}, and this build of Pando knows levels up to {LEVEL_MAX}: update it"
    )]
    NewerLevel(u64),
    /// A row cannot be decoded.
    #[error("a row of the replication state cannot be read: key {0:02x?}")]
    Damaged(Vec<u8>),
}

/// State of a node in addition to its operation ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeRow {
    /// Incarnation and attempt of the node's last claim.
    pub(crate) claim: (u64, u64),
    /// Incarnation and sequence of the floor. Operation ids up to the floor are no longer known.
    pub(crate) floor: (u64, u64),
}

/// Decoded row.
pub(crate) enum Row {
    Cursor(Cursor),
    Node(NodeId, NodeRow),
    Operation(OperationId, u64),
    Member(NodeId, MemberRow),
    Level(u64),
    /// Whether a key is due, and the offered key.
    Rotation(bool, Option<OfferedKey>),
    Holder(NodeId, String),
    Round(Round),
}

impl Row {
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<Row> {
        let (mut key, mut value) = (Reader(key), Reader(value));
        let row = match key.u8()? {
            prefix if [prefix] == CURSOR_KEY => Row::Cursor(cursor(&mut value)?),
            NODE_PREFIX => {
                let node = NodeId(key.u32()?);
                let claim = (value.u64()?, value.u64()?);
                Row::Node(node, NodeRow { claim, floor: (value.u64()?, value.u64()?) })
            }
            prefix if [prefix] == LEVEL_KEY => Row::Level(value.u64()?),
            prefix if [prefix] == ROTATION_KEY => {
                let (is_due, offered) = rotation(&mut value)?;
                Row::Rotation(is_due, offered)
            }
            prefix if [prefix] == ROUND_KEY => Row::Round(Round::decode(&mut value)?),
            HOLDER_PREFIX => Row::Holder(NodeId(key.u32()?), text(&mut value)?),
            MEMBER_PREFIX => Row::Member(NodeId(key.u32()?), member(&mut value)?),
            OPERATION_PREFIX => Row::Operation(key.operation()?, value.u64()?),
            _ => return None,
        };
        key.end()?;
        value.end()?;
        Some(row)
    }
}

impl RowChange {
    pub(crate) fn cursor(cursor: &Cursor) -> RowChange {
        let mut value = vec![CURSOR_VERSION];
        value.extend(cursor.topic);
        value.extend(cursor.generation);
        value.extend(cursor.key.to_be_bytes());
        value.extend(cursor.offset.to_be_bytes());
        value.extend(cursor.message.0);
        value.push(u8::from(cursor.epoch.is_some()));
        let epoch = cursor.epoch.unwrap_or(Epoch { offset: 0, node: NodeId(0) });
        value.extend(epoch.offset.to_be_bytes());
        value.extend(epoch.node.0.to_be_bytes());
        value.extend(cursor.number.to_be_bytes());
        value.extend(cursor.position.to_be_bytes());
        value.extend(cursor.previous.0);
        RowChange { key: CURSOR_KEY.to_vec(), value: Some(value) }
    }

    pub(crate) fn node(node: NodeId, row: &NodeRow) -> RowChange {
        let mut key = vec![NODE_PREFIX];
        key.extend(node.0.to_be_bytes());
        let numbers = [row.claim.0, row.claim.1, row.floor.0, row.floor.1];
        let value = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        RowChange { key, value: Some(value) }
    }

    pub(crate) fn level(level: u64) -> RowChange {
        RowChange { key: LEVEL_KEY.to_vec(), value: Some(level.to_be_bytes().to_vec()) }
    }

    /// Encodes whether a key is due (1: 0 or 1) and, if one is offered, its offset (8), node (4), fingerprint (32),
    /// address.
    pub(crate) fn rotation(is_due: bool, offered: Option<&OfferedKey>) -> RowChange {
        let mut value = vec![u8::from(is_due)];
        if let Some(offered) = offered {
            value.extend(offered.offset.to_be_bytes());
            value.extend(offered.node.0.to_be_bytes());
            value.extend(offered.fingerprint.0);
            value.extend(offered.address.as_bytes());
        }
        RowChange { key: ROTATION_KEY.to_vec(), value: Some(value) }
    }

    pub(crate) fn round(round: &Round) -> RowChange {
        RowChange { key: ROUND_KEY.to_vec(), value: Some(round.encode()) }
    }

    /// Encodes the address of a node that has the offered key. Without an address, the change removes the row.
    pub(crate) fn holder(node: NodeId, address: Option<&str>) -> RowChange {
        let mut key = vec![HOLDER_PREFIX];
        key.extend(node.0.to_be_bytes());
        RowChange { key, value: address.map(|address| address.as_bytes().to_vec()) }
    }

    /// Encodes the state of a member: flags (1), both offsets (8, 8) and the level (8). The flags say which offsets are
    /// present and whether the node has left.
    pub(crate) fn member(node: NodeId, row: &MemberRow) -> RowChange {
        let mut key = vec![MEMBER_PREFIX];
        key.extend(node.0.to_be_bytes());
        let flag = |is_there, flag| if is_there { flag } else { 0 };
        let mut value = vec![
            flag(row.has_left, MEMBER_LEFT)
                | flag(row.durable.is_some(), MEMBER_DURABLE)
                | flag(row.snapshot.is_some(), MEMBER_SNAPSHOT),
        ];
        value.extend(row.durable.unwrap_or(0).to_be_bytes());
        value.extend(row.snapshot.unwrap_or(0).to_be_bytes());
        value.extend(row.level.to_be_bytes());
        RowChange { key, value: Some(value) }
    }

    pub(crate) fn operation(operation: &OperationId, position: Option<u64>) -> RowChange {
        let mut key = vec![OPERATION_PREFIX];
        put_operation(&mut key, operation);
        RowChange { key, value: position.map(|position| position.to_be_bytes().to_vec()) }
    }
}

fn member(value: &mut Reader<'_>) -> Option<MemberRow> {
    let (flags, durable, snapshot, level) = (value.u8()?, value.u64()?, value.u64()?, value.u64()?);
    let has = |flag| flags & flag != 0;
    (flags <= MEMBER_LEFT | MEMBER_DURABLE | MEMBER_SNAPSHOT).then_some(MemberRow {
        has_left: has(MEMBER_LEFT),
        durable: has(MEMBER_DURABLE).then_some(durable),
        snapshot: has(MEMBER_SNAPSHOT).then_some(snapshot),
        level,
    })
}

/// Reads the remaining bytes as text.
fn text(value: &mut Reader<'_>) -> Option<String> {
    let bytes = std::mem::take(&mut value.0);
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn rotation(value: &mut Reader<'_>) -> Option<(bool, Option<OfferedKey>)> {
    let is_due = match value.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    if value.0.is_empty() {
        return Some((is_due, None));
    }
    let (offset, node) = (value.u64()?, NodeId(value.u32()?));
    let fingerprint = Fingerprint(value.array()?);
    Some((is_due, Some(OfferedKey { offset, node, fingerprint, address: text(value)? })))
}

fn cursor(value: &mut Reader<'_>) -> Option<Cursor> {
    if value.u8()? != CURSOR_VERSION {
        return None;
    }
    let (topic, generation) = (value.array()?, value.array()?);
    let (key, offset, message) = (value.u32()?, value.u64()?, Tag(value.array()?));
    let has_epoch = match value.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let epoch = Epoch { offset: value.u64()?, node: NodeId(value.u32()?) };
    Some(Cursor {
        topic,
        generation,
        key,
        offset,
        message,
        epoch: has_epoch.then_some(epoch),
        number: value.u64()?,
        position: value.u64()?,
        previous: Tag(value.array()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_decode_as_encoded() {
        let epoch = Some(Epoch { offset: 5, node: NodeId(6) });
        for epoch in [None, epoch] {
            let cursor = Cursor {
                topic: [1; 16],
                generation: [2; 16],
                key: 11,
                offset: 3,
                message: Tag([4; 32]),
                epoch,
                number: 7,
                position: 8,
                previous: Tag([9; 32]),
            };
            let row = RowChange::cursor(&cursor);
            let value = row.value.as_deref().unwrap();
            assert!(matches!(Row::decode(&row.key, value), Some(Row::Cursor(read)) if read == cursor));
            for length in 0..value.len() {
                assert!(Row::decode(&row.key, &value[..length]).is_none());
            }
        }
        let node = NodeRow { claim: (1, 2), floor: (3, 4) };
        let row = RowChange::node(NodeId(9), &node);
        let read = Row::decode(&row.key, row.value.as_deref().unwrap());
        assert!(matches!(read, Some(Row::Node(NodeId(9), read)) if read == node));
        let members = [
            MemberRow { has_left: true, ..MemberRow::default() },
            MemberRow { durable: Some(7), ..MemberRow::default() },
            MemberRow { has_left: false, durable: Some(8), snapshot: Some(3), level: 2 },
        ];
        for member in members {
            let row = RowChange::member(NodeId(4), &member);
            let read = Row::decode(&row.key, row.value.as_deref().unwrap());
            assert!(matches!(read, Some(Row::Member(NodeId(4), read)) if read == member));
        }
        let offered = OfferedKey {
            offset: 7,
            node: NodeId(3),
            fingerprint: Fingerprint([6; 32]),
            address: "host:1".to_owned(),
        };
        for (is_due, offered) in [(true, None), (false, Some(offered.clone())), (true, Some(offered))] {
            let row = RowChange::rotation(is_due, offered.as_ref());
            let read = Row::decode(&row.key, row.value.as_deref().unwrap());
            assert!(matches!(read, Some(Row::Rotation(due, read)) if (due, &read) == (is_due, &offered)));
        }
        let row = RowChange::holder(NodeId(4), Some("host:2"));
        let read = Row::decode(&row.key, row.value.as_deref().unwrap());
        assert!(matches!(read, Some(Row::Holder(NodeId(4), address)) if address == "host:2"));
        let round = Round { ended: 3, next: b"n".to_vec(), bytes: 4, ..Round::default() };
        let row = RowChange::round(&round);
        let read = Row::decode(&row.key, row.value.as_deref().unwrap());
        assert!(matches!(read, Some(Row::Round(read)) if read == round));
        let operation = OperationId { node: NodeId(1), incarnation: 2, sequence: 3 };
        let row = RowChange::operation(&operation, Some(44));
        let read = Row::decode(&row.key, row.value.as_deref().unwrap());
        assert!(matches!(read, Some(Row::Operation(read, 44)) if read == operation));
        assert!(Row::decode(b"", b"").is_none() && Row::decode(b"x", b"").is_none());
    }
}
