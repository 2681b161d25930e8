//! Where rows were found, so that to ask for them again costs a look into a table and not a walk down a tree.
//!
//! Nothing here reads the data file, so nothing here is unsafe: what is remembered are offsets in it.

mod key;
pub(super) mod known_rows;
pub(super) mod moved;
pub(super) mod packed;
mod table;

#[cfg(test)]
mod tests;
