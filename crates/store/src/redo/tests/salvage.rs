//! Findings in damaged logs, compared with the list of written groups.

use super::super::salvage::{FileDamageKind, Findings};
use super::*;

impl Scratch {
    fn findings(&self, checkpointed: u64) -> Findings {
        Findings::of(&self.0, &room(&self.0), &owner(checkpointed)).unwrap()
    }

    /// Creates a log of several segments, and returns its groups.
    fn several_segments(&self) -> Groups {
        let (log, _) = self.open(0);
        let mut model = Vec::new();
        for fill in 1..=24 {
            append(&log, &mut model, &mut group(fill, 5_000 + usize::from(fill) * 300));
        }
        assert!(self.segment_count() > 3);
        model
    }
}

fn whole(scratch: &Scratch, findings: &Findings) -> Groups {
    groups_of(findings.replay(room(&scratch.0))).unwrap()
}

/// Returns the detached groups, encoded again from their changes.
fn detached(scratch: &Scratch, findings: &Findings) -> Groups {
    let mut groups = Vec::new();
    let mut each = |sequence: u64, changes: &mut dyn Iterator<Item = Change<'_>>| {
        let mut group = Group::new();
        changes.for_each(|change| group.push(change));
        groups.push((sequence, group.payload().to_vec()));
    };
    findings.for_each_detached(&room(&scratch.0), &mut each).unwrap();
    groups
}

fn kinds(findings: &Findings) -> Vec<FileDamageKind> {
    findings.damage.iter().map(|damage| damage.what.clone()).collect()
}

/// Returns the offsets of the groups of a segment, by their sequences.
fn places(scratch: &Scratch, number: u64) -> Vec<(u64, u64)> {
    let bytes = fs::read(scratch.segment(number)).unwrap();
    let life = Life { identity: IDENTITY, number };
    let mut places = Vec::new();
    let mut read = |buffer: &mut [u8], at: u64| {
        buffer.copy_from_slice(&bytes[at as usize..at as usize + buffer.len()]);
        Ok(())
    };
    let mut from = BLOCK;
    while let Some(found) =
        frame::next_frame(&life, from, bytes.len() as u64, &mut read, &mut |_| ()).unwrap()
    {
        places.push((found.sequence, found.offset));
        from = found.end();
    }
    places
}

/// If the newest segment is missing, the other segments contain no sign of it, and only the mark reveals it.
#[test]
fn reports_groups_that_the_mark_requires_and_no_segment_has() {
    let scratch = Scratch::new();
    let model = scratch.several_segments();
    let marked = Owner { is_marked: true, ..owner(0) };
    let findings = || Findings::of(&scratch.0, &room(&scratch.0), &marked).unwrap();
    assert!(findings().is_whole());
    let newest = (1..).take_while(|number| scratch.segment(*number).exists());
    let with_groups = newest.filter(|number| !places(&scratch, *number).is_empty()).max().unwrap();
    let groups = places(&scratch, with_groups);
    fs::remove_file(scratch.segment(with_groups)).unwrap();
    // The mark was written when the segment became active. The mark requires the groups that were durable then, and the
    // segment itself.
    let found = findings();
    assert_eq!(found.whole().map(|numbers| *numbers.end()), Some(groups[0].0 - 1));
    assert!(!found.is_whole(), "{found:?}");
    assert!(model.len() as u64 >= groups[0].0);
    fs::remove_file(scratch.0.join("redo.mark")).unwrap();
    assert!(!findings().is_whole());
}

#[test]
fn an_undamaged_log_is_whole() {
    let scratch = Scratch::new();
    let model = scratch.several_segments();
    for checkpointed in [0, 1, 7, 23, 24, 99] {
        let findings = scratch.findings(checkpointed);
        let expected: Groups =
            model.iter().filter(|(sequence, _)| *sequence > checkpointed).cloned().collect();
        assert_eq!(whole(&scratch, &findings), expected, "checkpointed {checkpointed}");
        assert!(findings.is_whole() && findings.damage.is_empty(), "{findings:?}");
    }
    // A restart copies the last group.
    drop(scratch.open(0));
    let findings = scratch.findings(0);
    assert!(findings.is_whole() && findings.damage.is_empty(), "{findings:?}");
    assert_eq!(whole(&scratch, &findings), model);
    let nothing = Scratch::new().findings(5);
    assert!(nothing.is_whole() && !nothing.has_segments() && nothing.whole().is_none());
}

