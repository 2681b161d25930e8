//! [`Cursor`]: a place in a map, and the walk from there.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use lmdb_master_sys as ffi;

use super::fetch::fetch_ahead;
use super::leaf::Leaf;
use super::{EMPTY, PAGE, Result, Txn, bytes_of, check, found, value_of};

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
/// LMDB's cursor stands at the row that was returned last, unless that came from `leaf`: then it stands wherever it had to be.
pub(crate) struct Cursor<'t> {
    pub(super) raw: NonNull<ffi::MDB_cursor>,
    /// Whether a walk forward reads rows where they lie: in a reading transaction.
    pub(super) has_leaves: bool,
    /// Whether the processor fetches what a walk forward is likely to come by: in maps without sets, whose rows are worth it.
    pub(super) fetches_ahead: bool,
    /// The key of the row at which LMDB's cursor stands, where that is known.
    at: Option<&'t [u8]>,
    /// The rows behind the one that was returned last, on its page.
    leaf: Leaf<'t>,
    txn: PhantomData<&'t Txn>,
}

impl<'t> Cursor<'t> {
    /// What LMDB opened in a transaction that stays borrowed for `'t`.
    pub(super) fn of(raw: NonNull<ffi::MDB_cursor>) -> Cursor<'t> {
        let (leaf, txn) = (Leaf::NONE, PhantomData);
        Cursor { raw, has_leaves: false, fetches_ahead: false, at: None, leaf, txn }
    }

    #[inline]
    pub(crate) fn step(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        if self.has_leaves { self.step_in_leaf(step) } else { self.step_by_call(step) }
    }

    #[inline(always)]
    fn step_in_leaf(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        if step != Step::NextKey {
            self.follow()?;
            return self.step_by_call(step);
        }
        match self.leaf.next() {
            Some(row) => Ok(Some(self.passing(row))),
            None => self.step_to_leaf(),
        }
    }

    /// The next row where `leaf` has none, and the rest of the page that it lies on.
    #[inline(never)]
    fn step_to_leaf(&mut self) -> Result<Option<Row<'t>>> {
        if let Some(key) = self.at
            && self.leaf.is_none()
        {
            self.leaf = Leaf::behind(self.page_of(key), key);
            if let Some(row) = self.leaf.next() {
                return Ok(Some(self.passing(row)));
            }
        }
        self.follow()?;
        let Some(row) = self.step_by_call(Step::NextKey)? else { return Ok(None) };
        self.leaf = Leaf::behind(self.page_of(row.0), row.0);
        Ok(Some(self.passing(row)))
    }

    /// A row that a walk forward comes by.
    #[inline]
    fn passing(&self, row: Row<'t>) -> Row<'t> {
        if self.fetches_ahead {
            fetch_ahead(row.0);
        }
        row
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

    /// The page of a row that LMDB gave to a cursor that [`has_leaves`](Cursor::has_leaves), by its key.
    fn page_of(&self, key: &'t [u8]) -> &'t [u8] {
        let start = ptr::with_exposed_provenance(key.as_ptr().expose_provenance() & !(PAGE - 1));
        // SAFETY: LMDB gave the key, which is never empty, as the place of a row. In a reading transaction (`has_leaves`) all rows lie in the mapped file, whose
        // pages are of this size (`has_leaves`) and begin at a multiple of it, as the map itself does; keys of sets lie in leaves of the map like those of other rows. The page belongs to the state that is read, so nobody changes it as long as
        // the transaction stays borrowed, for `'t`.
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

    /// In a map of sets, the whole page of values around the place, lower ones too. Empty if the key has one value only.
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
        // SAFETY: the value is `EMPTY` or was set by the successful call; the transaction stays borrowed, unchanged, for `'t`.
        Ok(found.then(|| unsafe { bytes_of(value) }))
    }

    fn go(
        &mut self,
        operation: ffi::MDB_cursor_op,
        key: &mut ffi::MDB_val,
        value: &mut ffi::MDB_val,
    ) -> Result<bool> {
        if self.has_leaves {
            (self.at, self.leaf) = (None, Leaf::NONE);
        }
        // SAFETY: the cursor is open and its transaction borrowed; LMDB reads what key and value point to and sets only the two themselves.
        found("mdb_cursor_get", unsafe { ffi::mdb_cursor_get(self.raw.as_ptr(), key, value, operation) })
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, its transaction still borrowed, and it is not used after this.
        unsafe { ffi::mdb_cursor_close(self.raw.as_ptr()) }
    }
}
