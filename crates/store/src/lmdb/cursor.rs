//! [`Cursor`]: a position in a map, and traversals that begin at that position.

use std::ptr;

use super::ffi::{self, Mapping, Row, Step};
use super::page_reader::leaf::LeafRows;
use super::page_reader::leaf_traversal::LeafTraversal;
use super::page_reader::page::{PAGE_LEN, Pages};
use super::{Result, Txn};

/// A position in a map. Returned slices borrow from the transaction, so they outlive the cursor.
///
/// LMDB's cursor is at the row returned last, unless this row came from `leaf`. In that case the position of LMDB's
/// cursor is arbitrary.
pub(crate) struct Cursor<'t> {
    engine: ffi::Cursor<'t>,
    /// Map and state of a forward traversal that reads rows in place. `Some` only in a reading transaction.
    traversal: Option<TraversalState<'t>>,
    /// Key of the row at LMDB's cursor, if known.
    at: Option<&'t [u8]>,
    /// Rows after the row returned last, on the same page.
    leaf: LeafRows<'t>,
    /// Leaf traversal at the page of `leaf`; `None` if `leaf` is on another page.
    leaf_traversal: Option<Box<LeafTraversal<'t, Mapping<'t>>>>,
    /// Leaves read to their end without a leaf traversal.
    leaves_passed: usize,
}

/// Map and state of a forward traversal.
#[derive(Clone, Copy)]
struct TraversalState<'t> {
    txn: &'t Txn,
    map: usize,
    pages: Mapping<'t>,
}

/// Number of leaves that are read with LMDB's cursor before a leaf traversal begins. The descent of a leaf traversal
/// costs as much as LMDB's cursor does on a few leaves.
const LEAVES_BEFORE_WALK: usize = 2;

impl Txn {
    pub(crate) fn cursor(&self, map: usize) -> Result<Cursor<'_>> {
        let engine = self.engine.cursor(map)?;
        let traversal = self.pages()?.map(|pages| TraversalState { txn: self, map, pages });
        Ok(Cursor {
            engine,
            traversal,
            at: None,
            leaf: LeafRows::NONE,
            leaf_traversal: None,
            leaves_passed: 0,
        })
    }
}

impl<'t> Cursor<'t> {
    #[inline]
    pub(crate) fn step(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        if self.traversal.is_some() { self.step_in_leaf(step) } else { self.step_by_call(step) }
    }

    #[inline(always)]
    fn step_in_leaf(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        if step != Step::NextKey {
            self.follow()?;
            return self.step_by_call(step);
        }
        match self.next_at_hand() {
            Some(row) => Ok(Some(row)),
            None => self.step_to_leaf(),
        }
    }

