//! The log against plain lists of groups, with bytes flipped, torn and taken away. [`power_cut`] runs it in processes
//! that lose their power.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod power_cut;
mod salvage;

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

/// A directory of its own, removed afterwards.
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

    /// The groups above `checkpointed` by sequence, the log left as it is.
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

/// Returns the record of a data file whose log need have no mark.
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

/// A group of one row with a value of so many bytes.
fn group(fill: u8, value_len: usize) -> Group {
    let mut group = Group::new();
    group.push(Change::Put { map: 3, key: &[fill], value: &vec![fill; value_len] });
    group
}

/// Appends a group and remembers it.
fn append(log: &RedoLog, model: &mut Groups, group: &mut Group) {
    let sequence = log.last_sequence() + 1;
    log.append(sequence, group).unwrap();
    assert_eq!(log.last_sequence(), sequence);
    model.push((sequence, group.payload().to_vec()));
}

/// A log of so many groups in its first segment.
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

/// Changes the bytes at an offset, has a look, and puts them back.
fn with_bytes<T>(file: &File, offset: u64, bytes: &[u8], look: impl FnOnce() -> T) -> T {
    let mut before = vec![0; bytes.len()];
    file.read_exact_at(&mut before, offset).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    let seen = look();
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
fn changes_come_back_as_they_were_pushed() {
    let mut group = Group::new();
    assert!(group.is_empty());
    for _ in 0..2 {
        CHANGES.iter().for_each(|change| group.push(*change));
        let read: Vec<_> = group.changes().map(|change| change.unwrap()).collect();
        assert_eq!(read, CHANGES);
        assert_eq!(group.byte_count(), group.payload().len());
        // Framing must not get in the way of going on.
        assert_eq!(group.framed(&Life { identity: IDENTITY, number: 1 }, 1).len() as u64, group.frame_len());
        group.clear();
        assert!(group.is_empty());
    }
}

#[test]
fn changes_are_as_drawn() {
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
fn a_payload_cut_short_gives_the_changes_before_the_cut() {
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
fn segments_are_as_drawn() {
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
fn a_log_never_written_to_has_no_file() {
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
    // More is checkpointed than there is: the log is older than the data.
    let (log, replay) = scratch.open(9);
    assert_eq!((log.last_sequence(), replay.group_count()), (9, 0));
    log.append(10, &mut group(10, 10)).unwrap();
    assert_eq!(scratch.read(9).unwrap().len(), 1);
}

#[test]
fn a_replayed_group_gives_its_changes_or_says_where_it_has_none() {
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
    // The first was too large for others to be in its segment.
    let (file, offset) = (scratch.segment(2), BLOCK);
    let nonsense = replay.next_group().unwrap().unwrap();
    let damage = RedoDamage::NotAChange;
    let expected = StoreError::DamagedRedo { file, offset, damage };
    assert_eq!(nonsense.changes().next(), Some(Err(expected)));
}

#[test]
fn every_flipped_bit_is_noticed_or_ends_the_log() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20, 30]);
    let path = scratch.segment(1);
    let file = writable(&path);
    let mut byte = [0];
    let mut flip = |offset: u64, bit: u64, look: &mut dyn FnMut(Result<Groups>)| {
        file.read_exact_at(&mut byte, offset).unwrap();
        with_bytes(&file, offset, &[byte[0] ^ (1 << bit)], || look(scratch.read(0)));
    };
    for bit in 0..40 * 8 {
        flip(bit / 8, bit % 8, &mut |read| {
            assert_eq!(damage(read), (path.clone(), 0, RedoDamage::Header), "bit {bit} of the header");
        });
    }
    for (index, (sequence, payload)) in (0..).zip(&model) {
        let offset = BLOCK * (index + 1);
        for bit in 0..(HEAD_LEN + payload.len()) as u64 * 8 {
            flip(offset + bit / 8, bit % 8, &mut |read| match sequence {
                3 => assert_eq!(read.unwrap(), model[..2], "bit {bit} of the last group"),
                _ => {
                    let missing = RedoDamage::Missing { first: *sequence, last: *sequence };
                    assert_eq!(
                        damage(read),
                        (path.clone(), offset, missing),
                        "bit {bit} of group {sequence}"
                    );
                }
            });
        }
    }
    assert_eq!(scratch.read(0).unwrap(), model);
}

/// Symptom: damage to the last several groups dropped all of them in silence. Cause: a head whose payload is damaged
/// was skipped, though it proves that the groups before it were durable.
#[test]
fn only_the_last_group_may_be_torn() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 5_000, 30, 9_000]);
    let path = scratch.segment(1);
    let file = writable(&path);
    // Their blocks: 1, 2 and 3, 4, 5 to 7.
    let payload_of = |block: u64| block * BLOCK + HEAD_LEN as u64 + 4;
    let missing = |first, last| RedoDamage::Missing { first, last };
    let flip = |blocks: &[u64]| {
        for block in blocks {
            let mut byte = [0];
            file.read_exact_at(&mut byte, payload_of(*block)).unwrap();
            file.write_all_at(&[byte[0] ^ 1], payload_of(*block)).unwrap();
        }
    };
    for (blocks, offset, damaged) in [
        (&[4, 5][..], 4 * BLOCK, missing(3, 3)),
        (&[2, 4, 5], 2 * BLOCK, missing(2, 3)),
        (&[1, 2, 4, 5], BLOCK, missing(1, 3)),
    ] {
        flip(blocks);
        assert_eq!(damage(scratch.read(0)), (path.clone(), offset, damaged), "{blocks:?}");
        assert!(scratch.try_open(0).is_err());
        flip(blocks);
    }
    // What is checkpointed need not be whole.
    flip(&[2, 4, 5]);
    assert!(scratch.read(3).unwrap().is_empty());
    flip(&[2, 4]);
    assert_eq!(scratch.read(0).unwrap(), model[..3], "the last one alone");
}

