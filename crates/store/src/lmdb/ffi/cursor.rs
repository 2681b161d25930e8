//! [`Cursor`]: a position in a map.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use lmdb_master_sys as sys;

use super::{EMPTY, Failure, Result, Transaction, bytes_of, check, found, value_of};

/// LMDB's handle of the map of free pages.
const FREE_PAGES: sys::MDB_dbi = 0;

/// Movement of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    First,
    Last,
    NextKey,
    PreviousKey,
}

/// A key and a value, valid until the transaction writes or ends.
pub(crate) type Row<'t> = (&'t [u8], &'t [u8]);

/// A position in a map. Returned slices borrow from the transaction, so they outlive the cursor.
pub(crate) struct Cursor<'t> {
    raw: NonNull<sys::MDB_cursor>,
    transaction: PhantomData<&'t Transaction>,
}

impl Transaction {
    pub(crate) fn cursor(&self, map: usize) -> Result<Cursor<'_>> {
        self.cursor_of(self.dbi(map))
    }

    fn cursor_of(&self, dbi: sys::MDB_dbi) -> Result<Cursor<'_>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the transaction is open; `raw` is a valid place.
        check("mdb_cursor_open", unsafe { sys::mdb_cursor_open(self.raw.as_ptr(), dbi, &mut raw) })?;
        let raw =
            NonNull::new(raw).ok_or(Failure { operation: "mdb_cursor_open", code: sys::MDB_PROBLEM })?;
        Ok(Cursor { raw, transaction: PhantomData })
    }

    /// Returns the names of all maps in the file, including the store's own.
    pub(crate) fn map_names(&self) -> Result<Vec<Vec<u8>>> {
        let mut cursor = self.cursor_of(self.map_of_maps()?)?;
        let mut names = Vec::new();
        while let Some((name, _)) = cursor.step(if names.is_empty() { Step::First } else { Step::NextKey })? {
            names.push(name.to_vec());
        }
        Ok(names)
    }

    /// Returns the list of pages that the commit `txn_id` freed. The list consists of the number of pages and each page
    /// number, eight bytes each.
    pub(crate) fn freed_pages(&self, txn_id: u64) -> Result<&[u8]> {
        let row = self.cursor_of(FREE_PAGES)?.at_key(&txn_id.to_ne_bytes())?;
        Ok(row.map_or(&[][..], |(_, freed)| freed))
    }

    /// Returns the bytes of the pages that earlier commits freed. Looks at one row for each of these commits.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        let mut cursor = self.cursor_of(FREE_PAGES)?;
        let (mut pages, mut step) = (0, Step::First);
        while let Some((_, freed)) = cursor.step(step)? {
            pages += freed.first_chunk::<8>().map_or(0, |count| u64::from_ne_bytes(*count));
            step = Step::NextKey;
        }
        Ok(pages * self.environment.page_bytes as u64)
    }

    /// Adds values to the set of a key. If `new_key` is true, the key must be above all others of the map, and pages
    /// are filled instead of split. `values` must be a concatenation of values of `value_len` bytes in ascending order,
    /// all above the values in the set. Returns [`Failure::KEY_EXISTS`] if a value is out of order.
    pub(crate) fn append_values(
        &mut self,
        map: usize,
        key: &[u8],
        values: &[u8],
        value_len: usize,
        new_key: bool,
    ) -> Result<()> {
        let mut flags = sys::MDB_MULTIPLE | sys::MDB_APPENDDUP;
        if new_key {
            flags |= sys::MDB_APPEND;
        }
        // LMDB would write one value if given a count of 0.
        if values.len() < value_len {
            return Ok(());
        }
        let mut key = value_of(key);
        let count = sys::MDB_val { mv_size: values.len() / value_len, mv_data: ptr::null_mut() };
        let mut data = [sys::MDB_val { mv_size: value_len, ..value_of(values) }, count];
        let cursor = self.cursor(map)?;
        // SAFETY: the cursor is open, and `&mut self` guarantees that no other cursor is used. `data` is what
        // MDB_MULTIPLE requires: the length of one value with a pointer to all values, and the number of values, which
        // `values` has room for. LMDB copies the key and the values and writes to neither.
        let code = unsafe { sys::mdb_cursor_put(cursor.raw.as_ptr(), &mut key, data.as_mut_ptr(), flags) };
        check("mdb_cursor_put", code)
    }
}

