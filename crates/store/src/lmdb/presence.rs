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
//! The form of the pages is that of [`pages`](super::pages). Whatever is odd ends the way, and is left to LMDB.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr;

use lmdb_master_sys as ffi;
use rustix::fs::Advice;

use super::pages::{
    BRANCH, DEPTH_MAX, FAR, File, PAGE, TREE, TREE_ROOT, child, child_with, far_value_pages, row_count,
    row_with, word,
};
use super::trees::Tree;
use super::{Failure, Result, Txn, TxnKind, check};

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
        self.looks_first.set(self.env.has_usual_pages() && self.kind == TxnKind::Read);
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
        let mut has = |page| presence.has(tree.file, page);
        let absent = match self.known_place(map, key) {
            Some(place) => tree.file.pages_of(&place).find(|page| !has(*page)).map(one),
            // SAFETY: the tree is of the state that this transaction reads, and the transaction stands as it is.
            None => unsafe { tree.absent_on_the_way(key, has) },
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

    /// Where a row lies that is known to do so.
    fn known_place(&self, map: usize, key: &[u8]) -> Option<Range<usize>> {
        let number = u64::from_be_bytes(key.try_into().ok()?);
        let mut known = self.known.as_ref()?.borrow_mut();
        if !known.is_time() {
            return None;
        }
        // SAFETY: as in `get`; and only the address is used.
        let value = unsafe { known.row(map, number) }?;
        let start = value.mv_data.addr();
        Some(start..start + value.mv_size)
    }
}

const NOT_IN_MEMORY: Failure = Failure { operation: "look", code: Failure::NOT_IN_MEMORY };

impl Presence {
    /// Whether a page is in memory, as far as is known.
    fn has(&mut self, file: File, page: u64) -> bool {
        let seen = self.seen[page as usize % SEEN];
        let is_known = seen.page == page && self.absent_count - seen.absent_count <= TRUST;
        if !is_known && !file.is_resident(page) {
            self.absent_count += 1;
            return false;
        }
        // It is about to be read, which keeps it.
        self.see(page);
        true
    }

    fn see(&mut self, page: u64) {
        self.seen[page as usize % SEEN] = Sighting { page, absent_count: self.absent_count };
    }
}

impl File {
    /// Asks the kernel. What it does not know is taken to be there.
    fn is_resident(self, page: u64) -> bool {
        let Some(address) = self.address(page) else { return true };
        let mut answer = 1u8;
        // SAFETY: the kernel looks at its own tables of these addresses, whatever they are, and writes one octet of
        // answer for one page.
        let code = unsafe { libc::mincore(ptr::with_exposed_provenance_mut(address), PAGE, &mut answer) };
        code != 0 || answer & 1 != 0
    }
}

impl Tree {
    /// The first pages that `has` not, of those between the root and the value of `key`.
    ///
    /// # Safety
    /// The tree is of a state that a transaction reads, which stands as it is until this returns.
    unsafe fn absent_on_the_way(self, key: &[u8], mut has: impl FnMut(u64) -> bool) -> Option<Range<u64>> {
        let (mut at, mut key) = (self.root, key);
        for _ in 0..DEPTH_MAX {
            if !has(at) {
                return Some(one(at));
            }
            // SAFETY: the contract of this function; the pages named by those of a state belong to it, too.
            let page = unsafe { self.file.page(at) }?;
            match next(page, key)? {
                Next::Page(below) => at = below,
                Next::Tree(root) => {
                    at = root;
                    key = &[];
                }
                Next::Value(pages) => {
                    let mut absent = pages.clone().filter(|page| !has(*page));
                    let first = absent.next()?;
                    return Some(first..pages.end);
                }
            }
        }
        None
    }
}

fn one(page: u64) -> Range<u64> {
    page..page + 1
}

/// Where a look-up goes on from a page.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Page(u64),
    /// At the lowest value of the tree with this root.
    Tree(u64),
    /// With the value, on pages of its own.
    Value(Range<u64>),
}

/// Where the look-up of a key goes on from a page; `None` at its end.
fn next(page: &[u8], key: &[u8]) -> Option<Next> {
    if row_count(page, BRANCH).is_some() {
        return child(page, child_with(page, key)?).map(Next::Page);
    }
    let node = row_with(page, key)??;
    let [low, high, flags] = node.words;
    if flags & FAR != 0 {
        let first = word(node.rest, 0)?;
        far_value_pages(first, low | high << 16).map(Next::Value)
    } else if flags & TREE != 0 {
        word(node.rest, TREE_ROOT).map(Next::Tree)
    } else {
        None
    }
}

impl Txn {
    /// Brings pages in, and returns when they are there. The disk is asked for all of them before the first is waited
    /// for.
    pub(crate) fn bring_in(&self, pages: &[PageNumber]) -> Result<()> {
        let mut descriptor = -1;
        // SAFETY: the environment is open; `descriptor` is a valid place.
        check("mdb_env_get_fd", unsafe { ffi::mdb_env_get_fd(self.env.raw.as_ptr(), &mut descriptor) })?;
        // SAFETY: the descriptor is open as long as the environment is, which the transaction holds.
        let data_file = unsafe { BorrowedFd::borrow_raw(descriptor) };
        for page in pages {
            // What the system declines to read before it must comes with the touch.
            let length = NonZeroU64::new(PAGE as u64);
            let _ =
                rustix::fs::fadvise(data_file, page.0.wrapping_mul(PAGE as u64), length, Advice::WillNeed);
        }
        let Some(file) = self.env.file()? else { return Ok(()) };
        for address in pages.iter().filter_map(|page| file.address(page.0)) {
            // SAFETY: one octet of a page that is in the file and so in the map. It may be changing, if the page has
            // come into use for something else meanwhile, which is why it is read as what changes by itself, and not
            // used.
            let _ = unsafe { ptr::read_volatile(ptr::with_exposed_provenance::<u8>(address)) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