/// Symptom: random octets over the end of one group and the head of the next, the last one, dropped both in silence.
/// Cause: only its head showed that the last one existed.
#[test]
fn the_tail_of_the_last_group_shows_that_the_one_before_was_durable() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 5_000, 9_000]);
    let path = scratch.segment(1);
    let file = writable(&path);
    // Their blocks: 1, 2 and 3, 4 to 6. The damage leaves the head of the second one, and the tail of the third.
    let damage_of = |len: u64| vec![0xA5; len as usize];
    let missing = (path.clone(), 2 * BLOCK, RedoDamage::Missing { first: 2, last: 2 });
    with_bytes(&file, 2 * BLOCK + 100, &damage_of(3 * BLOCK), || {
        assert_eq!(damage(scratch.read(0)), missing);
        assert!(scratch.try_open(0).is_err());
        assert!(scratch.read(2).unwrap().is_empty(), "what is checkpointed need not be whole");
    });
    // Of one block, so that both are in it.
    with_bytes(&file, BLOCK, &damage_of(100), || {
        let missing = RedoDamage::Missing { first: 1, last: 1 };
        assert_eq!(damage(scratch.read(0)), (path.clone(), BLOCK, missing));
    });
    with_bytes(&file, 4 * BLOCK, &damage_of(100), || {
        assert_eq!(scratch.read(0).unwrap(), model[..2], "the last one alone");
    });
    assert_eq!(scratch.read(0).unwrap(), model);
}

/// Every length of a payload around the place at which the tail has no room.
#[test]
fn frames_of_every_length_around_a_block_come_back() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    for len in BLOCK_LEN - HEAD_LEN - 60..BLOCK_LEN - HEAD_LEN + 10 {
        append(&log, &mut model, &mut group(7, len));
    }
    drop(log);
    assert_eq!(scratch.read(0).unwrap(), model);
}

/// A torn group that found no room in one segment stays in the next when its number is given to a smaller one in the
/// first.
#[test]
fn a_torn_group_whose_number_another_has_got_is_none() {
    let scratch = Scratch::new();
    let mut model = small_log(&scratch, &[10]);
    let (log, _) = scratch.open(0);
    log.append(2, &mut group(2, 40_000)).unwrap();
    drop(log);
    let next = writable(&scratch.segment(2));
    next.write_all_at(b"torn", BLOCK + 20_000).unwrap();
    assert_eq!(scratch.read(0).unwrap(), model);
    for fill in 2..5 {
        let (log, _) = scratch.open(0);
        append(&log, &mut model, &mut group(fill, 10));
        assert_eq!(scratch.read(0).unwrap(), model);
        assert!(frame::parse_header(&fs::read(scratch.segment(2)).unwrap()).is_some());
    }
}

