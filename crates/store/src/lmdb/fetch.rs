//! Has the processor fetch what will be read soon, so that nobody waits for memory in the order of reading.

use std::ptr;

use super::{PAGE, known_rows};

/// Bytes that come from memory together.
pub(super) const LINE: usize = 64;

/// Has the processor fetch bytes that are about to be read, without waiting for them. Whoever goes through many rows calls it for some before
/// reading the first.
#[inline]
pub fn fetch(bytes: &[u8]) {
    bytes.chunks(LINE).for_each(|line| known_rows::fetch(line.as_ptr().cast()));
    if let Some(last) = bytes.last() {
        known_rows::fetch(ptr::from_ref(last).cast());
    }
}

/// Has the processor fetch where a walk forward is likely to come by two pages on: a map that was built in the order of its keys lies in that order, and
/// rows of one kind are of much the same size. Reads nothing, so a wrong guess costs next to nothing.
#[inline]
pub(super) fn fetch_ahead(key: &[u8]) {
    let there = key.as_ptr().wrapping_add(2 * PAGE);
    known_rows::fetch(there.map_addr(|address| address & !(PAGE - 1)).cast());
    for line in 0..4 {
        known_rows::fetch(there.wrapping_sub(LINE).wrapping_add(line * LINE).cast());
    }
}
