//! Checks that a data file is as long as its root requires, before the engine maps it.
//!
//! The engine trusts its file: reading past the file's end kills the process with a signal, and the engine initializes
//! an empty file. So the length of the file is compared with the length that the newest root requires. The file may be
//! shorter if the pages at the end are free, because a page that is allocated and freed by the same transaction is
//! never written. In that case, each missing page must be in the engine's list of free pages.
//!
//! ```text
//!   a root page   16 magic (4)   40 size of a page (4)   80 root of the free pages' tree (8)   136 last page (8)
//!                 144 transaction (8)
//!   that tree     key: a transaction (8); value: a count (8), then that many page numbers (8 each)
//! ```
//!
//! Numbers have the machine's byte order. The module `lmdb::page_reader::page` describes the layout of pages. A file
//! with another layout is left to the engine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::OpenError;
use crate::error::failed;

const MAGIC: u32 = 0xBEEF_C0DE;
/// Bytes read of a root page.
const ROOT_LEN: usize = 152;
const PAGE_LENS: std::ops::RangeInclusive<u64> = 512..=65_536;
/// Page number in a root of an empty tree.
const NO_PAGE: u64 = u64::MAX;
const PAGE_HEAD_LEN: usize = 16;
const NODE_HEAD_LEN: usize = 8;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// Flag of a row whose value has pages of its own.
const FAR: u64 = 1;
/// Maximum depth of a tree; the engine supports no more.
const DEPTH_MAX: usize = 32;

/// Contents of the newest root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Root {
    page_len: u64,
    free_root: u64,
    last_page: u64,
    transaction: u64,
}

/// Refuses a data file that is empty or lacks pages of its newest state. May be called while another process writes it.
///
/// # Errors
/// `DataFileCut`, `File`.
pub(crate) fn check_length(path: &Path) -> Result<(), OpenError> {
    let file = File::open(path).map_err(failed("open", path))?;
    let mut before = None;
    loop {
        let root = newest_root(&file).map_err(failed("read", path))?;
        // The length is read after the root, because a writer extends the file before it writes the root.
        let length = file.metadata().map_err(failed("read", path))?.len();
        let (expected, is_whole) = match root {
            _ if length == 0 => (0, false),
            None => return Ok(()),
            Some(root) => {
                let expected = root.last_page.saturating_add(1).saturating_mul(root.page_len);
                let is_whole = length >= expected || all_free_after(&file, root, length);
                (expected, is_whole)
            }
        };
        // If another process was replacing the root, read the root again.
        match root {
            _ if is_whole => return Ok(()),
            Some(_) if before != root => before = root,
            _ => return Err(OpenError::DataFileCut { file: path.to_owned(), length, expected }),
        }
    }
}

fn newest_root(file: &File) -> io::Result<Option<Root>> {
    let Some(first) = root_at(file, 0)? else { return Ok(None) };
    let second = root_at(file, first.page_len)?;
    Ok(Some(second.filter(|second| second.transaction > first.transaction).unwrap_or(first)))
}

fn root_at(file: &File, offset: u64) -> io::Result<Option<Root>> {
    let mut bytes = [0; ROOT_LEN];
    match file.read_exact_at(&mut bytes, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    let short = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let long = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let root = || {
        let page_len = short(40).map(u64::from).filter(|length| PAGE_LENS.contains(length))?;
        let (free_root, last_page, transaction) = (long(80)?, long(136)?, long(144)?);
        Some(Root { page_len, free_root, last_page, transaction })
    };
    Ok((short(16) == Some(MAGIC)).then(root).flatten())
}

/// Returns true if the file contains every page of the newest state completely, except free pages.
fn all_free_after(file: &File, root: Root, length: u64) -> bool {
    let pages = FreePages { file, page_len: root.page_len, from: length / root.page_len };
    let missing = (root.last_page + 1).saturating_sub(pages.from);
    root.free_root != NO_PAGE && pages.count(root.free_root, 0) == Some(missing)
}

/// The engine's list of free pages, which contains each page once.
struct FreePages<'a> {
    file: &'a File,
    page_len: u64,
    /// The first page to count.
    from: u64,
}

impl FreePages<'_> {
    /// Counts the free pages at or after `from` in the tree below a page; returns `None` if the layout is unsupported.
    fn count(&self, page: u64, depth: usize) -> Option<u64> {
        let bytes = self.read(page, 0, self.page_len)?;
        let short = |at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let (flags, list_end) = (short(10)?, usize::from(short(12)?));
        let mut count = 0;
        for place in (PAGE_HEAD_LEN..list_end).step_by(2) {
            let node = usize::from(short(place)?);
            let words = [short(node)?, short(node + 2)?, short(node + 4)?].map(u64::from);
            let value_at = node + NODE_HEAD_LEN + usize::from(short(node + 6)?);
            count += match flags {
                BRANCH if depth < DEPTH_MAX => {
                    self.count(words[0] | words[1] << 16 | words[2] << 32, depth + 1)?
                }
                LEAF => {
                    let length = words[0] | words[1] << 16;
                    let value = if words[2] & FAR > 0 {
                        let far = u64::from_ne_bytes(*bytes.get(value_at..)?.first_chunk()?);
                        self.read(far, PAGE_HEAD_LEN as u64, length)?
                    } else {
                        bytes.get(value_at..)?.get(..usize::try_from(length).ok()?)?.to_vec()
                    };
                    let (numbers, _) = value.as_chunks::<8>();
                    let listed = numbers.iter().skip(1).map(|number| u64::from_ne_bytes(*number));
                    listed.filter(|number| *number >= self.from).count() as u64
                }
                _ => return None,
            };
        }
        Some(count)
    }

    /// Reads `length` bytes of a page and the pages after it, from byte `skipped` on. Returns `None` if the file
    /// does not hold these bytes.
    fn read(&self, page: u64, skipped: u64, length: u64) -> Option<Vec<u8>> {
        let offset = page.checked_mul(self.page_len)?.checked_add(skipped)?;
        if offset.checked_add(length)? > self.from * self.page_len {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}
