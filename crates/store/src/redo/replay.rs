//! Reads the log from end to end: checks that it is complete, then returns its groups in order.
//!
//! The sequence numbers alone prove that the log is complete. An area without a complete frame may be left by a power
//! cut or a full disk. If the next frame after the area has the next sequence number, the area belongs to a group that
//! was never acknowledged. If that frame has a higher number, the group in between was acknowledged and is lost: the
//! log is damaged. Checkpointed groups may be missing.
//!
//! A valid head or tail also proves that all earlier groups were acknowledged, even if its own payload is damaged,
//! because a group is written only when the previous group is durable. So only the group after the last complete group
//! may be torn. After a crash, another group may get the number of a torn group; the torn group then proves nothing
//! that the other group does not prove.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::frame::{self, BLOCK_LEN, Found, Header, Identity, Life};
use super::group::{Change, decode};
use super::mark;
use super::segment::{self, Segment};
use crate::disk::Room;
use crate::error::RedoDamage;
use crate::{Result, StoreError};

const FIRST_FRAME_AT: u64 = BLOCK_LEN as u64;

/// A segment and the findings of reading it.
pub(crate) struct SurveyedSegment {
    pub(crate) segment: Segment,
    /// Sequence number of the segment's last group; `None` if it has no group.
    pub(crate) last: Option<u64>,
    /// Offset of the next frame.
    pub(crate) end: u64,
}

/// Contents of a log.
pub(crate) struct Survey {
    /// Segments in the order of their numbers.
    pub(crate) segments: Vec<SurveyedSegment>,
    /// Segments that were being created or reused when the process ended.
    pub(crate) unfinished: Vec<PathBuf>,
    /// Segments of other data, each with the identity of that data.
    pub(crate) foreign: Vec<(PathBuf, Identity)>,
    /// The highest number in the name of a segment.
    pub(crate) highest_number: u64,
    /// The higher of two sequence numbers: that of the last group in the log, and that of the last checkpointed group.
    pub(crate) last: u64,
    /// Groups after the last checkpointed group: the index of the segment, and the frame.
    groups: Vec<(usize, Found)>,
    checkpointed: u64,
    /// The torn group with the highest sequence number: the path of its segment, and that number. The head or the tail
    /// of a torn group is valid, but its payload is not.
    torn: Option<(PathBuf, u64)>,
    /// The misnamed segment that contains the highest group of all misnamed segments: its path, the number in its
    /// header, and the sequence number of that group.
    misnamed: Option<(PathBuf, u64, u64)>,
    /// Segment of the last group, and the offset after the group.
    after_last: Option<(PathBuf, u64)>,
}

impl Survey {
    /// Reads the segments in `directory`. Changes nothing.
    pub(crate) fn of(
        directory: &Path,
        room: &Room,
        identity: Identity,
        checkpointed: u64,
        write: bool,
    ) -> Result<Survey> {
        let failed = unreadable(room);
        let mut survey = Survey {
            segments: Vec::new(),
            unfinished: Vec::new(),
            foreign: Vec::new(),
            highest_number: 0,
            last: checkpointed,
            groups: Vec::new(),
            checkpointed,
            torn: None,
            misnamed: None,
            after_last: None,
        };
        for (number, path) in segment::list(directory).map_err(&failed)? {
            survey.highest_number = number;
            let segment = Segment::open(path, identity, number, write).map_err(&failed)?;
            match header_of(&segment).map_err(&failed)? {
                Some(Header::Of(life)) if life == segment.life => survey.add(segment, room)?,
                Some(Header::Of(life)) if life.identity != identity => {
                    survey.foreign.push((segment.path, life.identity));
                }
                Some(Header::Version(version)) => {
                    return Err(damaged(&segment.path, 0, RedoDamage::Version(version)));
                }
                Some(Header::Of(life)) => {
                    survey.add_misnamed(&segment, life, room)?;
                    survey.add_unfinished(segment, room)?;
                }
                None => survey.add_unfinished(segment, room)?,
            }
        }
        survey.check_torn()?;
        survey.check_misnamed()?;
        Ok(survey)
    }

