//! [`MapTree`]: look-ups in the tree of a map.
//!
//! For each look-up LMDB creates a cursor, plus another cursor for a set under the key, and compares keys by function
//! calls. Here a look-up only descends the pages.

use std::ops::Range;

use super::page::{
    BRANCH, DEPTH_MAX, FAR, Key, Node, Pages, TREE, TREE_ROOT, child, child_with, far_value, far_value_pages,
    row_count, row_with, word,
};

/// The tree of a map.
#[derive(Clone, Copy)]
pub(crate) struct MapTree<P> {
    pub(crate) pages: P,
    /// Number of the root page.
    pub(crate) root: u64,
}

/// Result of a look-up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'t> {
    Nothing,
    /// The value, or the only value of a set.
    Value(&'t [u8]),
    /// A set of several values.
    Set,
}

impl<'t, P: Pages<'t>> MapTree<P> {
    /// Looks up a key; returns `None` if a page on the path has an unsupported layout.
    #[inline]
    pub(crate) fn find(self, key: &[u8]) -> Option<Found<'t>> {
        match key.try_into() {
            Ok(number) => self.find_key(u64::from_be_bytes(number)),
            Err(_) => self.find_key(key),
        }
    }

    fn find_key(self, key: impl Key) -> Option<Found<'t>> {
        let mut number = self.root;
        for _ in 0..DEPTH_MAX {
            let page = self.pages.page(number).filter(|page| word(page, 0) == Some(number))?;
            if row_count(page, BRANCH).is_some() {
                number = child(page, child_with(page, key)?)?;
                continue;
            }
            let Some(Node { words: [low, high, flags], rest, .. }) = row_with(page, key)? else {
                return Some(Found::Nothing);
            };
            let len = low | high << 16;
            return match flags {
                0 => rest.get(..len).map(Found::Value),
                FAR => far_value(self.pages, word(rest, 0)?, len).map(Found::Value),
                _ => Some(Found::Set),
            };
        }
        None
    }

    /// Checks the pages that a look-up of `key` reads. Returns the first page for which `has` returns false. If this
    /// page belongs to a value with pages of its own, also returns the later pages of the value. The pages are the path
    /// to the row, and then either the value's own pages or the path to the lowest value of a set. Does not check pages
    /// below an absent page.
    pub(crate) fn first_absent(self, key: &[u8], mut has: impl FnMut(u64) -> bool) -> Option<Range<u64>> {
        let (mut number, mut key) = (self.root, key);
        for _ in 0..DEPTH_MAX {
            if !has(number) {
                return Some(number..number + 1);
            }
            let page = self.pages.page(number)?;
            if row_count(page, BRANCH).is_some() {
                number = child(page, child_with(page, key)?)?;
                continue;
            }
            let Node { words: [low, high, flags], rest, .. } = row_with(page, key)??;
            if flags & FAR != 0 {
                let mut pages = far_value_pages(word(rest, 0)?, low | high << 16)?;
                let end = pages.end;
                return pages.find(|page| !has(*page)).map(|first| first..end);
            }
            if flags & TREE == 0 {
                return None;
            }
            (number, key) = (word(rest, TREE_ROOT)?, &[]);
        }
        None
    }
}
