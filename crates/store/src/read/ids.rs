//! [`IdCursor`]: the ids under one key, read a page at a time.
//!
//! Ids are 8 bytes big-endian, so the engine's byte order is their numeric order. The engine returns a page of up to
//! 510 ids as one slice. The cursor stores that slice and a position in the slice, so most seeks and all copies need no
//! call of the engine. If a key has few ids, the first slice contains all of them.
//!
//! Pending changes to the ids of the key are merged in as the cursor moves.

use super::Read;
use crate::Result;
use crate::lmdb::{Cursor, Failure, Found};
use crate::overlay::{IdChangeCursor, SetChanges};

/// An id as the engine stores it.
type IdBytes = [u8; 8];

/// Cursor over the ids under one key, ascending. The cursor starts before the lowest id.
pub struct IdCursor<'r> {
    file: FileIds<'r>,
    changes: Option<Box<Merge<'r>>>,
    count: u64,
}

impl<'r> IdCursor<'r> {
    /// Returns a cursor over the ids under `key` of the id set map with index `map`.
    pub(crate) fn open(read: &'r Read, map: usize, key: &[u8]) -> Result<IdCursor<'r>> {
        if let Some(overlay) = &read.overlay
            && let Some(changes) = overlay.set(map, key)
        {
            return IdCursor::open_changed(read, map, key, changes);
        }
        let file = FileIds::open(read, map, key)?;
        let count = file.count;
        Ok(IdCursor { file, changes: None, count })
    }

    fn open_changed(read: &'r Read, map: usize, key: &[u8], changes: SetChanges<'r>) -> Result<IdCursor<'r>> {
        let file = if changes.hides_file() { FileIds::none(read) } else { FileIds::open(read, map, key)? };
        Ok(IdCursor { file, changes: Some(Box::new(Merge::new(changes))), count: changes.count() })
    }

    /// Moves before the lowest id that is at least `at_least` and returns this id, or moves to the end. Seeks forward
    /// and backward.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn seek(&mut self, at_least: u64) -> Result<Option<u64>> {
        match &mut self.changes {
            None => self.file.seek(at_least),
            Some(changes) => changes.seek(&mut self.file, at_least),
        }
    }

    /// Appends up to `limit` following ids to `out`, and returns their number. A smaller number than `limit` means that
    /// the end is reached.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn next_block(&mut self, out: &mut Vec<u64>, limit: usize) -> Result<usize> {
        match &mut self.changes {
            None => self.file.next_block(out, limit),
            Some(changes) => changes.next_block(&mut self.file, out, limit),
        }
    }

    /// Returns the exact number of ids of the key, at constant cost. Does not depend on the cursor's position.
    pub fn estimate(&self) -> u64 {
        self.count
    }
}

/// Pending changes to the ids of a key, merged with a cursor over its ids in the data file.
struct Merge<'r> {
    /// Cursors over the layers' changes, the newest first.
    layers: [Option<IdChangeCursor<'r>>; 2],
}

