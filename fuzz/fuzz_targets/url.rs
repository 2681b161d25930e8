//! Fuzz target for LDAP URLs; see the properties.
#![no_main]

#[path = "../../crates/ldap/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::url(bytes));
