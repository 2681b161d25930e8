//! Offset and length of a value in one word.

/// Where a value lies: its offset in the data file, and its length.
pub(crate) type ValueLocation = (u64, usize);

/// Bits of an offset, and of a length that fits beside it.
const OFFSET_BITS: u32 = 48;
const LEN_MAX: usize = u16::MAX as usize;

/// The word; `None` where they do not fit.
#[inline]
pub(super) fn pack((offset, len): ValueLocation) -> Option<u64> {
    let fits = len <= LEN_MAX && offset >> OFFSET_BITS == 0;
    fits.then_some(offset | (len as u64) << OFFSET_BITS)
}

#[inline]
pub(super) fn unpack(word: u64) -> ValueLocation {
    (word & ((1 << OFFSET_BITS) - 1), (word >> OFFSET_BITS) as usize)
}
