//! Values of Refresh, the extended operation that extends the life of a dynamic entry (RFC 2589 section 4).

use ber::{Reader, Tag, put_element, put_integer};

const ENTRY: Tag = Tag::context(0);
const TTL: Tag = Tag::context(1);

/// Value of a Refresh request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRequest<'a> {
    /// DN of the dynamic entry.
    pub entry: &'a str,
    /// Requested time to live of the entry in seconds. A number outside the range of `u32` becomes the minimum or
    /// maximum of this range.
    pub ttl_seconds: u32,
}

impl<'a> RefreshRequest<'a> {
    /// Decodes a request value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<RefreshRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let entry = std::str::from_utf8(fields.element(ENTRY).ok()?).ok()?;
        let ttl = fields.integer_tagged(TTL).ok()?.max(0);
        let ttl_seconds = u32::try_from(ttl).unwrap_or(u32::MAX);
        (reader.is_empty() && fields.is_empty()).then_some(RefreshRequest { entry, ttl_seconds })
    }

    /// Returns the request value.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        put_element(&mut fields, ENTRY, self.entry.as_bytes());
        put_integer(&mut fields, TTL, self.ttl_seconds.into());
        sequence_of(&fields)
    }
}

/// Returns the response value: the time in seconds that the server chose.
pub fn refreshed_value(ttl_seconds: u32) -> Vec<u8> {
    let mut fields = Vec::new();
    put_integer(&mut fields, TTL, ttl_seconds.into());
    sequence_of(&fields)
}

fn sequence_of(fields: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_element(&mut out, Tag::SEQUENCE, fields);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_encoding_of_the_rfc() {
        let request = RefreshRequest { entry: "cn=a", ttl_seconds: 86_400 };
        let bytes = b"\x30\x0b\x80\x04cn=a\x81\x03\x01\x51\x80";
        assert_eq!(request.encode(), bytes);
        assert_eq!(RefreshRequest::decode(bytes), Some(request));
        assert_eq!(refreshed_value(128), b"\x30\x04\x81\x02\x00\x80");
        for (value, number) in
            [(&b"\x30\x06\x80\x01a\x81\x01\xff"[..], 0), (b"\x30\x0a\x80\x01a\x81\x05\x01\0\0\0\0", u32::MAX)]
        {
            assert_eq!(RefreshRequest::decode(value).map(|of| of.ttl_seconds), Some(number));
        }
        for bad in [&b""[..], b"\x30\x00", b"\x30\x06\x80\x04cn=a", b"\x30\x05\x80\x01a\x81\x00"] {
            assert_eq!(RefreshRequest::decode(bad), None);
        }
    }
}
