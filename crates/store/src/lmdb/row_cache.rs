//! Row cache: the locations of rows that were read before, so that reading them again costs a table look-up instead of
//! a tree descent.
//!
//! Nothing here reads the data file, so nothing here is unsafe: what is remembered are offsets in it.

pub(super) mod cached_rows;
mod key;
pub(super) mod moved;
pub(super) mod packed;
mod table;

#[cfg(test)]
mod tests;
