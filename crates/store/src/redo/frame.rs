//! Bytes of the redo log: a segment's header and the frame around a group. This module accesses no file.
//!
//! ```text
//!     segment:  header block | frame | frame | ...          each begins at a multiple of 4,096 bytes
//!
//!     header    0   8  "pandoRDO"                     frame    0   4  "grp", version 1
//!               8   4  version, 1                              4   8  number of the segment
//!              12  16  identity of the data                   12   8  sequence
//!              28   8  number of the segment                  20   8  length of the payload, n
//!              36   4  crc32c of bytes 0 to 35                28   4  crc32c of the payload
//!                                                             32   4  crc32c of: identity (16), bytes 0 to 31
//!                                                             36   n  payload, then zeroes up to the next block
//!
//!     tail      0   4  "end", version 1               the last 24 bytes of a frame's last block,
//!               4   8  number of the segment          if the payload leaves them free
//!              12   8  sequence
//!              20   4  crc32c of: identity (16), bytes 0 to 19
//! ```
//!
//! Numbers are big-endian, checksums little-endian. The head has a separate checksum, so that a damaged length is never
//! used. This checksum also covers the identity of the data, which is random and secret. So clients cannot store values
//! that look like a frame.
//!
//! The tail repeats the sequence at the end of the frame. If both the head of the last group and the whole previous
//! group are damaged, the tail still proves that the previous group was durable. Programs of earlier versions ignore
//! the tail. A frame without a tail is valid: the head's checksum of the payload proves that all its changes are
//! present.

use std::io;

/// Alignment of frames. The page cache writes units of this size, and current disks write units of at most this size.
pub(crate) const BLOCK_LEN: usize = 4096;
/// Number of bytes of a frame before its payload.
pub(crate) const HEAD_LEN: usize = 36;

const HEADER_MAGIC: &[u8; 8] = b"pandoRDO";
const HEADER_LEN: usize = 40;
const FRAME_MAGIC: [u8; 4] = *b"grp\x01";
const TAIL_MAGIC: [u8; 4] = *b"end\x01";
const TAIL_LEN: usize = 24;
const HEAD_CRC_AT: usize = HEAD_LEN - CRC_LEN;
const CRC_LEN: usize = size_of::<u32>();
/// Number of bytes of a long payload that are read at a time to verify it.
const CHUNK_LEN: usize = 64 << 10;

/// Format version of segments.
pub(crate) const VERSION: u32 = 1;

/// Identity of a data file, unique among all that ever existed.
pub(crate) type Identity = [u8; 16];

/// Period of use of a segment file. Each frame belongs to one life. A reused file gets another number, so its old
/// frames do not belong to the new life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) identity: Identity,
    pub(crate) number: u64,
}

/// A parsed header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    Of(Life),
    /// A complete header in an unknown version.
    Version(u32),
}

/// A complete frame in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) sequence: u64,
    /// Offset of the frame in its segment.
    pub(crate) offset: u64,
    pub(crate) payload_len: u64,
    pub(crate) payload_crc: u32,
}

impl Found {
    pub(crate) fn payload_at(&self) -> u64 {
        self.offset + HEAD_LEN as u64
    }

    /// Returns the offset of the next frame.
    pub(crate) fn end(&self) -> u64 {
        (self.payload_at() + self.payload_len).next_multiple_of(BLOCK_LEN as u64)
    }
}

/// Returns the header block of a segment.
pub(crate) fn header(life: &Life) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_LEN);
    block.extend_from_slice(HEADER_MAGIC);
    block.extend_from_slice(&VERSION.to_be_bytes());
    block.extend_from_slice(&life.identity);
    block.extend_from_slice(&life.number.to_be_bytes());
    block.extend_from_slice(&crc32c::crc32c(&block).to_le_bytes());
    block.resize(BLOCK_LEN, 0);
    block
}

/// Parses the first bytes of a segment; returns `None` if they are not a header.
pub(crate) fn parse_header(bytes: &[u8]) -> Option<Header> {
    let mut rest = bytes.get(..HEADER_LEN)?;
    let covered = rest.get(..HEADER_LEN - CRC_LEN)?;
    let magic: [u8; 8] = take(&mut rest)?;
    let version = u32::from_be_bytes(take(&mut rest)?);
    let identity = take(&mut rest)?;
    let number = u64::from_be_bytes(take(&mut rest)?);
    if magic != *HEADER_MAGIC || take(&mut rest)? != crc32c::crc32c(covered).to_le_bytes() {
        return None;
    }
    Some(if version == VERSION { Header::Of(Life { identity, number }) } else { Header::Version(version) })
}

