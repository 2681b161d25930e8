//! Id sets of every size: empty, one id, a few (stored within a row), many (with pages of their own).

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use scratch::{SETS, Scratch};
use store::Read;

fn all_ids(read: &Read, key: &[u8], limit: usize) -> Vec<u64> {
    let mut cursor = read.ids(SETS, key).unwrap();
    let mut ids = Vec::new();
    loop {
        let before = ids.len();
        let appended = cursor.next_block(&mut ids, limit).unwrap();
        assert_eq!(ids.len() - before, appended);
        assert!(appended <= limit);
        if appended < limit {
            assert_eq!(cursor.next_block(&mut ids, limit).unwrap(), 0, "the end is the end");
            return ids;
        }
    }
}

/// Returns ids with gaps of 1 to 5, so that a seek may fall between two.
fn gapped(count: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(count);
    let mut id = 0;
    (0..count)
        .map(|_| {
            id += random.u64(1..=5);
            id
        })
        .collect()
}

#[test]
fn sets_of_1_to_100_000_ids_are_read_in_blocks_of_any_size() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let counts = [0, 1, 2, 3, 100, 200, 254, 255, 256, 509, 510, 511, 1_020, 1_021, 10_000, 100_000];
    let mut batch = writer.begin().unwrap();
    for count in counts {
        let mut ids = gapped(count);
        // Insert the ids in random order, so that pages are split in the middle.
        fastrand::Rng::with_seed(7).shuffle(&mut ids);
        for id in ids {
            assert!(batch.insert_id(SETS, &count.to_be_bytes(), id).unwrap());
        }
    }
    batch.commit().unwrap();
    let view = store.view().unwrap();
    for count in counts {
        let (key, expected) = (count.to_be_bytes(), gapped(count));
        for limit in [1, 7, 509, 510, 511, 4_096, usize::MAX] {
            assert_eq!(all_ids(&view, &key, limit), expected, "{count} ids by {limit}");
        }
        assert_eq!(view.ids(SETS, &key).unwrap().estimate(), count);
    }
}

#[test]
fn seek_finds_the_next_id_and_reading_continues_from_it() {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let counts = [0, 1, 2, 50, 510, 5_000];
    let mut batch = writer.begin().unwrap();
    for count in counts {
        for id in gapped(count) {
            batch.insert_id(SETS, &count.to_be_bytes(), id).unwrap();
        }
    }
    batch.commit().unwrap();
    let view = store.view().unwrap();
    for count in counts {
        let ids = gapped(count);
        let above = ids.last().map_or(10, |last| last + 10);
        let mut cursor = view.ids(SETS, &count.to_be_bytes()).unwrap();
        let mut random = fastrand::Rng::with_seed(count);
        for step in 0..2_000 {
            let at_least = if step % 50 == 0 { u64::MAX } else { random.u64(0..above) };
            let place = ids.partition_point(|&id| id < at_least);
            assert_eq!(cursor.seek(at_least).unwrap(), ids.get(place).copied(), "{count}: {at_least}");
            let limit = random.usize(0..1_200);
            let mut block = Vec::new();
            cursor.next_block(&mut block, limit).unwrap();
            let end = (place + limit).min(ids.len());
            assert_eq!(block, ids[place..end], "{count}: {limit} from {at_least}");
            assert_eq!(cursor.estimate(), count);
        }
    }
}

#[test]
fn extreme_ids_keep_their_order() {
    let scratch = Scratch::new();
    let (_store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    let ids = [0, 1, 255, 256, 1 << 32, u64::MAX - 1, u64::MAX];
    for id in ids.iter().rev() {
        batch.insert_id(SETS, b"k", *id).unwrap();
    }
    assert_eq!(all_ids(&batch, b"k", 100), ids);
    assert_eq!(batch.ids(SETS, b"k").unwrap().seek(u64::MAX).unwrap(), Some(u64::MAX));
    assert!(batch.contains_id(SETS, b"k", 0).unwrap());
    assert!(!batch.contains_id(SETS, b"k", 2).unwrap());
}

#[test]
fn inserting_and_removing_return_true_for_a_change() {
    let scratch = Scratch::new();
    let (_store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    assert!(!batch.remove_id(SETS, b"k", 1).unwrap(), "no such key");
    assert!(batch.insert_id(SETS, b"k", 1).unwrap());
    assert!(!batch.insert_id(SETS, b"k", 1).unwrap(), "the id is already in the set");
    assert!(!batch.remove_id(SETS, b"k", 2).unwrap(), "no such id");
    assert!(batch.insert_id(SETS, b"k", 2).unwrap());
    assert!(batch.remove_id(SETS, b"k", 1).unwrap());
    assert!(batch.remove_id(SETS, b"k", 2).unwrap());
    assert_eq!(batch.ids(SETS, b"k").unwrap().estimate(), 0);
    assert_eq!(batch.row_count(SETS).unwrap(), 0, "a key without ids does not exist");
    for id in 0..2_000 {
        batch.insert_id(SETS, b"k", id).unwrap();
    }
    assert!(batch.delete(SETS, b"k").unwrap());
    assert!(!batch.delete(SETS, b"k").unwrap());
    assert_eq!(all_ids(&batch, b"k", 10), []);
    batch.commit().unwrap();
}
