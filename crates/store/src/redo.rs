//! The redo log: commits, one after the other in files, until their rows are checkpointed into the engine's data file.
//!
//! A commit is a *group* of changes with the next *sequence* number. [`RedoLog::append`] writes it as one frame and
//! syncs once; when it returns the group is durable. Checkpointed groups are trimmed, and the others are replayed at
//! the next open. Changes are absolute, so replaying a group that was checkpointed changes nothing.
//!
//! ```text
//!   redo-0000000000000005   redo-0000000000000006           redo-0000000000000007
//!   [.. 810 811 812]        [813 814 815 ->        ]        [                    ]
//!    trimmed when 812        written to                      spare, made ahead
//!    is checkpointed: renamed                                      by prepare_spare
//!    to ...08, a spare
//! ```
//!
//! **Segments** are files whose every block has been written and synced before their first group, with zeroes or, in a
//! reused file, with the frames of its previous use. So an append changes no size and allocates nothing, and its
//! `fdatasync` writes the group's blocks and no metadata. A segment's number is used once. A reused file gets another
//! number, which its frames contain, so old frames are never mistaken for new ones. The first segment is small. As long
//! as segments fill up before earlier segments are checkpointed, each segment is twice as large as the previous
//! segment, up to 32 MiB. A segment therefore has room for about as many changes as are made between two checkpoints. A
//! group that needs more room gets a separate segment.
//!
//! **A block holds one group's bytes only.** A power cut may tear the sectors of 512 bytes or 4 KiB that are being
//! written, and some disks leave such a sector unreadable. So a block that contains an acknowledged group is not
//! written again before the group is trimmed: frames begin at multiples of 4,096 bytes. This causes no additional
//! writing, since the system writes whole pages anyway, and it avoids reading a page that is written in part. The
//! alignment costs space in the log, but a checkpoint frees that space.
//!
//! **Valid groups** are determined by sequence numbers alone; see the module `replay`. An incomplete frame at the end
//! belongs to a group that was not acknowledged before a crash; the next group overwrites it. If the predecessor of a
//! frame is missing, the log is damaged and is refused.
//!
//! **A write that fails** because the disk is full leaves part of a frame. Rewriting an allocated block should need no
//! space, but some file systems move blocks when they are rewritten. The frame's head is erased and synced before
//! `DiskFull` is returned, so the refused group cannot reappear later. **A sync that fails**, or any other failure,
//! leaves the contents of the disk in doubt. The system may return bytes that the disk does not have, and reports the
//! error only once. So the log accepts no more groups. The next open, which cannot know about the error, appends a copy
//! of the last group before any reader relies on that group. No other group can be in doubt: each group was written
//! after the previous group was synced.
//!
//! **The mark**, a separate file, records which segments must exist, their sizes, and the last group that is known to
//! be durable. A log that does not meet these requirements is refused. See the module `mark`.
//!
//! Limits: the log does not interpret maps and rows, starts no thread and does not decide when to checkpoint. The log
//! cannot distinguish a damaged last group from a group that was being written when the power failed. If the newest
//! groups, written after the last mark, are erased completely, their loss is not detected.

mod frame;
mod group;
mod mark;
mod replay;
mod salvage;
mod segment;
mod set_aside;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use frame::Identity;
pub(crate) use group::{Change, Group};
pub(crate) use replay::Replay;
pub(crate) use salvage::Findings;
pub use salvage::{FileDamage, FileDamageKind};
pub(crate) use set_aside::remove_replaced;

use crate::disk::{self, Room};
use crate::error::{RedoDamage, RedoFinding};
use crate::{Result, StoreError};
use frame::{BLOCK_LEN, Life};
use mark::{Mark, MarkContents};
use replay::{Survey, SurveyedSegment};
use segment::Segment;

/// Sizes of segments in bytes. The first segment of a log is small, so that a small directory remains small. The
/// largest regular size has room for 8,191 of the smallest groups.
const SEGMENT_LENS: RangeInclusive<u64> = 256 << 10..=32 << 20;
/// Maximum number of empty segments that are retained; a checkpoint frees several at once.
const SPARES_MAX: usize = 4;

/// The data file's record of its redo log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Identity that the log's segments must carry.
    pub(crate) identity: Identity,
    /// Identity of the data that this data file has replaced.
    pub(crate) replaced: Option<Identity>,
    /// Sequence number of the last group that is in the data file.
    pub(crate) checkpointed: u64,
    /// Whether the log is required to have a mark.
    pub(crate) is_marked: bool,
}

