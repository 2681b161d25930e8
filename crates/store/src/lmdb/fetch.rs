//! Has the processor fetch what will be read soon, so that nobody waits for memory in the order of reading.

use std::ptr;

use super::known_rows;

/// Bytes that come from memory together.
pub(super) const LINE: usize = 64;

/// Has the processor fetch bytes that are about to be read, without waiting for them. Whoever goes through many rows
/// calls it for some before reading the first.
#[inline]
pub fn fetch(bytes: &[u8]) {
    bytes.chunks(LINE).for_each(|line| known_rows::fetch(line.as_ptr().cast()));
    if let Some(last) = bytes.last() {
        known_rows::fetch(ptr::from_ref(last).cast());
    }
}
