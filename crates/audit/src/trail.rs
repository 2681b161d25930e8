//! Writer of a trail. It writes blocks and anchors, begins and removes segments by size and age, and continues after a
//! stop or a crash.
//!
//! Each opening begins a segment. The first block of the segment records the position from which the trail continues.
//! The block also describes the torn bytes that a crash left at the end of the previous segment. The previous segment
//! is not changed. The first write after a disk error starts at the end of the last whole block, so a failed write
//! leaves no bytes in the trail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{FlockOperation, flock};

use crate::error::AuditError;
use crate::event::{EventWriter, Field, Kind};
use crate::format::{
    BLOCK_HEAD_LEN, BlockHead, BlockKind, HASH_LEN, HEADER_LEN, Hash, HeadFile, SIGNATURE_LEN, SegmentHeader,
    anchor_text, hash,
};
use crate::key::{NodeKey, PublicKey};
use crate::limits::{ANCHOR_MICROS, PAYLOAD_BYTES_MAX, STORED_BYTES_MAX};
use crate::segments::{self, SegmentFile, path_of};

/// Compression level. It is the fastest level that still finds repeated names and addresses.
const LEVEL: i32 = 1;

/// Options for opening a trail.
#[derive(Debug)]
pub struct Options {
    /// Folder of the trail. It is created if it does not exist.
    pub folder: PathBuf,
    /// Key that signs anchors.
    pub key: NodeKey,
    /// Size in bytes at which a new segment begins.
    pub segment_bytes: u64,
    /// Age in microseconds at which a new segment begins.
    pub segment_micros: u64,
    /// Maximum total size of all segments in bytes; 0 means no maximum. Above this size, the oldest complete segments
    /// are removed.
    pub keep_bytes: u64,
    /// Maximum age of a segment in microseconds; 0 means no maximum. The age is the time since the segment was
    /// completed. Older segments are removed.
    pub keep_micros: u64,
}

/// Result of opening a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Log position up to which the trail contains all changes; `None` for a new trail.
    pub position: Option<u64>,
    /// Torn bytes that a crash left at the end of the trail.
    pub torn: Option<Torn>,
}

/// Torn bytes: bytes after the last whole block, from a write that a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Number of the segment that contains the bytes.
    pub segment: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    hash: Hash,
}

/// A segment to which no more blocks are written.
#[derive(Debug)]
struct Complete {
    number: u64,
    bytes: u64,
    ended_micros: u64,
}

/// A trail that is open for writing.
pub struct Trail {
    options: Options,
    trail: [u8; 16],
    compressor: zstd::bulk::Compressor<'static>,
    file: File,
    path: PathBuf,
    segment: u64,
    made_micros: u64,
    /// Length of the current segment up to the end of its last whole block.
    len: u64,
    /// Whether the file may be longer than `len`, because a write failed.
    is_longer: bool,
    next_block: u64,
    /// Hash to which the next block links: the hash of the last block, or the hash of the header if the segment has no
    /// block.
    link: Hash,
    position: u64,
    anchored_micros: u64,
    is_anchored: bool,
    complete: Vec<Complete>,
    /// Buffer for the next block.
    buffer: Vec<u8>,
    /// Lock that excludes other writers from the folder.
    _lock: File,
}