    /// Checks that the predecessor of each torn group exists.
    fn check_torn(&self) -> Result<()> {
        match &self.torn {
            Some((path, sequence)) if sequence.saturating_sub(1) > self.last => {
                let damage = RedoDamage::Missing { first: self.last + 1, last: sequence - 1 };
                let after_last = self.after_last.clone();
                let (path, offset) = after_last.unwrap_or_else(|| (path.clone(), FIRST_FRAME_AT));
                Err(damaged(&path, offset, damage))
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, segment: Segment, room: &Room) -> Result<()> {
        let failed = unreadable(room);
        let mut surveyed = SurveyedSegment { segment, last: None, end: FIRST_FRAME_AT };
        let mut torn = self.torn.as_ref().map_or(0, |(_, sequence)| *sequence);
        let before = torn;
        let mut note = |sequence| torn = torn.max(sequence);
        while let Some(found) = frame_in(&surveyed.segment, surveyed.end, &mut note).map_err(&failed)? {
            self.check_order(&surveyed, &found)?;
            surveyed.end = found.end();
            // A group that occurs twice was copied at a restart, and the copies are equal.
            if surveyed.last.max(self.last_found()) != Some(found.sequence)
                && found.sequence > self.checkpointed
            {
                self.groups.push((self.segments.len(), found));
            }
            surveyed.last = Some(found.sequence);
            self.last = self.last.max(found.sequence);
            self.after_last = Some((surveyed.segment.path.clone(), surveyed.end));
        }
        if torn > before {
            self.torn = Some((surveyed.segment.path.clone(), torn));
        }
        self.segments.push(surveyed);
        Ok(())
    }

    /// Checks that a frame may follow the frames found so far.
    fn check_order(&self, surveyed: &SurveyedSegment, found: &Found) -> Result<()> {
        let path = &surveyed.segment.path;
        if let Some(last) = surveyed.last.max(self.last_found()).filter(|last| *last > found.sequence) {
            let damage = RedoDamage::Order { last, found: found.sequence };
            return Err(damaged(path, found.offset, damage));
        }
        if found.sequence.saturating_sub(1) > self.last {
            let damage = RedoDamage::Missing { first: self.last + 1, last: found.sequence - 1 };
            return Err(match &self.after_last {
                // This segment has no gap before the frame, so the gap is at the end of the previous segment.
                Some((path, offset)) if found.offset == FIRST_FRAME_AT || surveyed.last.is_some() => {
                    damaged(path, *offset, damage)
                }
                _ => damaged(path, FIRST_FRAME_AT, damage),
            });
        }
        Ok(())
    }

    /// Returns the sequence number of the last group in the previous segments.
    fn last_found(&self) -> Option<u64> {
        self.segments.iter().rev().find_map(|surveyed| surveyed.last)
    }

    /// Adds a segment whose header and name have different numbers. A segment that was about to be reused contains only
    /// checkpointed groups. A segment with groups that exist nowhere else was renamed. Torn groups are ignored, because
    /// a skipped segment may have a torn group whose number was later given to another group.
    fn add_misnamed(&mut self, segment: &Segment, life: Life, room: &Room) -> Result<()> {
        let named = Segment { life, ..segment.clone() };
        let mut from = FIRST_FRAME_AT;
        while let Some(found) = frame_in(&named, from, &mut |_| ()).map_err(unreadable(room))? {
            if self.misnamed.as_ref().is_none_or(|(_, _, sequence)| *sequence < found.sequence) {
                self.misnamed = Some((segment.path.clone(), life.number, found.sequence));
            }
            from = found.end();
        }
        Ok(())
    }

    fn check_misnamed(&self) -> Result<()> {
        match &self.misnamed {
            Some((path, number, sequence)) if *sequence > self.last => {
                Err(damaged(path, 0, RedoDamage::Misnamed { number: *number }))
            }
            _ => Ok(()),
        }
    }

    /// Adds a file whose header and name disagree. If it contains frames with the number in its name, it was in use as
    /// the segment of that number. Otherwise it was about to become that segment.
    fn add_unfinished(&mut self, segment: Segment, room: &Room) -> Result<()> {
        let (mut from, mut highest) = (FIRST_FRAME_AT, 0);
        loop {
            let mut torn = |sequence| highest = highest.max(sequence);
            let Some(found) = frame_in(&segment, from, &mut torn).map_err(unreadable(room))? else { break };
            highest = highest.max(found.sequence);
            from = found.end();
        }
        if highest > self.checkpointed {
            return Err(damaged(&segment.path, 0, RedoDamage::Header));
        }
        self.unfinished.push(segment.path);
        Ok(())
    }

    /// Returns the file of the last group found, or the mark in `directory` if there is none.
    pub(crate) fn last_file(&self, directory: &Path) -> PathBuf {
        self.after_last.as_ref().map_or_else(|| mark::path(directory), |(path, _)| path.clone())
    }

    /// Returns a replay of the groups after the last checkpointed group.
    pub(crate) fn replay(&self, room: Room) -> Replay {
        let segments = self.segments.iter().map(|surveyed| surveyed.segment.clone()).collect();
        Replay::of_groups(segments, self.groups.clone(), room)
    }
}

fn header_of(segment: &Segment) -> io::Result<Option<Header>> {
    let mut block = [0; BLOCK_LEN];
    if segment.length < BLOCK_LEN as u64 {
        return Ok(None);
    }
    segment.file.read_exact_at(&mut block, 0)?;
    Ok(frame::parse_header(&block))
}

fn frame_in(segment: &Segment, from: u64, torn: &mut dyn FnMut(u64)) -> io::Result<Option<Found>> {
    let mut read = |buffer: &mut [u8], offset| segment.file.read_exact_at(buffer, offset);
    frame::next_frame(&segment.life, from, segment.length, &mut read, torn)
}

fn unreadable(room: &Room) -> impl Fn(io::Error) -> StoreError {
    move |error| room.io_error("read the redo log", &error)
}

fn damaged(file: &Path, offset: u64, damage: RedoDamage) -> StoreError {
    StoreError::DamagedRedo { file: file.to_owned(), offset, damage }
}

/// Groups of a log after the last checkpointed group, in order. Drop the replay before the log is trimmed.
pub(crate) struct Replay {
    segments: Vec<Segment>,
    groups: Vec<(usize, Found)>,
    next: usize,
    payload: Vec<u8>,
    room: Room,
}

/// A group of the log.
pub(crate) struct ReplayedGroup<'r> {
    #[cfg(test)]
    sequence: u64,
    payload: &'r [u8],
    file: &'r Path,
    offset: u64,
}

impl Replay {
    /// Creates a replay of these groups, each given by the index of its segment and its frame.
    pub(super) fn of_groups(segments: Vec<Segment>, groups: Vec<(usize, Found)>, room: Room) -> Replay {
        Replay { segments, groups, next: 0, payload: Vec::new(), room }
    }

