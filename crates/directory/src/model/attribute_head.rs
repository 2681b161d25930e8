//! What a search result says of an attribute before its values, encoded once for each attribute of the catalogue.
//!
//! A result of all attributes writes some twenty of these. Most descriptions and values are so short that each length
//! takes one octet; then the head is a copy of 32 octets with two of them set, and whether the attribute is returned at
//! all stands in the same line of memory. Rejected: making room for several attributes and copying values into it in
//! blocks of 32 octets, each over the end of the one before; memmove says the same with fewer checks of bounds (10,187
//! instructions for a search for all of an entry, 10,867 so).

use ldap::Tag;

/// Octets of a head that is kept ready, which leaves 24 for the description.
const READY_MAX: usize = 30;

/// An attribute in results.
#[derive(Clone, Debug)]
pub(crate) struct AttributeHead {
    /// SEQUENCE, description and SET of a PartialAttribute (RFC 4511 section 4.1.7) with lengths of 0 for sequence and
    /// set, and zeroes behind them.
    ready: [u8; READY_MAX],
    /// Octets of that; 0 for a description that is too long, and where values are not copied as they are stored.
    ready_len: u8,
    kind: u8,
}

/// Operational: not returned for `*`.
const OPERATIONAL: u8 = 1;

/// For the administrator alone.
const SECRET: u8 = 2;

impl AttributeHead {
    /// The head of an attribute whose description, as an OCTET STRING, is this one. `is_name` says that values are
    /// names, which go out in the form of RFC 4514 however they are stored.
    pub(crate) fn new(
        encoded_name: &[u8],
        is_operational: bool,
        is_secret: bool,
        is_name: bool,
    ) -> AttributeHead {
        let mut head = vec![Tag::SEQUENCE.0, 0];
        head.extend_from_slice(encoded_name);
        head.extend_from_slice(&[Tag::SET.0, 0]);
        let mut ready = [0; READY_MAX];
        let ready_len = match ready.get_mut(..head.len()) {
            Some(room) if !is_name => {
                room.copy_from_slice(&head);
                head.len() as u8
            }
            _ => 0,
        };
        let kind = if is_operational { OPERATIONAL } else { 0 } | if is_secret { SECRET } else { 0 };
        AttributeHead { ready, ready_len, kind }
    }

    /// Whether `*` does not ask for it.
    #[inline]
    pub(crate) fn is_operational(&self) -> bool {
        self.kind & OPERATIONAL != 0
    }

    /// Whether nobody but the administrator reads it.
    #[inline]
    pub(crate) fn is_secret(&self) -> bool {
        self.kind & SECRET != 0
    }

    /// Appends the attribute with these encoded values. False, and nothing appended, where description and values are
    /// too long for it.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>, values: &[u8]) -> bool {
        let ready_len = usize::from(self.ready_len);
        // Without the first tag and length.
        let content_len = (ready_len + values.len()).wrapping_sub(2);
        if ready_len == 0 || content_len >= 0x80 {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&self.ready);
        out.truncate(start + ready_len);
        if let [_, sequence_len, .., set_len] = &mut out[start..] {
            *sequence_len = content_len as u8;
            *set_len = values.len() as u8;
        }
        out.extend_from_slice(values);
        true
    }
}

#[cfg(test)]
mod tests {
    use ldap::response::put_encoded_attribute;

    use super::*;

    #[test]
    fn ready_heads_say_what_others_say() {
        for name_len in [1, 2, 11, 23, 24, 25, 26, 100, 127, 128, 300] {
            let name = "n".repeat(name_len);
            let mut encoded_name = Vec::new();
            ber::put_element(&mut encoded_name, Tag::OCTET_STRING, name.as_bytes());
            let head = AttributeHead::new(&encoded_name, false, false, false);
            assert_eq!(AttributeHead::new(&encoded_name, false, false, true).ready_len, 0);
            assert_eq!(head.ready_len > 0, name_len <= 24);
            for values_len in (0..300).chain([65_535, 65_536]) {
                let values = vec![7; values_len];
                let (mut expected, mut found) = (b"before".to_vec(), b"before".to_vec());
                put_encoded_attribute(&mut expected, &encoded_name, &values);
                let is_short = name_len <= 24 && 2 + name_len + 2 + values_len < 0x80;
                assert_eq!(head.put(&mut found, &values), is_short, "{name_len} {values_len}");
                assert_eq!(
                    found,
                    if is_short { &expected[..] } else { b"before" },
                    "{name_len} {values_len}"
                );
            }
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        for (operational, secret) in [(false, false), (false, true), (true, false), (true, true)] {
            let head = AttributeHead::new(b"\x04\x01a", operational, secret, false);
            assert_eq!((head.is_operational(), head.is_secret()), (operational, secret));
        }
        assert_eq!(size_of::<AttributeHead>(), 32);
    }
}
