//! Segments: sizes, reuse and removal, and segments that are missing, belong to other data, or have another version.

use super::*;

#[test]
fn segments_double_in_size_and_a_large_group_gets_its_own() {
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
    // A segment that was created for a single large group is not reused.
    let (log, replay) = scratch.open(0);
    assert_eq!(groups_of(replay).unwrap(), model);
    log.trim(log.last_sequence()).unwrap();
    assert!(!scratch.segment(4).exists());
    assert_eq!(scratch.segment_count(), 2, "the active segment and one of the same size");
    assert_eq!(length(5), LEN_MAX);
}

#[test]
fn a_reused_segment_does_not_contain_its_old_groups() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    while !scratch.segment(3).exists() {
        append(&log, &mut model, &mut group(1, 3_000));
    }
    log.trim(log.last_sequence()).unwrap();
    assert_eq!(scratch.segment_count(), 1, "smaller segments are not reused");
    // From here on all segments have the same size. The segments are filled in turn, and all groups except the last are
    // trimmed.
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
        for (number, path) in super::super::segment::list(&scratch.0).unwrap() {
            let inode = fs::metadata(path).unwrap().ino();
            let was_there = inodes.values().any(|known| *known == inode);
            reused += usize::from(inodes.insert(number, inode).is_none() && was_there);
        }
    }
    assert!(reused > 5, "{reused} segments reused");
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
    // Swap the names of two segments.
    fs::rename(scratch.segment(2), scratch.segment(1)).unwrap();
    fs::rename(&aside, scratch.segment(2)).unwrap();
    let (file, _, what) = damage(scratch.read(0));
    assert_eq!(file, scratch.segment(3));
    assert_eq!(what, RedoDamage::Missing { first: 1, last: last_of[1] });
    assert!(scratch.try_open(0).is_err());
    assert_eq!(scratch.segment_count(), 4, "a refused log is unchanged");
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
    assert!(super::super::segment::list(&scratch.0).unwrap().is_empty());
    // If the data file has replaced the data of the segment, the segment is removed.
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
    assert!(super::super::segment::list(&scratch.0).unwrap().is_empty());
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
    // Simulate a segment that was renamed for reuse and whose new header is not written yet.
    let old = frame::header(&Life { identity: IDENTITY, number: 1 });
    fs::write(scratch.segment(4), [&old[..], &fs::read(scratch.segment(1)).unwrap()[BLOCK_LEN..]].concat())
        .unwrap();
    fs::write(scratch.0.join("redo-1"), b"not ours").unwrap();
    let (log, replay) = scratch.open(0);
    assert_eq!(groups_of(replay).unwrap(), model);
    assert_eq!(scratch.segment_count(), 1);
    assert!(scratch.0.join("redo-1").exists());
    // A number that occurred in a file name is not used again.
    while !scratch.segment(5).exists() {
        log.append(log.last_sequence() + 1, &mut group(0, 50_000)).unwrap();
    }
}
