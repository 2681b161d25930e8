//! Encoding of segments, blocks and the file `head`. `docs/reference/audit-format.md` defines their meaning. Integers
//! are unsigned and big-endian. Times are microseconds since 1970.
//!
//! ```text
//! a segment:  header (120 bytes)  block  block  ...
//!
//! the header  offset   size   content
//!                  0      8   "pandoAUD"
//!                  8      4   version, 1
//!                 12     16   identity of the trail, random
//!                 28      8   number of the segment
//!                 36      8   number of its first block
//!                 44      8   time of its creation
//!                 52     32   hash of the last block of the previous segment, zeroes in the first
//!                 84     32   public key (Ed25519) of the node
//!                116      4   crc32c of bytes 0 to 115
//!
//! a block     offset   size   content
//!                  0      3   "blk"
//!                  3      1   kind: 1 events, 2 anchor
//!                  4      8   number: one more than the previous block; the first of the trail is 1
//!                 12      8   time of writing
//!                 20      8   position in the directory's log up to which the trail has all changes
//!                 28      4   number of events
//!                 32      4   length of the payload before compression, at most 4,194,304
//!                 36      4   length of the payload as stored, n, at most 4,259,840
//!                 40      4   crc32c of bytes 0 to 39
//!                 44     32   link: hash of the previous block; in the first of a segment SHA-256 of its header
//!                 76      n   the payload
//!               76+n     32   hash: SHA-256 of bytes 0 to 75+n
//!
//! the head    offset   size   content
//!                  0      8   "pandoAHD"
//!                  8     16   identity of the trail
//!                 24      8   number of the segment with the last anchor
//!                 32      8   number of that anchor's block
//!                 40     32   its hash
//!                 72     64   signature of the text `pando audit head 1`, a zero byte, and bytes 0 to 71
//! ```
//!
//! The payload of a block of events is one zstd frame of consecutive events. The payload of an anchor is not
//! compressed: it is a signature (64 bytes) by the node's key. The signed text consists of `pando audit anchor 1`, a
//! zero byte, the identity of the trail, and bytes 0 to 75 of the block, in this order.

use ring::digest::{Context, SHA256};

use crate::limits::{PAYLOAD_BYTES_MAX, STORED_BYTES_MAX};

pub(crate) const HEADER_LEN: usize = 120;
pub(crate) const BLOCK_HEAD_LEN: usize = 76;
pub(crate) const HASH_LEN: usize = 32;
pub(crate) const SIGNATURE_LEN: usize = 64;
pub(crate) const HEAD_FILE_LEN: usize = 136;

/// Offset of the checksum in the head of a block. The checksum covers all bytes of the head before it.
const BLOCK_CHECKED_LEN: usize = 40;
const HEADER_CHECKED_LEN: usize = 116;
const HEAD_FILE_SIGNED_LEN: usize = 72;

const VERSION: u32 = 1;
const SEGMENT_MAGIC: &[u8; 8] = b"pandoAUD";
const BLOCK_MAGIC: &[u8; 3] = b"blk";
const HEAD_FILE_MAGIC: &[u8; 8] = b"pandoAHD";

pub(crate) type Hash = [u8; HASH_LEN];

/// Returns the SHA-256 of the concatenated parts.
pub(crate) fn hash(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut hash = Hash::default();
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Reader of consecutive fields with a fixed size.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) trail: [u8; 16],
    pub(crate) segment: u64,
    pub(crate) first_block: u64,
    pub(crate) made_micros: u64,
    pub(crate) before: Hash,
    pub(crate) public_key: [u8; 32],
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(SEGMENT_MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.trail);
        for number in [self.segment, self.first_block, self.made_micros] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.before);
        out.extend_from_slice(&self.public_key);
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<SegmentHeader> {
        let mut fields = Fields(bytes);
        if fields.take::<8>()? != *SEGMENT_MAGIC || fields.u32()? != VERSION {
            return None;
        }
        let header = SegmentHeader {
            trail: fields.take()?,
            segment: fields.u64()?,
            first_block: fields.u64()?,
            made_micros: fields.u64()?,
            before: fields.take()?,
            public_key: fields.take()?,
        };
        let checksum = crc32c::crc32c(bytes.get(..HEADER_CHECKED_LEN)?);
        (fields.u32()? == checksum).then_some(header)
    }

    /// Returns the hash of the header, to which the first block of the segment links.
    pub(crate) fn hash(&self) -> Hash {
        hash(&[&self.encode()])
    }
}

/// Kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Events = 1,
    Anchor = 2,
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) kind: BlockKind,
    pub(crate) number: u64,
    pub(crate) written_micros: u64,
    pub(crate) position: u64,
    pub(crate) event_count: u32,
    pub(crate) payload_len: u32,
    pub(crate) stored_len: u32,
    pub(crate) link: Hash,
}