/// A redo log open for writing. One thread appends groups. At the same time, other threads may trim the log and create
/// segments.
pub(crate) struct RedoLog {
    directory: PathBuf,
    room: Room,
    identity: Identity,
    /// New paths of segments of other data, which opening moved out of the data directory.
    set_aside: Vec<PathBuf>,
    /// Held while a segment is created, reused or removed. It is taken before `chain`, and never while `chain` is held.
    making: Mutex<()>,
    chain: Mutex<Chain>,
}

/// The segments. Their numbers ascend: first the older segments, then the active segment, then the spares.
struct Chain {
    older: VecDeque<OlderSegment>,
    active: Option<ActiveSegment>,
    spares: VecDeque<Segment>,
    /// Number of the next segment to create.
    next_number: u64,
    /// Sizes of segments, from the first to the largest.
    lengths: RangeInclusive<u64>,
    /// Sequence number of the last group.
    last: u64,
    /// Sequence number of the last group that is certainly durable. In a log that was just opened, the last group may
    /// not have been synced.
    durable: u64,
    /// Sequence number of the last checkpointed group, as far as the log knows.
    checkpointed: u64,
    /// `None` if the disk had no room for a mark when the log was opened.
    mark: Option<Mark>,
    /// Number of the active segment according to the mark. Only that segment may be written to.
    marked_number: Option<u64>,
    /// Reason why the log accepts no more groups.
    stopped: Option<String>,
}

/// A segment that accepts no more groups.
struct OlderSegment {
    segment: Segment,
    /// Sequence number of the segment's last group; 0 if it has no group.
    last: u64,
}

/// The segment that receives the next group if it has room.
struct ActiveSegment {
    segment: Segment,
    /// Offset of the next frame.
    end: u64,
    last: u64,
}

impl RedoLog {
    /// Opens the log in `directory` for the data of `owner`. The caller must hold the lock of the directory.
    ///
    /// The returned groups are durable. Removes unfinished segments, and segments of the data that `owner` has
    /// replaced. Sets segments of other data aside.
    ///
    /// # Errors
    /// `DamagedRedo`, `RedoContradicted`: nothing was changed. `DiskFull`, `Exhausted`, `Engine`.
    pub(crate) fn open(directory: &Path, room: Room, owner: &Owner) -> Result<(RedoLog, Replay)> {
        RedoLog::open_with(directory, room, owner, SEGMENT_LENS)
    }

