//! Fuzz target for BER elements; see the properties.
#![no_main]

#[path = "../../crates/ber/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::elements(bytes));
