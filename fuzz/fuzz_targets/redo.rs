//! Fuzz target for segments of the redo log, and for the changes of a group; see the properties.
#![no_main]

#[path = "../../crates/store/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::redo(bytes));
