//! The mark: a manifest of the redo log in a separate file, so that a missing segment is detected.
//!
//! ```text
//!   redo.mark:  slot (4,096 bytes) | slot              written in turn, each synced; the valid one with the higher
//!                                                      count is the mark
//!
//!     slot      0   8  "pandoMRK"                     36   8  sequence of the last group
//!               8   4  version, 1                     44   4  count of segments, n
//!              12  16  identity of the data           48 24 n  segments: number (8), length (8), sequence of the
//!                                                              last group (8)
//!              28   8  count of marks written      48+24n   4  crc32c, little-endian, of all before
//! ```
//!
//! The mark is written at four times: before the first group of a segment, at each checkpoint, before a segment is
//! released, and when the log is closed. The mark lists the active segment and the segments with groups that are not
//! checkpointed. Every listed segment exists: a segment is created before the mark lists it, and is removed only after
//! the mark no longer lists it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::frame::{self, BLOCK_LEN, Header, Identity, Life, take};
use crate::disk::Room;
use crate::error::{RedoDamage, RedoFinding};
use crate::layout::{self, MARK_FILE};

const MAGIC: &[u8; 8] = b"pandoMRK";
const VERSION: u32 = 1;
const SLOT_LEN: usize = BLOCK_LEN;
const HEAD_LEN: usize = 48;
const LISTED_LEN: usize = 24;
const CRC_LEN: usize = 4;
/// Number of segments that fit into a slot. If there are more segments, the mark lists the newest.
const SEGMENTS_MAX: usize = (SLOT_LEN - HEAD_LEN - CRC_LEN) / LISTED_LEN;

/// A segment that must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListedSegment {
    pub(crate) number: u64,
    /// Size of the segment in bytes.
    pub(crate) length: u64,
    /// Sequence number of the segment's last group that is known to be durable; 0 if there is none.
    pub(crate) last: u64,
}

/// Contents of the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkContents {
    /// Number of marks written so far, including the present mark.
    pub(crate) count: u64,
    /// Sequence number of the last group that is known to be durable.
    pub(crate) last: u64,
    /// Segments by number; the active segment is the last.
    pub(crate) segments: Vec<ListedSegment>,
}

/// The file of the mark, open for writing.
pub(crate) struct Mark {
    file: File,
    identity: Identity,
    count: u64,
}

pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join(MARK_FILE)
}

/// Reads the mark for the data of `identity`. The outer error is an error of the system. The inner error describes
/// damage of the mark.
pub(crate) fn read(directory: &Path, identity: Identity) -> io::Result<Result<MarkContents, RedoDamage>> {
    let bytes = match fs::read(path(directory)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(RedoDamage::MarkMissing)),
        Err(error) => return Err(error),
    };
    let slots = bytes.chunks(SLOT_LEN).take(2).filter_map(|slot| parse(slot, identity));
    Ok(slots.max_by_key(|marked| marked.count).ok_or(RedoDamage::Mark))
}

impl Mark {
    /// Opens the file for writing. `marked` must be the contents of its newest slot.
    pub(crate) fn open(directory: &Path, identity: Identity, marked: &MarkContents) -> io::Result<Mark> {
        let file = OpenOptions::new().read(true).write(true).open(path(directory))?;
        Ok(Mark { file, identity, count: marked.count })
    }

