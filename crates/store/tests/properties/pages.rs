//! Properties that hold for any bytes as pages of LMDB's trees.

#[path = "../../src/lmdb/page_reader/leaf.rs"]
mod leaf;
#[path = "../../src/lmdb/page_reader/leaf_traversal.rs"]
mod leaf_traversal;
#[path = "../../src/lmdb/page_reader/lookup.rs"]
mod lookup;
#[path = "../../src/lmdb/page_reader/page.rs"]
mod page;

use leaf::LeafRows;
use leaf_traversal::LeafTraversal;
use lookup::{Found, MapTree};
use page::{BRANCH, LEAF, Node, PAGE_LEN, child_with, row_count, row_with};

/// Maximum number of pages of an image; further pages are ignored.
const PAGES_MAX: usize = 8;

/// Maximum number of keys on the pages that are looked up.
const KEYS_MAX: usize = 16;

/// Maximum number of leaves in a traversal, and of pages in a value. A limit is needed because pages may refer to each
/// other in a cycle.
const STEPS_MAX: usize = 100;

/// Whatever the bytes are, the page reader does not panic, and everything that it returns lies in the image.
pub(crate) fn pages(bytes: &[u8]) {
    let mut image = bytes[..bytes.len().min(PAGES_MAX * PAGE_LEN)].to_vec();
    image.resize(image.len().next_multiple_of(PAGE_LEN), 0);
    check(&image);
    // A page with a wrong number would end every look-up, so each page gets its right number.
    for (number, page) in image.chunks_exact_mut(PAGE_LEN).enumerate() {
        page[..8].copy_from_slice(&(number as u64).to_ne_bytes());
    }
    check(&image);
}

fn check(image: &[u8]) {
    let keys = keys(image);
    for page in image.chunks_exact(PAGE_LEN) {
        keys.iter().for_each(|key| check_number(page, key));
    }
    for root in 0..=(image.len() / PAGE_LEN) as u64 {
        let tree = MapTree { pages: image, root };
        for key in &keys {
            if let Some(Found::Value(value)) = tree.find(key) {
                assert_within(image, value);
            }
            check_residency(tree, key);
            walk(tree, key);
        }
    }
}

/// Returns keys on the pages, their neighbours, and distant keys.
fn keys(image: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = vec![vec![], vec![0xff; 8], image.iter().copied().take(8).collect()];
    for page in image.chunks_exact(PAGE_LEN) {
        let nodes = (0..KEYS_MAX / 4).map_while(|place| Node::at(page, place));
        keys.extend(nodes.flat_map(|node| [node.key.to_vec(), [node.key, &[0]].concat()]));
    }
    keys.truncate(KEYS_MAX);
    keys
}

/// Checks that a key of eight bytes is found as a number if it is found as bytes.
fn check_number(page: &[u8], key: &[u8]) {
    let Ok(number) = key.try_into().map(u64::from_be_bytes) else { return };
    assert_eq!(child_with(page, number), child_with(page, key));
    let key_of = |row: Option<Option<Node<'_>>>| row.map(|row| row.map(|node| node.key.to_vec()));
    assert_eq!(key_of(row_with(page, number)), key_of(row_with(page, key)));
}

/// Checks that a look-up tests the residency of each page on the path, and of no page below an absent one.
fn check_residency(tree: MapTree<&[u8]>, key: &[u8]) {
    let root = tree.root..tree.root + 1;
    assert_eq!(tree.first_absent(key, |_| false), Some(root));
    let mut asked = 0;
    let absent = tree.first_absent(key, |_| {
        asked += 1;
        asked < STEPS_MAX
    });
    assert!(absent.is_none() || asked == STEPS_MAX);
}

fn walk(tree: MapTree<&[u8]>, key: &[u8]) {
    let Some(mut walk) = LeafTraversal::to_key(tree, key) else { return };
    for _ in 0..STEPS_MAX {
        let leaf = walk.leaf();
        assert_within(tree.pages, leaf);
        assert!(row_count(leaf, LEAF).is_some() && row_count(leaf, BRANCH).is_none());
        let mut rows = LeafRows::all(leaf, None);
        while let Some((key, value)) = rows.next() {
            assert_within(leaf, key);
            assert_within(leaf, value);
            assert_eq!(rows.last(), Some(key));
            LeafRows::after(leaf, key).next();
            walk.fetch_ahead();
        }
        if walk.advance() != Some(true) {
            return;
        }
    }
}

fn assert_within(image: &[u8], bytes: &[u8]) {
    let (all, part) = (image.as_ptr_range(), bytes.as_ptr_range());
    assert!(all.start <= part.start && part.end <= all.end);
}
