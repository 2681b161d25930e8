//! Values of Pando's extended operation by which a replica copies the data of its supplier; see
//! `docs/reference/replica-protocol.md`. Request and response:
//!
//! ```text
//! SEQUENCE { copy OCTET STRING, offset INTEGER }
//! SEQUENCE { copy OCTET STRING, total INTEGER, part CHOICE {
//!            making [0] NULL, data [1] OCTET STRING, end [2] OCTET STRING } }
//! ```

use ber::{Reader, Tag};

use crate::control::sequence;

const MAKING: Tag = Tag::context(0);
const DATA: Tag = Tag::context(1);
const END: Tag = Tag::context(2);

/// Request for a part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRequest<'a> {
    /// Name of the copy, from an earlier response; empty for a new copy.
    pub copy: &'a [u8],
    /// Number of bytes of the copy that the replica has.
    pub offset: u64,
}

/// Answer to a [`CopyRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyAnswer<'a> {
    /// Name of the copy. If it differs from the name in the request, the requested copy no longer exists, and the
    /// replica starts again with this copy.
    pub copy: &'a [u8],
    /// Size of the whole copy in bytes; 0 while it is being made.
    pub total: u64,
    /// Content.
    pub part: CopyPart<'a>,
}

/// Content of a [`CopyAnswer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPart<'a> {
    /// The copy is being made; the replica repeats the request.
    Making,
    /// Compressed bytes of the copy (Zstandard, RFC 8878): from the offset of the request, or from the beginning if the
    /// copy is not the requested copy.
    Data(&'a [u8]),
    /// End of the copy, with the SHA-256 of all bytes of the copy.
    End(&'a [u8]),
}

impl<'a> CopyRequest<'a> {
    /// Decodes a request value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<CopyRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let copy = fields.octet_string().ok()?;
        let offset = u64::try_from(fields.integer().ok()?).ok()?;
        (reader.is_empty() && fields.is_empty()).then_some(CopyRequest { copy, offset })
    }

    /// Returns the request value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(self.copy);
            writer.integer(i64::try_from(self.offset).unwrap_or(i64::MAX));
        })
    }
}

impl<'a> CopyAnswer<'a> {
    /// Decodes a response value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<CopyAnswer<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let copy = fields.octet_string().ok()?;
        let total = u64::try_from(fields.integer().ok()?).ok()?;
        let part = match fields.any().ok()? {
            (MAKING, []) => CopyPart::Making,
            (DATA, bytes) => CopyPart::Data(bytes),
            (END, digest) => CopyPart::End(digest),
            _ => return None,
        };
        (reader.is_empty() && fields.is_empty()).then_some(CopyAnswer { copy, total, part })
    }

    /// Returns the response value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(self.copy);
            writer.integer(i64::try_from(self.total).unwrap_or(i64::MAX));
            match self.part {
                CopyPart::Making => writer.element(MAKING, b""),
                CopyPart::Data(bytes) => writer.element(DATA, bytes),
                CopyPart::End(digest) => writer.element(END, digest),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_back() {
        for request in [CopyRequest { copy: b"", offset: 0 }, CopyRequest { copy: &[7; 16], offset: 1 << 40 }]
        {
            let bytes = request.encode();
            assert_eq!(CopyRequest::decode(&bytes), Some(request));
            assert_eq!(CopyRequest::decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(CopyRequest::decode(b"\x30\x05\x04\x00\x02\x01\xff"), None, "a negative offset");
        for part in [CopyPart::Making, CopyPart::Data(b"data"), CopyPart::End(b"digest")] {
            let answer = CopyAnswer { copy: b"name", total: 9, part };
            let bytes = answer.encode();
            assert_eq!(CopyAnswer::decode(&bytes), Some(answer));
            for end in 0..bytes.len() {
                assert_eq!(CopyAnswer::decode(&bytes[..end]), None, "{part:?} {end}");
            }
        }
    }
}
