//! [`Cursor`]: a place in a map, and the walk from there.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use lmdb_master_sys as ffi;

use super::leaf::Leaf;
use super::pages::PAGE;
use super::way::Way;
use super::{EMPTY, Result, Txn, bytes_of, check, found, value_of};

/// Where a cursor goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    First,
    Last,
    NextKey,
    PreviousKey,
}

/// A key and a value, as long as the transaction stands as it is.
pub(crate) type Row<'t> = (&'t [u8], &'t [u8]);

/// A place in a map. What it returns outlives it: that borrows from the transaction.
///
/// LMDB's cursor stands at the row that was returned last, unless that came from `leaf`: then it stands wherever it had
/// to be.
pub(crate) struct Cursor<'t> {
    pub(super) raw: NonNull<ffi::MDB_cursor>,
    /// Where a walk forward reads rows where they lie: in a reading transaction.
    pub(super) walked: Option<Walked<'t>>,
    /// The key of the row at which LMDB's cursor stands, where that is known.
    at: Option<&'t [u8]>,
    /// The rows behind the one that was returned last, on its page.
    leaf: Leaf<'t>,
    /// The way to the page of `leaf`, unless that page is another one than this ends at.
    way: Option<Box<Way<'t>>>,
    /// Leaves that a walk has come to the end of without a way.
    leaves_passed: usize,
    txn: PhantomData<&'t Txn>,
}

/// The map that a cursor is in.
#[derive(Clone, Copy)]
pub(super) struct Walked<'t> {
    pub(super) txn: &'t Txn,
    pub(super) map: usize,
}

/// Leaves that LMDB's cursor is asked for before the way to them is looked up: that costs as much as the cursor on a
/// few.
const LEAVES_BEFORE_WAY: usize = 2;