#[test]
fn reports_a_segment_with_the_name_of_another() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20]);
    fs::rename(scratch.segment(1), scratch.segment(9)).unwrap();
    assert_eq!(damage(scratch.read(1)), (scratch.segment(9), 0, RedoDamage::Misnamed { number: 1 }));
    assert!(scratch.try_open(0).is_err());
    assert!(scratch.read(2).unwrap().is_empty(), "all of it is checkpointed");
    fs::rename(scratch.segment(9), scratch.segment(1)).unwrap();
    assert_eq!(scratch.read(0).unwrap(), model);
}

/// Symptom: a pending segment that was removed, emptied, renamed or cut off was not missed. Now the mark demands it.
#[test]
fn reports_what_the_mark_requires_and_the_log_lacks() {
    let scratch = Scratch::new();
    let marked = |checkpointed| Owner { is_marked: true, ..owner(checkpointed) };
    let look = |checkpointed| groups_of(RedoLog::read(&scratch.0, &room(&scratch.0), &marked(checkpointed))?);
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    for fill in 0..30 {
        append(&log, &mut model, &mut group(fill, 3_000));
    }
    assert!(scratch.segment(3).exists() && !scratch.segment(4).exists());
    drop(log);
    assert_eq!(look(0).unwrap(), model);
    let findings = |checkpointed| {
        let opened =
            RedoLog::open_with(&scratch.0, room(&scratch.0), &marked(checkpointed), LEN_MIN..=LEN_MAX);
        let found = match look(checkpointed) {
            Err(StoreError::RedoContradicted { findings }) => findings,
            other => panic!("{other:?}"),
        };
        assert_eq!(opened.err(), Some(StoreError::RedoContradicted { findings: found.clone() }));
        found
    };
    let only = |checkpointed| match &findings(checkpointed)[..] {
        [finding] => (finding.file.clone(), finding.damage),
        more => panic!("{more:?}"),
    };
    for number in 1..=3 {
        let path = scratch.segment(number);
        let bytes = fs::read(&path).unwrap();
        let length = bytes.len() as u64;
        for found in [0, length / 2, length - 1] {
            writable(&path).set_len(found).unwrap();
            assert_eq!(only(0), (path.clone(), RedoDamage::SegmentShort { length, found }));
        }
        fs::remove_file(&path).unwrap();
        let (file, damage) = only(0);
        assert_eq!(file, path);
        assert!(matches!(damage, RedoDamage::SegmentMissing { .. }), "{damage:?}");
        fs::write(scratch.segment(7), &bytes).unwrap();
        assert_eq!(only(0).0, path, "renamed");
        fs::remove_file(scratch.segment(7)).unwrap();
        fs::write(&path, &bytes).unwrap();
        with_bytes(&writable(&path), 3, b"X", || assert_eq!(only(0), (path.clone(), RedoDamage::Header)));
        assert_eq!(look(0).unwrap(), model);
    }
    // Several at once are all named.
    let aside = [1, 2].map(|number| (scratch.segment(number), fs::read(scratch.segment(number)).unwrap()));
    aside.iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
    assert_eq!(findings(0).len(), 2);
    aside.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    // Without the mark, and with one that cannot be read.
    let mark = super::mark::path(&scratch.0);
    let bytes = fs::read(&mark).unwrap();
    fs::remove_file(&mark).unwrap();
    assert_eq!(only(0), (mark.clone(), RedoDamage::MarkMissing));
    for broken in [Vec::new(), vec![0; bytes.len()], bytes[..30].to_vec()] {
        fs::write(&mark, broken).unwrap();
        assert_eq!(only(0), (mark.clone(), RedoDamage::Mark));
    }
    fs::write(&mark, &bytes).unwrap();
    // The last groups known to be durable, erased head and all.
    let (log, _) = RedoLog::open_with(&scratch.0, room(&scratch.0), &marked(0), LEN_MIN..=LEN_MAX).unwrap();
    let last = log.last_sequence();
    log.trim(0).unwrap();
    drop(log);
    let third = writable(&scratch.segment(3));
    let length = third.metadata().unwrap().len() as usize;
    with_bytes(&third, BLOCK, &vec![0; length - BLOCK_LEN], || {
        let (file, damage) = only(0);
        assert_eq!(file, scratch.segment(2));
        assert!(matches!(damage, RedoDamage::LastMissing { last: found, .. } if found == last), "{damage:?}");
    });
    assert_eq!(look(0).unwrap(), model);
    // What is checkpointed, and not written to, need not be there.
    fs::remove_file(scratch.segment(1)).unwrap();
    assert_eq!(only(0).0, scratch.segment(1));
    let (log, _) =
        RedoLog::open_with(&scratch.0, room(&scratch.0), &marked(last - 1), LEN_MIN..=LEN_MAX).unwrap();
    // Closed, nothing need be there.
    log.trim(last).unwrap();
    log.close().unwrap();
    fs::remove_file(scratch.segment(3)).unwrap();
    assert!(look(last).unwrap().is_empty());
    log.remove_all().unwrap();
    assert!(!mark.exists());
    assert!(log.append(last + 1, &mut group(1, 1)).is_err());
}

