use std::ops::Range;

use super::super::leaf_traversal::LeafTraversal;
use super::super::lookup::MapTree;
use super::super::page::{FLAGS, LIST, LIST_END, PAGE_LEN, child};
use crate::layout::DATA_FILE;
use crate::lmdb::{Cursor, Step, Txn, TxnKind};
use crate::scratch::{ROWS, SETS, Scratch};

const ROW_COUNT: u64 = 1_500;

/// Builds trees of three levels. Some leaves have few rows and others many, and some leaves were moved. Some rows have
/// pages of their own, and some keys have several values.
fn filled() -> Scratch {
    let scratch = Scratch::new();
    let (store, mut writer) = scratch.open();
    for (step, from) in [(1, 0), (7, 100), (5, 900)] {
        let mut batch = writer.begin().unwrap();
        for number in (from..ROW_COUNT).step_by(step) {
            let len = match number % 100 {
                17 | 18 => 9_000,
                40..60 => 0,
                _ => 900,
            };
            batch.put(ROWS, &number.to_be_bytes(), &vec![step as u8; len]).unwrap();
            let mut key = number.to_be_bytes().to_vec();
            key.extend([b'k'; 300]);
            for id in 0..if number % 50 == 3 { 20 } else { 1 } {
                batch.insert_id(SETS, &key, id).unwrap();
            }
        }
        batch.commit().unwrap();
        store.checkpoint().unwrap();
    }
    scratch
}

/// Returns the rows from a key on, and whether the cursor was using a leaf traversal at the end.
fn rows(mut cursor: Cursor<'_>, from: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut rows = Vec::new();
    let mut row = cursor.at_or_after(from).unwrap();
    while let Some((key, value)) = row {
        // Both readers return the lowest value of a set.
        rows.push([key, value].concat());
        row = cursor.step(Step::NextKey).unwrap();
    }
    assert!(cursor.step(Step::NextKey).unwrap().is_none(), "nothing follows the end");
    let last = cursor.step(Step::Last).unwrap().map(|(key, value)| [key, value].concat());
    assert_eq!(last.as_ref(), rows.last());
    (rows, cursor.has_walk())
}

#[test]
fn a_traversal_returns_the_rows_that_lmdb_returns() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    for map in [ROWS, SETS].map(|map| view.map(map).index) {
        for from in (0..ROW_COUNT).step_by(61) {
            let from = from.to_be_bytes();
            let plain = view.txn.cursor(map).unwrap().plain();
            let (expected, has_walk) = rows(plain, &from);
            assert!(!has_walk && !expected.is_empty());
            let (walked, has_walk) = rows(view.txn.cursor(map).unwrap(), &from);
            assert_eq!(walked.len(), expected.len());
            assert!(walked == expected);
            assert!(has_walk || expected.len() < 60, "{} rows without a walk", expected.len());
        }
    }
}

#[test]
fn a_traversal_can_change_direction_anywhere() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    let map = view.map(ROWS).index;
    let mut cursor = view.txn.cursor(map).unwrap();
    for from in (0..ROW_COUNT - 200).step_by(97) {
        let number =
            |row: Option<(&[u8], &[u8])>| row.map(|(key, _)| u64::from_be_bytes(key.try_into().unwrap()));
        assert_eq!(number(cursor.at_key(&from.to_be_bytes()).unwrap()), Some(from));
        for step in 1..150 {
            assert_eq!(number(cursor.step(Step::NextKey).unwrap()), Some(from + step));
        }
        for step in (100..149).rev() {
            assert_eq!(number(cursor.step(Step::PreviousKey).unwrap()), Some(from + step));
        }
        for step in 101..200 {
            assert_eq!(number(cursor.step(Step::NextKey).unwrap()), Some(from + step));
        }
    }
}

/// Returns the leaves of a map in an image of the data file, by page number. If the traversal reaches the last leaf,
/// `None` follows.
fn leaves(image: &[u8], root: u64, key: &[u8]) -> Vec<Option<usize>> {
    let tree = MapTree { pages: image, root };
    let Some(mut traversal) = LeafTraversal::to_key(tree, key) else { return vec![None] };
    let mut leaves = Vec::new();
    loop {
        let at = traversal.leaf().as_ptr().addr() - image.as_ptr().addr();
        leaves.push(Some(at));
        assert!(at.is_multiple_of(PAGE_LEN) && at < image.len());
        (0..200).for_each(|_| traversal.fetch_ahead());
        let foreseen = traversal.leaf_after(1).map(|page| page.as_ptr().addr() - image.as_ptr().addr());
        match traversal.advance() {
            Some(true) => {
                assert!(
                    foreseen.is_none_or(|at| at == traversal.leaf().as_ptr().addr() - image.as_ptr().addr())
                )
            }
            Some(false) => return leaves,
            None => {
                leaves.push(None);
                return leaves;
            }
        }
    }
}

#[test]
fn an_unsupported_page_ends_a_traversal() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let (env, map) = (store.shared().env.clone(), store.view().unwrap().map(ROWS).index);
    let txn = Txn::begin(&env, TxnKind::Read).unwrap();
    let root = txn.tree(map).unwrap().unwrap().root;
    let image = std::fs::read(scratch.path().join(DATA_FILE)).unwrap();
    let good = leaves(&image, root, &[]);
    assert!(good.len() > 300 && good.iter().all(Option::is_some), "{}", good.len());
    assert_eq!(leaves(&image, root, &u64::MAX.to_be_bytes()), good[good.len() - 1..]);
    let page_of = |page: u64| page as usize * PAGE_LEN..(page as usize + 1) * PAGE_LEN;
    let below = child(&image[page_of(root)], 1).unwrap();
    let changed = |page: u64, at: Range<usize>, byte: u8| {
        let mut image = image.clone();
        image[page_of(page)][at].fill(byte);
        leaves(&image, root, &[])
    };
    // Cases: a wrong page number; a page that is neither branch nor leaf; a list of offsets that ends beyond the page;
    // row offsets and page numbers that are too high.
    for (at, byte) in
        [(0..8, 0), (FLAGS..FLAGS + 2, 0x22), (LIST_END..LIST_END + 2, 0xff), (LIST..PAGE_LEN, 0xff)]
    {
        assert_eq!(changed(root, at.clone(), byte), [None]);
        let led_astray = changed(below, at, byte);
        let (last, before) = led_astray.split_last().unwrap();
        assert_eq!(last, &None);
        assert!(!before.is_empty() && good.starts_with(before));
    }
    assert_eq!(leaves(&image[..root as usize * PAGE_LEN], root, &[]), [None]);
}
