//! Which pages of the data file are in memory, for those who must not wait for the disk.
//!
//! Reading a page that is not there stops the thread until the disk has brought it. A transaction can be told to look
//! first ([`Txn::without_waiting`]): it goes the way of each look-up here, page by page from the root of the map to the
//! row, and reads none before it is known to be there. The first that is not ends the look-up with
//! [`Failure::NOT_IN_MEMORY`] and is noted, for somebody else to [bring in](Txn::bring_in). What cannot be told before
//! it is read, a walk over rows or a set of ids of many pages, ends so, too.
//!
//! Nothing depends on the answers but who waits: a page that was there may be gone when it is read, and comes back then
//! as any page does. So it is good enough to ask the kernel once and to trust that for a while ([`TRUST`]): those who
//! are read all the time, the upper pages of each tree first, cost a look into a table.
//!
//! A page that is not as the page reader expects ends the way, and is left to LMDB.

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

/// What was not in memory when somebody looked who must not wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Pages that have to be brought in to get further.
    pub pages: Vec<PageNumber>,
    /// Whether it goes on to pages that nobody can name before: only reading it brings them in.
    pub is_walk: bool,
}

impl Absent {
    /// Whether nothing was missing.
    pub fn is_nothing(&self) -> bool {
        self.pages.is_empty() && !self.is_walk
    }
}

/// Pages that are remembered as having been in memory, by the number of those that were not by then.
const SEEN: usize = 8192;

/// Absent pages that a look has to come upon before it asks again for a page that was in memory: a few megabytes,
/// little beside what a system keeps.
const TRUST: u64 = 1024;

/// Pages of one value that are asked for one by one; a longer one is a walk.
const VALUE_PAGES_MAX: u64 = 16;

/// What a transaction knows of the pages.
pub(super) struct Presence {
    /// While somebody looks.
    absent: Absent,
    seen: Box<[Sighting]>,
    absent_count: u64,
}

impl Default for Presence {
    fn default() -> Presence {
        Presence { absent: Absent::default(), seen: vec![Sighting::default(); SEEN].into(), absent_count: 0 }
    }
}

/// A page that was in memory, and how many were not until then. All zeroes is none: page 0 belongs to no tree.
#[derive(Clone, Copy, Default)]
struct Sighting {
    page: u64,
    absent_count: u64,
}

impl Txn {
    /// Calls `look`, and meanwhile reads nothing that is not in memory. What is not is returned, as far as could be
    /// seen; reads of it have failed.
    pub(crate) fn without_waiting<T>(&self, look: impl FnOnce() -> T) -> (T, Absent) {
        /// Whatever happens, waiting is allowed again.
        struct Looking<'t>(&'t Txn);
        impl Drop for Looking<'_> {
            fn drop(&mut self) {
                self.0.looks_first.set(false);
            }
        }
        self.looks_first.set(self.reads_pages);
        let looking = Looking(self);
        let outcome = look();
        drop(looking);
        let absent = self.presence.get().map(|presence| std::mem::take(&mut presence.borrow_mut().absent));
        (outcome, absent.unwrap_or_default())
    }

    /// Fails if somebody looks first, and the value of `key` is not in memory or not all that is read on the way.
    #[inline]
    pub(crate) fn look_for(&self, map: usize, key: &[u8]) -> Result<()> {
        if self.looks_first.get() { self.look_for_row(map, key) } else { Ok(()) }
    }

    /// Fails if somebody looks first: what follows reads pages that cannot be named before.
    #[inline]
    pub(crate) fn look_for_walk(&self) -> Result<()> {
        if !self.looks_first.get() {
            return Ok(());
        }
        self.presence().borrow_mut().absent.is_walk = true;
        Err(NOT_IN_MEMORY)
    }

    #[cold]
    fn look_for_row(&self, map: usize, key: &[u8]) -> Result<()> {
        let Some(tree) = self.tree(map)? else { return Ok(()) };
        let presence = &mut *self.presence().borrow_mut();
        let mut has = |page| presence.has(tree.pages, page);
        let absent = match self.known_pages(map, key) {
            Some(mut pages) => pages.find(|page| !has(*page)).map(|page| page..page + 1),
            None => tree.first_absent(key, has),
        };
        let Some(pages) = absent else { return Ok(()) };
        if pages.end - pages.start > VALUE_PAGES_MAX {
            presence.absent.is_walk = true;
        } else {
            presence.absent.pages.extend(pages.map(PageNumber));
        }
        Err(NOT_IN_MEMORY)
    }

    fn presence(&self) -> &RefCell<Presence> {
        self.presence.get_or_init(Box::default)
    }

    /// Takes note of pages that somebody else has just brought in.
    pub(crate) fn has_brought_in(&self, pages: &[PageNumber]) {
        let presence = &mut *self.presence().borrow_mut();
        for page in pages {
            presence.see(page.0);
        }
    }

    /// The pages that a row lies on, if that is known.
    fn known_pages(&self, map: usize, key: &[u8]) -> Option<Range<u64>> {
        let number = u64::from_be_bytes(key.try_into().ok()?);
        let mut known = self.known.as_ref()?.borrow_mut();
        if !known.is_time() {
            return None;
        }
        let (offset, len) = known.row(map, number)?;
        let last = offset + len.saturating_sub(1) as u64;
        Some(offset / PAGE_LEN as u64..last / PAGE_LEN as u64 + 1)
    }
}

const NOT_IN_MEMORY: Failure = Failure { operation: "look", code: Failure::NOT_IN_MEMORY };

impl Presence {
    /// Whether a page is in memory, as far as is known.
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "the remainder is a place of the table"
    )]
    fn has(&mut self, file: Mapping<'_>, page: u64) -> bool {
        let seen = self.seen[page as usize % SEEN];
        let is_known = seen.page == page && self.absent_count - seen.absent_count <= TRUST;
        if !is_known && !file.is_resident(page * PAGE_LEN as u64) {
            self.absent_count += 1;
            return false;
        }
        // It is about to be read, which keeps it.
        self.see(page);
        true
    }

    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "the remainder is a place of the table"
    )]
    fn see(&mut self, page: u64) {
        self.seen[page as usize % SEEN] = Sighting { page, absent_count: self.absent_count };
    }
}

impl Txn {
    /// Brings pages in, and returns when they are there. The disk is asked for all of them before the first is waited
    /// for.
    pub(crate) fn bring_in(&self, pages: &[PageNumber]) -> Result<()> {
        let data_file = self.env.data_file()?;
        let offsets = || pages.iter().map(|page| page.0.wrapping_mul(PAGE_LEN as u64));
        for offset in offsets() {
            // What the system declines to read before it must comes with the read.
            let _ =
                rustix::fs::fadvise(data_file, offset, NonZeroU64::new(PAGE_LEN as u64), Advice::WillNeed);
        }
        for offset in offsets() {
            // The system reads whole pages, to where the map finds them. Whoever wants the page meets the error.
            let _ = rustix::io::pread(data_file, &mut [0; 1], offset);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
