//! Tests of plain maps, counters, scans, and errors of the caller.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use scratch::{ROWS, SETS, Scratch};
use store::{Direction, KEY_LEN_MAX, Read, StoreError};

#[test]
fn a_batch_sees_its_own_writes_and_leaves_no_trace_when_dropped() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    batch.put(ROWS, b"kept", b"1").unwrap();
    batch.put(ROWS, b"kept", b"2").unwrap();
    assert_eq!(batch.get(ROWS, b"kept").unwrap(), Some(&b"2"[..]));
    batch.commit().unwrap();

    let mut batch = writer.begin().unwrap();
    assert!(batch.delete(ROWS, b"kept").unwrap());
    assert!(!batch.delete(ROWS, b"kept").unwrap());
    batch.put(ROWS, b"dropped", b"x").unwrap();
    batch.bump(b"dropped", 1).unwrap();
    batch.append_record(b"dropped").unwrap();
    assert_eq!(batch.get(ROWS, b"kept").unwrap(), None);
    drop(batch);

    let view = store.view().unwrap();
    assert_eq!(view.get(ROWS, b"kept").unwrap(), Some(&b"2"[..]));
    assert_eq!(view.get(ROWS, b"dropped").unwrap(), None);
    assert_eq!((view.count(b"dropped").unwrap(), view.position().unwrap()), (0, 0));
    assert_eq!(view.row_count(ROWS).unwrap(), 1);
}

#[test]
fn values_of_every_size_are_read_back() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let sizes = [0, 1, 100, 2_029, 2_030, 4_096, 100_000, 5_000_000];
    let mut batch = writer.begin().unwrap();
    for size in sizes {
        batch.put(ROWS, &u32::to_be_bytes(size as u32), &vec![size as u8; size]).unwrap();
    }
    batch.commit().unwrap();
    let view = store.view().unwrap();
    for size in sizes {
        let expected = vec![size as u8; size];
        assert_eq!(view.get(ROWS, &u32::to_be_bytes(size as u32)).unwrap(), Some(&expected[..]), "{size}");
    }
}

/// Covers pages with many small rows, a few large rows, rows with pages of their own, and pages with gaps.
#[test]
fn scans_find_rows_of_every_size_in_their_order() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let size = |number: u32| [3, 700, 2_100, 0, 40, 1_990, 9_000][(number / 50 + number % 2) as usize % 7];
    let value = |number: u32| vec![number as u8; size(number)];
    let mut batch = writer.begin().unwrap();
    for number in 0..3_000u32 {
        batch.put(ROWS, &number.to_be_bytes(), &value(number)).unwrap();
    }
    batch.commit().unwrap();
    let mut batch = writer.begin().unwrap();
    let is_kept = |number: &u32| number % 11 != 3 && !(1_000..1_200).contains(number);
    for number in (0..3_000).filter(|number| !is_kept(number)) {
        assert!(batch.delete(ROWS, &number.to_be_bytes()).unwrap());
    }
    let expected = |from: u32| {
        let kept = (from..3_000).filter(is_kept);
        kept.map(|number| (number.to_be_bytes().to_vec(), value(number))).collect::<Vec<_>>()
    };
    let scanned = |read: &Read, from: u32| {
        let low = from.to_be_bytes();
        let rows = read.scan(ROWS, (Included(&low[..]), Unbounded), Direction::Forward);
        rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect::<Vec<_>>()
    };
    for from in (0..3_000).step_by(97) {
        assert_eq!(scanned(&batch, from), expected(from), "from {from} in a batch");
    }
    batch.commit().unwrap();
    let view = store.view().unwrap();
    for from in (0..3_000).step_by(97) {
        assert_eq!(scanned(&view, from), expected(from), "from {from} in a view");
    }
    store.checkpoint().unwrap();
    let view = store.view().unwrap();
    for from in (0..3_000).step_by(97) {
        assert_eq!(scanned(&view, from), expected(from), "from {from} in the data file");
    }
    // Some rows are changed again, so that these changes are pending.
    let mut batch = writer.begin().unwrap();
    for number in (0..3_000).step_by(5).filter(is_kept) {
        batch.put(ROWS, &number.to_be_bytes(), &value(number)).unwrap();
    }
    batch.commit().unwrap();
    let view = store.view().unwrap();
    for from in (0..3_000).step_by(97) {
        assert_eq!(scanned(&view, from), expected(from), "from {from} in both");
    }
}