impl BlockHead {
    pub(crate) fn encode(&self) -> [u8; BLOCK_HEAD_LEN] {
        let mut out = Vec::with_capacity(BLOCK_HEAD_LEN);
        out.extend_from_slice(BLOCK_MAGIC);
        out.push(self.kind as u8);
        for number in [self.number, self.written_micros, self.position] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for number in [self.event_count, self.payload_len, self.stored_len] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        out.extend_from_slice(&self.link);
        let mut head = [0; BLOCK_HEAD_LEN];
        head.copy_from_slice(&out);
        head
    }

    /// Decodes the head of a block. Returns `None` if the fields that determine the length of the block are damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<BlockHead> {
        let checksum = crc32c::crc32c(bytes.get(..BLOCK_CHECKED_LEN)?);
        let mut fields = Fields(bytes);
        if fields.take::<3>()? != *BLOCK_MAGIC {
            return None;
        }
        let kind = match fields.take::<1>()? {
            [1] => BlockKind::Events,
            [2] => BlockKind::Anchor,
            _ => return None,
        };
        let head = BlockHead {
            kind,
            number: fields.u64()?,
            written_micros: fields.u64()?,
            position: fields.u64()?,
            event_count: fields.u32()?,
            payload_len: fields.u32()?,
            stored_len: fields.u32()?,
            link: {
                if fields.u32()? != checksum {
                    return None;
                }
                fields.take()?
            },
        };
        let fits =
            head.payload_len as usize <= PAYLOAD_BYTES_MAX && head.stored_len as usize <= STORED_BYTES_MAX;
        fits.then_some(head)
    }

    /// Returns the length of the whole block.
    pub(crate) fn block_len(&self) -> u64 {
        BLOCK_HEAD_LEN as u64 + u64::from(self.stored_len) + HASH_LEN as u64
    }
}

/// Returns the text that the signature of an anchor covers.
pub(crate) fn anchor_text(trail: &[u8; 16], head: &[u8; BLOCK_HEAD_LEN]) -> Vec<u8> {
    [b"pando audit anchor 1\0".as_slice(), trail, head].concat()
}

/// Returns the offset of the first bytes that decode as the head of a block.
pub(crate) fn find_block(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(rest) = bytes.get(from..)
        && let Some(found) = rest.windows(BLOCK_MAGIC.len()).position(|window| window == BLOCK_MAGIC)
    {
        from += found;
        if BlockHead::decode(bytes.get(from..)?).is_some() {
            return Some(from);
        }
        from += 1;
    }
    None
}

/// Content of the file `head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadFile {
    pub(crate) trail: [u8; 16],
    pub(crate) segment: u64,
    pub(crate) block: u64,
    pub(crate) hash: Hash,
}

impl HeadFile {
    pub(crate) fn encode(&self, sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_FILE_LEN);
        out.extend_from_slice(HEAD_FILE_MAGIC);
        out.extend_from_slice(&self.trail);
        out.extend_from_slice(&self.segment.to_be_bytes());
        out.extend_from_slice(&self.block.to_be_bytes());
        out.extend_from_slice(&self.hash);
        let signature = sign(&head_file_text(&out));
        out.extend_from_slice(&signature);
        out
    }

    /// Decodes the file. Also returns the text that the signature in the file must cover, and this signature.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(HeadFile, Vec<u8>, [u8; SIGNATURE_LEN])> {
        let mut fields = Fields(bytes);
        if bytes.len() != HEAD_FILE_LEN || fields.take::<8>()? != *HEAD_FILE_MAGIC {
            return None;
        }
        let file = HeadFile {
            trail: fields.take()?,
            segment: fields.u64()?,
            block: fields.u64()?,
            hash: fields.take()?,
        };
        Some((file, head_file_text(bytes.get(..HEAD_FILE_SIGNED_LEN)?), fields.take()?))
    }
}

fn head_file_text(bytes: &[u8]) -> Vec<u8> {
    [b"pando audit head 1\0".as_slice(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_heads_decode_as_encoded_and_detect_each_flipped_bit() {
        let header = SegmentHeader {
            trail: [7; 16],
            segment: 2,
            first_block: 9,
            made_micros: 5,
            before: [3; 32],
            public_key: [4; 32],
        };
        let bytes = header.encode();
        assert_eq!(bytes.len(), HEADER_LEN);
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&changed), None, "bit {bit}");
        }
        let head = BlockHead {
            kind: BlockKind::Anchor,
            number: 3,
            written_micros: 8,
            position: 1,
            event_count: 4,
            payload_len: 100,
            stored_len: 64,
            link: [1; 32],
        };
        let bytes = head.encode();
        assert_eq!(BlockHead::decode(&bytes), Some(head));
        // The checksum does not cover the link, but the hash of the block does.
        for bit in 0..44 * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHead::decode(&changed), None, "bit {bit}");
        }
        let long = BlockHead { stored_len: u32::MAX, ..head };
        assert_eq!(BlockHead::decode(&long.encode()), None);
        let noise = [b"blblkxblk".as_slice(), &bytes].concat();
        assert_eq!(find_block(&noise), Some(9));
        assert_eq!(find_block(&noise[..50]), None);
    }
}
