//! Fuzz target for parts of an audit trail; see the properties.
#![no_main]

#[path = "../../crates/audit/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::audit(bytes));
