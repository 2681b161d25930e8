//! Fuzz target for the beginning of a proxy's connection; see the properties.
#![no_main]

#[path = "../../crates/server/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::proxy_header(bytes));
