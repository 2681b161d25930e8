//! Reading a damaged log, to save its intact groups.
//!
//! Even if [`Survey`](super::replay::Survey) refuses the log, salvage classifies its groups:
//!
//! ```text
//!   checkpointed | 41 42 43 | 44 and 45 missing | 46 47    | 48 torn
//!                  whole      missing             detached   in doubt
//! ```
//!
//! A group is *whole* if its checksums are correct and it has the next number, which proves that nothing is missing
//! before it. All groups after the first gap are *detached*: they can be read but not applied, because their rows may
//! depend on rows of missing groups, and do not record that. A valid head or tail without its payload proves that the
//! groups before it were durable. The last group with a valid head or tail but no valid payload is *in doubt*, because
//! the power may have failed while it was being written.
//!
//! Salvage does not detect deliberate changes. Unreadable bytes count as zeroes. Each frame contains the number and the
//! identity of its segment. If they contradict the segment's header, the frame takes precedence.

#![expect(
    clippy::indexing_slicing,
    reason = "a group is named with the index of the segment in which it was found"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Owner;
use super::frame::{self, BLOCK_LEN, Found, Header, Identity, Life};
use super::group::{Change, decode};
use super::mark;
use super::replay::Replay;
use super::segment::{self, Segment};
use crate::Result;
use crate::disk::Room;
use crate::error::RedoDamage;
use crate::layout;

const FIRST_FRAME_AT: u64 = BLOCK_LEN as u64;

/// Damage of a file and its offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDamage {
    /// The segment.
    pub file: PathBuf,
    /// Offset in the file.
    pub offset: u64,
    /// Kind of damage.
    pub what: FileDamageKind,
}

/// Kind of damage in a file of the redo log.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileDamageKind {
    /// Groups follow an invalid header.
    #[error("the segment's header is damaged; its groups are read nevertheless")]
    Header,
    /// The file's name has a different number than its header. The value is the number in the header.
    #[error("the header is that of segment {0}; its groups are read nevertheless")]
    Renamed(u64),
    /// The segment has another identity than the data file.
    #[error("the segment belongs to other data and is not read")]
    Foreign,
    /// The header has a format version that this program does not read.
    #[error("format version {0} is unknown, the segment is not read")]
    Version(u32),
    /// The mark, which names the required segments, is missing or damaged. The newest segments may then be missing
    /// without any other sign.
    #[error("{0}; without it, missing newest segments cannot be detected")]
    Mark(String),
    /// A required segment is missing or truncated.
    #[error("{0}")]
    Lost(String),
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The head or the tail of the group with this number is valid, but its payload is not.
    #[error("group {0} is not whole")]
    NotWhole(u64),
    /// The checksum of the group with this number is correct, but its bytes are not valid changes.
    #[error("group {0} contains an invalid change")]
    NotAChange(u64),
    /// A group follows a group with a higher number, and is not a copy of the earlier group with the same number.
    #[error("redo group {found} follows group {last}; expected {}", last + 1)]
    Order {
        /// Number of the preceding group.
        last: u64,
        /// Number of the group that follows.
        found: u64,
    },
}

impl FileDamageKind {
    /// Returns true if this damage may hide groups, which are then not counted as missing.
    fn hides_groups(&self) -> bool {
        matches!(
            self,
            FileDamageKind::Version(_)
                | FileDamageKind::Unreadable(_)
                | FileDamageKind::Mark(_)
                | FileDamageKind::Lost(_)
        )
    }
}

/// Location of a group: the index of its segment, and its frame.
type GroupLocation = (usize, Found);

/// Contents of a log, which may be damaged.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    segments: Vec<Segment>,
    /// The groups after the last checkpointed group, up to the first gap.
    whole: Vec<GroupLocation>,
    /// Detached groups, in the order of their numbers. They follow the gap.
    detached: Vec<GroupLocation>,
    /// Numbers of groups that were durable and cannot be read.
    pub(crate) missing: Vec<RangeInclusive<u64>>,
    /// The group that may or may not have been durable.
    pub(crate) in_doubt: Option<u64>,
    pub(crate) damage: Vec<FileDamage>,
}

/// A segment that may contain frames of the identity that is searched for.
struct Candidate {
    index: usize,
    life: Life,
    /// Damage to report if the file contains groups.
    damage: Option<FileDamageKind>,
}

/// Groups of one identity in the order in which they were written.
#[derive(Default)]
struct Scanned {
    /// Groups. The flag is true if the group's payload decodes as changes.
    groups: Vec<(GroupLocation, bool)>,
    /// Heads and tails without an intact payload.
    torn: Vec<TornGroup>,
}

