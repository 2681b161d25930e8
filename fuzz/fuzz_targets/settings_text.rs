//! Fuzz target for settings files; see the properties.
#![no_main]

#[path = "../../crates/server/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::settings_text(bytes));
