//! Finding where a message ends in a stream of octets.

use crate::reader::Header;
use crate::{BerError, Tag};

/// The length in octets, header included, of the message that starts `bytes`, as soon as its header is there; `None`
/// while it is not. `bytes` may hold part of the message, all of it, or more.
///
/// The header alone decides, so a caller can refuse an announced length before it buffers a single octet of content.
/// Every LDAP message is a SEQUENCE (RFC 4511 section 4.1.1): anything else on the first octet, a TLS ClientHello
/// for one, is refused at once.
///
/// # Errors
/// [`BerError::UnexpectedTag`] when the first octet is no SEQUENCE; else what is wrong with the length.
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
    fn frame_lengths() {
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
