//! Properties that hold for any octets. The fuzz target `ber` and the replay of its corpus both check them.

use ber::{BerError, Reader, Tag, element_len, put_element, put_integer, read_frame_len};

/// Reading never panics. If elements that were read are encoded and read again, the result is the same. The size of a
/// message does not change once its header is complete.
pub(crate) fn elements(bytes: &[u8]) {
    walk(bytes, 8);
    frame(bytes);
}

/// Reads a series of elements, and their contents up to `depth_left` levels deep.
fn walk(bytes: &[u8], depth_left: usize) {
    let mut reader = Reader::new(bytes);
    while let Ok((tag, content)) = reader.any() {
        let mut encoded = Vec::new();
        put_element(&mut encoded, tag, content);
        assert_eq!(encoded.len(), element_len(content.len()));
        assert_eq!(Reader::new(&encoded).any(), Ok((tag, content)));
        integer(content);
        if tag.is_constructed() && depth_left > 0 {
            walk(content, depth_left - 1);
        }
    }
}

/// The content of an integer ends with the shortest content of the same integer. All octets before the shortest content
/// only repeat the sign.
fn integer(content: &[u8]) {
    if let Ok(value) = ber::integer_content(content) {
        let mut encoded = Vec::new();
        put_integer(&mut encoded, Tag::INTEGER, value);
        let shortest = Reader::new(&encoded).element(Tag::INTEGER).unwrap_or_default();
        assert_eq!(ber::integer_content(shortest), Ok(value));
        let extension = content.strip_suffix(shortest);
        let sign = if value < 0 { 0xff } else { 0x00 };
        assert!(extension.is_some_and(|octets| octets.iter().all(|octet| *octet == sign)), "{content:02x?}");
    }
}

fn frame(bytes: &[u8]) {
    let whole = read_frame_len(bytes);
    // The longest header has 128 octets: the tag, the number of length octets, and 126 length octets.
    let mut known = Ok(None);
    for prefix_len in 0..=bytes.len().min(128) {
        let prefix = bytes.get(..prefix_len).unwrap_or_default();
        let now = read_frame_len(prefix);
        if known != Ok(None) {
            assert_eq!(now, known, "changed at {prefix_len}");
        }
        known = now;
    }
    assert_eq!(known, whole);
    if let Ok(Some(frame_len)) = whole {
        let read = Reader::new(bytes).element(Tag::SEQUENCE);
        assert_eq!(read == Err(BerError::Truncated), bytes.len() < frame_len);
        assert_eq!(read.is_ok(), bytes.len() >= frame_len);
    }
}
