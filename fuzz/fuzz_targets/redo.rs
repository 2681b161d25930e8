//! Any octets as a segment of the redo log and as a group's changes: see the properties.
#![no_main]

#[path = "../../crates/store/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::redo(bytes));
