//! Flipped bits, torn groups, missing and misnamed segments, and marks that require more than exists.

use super::*;

#[test]
fn every_flipped_bit_is_detected_or_ends_the_log() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20, 30]);
    let path = scratch.segment(1);
    let file = writable(&path);
    let mut byte = [0];
    let mut flip = |offset: u64, bit: u64, check: &mut dyn FnMut(Result<Groups>)| {
        file.read_exact_at(&mut byte, offset).unwrap();
        with_bytes(&file, offset, &[byte[0] ^ (1 << bit)], || check(scratch.read(0)));
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

/// Symptom: damage to several of the last groups silently dropped all of these groups. Cause: a head whose payload is
/// damaged was skipped, although it proves that the groups before it were durable.
#[test]
fn only_the_last_group_may_be_torn() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 5_000, 30, 9_000]);
    let path = scratch.segment(1);
    let file = writable(&path);
    // The groups occupy the blocks 1, 2 and 3, 4, 5 to 7.
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
    // Checkpointed groups need not be intact.
    flip(&[2, 4, 5]);
    assert!(scratch.read(3).unwrap().is_empty());
    flip(&[2, 4]);
    assert_eq!(scratch.read(0).unwrap(), model[..3], "the last one alone");
}

/// Symptom: the last two groups were silently dropped if random bytes replaced the end of the first and the head of the
/// second. Cause: only the head of the last group proved that the group existed.
#[test]
fn the_tail_of_the_last_group_shows_that_the_one_before_was_durable() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 5_000, 9_000]);
    let path = scratch.segment(1);
    let file = writable(&path);
    // The groups occupy the blocks 1, 2 and 3, 4 to 6. The damage spares the head of the second group and the tail of
    // the third group.
    let damage_of = |len: u64| vec![0xA5; len as usize];
    let missing = (path.clone(), 2 * BLOCK, RedoDamage::Missing { first: 2, last: 2 });
    with_bytes(&file, 2 * BLOCK + 100, &damage_of(3 * BLOCK), || {
        assert_eq!(damage(scratch.read(0)), missing);
        assert!(scratch.try_open(0).is_err());
        assert!(scratch.read(2).unwrap().is_empty(), "checkpointed groups need not be intact");
    });
    // The payload is so short that head and tail are in one block.
    with_bytes(&file, BLOCK, &damage_of(100), || {
        let missing = RedoDamage::Missing { first: 1, last: 1 };
        assert_eq!(damage(scratch.read(0)), (path.clone(), BLOCK, missing));
    });
    with_bytes(&file, 4 * BLOCK, &damage_of(100), || {
        assert_eq!(scratch.read(0).unwrap(), model[..2], "the last one alone");
    });
    assert_eq!(scratch.read(0).unwrap(), model);
}

/// A torn group that did not fit into the first segment remains in the second segment, while a smaller group in the
/// first segment gets the number of the torn group.
#[test]
fn ignores_a_torn_group_with_the_number_of_another_group() {
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
    assert!(scratch.read(2).unwrap().is_empty(), "all groups are checkpointed");
    fs::rename(scratch.segment(9), scratch.segment(1)).unwrap();
    assert_eq!(scratch.read(0).unwrap(), model);
}

