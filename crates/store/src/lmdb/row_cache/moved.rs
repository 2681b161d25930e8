//! [`MovedPages`]: record of the pages and keys that commits have moved. The cached rows that were not moved stay
//! valid.
//!
//! A commit copies each page that it changes, and records in LMDB's map of free pages which pages it freed. A page that
//! no commit has freed is unchanged, and so is every row in it. In addition, before each commit, the writer records in
//! `MovedPages` each key whose set of ids it changes. For each page and key, a table stores the stamp of the last
//! commit that moved it. A table has fewer slots than there are pages or keys, so all pages or keys that share a slot
//! count as moved together. A cached row is valid if nothing in its slot has moved since the row was last known to be
//! valid.
//!
//! This check requires that every commit has recorded the pages and keys that it moved. All commits after `since` and
//! up to `until` have done so. A transaction whose state is older than `since` drops all its cached rows. A transaction
//! whose state is newer than `until` uses no cached row until `until` reaches its state.

#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the low bits of a number choose a place of the table"
)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;

use super::super::page_reader::page::PAGE_LEN;
use super::key::{hash, key_words};

/// Bytes of a page number.
const NUMBER_LEN: usize = 8;

/// Slots of each table, four bytes each.
const PLACES: usize = 1 << 20;

/// Pages and keys that commits have moved.
pub(crate) struct MovedPages {
    /// The newest commit when recording began. This commit has stamp 1, and each later commit has the next stamp.
    /// Earlier commits have stamp 0.
    first_txn: u64,
    pages: Box<[AtomicU32]>,
    keys: Box<[AtomicU32]>,
    pub(crate) hasher: RandomState,
    /// All commits after this commit and up to `until` are recorded.
    since: AtomicU64,
    until: AtomicU64,
    /// Held while a commit is recorded.
    noting: Mutex<()>,
}

impl MovedPages {
    /// Creates a record of the commits after `txn_id`.
    pub(crate) fn new(txn_id: u64) -> MovedPages {
        let table = || std::iter::repeat_with(AtomicU32::default).take(PLACES).collect();
        MovedPages {
            first_txn: txn_id,
            pages: table(),
            keys: table(),
            hasher: RandomState::default(),
            since: AtomicU64::new(txn_id),
            until: AtomicU64::new(txn_id),
            noting: Mutex::new(()),
        }
    }

    /// Returns the stamp of a commit; 0 if it has none.
    pub(crate) fn stamp(&self, txn_id: u64) -> u32 {
        let stamp = (txn_id + 1).checked_sub(self.first_txn);
        stamp.and_then(|stamp| u32::try_from(stamp).ok()).unwrap_or(0)
    }

    /// Returns true if all commits after `from` and up to `to` are recorded; `None` while the last of these commits may
    /// still be recorded. The caller must already read the state of `to`.
    pub(crate) fn knows(&self, from: u64, to: u64) -> Option<bool> {
        // The loads are in the reverse order of the stores in `note`.
        let is_taken_down = to <= self.until.load(Ordering::Acquire);
        is_taken_down.then(|| self.since.load(Ordering::Acquire) <= from)
    }

    /// Records that the commit `txn_id` changes the set of a key. Call it before the commit.
    pub(crate) fn key_changes(&self, map: usize, key: &[u8], txn_id: u64) {
        // `key_words` returns `None` for keys that are too long to be cached.
        if let Some(words) = key_words(map, key) {
            self.keys[key_place(hash(&self.hasher, &words))].store(self.stamp(txn_id), Ordering::Relaxed);
        }
    }

    /// Records the pages that the commit `txn_id` freed. `freed` holds the number of pages, then each page number. The
    /// caller must record all keys that the commit changed before this call.
    pub(crate) fn note(&self, txn_id: u64, freed: &[u8]) {
        let _noting = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp(txn_id);
        for number in freed.chunks_exact(NUMBER_LEN).skip(1) {
            let number = number.try_into().map_or(0, u64::from_ne_bytes);
            self.pages[page_place(number)].store(stamp, Ordering::Relaxed);
        }
        if self.until.load(Ordering::Relaxed) + 1 != txn_id {
            self.since.store(txn_id.saturating_sub(1), Ordering::Release);
        }
        self.until.store(txn_id, Ordering::Release);
    }

    /// Returns the stamp of the last commit that may have moved a row at this offset of the data file.
    #[inline]
    pub(crate) fn row_moved(&self, offset: u64) -> u32 {
        self.pages[page_place(offset / PAGE_LEN as u64)].load(Ordering::Relaxed)
    }

