//! Reader of the pages of LMDB's trees without LMDB: look-ups and traversals at a fraction of the cost of its calls.
//!
//! All of it is safe code over the bytes of pages except [`Mapping::bytes`](Pages::bytes), which makes such bytes of
//! the mapped file. So no damage in a page can cause a panic or a read beyond the page: a layout other than that of
//! [`page`] is left to LMDB. The fuzz target `pages` checks these claims with any bytes.

pub(super) mod leaf;
pub(super) mod leaf_walk;
pub(super) mod lookup;
pub(super) mod page;

use super::ffi::Mapping;
use page::Pages;

#[cfg(test)]
mod tests;

impl<'t> Pages<'t> for Mapping<'t> {
    #[inline]
    #[allow(unsafe_code)]
    fn bytes(self, offset: u64, len: usize) -> Option<&'t [u8]> {
        let offset = usize::try_from(offset).ok()?;
        if len > self.len().checked_sub(offset)? {
            return None;
        }
        // SAFETY: all bytes from `offset` on, `len` of them, are mapped as long as the environment is open, which the
        // transaction holds that is borrowed for `'t`. They are asked for by the numbers of pages that the state names
        // which this transaction reads; LMDB writes to none of these before the transaction is reset.
        Some(unsafe { std::slice::from_raw_parts(self.start().add(offset), len) })
    }
}
