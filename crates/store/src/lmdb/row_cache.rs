//! Row cache: the locations of rows that were read before, so that reading them again costs a table look-up instead of
//! a tree descent.
//!
//! The row cache does not read the data file, so it needs no unsafe code: it stores offsets in the file.

pub(super) mod cached_rows;
mod key;
pub(super) mod moved;
pub(super) mod packed;
mod table;

#[cfg(test)]
mod tests;
