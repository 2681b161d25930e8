//! Rendering values for DNs (RFC 4514 section 2.4).

/// Appends a value with everything escaped that must be.
pub fn escape_value(value: &[u8], out: &mut String) {
    todo!("{value:?} {out}")
}

/// A value with everything escaped that must be.
pub fn escaped_value(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    escape_value(value, &mut out);
    out
}