    fn open_with(
        directory: &Path,
        room: Room,
        owner: &Owner,
        lengths: RangeInclusive<u64>,
    ) -> Result<(RedoLog, Replay)> {
        let failed = |error: io::Error| room.io_error("open the redo log", &error);
        let identity = owner.identity;
        let (survey, marked) = survey(directory, &room, owner, true)?;
        let is_replaced = |(_, of): &&(PathBuf, Identity)| Some(*of) == owner.replaced;
        let worthless = survey.foreign.iter().filter(is_replaced).map(|(path, _)| path);
        for path in worthless.chain(&survey.unfinished) {
            disk::remove_if_there(path).map_err(failed)?;
        }
        let strangers = survey.foreign.iter().filter(|foreign| !is_replaced(foreign));
        let strangers: Vec<_> = strangers.map(|(path, _)| path.clone()).collect();
        let set_aside = set_aside::set_aside(directory, &room, &strangers).map_err(failed)?;
        if !survey.segments.is_empty() {
            // A process that was killed may have left a file whose name is not durable.
            room.sync_directory().map_err(failed)?;
        }
        let mark = match &marked {
            Some(marked) => Some(Mark::open(directory, identity, marked).map_err(failed)?),
            None => match Mark::create(directory, &room, identity).map_err(failed) {
                Ok(mark) => Some(mark),
                // The disk is full. The log continues without a mark.
                Err(StoreError::DiskFull { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let replay = survey.replay(room.try_clone().map_err(failed)?);
        let mut chain = Chain::of(survey, lengths, owner.checkpointed);
        chain.durable = match &marked {
            Some(marked) => chain.durable.max(marked.last),
            None => chain.durable,
        };
        chain.mark = mark;
        let written = chain.write_mark().map_err(failed);
        match written {
            Ok(()) => {}
            // The log meets the requirements of the old mark until the next mark is written.
            Err(StoreError::DiskFull { .. }) if marked.is_some() => {}
            Err(StoreError::DiskFull { .. }) => chain.mark = None,
            Err(error) => return Err(error),
        }
        let log = RedoLog {
            directory: directory.to_owned(),
            room,
            identity,
            set_aside,
            making: Mutex::new(()),
            chain: Mutex::new(chain),
        };
        log.write_last_again(&replay)?;
        Ok((log, replay))
    }

    /// Appends a copy of the last group, the only group that may not have been synced. If the disk is full, overwrites
    /// the group itself: that is less safe, but the directory can be opened.
    fn write_last_again(&self, replay: &Replay) -> Result<()> {
        let Some((segment, found, payload)) = replay.last_group()? else { return Ok(()) };
        let mut group = Group::of_payload(&payload);
        match self.write(found.sequence, &mut group) {
            Err(StoreError::DiskFull { .. }) => {
                let written = segment.overwrite(group.framed(&segment.life, found.sequence), found.offset);
                written.map_err(|error| self.room.io_error("write the redo log", &error))?;
                self.chain().durable = found.sequence;
                Ok(())
            }
            written => written,
        }
    }

    /// Reads the groups that are not checkpointed. Another process may be writing the log. Changes nothing, but syncs
    /// the groups that it returns.
    ///
    /// # Errors
    /// `Engine`. `DamagedRedo` and `RedoContradicted`: the log is damaged, or it was trimmed during the call, and then
    /// the data file has a higher `checkpointed`.
    pub(crate) fn read(directory: &Path, room: &Room, owner: &Owner) -> Result<Replay> {
        let failed = |error: io::Error| room.io_error("read the redo log", &error);
        let mut before = None;
        let survey = loop {
            match survey(directory, room, owner, false) {
                Ok((survey, _)) => break survey,
                // A reader may miss a group that is just being written and then see the next group. So only an error
                // that is found twice in a row is real damage.
                Err(error) if before.as_ref() != Some(&error) => before = Some(error),
                Err(error) => return Err(error),
            }
        };
        let replay = survey.replay(room.try_clone().map_err(failed)?);
        if let Some((segment, ..)) = replay.last_group()? {
            segment.file.sync_data().map_err(failed)?;
        }
        Ok(replay)
    }

    /// Returns the new paths of segments of other data, which opening moved out of the data directory.
    pub(crate) fn set_aside(&self) -> &[PathBuf] {
        &self.set_aside
    }

    /// Returns true if a mark exists. The data file may require a mark only if this method returns true.
    pub(crate) fn has_mark(&self) -> bool {
        self.chain().mark.is_some()
    }

    /// Records in the mark that no segment is required. All groups must be checkpointed. After this, the log refuses
    /// further groups.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub(crate) fn close(&self) -> io::Result<()> {
        let mut chain = self.chain();
        chain.stopped.get_or_insert_with(|| "the redo log is closed".to_owned());
        let last = chain.last;
        chain.mark.as_mut().map_or(Ok(()), |mark| mark.write(last, &[]))
    }

    /// Removes all segments and the mark. The log must be closed, and the data file must not require a mark.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn remove_all(&self) -> io::Result<()> {
        segment::list(&self.directory)?.iter().try_for_each(|(_, path)| disk::remove_if_there(path))?;
        disk::remove_if_there(&mark::path(&self.directory))
    }

    /// Writes a group and makes it durable. `sequence` must be the next sequence number.
    ///
    /// # Errors
    /// `DiskFull`, `Exhausted`: the log is unchanged, and another group may get the number. After any other error it is
    /// unknown until the next open whether the group is durable, and all further groups are refused with
    /// `WritesStopped`.
    pub(crate) fn append(&self, sequence: u64, group: &mut Group) -> Result<()> {
        let last = self.last_sequence();
        assert!(sequence == last + 1, "group {sequence} cannot follow group {last}");
        self.write(sequence, group)
    }

    fn write(&self, sequence: u64, group: &mut Group) -> Result<()> {
        let mut chain = self.chain_with_room_for(group.frame_len())?;
        if chain.active.as_ref().map(|active| active.segment.life.number) != chain.marked_number {
            let written = chain.write_mark();
            written.map_err(|error| match self.room.io_error("write the redo log's mark", &error) {
                error @ StoreError::DiskFull { .. } => error,
                error => stop(&mut chain.stopped, &error),
            })?;
        }
        let Chain { active: Some(active), last, durable, stopped, .. } = &mut *chain else {
            unreachable!("a segment with room was asked for");
        };
        let frame = group.framed(&active.segment.life, sequence);
        if let Err(error) = active.segment.file.write_all_at(frame, active.end) {
            let error = self.room.io_error("write the redo log", &error);
            let erased = active.segment.overwrite(&[0; BLOCK_LEN], active.end);
            return Err(match error {
                StoreError::DiskFull { .. } if erased.is_ok() => error,
                _ => stop(stopped, &error),
            });
        }
        if let Err(error) = active.segment.file.sync_data() {
            return Err(stop(stopped, &self.room.io_error("sync the redo log", &error)));
        }
        active.end += frame.len() as u64;
        active.last = sequence;
        (*last, *durable) = (sequence, sequence);
        Ok(())
    }

    /// Returns the chain, once its active segment has room for a frame of `frame_len` bytes.
    fn chain_with_room_for(&self, frame_len: u64) -> Result<MutexGuard<'_, Chain>> {
        loop {
            let mut chain = self.chain();
            chain.check_writes()?;
            if chain.active.as_ref().is_some_and(|active| active.room() >= frame_len) {
                return Ok(chain);
            }
            if chain.activate_spare(frame_len) {
                continue;
            }
            let length = chain.next_len(true).max(BLOCK_LEN as u64 + frame_len);
            drop(chain);
            // Nothing of the group is written yet. But after a failed write or sync of a new file, the disk cannot be
            // relied on.
            self.make_spare(length, frame_len).map_err(|error| match error {
                StoreError::DiskFull { .. } | StoreError::Exhausted { .. } => error,
                _ => stop(&mut self.chain().stopped, &error),
            })?;
        }
    }

    /// Creates a segment, unless another thread has created a spare with room for a frame of `frame_len` bytes in the
    /// meantime.
    fn make_spare(&self, length: u64, frame_len: u64) -> Result<()> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.chain().spares.iter().any(|spare| has_room(spare, frame_len)) {
            return Ok(());
        }
        let life = Life { identity: self.identity, number: self.chain().take_number() };
        let spare = Segment::create(&self.directory, &self.room, life, length)?;
        self.chain().spares.push_back(spare);
        Ok(())
    }

