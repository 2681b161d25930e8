//! Fuzz target for values of extended operations and controls; see the properties.
#![no_main]

#[path = "../../crates/ldap/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::operation_values(bytes));
