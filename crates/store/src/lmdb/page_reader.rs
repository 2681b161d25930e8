//! Reader of the pages of LMDB's trees that does not call LMDB: look-ups and traversals at a fraction of the cost of
//! LMDB's functions.
//!
//! The reader is safe code over the bytes of pages, except [`Mapping::bytes`](Pages::bytes), which makes slices of the
//! mapped file. So no damage in a page can cause a panic or a read beyond the page. Pages with a layout that [`page`]
//! does not describe are left to LMDB. The fuzz target `pages` checks these claims with arbitrary bytes.

pub(super) mod leaf;
pub(super) mod leaf_traversal;
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
        // SAFETY: the `len` bytes at `offset` are mapped while the environment is open, and the borrowed transaction
        // keeps it open for `'t`. Callers only request pages whose numbers are in the state that this transaction
        // reads; LMDB writes to none of these before the transaction is reset.
        Some(unsafe { std::slice::from_raw_parts(self.start().add(offset), len) })
    }
}
