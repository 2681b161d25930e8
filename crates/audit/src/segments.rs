//! The segments in the folder of a trail, and the blocks in a segment.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::AuditError;
use crate::format::{
    BLOCK_HEAD_LEN, BlockHead, HASH_LEN, HEADER_LEN, Hash, HeadFile, SegmentHeader, find_block, hash,
};
use crate::key::PublicKey;
use crate::limits::SEGMENTS_MAX;

/// Number of bytes read at a time in the search for the next block.
const LOOK_BYTES: usize = 1 << 20;

const NAME: &str = "audit-";
const DIGITS: usize = 16;

/// Returns the path of a segment.
pub(crate) fn path_of(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{NAME}{segment:0DIGITS$}"))
}

/// Returns the numbers of the segments in a folder, in ascending order. Reads no more names after [`SEGMENTS_MAX`]
/// segments.
pub(crate) fn list(folder: &Path) -> Result<Vec<u64>, AuditError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(AuditError::io(folder))? {
        let name = entry.map_err(AuditError::io(folder))?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let digits =
            digits.filter(|digits| digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit()));
        numbers.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
        if numbers.len() > SEGMENTS_MAX {
            break;
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the number of the last anchor's block, from the file `head`. That block and all earlier blocks are durable.
/// Returns `None` if the file is missing, or `key` did not sign it for this trail.
pub(crate) fn anchored(folder: &Path, trail: [u8; 16], key: PublicKey) -> Option<u64> {
    let bytes = fs::read(folder.join("head")).ok()?;
    let (head, text, signature) = HeadFile::decode(&bytes)?;
    (head.trail == trail && key.has_signed(&text, &signature)).then_some(head.block)
}

/// A segment that is being read.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    path: PathBuf,
    file: File,
    pub(crate) number: u64,
    /// Header of the segment; `None` if it cannot be read.
    pub(crate) header: Option<SegmentHeader>,
}

/// Content that was found at an offset.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing, because the segment ends at the offset.
    End,
    /// The beginning of a block. The rest of the block is missing.
    Short,
    /// Bytes that are not the head of a block.
    NoHead,
    /// A block.
    Block(Box<StoredBlock>),
}

/// A block as it is stored in a segment.
#[derive(Debug)]
pub(crate) struct StoredBlock {
    pub(crate) head: BlockHead,
    pub(crate) head_bytes: [u8; BLOCK_HEAD_LEN],
    pub(crate) stored: Vec<u8>,
    /// Hash that is stored at the end of the block.
    pub(crate) stored_hash: Hash,
    /// Hash that was computed from the block.
    pub(crate) hash: Hash,
}

impl StoredBlock {
    /// Returns true if no byte of the block was changed.
    pub(crate) fn is_whole(&self) -> bool {
        self.stored_hash == self.hash
    }
}

impl SegmentFile {
    pub(crate) fn open(folder: &Path, number: u64) -> Result<SegmentFile, AuditError> {
        let path = path_of(folder, number);
        let file = File::open(&path).map_err(AuditError::io(&path))?;
        let mut segment = SegmentFile { path, file, number, header: None };
        let mut bytes = vec![0; HEADER_LEN];
        if segment.read(0, &mut bytes)? {
            segment.header = SegmentHeader::decode(&bytes);
        }
        Ok(segment)
    }

    pub(crate) fn len(&self) -> Result<u64, AuditError> {
        Ok(self.file.metadata().map_err(AuditError::io(&self.path))?.len())
    }

    /// Fills `into` with the bytes at `offset`. Returns false if the segment has too few bytes.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<bool, AuditError> {
        match self.file.read_exact_at(into, offset) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(AuditError::io(&self.path)(error)),
        }
    }

    /// Reads the content at `offset`. Ignores the segment's bytes from `end` on.
    pub(crate) fn block_at(&self, offset: u64, end: u64) -> Result<Found, AuditError> {
        let left = end.saturating_sub(offset);
        if left == 0 {
            return Ok(Found::End);
        }
        let mut head_bytes = [0; BLOCK_HEAD_LEN];
        if left < BLOCK_HEAD_LEN as u64 || !self.read(offset, &mut head_bytes)? {
            return Ok(Found::Short);
        }
        let Some(head) = BlockHead::decode(&head_bytes) else { return Ok(Found::NoHead) };
        if head.block_len() > left {
            return Ok(Found::Short);
        }
        // The size is at most `STORED_BYTES_MAX`, and the file contains at least as much.
        let mut stored = vec![0; head.stored_len as usize];
        let mut stored_hash = [0; HASH_LEN];
        let stored_at = offset + BLOCK_HEAD_LEN as u64;
        if !self.read(stored_at, &mut stored)?
            || !self.read(stored_at + stored.len() as u64, &mut stored_hash)?
        {
            return Ok(Found::Short);
        }
        let hash = hash(&[&head_bytes, &stored]);
        Ok(Found::Block(Box::new(StoredBlock { head, head_bytes, stored, stored_hash, hash })))
    }

    /// Returns the offset of the next block head after `offset`.
    pub(crate) fn next_block(&self, offset: u64, end: u64) -> Result<Option<u64>, AuditError> {
        let mut from = offset + 1;
        while from < end {
            let length = usize::try_from(end - from).unwrap_or(usize::MAX).min(LOOK_BYTES);
            let mut bytes = vec![0; length];
            if !self.read(from, &mut bytes)? {
                return Ok(None);
            }
            if let Some(found) = find_block(&bytes) {
                return Ok(Some(from + found as u64));
            }
            if length < LOOK_BYTES {
                return Ok(None);
            }
            // Reads overlap, because the head of a block may cross the boundary between two reads.
            from += (LOOK_BYTES - BLOCK_HEAD_LEN) as u64;
        }
        Ok(None)
    }

    /// Returns the SHA-256 of the bytes from `offset` to `end`.
    pub(crate) fn hash_of(&self, offset: u64, end: u64) -> Result<Hash, AuditError> {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        let mut from = offset;
        while from < end {
            let length = usize::try_from(end - from).unwrap_or(usize::MAX).min(LOOK_BYTES);
            let mut bytes = vec![0; length];
            if !self.read(from, &mut bytes)? {
                break;
            }
            context.update(&bytes);
            from += length as u64;
        }
        let mut hash = Hash::default();
        hash.copy_from_slice(context.finish().as_ref());
        Ok(hash)
    }

    /// Returns the last whole block, and the offset of its end. Blocks up to `anchored` were synced, so a broken block
    /// among them was changed later. The search continues after such a block. After `anchored`, a power cut may have
    /// lost any page. Therefore the first broken block after `anchored` is the end, even if whole blocks follow it.
    pub(crate) fn last_whole(
        &self,
        anchored: Option<u64>,
    ) -> Result<Option<(Box<StoredBlock>, u64)>, AuditError> {
        let end = self.len()?;
        let mut offset = HEADER_LEN as u64;
        let mut last: Option<(Box<StoredBlock>, u64)> = None;
        let before = self.header.map(|header| header.first_block.saturating_sub(1));
        loop {
            match self.block_at(offset, end)? {
                Found::Block(block) if block.is_whole() => {
                    offset += block.head.block_len();
                    last = Some((block, offset));
                }
                Found::End => return Ok(last),
                Found::Short | Found::NoHead | Found::Block(_) => {
                    let reached = last.as_ref().map(|(block, _)| block.head.number).or(before);
                    if anchored.is_some() && anchored <= reached {
                        return Ok(last);
                    }
                    match self.next_block(offset, end)? {
                        Some(next) => offset = next,
                        None => return Ok(last),
                    }
                }
            }
        }
    }
}
