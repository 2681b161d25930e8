use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::layout::DATA_FILE;
use crate::scratch::{ROWS, SETS, Scratch};
use crate::{Direction, StoreError, View};

const KEYS: u32 = 3_000;

/// Maximum number of look-ups of a value while its pages are brought in. It exceeds the number of the value's pages.
const ROUNDS: usize = 200;

/// Returns a long or a short key. The keys do not sort in the order of their numbers.
fn key(number: u32) -> Vec<u8> {
    let mut key = number.reverse_bits().to_be_bytes().to_vec();
    key.extend(std::iter::repeat_n(b'k', number as usize % 61));
    key
}

fn value(number: u32) -> Vec<u8> {
    let length = match number % 500 {
        1 => 100_000,
        2 => 9_000,
        _ => number % 300,
    };
    vec![number as u8; length as usize]
}

/// Returns the number of ids of a key: few enough to fit in the leaf or in one separate page, or enough to fill many
/// pages.
fn id_count(number: u32) -> u64 {
    match number % 500 {
        3 => 5_000,
        4 => 300,
        _ => u64::from(number % 3),
    }
}

fn filled() -> Scratch {
    let scratch = Scratch::new();
    let (_store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    for number in 0..KEYS {
        batch.put(ROWS, &key(number), &value(number)).unwrap();
        for id in 0..id_count(number) {
            batch.insert_id(SETS, &key(number), id).unwrap();
        }
    }
    batch.commit().unwrap();
    scratch
}

/// Returns the pages that hold the values of a key, in either kind of map. For a set of many pages, returns the first
/// pages.
fn pages_of(view: &View, map: usize, key: &[u8]) -> Option<Range<u64>> {
    let mut cursor = view.txn.cursor(map).unwrap();
    let (_, mut value) = cursor.at_key(key).unwrap()?;
    if map == view.map(SETS).index && cursor.value_count().unwrap() > 1 {
        value = cursor.block().unwrap();
    }
    let first = view.txn.tree(map).unwrap()?.pages.offset_of(value)?;
    let last = first + value.len().checked_sub(1)? as u64;
    Some(first / PAGE_LEN as u64..last / PAGE_LEN as u64 + 1)
}

#[test]
fn finds_the_same_path_to_a_value_as_lmdb() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    for number in 0..KEYS + 100 {
        for map in [ROWS, SETS].map(|map| view.map(map).index) {
            let (tree, key) = (view.txn.tree(map).unwrap().unwrap(), key(number));
            let mut path = Vec::new();
            let mut go = |missing: Option<u64>| {
                path.clear();
                let has = |page| {
                    path.push(page);
                    Some(page) != missing
                };
                let absent = tree.first_absent(&key, has);
                (absent, path.clone())
            };
            let (absent, path) = go(None);
            assert_eq!(absent, None);
            assert!(path.len() >= 2, "{path:?}: the tree is too low");
            if let Some(mut pages) = pages_of(&view, map, &key) {
                assert!(pages.all(|page| path.contains(&page)), "{number}: {path:?}");
            }
            for page in path {
                assert_eq!(go(Some(page)).0.map(|absent| absent.start), Some(page), "{number}");
            }
        }
    }
}

#[test]
fn reports_absent_pages_and_reads_them_in() {
    let scratch = filled();
    let data_file = std::fs::File::open(scratch.path().join(DATA_FILE)).unwrap();
    data_file.sync_all().unwrap();
    rustix::fs::fadvise(&data_file, 0, None, Advice::DontNeed).unwrap();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    let mut page_count = 0;
    for number in (0..KEYS).step_by(7).chain([1, 2, 3, 4]) {
        let key = key(number);
        let read = || {
            let row = view.get(ROWS, &key)?.map(<[u8]>::to_vec);
            let (mut ids, mut cursor) = (Vec::new(), view.ids(SETS, &key)?);
            cursor.next_block(&mut ids, usize::MAX)?;
            Ok::<_, StoreError>((row, ids))
        };
        let expected = Ok((Some(value(number)), (0..id_count(number)).collect()));
        for round in 0.. {
            assert!(round < ROUNDS, "{number}");
            let (found, absent) = view.without_waiting(read);
            if absent.is_nothing() {
                assert_eq!(found, expected, "{number}");
                break;
            }
            assert_eq!(found, Err(StoreError::NotInMemory));
            if absent.is_walk {
                assert!(value(number).len() > 9_000 || id_count(number) > 300, "{number}");
                break;
            }
            page_count += absent.pages.len();
            view.bring_in(&absent.pages).unwrap();
        }
        assert_eq!(read(), expected, "{number}");
    }
    assert!(page_count > 100, "{page_count} pages were missing");
}

#[test]
fn refuses_traversals_only_during_reads_without_waiting() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let first_row = || view.scan(ROWS, all, Direction::Forward).next().unwrap().map(drop);
    let first_key = || view.scan_keys(SETS, all, Direction::Forward).next().unwrap().map(drop);
    for walk in [&first_row as &dyn Fn() -> crate::Result<()>, &first_key] {
        let walked = AbsentPages { pages: Vec::new(), is_walk: true };
        assert_eq!(view.without_waiting(walk), (Err(StoreError::NotInMemory), walked));
        assert_eq!(walk(), Ok(()));
    }
    let look = || view.without_waiting(|| -> () { panic!("a reader panics") });
    assert!(catch_unwind(AssertUnwindSafe(look)).is_err());
    assert_eq!(first_row(), Ok(()));
    // A parked view returns an error.
    let mut parked = store.view().unwrap();
    parked.park();
    let (found, absent) = parked.without_waiting(|| parked.get(ROWS, &key(1)).map(drop));
    assert_eq!((found, absent), (Err(StoreError::Parked), AbsentPages::default()));
}