impl Trail {
    /// Opens or creates a trail. `now_micros` is the present time. If the trail is new, it contains the changes after
    /// the log position `position`.
    ///
    /// # Errors
    /// The folder cannot be used, another process writes to the trail, or the newest segment cannot be continued.
    pub fn open(options: Options, position: u64, now_micros: u64) -> Result<(Trail, Opening), AuditError> {
        let folder = options.folder.clone();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(AuditError::io(&folder))?;
        let lock = lock(&folder)?;
        let end = find_end(&folder)?;
        let trail = match &end {
            Some(end) => end.trail,
            None => {
                let mut random = [0; 16];
                SystemRandom::new().fill(&mut random).map_err(|_| AuditError::Random)?;
                random
            }
        };
        let opening = Opening {
            position: end.as_ref().map(|end| end.position),
            torn: end.as_ref().and_then(|end| end.torn),
        };
        let last = end.as_ref().map_or(0, |end| end.segment);
        let header = SegmentHeader {
            trail,
            segment: last + 1,
            first_block: end.as_ref().map_or(0, |end| end.block) + 1,
            made_micros: now_micros,
            before: end.as_ref().map_or([0; HASH_LEN], |end| end.hash),
            public_key: options.key.public().0,
        };
        let complete = complete_segments(&folder, last)?;
        let (file, path) = begin_segment(&folder, &header)?;
        let mut trail = Trail {
            compressor: zstd::bulk::Compressor::new(LEVEL).map_err(AuditError::Compress)?,
            options,
            trail,
            file,
            path,
            segment: header.segment,
            made_micros: now_micros,
            len: HEADER_LEN as u64,
            is_longer: false,
            next_block: header.first_block,
            link: header.hash(),
            position: opening.position.unwrap_or(position),
            anchored_micros: now_micros,
            is_anchored: false,
            complete,
            buffer: Vec::new(),
            _lock: lock,
        };
        trail.write_public_key()?;
        trail.note(now_micros, |event, position| {
            event.kind(Kind::Started).number(Field::Time, now_micros).number(Field::Position, position);
            if let Some(torn) = opening.torn {
                event
                    .number(Field::Segment, torn.segment)
                    .number(Field::Offset, torn.offset)
                    .number(Field::Count, torn.bytes)
                    .bytes(Field::Hash, &torn.hash);
            }
        })?;
        trail.anchor(now_micros)?;
        trail.retire(now_micros)?;
        Ok((trail, opening))
    }

    /// Returns the log position up to which the trail contains all changes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of the last block.
    pub fn last_block(&self) -> u64 {
        self.next_block - 1
    }

    /// Returns the total size of all segments in bytes.
    pub fn bytes(&self) -> u64 {
        self.len + self.complete.iter().map(|segment| segment.bytes).sum::<u64>()
    }

    /// Writes a block of events. `events` must have at most [`PAYLOAD_BYTES_MAX`] bytes. After the call, the trail
    /// contains all changes up to `position`. A power cut may lose blocks that were written after the last
    /// [`sync`](Trail::sync).
    ///
    /// # Errors
    /// `events` is too long, or the write failed. The trail does not contain the events, so they can be written again.
    pub fn write(
        &mut self,
        events: &[u8],
        event_count: u32,
        position: u64,
        now_micros: u64,
    ) -> Result<(), AuditError> {
        self.rotate_if_due(now_micros)?;
        self.append(BlockKind::Events, events, event_count, position, now_micros)
    }

    /// Makes all written blocks durable.
    ///
    /// # Errors
    /// The disk failed.
    pub fn sync(&mut self) -> Result<(), AuditError> {
        self.file.sync_data().map_err(AuditError::io(&self.path))
    }

    /// Writes an anchor if a block was written after the last anchor and [`ANCHOR_MICROS`] have passed since that
    /// anchor.
    ///
    /// # Errors
    /// The same as for [`anchor`](Trail::anchor).
    pub fn anchor_if_due(&mut self, now_micros: u64) -> Result<(), AuditError> {
        if !self.is_anchored && now_micros.saturating_sub(self.anchored_micros) >= ANCHOR_MICROS {
            self.anchor(now_micros)?;
        }
        Ok(())
    }

    /// Returns true if a block was written after the last anchor.
    pub fn wants_anchor(&self) -> bool {
        !self.is_anchored
    }

    /// Writes an anchor, which signs the present chain, and makes it durable. Does nothing if no block was written
    /// since the last anchor.
    ///
    /// # Errors
    /// The disk failed, or is full.
    pub fn anchor(&mut self, now_micros: u64) -> Result<(), AuditError> {
        if self.is_anchored {
            return Ok(());
        }
        self.append(BlockKind::Anchor, &[], 0, self.position, now_micros)?;
        self.sync()?;
        self.is_anchored = true;
        self.anchored_micros = now_micros;
        self.write_head_file()
    }

    /// Writes an event that the server stopped, and an anchor. Then closes the trail.
    ///
    /// # Errors
    /// The same as for [`anchor`](Trail::anchor).
    pub fn close(mut self, now_micros: u64) -> Result<(), AuditError> {
        self.note(now_micros, |event, position| {
            event.kind(Kind::Stopped).number(Field::Time, now_micros).number(Field::Position, position);
        })?;
        self.anchor(now_micros)
    }

