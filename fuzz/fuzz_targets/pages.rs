//! Fuzz target for pages of the data file; see the properties.
#![no_main]

#[path = "../../crates/store/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::pages::pages(bytes));