/// Keys have one id, a few ids that are stored with the key, or so many ids that they have pages of their own. Each
/// kind is tested alone and mixed with the others.
#[test]
fn keys_of_sets_are_found_for_any_number_of_ids() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let key =
        |number: u32| [&number.to_be_bytes()[..], &b"after the number"[..number as usize % 17]].concat();
    let count = |number: u32| match (number / 40 % 3, number % 7) {
        (0, _) => 1,
        (1, residue) => [1, 1, 2, 5, 1, 30, 1][residue as usize],
        (_, 3) if number.is_multiple_of(90) => 2_000,
        (_, residue) => u64::from(residue) % 3 + 1,
    };
    let mut batch = writer.begin().unwrap();
    for number in 0..4_000 {
        for id in 0..count(number) {
            batch.insert_id(SETS, &key(number), u64::from(number) + id * 3).unwrap();
        }
    }
    batch.commit().unwrap();
    store.checkpoint().unwrap();
    let view = store.view().unwrap();
    for from in (0..4_000).step_by(83) {
        let low = key(from);
        let mut keys = view.scan_keys(SETS, (Included(&low[..]), Unbounded), Direction::Forward);
        for number in from..4_000 {
            assert_eq!(keys.next().unwrap().unwrap(), (&key(number)[..], count(number)), "from {from}");
            assert_eq!(keys.first_id(), Some(number.into()), "{number} from {from}");
        }
        assert!(keys.next().is_none());
        let keys = view.scan_keys(SETS, (Unbounded, Excluded(&low[..])), Direction::Backward);
        let found: Vec<_> = keys.map(|row| row.unwrap()).map(|(key, count)| (key.to_vec(), count)).collect();
        assert_eq!(found, (0..from).rev().map(|number| (key(number), count(number))).collect::<Vec<_>>());
    }
}

