//! Tests that compare the log with plain lists of groups, also after bytes were flipped, torn or removed. [`power_cut`]
//! runs the log in processes whose power is cut.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod damage;
mod power_cut;
mod salvage;
mod segments;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use fastrand::Rng;

use super::frame::{self, BLOCK_LEN, HEAD_LEN, Life};
use super::group::decode;
use super::{Change, Group, Identity, Owner, RedoLog, Replay};
use crate::disk::Room;
use crate::error::RedoDamage;
use crate::{Result, StoreError, layout};

/// Sequences and payloads.
type Groups = Vec<(u64, Vec<u8>)>;

const IDENTITY: Identity = *b"identity of data";
const BLOCK: u64 = BLOCK_LEN as u64;
/// Sizes of segments, small so that a test fills many.
const LEN_MIN: u64 = 32 << 10;
const LEN_MAX: u64 = 128 << 10;

/// Directory of one test, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("redo-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = powercut::memory_folder().join(name);
        fs::create_dir(&path).unwrap();
        Scratch(path.canonicalize().unwrap())
    }

    fn open(&self, checkpointed: u64) -> (RedoLog, Replay) {
        self.try_open(checkpointed).unwrap()
    }

    fn try_open(&self, checkpointed: u64) -> Result<(RedoLog, Replay)> {
        RedoLog::open_with(&self.0, room(&self.0), &owner(checkpointed), LEN_MIN..=LEN_MAX)
    }

    /// Returns the groups after `checkpointed` by sequence, without changing the log.
    fn read(&self, checkpointed: u64) -> Result<Groups> {
        groups_of(RedoLog::read(&self.0, &room(&self.0), &owner(checkpointed))?)
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.0.join(layout::redo_file(number))
    }

    fn segment_count(&self) -> usize {
        super::segment::list(&self.0).unwrap().len()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the record of a data file that does not require a mark of its log.
fn owner(checkpointed: u64) -> Owner {
    Owner { identity: IDENTITY, replaced: None, checkpointed, is_marked: false }
}

fn room(directory: &Path) -> Room {
    Room::new(File::open(directory).unwrap(), directory, 0)
}

fn groups_of(mut replay: Replay) -> Result<Groups> {
    let mut groups = Vec::new();
    while let Some(group) = replay.next_group()? {
        groups.push((group.sequence(), group.payload().to_vec()));
    }
    assert_eq!(groups.len(), replay.group_count());
    Ok(groups)
}

/// Creates a group of one row with a value of `value_len` bytes.
fn group(fill: u8, value_len: usize) -> Group {
    let mut group = Group::new();
    group.push(Change::Put { map: 3, key: &[fill], value: &vec![fill; value_len] });
    group
}

/// Appends a group to the log and to the model.
fn append(log: &RedoLog, model: &mut Groups, group: &mut Group) {
    let sequence = log.last_sequence() + 1;
    log.append(sequence, group).unwrap();
    assert_eq!(log.last_sequence(), sequence);
    model.push((sequence, group.payload().to_vec()));
}

/// Creates a log with these groups in its first segment.
fn small_log(scratch: &Scratch, value_lens: &[usize]) -> Groups {
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    for (fill, &value_len) in (1..).zip(value_lens) {
        append(&log, &mut model, &mut group(fill, value_len));
    }
    model
}

fn damage(outcome: Result<Groups>) -> (PathBuf, u64, RedoDamage) {
    match outcome {
        Err(StoreError::DamagedRedo { file, offset, damage }) => (file, offset, damage),
        other => panic!("{other:?}"),
    }
}

/// Writes `bytes` at an offset, calls `check`, and restores the previous bytes.
fn with_bytes<T>(file: &File, offset: u64, bytes: &[u8], check: impl FnOnce() -> T) -> T {
    let mut before = vec![0; bytes.len()];
    file.read_exact_at(&mut before, offset).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    let seen = check();
    file.write_all_at(&before, offset).unwrap();
    seen
}

fn writable(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

const CHANGES: [Change<'_>; 6] = [
    Change::Put { map: 0, key: b"key", value: b"value" },
    Change::Put { map: u16::MAX, key: b"k", value: b"" },
    Change::Delete { map: 2, key: &[0xFF; layout::KEY_LEN_MAX] },
    Change::InsertId { map: 7, key: b"set", id: u64::MAX },
    Change::RemoveId { map: 8, key: b"set", id: 1 },
    Change::Put { map: 1, key: b"long", value: &[7; 70_000] },
];

#[test]
fn pushed_changes_are_decoded_unchanged() {
    let mut group = Group::new();
    assert!(group.is_empty());
    for _ in 0..2 {
        CHANGES.iter().for_each(|change| group.push(*change));
        let read: Vec<_> = group.changes().map(|change| change.unwrap()).collect();
        assert_eq!(read, CHANGES);
        assert_eq!(group.byte_count(), group.payload().len());
        // After framing, the group must still be usable.
        assert_eq!(group.framed(&Life { identity: IDENTITY, number: 1 }, 1).len() as u64, group.frame_len());
        group.clear();
        assert!(group.is_empty());
    }
}

#[test]
fn changes_have_the_documented_layout() {
    let mut group = Group::new();
    group.push(Change::Put { map: 0x0102, key: b"k", value: b"vw" });
    group.push(Change::Delete { map: 3, key: b"k" });
    group.push(Change::InsertId { map: 4, key: b"s", id: 5 });
    group.push(Change::RemoveId { map: 4, key: b"s", id: 5 });
    let put = b"\x01\x01\x02\x00\x01\x00\x00\x00\x02kvw";
    let delete = b"\x02\x00\x03\x00\x01k";
    let insert_id = b"\x03\x00\x04\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05s";
    let remove_id = b"\x04\x00\x04\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05s";
    assert_eq!(group.payload(), [&put[..], delete, insert_id, remove_id].concat());
}

#[test]
fn a_truncated_payload_returns_the_changes_before_the_cut() {
    let mut group = Group::new();
    let mut ends = vec![0];
    for change in &CHANGES[..5] {
        group.push(*change);
        ends.push(group.byte_count());
    }
    for length in 0..group.byte_count() {
        let read: Vec<_> = decode(&group.payload()[..length]).collect();
        let whole = ends.iter().filter(|end| **end <= length).count() - 1;
        let expected = whole + usize::from(!ends.contains(&length));
        assert_eq!(read.len(), expected, "{length} bytes");
        assert_eq!(read.iter().filter(|change| change.is_ok()).count(), whole, "{length} bytes");
    }
    assert!(decode(b"\x05\x00\x00\x00\x00").next().unwrap().is_err(), "no such kind");
}

#[test]
fn segments_have_the_documented_layout() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 5_000]);
    let bytes = fs::read(scratch.segment(1)).unwrap();
    assert_eq!(bytes.len() as u64, LEN_MIN);
    let mut header = b"pandoRDO\x00\x00\x00\x01identity of data\x00\x00\x00\x00\x00\x00\x00\x01".to_vec();
    header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    assert_eq!(bytes[..header.len()], header);
    let payload = &model[1].1;
    let mut head = b"grp\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02".to_vec();
    head.extend_from_slice(&(payload.len() as u64).to_be_bytes());
    head.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    head.extend_from_slice(&crc32c::crc32c(&[&IDENTITY[..], &head[..]].concat()).to_le_bytes());
    let at = 2 * BLOCK_LEN;
    assert_eq!(bytes[at..at + HEAD_LEN], head);
    assert_eq!(bytes[at + HEAD_LEN..at + HEAD_LEN + payload.len()], *payload);
    let end = at + 2 * BLOCK_LEN;
    let tail_at = end - 24;
    assert!(bytes[at + HEAD_LEN + payload.len()..tail_at].iter().all(|byte| *byte == 0));
    let mut tail = b"end\x01".to_vec();
    tail.extend_from_slice(&bytes[at + 4..at + 20]);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&IDENTITY), &tail);
    tail.extend_from_slice(&crc.to_le_bytes());
    assert_eq!(bytes[tail_at..end], tail);
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
}