#[test]
fn a_mark_half_written_leaves_the_one_before() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    append(&log, &mut model, &mut group(1, 10));
    log.trim(0).unwrap();
    let before = super::mark::read(&scratch.0, IDENTITY).unwrap().unwrap();
    append(&log, &mut model, &mut group(2, 10));
    log.trim(0).unwrap();
    let after = super::mark::read(&scratch.0, IDENTITY).unwrap().unwrap();
    assert_eq!((before.last, after.last, after.count), (1, 2, before.count + 1));
    let file = writable(&super::mark::path(&scratch.0));
    for length in 0..72 {
        let rest = vec![0; 76 - length];
        with_bytes(&file, after.count % 2 * BLOCK + length as u64, &rest, || {
            let read = super::mark::read(&scratch.0, IDENTITY).unwrap().unwrap();
            assert_eq!(read, before, "{length} bytes");
        });
    }
    assert_eq!(super::mark::read(&scratch.0, *b"another identity").unwrap(), Err(RedoDamage::Mark));
}

#[test]
fn ignores_damage_to_checkpointed_groups() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20, 30]);
    let file = writable(&scratch.segment(1));
    with_bytes(&file, 2 * BLOCK + 50, b"damage", || {
        assert_eq!(scratch.read(2).unwrap(), model[2..]);
        damage(scratch.read(1));
        assert!(scratch.try_open(1).is_err());
    });
    assert_eq!(scratch.read(0).unwrap(), model);
}

#[test]
fn a_last_group_torn_anywhere_is_none_and_another_takes_its_place() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20, 5_000]);
    let file = writable(&scratch.segment(1));
    let offset = 3 * BLOCK;
    let frame_len = HEAD_LEN + model[2].1.len();
    for whole_len in 0..frame_len {
        let rest = vec![0; frame_len - whole_len];
        with_bytes(&file, offset + whole_len as u64, &rest, || {
            assert_eq!(scratch.read(0).unwrap(), model[..2], "{whole_len} bytes of it");
        });
    }
    // The first block of the two is lost; the next write leaves the second one after it for a while.
    file.write_all_at(&[0; BLOCK_LEN], offset).unwrap();
    let (log, replay) = scratch.open(0);
    assert_eq!(replay.group_count(), 2);
    let mut model = model[..2].to_vec();
    for fill in 3..6 {
        append(&log, &mut model, &mut group(fill, 30));
        assert_eq!(scratch.read(0).unwrap(), model);
    }
}

#[test]
fn bytes_that_look_like_a_frame_in_a_torn_group_are_none() {
    let scratch = Scratch::new();
    small_log(&scratch, &[10]);
    let mut fake = Group::new();
    let life = Life { identity: *b"a guess, no more", number: 1 };
    let fake = fake.framed(&life, 9).to_vec();
    let (log, _) = scratch.open(0);
    // At the start of a block.
    let mut value = vec![0; BLOCK_LEN - HEAD_LEN - 10];
    value.extend_from_slice(&fake);
    let mut group = Group::new();
    group.push(Change::Put { map: 0, key: b"k", value: &value });
    log.append(2, &mut group).unwrap();
    let bytes = fs::read(scratch.segment(1)).unwrap();
    // Opening has written group 1 again, so group 2 begins at the third block.
    let at = 3 * BLOCK_LEN;
    assert_eq!(bytes[at + BLOCK_LEN..at + BLOCK_LEN + fake.len()], fake, "the test puts it there");
    writable(&scratch.segment(1)).write_all_at(&[0; HEAD_LEN], at as u64).unwrap();
    assert_eq!(scratch.read(0).unwrap().len(), 1);
}