/// A valid head or tail without its payload: the index of its segment, the offset of its block, and the group's
/// sequence number.
struct TornGroup {
    index: usize,
    offset: u64,
    sequence: u64,
}

impl Findings {
    /// Reads the segments in `directory` that belong to the data of `owner`. Changes nothing.
    ///
    /// # Errors
    /// `Engine`: the directory cannot be read.
    pub(crate) fn of(directory: &Path, room: &Room, owner: &Owner) -> Result<Findings> {
        let (mut findings, headers) = Findings::open_all(directory, room, Some(owner.identity))?;
        let scanned = findings.scan(&headers, owner.identity);
        findings.sort_out(scanned, Some(owner.checkpointed));
        if owner.is_marked {
            findings.add_marked(directory, owner, &headers);
        }
        Ok(findings)
    }

    /// Records as missing the groups that were durable according to the mark and are not in the log. If the newest
    /// segments are missing, only the mark shows it.
    fn add_marked(&mut self, directory: &Path, owner: &Owner, headers: &[Option<Header>]) {
        let marked = match mark::read(directory, owner.identity) {
            Ok(Ok(marked)) => marked,
            Ok(Err(damage)) => {
                return self.add_damage(mark::path(directory), 0, FileDamageKind::Mark(damage.to_string()));
            }
            Err(error) => {
                return self.add_damage(
                    mark::path(directory),
                    0,
                    FileDamageKind::Unreadable(error.to_string()),
                );
            }
        };
        match marked.contradictions(directory, owner.identity, owner.checkpointed) {
            Ok(findings) => {
                let is_elsewhere = |file: &Path| {
                    let number = file.file_name().and_then(layout::redo_number);
                    let lives = headers.iter().flatten();
                    lives
                        .clone()
                        .any(|header| matches!(header, Header::Of(life) if Some(life.number) == number))
                };
                // Other contradictions do not matter, because the contents of the segments concerned were read.
                let is_lost = |damage: &RedoDamage| {
                    matches!(damage, RedoDamage::SegmentMissing { .. } | RedoDamage::SegmentShort { .. })
                };
                let lost = findings.into_iter().filter(|found| is_lost(&found.damage));
                for found in lost.filter(|found| !is_elsewhere(&found.file)) {
                    self.add_damage(found.file, 0, FileDamageKind::Lost(found.damage.to_string()));
                }
            }
            Err(error) => {
                self.add_damage(directory.to_owned(), 0, FileDamageKind::Unreadable(error.to_string()));
            }
        }
        let places = self.whole.iter().chain(&self.detached).map(|(_, found)| found.sequence);
        let missing = self.missing.iter().map(|numbers| *numbers.end());
        let known = places.chain(missing).chain([owner.checkpointed]).max().unwrap_or(0);
        self.miss(known + 1, marked.last + 1);
        if self.in_doubt.is_some_and(|in_doubt| in_doubt <= marked.last) {
            self.in_doubt = None;
        }
    }

    /// Reads all segments in `directory` if there is no data file to apply them to. All groups are detached.
    ///
    /// # Errors
    /// `Engine`: the directory cannot be read.
    pub(crate) fn without_data(directory: &Path, room: &Room) -> Result<Findings> {
        let (mut findings, headers) = Findings::open_all(directory, room, None)?;
        let mut identities: Vec<Identity> = Vec::new();
        for header in headers.iter().flatten() {
            if let Header::Of(life) = header
                && !identities.contains(&life.identity)
            {
                identities.push(life.identity);
            }
        }
        for identity in identities {
            let scanned = findings.scan(&headers, identity);
            findings.sort_out(scanned, None);
        }
        Ok(findings)
    }

    /// Opens the files that have a segment's name, and reads their headers.
    fn open_all(
        directory: &Path,
        room: &Room,
        identity: Option<Identity>,
    ) -> Result<(Findings, Vec<Option<Header>>)> {
        let failed = |error: io::Error| room.io_error("read the redo log", &error);
        let (mut findings, mut headers) = (Findings::default(), Vec::new());
        for (number, path) in segment::list(directory).map_err(failed)? {
            let segment = match Segment::open(path.clone(), identity.unwrap_or_default(), number, false) {
                Ok(segment) => segment,
                Err(error) => {
                    findings.add_damage(path, 0, FileDamageKind::Unreadable(error.to_string()));
                    continue;
                }
            };
            let mut block = [0; BLOCK_LEN];
            let header = match segment.file.read_exact_at(&mut block, 0) {
                Ok(()) => frame::parse_header(&block),
                // The damage is reported when the blocks are read.
                Err(_) => None,
            };
            match header {
                Some(Header::Version(version)) => {
                    findings.add_damage(path, 0, FileDamageKind::Version(version));
                }
                Some(Header::Of(life)) if identity.is_some_and(|identity| life.identity != identity) => {
                    findings.add_damage(path, 0, FileDamageKind::Foreign);
                }
                _ => {}
            }
            findings.segments.push(segment);
            headers.push(header);
        }
        Ok((findings, headers))
    }