#[test]
fn an_unused_log_has_no_file() {
    let scratch = Scratch::new();
    let (log, replay) = scratch.open(41);
    log.prepare_spare().unwrap();
    log.trim(41).unwrap();
    assert_eq!((replay.group_count(), log.last_sequence(), log.byte_count()), (0, 41, 0));
    assert_eq!(scratch.segment_count(), 0);
}

#[test]
fn replay_returns_groups_in_order_without_checkpointed_ones() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 0, 9_000, 100]);
    for checkpointed in 0..=4 {
        assert_eq!(scratch.read(checkpointed).unwrap(), model[checkpointed as usize..]);
        let (log, replay) = scratch.open(checkpointed);
        assert_eq!(log.last_sequence(), 4);
        assert_eq!(groups_of(replay).unwrap(), model[checkpointed as usize..]);
    }
    // The data file records a higher checkpointed group than the log contains, so the log is older than the data.
    let (log, replay) = scratch.open(9);
    assert_eq!((log.last_sequence(), replay.group_count()), (9, 0));
    log.append(10, &mut group(10, 10)).unwrap();
    assert_eq!(scratch.read(9).unwrap().len(), 1);
}

#[test]
fn a_replayed_group_returns_its_changes_or_the_place_of_an_invalid_one() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut whole = Group::new();
    CHANGES.iter().for_each(|change| whole.push(*change));
    log.append(1, &mut whole).unwrap();
    log.append(2, &mut Group::of_payload(b"nonsense")).unwrap();
    drop(log);
    let (_, mut replay) = scratch.open(0);
    let group = replay.next_group().unwrap().unwrap();
    assert_eq!(group.changes().collect::<Result<Vec<_>>>().unwrap(), CHANGES);
    // The first group filled its segment.
    let (file, offset) = (scratch.segment(2), BLOCK);
    let nonsense = replay.next_group().unwrap().unwrap();
    let damage = RedoDamage::NotAChange;
    let expected = StoreError::DamagedRedo { file, offset, damage };
    assert_eq!(nonsense.changes().next(), Some(Err(expected)));
}

