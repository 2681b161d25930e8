//! Object identifiers and descriptors: their text forms (RFC 4512 section 1.4) and the compact form used in keys.

/// Maximum size of the key form of an OID in octets, which is enough for any registered OID. Longer OIDs are stored as
/// text.
pub(crate) const OID_KEY_SIZE_MAX: usize = 64;

/// Returns true if the text is a `numericoid`: two or more numbers without leading zeros, joined by dots.
pub(crate) fn is_numeric_oid(text: &str) -> bool {
    text.contains('.')
        && text.split('.').all(|arc| {
            !arc.is_empty()
                && arc.bytes().all(|byte| byte.is_ascii_digit())
                && (arc.len() == 1 || !arc.starts_with('0'))
        })
}

/// Returns true if the text is a `descr`: a letter, then letters, digits, hyphens. Underscores are accepted too, as in
/// other servers.
pub(crate) fn is_descriptor(text: &str) -> bool {
    text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Removes the prefix of `oid.1.2.3` (RFC 2253 section 2.3, still sent by old clients); returns other text unchanged.
pub(crate) fn without_oid_prefix(text: &str) -> &str {
    match text.split_at_checked(4) {
        Some((prefix, oid))
            if prefix.eq_ignore_ascii_case("oid.")
                && oid.starts_with(|first: char| first.is_ascii_digit()) =>
        {
            oid
        }
        _ => text,
    }
}

/// Appends the BER content octets of a numeric OID (X.690 section 8.19). Returns false, and leaves `out` unchanged, if
/// the text is not numeric, an arc is 2^128 or more, or the result exceeds [`OID_KEY_SIZE_MAX`]. An arc that contains a
/// UUID is below 2^128 (ITU-T X.667).
pub(crate) fn encode_oid(text: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    if is_numeric_oid(text) && encode_arcs(text, out).is_some() && out.len() - start <= OID_KEY_SIZE_MAX {
        return true;
    }
    out.truncate(start);
    false
}

fn encode_arcs(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut arcs = text.split('.').map(|arc| arc.parse::<u128>().ok());
    let first = arcs.next()??;
    let second = arcs.next()??;
    if first > 2 || first < 2 && second >= 40 {
        return None;
    }
    encode_arc((first * 40).checked_add(second)?, out);
    for arc in arcs {
        encode_arc(arc?, out);
    }
    Some(())
}

fn encode_arc(arc: u128, out: &mut Vec<u8>) {
    let groups = (128 - arc.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let [.., low] = (arc >> (group * 7)).to_be_bytes();
        let bits = low & 0x7f;
        out.push(if group == 0 { bits } else { bits | 0x80 });
    }
}

/// Returns the text of BER content octets; `None` if they are not an OID with arcs below 2^128.
pub(crate) fn decode_oid(content: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut arc = 0u128;
    if content.last().is_none_or(|last| last & 0x80 != 0) {
        return None;
    }
    for &byte in content {
        if arc >> 121 != 0 {
            return None;
        }
        arc = arc << 7 | u128::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if text.is_empty() {
                let first = (arc / 40).min(2);
                text = format!("{first}.{}", arc - first * 40);
            } else {
                text.push_str(&format!(".{arc}"));
            }
            arc = 0;
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_oids_and_descriptors_are_recognized() {
        for (text, numeric, descriptor) in [
            ("2.5.4.3", true, false),
            ("1.0", true, false),
            ("1", false, false),
            ("1..2", false, false),
            ("1.02", false, false),
            ("1.2.", false, false),
            ("cn", false, true),
            ("x-y_1", false, true),
            ("1cn", false, false),
            ("", false, false),
            ("c n", false, false),
        ] {
            assert_eq!((is_numeric_oid(text), is_descriptor(text)), (numeric, descriptor), "{text}");
        }
        assert_eq!(without_oid_prefix("OID.2.5"), "2.5");
        assert_eq!(without_oid_prefix("oid.x"), "oid.x");
        assert_eq!(without_oid_prefix("cn"), "cn");
    }

    #[test]
    fn numeric_oids_are_encoded_as_octets() {
        for (text, expected) in [
            ("2.5.4.3", Some(&[0x55, 4, 3][..])),
            ("0.9.2342.19200300.100.1.25", Some(&[9, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25])),
            ("2.999.0", Some(&[0x88, 0x37, 0])),
            ("1.40.1", None),
            ("3.1", None),
            (
                "1.2.18446744073709551616",
                Some(&[0x2a, 0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]),
            ),
            ("1.2.340282366920938463463374607431768211456", None),
            ("2.340282366920938463463374607431768211455", None),
            ("cn", None),
        ] {
            let mut out = vec![7];
            assert_eq!(encode_oid(text, &mut out), expected.is_some(), "{text}");
            assert_eq!(&out[1..], expected.unwrap_or_default(), "{text}");
            if expected.is_some() {
                assert_eq!(decode_oid(&out[1..]).as_deref(), Some(text));
            }
        }
        // The OID of the largest UUID, below the arc 2.25.
        let uuid = "2.25.340282366920938463463374607431768211455";
        let mut out = Vec::new();
        assert!(encode_oid(uuid, &mut out));
        assert_eq!((out.len(), decode_oid(&out).as_deref()), (20, Some(uuid)));
        assert_eq!(decode_oid(&[]), None);
        assert_eq!(decode_oid(&[0x80]), None);
        assert_eq!(decode_oid(&[0xff; 20]), None);
    }
}