    /// Writes a block that contains one event about the trail itself.
    fn note(
        &mut self,
        now_micros: u64,
        write: impl FnOnce(&mut EventWriter<'_>, u64),
    ) -> Result<(), AuditError> {
        let (mut fields, mut events) = (Vec::new(), Vec::new());
        write(&mut EventWriter::new(&mut fields), self.position);
        EventWriter::finish(&mut events, &[&fields]);
        self.append(BlockKind::Events, &events, 1, self.position, now_micros)
    }

    fn append(
        &mut self,
        kind: BlockKind,
        payload: &[u8],
        event_count: u32,
        position: u64,
        now_micros: u64,
    ) -> Result<(), AuditError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(AuditError::TooLong(payload.len()));
        }
        self.cut()?;
        self.buffer.clear();
        self.buffer.resize(BLOCK_HEAD_LEN, 0);
        let mut head = BlockHead {
            kind,
            number: self.next_block,
            written_micros: now_micros,
            position,
            event_count,
            payload_len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            stored_len: 0,
            link: self.link,
        };
        match kind {
            BlockKind::Events => {
                let bound = zstd::zstd_safe::compress_bound(payload.len()).min(STORED_BYTES_MAX);
                self.buffer.resize(BLOCK_HEAD_LEN + bound, 0);
                let into = self.buffer.get_mut(BLOCK_HEAD_LEN..).unwrap_or_default();
                let stored =
                    self.compressor.compress_to_buffer(payload, into).map_err(AuditError::Compress)?;
                self.buffer.truncate(BLOCK_HEAD_LEN + stored);
                head.stored_len = u32::try_from(stored).unwrap_or(u32::MAX);
            }
            BlockKind::Anchor => {
                head.payload_len = u32::try_from(SIGNATURE_LEN).unwrap_or(u32::MAX);
                head.stored_len = head.payload_len;
                let signature = self.options.key.sign(&anchor_text(&self.trail, &head.encode()));
                self.buffer.extend_from_slice(&signature);
            }
        }
        if let Some(room) = self.buffer.first_chunk_mut() {
            *room = head.encode();
        }
        let hash = hash(&[&self.buffer]);
        self.buffer.extend_from_slice(&hash);
        self.is_longer = true;
        self.file.write_all_at(&self.buffer, self.len).map_err(AuditError::io(&self.path))?;
        self.is_longer = false;
        self.len += self.buffer.len() as u64;
        self.next_block += 1;
        self.link = hash;
        self.position = position;
        self.is_anchored = false;
        Ok(())
    }

    /// Removes the bytes of a failed write from the end of the file.
    fn cut(&mut self) -> Result<(), AuditError> {
        if self.is_longer {
            self.file.set_len(self.len).map_err(AuditError::io(&self.path))?;
            self.is_longer = false;
        }
        Ok(())
    }

    fn rotate_if_due(&mut self, now_micros: u64) -> Result<(), AuditError> {
        let age = now_micros.saturating_sub(self.made_micros);
        if self.len < self.options.segment_bytes && age < self.options.segment_micros {
            return Ok(());
        }
        self.anchor(now_micros)?;
        let header = SegmentHeader {
            trail: self.trail,
            segment: self.segment + 1,
            first_block: self.next_block,
            made_micros: now_micros,
            before: self.link,
            public_key: self.options.key.public().0,
        };
        let (file, path) = begin_segment(&self.options.folder, &header)?;
        self.complete.push(Complete { number: self.segment, bytes: self.len, ended_micros: now_micros });
        (self.file, self.path, self.segment) = (file, path, header.segment);
        (self.made_micros, self.len) = (now_micros, HEADER_LEN as u64);
        self.link = header.hash();
        self.retire(now_micros)
    }

    /// Removes the oldest segments that exceed the limits. Records the removal in the trail first.
    fn retire(&mut self, now_micros: u64) -> Result<(), AuditError> {
        let Options { keep_bytes, keep_micros, .. } = self.options;
        let mut bytes = self.bytes();
        let is_old = |segment: &Complete| {
            keep_micros > 0 && now_micros.saturating_sub(segment.ended_micros) > keep_micros
        };
        let count = self.complete.iter().take_while(|segment| {
            let goes = is_old(segment) || (keep_bytes > 0 && bytes > keep_bytes);
            bytes -= segment.bytes;
            goes
        });
        let count = count.count();
        let Some(last) = count.checked_sub(1).and_then(|last| self.complete.get(last)) else { return Ok(()) };
        let last = last.number;
        self.note(now_micros, |event, _| {
            event.kind(Kind::Retired).number(Field::Time, now_micros).number(Field::Segment, last);
        })?;
        self.anchor(now_micros)?;
        for segment in self.complete.drain(..count) {
            let path = path_of(&self.options.folder, segment.number);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(AuditError::io(path)(error));
                }
                _ => {}
            }
        }
        sync_folder(&self.options.folder)
    }

    fn write_head_file(&self) -> Result<(), AuditError> {
        let head =
            HeadFile { trail: self.trail, segment: self.segment, block: self.last_block(), hash: self.link };
        let bytes = head.encode(|text| self.options.key.sign(text));
        write_atomically(&self.options.folder, "head", &bytes)
    }

    fn write_public_key(&self) -> Result<(), AuditError> {
        let text = format!("{}\n", self.options.key.public());
        if fs::read(self.options.folder.join("key.pub")).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(());
        }
        write_atomically(&self.options.folder, "key.pub", text.as_bytes())
    }
}