/// Symptom: a pending segment that was removed, emptied, renamed or truncated was not reported. Now the mark requires
/// each pending segment.
#[test]
fn reports_segments_that_the_mark_requires_and_the_log_lacks() {
    let scratch = Scratch::new();
    let marked = |checkpointed| Owner { is_marked: true, ..owner(checkpointed) };
    let read_marked =
        |checkpointed| groups_of(RedoLog::read(&scratch.0, &room(&scratch.0), &marked(checkpointed))?);
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    for fill in 0..30 {
        append(&log, &mut model, &mut group(fill, 3_000));
    }
    assert!(scratch.segment(3).exists() && !scratch.segment(4).exists());
    drop(log);
    assert_eq!(read_marked(0).unwrap(), model);
    let findings = |checkpointed| {
        let opened =
            RedoLog::open_with(&scratch.0, room(&scratch.0), &marked(checkpointed), LEN_MIN..=LEN_MAX);
        let found = match read_marked(checkpointed) {
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
        assert_eq!(read_marked(0).unwrap(), model);
    }
    // If several segments are missing, the error names all missing segments.
    let aside = [1, 2].map(|number| (scratch.segment(number), fs::read(scratch.segment(number)).unwrap()));
    aside.iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
    assert_eq!(findings(0).len(), 2);
    aside.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    // The mark is missing, or cannot be read.
    let mark = super::super::mark::path(&scratch.0);
    let bytes = fs::read(&mark).unwrap();
    fs::remove_file(&mark).unwrap();
    assert_eq!(only(0), (mark.clone(), RedoDamage::MarkMissing));
    for broken in [Vec::new(), vec![0; bytes.len()], bytes[..30].to_vec()] {
        fs::write(&mark, broken).unwrap();
        assert_eq!(only(0), (mark.clone(), RedoDamage::Mark));
    }
    fs::write(&mark, &bytes).unwrap();
    // The last groups that are known to be durable are erased completely.
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
    assert_eq!(read_marked(0).unwrap(), model);
    // A checkpointed segment that is not active may be missing.
    fs::remove_file(scratch.segment(1)).unwrap();
    assert_eq!(only(0).0, scratch.segment(1));
    let (log, _) =
        RedoLog::open_with(&scratch.0, room(&scratch.0), &marked(last - 1), LEN_MIN..=LEN_MAX).unwrap();
    // After the log is closed, no segment is required.
    log.trim(last).unwrap();
    log.close().unwrap();
    fs::remove_file(scratch.segment(3)).unwrap();
    assert!(read_marked(last).unwrap().is_empty());
    log.remove_all().unwrap();
    assert!(!mark.exists());
    assert!(log.append(last + 1, &mut group(1, 1)).is_err());
}

#[test]
fn a_partly_written_mark_leaves_the_previous_one() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    append(&log, &mut model, &mut group(1, 10));
    log.trim(0).unwrap();
    let before = super::super::mark::read(&scratch.0, IDENTITY).unwrap().unwrap();
    append(&log, &mut model, &mut group(2, 10));
    log.trim(0).unwrap();
    let after = super::super::mark::read(&scratch.0, IDENTITY).unwrap().unwrap();
    assert_eq!((before.last, after.last, after.count), (1, 2, before.count + 1));
    let file = writable(&super::super::mark::path(&scratch.0));
    for length in 0..72 {
        let rest = vec![0; 76 - length];
        with_bytes(&file, after.count % 2 * BLOCK + length as u64, &rest, || {
            let read = super::super::mark::read(&scratch.0, IDENTITY).unwrap().unwrap();
            assert_eq!(read, before, "{length} bytes");
        });
    }
    assert_eq!(super::super::mark::read(&scratch.0, *b"another identity").unwrap(), Err(RedoDamage::Mark));
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
fn a_torn_last_group_is_ignored_and_overwritten() {
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
    // The group's first block is lost. The next group is written in its place, and the old second block remains after
    // that group for a while.
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
fn ignores_bytes_that_look_like_a_frame_in_a_torn_group() {
    let scratch = Scratch::new();
    small_log(&scratch, &[10]);
    let mut fake = Group::new();
    let life = Life { identity: *b"a guess, no more", number: 1 };
    let fake = fake.framed(&life, 9).to_vec();
    let (log, _) = scratch.open(0);
    // The fake frame begins at the start of a block.
    let mut value = vec![0; BLOCK_LEN - HEAD_LEN - 10];
    value.extend_from_slice(&fake);
    let mut group = Group::new();
    group.push(Change::Put { map: 0, key: b"k", value: &value });
    log.append(2, &mut group).unwrap();
    let bytes = fs::read(scratch.segment(1)).unwrap();
    // Opening has copied group 1, so group 2 begins at the third block.
    let at = 3 * BLOCK_LEN;
    assert_eq!(bytes[at + BLOCK_LEN..at + BLOCK_LEN + fake.len()], fake, "the test writes the frame there");
    writable(&scratch.segment(1)).write_all_at(&[0; HEAD_LEN], at as u64).unwrap();
    assert_eq!(scratch.read(0).unwrap().len(), 1);
}
