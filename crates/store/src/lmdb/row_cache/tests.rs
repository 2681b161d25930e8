//! A view that caches rows returns the same results as a view without a cache, whatever is committed between reads and
//! however small the table of cached rows is.

use fastrand::Rng;

use super::cached_rows::PATIENCE;
use crate::scratch::{ROWS, SETS, Scratch};
use crate::{Read, StoreError, View};

const KEY_COUNT: u32 = 400;

/// Returns a numeric key or a text, short or long. The same bytes serve as keys of rows, sets and counters, so that
/// only the map distinguishes them.
fn key(number: u32) -> Vec<u8> {
    if number.is_multiple_of(2) {
        // These numbers are far apart, and some of them compete for the same slots.
        return (u64::from(number) << (number % 6 * 5)).to_be_bytes().to_vec();
    }
    let mut key = number.to_be_bytes().to_vec();
    key.extend(std::iter::repeat_n(b'k', number as usize % 61));
    key
}

type Answers = (Option<Vec<u8>>, Vec<u64>, u64, i64);

fn look_up(read: &Read, key: &[u8]) -> Answers {
    let mut ids = Vec::new();
    let mut cursor = read.ids(SETS, key).unwrap();
    let count = cursor.estimate();
    cursor.next_block(&mut ids, usize::MAX).unwrap();
    (read.get(ROWS, key).unwrap().map(<[u8]>::to_vec), ids, count, read.count(key).unwrap())
}

/// Returns the number of these numeric keys that a view has cached.
fn cached_count(view: &View, mut keys: impl Iterator<Item = u64>) -> usize {
    let map = view.map(ROWS).index;
    keys.by_ref().filter(|key| view.txn.knows_row(map, *key)).count()
}

/// Sends the same queries to both views. Returns the number of rows that the second view has cached after them.
fn compare(plain: &View, remembering: &View, random: &mut Rng) -> usize {
    for _ in 0..PATIENCE {
        remembering.get(ROWS, b"patience").unwrap();
    }
    for _ in 0..2_000 {
        let key = key(random.u32(0..KEY_COUNT));
        assert_eq!(look_up(remembering, &key), look_up(plain, &key), "{key:?}");
    }
    let numbers = (0..KEY_COUNT).filter_map(|number| Some(u64::from_be_bytes(key(number).try_into().ok()?)));
    cached_count(remembering, numbers)
}

#[test]
fn cached_rows_are_the_rows_of_the_view() {
    for (seed, table_bytes) in [(1, 64), (2, 4 << 10), (3, 1 << 20)] {
        let mut random = Rng::with_seed(seed);
        let scratch = Scratch::new();
        let (store, mut writer) = scratch.open();
        let mut plain = store.view().unwrap();
        let mut remembering = store.view().unwrap();
        remembering.cache_rows(table_bytes);
        let mut cached_count = 0;
        for round in 0..8 {
            let mut batch = writer.begin().unwrap();
            for _ in 0..KEY_COUNT {
                let key = key(random.u32(0..KEY_COUNT));
                match random.u32(0..5) {
                    0 => _ = batch.delete(ROWS, &key).unwrap(),
                    1 => {
                        let len = if random.u32(0..8) == 0 { 9_000 } else { random.usize(0..300) };
                        batch.put(ROWS, &key, &vec![random.u8(..); len]).unwrap();
                    }
                    2 => _ = batch.insert_id(SETS, &key, random.u64(0..4)).unwrap(),
                    3 => _ = batch.remove_id(SETS, &key, random.u64(0..4)).unwrap(),
                    _ => _ = batch.bump(&key, random.i64(-1..=1)).unwrap(),
                }
            }
            batch.commit().unwrap();
            if round % 3 == 0 {
                store.checkpoint().unwrap();
            }
            // Until a view is renewed, it continues in its own state.
            cached_count += compare(&plain, &remembering, &mut random);
            plain.renew().unwrap();
            remembering.renew().unwrap();
            cached_count += compare(&plain, &remembering, &mut random);
            // A parked view cannot be read. If it is renewed in the same state, it may use its cached rows again.
            remembering.park();
            assert!(matches!(remembering.get(ROWS, &key(1)), Err(StoreError::Parked)));
            remembering.renew().unwrap();
            cached_count += compare(&plain, &remembering, &mut random);
        }
        assert!(cached_count > 0, "nothing is cached in {table_bytes} bytes");
    }
}