    /// Returns the number of groups, including those already read.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the next group. Only that group is in memory.
    ///
    /// # Errors
    /// `Engine` if the group cannot be read, `DamagedRedo` if its payload has changed since it was found.
    #[expect(clippy::indexing_slicing, reason = "a group was found in one of these segments")]
    pub(crate) fn next_group(&mut self) -> Result<Option<ReplayedGroup<'_>>> {
        let Some((index, found)) = self.groups.get(self.next) else { return Ok(None) };
        self.next += 1;
        let segment = &self.segments[*index];
        read_payload(segment, found, &mut self.payload, &self.room)?;
        let (file, payload) = (&segment.path, &self.payload);
        Ok(Some(ReplayedGroup {
            #[cfg(test)]
            sequence: found.sequence,
            payload,
            file,
            offset: found.offset,
        }))
    }

    /// Reads the last group: its segment, its frame and its payload.
    #[expect(clippy::indexing_slicing, reason = "a group was found in one of these segments")]
    pub(super) fn last_group(&self) -> Result<Option<(&Segment, &Found, Vec<u8>)>> {
        let Some((index, found)) = self.groups.last() else { return Ok(None) };
        let (segment, mut payload) = (&self.segments[*index], Vec::new());
        read_payload(segment, found, &mut payload, &self.room)?;
        Ok(Some((segment, found, payload)))
    }
}

fn read_payload(segment: &Segment, found: &Found, payload: &mut Vec<u8>, room: &Room) -> Result<()> {
    payload.resize(usize::try_from(found.payload_len).unwrap_or(usize::MAX), 0);
    segment.file.read_exact_at(payload, found.payload_at()).map_err(unreadable(room))?;
    if crc32c::crc32c(payload) != found.payload_crc {
        return Err(damaged(&segment.path, found.offset, RedoDamage::Changed));
    }
    Ok(())
}

impl<'r> ReplayedGroup<'r> {
    #[cfg(test)]
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    #[cfg(test)]
    pub(crate) fn payload(&self) -> &'r [u8] {
        self.payload
    }

    /// Iterates over the changes of the group. An error ends the iteration.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Result<Change<'r>>> {
        let no_change = |_| damaged(self.file, self.offset, RedoDamage::NotAChange);
        decode(self.payload).map(move |change| change.map_err(no_change))
    }
}
