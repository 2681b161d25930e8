//! The part of the Generic String Encoding Rules (RFC 3641) that the assertions of RFC 4523 need: sequences of named
//! values, quoted strings, and choices written `name:value`.

use crate::Fault;
use crate::syntax_text::hex_digits;

/// Maximum size of an assertion in octets. A certificate assertion is a serial number and a name.
const ASSERTION_SIZE_MAX: usize = 65_536;

/// Returns the named values of `{ name value, name value }`, borrowed from the text and not interpreted.
pub(crate) fn sequence(text: &str) -> Result<Vec<(&str, &str)>, Fault> {
    if text.len() > ASSERTION_SIZE_MAX {
        return Err(Fault::OutOfRange { what: "the size of the assertion" });
    }
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or(Fault::Expected { offset: 0, what: "'{' ... '}'" })?;
    split_components(inner)
        .into_iter()
        .map(|component| {
            let component = component.trim();
            component
                .split_once(char::is_whitespace)
                .map(|(name, value)| (name, value.trim()))
                .ok_or(Fault::Expected { offset: 0, what: "a named component" })
        })
        .collect()
}

/// Splits at commas outside of quotes and braces.
fn split_components(inner: &str) -> Vec<&str> {
    let mut components = Vec::new();
    let (mut depth, mut quoted, mut start) = (0usize, false, 0);
    for (offset, byte) in inner.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                components.push(inner.get(start..offset).unwrap_or_default());
                start = offset + 1;
            }
            _ => {}
        }
    }
    components.push(inner.get(start..).unwrap_or_default());
    components
}

/// Returns the value of the component with this name.
pub(crate) fn component<'a>(
    components: &[(&'a str, &'a str)],
    name: &str,
    what: &'static str,
) -> Result<&'a str, Fault> {
    let found = components.iter().find(|(component, _)| component.eq_ignore_ascii_case(name));
    found.map(|(_, value)| *value).ok_or(Fault::Expected { offset: 0, what })
}

/// Returns the values of `{ value, value }`, not interpreted. `{ }` has none.
pub(crate) fn list(text: &str) -> Result<Vec<&str>, Fault> {
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or(Fault::Expected { offset: 0, what: "'{' ... '}'" })?.trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    Ok(split_components(inner).into_iter().map(str::trim).collect())
}

/// Decodes a hexadecimal string such as `'0A1B'H`.
pub(crate) fn octets(text: &str) -> Result<Vec<u8>, Fault> {
    const EXPECTED: Fault = Fault::Expected { offset: 0, what: "pairs of hexadecimal digits in '...'H" };
    let digits = text.trim().strip_prefix('\'').and_then(|rest| rest.strip_suffix("'H")).ok_or(EXPECTED)?;
    let mut octets = Vec::with_capacity(digits.len() / 2);
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(EXPECTED);
    }
    hex_digits(digits.as_bytes(), 0, digits.len(), &mut octets)?;
    Ok(octets)
}

/// Decodes a quoted string: `"a ""b"""` becomes `a "b"`.
pub(crate) fn quoted(text: &str) -> Result<String, Fault> {
    let inner = text.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner
        .map(|inner| inner.replace("\"\"", "\""))
        .ok_or(Fault::Expected { offset: 0, what: "a quoted string" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_quoted_values_parse() {
        let text = r#"{ serialNumber 12, issuer rdnSequence:"cn=a, b ""c""", inner { x 1, y 2 } }"#;
        let components = sequence(text).unwrap();
        assert_eq!(
            components,
            [("serialNumber", "12"), ("issuer", r#"rdnSequence:"cn=a, b ""c""""#), ("inner", "{ x 1, y 2 }")]
        );
        assert_eq!(component(&components, "SERIALNUMBER", "x"), Ok("12"));
        assert_eq!(component(&components, "none", "x"), Err(Fault::Expected { offset: 0, what: "x" }));
        assert_eq!(quoted(r#""a ""b""""#).unwrap(), r#"a "b""#);
        assert_eq!(list("{ a, b:{c, d} }"), Ok(vec!["a", "b:{c, d}"]));
        assert_eq!(list("{ }"), Ok(Vec::new()));
        assert_eq!(octets("'0aFF'H"), Ok(vec![10, 255]));
        for bad in ["", "''", "'0'H", "'0x'H", "00"] {
            assert!(octets(bad).is_err(), "{bad}");
        }
        for bad in ["", "{", "x", "{}", "{ a }", "{ a 1, }"] {
            assert!(sequence(bad).is_err(), "{bad}");
        }
    }
}
