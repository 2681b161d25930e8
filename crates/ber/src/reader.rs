//! Reading: a cursor that returns slices of its input.

use crate::{BerError, CONTENT_LEN_MAX, Tag};

/// A cursor over a series of elements. A copy of the cursor is cheap, because it refers to the same input.
///
/// Each method reads the next element and advances past it. After an error the position is unspecified; stop reading.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, a series of zero or more elements.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// Returns true if everything was read.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the unread octets.
    pub const fn remaining(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the tag of the next element, or `None` at the end.
    pub fn peek_tag(&self) -> Option<Tag> {
        self.bytes.first().copied().map(Tag)
    }

    /// Reads the next element, of any tag, and returns its tag and content.
    ///
    /// # Errors
    /// The header has an invalid length or tag, or [`BerError::Truncated`].
    #[inline]
    pub fn any(&mut self) -> Result<(Tag, &'a [u8]), BerError> {
        // Fast path: nearly all elements of nearly all messages are shorter than 128 octets.
        if let [tag, content_len @ 0..0x80, rest @ ..] = self.bytes
            && !Tag(*tag).is_high_number()
        {
            let (content, rest) =
                rest.split_at_checked(usize::from(*content_len)).ok_or(BerError::Truncated)?;
            self.bytes = rest;
            return Ok((Tag(*tag), content));
        }
        self.any_long()
    }

    fn any_long(&mut self) -> Result<(Tag, &'a [u8]), BerError> {
        let Header { tag, header_len, content_len } = Header::read(self.bytes)?.ok_or(BerError::Truncated)?;
        let rest = self.bytes.get(header_len..).ok_or(BerError::Truncated)?;
        let (content, rest) = rest.split_at_checked(content_len).ok_or(BerError::Truncated)?;
        self.bytes = rest;
        Ok((tag, content))
    }

    /// Reads the next element, of any tag, and returns its tag and the whole element with its header.
    ///
    /// # Errors
    /// Those of [`any`](Self::any).
    pub fn any_whole(&mut self) -> Result<(Tag, &'a [u8]), BerError> {
        let before = self.bytes;
        let (tag, _) = self.any()?;
        let (whole, _) = before.split_at(before.len() - self.bytes.len());
        Ok((tag, whole))
    }

    /// Reads an element that must have this tag and returns its content.
    ///
    /// # Errors
    /// [`BerError::UnexpectedTag`], or those of [`any`](Self::any).
    #[inline]
    pub fn element(&mut self, expected: Tag) -> Result<&'a [u8], BerError> {
        let (found, content) = self.any()?;
        if found == expected { Ok(content) } else { Err(BerError::UnexpectedTag { expected, found }) }
    }

    /// Reads an OPTIONAL component: reads the next element if it has this tag; otherwise returns `None` and does not
    /// advance.
    ///
    /// # Errors
    /// Those of [`any`](Self::any), if the tag matches.
    pub fn optional(&mut self, expected: Tag) -> Result<Option<&'a [u8]>, BerError> {
        if self.peek_tag() == Some(expected) { self.element(expected).map(Some) } else { Ok(None) }
    }

    /// Reads a constructed element that must have this tag and returns a reader over its components.
    ///
    /// # Errors
    /// Those of [`element`](Self::element).
    #[inline]
    pub fn sequence(&mut self, expected: Tag) -> Result<Reader<'a>, BerError> {
        self.element(expected).map(Reader::new)
    }

    /// Reads an OCTET STRING.
    ///
    /// # Errors
    /// Those of [`element`](Self::element).
    #[inline]
    pub fn octet_string(&mut self) -> Result<&'a [u8], BerError> {
        self.element(Tag::OCTET_STRING)
    }

    /// Reads an INTEGER of at most 64 bits.
    ///
    /// # Errors
    /// [`BerError::BadInteger`], or those of [`element`](Self::element).
    pub fn integer(&mut self) -> Result<i64, BerError> {
        self.element(Tag::INTEGER).and_then(integer_content)
    }

    /// Reads an ENUMERATED of at most 64 bits.
    ///
    /// # Errors
    /// Those of [`integer`](Self::integer).
    pub fn enumerated(&mut self) -> Result<i64, BerError> {
        self.element(Tag::ENUMERATED).and_then(integer_content)
    }

    /// Reads an INTEGER that carries an implicit tag.
    ///
    /// # Errors
    /// Those of [`integer`](Self::integer).
    pub fn integer_tagged(&mut self, expected: Tag) -> Result<i64, BerError> {
        self.element(expected).and_then(integer_content)
    }

    /// Reads a BOOLEAN. Any octet except zero is TRUE (X.690 section 8.2.2). RFC 4511 section 5.1 requires that
    /// encoders send 0xFF, but all established servers accept other octets too.
    ///
    /// # Errors
    /// [`BerError::BadBoolean`], or those of [`element`](Self::element).
    pub fn boolean(&mut self) -> Result<bool, BerError> {
        self.boolean_tagged(Tag::BOOLEAN)
    }

    /// Reads a BOOLEAN that carries an implicit tag.
    ///
    /// # Errors
    /// Those of [`boolean`](Self::boolean).
    pub fn boolean_tagged(&mut self, expected: Tag) -> Result<bool, BerError> {
        match self.element(expected)? {
            [octet] => Ok(*octet != 0),
            _ => Err(BerError::BadBoolean),
        }
    }

    /// Reads an element that must have this tag and no content: a NULL, plain or implicitly tagged.
    ///
    /// # Errors
    /// [`BerError::BadNull`], or those of [`element`](Self::element).
    pub fn null_tagged(&mut self, expected: Tag) -> Result<(), BerError> {
        if self.element(expected)?.is_empty() { Ok(()) } else { Err(BerError::BadNull) }
    }

    /// Skips the rest of the input, and checks that it consists of elements. Call this for the unknown components at
    /// the end of an extensible SEQUENCE, because RFC 4511 section 4 requires that these components are ignored.
    ///
    /// # Errors
    /// Those of [`any`](Self::any).
    pub fn skip_rest(&mut self) -> Result<(), BerError> {
        while !self.is_empty() {
            self.any()?;
        }
        Ok(())
    }
}