impl<'r> Merge<'r> {
    fn new(changes: SetChanges<'r>) -> Merge<'r> {
        let layers = [Some(changes.newest.ids.cursor()), changes.older.map(|older| older.ids.cursor())];
        let mut merge = Merge { layers };
        merge.seek_changes(0);
        merge
    }

    fn seek_changes(&mut self, at_least: u64) {
        self.layers.iter_mut().flatten().for_each(|layer| layer.seek(at_least));
    }

    fn seek(&mut self, file: &mut FileIds<'_>, at_least: u64) -> Result<Option<u64>> {
        self.seek_changes(at_least);
        file.seek(at_least)?;
        self.settle(file)
    }

    /// Returns the lowest change ahead. If two layers change the id, returns the change of the newest layer.
    fn change(&self) -> Option<(u64, bool)> {
        let changes = self.layers.iter().flatten().filter_map(IdChangeCursor::item);
        changes.reduce(|best, change| if change.0 < best.0 { change } else { best })
    }

    /// Returns the next id that is present, skipping removed ids.
    fn settle(&mut self, file: &mut FileIds<'_>) -> Result<Option<u64>> {
        loop {
            let in_file = file.peek()?;
            let Some((changed, is_present)) = self.change() else { return Ok(in_file) };
            match in_file {
                Some(id) if id < changed => return Ok(Some(id)),
                _ if is_present => return Ok(Some(changed)),
                _ => self.pass(file, changed)?,
            }
        }
    }

    /// Moves past `id`, the id that [`settle`](Merge::settle) returned.
    fn pass(&mut self, file: &mut FileIds<'_>, id: u64) -> Result<()> {
        for layer in self.layers.iter_mut().flatten() {
            if layer.item().is_some_and(|(changed, _)| changed == id) {
                layer.next();
            }
        }
        if file.peek()? == Some(id) {
            file.passed += 1;
        }
        Ok(())
    }

    fn next_block(&mut self, file: &mut FileIds<'_>, out: &mut Vec<u64>, limit: usize) -> Result<usize> {
        let mut appended = 0;
        while appended < limit {
            let Some((changed, _)) = self.change() else {
                return Ok(appended + file.next_block(out, limit - appended)?);
            };
            appended += file.next_below(changed, out, limit - appended)?;
            if appended < limit {
                let Some(id) = self.settle(file)? else { break };
                out.push(id);
                appended += 1;
                self.pass(file, id)?;
            }
        }
        Ok(appended)
    }
}

/// The ids under a key in the data file.
struct FileIds<'r> {
    read: &'r Read,
    /// Further pages of the set. `None` if `page` contains all ids.
    pages: Option<Pages<'r>>,
    page: Page<'r>,
    /// Number of ids on `page` that the cursor has passed.
    passed: usize,
    count: u64,
}

/// The current page of ids.
enum Page<'r> {
    /// A page of the engine.
    Whole(&'r [IdBytes]),
    /// The one id of the key, from the row cache.
    One([IdBytes; 1]),
}

impl Page<'_> {
    #[inline]
    fn ids(&self) -> &[IdBytes] {
        match self {
            Page::Whole(ids) => ids,
            Page::One(id) => id,
        }
    }
}

/// The pages of a set that fills more than one page.
struct Pages<'r> {
    cursor: Cursor<'r>,
    key: &'r [u8],
}