    fn add_damage(&mut self, file: PathBuf, offset: u64, what: FileDamageKind) {
        self.damage.push(FileDamage { file, offset, what });
    }

    /// Finds the groups of an identity.
    fn scan(&mut self, headers: &[Option<Header>], identity: Identity) -> Scanned {
        let mut candidates = Vec::new();
        for (index, (segment, header)) in self.segments.iter().zip(headers).enumerate() {
            let number = segment.life.number;
            let by_name = Life { identity, number };
            match header {
                Some(Header::Version(_)) => {}
                Some(Header::Of(life)) if life.identity != identity => {}
                Some(Header::Of(life)) => {
                    let damage = (life.number != number).then_some(FileDamageKind::Renamed(life.number));
                    candidates.push(Candidate { index, life: *life, damage });
                    if life.number != number {
                        candidates.push(Candidate {
                            index,
                            life: by_name,
                            damage: Some(FileDamageKind::Header),
                        });
                    }
                }
                None => {
                    candidates.push(Candidate { index, life: by_name, damage: Some(FileDamageKind::Header) });
                }
            }
        }
        candidates.sort_by_key(|candidate| candidate.life.number);
        let mut scanned = Scanned::default();
        for candidate in candidates {
            self.scan_segment(candidate, &mut scanned);
        }
        scanned
    }

    fn scan_segment(&mut self, candidate: Candidate, scanned: &mut Scanned) {
        let Candidate { index, life, damage } = candidate;
        let segment = self.segments[index].clone();
        let (mut block, mut payload) = ([0; BLOCK_LEN], Vec::new());
        let (mut offset, mut unreadable, mut has_groups) = (FIRST_FRAME_AT, None, false);
        while segment.length.saturating_sub(offset) >= BLOCK_LEN as u64 {
            if let Err(error) = segment.file.read_exact_at(&mut block, offset) {
                block.fill(0);
                unreadable.get_or_insert((offset, error));
            }
            let head = frame::parse_head(&life, &block, offset);
            match head.as_ref().map(|found| (found, read_payload(&segment, found, &mut payload))) {
                Some((found, Ok(true))) => {
                    has_groups = true;
                    let is_changes = decode(&payload).all(|change| change.is_ok());
                    scanned.groups.push(((index, *found), is_changes));
                    offset = found.end();
                    continue;
                }
                Some((_, Err(error))) => {
                    unreadable.get_or_insert((offset, error));
                }
                Some((_, Ok(false))) | None => {}
            }
            let sequence = head.map(|found| found.sequence).or_else(|| frame::parse_tail(&life, &block));
            if let Some(sequence) = sequence {
                has_groups = true;
                scanned.torn.push(TornGroup { index, offset, sequence });
            }
            offset += BLOCK_LEN as u64;
        }
        if let Some((offset, error)) = unreadable {
            self.add_damage(segment.path.clone(), offset, FileDamageKind::Unreadable(error.to_string()));
        }
        if let Some(damage) = damage.filter(|_| has_groups) {
            self.add_damage(segment.path, 0, damage);
        }
    }

    /// Classifies each group of one identity. Without a data file `checkpointed` is `None`, and no group is whole.
    fn sort_out(&mut self, scanned: Scanned, checkpointed: Option<u64>) {
        let mut last = checkpointed.unwrap_or(0);
        let mut gap = checkpointed.is_none();
        // Payload length and checksum of each group, by the group's number. They distinguish a copy of a group from a
        // different group with the same number.
        let mut known: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        let (mut detached, mut broken) = (Vec::new(), BTreeSet::new());
        for (place, is_changes) in scanned.groups {
            let found = place.1;
            let form = (found.payload_len, found.payload_crc);
            if checkpointed.is_some_and(|checkpointed| found.sequence <= checkpointed)
                || known.get(&found.sequence) == Some(&form)
            {
                continue;
            }
            let file = || self.segments[place.0].path.clone();
            if !is_changes {
                gap = true;
                broken.insert(found.sequence);
                self.add_damage(file(), found.offset, FileDamageKind::NotAChange(found.sequence));
                continue;
            }
            if !gap && found.sequence <= last {
                let what = FileDamageKind::Order { last, found: found.sequence };
                self.add_damage(file(), found.offset, what);
            }
            gap |= found.sequence != last + 1;
            known.insert(found.sequence, form);
            if gap {
                detached.push(place);
            } else {
                last = found.sequence;
                self.whole.push(place);
            }
        }
        detached.sort_by_key(|(_, found)| found.sequence);
        self.count_missing(&detached, &scanned.torn, &broken, checkpointed.map(|_| last));
        self.detached.append(&mut detached);
    }

