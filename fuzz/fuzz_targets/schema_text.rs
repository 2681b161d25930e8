//! Fuzz target for schema files; see the properties.
#![no_main]

#[path = "../../crates/schema/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::schema_text(bytes));
