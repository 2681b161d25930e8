//! Tests with pages of a real data file in which some bytes are changed: no look-up and no traversal panics.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::super::leaf::LeafRows;
use super::super::leaf_traversal::LeafTraversal;
use super::super::lookup::{Found, MapTree};
use super::super::page::{FLAGS, LIST, LIST_END, PAGE_LEN};
use crate::layout::DATA_FILE;
use crate::scratch::{ROWS, SETS, Scratch};

const ROW_COUNT: u64 = 2_000;
const ROUND_COUNT: u64 = 3_000;

/// Maximum number of leaves that a traversal reads: damaged pages may refer to each other in a cycle.
const LEAVES_MAX: usize = 200;

fn filled() -> Scratch {
    let scratch = Scratch::new();
    let (_store, mut writer) = scratch.open();
    let mut batch = writer.begin().unwrap();
    for number in 0..ROW_COUNT {
        let len = if number % 100 == 17 { 9_000 } else { 100 };
        batch.put(ROWS, &number.to_be_bytes(), &vec![number as u8; len]).unwrap();
        let key = [&number.to_be_bytes()[..], &[b'k'; 60]].concat();
        for id in 0..if number % 50 == 3 { 600 } else { 1 } {
            batch.insert_id(SETS, &key, id).unwrap();
        }
    }
    batch.commit().unwrap();
    scratch
}

/// Result of a look-up.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    LeftToLmdb,
    Nothing,
    Value,
    Set,
}

/// Looks up a key with each function of the page reader, and traverses some leaves from there.
fn look_up(tree: MapTree<&[u8]>, key: &[u8]) -> Answer {
    let mut pages_read = 0;
    tree.first_absent(key, |_| {
        pages_read += 1;
        pages_read < LEAVES_MAX
    });
    if let Some(mut traversal) = LeafTraversal::to_key(tree, key) {
        for _ in 0..LEAVES_MAX {
            let mut rows = LeafRows::all(traversal.leaf(), None);
            while rows.next().is_some() {
                traversal.fetch_ahead();
            }
            if traversal.advance() != Some(true) {
                break;
            }
        }
    }
    match tree.find(key) {
        None => Answer::LeftToLmdb,
        Some(Found::Nothing) => Answer::Nothing,
        Some(Found::Value(_)) => Answer::Value,
        Some(Found::Set) => Answer::Set,
    }
}

#[test]
fn look_ups_in_damaged_pages_answer_or_defer_to_lmdb() {
    let scratch = filled();
    let (store, _writer) = scratch.open();
    let view = store.view().unwrap();
    let roots = [ROWS, SETS].map(|map| view.txn.tree(view.map(map).index).unwrap().unwrap().root);
    let mut image = std::fs::read(scratch.path().join(DATA_FILE)).unwrap();
    let mut random = Rng::with_seed(11);
    let mut answers = BTreeSet::new();
    for _ in 0..ROUND_COUNT {
        let root = roots[random.usize(0..2)];
        let (number, is_set) = (random.u64(0..ROW_COUNT + 9), root == roots[1]);
        let key = [&number.to_be_bytes()[..], &[b'k'; 60][..if is_set { 60 } else { 0 }]].concat();
        // Damages one of the pages that this look-up reads, usually in its header.
        let mut path = Vec::new();
        MapTree { pages: &image[..], root }.first_absent(&key, |page| {
            path.push(page);
            true
        });
        let damaged = path[random.usize(0..path.len())] as usize * PAGE_LEN;
        let before = image[damaged..damaged + PAGE_LEN].to_vec();
        for _ in 0..random.usize(1..4) {
            let at = match random.u8(0..4) {
                0 => [0, FLAGS, LIST_END, LIST, LIST + 2][random.usize(0..5)],
                1 => random.usize(LIST..400),
                _ => random.usize(0..PAGE_LEN),
            };
            image[damaged + at] = random.u8(..);
        }
        answers.insert(look_up(MapTree { pages: &image, root }, &key));
        image[damaged..damaged + PAGE_LEN].copy_from_slice(&before);
    }
    assert_eq!(answers.len(), 4, "{answers:?}");
}
