//! The pages of the data file as they lie in the map, for those who read them without LMDB: [`trees`](super::trees),
//! [`leaf`](super::leaf), [`way`](super::way), [`presence`](super::presence).
//!
//! A page has a header of 16 bytes: its own number at 0, flags at 10, and at 12 the end of the list of places, which
//! begins behind the header, two bytes a row. At each place there are three words (in a leaf the size of the value, low
//! and high half, and flags; in a branch the number of the page below), the size of the key, and the key; in a leaf the
//! value behind it. Rows stand in the order of their keys; the first key of a branch does not count. Numbers are of the
//! machine's byte order. The version of LMDB is pinned in the workspace's `Cargo.toml`; its pages have been so since
//! its first release.
//!
//! All bounds are checked, and what is not as described here is left to LMDB.

use std::cmp::Ordering;
use std::ops::Range;
use std::ptr;

use lmdb_master_sys as ffi;

use super::{EMPTY, Env, Result, Txn, bytes_of, check, found, value_of};

/// The usual size of a page, which maps begin at a multiple of on every system. With pages of another size nothing is
/// read without LMDB.
pub(super) const PAGE: usize = 4096;

/// Where flags and the end of the list are in a page, and where the list begins.
pub(super) const FLAGS: usize = 10;
pub(super) const LIST_END: usize = 12;
pub(super) const LIST: usize = 16;

/// The flags of a branch and of a leaf with keys and values, which have no others.
pub(super) const BRANCH: usize = 1;
pub(super) const LEAF: usize = 2;

/// The flags of the first page of a value that has pages of its own: the value stands where others have their list.
const OVERFLOW: usize = 4;

/// Bytes before the key of a row.
pub(super) const ROW_HEAD: usize = 8;

/// Flags of a row: its value lies on pages of its own; its value is a tree of values.
pub(super) const FAR: usize = 1;
pub(super) const TREE: usize = 2;

/// Levels of a tree, and of that of a set under it; LMDB has room for no more.
pub(super) const DEPTH_MAX: usize = 64;

/// Where the root stands in what LMDB writes of a tree, which is so long.
pub(super) const TREE_ROOT: usize = 40;

/// The mapped data file.
#[derive(Clone, Copy)]
pub(super) struct File {
    pub(super) start: usize,
    pub(super) page_count: u64,
}

impl File {
    pub(super) fn address(self, page: u64) -> Option<usize> {
        if page >= self.page_count {
            return None;
        }
        self.start.checked_add(usize::try_from(page).ok()?.checked_mul(PAGE)?)
    }

    /// The pages over which something lies in the map.
    pub(super) fn pages_of(self, place: &Range<usize>) -> Range<u64> {
        let page = |address: usize| (address.saturating_sub(self.start) / PAGE) as u64;
        page(place.start)..page(place.end.saturating_sub(1).max(place.start)) + 1
    }

    /// The bytes of a page of a committed state.
    ///
    /// # Safety
    /// The transaction that reads this state stands as it is for `'t`, and the page belongs to it.
    pub(super) unsafe fn page<'t>(self, page: u64) -> Option<&'t [u8]> {
        let address = self.address(page)?;
        // SAFETY: the pages of a committed state are in the file, and all of the file in the map; nobody changes one
        // while that state is read (contract of this function).
        Some(unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(address), PAGE) })
    }

    /// A value that has pages of its own, from the first of them.
    ///
    /// # Safety
    /// As of [`page`](File::page), of all of them.
    pub(super) unsafe fn far_value<'t>(self, page: u64, len: usize) -> Option<&'t [u8]> {
        // SAFETY: the contract of this function.
        let first = unsafe { self.page(page) }?;
        if word(first, 0) != Some(page) || number(first, FLAGS) != Some(OVERFLOW) {
            return None;
        }
        let pages = far_value_pages(page, len)?;
        self.address(pages.end.checked_sub(1)?)?;
        let start = self.address(page)? + LIST;
        // SAFETY: as in `page`, for all pages from the first to the last that the value takes, which is in the file.
        Some(unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(start), len) })
    }
}

/// The pages that a value takes which has pages of its own, from the first of them.
pub(super) fn far_value_pages(first: u64, len: usize) -> Option<Range<u64>> {
    let count = LIST.checked_add(len)?.div_ceil(PAGE) as u64;
    Some(first..first.checked_add(count)?)
}

/// A row of a leaf, or of a branch.
pub(super) struct Node<'p> {
    pub(super) words: [usize; 3],
    pub(super) key: &'p [u8],
    /// The page from behind the key on.
    pub(super) rest: &'p [u8],
}

impl Node<'_> {
    #[inline]
    pub(super) fn at(page: &[u8], place: usize) -> Option<Node<'_>> {
        let at = number(page, LIST + 2 * place)?;
        let (head, rest) = page.get(at..)?.split_first_chunk::<ROW_HEAD>()?;
        let [low, high, flags, key_len] = [0, 2, 4, 6].map(|at| number(head, at).unwrap_or(0));
        let (key, rest) = rest.split_at_checked(key_len)?;
        Some(Node { words: [low, high, flags], key, rest })
    }
}

