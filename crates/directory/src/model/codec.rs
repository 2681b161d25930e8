//! Encoding of rows and records. Integers are little-endian or LEB128. A string is preceded by its length.
//!
//! Row *keys* are big-endian instead, so that they sort numerically; see [`crate::model::rows`].

/// Appends an unsigned integer, seven bits per byte, lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        let [lowest, ..] = value.to_le_bytes();
        out.push(lowest | 0x80);
        value >>= 7;
    }
    let [lowest, ..] = value.to_le_bytes();
    out.push(lowest);
}

/// Appends the number of bytes as a varint, then the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Cursor over encoded bytes. Every decoding method returns `None` if the bytes end early or are invalid. Callers then
/// report damaged data.
#[derive(Clone, Copy)]
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.varint()?).ok()
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    pub(crate) fn str(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn string(&mut self) -> Option<String> {
        self.str().map(str::to_owned)
    }

    /// Decodes a list. A list begins with its number of items. The number is not trusted: memory is allocated only for
    /// items that are present.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: usize = self.number()?;
        let mut items = Vec::with_capacity(count.min(self.0.len()));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }
}

/// Appends the number of items, then the items.
pub(crate) fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_varint(out, items.len() as u64);
    for item in items {
        put(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_truncated_ones_do_not_panic() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Decoder(&out).varint(), Some(value));
            assert_eq!(Decoder(&out[..out.len() - 1]).varint(), None);
        }
        assert_eq!(Decoder(&[0xff; 12]).varint(), None);
    }

    #[test]
    fn a_list_count_without_items_is_rejected() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(u32::MAX));
        assert!(Decoder(&out).list(|d| d.byte()).is_none());
    }
}
