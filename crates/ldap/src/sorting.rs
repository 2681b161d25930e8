//! The values of the server-side sorting controls (RFC 2891 sections 1.1 and 1.2).

use ber::{Reader, Tag, Writer};

use crate::control::{sequence, text};
use crate::limits::SORT_KEYS_MAX;
use crate::result_code::ResultCode;

const RULE: Tag = Tag::context(0);
const REVERSE: Tag = Tag::context(1);
const ATTRIBUTE: Tag = Tag::context(0);

/// Sort key of a search. The first key is the most significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey<'a> {
    /// The attribute description.
    pub attribute: &'a str,
    /// Name or OID of the matching rule; `None` for the attribute's own rule.
    pub rule: Option<&'a str>,
    /// Whether to sort in descending order.
    pub reverse: bool,
}

impl<'a> SortKey<'a> {
    /// Decodes the value of a request control; returns `None` if it is malformed or has no key. Returns at most
    /// [`SORT_KEYS_MAX`] + 1 keys, so that the caller can detect a longer list.
    pub fn decode_list(value: &'a [u8]) -> Option<Vec<SortKey<'a>>> {
        let mut reader = Reader::new(value);
        let mut list = reader.sequence(Tag::SEQUENCE).ok()?;
        let mut keys = Vec::new();
        while !list.is_empty() {
            let mut fields = list.sequence(Tag::SEQUENCE).ok()?;
            let attribute = text(fields.octet_string().ok()?)?;
            let rule = match fields.optional(RULE).ok()? {
                Some(rule) => Some(text(rule)?),
                None => None,
            };
            let reverse = fields.peek_tag() == Some(REVERSE) && fields.boolean_tagged(REVERSE).ok()?;
            if !fields.is_empty() {
                return None;
            }
            if keys.len() <= SORT_KEYS_MAX {
                keys.push(SortKey { attribute, rule, reverse });
            }
        }
        (reader.is_empty() && !keys.is_empty()).then_some(keys)
    }

    /// Encodes the value of a request control.
    pub fn encode_list(keys: &[SortKey<'_>]) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let list = writer.begin(Tag::SEQUENCE);
        for key in keys {
            let fields = writer.begin(Tag::SEQUENCE);
            writer.octet_string(key.attribute.as_bytes());
            if let Some(rule) = key.rule {
                writer.element(RULE, rule.as_bytes());
            }
            if key.reverse {
                writer.element(REVERSE, &[0xff]);
            }
            writer.end(fields);
        }
        writer.end(list);
        value
    }
}

/// Sort response control value (RFC 2891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortResult<'a> {
    /// Result of the sort; success if the results are sorted.
    pub code: ResultCode,
    /// The first attribute by which the results cannot be sorted.
    pub attribute: Option<&'a str>,
}

impl<'a> SortResult<'a> {
    /// Decodes the value of a response control; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<SortResult<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let code = ResultCode(u32::try_from(fields.enumerated().ok()?).ok()?);
        let attribute = match fields.optional(ATTRIBUTE).ok()? {
            Some(attribute) => Some(text(attribute)?),
            None => None,
        };
        (reader.is_empty() && fields.is_empty()).then_some(SortResult { code, attribute })
    }

    /// Encodes the value of a response control.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.enumerated(i64::from(self.code.0));
            if let Some(attribute) = self.attribute {
                writer.element(ATTRIBUTE, attribute.as_bytes());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sort_keys_have_the_specified_encoding() {
        let by = |attribute, rule, reverse| SortKey { attribute, rule, reverse };
        let cases: [(&[SortKey<'_>], &[u8]); 3] = [
            (&[by("cn", None, false)], &[0x30, 6, 0x30, 4, 4, 2, b'c', b'n']),
            (&[by("cn", None, true)], &[0x30, 9, 0x30, 7, 4, 2, b'c', b'n', 0x81, 1, 0xff]),
            (
                &[by("a", Some("r"), true), by("b", None, false)],
                &[0x30, 16, 0x30, 9, 4, 1, b'a', 0x80, 1, b'r', 0x81, 1, 0xff, 0x30, 3, 4, 1, b'b'],
            ),
        ];
        for (keys, encoded) in cases {
            assert_eq!(SortKey::encode_list(keys), encoded, "{keys:?}");
            assert_eq!(SortKey::decode_list(encoded).as_deref(), Some(keys));
        }
        // FALSE is the default, but clients send it explicitly.
        let told = [0x30, 9, 0x30, 7, 4, 2, b'c', b'n', 0x81, 1, 0];
        assert_eq!(SortKey::decode_list(&told), Some(vec![by("cn", None, false)]));
        let many = SortKey::encode_list(&[by("cn", None, false); SORT_KEYS_MAX + 5]);
        assert_eq!(SortKey::decode_list(&many).map(|keys| keys.len()), Some(SORT_KEYS_MAX + 1));
    }

    #[test]
    fn rejects_malformed_lists_of_keys() {
        let cases: [&[u8]; 9] = [
            b"",
            // No keys, a key without an attribute, a key that is not a SEQUENCE.
            &[0x30, 0],
            &[0x30, 2, 0x30, 0],
            &[0x30, 4, 4, 2, b'c', b'n'],
            // An attribute that is not UTF-8, octets after the key and after the list, fields in the wrong order, an
            // invalid BOOLEAN.
            &[0x30, 5, 0x30, 3, 4, 1, 0xff],
            &[0x30, 8, 0x30, 6, 4, 2, b'c', b'n', 5, 0],
            &[0x30, 6, 0x30, 4, 4, 2, b'c', b'n', 0],
            &[0x30, 12, 0x30, 10, 4, 2, b'c', b'n', 0x81, 1, 0xff, 0x80, 1, b'r'],
            &[0x30, 10, 0x30, 8, 4, 2, b'c', b'n', 0x81, 2, 0, 0],
        ];
        for value in cases {
            assert_eq!(SortKey::decode_list(value), None, "{value:02x?}");
        }
    }

    #[test]
    fn sort_results_have_the_specified_encoding() {
        let cases: [(u32, Option<&str>, &[u8]); 2] =
            [(0, None, &[0x30, 3, 10, 1, 0]), (16, Some("x"), &[0x30, 6, 10, 1, 16, 0x80, 1, b'x'])];
        for (code, attribute, encoded) in cases {
            let result = SortResult { code: ResultCode(code), attribute };
            assert_eq!(result.encode(), encoded);
            assert_eq!(SortResult::decode(encoded), Some(result));
        }
        for value in [&b""[..], &[0x30, 0], &[0x30, 3, 10, 1, 0xff], &[0x30, 3, 10, 1, 0, 0]] {
            assert_eq!(SortResult::decode(value), None, "{value:02x?}");
        }
    }
}