/// Rows of a page that has these flags.
pub(super) fn row_count(page: &[u8], flags: usize) -> Option<usize> {
    let is_of_kind = number(page, FLAGS)? == flags;
    let end = number(page, LIST_END).filter(|end| is_of_kind && *end <= page.len())?;
    end.checked_sub(LIST).map(|bytes| bytes / 2)
}

/// Which child of a branch has a key, if any has.
#[inline]
pub(super) fn child_with(branch: &[u8], key: impl Key) -> Option<usize> {
    // The last one whose key is not above; that of the first does not count.
    let count = row_count(branch, BRANCH)?;
    Some(first_that(1..count, |place| Some(key.compare(Node::at(branch, place)?.key).is_lt()))? - 1)
}

/// The row of a leaf with this key, or that there is none; `None` if the page is odd.
#[inline]
pub(super) fn row_with(leaf: &[u8], key: impl Key) -> Option<Option<Node<'_>>> {
    let count = row_count(leaf, LEAF)?;
    let place = first_that(0..count, |place| Some(key.compare(Node::at(leaf, place)?.key).is_le()))?;
    if place == count {
        return Some(None);
    }
    let node = Node::at(leaf, place)?;
    Some(key.compare(node.key).is_eq().then_some(node))
}

/// The number of a page below a branch.
#[inline]
pub(super) fn child(branch: &[u8], place: usize) -> Option<u64> {
    let [low, middle, high] = Node::at(branch, place)?.words.map(|word| word as u64);
    Some(low | middle << 16 | high << 32)
}

/// A key that is looked for.
pub(super) trait Key: Copy {
    /// How it stands to that of a row.
    fn compare(self, of_row: &[u8]) -> Ordering;
}

impl Key for &[u8] {
    #[inline]
    fn compare(self, of_row: &[u8]) -> Ordering {
        self.cmp(of_row)
    }
}

/// One of eight bytes, as a number.
impl Key for u64 {
    #[inline]
    fn compare(self, of_row: &[u8]) -> Ordering {
        match of_row.try_into() {
            Ok(number) => self.cmp(&u64::from_be_bytes(number)),
            Err(_) => self.to_be_bytes()[..].cmp(of_row),
        }
    }
}

/// The first of ascending places of which something is so, or the end.
fn first_that(places: Range<usize>, is_so: impl Fn(usize) -> Option<bool>) -> Option<usize> {
    let Range { start: mut low, end: mut high } = places;
    while low < high {
        let middle = low.midpoint(high);
        if is_so(middle)? { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

#[inline]
pub(super) fn number(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|bytes| usize::from(u16::from_ne_bytes(*bytes)))
}

#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

impl Txn {
    /// The root of a map in the state that is read, as it stands under its name in the map of maps; `None` while the
    /// map is empty. Also finds out where the data file is mapped: each page has its own number in it. Of a reading
    /// transaction.
    pub(super) fn root_of(&self, name: &str) -> Result<Option<u64>> {
        let mut dbi = 0;
        // SAFETY: the transaction is open; a null name stands for the map of maps, which is always there; `dbi` is a
        // valid place.
        check("mdb_dbi_open", unsafe { ffi::mdb_dbi_open(self.raw.as_ptr(), ptr::null(), 0, &mut dbi) })?;
        let (mut key, mut value) = (value_of(name.as_bytes()), EMPTY);
        // SAFETY: as in `get_from_tree`: the key is only read, and the value lives as long as the transaction is as it
        // is, which it is until this function returns.
        let tree = unsafe {
            let code = ffi::mdb_get(self.raw.as_ptr(), dbi, &mut key, &mut value);
            found("mdb_get", code)?.then(|| bytes_of(value))
        };
        let Some(tree) = tree else { return Ok(None) };
        let page_start = tree.as_ptr().expose_provenance() & !(PAGE - 1);
        // SAFETY: the value lies on a page of the mapped file, as all that a reading transaction gives does.
        let page: &[u8; 8] = unsafe { &*ptr::with_exposed_provenance(page_start) };
        let before = usize::try_from(u64::from_ne_bytes(*page)).ok().and_then(|page| page.checked_mul(PAGE));
        if let Some(start) = before.and_then(|before| page_start.checked_sub(before)) {
            self.env.start.get_or_init(|| start);
        }
        Ok(word(tree, TREE_ROOT).filter(|root| *root != u64::MAX))
    }
}

impl Env {
    /// The mapped file, as far as the newest committed state knows of it: the pages of its trees are among them. `None`
    /// before a [root](Txn::root_of) was asked for.
    pub(super) fn file(&self) -> Result<Option<File>> {
        let Some(&start) = self.start.get() else { return Ok(None) };
        Ok(Some(File { start, page_count: self.facts()?.used_bytes / self.page_bytes.max(1) as u64 }))
    }

    /// Whether pages are as described here.
    pub(super) fn has_usual_pages(&self) -> bool {
        self.page_bytes == PAGE && cfg!(target_endian = "little")
    }
}