impl<'t> Cursor<'t> {
    #[inline]
    pub(crate) fn step(&mut self, step: Step) -> Result<Option<Row<'t>>> {
        let operation = match step {
            Step::First => sys::MDB_FIRST,
            Step::Last => sys::MDB_LAST,
            Step::NextKey => sys::MDB_NEXT_NODUP,
            Step::PreviousKey => sys::MDB_PREV_NODUP,
        };
        self.row(operation, EMPTY)
    }

    /// Moves to the lowest value of `key`.
    pub(crate) fn at_key(&mut self, key: &[u8]) -> Result<Option<Row<'t>>> {
        self.row(sys::MDB_SET_KEY, value_of(key))
    }

    /// Moves to the lowest key that is at least `key`. `key` must not be empty.
    pub(crate) fn at_or_after(&mut self, key: &[u8]) -> Result<Option<Row<'t>>> {
        self.row(sys::MDB_SET_RANGE, value_of(key))
    }

    /// In a map of sets, moves to the lowest value of `key` that is at least `value`. Returns true if such a value
    /// exists.
    pub(crate) fn at_value_or_after(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.go(sys::MDB_GET_BOTH_RANGE, &mut value_of(key), &mut value_of(value))
    }

    /// Returns true if `key` has `value`, in a map of sets.
    pub(crate) fn has_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.go(sys::MDB_GET_BOTH, &mut value_of(key), &mut value_of(value))
    }

    /// In a map of sets, returns the whole page of values around the position, including lower values. The result is
    /// empty if the key has only one value.
    pub(crate) fn block(&mut self) -> Result<&'t [u8]> {
        Ok(self.values(sys::MDB_GET_MULTIPLE)?.unwrap_or_default())
    }

    /// Returns the next page of values of the same key, after [`block`](Cursor::block).
    pub(crate) fn next_block(&mut self) -> Result<Option<&'t [u8]>> {
        self.values(sys::MDB_NEXT_MULTIPLE)
    }

    /// In a map of sets, returns the number of values of the key at the position.
    pub(crate) fn value_count(&mut self) -> Result<u64> {
        let mut count = 0;
        // SAFETY: the cursor is open and its transaction borrowed; `count` is a valid place.
        check("mdb_cursor_count", unsafe { sys::mdb_cursor_count(self.raw.as_ptr(), &mut count) })?;
        Ok(count as u64)
    }

    /// Runs an operation that sets both key and value if it succeeds.
    fn row(&mut self, operation: sys::MDB_cursor_op, mut key: sys::MDB_val) -> Result<Option<Row<'t>>> {
        let mut value = EMPTY;
        let found = self.go(operation, &mut key, &mut value)?;
        // SAFETY: both were set by the successful call; the transaction stays borrowed, unchanged, for `'t`.
        Ok(found.then(|| unsafe { (bytes_of(key), bytes_of(value)) }))
    }

    /// Runs an operation that needs no key. If the operation succeeds, it sets the value or leaves the value unchanged.
    fn values(&mut self, operation: sys::MDB_cursor_op) -> Result<Option<&'t [u8]>> {
        let mut value = EMPTY;
        let found = self.go(operation, &mut { EMPTY }, &mut value)?;
        // SAFETY: the value is `EMPTY` or was set by the successful call; the transaction stays borrowed, unchanged,
        // for `'t`.
        Ok(found.then(|| unsafe { bytes_of(value) }))
    }

    fn go(
        &mut self,
        operation: sys::MDB_cursor_op,
        key: &mut sys::MDB_val,
        value: &mut sys::MDB_val,
    ) -> Result<bool> {
        // SAFETY: the cursor is open and its transaction borrowed; LMDB only reads the bytes to which `key` and `value`
        // point, and may set the two structures themselves.
        found("mdb_cursor_get", unsafe { sys::mdb_cursor_get(self.raw.as_ptr(), key, value, operation) })
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, its transaction still borrowed, and the cursor is not used after this.
        unsafe { sys::mdb_cursor_close(self.raw.as_ptr()) }
    }
}
