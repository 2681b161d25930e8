//! Offset and length of a value, packed into one word.

/// Location of a value: its offset in the data file, and its length.
pub(crate) type ValueLocation = (u64, usize);

/// Number of bits of an offset. The remaining bits of the word hold the length.
const OFFSET_BITS: u32 = 48;
const LEN_MAX: usize = u16::MAX as usize;

/// Packs a location into a word; returns `None` if the location does not fit.
#[inline]
pub(super) fn pack((offset, len): ValueLocation) -> Option<u64> {
    let fits = len <= LEN_MAX && offset >> OFFSET_BITS == 0;
    fits.then_some(offset | (len as u64) << OFFSET_BITS)
}

#[inline]
pub(super) fn unpack(word: u64) -> ValueLocation {
    (word & ((1 << OFFSET_BITS) - 1), (word >> OFFSET_BITS) as usize)
}
