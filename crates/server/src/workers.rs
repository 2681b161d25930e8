//! Threads that work for event loops: the one that changes the directory, and pools for what takes long.

pub(crate) mod hash_pool;
pub(crate) mod index_upkeep;
pub(crate) mod read_ahead;
pub(crate) mod scan;
pub(crate) mod scan_pool;
pub(crate) mod settings_change;
pub(crate) mod warm_up;
pub(crate) mod writer;