#[test]
fn a_full_segment_is_followed_by_larger_ones_and_one_above_the_rest_by_its_size() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    for fill in 0..40 {
        append(&log, &mut model, &mut group(fill, 3_000));
    }
    let length = |number| fs::metadata(scratch.segment(number)).unwrap().len();
    assert_eq!([1, 2, 3].map(length), [1, 2, 4].map(|factor| factor * LEN_MIN));
    let giant_len = (LEN_MAX + 5) as usize;
    append(&log, &mut model, &mut group(1, giant_len));
    assert_eq!(length(4), (giant_len as u64).next_multiple_of(BLOCK) + BLOCK);
    append(&log, &mut model, &mut group(1, 10));
    assert_eq!(length(5), LEN_MAX);
    assert_eq!(scratch.read(0).unwrap(), model);
    drop(log);
    // The giant is not kept for others.
    let (log, replay) = scratch.open(0);
    assert_eq!(groups_of(replay).unwrap(), model);
    log.trim(log.last_sequence()).unwrap();
    assert!(!scratch.segment(4).exists());
    assert_eq!(scratch.segment_count(), 2, "the active one and one as large");
    assert_eq!(length(5), LEN_MAX);
}

#[test]
fn a_trimmed_segment_is_used_again_and_its_old_groups_are_none() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    while !scratch.segment(3).exists() {
        append(&log, &mut model, &mut group(1, 3_000));
    }
    log.trim(log.last_sequence()).unwrap();
    assert_eq!(scratch.segment_count(), 1, "the others were smaller, and are not kept");
    // From now on they are of one size: fill them in turn, giving up all but the last group.
    model.drain(..model.len() - 1);
    let mut inodes = BTreeMap::new();
    let mut reused = 0;
    for step in 0..250u8 {
        append(&log, &mut model, &mut group(step, 3_000));
        if step % 10 > 0 {
            continue;
        }
        let checkpointed = log.last_sequence() - 1;
        log.trim(checkpointed).unwrap();
        log.prepare_spare().unwrap();
        model.retain(|(sequence, _)| *sequence > checkpointed);
        assert_eq!(scratch.read(checkpointed).unwrap(), model);
        for (number, path) in super::segment::list(&scratch.0).unwrap() {
            let inode = fs::metadata(path).unwrap().ino();
            let was_there = inodes.values().any(|known| *known == inode);
            reused += usize::from(inodes.insert(number, inode).is_none() && was_there);
        }
    }
    assert!(reused > 5, "{reused} segments used again");
    assert!(scratch.segment_count() <= 3);
}

#[test]
fn missing_segments_are_damage_unless_they_are_checkpointed() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    let mut last_of = Vec::new();
    for number in 2..5 {
        while !scratch.segment(number).exists() {
            append(&log, &mut model, &mut group(1, 3_000));
        }
        last_of.push(model.len() as u64 - 1);
    }
    drop(log);
    let aside = scratch.0.join("aside");
    fs::rename(scratch.segment(2), &aside).unwrap();
    let (file, _, what) = damage(scratch.read(0));
    let missing = RedoDamage::Missing { first: last_of[0] + 1, last: last_of[1] };
    assert_eq!((file, what), (scratch.segment(1), missing));
    assert!(scratch.try_open(last_of[1] - 1).is_err());
    assert_eq!(scratch.read(last_of[1]).unwrap(), model[last_of[1] as usize..]);
    fs::rename(&aside, scratch.segment(2)).unwrap();
    fs::rename(scratch.segment(1), &aside).unwrap();
    let (file, offset, what) = damage(scratch.read(0));
    assert_eq!((file, offset), (scratch.segment(2), BLOCK));
    assert_eq!(what, RedoDamage::Missing { first: 1, last: last_of[0] });
    // Two segments in each other's place.
    fs::rename(scratch.segment(2), scratch.segment(1)).unwrap();
    fs::rename(&aside, scratch.segment(2)).unwrap();
    let (file, _, what) = damage(scratch.read(0));
    assert_eq!(file, scratch.segment(3));
    assert_eq!(what, RedoDamage::Missing { first: 1, last: last_of[1] });
    assert!(scratch.try_open(0).is_err());
    assert_eq!(scratch.segment_count(), 4, "a log refused is left as it was");
}

