//! Finding the end of a message in a stream of octets.

use crate::reader::Header;
use crate::{BerError, Tag};

/// Returns the size in octets, header included, of the message at the start of `bytes`; `None` if its header is
/// incomplete. `bytes` may contain a part of the message, all of it, or more.
///
/// Only the header is read, so a caller can refuse an announced length before it buffers any content. Every LDAP
/// message is a SEQUENCE (RFC 4511 section 4.1.1), so any other first octet, such as that of a TLS ClientHello, is
/// refused immediately.
///
/// # Errors
/// [`BerError::UnexpectedTag`] if the first octet is not the tag of a SEQUENCE; otherwise an error of the length.
pub fn read_frame_len(bytes: &[u8]) -> Result<Option<usize>, BerError> {
    match bytes.first() {
        None => return Ok(None),
        Some(&tag) if Tag(tag) != Tag::SEQUENCE => {
            return Err(BerError::UnexpectedTag { expected: Tag::SEQUENCE, found: Tag(tag) });
        }
        Some(_) => {}
    }
    Ok(Header::read(bytes)?.map(|header| header.header_len + header.content_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_lengths_are_read_from_headers() {
        let check = |bytes: &[u8], expected: Result<Option<usize>, BerError>| {
            assert_eq!(read_frame_len(bytes), expected, "{bytes:02x?}");
        };
        check(&[], Ok(None));
        check(&[0x30], Ok(None));
        check(&[0x30, 0x05], Ok(Some(7)));
        check(&[0x30, 0x05, 1, 2, 3, 4, 5, 6, 7, 8], Ok(Some(7)));
        check(&[0x30, 0x82, 0x01], Ok(None));
        check(&[0x30, 0x82, 0x01, 0x00], Ok(Some(260)));
        check(&[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff], Ok(Some(0x7fff_ffff + 6)));
        check(&[0x30, 0x84, 0x80, 0x00, 0x00, 0x00], Err(BerError::LengthTooLarge));
        check(&[0x30, 0x8f, 1, 1, 1, 1, 1], Err(BerError::LengthTooLarge));
        check(&[0x30, 0x80], Err(BerError::IndefiniteLength));
        check(&[0x30, 0xff], Err(BerError::ReservedLength));
        let found = Tag(0x16);
        check(&[0x16, 0x03], Err(BerError::UnexpectedTag { expected: Tag::SEQUENCE, found }));
    }
}
