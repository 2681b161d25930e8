//! [`Group`]: the encoded changes that become durable together. This module accesses no file.
//!
//! ```text
//!     a change:  kind (1)  map (2)  length of the key (2)  then by kind:
//!                1 put        length of the value (4)   key   value
//!                2 delete     key
//!                3 insert id  id (8)                    key
//!                4 remove id  id (8)                    key
//! ```
//!
//! Numbers are big-endian. All changes are absolute, so applying them twice is the same as once.

use super::frame::{self, BLOCK_LEN, HEAD_LEN, Life, take};

/// Maximum memory that a buffer retains for the next group.
const KEPT_LEN: usize = 4 << 20;

/// A change of one row. `map` is the engine's index of the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// Sets the value of a key in a plain map.
    Put { map: u16, key: &'a [u8], value: &'a [u8] },
    /// Removes a key with its value or with all its ids.
    Delete { map: u16, key: &'a [u8] },
    /// Adds an id to the set of a key.
    InsertId { map: u16, key: &'a [u8], id: u64 },
    /// Removes an id from the set of a key.
    RemoveId { map: u16, key: &'a [u8], id: u64 },
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const INSERT_ID: u8 = 3;
const REMOVE_ID: u8 = 4;

/// Length of the head of every change: kind, map and length of the key.
const CHANGE_HEAD_LEN: usize = 5;

/// Buffer of a group, to be reused for the next group.
///
/// The buffer begins with room for the frame's head, so that the whole frame is written at once.
#[derive(Debug)]
pub(crate) struct Group {
    buffer: Vec<u8>,
    /// End of the payload. The bytes after the end pad the last block.
    end: usize,
}

impl Group {
    pub(crate) fn new() -> Group {
        Group { buffer: vec![0; HEAD_LEN], end: HEAD_LEN }
    }

    /// Creates a group with this payload.
    pub(crate) fn of_payload(payload: &[u8]) -> Group {
        let mut group = Group::new();
        group.buffer.extend_from_slice(payload);
        group.end = group.buffer.len();
        group
    }

    pub(crate) fn clear(&mut self) {
        self.end = HEAD_LEN;
        self.buffer.truncate(self.end);
        self.buffer.shrink_to(KEPT_LEN);
    }

    /// Adds a change.
    ///
    /// # Panics
    /// If the key or the value is longer than the store allows; callers check both lengths first.
    #[expect(
        clippy::expect_used,
        clippy::indexing_slicing,
        reason = "lengths are checked on entry, and the head has room for any of the four"
    )]
    pub(crate) fn push(&mut self, change: Change<'_>) {
        self.buffer.truncate(self.end);
        let (kind, map, key) = match change {
            Change::Put { map, key, .. } => (PUT, map, key),
            Change::Delete { map, key } => (DELETE, map, key),
            Change::InsertId { map, key, .. } => (INSERT_ID, map, key),
            Change::RemoveId { map, key, .. } => (REMOVE_ID, map, key),
        };
        // The change is appended in few steps. Many small appends would cost too much, because every row of an
        // operation is a change.
        let mut head = [0; CHANGE_HEAD_LEN + 8];
        head[0] = kind;
        head[1..3].copy_from_slice(&map.to_be_bytes());
        let key_len = u16::try_from(key.len()).expect("a key of at most 511 bytes");
        head[3..CHANGE_HEAD_LEN].copy_from_slice(&key_len.to_be_bytes());
        let (head_len, value) = match change {
            Change::Put { value, .. } => {
                let value_len = u32::try_from(value.len()).expect("a value of less than 4 GiB");
                head[CHANGE_HEAD_LEN..][..4].copy_from_slice(&value_len.to_be_bytes());
                (CHANGE_HEAD_LEN + 4, value)
            }
            Change::Delete { .. } => (CHANGE_HEAD_LEN, &[][..]),
            Change::InsertId { id, .. } | Change::RemoveId { id, .. } => {
                head[CHANGE_HEAD_LEN..].copy_from_slice(&id.to_be_bytes());
                (CHANGE_HEAD_LEN + 8, &[][..])
            }
        };
        let buffer = &mut self.buffer;
        buffer.reserve(head_len + key.len() + value.len());
        buffer.extend_from_slice(&head[..head_len]);
        buffer.extend_from_slice(key);
        buffer.extend_from_slice(value);
        self.end = buffer.len();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end == HEAD_LEN
    }

    /// Removes all changes beyond the first `byte_count` bytes.
    pub(crate) fn truncate(&mut self, byte_count: usize) {
        self.end = self.end.min(HEAD_LEN + byte_count);
        self.buffer.truncate(self.end);
    }

    /// Returns the size of the changes in bytes.
    pub(crate) fn byte_count(&self) -> usize {
        self.end - HEAD_LEN
    }

    #[cfg(test)]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer[HEAD_LEN..self.end]
    }

    #[cfg(test)]
    pub(crate) fn changes(&self) -> Changes<'_> {
        decode(self.payload())
    }

    /// Returns the size of the group's frame in bytes.
    pub(crate) fn frame_len(&self) -> u64 {
        self.end.next_multiple_of(BLOCK_LEN) as u64
    }

    /// Returns the whole frame.
    pub(crate) fn framed(&mut self, life: &Life, sequence: u64) -> &[u8] {
        self.buffer.truncate(self.end);
        frame::seal(&mut self.buffer, life, sequence);
        &self.buffer
    }
}

/// Bytes that are not a valid change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAChange;

/// Decodes the changes in a payload of any bytes. An error ends the iteration.
pub(crate) fn decode(payload: &[u8]) -> Changes<'_> {
    Changes { rest: payload }
}

/// Iterator of [`decode`].
#[derive(Debug, Clone)]
pub(crate) struct Changes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, NotAChange>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let change = take_change(&mut self.rest);
        if change.is_none() {
            self.rest = &[];
        }
        Some(change.ok_or(NotAChange))
    }
}

fn take_change<'a>(rest: &mut &'a [u8]) -> Option<Change<'a>> {
    let [kind] = take(rest)?;
    let map = u16::from_be_bytes(take(rest)?);
    let key_len = usize::from(u16::from_be_bytes(take(rest)?));
    match kind {
        PUT => {
            let value_len = usize::try_from(u32::from_be_bytes(take(rest)?)).ok()?;
            Some(Change::Put { map, key: take_slice(rest, key_len)?, value: take_slice(rest, value_len)? })
        }
        DELETE => Some(Change::Delete { map, key: take_slice(rest, key_len)? }),
        INSERT_ID => {
            let id = u64::from_be_bytes(take(rest)?);
            Some(Change::InsertId { map, key: take_slice(rest, key_len)?, id })
        }
        REMOVE_ID => {
            let id = u64::from_be_bytes(take(rest)?);
            Some(Change::RemoveId { map, key: take_slice(rest, key_len)?, id })
        }
        _ => None,
    }
}

fn take_slice<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(bytes)
}
