//! The value of the simple paged results control (RFC 2696 section 2). The value has the same form in requests and
//! responses.

use ber::{Reader, Tag, Writer};

/// Maximum page size and estimate (maxInt of RFC 4511 section 4.1.1).
const SIZE_MAX: u32 = i32::MAX as u32;

/// Paged results control value: page request of a client, or a server's description of the page it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedResults<'a> {
    /// In a request, the maximum number of entries of the page; 0 ends the sequence of pages. In a response, an
    /// estimate of the number of entries of all pages, or 0 if unknown. At most 2147483647.
    pub size: u32,
    /// In a request, the start of the page: empty for the first page, otherwise the cookie of the last response. In a
    /// response, empty on the last page.
    pub cookie: &'a [u8],
}

impl<'a> PagedResults<'a> {
    /// Decodes a control's value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<PagedResults<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let size = fields.integer().ok()?;
        let cookie = fields.octet_string().ok()?;
        let size = u32::try_from(size).ok().filter(|size| *size <= SIZE_MAX)?;
        (reader.is_empty() && fields.is_empty()).then_some(PagedResults { size, cookie })
    }

    /// Encodes the value, to put into a control. A size that is too large is replaced by the maximum.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.cookie.len() + 16);
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.integer(i64::from(self.size.min(SIZE_MAX)));
        writer.octet_string(self.cookie);
        writer.end(fields);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_specified_encoding() {
        let long = [7; 300];
        let cases: [(u32, &[u8], &[u8]); 4] = [
            (0, b"", &[0x30, 5, 2, 1, 0, 4, 0]),
            (100, b"ab", &[0x30, 7, 2, 1, 100, 4, 2, b'a', b'b']),
            (1_000, b"", &[0x30, 6, 2, 2, 3, 0xe8, 4, 0]),
            (SIZE_MAX, b"", &[0x30, 8, 2, 4, 0x7f, 0xff, 0xff, 0xff, 4, 0]),
        ];
        for (size, cookie, encoded) in cases {
            let value = PagedResults { size, cookie };
            assert_eq!(value.encode(), encoded, "{value:?}");
            assert_eq!(PagedResults::decode(encoded), Some(value));
        }
        let value = PagedResults { size: 1, cookie: &long };
        assert_eq!(PagedResults::decode(&value.encode()), Some(value));
        let largest = PagedResults { size: u32::MAX, cookie: b"" }.encode();
        assert_eq!(PagedResults::decode(&largest), Some(PagedResults { size: SIZE_MAX, cookie: b"" }));
    }

    #[test]
    fn rejects_malformed_values() {
        let cases: [&[u8]; 11] = [
            b"",
            &[0x30, 0],
            // Invalid values: no cookie, no size, fields in the wrong order.
            &[0x30, 3, 2, 1, 1],
            &[0x30, 2, 4, 0],
            &[0x30, 5, 4, 0, 2, 1, 1],
            // Invalid sizes: -1, 2^31, and a size of nine octets.
            &[0x30, 5, 2, 1, 0xff, 4, 0],
            &[0x30, 9, 2, 5, 0, 0x80, 0, 0, 0, 4, 0],
            &[0x30, 13, 2, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0],
            // Invalid values: octets after the cookie, octets after the sequence, a truncated cookie.
            &[0x30, 7, 2, 1, 1, 4, 0, 5, 0],
            &[0x30, 5, 2, 1, 1, 4, 0, 0],
            &[0x30, 5, 2, 1, 1, 4, 1],
        ];
        for value in cases {
            assert_eq!(PagedResults::decode(value), None, "{value:02x?}");
        }
    }
}
