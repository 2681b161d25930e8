//! Residency of the data file's pages in memory, for threads that must not wait for the disk.
//!
//! Reading a page that is not in memory blocks the thread until the disk has read it. A transaction can be set not to
//! wait ([`Txn::without_waiting`]). Each look-up then checks every page on the path from the root of the map to the row
//! before it reads that page. The first absent page ends the look-up with [`Failure::NOT_IN_MEMORY`] and is recorded,
//! so that another thread can [bring it in](Txn::bring_in). A scan, or a set of ids on many pages, cannot be checked
//! before it is read and fails in the same way.
//!
//! If a page is recorded as resident but is not in memory, the only effect is that the read waits. A page may be
//! evicted between the check and the read anyway. So the kernel's answer about a page is trusted for a while
//! ([`TRUST`]). Checking a page that is read often, such as an upper page of a tree, therefore costs one look-up in a
//! table.
//!
//! If a page has an unsupported layout, the check ends and LMDB reads the page.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::ops::Range;

use rustix::fs::Advice;

use super::ffi::Mapping;
use super::page_reader::page::PAGE_LEN;
use super::{Failure, Result, Txn};

/// A page of the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageNumber(u64);

/// Pages that a read without waiting did not find in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AbsentPages {
    /// Pages to bring in before the next attempt.
    pub pages: Vec<PageNumber>,
    /// Whether some of the pages become known only during the read, so that only performing the read brings them in.
    pub is_walk: bool,
}

impl AbsentPages {
    /// Returns true if no page was absent.
    pub fn is_nothing(&self) -> bool {
        self.pages.is_empty() && !self.is_walk
    }
}

/// Number of pages whose residency is cached.
const SEEN: usize = 8192;

/// Number of absent pages to find before the kernel is asked again about a page that was resident. So many pages take a
/// few megabytes, a small part of a system's memory.
const TRUST: u64 = 1024;

/// Maximum number of pages of a value that are checked one by one. A longer value is treated as a traversal.
const VALUE_PAGES_MAX: u64 = 16;

/// Residency of pages, as far as a transaction knows it.
pub(super) struct Residency {
    /// Absent pages found by the current read.
    absent: AbsentPages,
    seen: Box<[ResidentPage]>,
    absent_count: u64,
}

impl Default for Residency {
    fn default() -> Residency {
        Residency {
            absent: AbsentPages::default(),
            seen: vec![ResidentPage::default(); SEEN].into(),
            absent_count: 0,
        }
    }
}

/// A page that was found in memory, with the number of absent pages that had been found before. All zeroes mean an
/// unused slot, because page 0 belongs to no tree.
#[derive(Clone, Copy, Default)]
struct ResidentPage {
    page: u64,
    absent_count: u64,
}

impl Txn {
    /// Calls `read`, during which only pages in memory are read. Returns its result, and the pages that `read` needed
    /// and that are not in memory. Reads of these pages fail. If LMDB reads the pages, reads wait as usual.
    pub(crate) fn without_waiting<T>(&self, read: impl FnOnce() -> T) -> (T, AbsentPages) {
        /// Allows waiting again when dropped, even by a panic.
        struct WaitGuard<'t>(&'t Txn);
        impl Drop for WaitGuard<'_> {
            fn drop(&mut self) {
                self.0.must_not_wait.set(false);
            }
        }
        self.must_not_wait.set(self.reads_pages);
        let guard = WaitGuard(self);
        let outcome = read();
        drop(guard);
        let absent = self.residency.get().map(|residency| std::mem::take(&mut residency.borrow_mut().absent));
        (outcome, absent.unwrap_or_default())
    }

    /// Fails if the transaction must not wait and a page on the path to the value of `key` is not in memory.
    #[inline]
    pub(crate) fn check_residency(&self, map: usize, key: &[u8]) -> Result<()> {
        if self.must_not_wait.get() { self.check_row(map, key) } else { Ok(()) }
    }

    /// Fails if the transaction must not wait, because the pages of a scan are not known in advance.
    #[inline]
    pub(crate) fn check_traversal(&self) -> Result<()> {
        if !self.must_not_wait.get() {
            return Ok(());
        }
        self.residency().borrow_mut().absent.is_walk = true;
        Err(NOT_IN_MEMORY)
    }

    #[cold]
    fn check_row(&self, map: usize, key: &[u8]) -> Result<()> {
        let Some(tree) = self.tree(map)? else { return Ok(()) };
        let residency = &mut *self.residency().borrow_mut();
        let mut has = |page| residency.has(tree.pages, page);
        let absent = match self.pages_of_cached_row(map, key) {
            Some(mut pages) => pages.find(|page| !has(*page)).map(|page| page..page + 1),
            None => tree.first_absent(key, has),
        };
        let Some(pages) = absent else { return Ok(()) };
        if pages.end - pages.start > VALUE_PAGES_MAX {
            residency.absent.is_walk = true;
        } else {
            residency.absent.pages.extend(pages.map(PageNumber));
        }
        Err(NOT_IN_MEMORY)
    }

    fn residency(&self) -> &RefCell<Residency> {
        self.residency.get_or_init(Box::default)
    }

    /// Records pages that another thread has just brought in.
    pub(crate) fn has_brought_in(&self, pages: &[PageNumber]) {
        let residency = &mut *self.residency().borrow_mut();
        for page in pages {
            residency.see(page.0);
        }
    }

    /// Returns the pages of a row, if the row is cached.
    fn pages_of_cached_row(&self, map: usize, key: &[u8]) -> Option<Range<u64>> {
        let number = u64::from_be_bytes(key.try_into().ok()?);
        let mut cache = self.row_cache.as_ref()?.borrow_mut();
        if !cache.is_active() {
            return None;
        }
        let (offset, len) = cache.row(map, number)?;
        let last = offset + len.saturating_sub(1) as u64;
        Some(offset / PAGE_LEN as u64..last / PAGE_LEN as u64 + 1)
    }
}

const NOT_IN_MEMORY: Failure = Failure { operation: "look", code: Failure::NOT_IN_MEMORY };

impl Residency {
    /// Returns true if a page is in memory according to the cached answers or the kernel.
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "the remainder is a place of the table"
    )]
    fn has(&mut self, file: Mapping<'_>, page: u64) -> bool {
        let seen = self.seen[page as usize % SEEN];
        let was_resident = seen.page == page && self.absent_count - seen.absent_count <= TRUST;
        if !was_resident && !file.is_resident(page * PAGE_LEN as u64) {
            self.absent_count += 1;
            return false;
        }
        // The caller reads the page next, and this read keeps the page in memory.
        self.see(page);
        true
    }

    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "the remainder is a place of the table"
    )]
    fn see(&mut self, page: u64) {
        self.seen[page as usize % SEEN] = ResidentPage { page, absent_count: self.absent_count };
    }
}

impl Txn {
    /// Brings pages into memory, and returns when they are there. Requests all pages from the disk before it waits for
    /// the first page.
    pub(crate) fn bring_in(&self, pages: &[PageNumber]) -> Result<()> {
        let data_file = self.env.data_file()?;
        let offsets = || pages.iter().map(|page| page.0.wrapping_mul(PAGE_LEN as u64));
        for offset in offsets() {
            // If the system declines to read ahead, the read below brings the page.
            let _ =
                rustix::fs::fadvise(data_file, offset, NonZeroU64::new(PAGE_LEN as u64), Advice::WillNeed);
        }
        for offset in offsets() {
            // A read brings the whole page into the page cache, which the map shares. An error is reported by the later
            // read through the map.
            let _ = rustix::io::pread(data_file, &mut [0; 1], offset);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