/// Completes the frame in `buffer` and pads its last block. `buffer` must contain space for the head, and then the
/// payload.
#[expect(clippy::indexing_slicing, reason = "the buffer begins with room for the head")]
pub(crate) fn seal(buffer: &mut Vec<u8>, life: &Life, sequence: u64) {
    let payload = &buffer[HEAD_LEN..];
    let (payload_len, payload_crc) = (payload.len() as u64, crc32c::crc32c(payload));
    buffer[..4].copy_from_slice(&FRAME_MAGIC);
    buffer[4..12].copy_from_slice(&life.number.to_be_bytes());
    buffer[12..20].copy_from_slice(&sequence.to_be_bytes());
    buffer[20..28].copy_from_slice(&payload_len.to_be_bytes());
    buffer[28..HEAD_CRC_AT].copy_from_slice(&payload_crc.to_le_bytes());
    let head_crc = identified_crc(life, &buffer[..HEAD_CRC_AT]);
    buffer[HEAD_CRC_AT..HEAD_LEN].copy_from_slice(&head_crc.to_le_bytes());
    let used = buffer.len();
    buffer.resize(used.next_multiple_of(BLOCK_LEN), 0);
    if buffer.len() - used >= TAIL_LEN {
        buffer.truncate(buffer.len() - TAIL_LEN);
        let tail_at = buffer.len();
        buffer.extend_from_slice(&TAIL_MAGIC);
        buffer.extend_from_slice(&life.number.to_be_bytes());
        buffer.extend_from_slice(&sequence.to_be_bytes());
        let tail_crc = identified_crc(life, &buffer[tail_at..]);
        buffer.extend_from_slice(&tail_crc.to_le_bytes());
    }
}

fn identified_crc(life: &Life, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&life.identity), bytes)
}

/// Returns the first complete frame of `life` at or after `from`. `from` must be the start of a block. The segment has
/// `length` bytes. `read` fills a buffer with the bytes from an offset on. `torn` is called for each valid head or tail
/// that precedes the returned frame and belongs to no complete frame, with its sequence number. Memory: one chunk,
/// whatever the bytes contain.
pub(crate) fn next_frame(
    life: &Life,
    from: u64,
    length: u64,
    read: &mut impl FnMut(&mut [u8], u64) -> io::Result<()>,
    torn: &mut dyn FnMut(u64),
) -> io::Result<Option<Found>> {
    let mut block = [0; BLOCK_LEN];
    let mut offset = from;
    while length.saturating_sub(offset) >= BLOCK_LEN as u64 {
        read(&mut block, offset)?;
        if let Some(found) = parse_head(life, &block, offset) {
            let fits = found.payload_len <= length - found.payload_at();
            if fits && payload_crc(&found, &block, read)? == found.payload_crc {
                return Ok(Some(found));
            }
            torn(found.sequence);
        }
        if let Some(sequence) = parse_tail(life, &block) {
            torn(sequence);
        }
        offset += BLOCK_LEN as u64;
    }
    Ok(None)
}

pub(super) fn parse_head(life: &Life, block: &[u8], offset: u64) -> Option<Found> {
    let mut rest = block;
    let covered = block.get(..HEAD_CRC_AT)?;
    let magic: [u8; 4] = take(&mut rest)?;
    let number = u64::from_be_bytes(take(&mut rest)?);
    if magic != FRAME_MAGIC || number != life.number {
        return None;
    }
    let sequence = u64::from_be_bytes(take(&mut rest)?);
    let payload_len = u64::from_be_bytes(take(&mut rest)?);
    let payload_crc = u32::from_le_bytes(take(&mut rest)?);
    let intact = take(&mut rest)? == identified_crc(life, covered).to_le_bytes();
    intact.then_some(Found { sequence, offset, payload_len, payload_crc })
}

/// Returns the sequence number of the frame that ends with `block`, if its tail is valid.
pub(super) fn parse_tail(life: &Life, block: &[u8; BLOCK_LEN]) -> Option<u64> {
    let mut rest: &[u8] = block.last_chunk::<TAIL_LEN>()?;
    let covered = rest.get(..TAIL_LEN - CRC_LEN)?;
    let magic: [u8; 4] = take(&mut rest)?;
    let number = u64::from_be_bytes(take(&mut rest)?);
    if magic != TAIL_MAGIC || number != life.number {
        return None;
    }
    let sequence = u64::from_be_bytes(take(&mut rest)?);
    (take(&mut rest)? == identified_crc(life, covered).to_le_bytes()).then_some(sequence)
}

/// Computes the checksum of a payload that begins in `block`.
fn payload_crc(
    found: &Found,
    block: &[u8; BLOCK_LEN],
    read: &mut impl FnMut(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<u32> {
    let mut left = found.payload_len;
    let (_, rest) = block.split_at(HEAD_LEN);
    let first = rest.get(..at_most(left, rest.len())).unwrap_or(rest);
    let mut crc = crc32c::crc32c(first);
    left -= first.len() as u64;
    let mut offset = found.payload_at() + first.len() as u64;
    let mut chunk = Vec::new();
    while left > 0 {
        chunk.resize(at_most(left, CHUNK_LEN), 0);
        read(&mut chunk, offset)?;
        crc = crc32c::crc32c_append(crc, &chunk);
        offset += chunk.len() as u64;
        left -= chunk.len() as u64;
    }
    Ok(crc)
}

fn at_most(left: u64, most: usize) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(most)
}

/// Takes the next bytes of `rest`.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*bytes)
}
