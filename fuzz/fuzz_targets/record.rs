//! Fuzz target for records of the log; see the properties.
#![no_main]

#[path = "../../crates/directory/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::record(bytes));
