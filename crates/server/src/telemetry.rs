//! What the server tells of itself: counts, faults, operations, what the process uses.

pub(crate) mod counters;
pub(crate) mod health;
pub(crate) mod operation_log;
pub(crate) mod process;