/// Header of an element.
pub(crate) struct Header {
    pub(crate) tag: Tag,
    /// Size of tag and length in octets.
    pub(crate) header_len: usize,
    pub(crate) content_len: usize,
}

impl Header {
    /// Reads the header at the start of `bytes`; returns `None` if the header is incomplete. A length in more octets
    /// than needed is accepted: BER allows it (X.690 section 8.1.3.5 note 2), and Windows clients always send four
    /// length octets.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Header>, BerError> {
        let Some(&tag) = bytes.first() else { return Ok(None) };
        let tag = Tag(tag);
        if tag.is_high_number() {
            return Err(BerError::HighTagNumber);
        }
        match bytes.get(1) {
            None => Ok(None),
            Some(&octet) if octet < 0x80 => {
                Ok(Some(Header { tag, header_len: 2, content_len: usize::from(octet) }))
            }
            Some(&octet) => Header::read_long(tag, octet, bytes.get(2..).unwrap_or_default()),
        }
    }

    /// Reads a length in the long form. `first` is the octet with the number of length octets. `after` is the input
    /// after that octet.
    fn read_long(tag: Tag, first: u8, after: &[u8]) -> Result<Option<Header>, BerError> {
        let octet_count = match first {
            0x80 => return Err(BerError::IndefiniteLength),
            0xff => return Err(BerError::ReservedLength),
            octet => usize::from(octet & 0x7f),
        };
        let mut content_len: usize = 0;
        for octet in after.iter().take(octet_count) {
            if content_len > CONTENT_LEN_MAX >> 8 {
                return Err(BerError::LengthTooLarge);
            }
            content_len = content_len << 8 | usize::from(*octet);
        }
        // Checked even if some length octets are missing, because further octets cannot make the length smaller.
        if content_len > CONTENT_LEN_MAX {
            return Err(BerError::LengthTooLarge);
        }
        let complete = after.len() >= octet_count;
        Ok(complete.then_some(Header { tag, header_len: 2 + octet_count, content_len }))
    }
}

/// Returns the number in the content of an INTEGER or ENUMERATED: two's complement, at most 64 bits.
///
/// X.690 section 8.3.2 forbids leading octets that only repeat the sign. Clients send them (`02 04 00 00 00 01`) and
/// other servers accept them, so they are skipped. The remaining octets must fit.
///
/// # Errors
/// [`BerError::BadInteger`].
pub fn integer_content(content: &[u8]) -> Result<i64, BerError> {
    match content {
        [] => Err(BerError::BadInteger),
        // The usual case: one octet.
        [only] => Ok(i64::from(*only as i8)),
        [first, rest @ ..] if content.len() <= size_of::<i64>() => {
            let sign_extended = i64::from(*first as i8);
            Ok(rest.iter().fold(sign_extended, |value, octet| value << 8 | i64::from(*octet)))
        }
        _ => longer_integer_content(content),
    }
}