impl<'r> FileIds<'r> {
    fn none(read: &'r Read) -> FileIds<'r> {
        FileIds { read, pages: None, page: Page::Whole(&[]), passed: 0, count: 0 }
    }

    fn open(read: &'r Read, map: usize, key: &[u8]) -> Result<FileIds<'r>> {
        let new_key = match read.txn.cached_id(map, key) {
            Some(Ok(id)) => {
                let page = Page::One([id.to_be_bytes()]);
                return Ok(FileIds { read, pages: None, page, passed: 0, count: 1 });
            }
            Some(Err(new_key)) => Some(new_key),
            None => None,
        };
        let opened = || -> Result<_, Failure> {
            read.txn.check_residency(map, key)?;
            let only_one = |id: &'r [u8]| {
                if let Some(new_key) = &new_key {
                    read.txn.cache_id(map, new_key, id);
                }
                Ok((None, ids_of(id), 1))
            };
            match read.txn.find(map, key)? {
                Some(Found::Nothing) => return Ok((None, &[][..], 0)),
                Some(Found::Value(id)) => return only_one(id),
                Some(Found::Set) | None => {}
            }
            let mut cursor = read.txn.cursor(map)?;
            let Some((key, first)) = cursor.at_key(key)? else {
                return Ok((None, &[][..], 0));
            };
            let count = cursor.value_count()?;
            if count == 1 {
                return only_one(first);
            }
            let page = ids_of(cursor.block()?);
            let whole = page.len() as u64 == count;
            if !whole {
                read.txn.check_traversal()?;
            }
            Ok(((!whole).then(|| Pages { cursor, key }), page, count))
        };
        let (pages, page, count) = opened().map_err(|failure| read.error(failure))?;
        Ok(FileIds { read, pages, page: Page::Whole(page), passed: 0, count })
    }

    fn seek(&mut self, at_least: u64) -> Result<Option<u64>> {
        if !self.on_page(at_least)
            && let Some(pages) = &mut self.pages
        {
            let page = pages.page_with(at_least).map_err(|failure| self.read.error(failure))?;
            self.page = Page::Whole(page);
            self.passed = 0;
        }
        self.passed = first_at_least(self.page.ids(), self.passed, at_least);
        Ok(id_at(self.page.ids(), self.passed))
    }

    /// Returns true if the result of a seek is certainly on the current page.
    fn on_page(&self, at_least: u64) -> bool {
        match self.page.ids() {
            [] => false,
            [only] => u64::from_be_bytes(*only) == at_least,
            [lowest, .., highest] => {
                (u64::from_be_bytes(*lowest)..=u64::from_be_bytes(*highest)).contains(&at_least)
            }
        }
    }

    fn next_block(&mut self, out: &mut Vec<u64>, limit: usize) -> Result<usize> {
        let mut appended = 0;
        while appended < limit {
            let left = self.page.ids().get(self.passed..).unwrap_or_default();
            if left.is_empty() {
                if self.turn_page()? {
                    continue;
                }
                break;
            }
            let chunk_len = left.len().min(limit - appended);
            out.extend(left.iter().take(chunk_len).map(|id| u64::from_be_bytes(*id)));
            self.passed += chunk_len;
            appended += chunk_len;
        }
        Ok(appended)
    }

    /// Does the same as [`next_block`](FileIds::next_block), but returns only ids below a bound.
    fn next_below(&mut self, bound: u64, out: &mut Vec<u64>, limit: usize) -> Result<usize> {
        let mut appended = 0;
        while appended < limit && self.peek()?.is_some_and(|id| id < bound) {
            let left = self.page.ids().get(self.passed..).unwrap_or_default();
            let below = left.partition_point(|id| u64::from_be_bytes(*id) < bound);
            let chunk_len = below.min(limit - appended);
            out.extend(left.iter().take(chunk_len).map(|id| u64::from_be_bytes(*id)));
            self.passed += chunk_len;
            appended += chunk_len;
        }
        Ok(appended)
    }

    /// Returns the next id.
    fn peek(&mut self) -> Result<Option<u64>> {
        while self.passed == self.page.ids().len() {
            if !self.turn_page()? {
                return Ok(None);
            }
        }
        Ok(id_at(self.page.ids(), self.passed))
    }

    /// Moves to the next page, if there is one.
    fn turn_page(&mut self) -> Result<bool> {
        let Some(pages) = &mut self.pages else { return Ok(false) };
        if self.page.ids().is_empty() {
            return Ok(false);
        }
        let next = pages.cursor.next_block().map_err(|failure| self.read.error(failure))?;
        self.page = Page::Whole(ids_of(next.unwrap_or_default()));
        self.passed = 0;
        Ok(next.is_some())
    }
}

impl<'r> Pages<'r> {
    /// Returns the page that contains the lowest id of at least `at_least`; empty if there is none.
    fn page_with(&mut self, at_least: u64) -> Result<&'r [IdBytes], Failure> {
        if self.cursor.at_value_or_after(self.key, &at_least.to_be_bytes())? {
            self.cursor.block().map(ids_of)
        } else {
            Ok(&[])
        }
    }
}

fn ids_of(bytes: &[u8]) -> &[IdBytes] {
    bytes.as_chunks().0
}

fn id_at(page: &[IdBytes], index: usize) -> Option<u64> {
    page.get(index).map(|id| u64::from_be_bytes(*id))
}

/// Returns the index of the first id of `page` that is at least `at_least`. The search is fast if the index is close to
/// `near`, as it often is in forward seeks.
fn first_at_least(page: &[IdBytes], near: usize, at_least: u64) -> usize {
    let below = |index| id_at(page, index).is_some_and(|there| there < at_least);
    let (mut low, mut high) = (0, page.len());
    if near < high && below(near) {
        low = near + 1;
    } else if near == 0 || below(near - 1) {
        return near;
    } else {
        high = near - 1;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_at_least_finds_the_position_from_any_start() {
        let ids = [2u64, 3, 5, 8, 13, 21];
        let page = ids.map(u64::to_be_bytes);
        for at_least in 0..25 {
            let expected = ids.partition_point(|&id| id < at_least);
            for near in 0..=ids.len() {
                assert_eq!(first_at_least(&page, near, at_least), expected, "{at_least} from {near}");
            }
        }
        assert_eq!(first_at_least(&[], 0, 1), 0);
    }
}