    /// Returns the stamp of the last commit that may have changed the set of a key with this hash.
    #[inline]
    pub(crate) fn key_changed(&self, hash: u64) -> u32 {
        self.keys[key_place(hash)].load(Ordering::Relaxed)
    }
}

#[inline]
fn page_place(page: u64) -> usize {
    page as usize & (PLACES - 1)
}

#[inline]
fn key_place(hash: u64) -> usize {
    hash as usize & (PLACES - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::{Env, PutKind, Txn, TxnKind, record_moved};
    use super::*;
    use crate::scratch::{ROWS, SETS, Scratch};

    const ROW_COUNT: u64 = 2_000;

    struct Tree {
        env: Arc<Env>,
        rows: usize,
        sets: usize,
    }

    impl Tree {
        fn change(&self, change: impl FnOnce(&mut Txn)) {
            let mut txn = Txn::begin(&self.env, TxnKind::Write).unwrap();
            change(&mut txn);
            txn.commit().unwrap();
        }

        fn put(&self, number: u64, len: usize) {
            self.change(|txn| {
                txn.put(self.rows, &number.to_be_bytes(), &vec![1; len], PutKind::Set).unwrap();
            });
        }
    }

    fn tree(scratch: &Scratch) -> (crate::Store, crate::Writer, Tree) {
        let (store, mut writer) = scratch.open();
        let mut batch = writer.begin().unwrap();
        for number in 0..ROW_COUNT {
            batch.put(ROWS, &number.to_be_bytes(), &[7; 200]).unwrap();
            batch.insert_id(SETS, &key(number), number).unwrap();
        }
        batch.commit().unwrap();
        store.checkpoint().unwrap();
        let env = Arc::clone(&store.shared().env);
        let index = |id| store.view().unwrap().map(id).index;
        let (rows, sets) = (index(ROWS), index(SETS));
        (store, writer, Tree { env, rows, sets })
    }

    fn key(number: u64) -> Vec<u8> {
        format!("key {number}").into_bytes()
    }

    fn caching_txn(tree: &Tree) -> Txn {
        let mut txn = Txn::begin(&tree.env, TxnKind::Read).unwrap();
        txn.cache_rows(1 << 20);
        txn.skip_patience();
        txn
    }

    /// Looks up every row and key, and caches them.
    fn look_up_all(txn: &Txn, tree: &Tree) {
        let look_up = |number: u64| {
            txn.get(tree.rows, &number.to_be_bytes()).unwrap();
            if let Some(Err(new_key)) = txn.cached_id(tree.sets, &key(number)) {
                txn.cache_id(tree.sets, &new_key, &number.to_be_bytes());
            }
        };
        (0..ROW_COUNT).for_each(look_up);
        // The tables grew during the look-ups. The rows in the previous table are still cached. The rows in older
        // tables are not.
        for known in [cached_rows(txn, tree).len(), cached_keys(txn, tree)] {
            assert!(known as u64 > ROW_COUNT / 2, "{known}");
        }
        (0..ROW_COUNT).for_each(look_up);
        txn.settle();
    }

    fn cached_rows(txn: &Txn, tree: &Tree) -> Vec<u64> {
        (0..ROW_COUNT).filter(|number| txn.knows_row(tree.rows, *number)).collect()
    }

    fn cached_keys(txn: &Txn, tree: &Tree) -> usize {
        (0..ROW_COUNT).filter(|number| matches!(txn.cached_id(tree.sets, &key(*number)), Some(Ok(_)))).count()
    }

    fn move_on(txn: &mut Txn) {
        txn.reset();
        txn.renew().unwrap();
    }

    #[test]
    fn rows_on_unchanged_pages_stay_cached() {
        let scratch = Scratch::new();
        let (_store, _writer, tree) = tree(&scratch);
        let mut txn = caching_txn(&tree);
        look_up_all(&txn, &tree);
        assert_eq!(cached_rows(&txn, &tree).len() as u64, ROW_COUNT);
        let keys = cached_keys(&txn, &tree);
        // Each key has four slots, so a few keys were evicted.
        assert!(keys as u64 > ROW_COUNT * 9 / 10, "{keys}");
        tree.put(1_000, 200);
        move_on(&mut txn);
        let known = cached_rows(&txn, &tree);
        assert!(!known.contains(&1_000));
        let lost = ROW_COUNT - known.len() as u64;
        assert!((2..60).contains(&lost), "a page has some 19 of these rows, and {lost} are evicted");
        assert_eq!(cached_keys(&txn, &tree), keys, "no set has changed");
        // Commit several times between two renewals, and move a row to pages of its own and back.
        for len in [9_000, 100, 9_000] {
            tree.put(500, len);
            tree.put(1_500, len);
        }
        move_on(&mut txn);
        let known = cached_rows(&txn, &tree);
        assert!(!known.contains(&500) && !known.contains(&1_500) && known.contains(&750));
        assert_eq!(txn.get(tree.rows, &500u64.to_be_bytes()).unwrap(), Some(&[1; 9_000][..]));
    }

    #[test]
    fn evicts_a_changed_set_and_no_other() {
        let scratch = Scratch::new();
        let (_store, _writer, tree) = tree(&scratch);
        let mut txn = caching_txn(&tree);
        look_up_all(&txn, &tree);
        let before = cached_keys(&txn, &tree);
        let is_known = |txn: &Txn, number| matches!(txn.cached_id(tree.sets, &key(number)), Some(Ok(_)));
        // The hashes are seeded, so each run evicts different keys.
        let mut known = (0..ROW_COUNT).filter(|number| is_known(&txn, *number));
        let (one, other) = (known.next().unwrap(), known.next().unwrap());
        drop(known);
        tree.change(|txn| {
            txn.put(tree.sets, &key(one), &7u64.to_be_bytes(), PutKind::Insert).unwrap();
            txn.delete(tree.sets, &key(other), None).unwrap();
        });
        assert_eq!(cached_keys(&txn, &tree), before, "the state has not changed");
        move_on(&mut txn);
        assert!(!is_known(&txn, one) && !is_known(&txn, other));
        // Other keys may have the same slots.
        assert!(cached_keys(&txn, &tree) >= before - 4);
    }

    #[test]
    fn uses_no_cached_row_after_an_unrecorded_commit() {
        let scratch = Scratch::new();
        let (_store, _writer, tree) = tree(&scratch);
        let mut txn = caching_txn(&tree);
        look_up_all(&txn, &tree);
        // This transaction does not record the pages that it moves.
        let mut silent = Txn::begin(&tree.env, TxnKind::Write).unwrap();
        silent.moved = None;
        silent.put(tree.rows, &3u64.to_be_bytes(), &[2; 50], PutKind::Set).unwrap();
        silent.commit().unwrap();
        move_on(&mut txn);
        // The cache waits, because the commit may still be recorded.
        assert_eq!((cached_rows(&txn, &tree).len(), cached_keys(&txn, &tree)), (0, 0));
        assert_eq!(txn.get(tree.rows, &3u64.to_be_bytes()).unwrap(), Some(&[2; 50][..]));
        tree.put(1_000, 200);
        move_on(&mut txn);
        txn.skip_patience();
        // The later commit is recorded, so the silent commit will never be recorded, and all rows are dropped.
        assert_eq!((cached_rows(&txn, &tree).len(), cached_keys(&txn, &tree)), (0, 0));
        look_up_all(&txn, &tree);
        tree.put(1_000, 100);
        move_on(&mut txn);
        assert!(!cached_rows(&txn, &tree).is_empty(), "rows are cached again");
    }

    #[test]
    fn waits_for_commits_that_are_not_recorded_yet() {
        let scratch = Scratch::new();
        let (_store, _writer, tree) = tree(&scratch);
        let mut txn = caching_txn(&tree);
        look_up_all(&txn, &tree);
        let mut late = Txn::begin(&tree.env, TxnKind::Write).unwrap();
        let (moved, id) = (late.moved.take().unwrap(), late.id());
        late.put(tree.rows, &3u64.to_be_bytes(), &[2; 50], PutKind::Set).unwrap();
        late.commit().unwrap();
        move_on(&mut txn);
        assert_eq!(cached_rows(&txn, &tree).len(), 0);
        record_moved(&moved, &tree.env, id).unwrap();
        // The reader uses its cache again, without another commit.
        let known = cached_rows(&txn, &tree);
        assert!(!known.contains(&3) && known.contains(&1_000));
    }

    #[test]
    fn stamps_ascend_from_the_first() {
        let moved = MovedPages::new(7);
        assert_eq!([6, 7, 8].map(|txn_id| moved.stamp(txn_id)), [0, 1, 2]);
        assert_eq!(moved.stamp(7 + (1 << 32)), 0, "nothing more is cached");
        let knows = |from, to| moved.knows(from, to);
        assert_eq!([knows(7, 7), knows(6, 7), knows(7, 8)], [Some(true), Some(false), None]);
        moved.note(8, &[]);
        assert_eq!([knows(7, 8), knows(6, 8)], [Some(true), Some(false)]);
        moved.note(10, &[]);
        assert_eq!([knows(9, 10), knows(8, 10)], [Some(true), Some(false)]);
    }
}
