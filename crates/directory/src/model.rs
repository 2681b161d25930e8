//! What every other floor speaks of: entry ids and rows, entries, records of changes, outcomes, limits. It reads no store.

pub(crate) mod allocations;
pub(crate) mod attribute_head;
pub(crate) mod attribute_numbers;
pub(crate) mod codec;
pub mod csn;
pub mod entry;
pub mod limits;
pub mod outcome;
pub(crate) mod quoted;
pub mod record;
pub mod rows;
pub(crate) mod schema_times;
pub(crate) mod value_list;