    /// Returns the row with the next key, if it is on the current page.
    #[inline(always)]
    pub(crate) fn next_at_hand(&mut self) -> Option<Row<'t>> {
        let row = self.leaf.next()?;
        if let Some(leaf_traversal) = &mut self.leaf_traversal {
            leaf_traversal.fetch_ahead();
        }
        Some(row)
    }

    /// Moves to the next row if `leaf` is exhausted. Returns the row, and loads the following rows of its page into
    /// `leaf`.
    #[inline(never)]
    fn step_to_leaf(&mut self) -> Result<Option<Row<'t>>> {
        if let Some(key) = self.at
            && self.leaf.is_none()
        {
            self.leaf = self.rows_after(key);
            if let Some(row) = self.leaf.next() {
                return Ok(Some(row));
            }
        }
        if let Some(page) = self.leaf.finished_page() {
            match self.leaf_after(page)? {
                Some(Some(page)) => {
                    self.leaf = LeafRows::all(page, self.leaf.last().or(self.at));
                    if let Some(row) = self.leaf.next() {
                        return Ok(Some(row));
                    }
                }
                Some(None) => return Ok(None),
                None => {}
            }
        }
        self.follow()?;
        let Some(row) = self.step_by_call(Step::NextKey)? else { return Ok(None) };
        self.leaf = self.rows_after(row.0);
        Ok(Some(row))
    }

    /// Returns the next leaf, found by a leaf traversal. Returns `Some(None)` if there is no next leaf, and `None` if
    /// only LMDB's cursor can find it.
    fn leaf_after(&mut self, page: &'t [u8]) -> Result<Option<Option<&'t [u8]>>> {
        if self.leaf_traversal.as_ref().is_none_or(|leaf_traversal| !ptr::eq(leaf_traversal.leaf(), page)) {
            self.leaf_traversal = None;
            self.leaves_passed += 1;
            if self.leaves_passed > LEAVES_BEFORE_WALK {
                self.leaf_traversal = self.traverse_leaf(page)?.map(Box::new);
                self.leaves_passed = 0;
            }
        }
        let Some(leaf_traversal) = &mut self.leaf_traversal else { return Ok(None) };
        match leaf_traversal.advance() {
            Some(true) => Ok(Some(Some(leaf_traversal.leaf()))),
            Some(false) => Ok(Some(None)),
            None => {
                self.leaf_traversal = None;
                Ok(None)
            }
        }
    }

    /// Returns a leaf traversal at the page of the last row.
    fn traverse_leaf(&self, page: &'t [u8]) -> Result<Option<LeafTraversal<'t, Mapping<'t>>>> {
        let (Some(traversal), Some(key)) = (self.traversal, self.leaf.last().or(self.at)) else {
            return Ok(None);
        };
        let Some(tree) = traversal.txn.tree(traversal.map)? else { return Ok(None) };
        Ok(LeafTraversal::to_key(tree, key).filter(|leaf_traversal| ptr::eq(leaf_traversal.leaf(), page)))
    }

    /// Returns the rows that follow the row with this key on the same page. `key` must be a slice that LMDB returned.
    fn rows_after(&self, key: &'t [u8]) -> LeafRows<'t> {
        let page = self
            .traversal
            .and_then(|TraversalState { pages, .. }| pages.page(pages.offset_of(key)? / PAGE_LEN as u64));
        page.map_or(LeafRows::NONE, |page| LeafRows::after(page, key))
    }

    #[cfg(test)]
    pub(super) fn has_walk(&self) -> bool {
        self.leaf_traversal.is_some()
    }

    /// Disables leaf traversal and reading in place.
    #[cfg(test)]
    pub(super) fn plain(mut self) -> Cursor<'t> {
        self.traversal = None;
        self
    }

    /// Moves LMDB's cursor to the row that was returned last.
    fn follow(&mut self) -> Result<()> {
        match self.leaf.last() {
            Some(last) => self.at_key(last).map(drop),
            None => Ok(()),
        }
    }

    #[inline]
    fn step_by_call(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        let row = self.engine.step(step);
        self.set_row(row)
    }

    /// Moves to the lowest value of `key`.
    pub(crate) fn at_key(&mut self, key: &[u8]) -> Result<Option<Row<'t>>> {
        let row = self.engine.at_key(key);
        self.set_row(row)
    }

    /// Moves to the lowest key that is at least `key`. `key` must not be empty.
    pub(crate) fn at_or_after(&mut self, key: &[u8]) -> Result<Option<Row<'t>>> {
        let row = self.engine.at_or_after(key);
        self.set_row(row)
    }

    /// In a map of sets, moves to the lowest value of `key` that is at least `value`. Returns true if such a value
    /// exists.
    pub(crate) fn at_value_or_after(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.forget_row();
        self.engine.at_value_or_after(key, value)
    }

    /// Returns true if `key` has `value`, in a map of sets.
    pub(crate) fn has_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.forget_row();
        self.engine.has_value(key, value)
    }

    /// Does the same as [`ffi::Cursor::block`].
    pub(crate) fn block(&mut self) -> Result<&'t [u8]> {
        self.follow()?;
        self.forget_row();
        self.engine.block()
    }

    /// Does the same as [`ffi::Cursor::next_block`].
    pub(crate) fn next_block(&mut self) -> Result<Option<&'t [u8]>> {
        self.forget_row();
        self.engine.next_block()
    }

    /// In a map of sets, returns the number of values of the key at the position.
    pub(crate) fn value_count(&mut self) -> Result<u64> {
        // `leaf` returns no rows with several values.
        if self.leaf.last().is_some() { Ok(1) } else { self.engine.value_count() }
    }

    /// Records that LMDB's cursor has moved to `row`.
    #[inline]
    fn set_row(&mut self, row: Result<Option<Row<'t>>>) -> Result<Option<Row<'t>>> {
        self.forget_row();
        let row = row?;
        self.at = row.map(|(key, _)| key);
        Ok(row)
    }

    #[inline]
    fn forget_row(&mut self) {
        (self.at, self.leaf) = (None, LeafRows::NONE);
    }
}
