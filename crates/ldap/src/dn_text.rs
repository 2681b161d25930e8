//! Writing of values in DNs (RFC 4514 section 2.4), and the hexadecimal escapes of DNs and filters.

/// Appends a value, with the required escapes. Control characters, and octets that are not UTF-8, become hexadecimal
/// pairs. The result is always printable, and parsing it returns the same octets.
pub fn escape_value(value: &[u8], out: &mut String) {
    if let Some(text) = plain_text(value) {
        out.push_str(text);
        return;
    }
    let last_index = value.len() - 1;
    let mut index = 0;
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            let must_escape = match character {
                ' ' => index == 0 || index == last_index,
                '#' => index == 0,
                '"' | '+' | ',' | ';' | '<' | '>' | '\\' => true,
                _ => false,
            };
            index += character.len_utf8();
            if must_escape {
                out.push('\\');
                out.push(character);
            } else if character.is_ascii_control() {
                push_hex_escape(character as u8, out);
            } else {
                out.push(character);
            }
        }
        chunk.invalid().iter().for_each(|octet| push_hex_escape(*octet, out));
        index += chunk.invalid().len();
    }
}

/// Returns a value with the required escapes; see [`escape_value`].
pub fn escaped_value(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    escape_value(value, &mut out);
    out
}

/// Returns the value as text if it needs no escapes, which is the common case.
fn plain_text(value: &[u8]) -> Option<&str> {
    let needs_escape =
        |octet: &u8| matches!(octet, 0..=0x1f | 0x7f | b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\');
    let starts_badly = matches!(value.first(), Some(b' ' | b'#'));
    if starts_badly || value.last() == Some(&b' ') || value.iter().any(needs_escape) {
        return None;
    }
    std::str::from_utf8(value).ok()
}

/// Appends an octet as a backslash and two hexadecimal digits.
pub(crate) fn push_hex_escape(octet: u8, out: &mut String) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    out.push('\\');
    for digit in [octet >> 4, octet & 0xf] {
        #[expect(clippy::indexing_slicing, reason = "four bits have 16 values")]
        out.push(char::from(DIGITS[usize::from(digit)]));
    }
}

/// Returns the octet that the two hexadecimal digits at the start of `bytes` encode.
pub(crate) fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let digit = |index: usize| bytes.get(index).and_then(|octet| char::from(*octet).to_digit(16));
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        let check = |value: &[u8], expected: &str| assert_eq!(escaped_value(value), expected);
        check(b"", "");
        check(b"plain", "plain");
        check(b" ", r"\ ");
        check(b"  ", r"\ \ ");
        check(b" a b ", r"\ a b\ ");
        check(b"#a#", r"\#a#");
        check(br#"a"b+c,d;e<f>g\h=i"#, r#"a\"b\+c\,d\;e\<f\>g\\h=i"#);
        check(b"a\0b\rc\x7f", r"a\00b\0Dc\7F");
        check("Lučić, ".as_bytes(), r"Lučić\,\ ");
        check(b"\xff\xc4", r"\FF\C4");
    }

    #[test]
    fn hex_pairs_parse() {
        assert_eq!(hex_pair(b"0fz"), Some(0x0f));
        assert_eq!(hex_pair(b"Aa"), Some(0xaa));
        assert_eq!(hex_pair(b"0"), None);
        assert_eq!(hex_pair(b"0g"), None);
    }
}