    /// Creates the next segment if the active one is half full and there is no spare. Call it on a background thread.
    ///
    /// # Errors
    /// `DiskFull`, also while less than the reserve is free; `Exhausted`; `Engine`. The log stays usable.
    pub(crate) fn prepare_spare(&self) -> Result<()> {
        let length = {
            let chain = self.chain();
            let is_half_full = chain.active.as_ref().is_some_and(|active| active.end >= active.room());
            if !is_half_full || !chain.spares.is_empty() || chain.stopped.is_some() {
                return Ok(());
            }
            chain.next_len(!chain.older.is_empty())
        };
        self.room.check_reserve()?;
        self.make_spare(length, 0)
    }

    /// Releases the segments that have no group after `checkpointed`: some become spares, the others are removed. The
    /// caller must ensure that the checkpointed groups are durable in the data file.
    ///
    /// # Errors
    /// `DiskFull`, `Engine`: the next open releases the remaining segments. The log stays usable.
    pub(crate) fn trim(&self, checkpointed: u64) -> Result<()> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut chain = self.chain();
            chain.checkpointed = chain.checkpointed.max(checkpointed);
            let written = chain.write_mark();
            written.map_err(|error| self.room.io_error("write the redo log's mark", &error))?;
        }
        loop {
            let mut chain = self.chain();
            let Some(index) = chain.older.iter().position(|older| older.last <= checkpointed) else {
                return Ok(());
            };
            let Some(OlderSegment { segment, .. }) = chain.older.remove(index) else { return Ok(()) };
            let number = chain.is_worth_keeping(&segment).then(|| chain.take_number());
            drop(chain);
            let failed = |error: io::Error| self.room.io_error("trim the redo log", &error);
            match number {
                Some(number) => {
                    let spare = segment.reuse(&self.room, number).map_err(failed)?;
                    self.chain().spares.push_back(spare);
                }
                None => disk::remove_if_there(&segment.path).map_err(failed)?,
            }
        }
    }

    /// Returns the sequence number of the last group.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.chain().last
    }

    /// Returns the bytes of segments that are not trimmed, including checkpointed groups in them.
    #[cfg(test)]
    pub(crate) fn byte_count(&self) -> u64 {
        let chain = self.chain();
        let older: u64 = chain.older.iter().map(|older| older.segment.length).sum();
        older + chain.active.as_ref().map_or(0, |active| active.end)
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chain {
    fn of(survey: Survey, lengths: RangeInclusive<u64>, checkpointed: u64) -> Chain {
        let next_number = survey.highest_number + 1;
        let mut chain = Chain {
            older: VecDeque::new(),
            active: None,
            spares: VecDeque::new(),
            next_number,
            lengths,
            last: survey.last,
            durable: if survey.last > checkpointed { survey.last - 1 } else { survey.last },
            checkpointed,
            mark: None,
            marked_number: None,
            stopped: None,
        };
        let active = survey.segments.iter().rposition(|surveyed| surveyed.last.is_some());
        for (index, SurveyedSegment { segment, last, end }) in survey.segments.into_iter().enumerate() {
            let last = last.unwrap_or(0);
            match active {
                Some(active) if index < active => chain.older.push_back(OlderSegment { segment, last }),
                Some(active) if index == active => chain.active = Some(ActiveSegment { segment, end, last }),
                _ => chain.spares.push_back(segment),
            }
        }
        chain
    }

    /// Writes the mark, which lists the segments that are now required. After that, segments that the mark no longer
    /// names may be removed, and the active segment may be written to.
    fn write_mark(&mut self) -> io::Result<()> {
        let checkpointed = self.checkpointed;
        let older = self.older.iter().filter(|older| older.last > checkpointed);
        let mut listed: Vec<_> = older.map(|older| older.segment.listed(older.last)).collect();
        listed.extend(self.active.as_ref().map(|active| active.segment.listed(active.last)));
        if let Some(mark) = &mut self.mark {
            mark.write(self.durable.max(checkpointed), &listed)?;
        }
        self.marked_number = self.active.as_ref().map(|active| active.segment.life.number);
        Ok(())
    }

    fn check_writes(&self) -> Result<()> {
        match &self.stopped {
            Some(cause) => Err(StoreError::WritesStopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Activates the next spare that has room for a frame of `frame_len` bytes, skipping smaller spares. Returns true
    /// if such a spare exists.
    fn activate_spare(&mut self, frame_len: u64) -> bool {
        let Some(index) = self.spares.iter().position(|spare| has_room(spare, frame_len)) else {
            return false;
        };
        if let Some(ActiveSegment { segment, last, .. }) = self.active.take() {
            self.older.push_back(OlderSegment { segment, last });
        }
        let mut emptied = self.spares.drain(..=index);
        self.active =
            emptied.next_back().map(|segment| ActiveSegment { segment, end: BLOCK_LEN as u64, last: 0 });
        self.older.extend(emptied.map(|segment| OlderSegment { segment, last: 0 }));
        true
    }

    /// Returns the size of the next segment: the size of the active segment, or twice that size if `grows` is true.
    fn next_len(&self, grows: bool) -> u64 {
        let active_len = self.active.as_ref().map_or(0, |active| active.segment.length);
        let length = if grows { active_len.saturating_mul(2) } else { active_len };
        length.clamp(*self.lengths.start(), *self.lengths.end())
    }

    /// Returns true if a released segment is worth reusing as a spare.
    fn is_worth_keeping(&self, segment: &Segment) -> bool {
        let active_len = self.active.as_ref().map_or(0, |active| active.segment.length);
        let most = *self.lengths.end();
        self.spares.len() < SPARES_MAX && (active_len.min(most)..=most).contains(&segment.length)
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
}

/// Reads the log, and checks it against the mark if one is required.
fn survey(
    directory: &Path,
    room: &Room,
    owner: &Owner,
    write: bool,
) -> Result<(Survey, Option<MarkContents>)> {
    let Owner { identity, checkpointed, is_marked, .. } = *owner;
    let failed = |error: io::Error| room.io_error("read the redo log's mark", &error);
    let contradicted = |findings| Err(StoreError::RedoContradicted { findings });
    let marked = match is_marked.then(|| mark::read(directory, identity)).transpose().map_err(failed)? {
        Some(Err(damage)) => {
            return contradicted(vec![RedoFinding { file: mark::path(directory), damage }]);
        }
        Some(Ok(marked)) => Some(marked),
        None => None,
    };
    if let Some(marked) = &marked {
        let findings = marked.contradictions(directory, identity, checkpointed).map_err(failed)?;
        if !findings.is_empty() {
            return contradicted(findings);
        }
    }
    let survey = Survey::of(directory, room, identity, checkpointed, write)?;
    if let Some(marked) = marked.as_ref().filter(|marked| marked.last > survey.last) {
        let file = survey.last_file(directory);
        let damage = RedoDamage::LastMissing { first: survey.last + 1, last: marked.last };
        return contradicted(vec![RedoFinding { file, damage }]);
    }
    Ok((survey, marked))
}

impl ActiveSegment {
    fn room(&self) -> u64 {
        self.segment.length.saturating_sub(self.end)
    }
}

fn has_room(spare: &Segment, frame_len: u64) -> bool {
    spare.length >= BLOCK_LEN as u64 + frame_len
}

/// Makes the log refuse all further groups.
fn stop(stopped: &mut Option<String>, error: &StoreError) -> StoreError {
    let cause = stopped.get_or_insert_with(|| error.to_string());
    StoreError::WritesStopped { cause: cause.clone() }
}
