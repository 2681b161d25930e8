//! Writing: elements appended to a `Vec<u8>`, always in the shortest form.
//!
//! There are two styles. If the sizes are known, add them with [`element_len`] and [`integer_len`], and append with the
//! `put_*` functions. These functions write each byte once. Otherwise use [`Writer::begin`] and [`Writer::end`]. `end`
//! writes the length after the content, and has to move a content of 128 octets or more.

use crate::Tag;

/// Returns the size in octets of the tag and the shortest length for a content of `content_len` octets.
#[inline]
pub const fn header_len(content_len: usize) -> usize {
    match content_len {
        0..0x80 => 2,
        0x80..0x100 => 3,
        0x100..0x1_0000 => 4,
        0x1_0000..0x100_0000 => 5,
        _ => 6,
    }
}

/// Returns the size in octets of an element with a content of `content_len` octets.
#[inline]
pub const fn element_len(content_len: usize) -> usize {
    header_len(content_len) + content_len
}

/// Returns the size in octets of the shortest content of an INTEGER or ENUMERATED.
#[inline]
pub const fn integer_len(value: i64) -> usize {
    // One sign bit is needed in addition to the significant bits.
    let significant_bits = 64 - if value < 0 { (!value).leading_zeros() } else { value.leading_zeros() };
    significant_bits as usize / 8 + 1
}

/// Appends the tag and the shortest length of an element. The caller then appends the content. `content_len` must be at
/// most [`CONTENT_LEN_MAX`](crate::CONTENT_LEN_MAX), because a reader refuses longer content.
#[inline]
pub fn put_header(out: &mut Vec<u8>, tag: Tag, content_len: usize) {
    debug_assert!(content_len <= crate::CONTENT_LEN_MAX, "content of {content_len} octets");
    if content_len < 0x80 {
        out.extend_from_slice(&[tag.0, low_octet(content_len)]);
        return;
    }
    let octets = length_octets(content_len);
    let length_octet_count = header_len(content_len) - 2;
    out.extend_from_slice(&[tag.0, 0x80 | low_octet(length_octet_count)]);
    out.extend_from_slice(octets.get(octets.len() - length_octet_count..).unwrap_or_default());
}

/// Appends a length that takes up to four octets.
#[inline]
const fn length_octets(content_len: usize) -> [u8; 4] {
    let [.., a, b, c, d] = content_len.to_be_bytes();
    [a, b, c, d]
}

#[inline]
const fn low_octet(number: usize) -> u8 {
    let [.., low] = number.to_be_bytes();
    low
}

/// Overwrites the length in the header of `element`. The new length must take as many octets as the old length.
#[inline]
pub fn set_content_len(element: &mut [u8], content_len: usize) {
    let octets = length_octets(content_len);
    let length_octet_count = header_len(content_len) - 2;
    // A short length is at offset 1. A long length begins at offset 2, after the octet with the number of length
    // octets.
    let start = if length_octet_count == 0 { 1 } else { 2 };
    let significant = octets.get(octets.len() - length_octet_count.max(1)..).unwrap_or_default();
    if let Some(place) = element.get_mut(start..start + significant.len()) {
        place.copy_from_slice(significant);
    }
}

/// Appends an element with this content.
#[inline]
pub fn put_element(out: &mut Vec<u8>, tag: Tag, content: &[u8]) {
    put_header(out, tag, content.len());
    out.extend_from_slice(content);
}

/// Appends an INTEGER or ENUMERATED, depending on `tag`, in its shortest form.
#[inline]
pub fn put_integer(out: &mut Vec<u8>, tag: Tag, value: i64) {
    put_header(out, tag, integer_len(value));
    put_integer_content(out, value);
}

/// Appends the [`integer_len`] content octets of an INTEGER or ENUMERATED in its shortest form.
#[inline]
pub fn put_integer_content(out: &mut Vec<u8>, value: i64) {
    let octets = value.to_be_bytes();
    out.extend_from_slice(octets.get(octets.len() - integer_len(value)..).unwrap_or_default());
}

/// Appends a BOOLEAN; TRUE is 0xFF (RFC 4511 section 5.1).
#[inline]
pub fn put_boolean(out: &mut Vec<u8>, tag: Tag, value: bool) {
    put_element(out, tag, &[if value { 0xff } else { 0x00 }]);
}

/// Writer of elements whose sizes are not known in advance.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