    /// Creates the file of the mark, or empties an existing one, for a data file that does not require a mark yet. The
    /// file and its name are durable on return.
    pub(crate) fn create(directory: &Path, room: &Room, identity: Identity) -> io::Result<Mark> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path(directory))?;
        file.write_all_at(&[0; 2 * SLOT_LEN], 0)?;
        file.sync_all()?;
        room.sync_directory()?;
        Ok(Mark { file, identity, count: 0 })
    }

    /// Writes the mark into the older of the two slots. The mark is durable on return. After an error, a reader may
    /// find either the old or the new mark, and the next mark is written to the same slot.
    pub(crate) fn write(&mut self, last: u64, segments: &[ListedSegment]) -> io::Result<()> {
        let count = self.count + 1;
        let newest = segments.last_chunk::<SEGMENTS_MAX>().map_or(segments, |last| &last[..]);
        let slot = seal(self.identity, count, last, newest);
        self.file.write_all_at(&slot, count % 2 * SLOT_LEN as u64)?;
        self.file.sync_data()?;
        self.count = count;
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a mark names few segments")]
fn seal(identity: Identity, count: u64, last: u64, segments: &[ListedSegment]) -> Vec<u8> {
    let mut slot = Vec::with_capacity(SLOT_LEN);
    slot.extend_from_slice(MAGIC);
    slot.extend_from_slice(&VERSION.to_be_bytes());
    slot.extend_from_slice(&identity);
    slot.extend_from_slice(&count.to_be_bytes());
    slot.extend_from_slice(&last.to_be_bytes());
    slot.extend_from_slice(&(segments.len() as u32).to_be_bytes());
    for segment in segments {
        for number in [segment.number, segment.length, segment.last] {
            slot.extend_from_slice(&number.to_be_bytes());
        }
    }
    slot.extend_from_slice(&crc32c::crc32c(&slot).to_le_bytes());
    slot.resize(SLOT_LEN, 0);
    slot
}

fn parse(slot: &[u8], identity: Identity) -> Option<MarkContents> {
    let mut rest = slot;
    let magic: [u8; 8] = take(&mut rest)?;
    let version = u32::from_be_bytes(take(&mut rest)?);
    let found: Identity = take(&mut rest)?;
    let count = u64::from_be_bytes(take(&mut rest)?);
    let last = u64::from_be_bytes(take(&mut rest)?);
    let segment_count = usize::try_from(u32::from_be_bytes(take(&mut rest)?)).ok()?;
    if magic != *MAGIC || version != VERSION || found != identity || segment_count > SEGMENTS_MAX {
        return None;
    }
    let covered = slot.get(..HEAD_LEN + segment_count * LISTED_LEN)?;
    let mut segments = Vec::with_capacity(segment_count);
    for _ in 0..segment_count {
        let [number, length, last] =
            [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?].map(u64::from_be_bytes);
        segments.push(ListedSegment { number, length, last });
    }
    let intact = take(&mut rest)? == crc32c::crc32c(covered).to_le_bytes();
    intact.then_some(MarkContents { count, last, segments })
}

impl MarkContents {
    /// Returns all contradictions between the log's files and the mark, given that all groups up to `checkpointed` are
    /// in the data file. Does not read the contents of segments.
    pub(crate) fn contradictions(
        &self,
        directory: &Path,
        identity: Identity,
        checkpointed: u64,
    ) -> io::Result<Vec<RedoFinding>> {
        let mut findings = Vec::new();
        for (index, listed) in self.segments.iter().enumerate() {
            let is_active = index + 1 == self.segments.len();
            if listed.last <= checkpointed && !is_active {
                continue;
            }
            let file = directory.join(layout::redo_file(listed.number));
            if let Some(damage) = listed.contradiction(&file, identity)? {
                findings.push(RedoFinding { file, damage });
            }
        }
        Ok(findings)
    }
}

impl ListedSegment {
    fn contradiction(&self, path: &Path, identity: Identity) -> io::Result<Option<RedoDamage>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(RedoDamage::SegmentMissing { last: self.last }));
            }
            Err(error) => return Err(error),
        };
        let found = file.metadata()?.len();
        if found < self.length {
            return Ok(Some(RedoDamage::SegmentShort { length: self.length, found }));
        }
        let mut block = [0; BLOCK_LEN];
        file.read_exact_at(&mut block, 0)?;
        Ok(match frame::parse_header(&block) {
            Some(Header::Of(life)) if life == (Life { identity, number: self.number }) => None,
            Some(Header::Of(life)) if life.identity == identity => {
                Some(RedoDamage::Misnamed { number: life.number })
            }
            // An unknown version is reported when the contents of the segment are read.
            Some(Header::Version(_)) => None,
            Some(Header::Of(_)) | None => Some(RedoDamage::Header),
        })
    }
}
