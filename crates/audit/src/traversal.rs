//! Reader of a trail. It checks each block against its hash and the previous block. A traversal continues after damage.
//! It reports each damaged range once and reads all readable blocks.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::error::{AuditError, Damage, TrailPlace};
use crate::event::{Events, Field, Kind};
use crate::format::{BLOCK_HEAD_LEN, BlockKind, HEADER_LEN, Hash, SegmentHeader, anchor_text};
use crate::key::PublicKey;
use crate::segments::{self, Found, SegmentFile, StoredBlock};

/// Item that a traversal yields.
#[derive(Debug)]
pub enum Item {
    /// A block. If the block is damaged, an item with the damage precedes it.
    Block(Block),
    /// Damage, and its place.
    Damage(TrailPlace, Damage),
    /// Torn bytes of a write that a crash interrupted. Either a later block records them, or they are the end of the
    /// trail.
    Torn(TrailPlace),
}

/// A block whose head, at least, is readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Place of the block.
    pub place: TrailPlace,
    /// Number of the block.
    pub number: u64,
    /// Time of writing, in microseconds since 1970.
    pub written_micros: u64,
    /// Position in the directory's log up to which the trail contains all changes.
    pub position: u64,
    /// Hash of the block.
    pub hash: [u8; 32],
    /// Whether the block is an anchor.
    pub is_anchor: bool,
    /// Number of events in the block.
    pub event_count: u32,
    /// The encoded events; see [`Events::of`].
    pub events: Vec<u8>,
}

/// A traversal of the segments in a folder.
pub struct Traversal {
    folder: PathBuf,
    /// Numbers of the segments that follow, in order.
    ahead: VecDeque<u64>,
    segment: Option<SegmentFile>,
    offset: u64,
    /// Offset at which the traversal of the current segment ends. Torn bytes are after this offset.
    end: u64,
    /// Offset of the torn bytes at the end of the segment; `None` if no torn bytes are known.
    torn_from: Option<u64>,
    /// Whether the end of the current segment is known, because another segment follows and its record about that end
    /// was read.
    is_complete: bool,
    /// Number of the segment that was entered last.
    last_segment: Option<u64>,
    /// Identity of the trail; `None` if no header can be read.
    trail: Option<[u8; 16]>,
    public_key: Option<PublicKey>,
    /// Hashes to which the next block may link. If empty, every link is accepted.
    links: Vec<Hash>,
    next_number: Option<u64>,
    decompressor: zstd::bulk::Decompressor<'static>,
    found: VecDeque<Item>,
}

impl Traversal {
    /// Begins a traversal at the oldest segment.
    ///
    /// # Errors
    /// The folder cannot be read, or contains no segment.
    pub fn begin(folder: &Path) -> Result<Traversal, AuditError> {
        let ahead: VecDeque<u64> = segments::list(folder)?.into();
        if ahead.is_empty() {
            return Err(AuditError::NoTrail(folder.to_owned()));
        }
        // If some headers are damaged, another header still identifies the trail.
        let mut header = None;
        for &number in &ahead {
            header = SegmentFile::open(folder, number)?.header;
            if header.is_some() {
                break;
            }
        }
        Ok(Traversal {
            folder: folder.to_owned(),
            ahead,
            segment: None,
            offset: 0,
            end: 0,
            torn_from: None,
            is_complete: false,
            last_segment: None,
            trail: header.map(|header| header.trail),
            public_key: header.map(|header| PublicKey(header.public_key)),
            links: Vec::new(),
            next_number: None,
            decompressor: zstd::bulk::Decompressor::new().map_err(AuditError::Compress)?,
            found: VecDeque::new(),
        })
    }

    /// Continues at `offset`, the end of a block that an earlier traversal has read. If the block's segment was
    /// removed, continues with the oldest later segment.
    ///
    /// # Errors
    /// The same as for [`begin`](Traversal::begin).
    pub fn resume(folder: &Path, segment: u64, offset: u64) -> Result<Traversal, AuditError> {
        let mut traversal = Traversal::begin(folder)?;
        traversal.ahead.retain(|number| *number >= segment);
        if traversal.ahead.is_empty() {
            traversal.last_segment = segment.checked_sub(1);
        }
        if traversal.ahead.front() == Some(&segment) && offset > HEADER_LEN as u64 {
            traversal.ahead.pop_front();
            traversal.enter(segment)?;
            // Clear the findings, because the earlier traversal has already reported damage of the header. The hash
            // to which the next block links is unknown.
            traversal.found.clear();
            traversal.offset = offset.min(traversal.end);
            traversal.links.clear();
            traversal.next_number = None;
        }
        Ok(traversal)
    }

    /// Returns the key that signs the trail; `None` if no header can be read.
    pub fn public_key(&self) -> Option<PublicKey> {
        self.public_key
    }

    /// Returns the identity of the trail.
    pub(crate) fn trail(&self) -> Option<[u8; 16]> {
        self.trail
    }

    /// Returns the number of the current segment, or of the last segment at the end.
    pub fn segment(&self) -> Option<u64> {
        self.last_segment
    }