#[test]
fn a_log_of_other_data_is_set_aside_unless_the_data_has_replaced_it() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20]);
    let (other, room) = (*b"another identity", room(&scratch.0));
    let replay = RedoLog::read(&scratch.0, &room, &Owner { identity: other, ..owner(0) }).unwrap();
    assert_eq!(replay.group_count(), 0);
    assert_eq!(scratch.read(0).unwrap(), model, "reading changes nothing");
    let before = fs::read(scratch.segment(1)).unwrap();
    let aside = scratch.0.join("set-aside");
    fs::create_dir(&aside).unwrap();
    fs::write(aside.join(layout::redo_file(1)), b"set aside earlier").unwrap();
    let (log, replay) = RedoLog::open(&scratch.0, room, &Owner { identity: other, ..owner(7) }).unwrap();
    assert_eq!((replay.group_count(), log.last_sequence()), (0, 7));
    let moved = aside.join(layout::redo_file(1) + ".1");
    assert_eq!(log.set_aside(), std::slice::from_ref(&moved));
    assert_eq!(fs::read(&moved).unwrap(), before);
    assert_eq!(fs::read(aside.join(layout::redo_file(1))).unwrap(), b"set aside earlier");
    assert!(super::segment::list(&scratch.0).unwrap().is_empty());
    // If the data has replaced that of the segment, the segment is worthless.
    fs::copy(&moved, scratch.segment(1)).unwrap();
    let opened = File::open(&scratch.0).unwrap();
    let replaced = Owner { identity: other, replaced: Some(IDENTITY), ..owner(7) };
    let again = RedoLog::open(&scratch.0, Room::new(opened, &scratch.0, 0), &replaced).unwrap();
    assert!(again.0.set_aside().is_empty() && !scratch.segment(1).exists());
    drop(again);
    log.append(8, &mut group(8, 10)).unwrap();
    assert!(scratch.read(0).unwrap().is_empty(), "now ours are the others");
    log.close().unwrap();
    log.remove_all().unwrap();
    assert!(super::segment::list(&scratch.0).unwrap().is_empty());
}

#[test]
fn a_segment_of_another_version_is_refused() {
    let scratch = Scratch::new();
    small_log(&scratch, &[10]);
    let mut header = frame::header(&Life { identity: IDENTITY, number: 1 });
    header[11] = 2;
    let crc = crc32c::crc32c(&header[..36]);
    header[36..40].copy_from_slice(&crc.to_le_bytes());
    writable(&scratch.segment(1)).write_all_at(&header, 0).unwrap();
    assert_eq!(damage(scratch.read(0)), (scratch.segment(1), 0, RedoDamage::Version(2)));
    assert!(scratch.try_open(1).is_err());
    assert!(scratch.segment(1).exists());
}

#[test]
fn removes_unfinished_segments_and_no_foreign_files() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10]);
    fs::write(scratch.segment(2), b"").unwrap();
    fs::write(scratch.segment(3), vec![0; LEN_MIN as usize]).unwrap();
    // Renamed to be used again, its header not yet written.
    let old = frame::header(&Life { identity: IDENTITY, number: 1 });
    fs::write(scratch.segment(4), [&old[..], &fs::read(scratch.segment(1)).unwrap()[BLOCK_LEN..]].concat())
        .unwrap();
    fs::write(scratch.0.join("redo-1"), b"not ours").unwrap();
    let (log, replay) = scratch.open(0);
    assert_eq!(groups_of(replay).unwrap(), model);
    assert_eq!(scratch.segment_count(), 1);
    assert!(scratch.0.join("redo-1").exists());
    // A number that was seen in a name is not given again.
    while !scratch.segment(5).exists() {
        log.append(log.last_sequence() + 1, &mut group(0, 50_000)).unwrap();
    }
}

#[test]
#[should_panic(expected = "group 3 cannot follow group 1")]
fn a_sequence_left_out_is_our_own_mistake() {
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
    assert_eq!(scratch.segment_count(), 2, "none but those that were needed");
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
