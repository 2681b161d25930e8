//! What clients ask without changing anything: search, compare, bind.

pub mod bind;
pub mod compare;
pub mod controls;
pub mod read_ahead;
pub mod search;
