//! [`LeafRows`]: the rows of a leaf, read without LMDB's cursor. LMDB's cursor needs one call per row, and that call
//! costs as much as everything else that a scan does with the row.
//!
//! `LeafRows` stops at a row that has flags, and LMDB reads that row: its value is on other pages or, in a map of sets,
//! is a tree of several values. In a map of sets, a row without flags has one value.

use super::page::{LEAF, LIST, Node, ROW_HEAD, number, row_count};

/// A key and a value.
pub(crate) type Row<'t> = (&'t [u8], &'t [u8]);

/// Remaining rows of a page.
#[derive(Clone, Copy)]
pub(crate) struct LeafRows<'t> {
    page: &'t [u8],
    /// Index of the next row.
    next: usize,
    count: usize,
    /// Key of the last row returned.
    last: Option<&'t [u8]>,
}

impl<'t> LeafRows<'t> {
    /// No rows.
    pub(crate) const NONE: LeafRows<'t> = LeafRows { page: &[], next: 0, count: 0, last: None };

    /// Returns the rows after the row with this `key`. `key` must be the slice of the page that contains the key;
    /// otherwise no rows are returned.
    #[inline]
    pub(crate) fn after(page: &'t [u8], key: &[u8]) -> LeafRows<'t> {
        let at = key.as_ptr().addr().wrapping_sub(page.as_ptr().addr()).wrapping_sub(ROW_HEAD);
        let count = row_count(page, LEAF).unwrap_or(0);
        match (0..count).find(|place| number(page, LIST + 2 * place) == Some(at)) {
            Some(place) => LeafRows { page, next: place + 1, count, last: None },
            None => LeafRows::NONE,
        }
    }

    /// Returns all rows of a page. `last` is the key of the row that precedes the first row of the page.
    pub(crate) fn all(page: &'t [u8], last: Option<&'t [u8]>) -> LeafRows<'t> {
        LeafRows { page, next: 0, count: row_count(page, LEAF).unwrap_or(0), last }
    }

    /// Returns the next row. `None` at the end of the page and before a row with flags.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Row<'t>> {
        if self.next >= self.count {
            return None;
        }
        let row = self.row(self.next)?;
        self.next += 1;
        self.last = Some(row.0);
        Some(row)
    }

    /// Returns true if this value has no page.
    pub(crate) fn is_none(&self) -> bool {
        self.count == 0
    }

    /// Returns the page if all its rows were returned, or if [`after`](LeafRows::after) found no rows after the given
    /// key.
    pub(crate) fn finished_page(&self) -> Option<&'t [u8]> {
        (self.count > 0 && self.next >= self.count).then_some(self.page)
    }

    /// Returns the key of the last row that [`next`](LeafRows::next) returned.
    pub(crate) fn last(&self) -> Option<&'t [u8]> {
        self.last
    }

    /// Returns the rows of a page whose value is stored next to the key.
    pub(crate) fn with_value(page: &'t [u8]) -> impl Iterator<Item = Row<'t>> {
        let rows = LeafRows::all(page, None);
        (0..rows.count).filter_map(move |place| rows.row(place))
    }

    #[inline]
    fn row(&self, place: usize) -> Option<Row<'t>> {
        let Node { words: [value_low, value_high, flags], key, rest } = Node::at(self.page, place)?;
        let value = rest.get(..value_low | value_high << 16)?;
        (flags == 0).then_some((key, value))
    }
}
