//! [`Sorter`]: sorts more rows than fit into memory.

use std::path::Path;

use crate::{Options, Result};

/// Takes rows in any order and gives them back sorted, by key and then by value, byte by byte. Equal rows all come back.
pub struct Sorter {}

impl Sorter {
    /// A sorter that holds up to `memory_bytes` of rows in memory and writes what is more to a file in `directory`, the data directory.
    pub fn new(directory: &Path, memory_bytes: usize) -> Sorter {
        Sorter::with_options(directory, memory_bytes, &Options::default())
    }

    /// As [`new`](Sorter::new), with a reserve of its own ([`Options::reserve_bytes`]).
    pub fn with_options(_directory: &Path, _memory_bytes: usize, _options: &Options) -> Sorter {
        todo!()
    }

    /// Takes a row. Key and value may be empty; each has less than 4 GiB.
    ///
    /// # Errors
    /// `DiskFull`, `Engine`.
    pub fn push(&mut self, _key: &[u8], _value: &[u8]) -> Result<()> {
        todo!()
    }

    /// All rows, sorted.
    ///
    /// # Errors
    /// `DiskFull`, `Engine`.
    pub fn finish(self) -> Result<Sorted> {
        Sorter::merge(vec![self])
    }

    /// All rows of several sorters, which may have been filled by a thread each, sorted.
    ///
    /// # Errors
    /// As [`finish`](Sorter::finish).
    pub fn merge(_sorters: Vec<Sorter>) -> Result<Sorted> {
        todo!()
    }
}

/// The rows of a [`Sorter`] in order.
pub struct Sorted {}

impl Sorted {
    /// The next row, as key and value, `None` after the last.
    ///
    /// # Errors
    /// `Engine`.
    #[expect(clippy::should_implement_trait, reason = "the row lives until the next call only")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        todo!()
    }
}
