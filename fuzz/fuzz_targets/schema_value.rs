//! Fuzz target for values of matching rules; see the properties.
#![no_main]

#[path = "../../crates/schema/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::value(bytes));