#[test]
fn a_counter_of_zero_is_removed() {
    let scratch = Scratch::new();
    let (_store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    assert_eq!(batch.count(b"c").unwrap(), 0);
    assert_eq!(batch.bump(b"c", 3).unwrap(), 3);
    assert_eq!(batch.bump(b"c", -5).unwrap(), -2);
    assert_eq!(batch.count(b"c").unwrap(), -2);
    assert_eq!(batch.bump(b"c", 2).unwrap(), 0);
    assert_eq!(batch.bump(b"c", i64::MAX).unwrap(), i64::MAX);
    assert_eq!(batch.bump(b"c", 1), Err(StoreError::CounterOverflow));
    assert_eq!(batch.count(b"c").unwrap(), i64::MAX);
    batch.commit().unwrap();
}

/// A batch buffers changed counters, and writes them when there are many. Reads must return the same values in both
/// cases.
#[test]
fn many_counters_change_in_one_batch() {
    const COUNT: u32 = 10_000;
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let key = |number: u32| number.wrapping_mul(7_919).to_be_bytes();
    for round in 1..=2 {
        let mut batch = writer.begin().unwrap();
        for number in 0..COUNT {
            assert_eq!(batch.bump(&key(number), 2).unwrap(), 4 * round - 2, "{number}");
            assert_eq!(batch.bump(&key(number / 2), 1).unwrap(), batch.count(&key(number / 2)).unwrap());
            batch.bump(&key(number / 2), -1).unwrap();
            batch.bump(&key(number), 2).unwrap();
        }
        batch.commit().unwrap();
        let view = store.view().unwrap();
        assert_eq!(
            view.counters().map(|row| row.unwrap().1).collect::<Vec<_>>(),
            vec![4 * round; COUNT as usize]
        );
    }
    let mut batch = writer.begin().unwrap();
    (0..COUNT).for_each(|number| assert_eq!(batch.bump(&key(number), -8).unwrap(), 0));
    batch.commit().unwrap();
    assert_eq!(store.view().unwrap().counters().count(), 0);
}

/// A buffered row can be read by its key before the commit, and like any other row after it.
#[test]
fn rows_are_buffered_until_the_commit_or_another_change() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    for round in 0..3u8 {
        let mut batch = writer.begin().unwrap();
        for number in 0..40u8 {
            // Sets more rows than a batch buffers, and some rows twice.
            let key = [number / 2 % 19 + 1];
            batch.put_buffered(ROWS, &key, &[round, number]).unwrap();
            assert_eq!(batch.get(ROWS, &key).unwrap(), Some(&[round, number][..]));
        }
        batch.put_buffered(ROWS, b"put", b"1").unwrap();
        batch.put(ROWS, b"put", b"2").unwrap();
        assert_eq!(batch.get(ROWS, b"put").unwrap(), Some(&b"2"[..]));
        batch.put_buffered(ROWS, b"gone", b"1").unwrap();
        assert!(batch.delete(ROWS, b"gone").unwrap());
        assert_eq!(batch.get(ROWS, b"gone").unwrap(), None);
        if round == 1 {
            drop(batch);
            continue;
        }
        batch.commit().unwrap();
        let view = store.view().unwrap();
        assert_eq!(view.row_count(ROWS).unwrap(), 20);
        for key in 1..=19u8 {
            let last = (0..40).rev().find(|number| number / 2 % 19 + 1 == key).unwrap();
            assert_eq!(view.get(ROWS, &[key]).unwrap(), Some(&[round, last][..]));
        }
        assert_eq!(view.get(ROWS, b"put").unwrap(), Some(&b"2"[..]));
        assert_eq!(view.get(ROWS, b"gone").unwrap(), None);
    }
    let mut batch = writer.begin().unwrap();
    assert_eq!(batch.put_buffered(SETS, b"k", b""), Err(StoreError::WrongMapKind { map: "sets" }));
    assert_eq!(batch.put_buffered(ROWS, b"", b""), Err(StoreError::EmptyKey { map: "rows" }));
}