/// Tests every payload length around the length at which the tail has no room.
#[test]
fn frames_of_every_length_around_a_block_are_read_back() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    for len in BLOCK_LEN - HEAD_LEN - 60..BLOCK_LEN - HEAD_LEN + 10 {
        append(&log, &mut model, &mut group(7, len));
    }
    drop(log);
    assert_eq!(scratch.read(0).unwrap(), model);
}

#[test]
#[should_panic(expected = "group 3 cannot follow group 1")]
fn panics_if_a_sequence_is_skipped() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    log.append(1, &mut group(1, 1)).unwrap();
    let _ = log.append(3, &mut group(3, 1));
}

#[test]
fn appends_without_a_spare_segment_below_the_reserve() {
    let scratch = Scratch::new();
    let room = Room::new(File::open(&scratch.0).unwrap(), &scratch.0, u64::MAX);
    let (log, _) = RedoLog::open_with(&scratch.0, room, &owner(0), LEN_MIN..=LEN_MAX).unwrap();
    let mut refused = 0;
    for sequence in 1..20 {
        log.append(sequence, &mut group(1, 3_000)).unwrap();
        if let Err(error) = log.prepare_spare() {
            assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    assert_eq!(scratch.segment_count(), 2, "only the needed segments exist");
}

#[test]
fn groups_of_many_segments_agree_with_a_list() {
    for seed in [1, 2, fastrand::u64(..)] {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let scratch = Scratch::new();
        let (mut log, _) = scratch.open(0);
        let (mut model, mut checkpointed) = (Vec::new(), 0);
        for _ in 0..250 {
            match random.u32(0..20) {
                0 => {
                    drop(log);
                    let (opened, replay) = scratch.open(checkpointed);
                    assert_eq!(groups_of(replay).unwrap(), model);
                    log = opened;
                }
                1 => log.prepare_spare().unwrap(),
                2 | 3 => {
                    checkpointed = random.u64(checkpointed..=log.last_sequence());
                    model.retain(|(sequence, _)| *sequence > checkpointed);
                    log.trim(checkpointed).unwrap();
                }
                4 => assert_eq!(scratch.read(checkpointed).unwrap(), model),
                5 => append(&log, &mut model, &mut group(random.u8(..), random.usize(0..200_000))),
                _ => append(&log, &mut model, &mut group(random.u8(..), random.usize(0..20_000))),
            }
        }
        assert_eq!(scratch.read(checkpointed).unwrap(), model);
    }
}

#[test]
fn a_log_is_read_while_it_is_written() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for sequence in 1..300 {
                log.append(sequence, &mut group(sequence as u8, 100)).unwrap();
            }
        });
        let mut last = 0;
        while !writer.is_finished() {
            let acknowledged = log.last_sequence();
            let groups = scratch.read(0).unwrap();
            assert!(groups.iter().map(|(sequence, _)| *sequence).eq(1..=groups.len() as u64));
            assert!(groups.len() as u64 >= acknowledged.max(last), "{acknowledged}, {last}");
            last = groups.len() as u64;
        }
    });
}

#[test]
fn segments_are_created_and_trimmed_while_groups_are_appended() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                log.trim(log.last_sequence().saturating_sub(10)).unwrap();
                log.prepare_spare().unwrap();
            }
        });
        for sequence in 1..400 {
            log.append(sequence, &mut group(sequence as u8, 12_000)).unwrap();
        }
        ended.store(true, Ordering::Release);
    });
    let there = scratch.read(389).unwrap();
    assert_eq!(
        there.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(),
        (390..400).collect::<Vec<_>>()
    );
}