/// Point from which an opened trail continues.
struct End {
    trail: [u8; 16],
    segment: u64,
    block: u64,
    hash: Hash,
    position: u64,
    torn: Option<Torn>,
}

/// Finds the last whole block that precedes any torn bytes. Removes newer segments without blocks. A crash leaves such
/// a segment if it interrupts the creation of the segment.
fn find_end(folder: &Path) -> Result<Option<End>, AuditError> {
    let mut numbers = segments::list(folder)?;
    let has_any = !numbers.is_empty();
    while let Some(number) = numbers.pop() {
        let segment = SegmentFile::open(folder, number)?;
        let header = segment.header;
        let anchored =
            header.and_then(|header| segments::anchored(folder, header.trail, PublicKey(header.public_key)));
        let Some((block, end)) = segment.last_whole(anchored)? else {
            let path = path_of(folder, number);
            fs::remove_file(&path).map_err(AuditError::io(path))?;
            continue;
        };
        let len = segment.len()?;
        let torn = if len > end {
            Some(Torn { segment: number, offset: end, bytes: len - end, hash: segment.hash_of(end, len)? })
        } else {
            None
        };
        // If the header of this segment is damaged, an older segment identifies the trail.
        let mut header = header;
        while let (None, Some(other)) = (header, numbers.pop()) {
            header = SegmentFile::open(folder, other)?.header;
        }
        let trail = header.ok_or_else(|| AuditError::NoChain(folder.to_owned()))?.trail;
        let BlockHead { number: block_number, position, .. } = block.head;
        let hash = block.hash;
        return Ok(Some(End { trail, segment: number, block: block_number, hash, position, torn }));
    }
    if has_any {
        sync_folder(folder)?;
    }
    Ok(None)
}

fn complete_segments(folder: &Path, last: u64) -> Result<Vec<Complete>, AuditError> {
    let mut complete = Vec::new();
    for number in segments::list(folder)?.into_iter().filter(|&number| number <= last) {
        let path = path_of(folder, number);
        let metadata = fs::metadata(&path).map_err(AuditError::io(&path))?;
        let ended = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let ended_micros =
            ended.map_or(u64::MAX, |ended| u64::try_from(ended.as_micros()).unwrap_or(u64::MAX));
        complete.push(Complete { number, bytes: metadata.len(), ended_micros });
    }
    Ok(complete)
}

/// Creates the file of a segment. On return, its header and its name are durable. Replaces an existing file of the
/// segment. Such a file has no blocks, because its creation failed.
fn begin_segment(folder: &Path, header: &SegmentHeader) -> Result<(File, PathBuf), AuditError> {
    let path = path_of(folder, header.segment);
    let make = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&header.encode())?;
        file.sync_all()?;
        Ok(file)
    };
    let file = make().map_err(AuditError::io(&path))?;
    sync_folder(folder)?;
    Ok((file, path))
}

fn lock(folder: &Path) -> Result<File, AuditError> {
    let path = folder.join("lock");
    let open = || {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    };
    open().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let text = "another server writes its audit trail to this folder";
            AuditError::io(&path)(io::Error::new(error.kind(), text))
        }
        _ => AuditError::io(&path)(error),
    })
}

fn write_atomically(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), AuditError> {
    let (path, beside) = (folder.join(name), folder.join(format!("{name}.new")));
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&beside, &path)
    };
    write().map_err(AuditError::io(&path))
}

fn sync_folder(folder: &Path) -> Result<(), AuditError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(AuditError::io(folder))
}
