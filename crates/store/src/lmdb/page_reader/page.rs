//! Layout of LMDB's pages.
//!
//! A page has a header of 16 bytes: its own number at 0, flags at 10, and the end of the list of row offsets at 12. The
//! list follows the header, with two bytes per row. A row begins at each of these offsets: three words (in a leaf, the
//! low and high half of the value's length, and flags; in a branch, the number of the page below), the length of the
//! key, and the key; in a leaf, the value follows. Rows are sorted by key; the first key of a branch is ignored.
//! Numbers have the machine's byte order. The version of LMDB is pinned in the workspace's `Cargo.toml`; its pages have
//! had this layout since its first release.
//!
//! No byte is trusted: all bounds are checked. An unsupported layout gives `None`, and the caller then uses LMDB.

use std::cmp::Ordering;
use std::ops::Range;

/// The usual page size. Files with another page size are read only by LMDB.
pub(crate) const PAGE_LEN: usize = 4096;

/// Pages of one state of a data file, immutable for `'t`.
pub(crate) trait Pages<'t>: Copy {
    /// Returns `len` bytes of the file from `offset` on; `None` unless all of the bytes are in the file.
    fn bytes(self, offset: u64, len: usize) -> Option<&'t [u8]>;

    /// Returns the bytes of a page.
    #[inline]
    fn page(self, number: u64) -> Option<&'t [u8]> {
        self.bytes(number.checked_mul(PAGE_LEN as u64)?, PAGE_LEN)
    }
}

/// The pages of a file that was read into memory.
impl<'t> Pages<'t> for &'t [u8] {
    fn bytes(self, offset: u64, len: usize) -> Option<&'t [u8]> {
        self.get(usize::try_from(offset).ok()?..)?.get(..len)
    }
}

/// Offsets of three items in a page: the flags, the end of the list of row offsets, and the list itself.
pub(crate) const FLAGS: usize = 10;
pub(crate) const LIST_END: usize = 12;
pub(crate) const LIST: usize = 16;

/// Flags of a branch page, and of a leaf page with keys and values. Such pages have no other flag.
pub(crate) const BRANCH: usize = 1;
pub(crate) const LEAF: usize = 2;

/// Flags of the first page of a value with pages of its own. The value begins at the offset at which other pages have
/// the list of row offsets.
const OVERFLOW: usize = 4;

/// Number of bytes before the key of a row.
pub(crate) const ROW_HEAD: usize = 8;

/// Flags of a row. `FAR`: its value has pages of its own. `TREE`: its value is a tree of values.
pub(crate) const FAR: usize = 1;
pub(crate) const TREE: usize = 2;

/// Maximum number of pages on the path to a value: 32 in the tree of a map, and 32 in the tree of the values of one
/// key. LMDB supports no deeper trees.
pub(crate) const DEPTH_MAX: usize = 64;

/// Offset of the root's page number in LMDB's record of a tree; it is the last field.
pub(crate) const TREE_ROOT: usize = 40;

/// Returns a value with pages of its own, given the number of the first page.
pub(crate) fn far_value<'t>(pages: impl Pages<'t>, first: u64, len: usize) -> Option<&'t [u8]> {
    let page = pages.page(first)?;
    if word(page, 0) != Some(first) || number(page, FLAGS) != Some(OVERFLOW) {
        return None;
    }
    pages.bytes(first.checked_mul(PAGE_LEN as u64)?.checked_add(LIST as u64)?, len)
}

/// Returns the page numbers of a value with pages of its own, given the number of the first page.
pub(crate) fn far_value_pages(first: u64, len: usize) -> Option<Range<u64>> {
    let count = LIST.checked_add(len)?.div_ceil(PAGE_LEN) as u64;
    Some(first..first.checked_add(count)?)
}

/// A row of a leaf or of a branch.
pub(crate) struct Node<'p> {
    pub(crate) words: [usize; 3],
    pub(crate) key: &'p [u8],
    /// The page from the end of the key to the end of the page.
    pub(crate) rest: &'p [u8],
}

impl Node<'_> {
    #[inline]
    pub(crate) fn at(page: &[u8], place: usize) -> Option<Node<'_>> {
        let at = number(page, LIST + 2 * place)?;
        let (head, rest) = page.get(at..)?.split_first_chunk::<ROW_HEAD>()?;
        let [low, high, flags, key_len] = [0, 2, 4, 6].map(|at| number(head, at).unwrap_or(0));
        let (key, rest) = rest.split_at_checked(key_len)?;
        Some(Node { words: [low, high, flags], key, rest })
    }
}

/// Returns the number of rows of a page, if it has these flags.
pub(crate) fn row_count(page: &[u8], flags: usize) -> Option<usize> {
    let is_of_kind = number(page, FLAGS)? == flags;
    let end = number(page, LIST_END).filter(|end| is_of_kind && *end <= page.len())?;
    end.checked_sub(LIST).map(|bytes| bytes / 2)
}

/// Returns the index of the child of a branch whose subtree would contain a key.
#[inline]
pub(crate) fn child_with(branch: &[u8], key: impl Key) -> Option<usize> {
    // Find the last child whose key is not above `key`. The key of the first child is ignored.
    let count = row_count(branch, BRANCH)?;
    Some(first_that(1..count, |place| Some(key.compare(Node::at(branch, place)?.key).is_lt()))? - 1)
}

/// Returns the row of a leaf with this key; `Some(None)` if there is none, `None` if the page has an unsupported
/// layout.
#[inline]
pub(crate) fn row_with(leaf: &[u8], key: impl Key) -> Option<Option<Node<'_>>> {
    let count = row_count(leaf, LEAF)?;
    let place = first_that(0..count, |place| Some(key.compare(Node::at(leaf, place)?.key).is_le()))?;
    if place == count {
        return Some(None);
    }
    let node = Node::at(leaf, place)?;
    Some(key.compare(node.key).is_eq().then_some(node))
}

/// Returns the page number of a child of a branch.
#[inline]
pub(crate) fn child(branch: &[u8], place: usize) -> Option<u64> {
    let [low, middle, high] = Node::at(branch, place)?.words.map(|word| word as u64);
    Some(low | middle << 16 | high << 32)
}

/// Key of a look-up.
pub(crate) trait Key: Copy {
    /// Compares this key with the key of a row.
    fn compare(self, of_row: &[u8]) -> Ordering;
}

impl Key for &[u8] {
    #[inline]
    fn compare(self, of_row: &[u8]) -> Ordering {
        self.cmp(of_row)
    }
}

/// A number is the key of its eight bytes, big-endian.
impl Key for u64 {
    #[inline]
    fn compare(self, of_row: &[u8]) -> Ordering {
        match of_row.try_into() {
            Ok(number) => self.cmp(&u64::from_be_bytes(number)),
            Err(_) => self.to_be_bytes()[..].cmp(of_row),
        }
    }
}

/// Returns the first place for which `is_so` returns true, or the end. `is_so` must return true for all later places.
fn first_that(places: Range<usize>, is_so: impl Fn(usize) -> Option<bool>) -> Option<usize> {
    let Range { start: mut low, end: mut high } = places;
    while low < high {
        let middle = low.midpoint(high);
        if is_so(middle)? { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

#[inline]
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|bytes| usize::from(u16::from_ne_bytes(*bytes)))
}

#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