    /// Finds the numbers of missing groups. `last` is the number of the last whole group. It is `None` if the first
    /// number of the log is unknown.
    fn count_missing(
        &mut self,
        detached: &[GroupLocation],
        torn: &[TornGroup],
        broken: &BTreeSet<u64>,
        last: Option<u64>,
    ) {
        let first = detached.first().map(|(_, found)| found.sequence);
        let mut next = match (last, first.or_else(|| broken.first().copied())) {
            (Some(last), _) => last + 1,
            (None, Some(first)) => first,
            (None, None) => return,
        };
        let mut named = BTreeSet::new();
        for (_, found) in detached {
            named.insert(found.sequence);
            self.miss(next, found.sequence);
            next = next.max(found.sequence + 1);
        }
        if let Some(broken) = broken.last() {
            self.miss(next, broken + 1);
            next = next.max(broken + 1);
        }
        let start = last.unwrap_or(0);
        let mut in_doubt = None;
        for TornGroup { index, offset, sequence } in torn {
            // A number is reported once, even if both the head and the tail of its group are valid.
            if *sequence <= start || !named.insert(*sequence) {
                continue;
            }
            let file = self.segments[*index].path.clone();
            self.add_damage(file, *offset, FileDamageKind::NotWhole(*sequence));
            in_doubt = in_doubt.max(Some(*sequence).filter(|sequence| *sequence >= next));
        }
        if let Some(in_doubt) = in_doubt {
            // All groups before `in_doubt` were durable, because a group is written only after all earlier groups are
            // durable.
            self.miss(next, in_doubt);
            self.in_doubt = Some(in_doubt);
        }
    }

    /// Records that the groups from `next` to `found` - 1 are missing.
    fn miss(&mut self, next: u64, found: u64) {
        if next < found {
            self.missing.push(next..=found - 1);
        }
    }

    /// Returns true if the directory has any segment.
    pub(crate) fn has_segments(&self) -> bool {
        !self.segments.is_empty() || !self.damage.is_empty()
    }

    /// Returns the numbers of the groups that may be applied.
    pub(crate) fn whole(&self) -> Option<RangeInclusive<u64>> {
        let (first, last) = (self.whole.first()?, self.whole.last()?);
        Some(first.1.sequence..=last.1.sequence)
    }

    /// Returns true if nothing is missing as far as the log shows.
    pub(crate) fn is_whole(&self) -> bool {
        self.detached.is_empty()
            && self.missing.is_empty()
            && self.in_doubt.is_none()
            && !self.damage.iter().any(|damage| damage.what.hides_groups())
    }

    /// Returns a replay of the whole groups.
    pub(crate) fn replay(&self, room: Room) -> Replay {
        Replay::of_groups(self.segments.clone(), self.whole.clone(), room)
    }

    /// Calls `each` with the changes and the number of each detached group. Only one group is in memory at a time.
    ///
    /// # Errors
    /// `Engine`: the log can no longer be read.
    pub(crate) fn for_each_detached(
        &self,
        room: &Room,
        each: &mut dyn FnMut(u64, &mut dyn Iterator<Item = Change<'_>>),
    ) -> Result<()> {
        let mut payload = Vec::new();
        for (index, found) in &self.detached {
            let whole = read_payload(&self.segments[*index], found, &mut payload);
            if whole.map_err(|error| room.io_error("read the redo log", &error))? {
                each(found.sequence, &mut decode(&payload).map_while(std::result::Result::ok));
            }
        }
        Ok(())
    }
}

/// Reads the payload of a frame whose head is valid. Returns true if its checksum is correct.
fn read_payload(segment: &Segment, found: &Found, payload: &mut Vec<u8>) -> io::Result<bool> {
    // This check also prevents the allocation of an impossible length.
    if found.payload_len > segment.length.saturating_sub(found.payload_at()) {
        return Ok(false);
    }
    payload.resize(usize::try_from(found.payload_len).unwrap_or(usize::MAX), 0);
    segment.file.read_exact_at(payload, found.payload_at())?;
    Ok(crc32c::crc32c(payload) == found.payload_crc)
}
