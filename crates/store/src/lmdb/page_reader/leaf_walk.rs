//! [`LeafWalk`]: the leaves of a map in their order, by the branches above them.
//!
//! LMDB's cursor goes from leaf to leaf with a call and a look at the page that it comes to. The branch above says
//! where all of them lie, so the processor can fetch the next ones while this one is read: a tree that was changed has
//! its leaves anywhere in the file.

use system::CACHE_LINE_LEN;

use super::lookup::MapTree;
use super::page::{
    BRANCH, DEPTH_MAX, LEAF, LIST, PAGE_LEN, Pages, child, child_with, number, row_count, word,
};

/// Cache lines of a row that are fetched ahead, its key and head among them: what a scan reads of an entry row to know where
/// the attribute lies that it is about. Of smaller rows there are so many on a page that fewer will do.
const ROW_LINES: usize = 4;

/// Leaves between the one that is read and the one whose rows are fetched: a scan takes rows a block at a time, as many
/// as are on a few leaves.
const LEAVES_AHEAD: usize = 3;

/// Leaves whose heads are fetched together, as many before they are needed.
const HEADS_AHEAD: usize = 8;

/// Rows fetched at once at the end of the leaf that is read.
const REST_MAX: usize = 8;

/// A leaf, and the branches above it.
pub(crate) struct LeafWalk<'t, P> {
    pages: P,
    /// The branches from the root down, each with the index of the child that is gone down to.
    branches: Vec<(&'t [u8], usize)>,
    leaf: &'t [u8],
    /// The children of the lowest branch whose heads were fetched are below this one.
    heads_fetched: usize,
    ahead: RowsAhead<'t>,
}

impl<'t, P: Pages<'t>> LeafWalk<'t, P> {
    /// Goes to the leaf that has a key, or would; `None` if a page on the way is not as expected.
    pub(crate) fn to_key(tree: MapTree<P>, key: &[u8]) -> Option<LeafWalk<'t, P>> {
        let MapTree { pages, root } = tree;
        let branches = Vec::with_capacity(4);
        let mut walk = LeafWalk { pages, branches, leaf: &[], heads_fetched: 0, ahead: RowsAhead::NONE };
        walk.descend(root, |branch| child_with(branch, key))?;
        Some(walk)
    }

    /// The leaf.
    #[inline]
    pub(crate) fn leaf(&self) -> &'t [u8] {
        self.leaf
    }

    /// Goes to the next leaf: `Some(false)` if this is the last one, `None` if a page is not as expected, which ends the
    /// walk.
    pub(crate) fn advance(&mut self) -> Option<bool> {
        // The leaf that was read may have had fewer rows.
        (0..REST_MAX).for_each(|_| self.ahead.fetch_row());
        self.ahead = RowsAhead::NONE;
        while let Some((branch, place)) = self.branches.last_mut() {
            if *place + 1 < row_count(branch, BRANCH)? {
                *place += 1;
                let below = child(branch, *place)?;
                self.descend(below, |_| Some(0))?;
                self.fetch_heads();
                self.ahead = RowsAhead::of(self.leaf_behind(LEAVES_AHEAD).unwrap_or_default());
                return Some(true);
            }
            self.branches.pop();
        }
        Some(false)
    }

    /// Has the processor fetch a row of a leaf that comes soon. To be called for each row that is passed.
    #[inline]
    pub(crate) fn fetch_ahead(&mut self) {
        self.ahead.fetch_row();
    }

    /// The leaf that is so many behind this one, if it hangs from the same branch. It is not looked at.
    fn leaf_behind(&self, count: usize) -> Option<&'t [u8]> {
        let (branch, place) = self.branches.last()?;
        let page = child(branch, place + count)
            .filter(|_| place + count < row_count(branch, BRANCH).unwrap_or(0))?;
        self.pages.page(page)
    }

    /// Has the processor fetch the heads of the leaves that come next, and where they lie in memory: that takes it
    /// longest, and it finds out about several at a time.
    fn fetch_heads(&mut self) {
        let Some(&(branch, place)) = self.branches.last() else { return };
        if self.heads_fetched > place + HEADS_AHEAD {
            return;
        }
        let end = (place + 2 * HEADS_AHEAD).min(row_count(branch, BRANCH).unwrap_or(0));
        for place in self.heads_fetched.max(place + 1)..end {
            if let Some(page) = child(branch, place).and_then(|number| self.pages.page(number)) {
                system::prefetch(&page[..1]);
            }
        }
        self.heads_fetched = place + 2 * HEADS_AHEAD;
    }

    /// Goes down from a page to a leaf, by the children that `choose` says.
    fn descend(&mut self, from: u64, choose: impl Fn(&'t [u8]) -> Option<usize>) -> Option<()> {
        let mut at = from;
        while self.branches.len() < DEPTH_MAX {
            let page = self.pages.page(at).filter(|page| word(page, 0) == Some(at))?;
            if row_count(page, LEAF).is_some() {
                self.leaf = page;
                return Some(());
            }
            let place = choose(page)?;
            at = child(page, place)?;
            self.branches.push((page, place));
            self.heads_fetched = 0;
        }
        None
    }
}