/// Does the same as [`integer_content`] for more than eight octets: all except the last eight must repeat the sign.
#[cold]
fn longer_integer_content(content: &[u8]) -> Result<i64, BerError> {
    let (extension, number) = content.split_last_chunk::<8>().ok_or(BerError::BadInteger)?;
    let value = i64::from_be_bytes(*number);
    let sign = if value < 0 { 0xff } else { 0x00 };
    if extension.iter().all(|octet| *octet == sign) { Ok(value) } else { Err(BerError::BadInteger) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_slices() {
        let bytes = [0x30, 0x06, 0x02, 0x01, 0x05, 0x04, 0x01, b'x', 0x05, 0x00];
        let mut outer = Reader::new(&bytes);
        let mut inner = outer.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(inner.integer(), Ok(5));
        assert_eq!(inner.peek_tag(), Some(Tag::OCTET_STRING));
        assert_eq!(inner.any_whole(), Ok((Tag::OCTET_STRING, &[0x04, 0x01, b'x'][..])));
        assert!(inner.is_empty());
        assert_eq!(inner.peek_tag(), None);
        assert_eq!(outer.null_tagged(Tag::NULL), Ok(()));
        assert_eq!(outer.any(), Err(BerError::Truncated));
    }

    #[test]
    fn headers_decode_or_are_refused() {
        let check = |bytes: &[u8], expected: Result<(Tag, &[u8]), BerError>| {
            assert_eq!(Reader::new(bytes).any(), expected, "{bytes:02x?}");
        };
        check(&[0x04, 0x00], Ok((Tag::OCTET_STRING, b"")));
        // BER allows longer forms of a length than needed.
        check(&[0x04, 0x81, 0x01, b'a'], Ok((Tag::OCTET_STRING, b"a")));
        check(&[0x04, 0x84, 0, 0, 0, 1, b'a'], Ok((Tag::OCTET_STRING, b"a")));
        check(&[0x04, 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'a'], Ok((Tag::OCTET_STRING, b"a")));
        check(&[], Err(BerError::Truncated));
        check(&[0x04], Err(BerError::Truncated));
        check(&[0x04, 0x02, b'a'], Err(BerError::Truncated));
        check(&[0x04, 0x82, 0x01], Err(BerError::Truncated));
        check(&[0x04, 0x84, 0x7f, 0xff, 0xff, 0xff, b'a'], Err(BerError::Truncated));
        check(&[0x04, 0x80, b'a', 0, 0], Err(BerError::IndefiniteLength));
        check(&[0x04, 0xff], Err(BerError::ReservedLength));
        check(&[0x04, 0x84, 0x80, 0, 0, 0], Err(BerError::LengthTooLarge));
        check(&[0x04, 0x85, 1, 0, 0, 0, 0], Err(BerError::LengthTooLarge));
        check(&[0x04, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Err(BerError::LengthTooLarge));
        check(&[0x1f, 0x01, 0x00], Err(BerError::HighTagNumber));
        check(&[0xbf, 0x81], Err(BerError::HighTagNumber));
    }

    #[test]
    fn integers_decode_or_are_refused() {
        let check = |content: &[u8], expected: Result<i64, BerError>| {
            let mut bytes = vec![0x02, content.len() as u8];
            bytes.extend_from_slice(content);
            assert_eq!(Reader::new(&bytes).integer(), expected, "{content:02x?}");
        };
        check(&[0x00], Ok(0));
        check(&[0x7f], Ok(127));
        check(&[0x00, 0x80], Ok(128));
        check(&[0x80], Ok(-128));
        check(&[0xff], Ok(-1));
        check(&[0xff, 0x7f], Ok(-129));
        check(&[0x7f, 0xff, 0xff, 0xff], Ok(i64::from(i32::MAX)));
        check(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Ok(i64::MAX));
        check(&[0x80, 0, 0, 0, 0, 0, 0, 0], Ok(i64::MIN));
        check(&[], Err(BerError::BadInteger));
        // Leading octets that only repeat the sign.
        check(&[0, 0, 0, 1], Ok(1));
        check(&[0x00, 0x7f], Ok(127));
        check(&[0xff, 0x80], Ok(-128));
        check(&[0xff, 0xff, 0xff, 0xff], Ok(-1));
        check(&[0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Ok(i64::MAX));
        check(&[0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0], Ok(i64::MIN));
        check(&[0; 100], Ok(0));
        check(&[0xff; 100], Ok(-1));
        // More than 64 bits.
        check(&[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Err(BerError::BadInteger));
        check(&[0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Err(BerError::BadInteger));
        check(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0], Err(BerError::BadInteger));
        check(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0], Err(BerError::BadInteger));
    }

    #[test]
    fn booleans_and_nulls_decode_or_are_refused() {
        assert_eq!(Reader::new(&[1, 1, 0]).boolean(), Ok(false));
        assert_eq!(Reader::new(&[1, 1, 0xff]).boolean(), Ok(true));
        assert_eq!(Reader::new(&[1, 1, 1]).boolean(), Ok(true));
        assert_eq!(Reader::new(&[1, 0]).boolean(), Err(BerError::BadBoolean));
        assert_eq!(Reader::new(&[1, 2, 0, 0]).boolean(), Err(BerError::BadBoolean));
        assert_eq!(Reader::new(&[0x84, 1, 7]).boolean_tagged(Tag::context(4)), Ok(true));
        assert_eq!(Reader::new(&[5, 1, 0]).null_tagged(Tag::NULL), Err(BerError::BadNull));
    }

    #[test]
    fn optional_does_not_consume_another_element() {
        let bytes = [0x81, 0x01, b'a', 0x82, 0x01, b'b'];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.optional(Tag::context(0)), Ok(None));
        assert_eq!(reader.optional(Tag::context(1)), Ok(Some(&b"a"[..])));
        let expected = Tag::context(3);
        assert_eq!(
            reader.element(expected),
            Err(BerError::UnexpectedTag { expected, found: Tag::context(2) })
        );
    }

    #[test]
    fn skipped_elements_are_checked() {
        assert_eq!(Reader::new(&[0x04, 0x00, 0x05, 0x00]).skip_rest(), Ok(()));
        assert_eq!(Reader::new(&[0x04, 0x00, 0x05]).skip_rest(), Err(BerError::Truncated));
    }
}