/// A server that has just started need not look up each row: the first look-up in a leaf caches all rows of the leaf.
#[test]
fn caches_the_rows_of_a_leaf_together() {
    const ROW_COUNT: u64 = 2_000;
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let set = |number: u64| format!("set of {number:05}").into_bytes();
    let mut batch = writer.begin().unwrap();
    for number in 0..ROW_COUNT {
        batch.put(ROWS, &number.to_be_bytes(), &[7; 40]).unwrap();
        batch.insert_id(SETS, &set(number), number).unwrap();
        if number % 10 == 0 {
            batch.insert_id(SETS, &set(number), number + ROW_COUNT).unwrap();
        }
    }
    batch.commit().unwrap();
    store.checkpoint().unwrap();
    let mut view = store.view().unwrap();
    view.cache_rows(1 << 20);
    for _ in 0..=PATIENCE {
        view.get(ROWS, b"patience").unwrap();
    }
    assert_eq!(cached_count(&view, 0..ROW_COUNT), 0);
    view.get(ROWS, &1_000_u64.to_be_bytes()).unwrap();
    let known = cached_count(&view, 0..ROW_COUNT);
    // A row takes 58 bytes, and a page has 4,096 bytes.
    assert!((30..=70).contains(&known), "{known} rows");
    let cached_sets = |view: &View| -> Vec<u64> {
        let map = view.map(SETS).index;
        (0..ROW_COUNT)
            .filter(|number| matches!(view.txn.cached_id(map, &set(*number)), Some(Ok(_))))
            .collect()
    };
    assert!(cached_sets(&view).is_empty());
    view.ids(SETS, &set(1_001)).unwrap();
    let known = cached_sets(&view);
    assert!((50..=200).contains(&known.len()), "{known:?}");
    assert!(known.iter().all(|number| number % 10 != 0), "keys of several ids: {known:?}");
    for number in 0..ROW_COUNT {
        let mut ids = Vec::new();
        view.ids(SETS, &set(number)).unwrap().next_block(&mut ids, usize::MAX).unwrap();
        let second = (number % 10 == 0).then_some(number + ROW_COUNT);
        assert_eq!(ids, [number].into_iter().chain(second).collect::<Vec<_>>());
    }
}

/// The store has many pages, and each checkpoint moves some of them and reuses freed pages for other rows. Cached rows
/// on the other pages must be right.
#[test]
fn cached_rows_that_checkpoints_have_not_moved_stay_valid() {
    const ROW_COUNT: u64 = 6_000;
    let mut random = Rng::with_seed(5);
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    writer.cache_rows(1 << 20);
    let mut remembering = store.view().unwrap();
    remembering.cache_rows(4 << 20);
    for round in 0..24 {
        let mut batch = writer.begin().unwrap();
        let change_count = if round == 0 { ROW_COUNT } else { random.u64(1..300) };
        for number in 0..change_count {
            let number = if round == 0 { number } else { random.u64(0..ROW_COUNT) };
            let (key, set) = (number.to_be_bytes(), format!("set of {number}"));
            match random.u32(0..if round == 0 { 4 } else { 6 }) {
                0..4 => {
                    let len = if random.u32(0..40) == 0 { 5_000 } else { random.usize(100..200) };
                    batch.put(ROWS, &key, &vec![random.u8(..); len]).unwrap();
                    batch.insert_id(SETS, set.as_bytes(), number + random.u64(0..2)).unwrap();
                }
                4 => _ = batch.delete(ROWS, &key).unwrap(),
                _ => _ = batch.delete(SETS, set.as_bytes()).unwrap(),
            }
        }
        batch.commit().unwrap();
        store.checkpoint().unwrap();
        remembering.renew().unwrap();
        let plain = store.view().unwrap();
        for _ in 0..PATIENCE * 2 {
            let number = random.u64(0..ROW_COUNT);
            let key = number.to_be_bytes();
            assert_eq!(remembering.get(ROWS, &key).unwrap(), plain.get(ROWS, &key).unwrap(), "{number}");
            let set = format!("set of {number}");
            let ids = |view: &View| {
                let mut ids = Vec::new();
                view.ids(SETS, set.as_bytes()).unwrap().next_block(&mut ids, usize::MAX).unwrap();
                ids
            };
            assert_eq!(ids(&remembering), ids(&plain), "{number}");
        }
        // Rows that no checkpoint has moved are still cached, long before `PATIENCE` look-ups have passed.
        let cached_count = cached_count(&remembering, 0..ROW_COUNT);
        assert!(cached_count as u64 > ROW_COUNT / 2, "{cached_count} rows are cached in round {round}");
        // The writer's batch returns the same rows as the views.
        let batch = writer.begin().unwrap();
        for number in (0..ROW_COUNT).step_by(7) {
            let key = number.to_be_bytes();
            assert_eq!(batch.get(ROWS, &key).unwrap(), plain.get(ROWS, &key).unwrap(), "{number}");
        }
    }
}
