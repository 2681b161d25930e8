//! Fuzz target for messages, frames and rows of a cluster; see the properties.
#![no_main]

#[path = "../../crates/replication/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::cluster(bytes));