impl<'t> Cursor<'t> {
    /// What LMDB opened in a transaction that stays borrowed for `'t`.
    pub(super) fn of(raw: NonNull<ffi::MDB_cursor>) -> Cursor<'t> {
        Cursor {
            raw,
            walked: None,
            at: None,
            leaf: Leaf::NONE,
            way: None,
            leaves_passed: 0,
            txn: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn step(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        if self.walked.is_some() { self.step_in_leaf(step) } else { self.step_by_call(step) }
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

    /// The row of the next key, where it lies on the page that is read.
    #[inline(always)]
    pub(crate) fn next_at_hand(&mut self) -> Option<Row<'t>> {
        let row = self.leaf.next()?;
        if let Some(way) = &mut self.way {
            way.fetch_ahead();
        }
        Some(row)
    }

    /// The next row where `leaf` has none, and the rest of the page that it lies on.
    #[inline(never)]
    fn step_to_leaf(&mut self) -> Result<Option<Row<'t>>> {
        if let Some(key) = self.at
            && self.leaf.is_none()
        {
            self.leaf = Leaf::behind(self.page_of(key), key);
            if let Some(row) = self.leaf.next() {
                return Ok(Some(row));
            }
        }
        if let Some(page) = self.leaf.finished_page() {
            match self.leaf_behind(page)? {
                Some(Some(page)) => {
                    self.leaf = Leaf::all(page, self.leaf.last().or(self.at));
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
        self.leaf = Leaf::behind(self.page_of(row.0), row.0);
        Ok(Some(row))
    }

    /// The leaf behind this one, or that there is none, by the way; `None` where only LMDB's cursor can tell.
    fn leaf_behind(&mut self, page: &'t [u8]) -> Result<Option<Option<&'t [u8]>>> {
        if self.way.as_ref().is_none_or(|way| !ptr::eq(way.leaf(), page)) {
            self.way = None;
            self.leaves_passed += 1;
            if self.leaves_passed > LEAVES_BEFORE_WAY {
                self.way = self.way_to(page)?.map(Box::new);
                self.leaves_passed = 0;
            }
        }
        let Some(way) = &mut self.way else { return Ok(None) };
        match way.advance() {
            Some(true) => Ok(Some(Some(way.leaf()))),
            Some(false) => Ok(Some(None)),
            None => {
                self.way = None;
                Ok(None)
            }
        }
    }

    /// The way to the page of the last row.
    fn way_to(&self, page: &'t [u8]) -> Result<Option<Way<'t>>> {
        let (Some(walked), Some(key)) = (self.walked, self.leaf.last().or(self.at)) else { return Ok(None) };
        let Some(tree) = walked.txn.tree(walked.map)? else { return Ok(None) };
        // SAFETY: the tree is of the state that the transaction reads, which stands as long as it is borrowed, for
        // `'t`.
        let way = unsafe { Way::to_key(tree, key) };
        Ok(way.filter(|way| ptr::eq(way.leaf(), page)))
    }

    #[cfg(test)]
    pub(super) fn knows_way(&self) -> bool {
        self.way.is_some()
    }

    /// Lets LMDB's cursor follow to the row that came last.
    fn follow(&mut self) -> Result<()> {
        match self.leaf.last() {
            Some(last) => self.row(ffi::MDB_SET_KEY, value_of(last)).map(drop),
            None => Ok(()),
        }
    }

    #[inline]
    fn step_by_call(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        let operation = match step {
            Step::First => ffi::MDB_FIRST,
            Step::Last => ffi::MDB_LAST,
            Step::NextKey => ffi::MDB_NEXT_NODUP,
            Step::PreviousKey => ffi::MDB_PREV_NODUP,
        };
        self.row(operation, EMPTY)
    }

    /// The page of a row that LMDB gave to a cursor that is [`walked`](Cursor::walked), by its key.
    fn page_of(&self, key: &'t [u8]) -> &'t [u8] {
        let start = ptr::with_exposed_provenance(key.as_ptr().expose_provenance() & !(PAGE - 1));
        // SAFETY: LMDB gave the key, which is never empty, as the place of a row. In a reading transaction (`walked`)
        // all rows lie in the mapped file, whose pages are of this size (`walked`) and begin at a multiple of it, as
        // the map itself does; keys of sets lie in leaves of the map like those of other rows. The page belongs to the
        // state that is read, so nobody changes it as long as the transaction stays borrowed, for `'t`.
        unsafe { std::slice::from_raw_parts(start, PAGE) }
    }

    /// Goes to `key`, at its lowest value.
    pub(crate) fn at_key(&mut self, key: &[u8]) -> Result<Option<Row<'t>>> {
        self.row(ffi::MDB_SET_KEY, value_of(key))
    }

    /// Goes to the lowest key that is at least `key`, which is not empty.
    pub(crate) fn at_or_after(&mut self, key: &[u8]) -> Result<Option<Row<'t>>> {
        self.row(ffi::MDB_SET_RANGE, value_of(key))
    }

    /// In a map of sets, goes to the lowest value of `key` that is at least `value`; says whether there is one.
    pub(crate) fn at_value_or_after(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.go(ffi::MDB_GET_BOTH_RANGE, &mut value_of(key), &mut value_of(value))
    }

    /// In a map of sets, whether `key` has `value`.
    pub(crate) fn has_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.go(ffi::MDB_GET_BOTH, &mut value_of(key), &mut value_of(value))
    }

    /// In a map of sets, the whole page of values around the place, lower ones too. Empty if the key has one value
    /// only.
    pub(crate) fn block(&mut self) -> Result<&'t [u8]> {
        self.follow()?;
        Ok(self.values(ffi::MDB_GET_MULTIPLE)?.unwrap_or_default())
    }

    /// After [`block`](Cursor::block): the next page of values of the same key.
    pub(crate) fn next_block(&mut self) -> Result<Option<&'t [u8]>> {
        self.values(ffi::MDB_NEXT_MULTIPLE)
    }

    /// In a map of sets, the number of values of the key at the place.
    pub(crate) fn value_count(&mut self) -> Result<u64> {
        if self.leaf.last().is_some() {
            // A row with several does not come from there.
            return Ok(1);
        }
        let mut count = 0;
        // SAFETY: the cursor is open and its transaction borrowed; `count` is a valid place.
        check("mdb_cursor_count", unsafe { ffi::mdb_cursor_count(self.raw.as_ptr(), &mut count) })?;
        Ok(count as u64)
    }

    /// An operation that on success sets both key and value.
    pub(super) fn row(
        &mut self,
        operation: ffi::MDB_cursor_op,
        mut key: ffi::MDB_val,
    ) -> Result<Option<Row<'t>>> {
        let mut value = EMPTY;
        let found = self.go(operation, &mut key, &mut value)?;
        // SAFETY: both were set by the successful call; the transaction stays borrowed, unchanged, for `'t`.
        let row = found.then(|| unsafe { (bytes_of(key), bytes_of(value)) });
        self.at = row.map(|(key, _)| key);
        Ok(row)
    }

    /// An operation that needs no key and on success sets the value or leaves it.
    fn values(&mut self, operation: ffi::MDB_cursor_op) -> Result<Option<&'t [u8]>> {
        let mut value = EMPTY;
        let found = self.go(operation, &mut { EMPTY }, &mut value)?;
        // SAFETY: the value is `EMPTY` or was set by the successful call; the transaction stays borrowed, unchanged,
        // for `'t`.
        Ok(found.then(|| unsafe { bytes_of(value) }))
    }

    fn go(
        &mut self,
        operation: ffi::MDB_cursor_op,
        key: &mut ffi::MDB_val,
        value: &mut ffi::MDB_val,
    ) -> Result<bool> {
        if self.walked.is_some() {
            (self.at, self.leaf) = (None, Leaf::NONE);
        }
        // SAFETY: the cursor is open and its transaction borrowed; LMDB reads what key and value point to and sets only
        // the two themselves.
        found("mdb_cursor_get", unsafe { ffi::mdb_cursor_get(self.raw.as_ptr(), key, value, operation) })
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, its transaction still borrowed, and it is not used after this.
        unsafe { ffi::mdb_cursor_close(self.raw.as_ptr()) }
    }
}
