//! [`LeafTraversal`]: traversal of a map's leaves in key order. The order is read from the branches above the leaves.
//!
//! LMDB's cursor takes one call per leaf and waits for each leaf's memory, because the leaves of a tree that was
//! changed are scattered over the file. But the branch above a leaf contains the page numbers of all leaves below it.
//! So the processor can prefetch the next leaves while the current leaf is read.

use system::CACHE_LINE_LEN;

use super::lookup::MapTree;
use super::page::{
    BRANCH, DEPTH_MAX, LEAF, LIST, PAGE_LEN, Pages, child, child_with, number, row_count, word,
};

/// Number of cache lines to prefetch for each row, including the row's key and head. A scan reads these lines of an
/// entry's row to find the attribute that it tests. Pages with smaller rows have more rows, and fewer lines per row
/// suffice.
const ROW_LINES: usize = 4;

/// Distance from the current leaf to the leaf whose rows are prefetched. A scan reads rows in blocks, and a block spans
/// a few leaves.
const LEAVES_AHEAD: usize = 3;

/// Number of leaves in a group whose heads are prefetched together. The next group is prefetched when at most this many
/// prefetched leaves have not been read yet.
const HEADS_AHEAD: usize = 8;

/// Maximum number of rows prefetched at the end of the current leaf.
const REST_MAX: usize = 8;

/// Current leaf of a traversal, and the branches above it.
pub(crate) struct LeafTraversal<'t, P> {
    pages: P,
    /// Branches from the root down, each with the index of the current child.
    branches: Vec<(&'t [u8], usize)>,
    leaf: &'t [u8],
    /// Index, in the lowest branch, of the first child whose head is not prefetched yet.
    heads_fetched: usize,
    ahead: RowsAhead<'t>,
}

impl<'t, P: Pages<'t>> LeafTraversal<'t, P> {
    /// Creates a traversal at the leaf that would contain a key. Returns `None` if a page on the path has an
    /// unsupported layout.
    pub(crate) fn to_key(tree: MapTree<P>, key: &[u8]) -> Option<LeafTraversal<'t, P>> {
        let MapTree { pages, root } = tree;
        let branches = Vec::with_capacity(4);
        let mut traversal =
            LeafTraversal { pages, branches, leaf: &[], heads_fetched: 0, ahead: RowsAhead::NONE };
        traversal.descend(root, |branch| child_with(branch, key))?;
        Some(traversal)
    }

    /// Returns the current leaf.
    #[inline]
    pub(crate) fn leaf(&self) -> &'t [u8] {
        self.leaf
    }

    /// Moves to the next leaf. Returns `Some(false)` if the current leaf is the last. Returns `None`, which ends the
    /// traversal, if a page has an unsupported layout.
    pub(crate) fn advance(&mut self) -> Option<bool> {
        // Prefetch the remaining rows. Rows remain if the current leaf had fewer rows than the leaf that is being
        // prefetched.
        (0..REST_MAX).for_each(|_| self.ahead.fetch_row());
        self.ahead = RowsAhead::NONE;
        while let Some((branch, place)) = self.branches.last_mut() {
            if *place + 1 < row_count(branch, BRANCH)? {
                *place += 1;
                let below = child(branch, *place)?;
                self.descend(below, |_| Some(0))?;
                self.fetch_heads();
                self.ahead = RowsAhead::of(self.leaf_after(LEAVES_AHEAD).unwrap_or_default());
                return Some(true);
            }
            self.branches.pop();
        }
        Some(false)
    }

    /// Prefetches a row of a later leaf. Call it for each row that is read.
    #[inline]
    pub(crate) fn fetch_ahead(&mut self) {
        self.ahead.fetch_row();
    }

    /// Returns the leaf `count` places after the current leaf, if it is below the same branch. Does not read the leaf.
    pub(crate) fn leaf_after(&self, count: usize) -> Option<&'t [u8]> {
        let (branch, place) = self.branches.last()?;
        let page = child(branch, place + count)
            .filter(|_| place + count < row_count(branch, BRANCH).unwrap_or(0))?;
        self.pages.page(page)
    }

    /// Prefetches the heads of the next leaves. Most of the time is spent on address translations, which the processor
    /// does in parallel.
    fn fetch_heads(&mut self) {
        let Some(&(branch, place)) = self.branches.last() else { return };
        if self.heads_fetched > place + HEADS_AHEAD {
            return;
        }
        let end = (place + 2 * HEADS_AHEAD).min(row_count(branch, BRANCH).unwrap_or(0));
        for place in self.heads_fetched.max(place + 1)..end {
            if let Some(page) = child(branch, place).and_then(|number| self.pages.page(number)) {
                system::prefetch(page.get(..1).unwrap_or_default());
            }
        }
        self.heads_fetched = place + 2 * HEADS_AHEAD;
    }

    /// Descends from a page to a leaf; `choose` returns the index of the child to follow on each branch.
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

/// Rows of a later leaf that are being prefetched.
struct RowsAhead<'t> {
    page: &'t [u8],
    next: usize,
    count: usize,
    /// Number of cache lines to prefetch of each row.
    lines: usize,
}

impl<'t> RowsAhead<'t> {
    const NONE: RowsAhead<'t> = RowsAhead { page: &[], next: 0, count: 0, lines: 0 };

    fn of(page: &'t [u8]) -> RowsAhead<'t> {
        let count = row_count(page, LEAF).unwrap_or(0);
        let lines = ROW_LINES.min(1 + PAGE_LEN / CACHE_LINE_LEN / count.max(1));
        RowsAhead { page, next: 0, count, lines }
    }

    /// Prefetches one more row, if there is one.
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
