//! Tests of the log: positions, reading, trimming, and damage.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use std::fs;

use scratch::{ROWS, Scratch};
use store::{LogDamage, Position, Read, Result, StoreError, Writer};

fn append(writer: &mut Writer, records: &[&[u8]]) -> Position {
    let mut batch = writer.begin().unwrap();
    for record in records {
        batch.append_record(record).unwrap();
    }
    batch.commit().unwrap()
}

fn records(read: &Read, from: Position) -> Vec<(Position, Vec<u8>)> {
    let record = |row: Result<(Position, &[u8])>| row.map(|(position, bytes)| (position, bytes.to_vec()));
    read.log_records(from).map(record).collect::<Result<_>>().unwrap()
}

#[test]
fn positions_count_from_1_across_batches_and_opens() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let view = store.view().unwrap();
    assert_eq!((view.position().unwrap(), view.first_position().unwrap()), (0, None));
    assert_eq!(records(&view, 0), []);
    assert_eq!(append(&mut writer, &[b"a", b"", b"ccc"]), 3);
    assert_eq!(append(&mut writer, &[]), 3);
    let mut batch = writer.begin().unwrap();
    assert_eq!(batch.append_record(b"rolled back").unwrap(), 4);
    drop(batch);
    drop((store, writer, view));

    let (store, mut writer) = scratch.open();
    assert_eq!(append(&mut writer, &[b"d"]), 4);
    let view = store.view().unwrap();
    let expected = [(1, b"a".to_vec()), (2, b"".to_vec()), (3, b"ccc".to_vec()), (4, b"d".to_vec())];
    assert_eq!(records(&view, 0), expected);
    assert_eq!(records(&view, 3), expected[2..]);
    assert_eq!(records(&view, 5), []);
    assert_eq!((view.position().unwrap(), view.first_position().unwrap()), (4, Some(1)));
    assert_eq!(store.facts().unwrap().position, 4);
}

#[test]
fn trims_in_slices_and_keeps_the_last_record() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let many: Vec<&[u8]> = vec![b"record"; 100];
    append(&mut writer, &many);
    let mut trim = |before, rows_max| {
        let mut batch = writer.begin_in_reserve().unwrap();
        let trimmed = batch.trim_log(before, rows_max).unwrap();
        batch.commit().unwrap();
        let view = store.view().unwrap();
        assert_eq!(view.position().unwrap(), 100);
        (trimmed, view.first_position().unwrap(), records(&view, 1).len())
    };
    assert_eq!(trim(0, 10), (0, Some(1), 100));
    assert_eq!(trim(31, 20), (20, Some(21), 80));
    assert_eq!(trim(31, 20), (10, Some(31), 70));
    assert_eq!(trim(31, 20), (0, Some(31), 70));
    assert_eq!(trim(Position::MAX, usize::MAX), (69, Some(100), 1));
    assert_eq!(append(&mut writer, &[b"next"]), 101);
}

/// Closes the store, changes the data file, and returns the result of reading the log.
fn read_damaged(damage: impl Fn(&mut Vec<u8>)) -> Vec<Result<Position>> {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    append(&mut writer, &[b"first record", b"the needle in the log", b"third record"]);
    drop((store, writer));
    let file = scratch.path().join("data.mdb");
    let mut bytes = fs::read(&file).unwrap();
    damage(&mut bytes);
    fs::write(&file, bytes).unwrap();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    view.log_records(1).map(|row| row.map(|(position, _)| position)).collect()
}

/// Returns all offsets of `needle` in `bytes`.
fn places(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    (0..bytes.len().saturating_sub(needle.len())).filter(|&at| bytes[at..].starts_with(needle)).collect()
}

#[test]
fn a_damaged_record_is_reported_with_its_position_and_ends_the_scan() {
    assert_eq!(read_damaged(|_| {}), [Ok(1), Ok(2), Ok(3)]);
    let damaged = |damage| StoreError::DamagedLog { position: 2, damage };
    let flipped = read_damaged(|bytes| {
        let found = places(bytes, b"the needle in the log");
        assert!(!found.is_empty());
        found.iter().for_each(|at| bytes[at + 4] ^= 1);
    });
    assert_eq!(flipped, [Ok(1), Err(damaged(LogDamage::Checksum))]);
    let version = read_damaged(|bytes| {
        let found = places(bytes, b"the needle in the log");
        found.iter().for_each(|at| bytes[at - 5] = 9);
    });
    assert_eq!(version, [Ok(1), Err(damaged(LogDamage::Version(9)))]);
}

#[test]
fn a_missing_record_is_reported() {
    // Record 1 gets the key 0, so that position 1 is missing before record 2.
    let moved = |bytes: &mut Vec<u8>| {
        let framed = [&1u64.to_be_bytes()[..], &[1]].concat();
        for at in places(bytes, &framed) {
            if bytes[at + 13..].starts_with(b"first record") {
                bytes[at + 7] = 0;
            }
        }
    };
    assert_eq!(read_damaged(moved), [Err(StoreError::DamagedLog { position: 2, damage: LogDamage::Gap })]);
}

#[test]
fn records_and_rows_share_a_batch() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    batch.put(ROWS, b"k", b"v").unwrap();
    let position = batch.append_record(&vec![7; 1 << 20]).unwrap();
    assert_eq!(batch.position().unwrap(), position);
    assert_eq!(batch.commit().unwrap(), position);
    assert_eq!(records(&store.view().unwrap(), position), [(1, vec![7; 1 << 20])]);
}