    /// Returns the offset of the next block in the current segment.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next item of a trail that is being written. Returns `None` at the present end of the trail, and may
    /// be called again. An incomplete block at the end is not reported as damage, because it may still be in progress.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn follow(&mut self) -> Result<Option<Item>, AuditError> {
        let last = self.last_segment;
        if self.ahead.is_empty() {
            let newer = segments::list(&self.folder)?;
            self.ahead.extend(newer.into_iter().filter(|&number| last.is_none_or(|last| number > last)));
        }
        if let Some(segment) = self.segment.take() {
            // The length is read after the list of segments, because a segment does not grow once the next segment
            // exists.
            self.end = segment.len()?.min(self.torn_from.unwrap_or(u64::MAX));
            if !self.ahead.is_empty() && !self.is_complete {
                self.complete(&segment)?;
            }
            let waits = self.ahead.is_empty()
                && self.found.is_empty()
                && !matches!(segment.block_at(self.offset, self.end)?, Found::Block(_));
            self.segment = Some(segment);
            if waits {
                return Ok(None);
            }
        }
        self.step()
    }

    fn step(&mut self) -> Result<Option<Item>, AuditError> {
        loop {
            if let Some(item) = self.found.pop_front() {
                return Ok(Some(item));
            }
            match self.segment.take() {
                Some(segment) => {
                    let goes_on = self.read_on(&segment)?;
                    if goes_on || self.ahead.is_empty() {
                        self.segment = Some(segment);
                    }
                    if !goes_on && self.ahead.is_empty() {
                        return Ok(None);
                    }
                }
                None => match self.ahead.pop_front() {
                    Some(number) => self.enter(number)?,
                    None => return Ok(None),
                },
            }
        }
    }

    fn place(&self, segment: u64, block: Option<u64>, offset: u64, length: u64) -> TrailPlace {
        TrailPlace { segment, block, offset, length }
    }

    fn damage(&mut self, place: TrailPlace, damage: Damage) {
        self.found.push_back(Item::Damage(place, damage));
    }

    /// Opens a segment, and checks its header against the headers of earlier segments.
    fn enter(&mut self, number: u64) -> Result<(), AuditError> {
        let segment = SegmentFile::open(&self.folder, number)?;
        if let Some(last) = self.last_segment
            && last + 1 != number
        {
            let place = self.place(number, None, 0, 0);
            self.damage(place, Damage::MissingSegments { from: last + 1, to: number - 1 });
            // After missing segments, the hash to which the next block links is unknown.
            self.links.clear();
            self.next_number = None;
        }
        let place = self.place(number, None, 0, HEADER_LEN as u64);
        match segment.header {
            Some(header) if header.segment == number => self.check_header(place, &header),
            _ => {
                self.damage(place, Damage::Header);
                self.links.clear();
            }
        }
        self.last_segment = Some(number);
        self.offset = HEADER_LEN as u64;
        self.end = segment.len()?;
        (self.torn_from, self.is_complete) = (None, false);
        if !self.ahead.is_empty() {
            self.complete(&segment)?;
        }
        self.segment = Some(segment);
        Ok(())
    }

    /// Reads the record about the end of this segment from the next segment.
    fn complete(&mut self, segment: &SegmentFile) -> Result<(), AuditError> {
        self.is_complete = true;
        match self.torn_end(segment.number)? {
            Some(torn) => self.check_torn(segment, torn),
            None => Ok(()),
        }
    }

    fn check_header(&mut self, place: TrailPlace, header: &SegmentHeader) {
        if self.trail != Some(header.trail) || self.public_key != Some(PublicKey(header.public_key)) {
            self.damage(place, Damage::Foreign);
        }
        if !self.links.is_empty() && !self.links.contains(&header.before) {
            self.damage(place, Damage::Link);
        } else if let Some(expected) = self.next_number
            && expected != header.first_block
        {
            self.damage(place, Damage::Order { expected });
        }
        self.next_number = Some(header.first_block);
        self.links = vec![header.hash()];
    }

    /// Returns the record of torn bytes at the end of the segment `number`: the offset of the bytes, their count, and
    /// their hash. The next segment contains this record.
    fn torn_end(&mut self, number: u64) -> Result<Option<(u64, u64, Vec<u8>)>, AuditError> {
        let Some(&next) = self.ahead.front() else { return Ok(None) };
        let segment = SegmentFile::open(&self.folder, next)?;
        let Found::Block(block) = segment.block_at(HEADER_LEN as u64, segment.len()?)? else {
            return Ok(None);
        };
        if !block.is_whole() {
            return Ok(None);
        }
        let Some(events) = self.decompress(&block) else { return Ok(None) };
        let torn = Events::of(&events).filter_map(Result::ok).find_map(|event| {
            if event.kind()? != Kind::Started || event.number(Field::Segment)? != number {
                return None;
            }
            let hash = event.bytes(Field::Hash)?.to_vec();
            Some((event.number(Field::Offset)?, event.number(Field::Count)?, hash))
        });
        Ok(torn)
    }

    fn check_torn(
        &mut self,
        segment: &SegmentFile,
        (offset, bytes, hash): (u64, u64, Vec<u8>),
    ) -> Result<(), AuditError> {
        let place = self.place(segment.number, None, offset, bytes);
        if self.end < offset {
            // Not only torn bytes but also whole blocks are missing. Another check detects that.
            return Ok(());
        }
        let is_same = offset.checked_add(bytes) == Some(self.end)
            && segment.hash_of(offset, self.end)?.as_slice() == hash;
        self.found.push_back(match is_same {
            true => Item::Torn(place),
            false => Item::Damage(place, Damage::TornChanged),
        });
        self.end = offset;
        self.torn_from = Some(offset);
        Ok(())
    }

    /// Reads the block at the current offset. Returns false at the end of the segment.
    fn read_on(&mut self, segment: &SegmentFile) -> Result<bool, AuditError> {
        let (number, offset) = (segment.number, self.offset);
        match segment.block_at(offset, self.end)? {
            Found::End => return Ok(false),
            Found::Block(block) if block.is_whole() || !self.may_be_torn() => {
                self.offset += block.head.block_len();
                self.check_block(number, offset, &block);
            }
            Found::Short | Found::NoHead | Found::Block(_) => match self.next_block(segment)? {
                Some(next) => {
                    let place = self.place(number, self.next_number, offset, next - offset);
                    self.damage(place, Damage::Head);
                    self.offset = next;
                    self.next_number = None;
                    self.links.clear();
                }
                None => {
                    let place = self.place(number, self.next_number, offset, self.end - offset);
                    let is_last = self.ahead.is_empty();
                    self.found.push_back(match is_last {
                        true => Item::Torn(place),
                        false => Item::Damage(place, Damage::Cut),
                    });
                    self.offset = self.end;
                }
            },
        }
        Ok(true)
    }

    /// Returns true if a power cut may have lost bytes at the current offset: no segment follows, and the next block
    /// comes after the last anchor in the file `head`. Returns false if that file is missing or invalid.
    fn may_be_torn(&self) -> bool {
        let (Some(trail), Some(key), Some(next)) = (self.trail, self.public_key, self.next_number) else {
            return false;
        };
        self.ahead.is_empty()
            && segments::anchored(&self.folder, trail, key).is_some_and(|anchored| anchored < next)
    }

    /// Returns the offset at which the traversal continues after a broken block. Returns `None` if no block follows in
    /// the segment, or if a power cut may have lost the rest of the segment.
    fn next_block(&self, segment: &SegmentFile) -> Result<Option<u64>, AuditError> {
        if self.may_be_torn() { Ok(None) } else { segment.next_block(self.offset, self.end) }
    }

    fn check_block(&mut self, segment: u64, offset: u64, block: &StoredBlock) {
        let head = block.head;
        let place = self.place(segment, Some(head.number), offset, head.block_len());
        let mut is_readable = true;
        if !block.is_whole() {
            self.damage(place, Damage::Hash);
            is_readable = false;
        } else if let Some(expected) = self.next_number
            && expected != head.number
        {
            self.damage(place, Damage::Order { expected });
        } else if !self.links.is_empty() && !self.links.contains(&head.link) {
            self.damage(place, Damage::Link);
        }
        // After a damaged block, the next block may link to the stored hash or to the computed hash.
        self.links = vec![block.hash, block.stored_hash];
        self.next_number = head.number.checked_add(1);
        let mut events = Vec::new();
        match head.kind {
            _ if !is_readable => {}
            BlockKind::Events => match self.decompress(block) {
                Some(payload) if is_sound(&payload, head.event_count) => events = payload,
                _ => {
                    self.damage(place, Damage::Payload);
                    is_readable = false;
                }
            },
            BlockKind::Anchor => {
                let text = anchor_text(&self.trail.unwrap_or_default(), &block.head_bytes);
                if self.public_key.is_some_and(|key| !key.has_signed(&text, &block.stored)) {
                    self.damage(place, Damage::Signature);
                    is_readable = false;
                }
            }
        }
        if is_readable {
            self.found.push_back(Item::Block(Block {
                place,
                number: head.number,
                written_micros: head.written_micros,
                position: head.position,
                hash: block.hash,
                is_anchor: head.kind == BlockKind::Anchor,
                event_count: head.event_count,
                events,
            }));
        }
    }

    /// Decompresses the events of a block. Returns `None` if their length differs from the length in the head. The
    /// length in the head is at most [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX).
    fn decompress(&mut self, block: &StoredBlock) -> Option<Vec<u8>> {
        let length = block.head.payload_len as usize;
        let payload = self.decompressor.decompress(&block.stored, length).ok()?;
        (payload.len() == length).then_some(payload)
    }
}

fn is_sound(payload: &[u8], event_count: u32) -> bool {
    let mut count = 0u32;
    for event in Events::of(payload) {
        if event.is_err() {
            return false;
        }
        count = count.saturating_add(1);
    }
    count == event_count
}

impl Iterator for Traversal {
    type Item = Result<Item, AuditError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

// The link is the last field of the head. The checksum covers the bytes before it.
const _: () = assert!(BLOCK_HEAD_LEN == 44 + 32);