/// The rows of a leaf that comes soon, which the processor fetches meanwhile.
struct RowsAhead<'t> {
    page: &'t [u8],
    next: usize,
    count: usize,
    /// What is fetched of each.
    lines: usize,
}

impl<'t> RowsAhead<'t> {
    const NONE: RowsAhead<'t> = RowsAhead { page: &[], next: 0, count: 0, lines: 0 };

    fn of(page: &'t [u8]) -> RowsAhead<'t> {
        let count = row_count(page, LEAF).unwrap_or(0);
        let lines = ROW_LINES.min(1 + PAGE_LEN / CACHE_LINE_LEN / count.max(1));
        RowsAhead { page, next: 0, count, lines }
    }

    /// Has the processor fetch one row more, if there is one.
    #[inline]
    fn fetch_row(&mut self) {
        if self.next < self.count {
            let at = number(self.page, LIST + 2 * self.next).unwrap_or(0);
            self.next += 1;
            let end = (at + self.lines * CACHE_LINE_LEN).min(self.page.len());
            system::prefetch(self.page.get(at..end).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::super::{Cursor, Step, Txn, TxnKind};
    use super::super::page::{FLAGS, LIST_END};
    use super::*;
    use crate::layout::DATA_FILE;
    use crate::scratch::{ROWS, SETS, Scratch};

    const ROW_COUNT: u64 = 1_500;

    /// Three levels; leaves of a few rows and of many, and such that were moved; rows on pages of their own and sets of
    /// several.
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
            store.fold().unwrap();
        }
        scratch
    }

    /// The rows from a key on, and whether a walk was under way at the end.
    fn rows(mut cursor: Cursor<'_>, from: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut rows = Vec::new();
        let mut row = cursor.at_or_after(from).unwrap();
        while let Some((key, value)) = row {
            // That of a set is its lowest value for both.
            rows.push([key, value].concat());
            row = cursor.step(Step::NextKey).unwrap();
        }
        assert!(cursor.step(Step::NextKey).unwrap().is_none(), "the end stays the end");
        let last = cursor.step(Step::Last).unwrap().map(|(key, value)| [key, value].concat());
        assert_eq!(last.as_ref(), rows.last());
        (rows, cursor.has_walk())
    }

    #[test]
    fn a_walk_comes_by_the_rows_that_the_engine_comes_by() {
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
    fn a_walk_turns_anywhere() {
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

    /// The leaves of a map in an image of the data file, as places; `None` behind the last one that could be reached.
    fn leaves(image: &[u8], root: u64, key: &[u8]) -> Vec<Option<usize>> {
        let tree = MapTree { pages: image, root };
        let Some(mut walk) = LeafWalk::to_key(tree, key) else { return vec![None] };
        let mut leaves = Vec::new();
        loop {
            let at = walk.leaf().as_ptr().addr() - image.as_ptr().addr();
            leaves.push(Some(at));
            assert!(at.is_multiple_of(PAGE_LEN) && at < image.len());
            (0..200).for_each(|_| walk.fetch_ahead());
            let foreseen = walk.leaf_behind(1).map(|page| page.as_ptr().addr() - image.as_ptr().addr());
            match walk.advance() {
                Some(true) => assert!(
                    foreseen.is_none_or(|at| at == walk.leaf().as_ptr().addr() - image.as_ptr().addr())
                ),
                Some(false) => return leaves,
                None => {
                    leaves.push(None);
                    return leaves;
                }
            }
        }
    }

    #[test]
    fn an_unexpected_page_ends_a_walk() {
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
        // Not its own number; neither branch nor leaf; a list that goes beyond the page; places and numbers of pages
        // beyond the end.
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
}
