//! Any octets as a value of any rule: see the properties.
#![no_main]

#[path = "../../crates/schema/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::value(bytes));
