//! Values of the controls that count the results of a search instead of returning them: Search No-Op of OpenLDAP, and
//! Matching Entry Count of UnboundID.

use ber::{Reader, Tag};

use crate::ResultCode;
use crate::control::sequence;

const EXAMINED_COUNT: Tag = Tag::context(0);

/// Encodes the value of the Search No-Op response: result code, number of entries, number of references.
pub fn encode_search_no_op(code: ResultCode, entries: u64, references: u64) -> Vec<u8> {
    sequence(|writer| {
        writer.integer(code.0.into());
        writer.integer(limited(entries));
        writer.integer(limited(references));
    })
}

/// Decodes the value of the Search No-Op response: result code, number of entries, number of references. Returns `None`
/// if the value is malformed.
pub fn decode_search_no_op(value: &[u8]) -> Option<(ResultCode, u64, u64)> {
    let mut reader = Reader::new(value);
    let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
    let code = ResultCode(u32::try_from(fields.integer().ok()?).ok()?);
    let mut count = || u64::try_from(fields.integer().ok()?).ok();
    let (entries, references) = (count()?, count()?);
    (reader.is_empty() && fields.is_empty()).then_some((code, entries, references))
}

/// Encodes the value of the Matching Entry Count response for an exact count: the server has examined each of the
/// `entries`.
pub fn encode_entry_count(entries: u64) -> Vec<u8> {
    sequence(|writer| {
        let mut number = Vec::new();
        ber::Writer::new(&mut number).integer(limited(entries));
        let content = Reader::new(&number).element(Tag::INTEGER).unwrap_or_default();
        writer.element(EXAMINED_COUNT, content);
    })
}

/// Returns true if `value` is a value of the Matching Entry Count request: integers and booleans with ascending context
/// tags. These fields limit how much the server may examine. This server ignores the limits and always counts exactly.
pub fn is_entry_count_request(value: &[u8]) -> bool {
    let mut reader = Reader::new(value);
    let Ok(mut fields) = reader.sequence(Tag::SEQUENCE) else { return false };
    // Fields in order: maximum number of candidates to examine, four booleans, two thresholds, one boolean.
    for (number, is_boolean) in (0..).zip([false, true, true, true, true, false, false, true]) {
        let tag = Tag::context(number);
        if fields.peek_tag() != Some(tag) {
            continue;
        }
        let is_valid =
            if is_boolean { fields.boolean_tagged(tag).is_ok() } else { fields.integer_tagged(tag).is_ok() };
        if !is_valid {
            return false;
        }
    }
    fields.is_empty() && reader.is_empty()
}

fn limited(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_specified_encoding() {
        let no_op = encode_search_no_op(ResultCode::SIZE_LIMIT_EXCEEDED, 300, 2);
        assert_eq!(no_op, [0x30, 10, 2, 1, 4, 2, 2, 1, 44, 2, 1, 2]);
        assert_eq!(decode_search_no_op(&no_op), Some((ResultCode::SIZE_LIMIT_EXCEEDED, 300, 2)));
        assert_eq!(decode_search_no_op(&no_op[..10]), None);
        assert_eq!(encode_entry_count(5), [0x30, 3, 0x80, 1, 5]);
        for (value, expected) in [
            (&[0x30, 0][..], true),
            (&[0x30, 9, 0x80, 1, 5, 0x81, 1, 0xff, 0x83, 1, 0], true),
            (&[0x30, 3, 0x85, 1, 5], true),
            (&[0x30, 6, 0x81, 1, 0xff, 0x80, 1, 5], false),
            (&[0x30, 3, 0x88, 1, 5], false),
            (&[0x30, 4, 0x81, 2, 5, 5], false),
            (&[0x30, 0, 0], false),
            (&[], false),
        ] {
            assert_eq!(is_entry_count_request(value), expected, "{value:02x?}");
        }
    }
}