#[test]
fn bad_keys_and_kinds_are_errors_that_leave_the_batch_usable() {
    let scratch = Scratch::new();
    let (_store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    let long = vec![b'k'; KEY_LEN_MAX + 1];
    let empty = |map| StoreError::EmptyKey { map };
    let too_long = |map| StoreError::KeyTooLong { map, length: 512 };
    assert_eq!(batch.put(ROWS, b"", b"v"), Err(empty("rows")));
    assert_eq!(batch.put(ROWS, &long, b"v"), Err(too_long("rows")));
    assert_eq!(batch.get(ROWS, b""), Err(empty("rows")));
    assert_eq!(batch.get(ROWS, &long), Err(too_long("rows")));
    assert_eq!(batch.delete(ROWS, b""), Err(empty("rows")));
    assert_eq!(batch.delete(SETS, &long), Err(too_long("sets")));
    assert_eq!(batch.insert_id(SETS, b"", 1), Err(empty("sets")));
    assert_eq!(batch.insert_id(SETS, &long, 1), Err(too_long("sets")));
    assert_eq!(batch.remove_id(SETS, b"", 1), Err(empty("sets")));
    assert_eq!(batch.contains_id(SETS, &long, 1), Err(too_long("sets")));
    assert_eq!(batch.ids(SETS, b"").err(), Some(empty("sets")));
    assert_eq!(batch.count(b""), Err(empty("store.counts")));
    assert_eq!(batch.bump(&long, 1), Err(too_long("store.counts")));

    let wrong = |map| StoreError::WrongMapKind { map };
    assert_eq!(batch.put(SETS, b"k", b"v"), Err(wrong("sets")));
    assert_eq!(batch.get(SETS, b"k"), Err(wrong("sets")));
    assert_eq!(batch.insert_id(ROWS, b"k", 1), Err(wrong("rows")));
    assert_eq!(batch.remove_id(ROWS, b"k", 1), Err(wrong("rows")));
    assert_eq!(batch.ids(ROWS, b"k").err(), Some(wrong("rows")));
    let all = (Unbounded, Unbounded);
    let scanned: Vec<_> = batch.scan(SETS, all, Direction::Forward).collect();
    assert_eq!(scanned, [Err(wrong("sets"))]);
    let scanned: Vec<_> = batch.scan_keys(ROWS, all, Direction::Forward).collect();
    assert_eq!(scanned, [Err(wrong("rows"))]);

    batch.put(ROWS, &long[1..], b"fits").unwrap();
    assert_eq!(batch.get(ROWS, &long[1..]).unwrap(), Some(&b"fits"[..]));
    batch.commit().unwrap();
}

/// Returns the keys of both kinds of scan, which must agree.
fn keys(read: &Read, range: store::KeyRange<'_>, direction: Direction) -> Vec<String> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let rows: Vec<_> = read.scan(ROWS, range, direction).map(|row| text(row.unwrap().0)).collect();
    let sets: Vec<_> = read.scan_keys(SETS, range, direction).map(|row| text(row.unwrap().0)).collect();
    assert_eq!(rows, sets);
    rows
}

#[test]
fn scans_respect_their_bounds_in_both_directions() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    let present = ["b", "bb", "d", "f"];
    for key in present {
        batch.put(ROWS, key.as_bytes(), b"v").unwrap();
        for id in 0..3 {
            batch.insert_id(SETS, key.as_bytes(), id).unwrap();
        }
    }
    batch.commit().unwrap();
    let view = store.view().unwrap();
    let long = "z".repeat(600);
    let points = ["", "a", "b", "ba", "bb", "c", "d", "e", "f", "g", &long];
    let bounds = || {
        let at = points.iter().map(|point| point.as_bytes());
        at.clone().map(Included).chain(at.map(Excluded)).chain([Unbounded])
    };
    for (low, high) in bounds().flat_map(|low| bounds().map(move |high| (low, high))) {
        let above = |key: &str, bound: Bound<&[u8]>| match bound {
            Included(low) => key.as_bytes() >= low,
            Excluded(low) => key.as_bytes() > low,
            Unbounded => true,
        };
        let below = |key: &str, bound: Bound<&[u8]>| match bound {
            Included(high) => key.as_bytes() <= high,
            Excluded(high) => key.as_bytes() < high,
            Unbounded => true,
        };
        let mut expected = present.to_vec();
        expected.retain(|key| above(key, low) && below(key, high));
        assert_eq!(keys(&view, (low, high), Direction::Forward), expected, "{low:?} {high:?}");
        expected.reverse();
        assert_eq!(keys(&view, (low, high), Direction::Backward), expected, "{low:?} {high:?}");
    }
}

#[test]
fn scans_of_empty_and_large_maps_return_all_keys() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let view = store.view().unwrap();
    let all = (Unbounded, Unbounded);
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(keys(&view, all, direction), Vec::<String>::new());
    }
    let mut batch = writer.begin().unwrap();
    for number in 0..5_000 {
        let key = format!("{number:05}");
        batch.put(ROWS, key.as_bytes(), key.as_bytes()).unwrap();
        for id in 0..number % 7 + 1 {
            batch.insert_id(SETS, key.as_bytes(), id).unwrap();
        }
    }
    // Check the keys in the batch first, and again after the commit.
    let expected: Vec<String> = (0..5_000).map(|number| format!("{number:05}")).collect();
    assert_eq!(keys(&batch, all, Direction::Forward), expected);
    batch.commit().unwrap();
    let view = store.view().unwrap();
    assert_eq!(keys(&view, all, Direction::Forward), expected);
    let counts: Vec<u64> = view.scan_keys(SETS, all, Direction::Backward).map(|row| row.unwrap().1).collect();
    assert_eq!(counts, (0..5_000).rev().map(|number| number % 7 + 1).collect::<Vec<u64>>());
    assert_eq!(view.row_count(SETS).unwrap(), counts.iter().sum::<u64>());
}
