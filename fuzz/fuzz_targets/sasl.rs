//! Fuzz target for messages of SASL; see the properties.
#![no_main]

#[path = "../../crates/sasl/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::sasl(bytes));
