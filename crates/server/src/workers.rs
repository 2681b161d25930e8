//! Threads that work for event loops: the writer, and pools for work that takes long.

pub(crate) mod attempts;
pub(crate) mod audit;
pub(crate) mod audit_feed;
pub(crate) mod backups;
pub(crate) mod bad_passwords;
pub(crate) mod certificate_watch;
pub(crate) mod changed_passwords;
pub(crate) mod delays;
pub(crate) mod due_changes;
pub(crate) mod guesses;
pub(crate) mod hash_pool;
mod hash_queue;
pub(crate) mod index_upkeep;
pub(crate) mod logins;
pub(crate) mod pass_through;
pub(crate) mod policy_watch;
pub(crate) mod read_age;
pub(crate) mod read_ahead;
pub(crate) mod scan;
pub(crate) mod scan_pool;
pub(crate) mod service;
pub(crate) mod settings_change;
pub(crate) mod trail_reader;
pub(crate) mod verified_binds;
pub(crate) mod warm_up;
pub(crate) mod writer;
