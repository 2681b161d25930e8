use super::super::lookup::{Found, MapTree};
use super::super::page::{FLAGS, LIST, LIST_END, PAGE_LEN};
use crate::layout::{DATA_FILE, KEY_LEN_MAX};
use crate::lmdb::{Txn, TxnKind};
use crate::scratch::{ROWS, SETS, Scratch};

const NUMBERS: u64 = 3_000;

/// Returns a key of eight bytes or of another length; some keys have a common prefix.
fn key(number: u64) -> Vec<u8> {
    let mut key = (number / 2 * 3).to_be_bytes().to_vec();
    if number % 2 == 1 {
        key.extend(std::iter::repeat_n(number as u8, number as usize % 200));
    }
    if number % 50 == 49 {
        key.truncate(1 + number as usize % 7);
    }
    key
}

fn value(number: u64) -> Vec<u8> {
    let len = match number % 40 {
        7 => 2_500,
        8 => 60_000,
        _ => number as usize % 300,
    };
    vec![number as u8; len]
}

fn filled() -> Scratch {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    for number in 0..NUMBERS {
        batch.put(ROWS, &key(number), &value(number)).unwrap();
        for id in 0..number % 4 {
            batch.insert_id(SETS, &key(number), id * number).unwrap();
        }
    }
    batch.commit().unwrap();
    store.checkpoint().unwrap();
    scratch
}

/// Returns keys that exist, their neighbours, and distant keys.
fn sample_keys() -> impl Iterator<Item = Vec<u8>> {
    let beside = |number: u64| [1, 5].map(|more| (number / 2 * 3 + more).to_be_bytes().to_vec());
    let longer = |number| [key(number), vec![0]].concat();
    let all =
        (0..NUMBERS).flat_map(move |number| [key(number), longer(number)].into_iter().chain(beside(number)));
    all.chain([vec![0], vec![0xff; KEY_LEN_MAX], u64::MAX.to_be_bytes().to_vec()])
}

#[test]
fn a_look_up_finds_the_same_rows_as_lmdb() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    let [rows, sets] = [ROWS, SETS].map(|map| view.map(map).index);
    let mut found = [0; 4];
    for key in sample_keys() {
        for map in [rows, sets] {
            let mut cursor = view.txn.cursor(map).unwrap();
            let (place, expected) = match cursor.at_key(&key).unwrap() {
                None => (0, Found::Nothing),
                Some(_) if map == sets && cursor.value_count().unwrap() > 1 => (1, Found::Set),
                Some((_, value)) => (2 + usize::from(value.len() > 2_100), Found::Value(value)),
            };
            found[place] += 1;
            assert_eq!(view.txn.find(map, &key).unwrap(), Some(expected), "{key:?}");
        }
    }
    assert!(found.iter().all(|count| *count > 50), "{found:?}");
    for odd in [&[][..], &[1; KEY_LEN_MAX + 1]] {
        assert_eq!(view.txn.find(rows, odd).unwrap(), None);
    }
}

#[test]
fn a_look_up_reads_the_state_of_its_transaction() {
    let scratch = filled();
    let (store, mut writer) = scratch.open();
    let mut txn = Txn::begin(&store.shared().env, TxnKind::Read).unwrap();
    let rows = store.view().unwrap().map(ROWS).index;
    for round in 0..20u64 {
        let mut batch = writer.begin().unwrap();
        for number in 0..NUMBERS {
            batch.put(ROWS, &key(number), &round.to_be_bytes()).unwrap();
        }
        batch.commit().unwrap();
        store.checkpoint().unwrap();
        let check = |txn: &Txn, expected: &[u8]| {
            for number in (0..NUMBERS).step_by(7) {
                let found = txn.find(rows, &key(number)).unwrap().unwrap();
                assert!(
                    matches!(found, Found::Value(value) if value == expected),
                    "{number} in round {round}"
                );
            }
        };
        if let Some(before) = round.checked_sub(1) {
            check(&txn, &before.to_be_bytes());
        }
        txn.reset();
        assert!(txn.find(rows, &key(0)).is_err(), "it reads nothing");
        txn.renew().unwrap();
        check(&txn, &round.to_be_bytes());
    }
}

#[test]
fn leaves_unsupported_layouts_to_lmdb() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let rows = store.view().unwrap().map(ROWS).index;
    let txn = Txn::begin(&store.shared().env, TxnKind::Read).unwrap();
    let MapTree { pages, root } = txn.tree(rows).unwrap().unwrap();
    let good = std::fs::read(scratch.path().join(DATA_FILE)).unwrap();
    assert!(pages.len() <= good.len());
    let find = |image: &[u8], key: &[u8]| {
        MapTree { pages: image, root }.find(key).map(|found| match found {
            Found::Value(value) => Some(value.to_vec()),
            _ => None,
        })
    };
    for number in 0..NUMBERS {
        assert_eq!(find(&good, &key(number)), Some(Some(value_of(number))), "{number}");
    }
    let with = |at: usize, bytes: &[u8]| {
        let mut image = good.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    let root_at = root as usize * PAGE_LEN;
    // Cases: a wrong page number; a page that is neither branch nor leaf; a list of offsets that ends beyond the page;
    // row offsets beyond the page; a truncated page.
    for (at, bytes) in
        [(0, [1, 0]), (FLAGS, [0x22, 0]), (LIST_END, [0xff, 0xff]), (LIST, [0xff; 2]), (LIST + 2, [0xff; 2])]
    {
        assert!(find(&with(root_at + at, &bytes), &[0]).is_none(), "{bytes:?} at {at}");
    }
    assert!(find(&good[..root_at], &[0]).is_none());
    // A branch that is its own child.
    let first = usize::from(u16::from_ne_bytes([good[root_at + LIST], good[root_at + LIST + 1]]));
    assert!(find(&with(root_at + first, &root.to_ne_bytes()[..6]), &[0]).is_none());
}

/// Returns the last value stored under the key of a number: some numbers share a key.
fn value_of(number: u64) -> Vec<u8> {
    let last = (number..NUMBERS).rfind(|other| key(*other) == key(number));
    value(last.unwrap_or(number))
}