#[test]
fn a_damaged_group_ends_the_sequence_of_whole_groups() {
    let scratch = Scratch::new();
    let model = scratch.several_segments();
    let numbers = 1..=scratch.segment_count() as u64;
    for (number, sequence, offset) in
        numbers.flat_map(|number| places(&scratch, number).into_iter().map(move |(s, o)| (number, s, o)))
    {
        let file = writable(&scratch.segment(number));
        for at in [offset + 13, offset + HEAD_LEN as u64 + 4_500] {
            let findings = with_bytes(&file, at, &[0xA5], || {
                let findings = scratch.findings(0);
                assert_eq!(whole(&scratch, &findings), model[..sequence as usize - 1], "{findings:?}");
                assert_eq!(detached(&scratch, &findings), model[sequence as usize..], "{findings:?}");
                findings
            });
            // The intact end of the group proves that it existed.
            assert_eq!(kinds(&findings), [FileDamageKind::NotWhole(sequence)]);
            let is_last = sequence == model.len() as u64;
            let missing = if is_last { vec![] } else { vec![sequence..=sequence] };
            assert_eq!(findings.missing, missing);
            assert_eq!(findings.in_doubt, is_last.then_some(sequence));
            assert!(!findings.is_whole());
            // Checkpointed groups may be missing.
            assert!(with_bytes(&file, at, &[0xA5], || scratch.findings(sequence)).is_whole());
        }
    }
}

#[test]
fn intact_heads_prove_that_the_groups_before_them_were_durable() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20, 30, 40, 50]);
    let file = writable(&scratch.segment(1));
    for (sequence, offset) in places(&scratch, 1) {
        if sequence >= 3 {
            file.write_all_at(&[0xA5], offset + HEAD_LEN as u64 + 12).unwrap();
        }
    }
    let findings = scratch.findings(0);
    assert_eq!(whole(&scratch, &findings), model[..2]);
    assert_eq!((findings.missing, findings.in_doubt), (vec![3..=4], Some(5)));
    // If all earlier groups are checkpointed, the torn group is in doubt.
    assert_eq!(scratch.findings(4).in_doubt, Some(5));
}

#[test]
fn a_missing_segment_is_a_gap() {
    let scratch = Scratch::new();
    let model = scratch.several_segments();
    let segments = scratch.segment_count() as u64;
    for number in 1..segments {
        let lost = places(&scratch, number);
        let (Some((first, _)), Some((last, _))) = (lost.first(), lost.last()) else { continue };
        if *last == model.len() as u64 {
            continue;
        }
        let aside = scratch.0.join("aside");
        fs::rename(scratch.segment(number), &aside).unwrap();
        let findings = scratch.findings(0);
        assert_eq!(whole(&scratch, &findings), model[..*first as usize - 1]);
        assert_eq!(detached(&scratch, &findings), model[*last as usize..]);
        assert_eq!((&findings.missing, findings.in_doubt), (&vec![*first..=*last], None));
        fs::rename(&aside, scratch.segment(number)).unwrap();

        // The groups are also found under another file name.
        let moved_file = scratch.segment(number + 1_000);
        fs::rename(scratch.segment(number), &moved_file).unwrap();
        let findings = scratch.findings(0);
        assert_eq!(whole(&scratch, &findings), model);
        assert!(findings.is_whole());
        assert_eq!(kinds(&findings), [FileDamageKind::Renamed(number)]);
        fs::rename(&moved_file, scratch.segment(number)).unwrap();
    }
}

#[test]
fn a_cut_segment_is_a_gap() {
    let scratch = Scratch::new();
    let model = scratch.several_segments();
    let places = places(&scratch, 1);
    let (sequence, offset) = places[places.len() / 2];
    writable(&scratch.segment(1)).set_len(offset + BLOCK + 7).unwrap();
    let findings = scratch.findings(0);
    assert_eq!(whole(&scratch, &findings), model[..sequence as usize - 1]);
    let last = places.last().unwrap().0;
    assert_eq!(findings.missing, vec![sequence..=last]);
    assert_eq!(detached(&scratch, &findings), model[last as usize..]);
}

#[test]
fn frames_replace_a_damaged_header_but_not_a_foreign_one() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20, 30]);
    let file = writable(&scratch.segment(1));
    let findings_with_header = |header: &[u8]| with_bytes(&file, 0, header, || scratch.findings(0));

    let damaged = findings_with_header(b"x");
    assert_eq!((kinds(&damaged), damaged.is_whole()), (vec![FileDamageKind::Header], true));
    assert_eq!(whole(&scratch, &damaged), model);

    let foreign = findings_with_header(&frame::header(&Life { identity: [9; 16], number: 1 }));
    assert_eq!(kinds(&foreign), [FileDamageKind::Foreign]);
    assert!(whole(&scratch, &foreign).is_empty());

    let mut version = b"pandoRDO\x00\x00\x00\x09identity of data\x00\x00\x00\x00\x00\x00\x00\x01".to_vec();
    version.extend_from_slice(&crc32c::crc32c(&version).to_le_bytes());
    let version = findings_with_header(&version);
    // The contents of a segment in an unknown version are unknown.
    assert_eq!((kinds(&version), version.is_whole()), (vec![FileDamageKind::Version(9)], false));
}