/// Start of an open constructed element. Pass it to [`Writer::end`]. Elements must be ended in reverse order: the
/// innermost element first.
#[derive(Debug)]
#[must_use = "an element that is begun must be ended"]
pub struct Mark {
    content_start: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out }
    }

    /// Begins a constructed element. Everything appended until [`end`](Self::end) is its content.
    pub fn begin(&mut self, tag: Tag) -> Mark {
        put_header(self.out, tag, 0);
        Mark { content_start: self.out.len() }
    }

    /// Ends the innermost open element and writes its length.
    pub fn end(&mut self, mark: Mark) {
        let content_len = self.out.len() - mark.content_start;
        let length_start = mark.content_start - 1;
        let octets = length_octets(content_len);
        let length_octet_count = header_len(content_len) - 2;
        if length_octet_count == 0 {
            if let Some(octet) = self.out.get_mut(length_start) {
                *octet = low_octet(content_len);
            }
            return;
        }
        let significant = octets.iter().copied().skip(octets.len() - length_octet_count);
        let length = std::iter::once(0x80 | low_octet(length_octet_count)).chain(significant);
        self.out.splice(length_start..mark.content_start, length);
    }

    /// Appends an element with this tag and content.
    pub fn element(&mut self, tag: Tag, content: &[u8]) {
        put_element(self.out, tag, content);
    }

    /// Appends an OCTET STRING.
    pub fn octet_string(&mut self, content: &[u8]) {
        put_element(self.out, Tag::OCTET_STRING, content);
    }

    /// Appends an INTEGER.
    pub fn integer(&mut self, value: i64) {
        put_integer(self.out, Tag::INTEGER, value);
    }

    /// Appends an ENUMERATED.
    pub fn enumerated(&mut self, value: i64) {
        put_integer(self.out, Tag::ENUMERATED, value);
    }

    /// Appends a BOOLEAN.
    pub fn boolean(&mut self, value: bool) {
        put_boolean(self.out, Tag::BOOLEAN, value);
    }

    /// Appends a NULL.
    pub fn null(&mut self) {
        put_header(self.out, Tag::NULL, 0);
    }

    /// Appends elements that are encoded already.
    pub fn raw(&mut self, elements: &[u8]) {
        self.out.extend_from_slice(elements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    /// The smallest content sizes, and sizes around boundaries at which the length takes another octet.
    const CONTENT_LENS: [usize; 9] = [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, 0x100_0000];

    #[test]
    fn headers_have_the_computed_length_and_decode() {
        for content_len in CONTENT_LENS {
            let mut out = Vec::new();
            put_header(&mut out, Tag::OCTET_STRING, content_len);
            assert_eq!(out.len(), header_len(content_len));
            out.resize(out.len() + content_len, b'x');
            assert_eq!(out.len(), element_len(content_len));
            assert_eq!(Reader::new(&out).octet_string().map(<[u8]>::len), Ok(content_len));
        }
    }

    #[test]
    fn a_length_can_be_set_afterwards() {
        for (before, after) in [(0, 0x7f), (0x7f, 5), (0x80, 0xff), (0x100, 0xfedc), (0x1_0000, 0x12_3456)] {
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            put_header(&mut expected, Tag::SEQUENCE, after);
            put_header(&mut found, Tag::SEQUENCE, before);
            set_content_len(&mut found, after);
            assert_eq!(found, expected, "{before} {after}");
        }
    }

    #[test]
    fn unknown_sizes_are_encoded_like_known_sizes() {
        for content_len in CONTENT_LENS {
            let content = vec![b'x'; content_len];
            let mut known = Vec::new();
            put_header(&mut known, Tag::SEQUENCE, element_len(content_len));
            put_element(&mut known, Tag::OCTET_STRING, &content);

            let mut unknown = vec![];
            let mut writer = Writer::new(&mut unknown);
            let mark = writer.begin(Tag::SEQUENCE);
            writer.octet_string(&content);
            writer.end(mark);
            assert_eq!(known, unknown, "content of {content_len} octets");
        }
    }

    #[test]
    fn integers_are_shortest_and_read_back() {
        let check = |value: i64, content: &[u8]| {
            let mut out = Vec::new();
            put_integer(&mut out, Tag::INTEGER, value);
            assert_eq!(&out[2..], content, "{value}");
            assert_eq!(Reader::new(&out).integer(), Ok(value));
        };
        check(0, &[0]);
        check(127, &[0x7f]);
        check(128, &[0x00, 0x80]);
        check(256, &[0x01, 0x00]);
        check(-1, &[0xff]);
        check(-128, &[0x80]);
        check(-129, &[0xff, 0x7f]);
        check(i64::from(i32::MAX), &[0x7f, 0xff, 0xff, 0xff]);
        check(i64::MAX, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        check(i64::MIN, &[0x80, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn small_elements_have_the_specified_encoding() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.boolean(true);
        writer.boolean(false);
        writer.enumerated(3);
        writer.null();
        writer.raw(&[0x80, 0x00]);
        writer.element(Tag::context(1), b"a");
        writer.integer(-1);
        assert_eq!(out, [1, 1, 0xff, 1, 1, 0, 0x0a, 1, 3, 5, 0, 0x80, 0, 0x81, 1, b'a', 2, 1, 0xff]);
    }
}