#[test]
fn a_group_with_invalid_changes_ends_the_sequence_of_whole_groups() {
    let scratch = Scratch::new();
    let (log, _) = scratch.open(0);
    let mut model = Vec::new();
    append(&log, &mut model, &mut group(1, 10));
    append(&log, &mut model, &mut Group::of_payload(b"nonsense"));
    let alone = scratch.findings(0);
    assert_eq!((alone.is_whole(), &alone.missing), (false, &vec![2..=2]));
    append(&log, &mut model, &mut group(3, 10));
    let findings = scratch.findings(0);
    assert_eq!(whole(&scratch, &findings), model[..1]);
    assert_eq!(detached(&scratch, &findings), model[2..]);
    assert_eq!((&findings.missing, kinds(&findings)), (&vec![2..=2], vec![FileDamageKind::NotAChange(2)]));
}

#[test]
fn two_different_groups_with_one_number_are_not_whole() {
    let scratch = Scratch::new();
    let model = small_log(&scratch, &[10, 20, 30]);
    let mut other = group(9, 99);
    let file = writable(&scratch.segment(1));
    file.write_all_at(other.framed(&Life { identity: IDENTITY, number: 1 }, 2), 4 * BLOCK).unwrap();
    let findings = scratch.findings(0);
    assert_eq!(whole(&scratch, &findings), model);
    assert_eq!(kinds(&findings), [FileDamageKind::Order { last: 3, found: 2 }]);
    assert!(!findings.is_whole());
    assert_eq!(detached(&scratch, &findings), [(2, other.payload().to_vec())]);
}

#[test]
fn returns_every_group_without_a_data_file() {
    let scratch = Scratch::new();
    let model = scratch.several_segments();
    let findings = Findings::without_data(&scratch.0, &room(&scratch.0)).unwrap();
    assert_eq!(detached(&scratch, &findings), model);
    assert!(whole(&scratch, &findings).is_empty() && !findings.is_whole());
    assert!(findings.missing.is_empty() && findings.damage.is_empty());
    // If a header is damaged, the intact frames identify the segment.
    writable(&scratch.segment(1)).write_all_at(b"x", 0).unwrap();
    let findings = Findings::without_data(&scratch.0, &room(&scratch.0)).unwrap();
    assert_eq!(detached(&scratch, &findings), model);
    fs::remove_file(scratch.segment(2)).unwrap();
    let findings = Findings::without_data(&scratch.0, &room(&scratch.0)).unwrap();
    assert_eq!(findings.missing.len(), 1);
}

/// After random damage, the whole groups equal the first written groups, and a log that can be opened returns no other
/// groups.
#[test]
fn random_damage_never_changes_the_whole_groups() {
    let mut random = Rng::with_seed(0x5a1f);
    for _ in 0..60 {
        let scratch = Scratch::new();
        let model = scratch.several_segments();
        for _ in 0..random.u64(1..5) {
            let file = writable(&scratch.segment(random.u64(1..=3)));
            let length = file.metadata().unwrap().len();
            match random.u8(..3) {
                0 => file.set_len(random.u64(0..length)).unwrap(),
                1 => file.write_all_at(&[random.u8(..)], random.u64(0..length.max(1))).unwrap(),
                _ => file.write_all_at(&vec![0; BLOCK_LEN], random.u64(0..8) * BLOCK).unwrap(),
            }
        }
        let findings = scratch.findings(0);
        let whole = whole(&scratch, &findings);
        assert_eq!(whole, model[..whole.len()], "{findings:?}");
        let detached = detached(&scratch, &findings);
        assert!(detached.iter().all(|group| model[whole.len()..].contains(group)), "{findings:?}");
        let missing: u64 = findings.missing.iter().map(|range| range.end() - range.start() + 1).sum();
        let last = detached.last().map_or(whole.len() as u64, |(sequence, _)| *sequence);
        let last = findings.missing.last().map_or(last, |range| last.max(*range.end()));
        assert_eq!(whole.len() as u64 + detached.len() as u64 + missing, last, "{findings:?}");
        if let Ok(opened) = scratch.read(0) {
            assert_eq!(opened, whole);
        }
    }
}
