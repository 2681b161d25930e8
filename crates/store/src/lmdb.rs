//! The engine: the part of LMDB that the store uses, with a page reader and a row cache of our own.
//!
//! ```text
//!   Env, Txn, Cursor          interface to the store
//!     row_cache               locations of rows found by earlier look-ups
//!     residency               which pages are in memory
//!     page_reader             look-ups and traversals of LMDB's pages; one unsafe function
//!     ffi                     LMDB's calls
//! ```
//!
//! All `unsafe` code of the crate is in `ffi` and in one function of `page_reader`, which makes slices of the mapped
//! file. The modules that decode those slices run under Miri and are fuzzed (see `tests/properties`). All of this code
//! assumes:
//!
//! - Pages of a committed state do not change during a reading transaction of that state, and the map never moves. So
//!   slices may borrow from the transaction, and an offset in the file stays valid as long as the transaction
//!   (`cached_rows`). If no commit between two states freed a page, the page is the same in both, and so offsets in it
//!   are valid in both (`moved`).
//! - LMDB trusts the bytes of its file, whose pages carry no checksum. So only one process writes the file, and log
//!   records carry a checksum of their own. The page reader checks every bound and trusts nothing, but a look-up that
//!   it leaves to LMDB is only as safe as LMDB.

mod cursor;
mod ffi;
mod page_reader;
mod residency;
mod row_cache;

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

pub(crate) use cursor::Cursor;
pub(crate) use ffi::{EnvOptions, Failure, Mode, PutKind, Row, Step, TxnKind};
use ffi::{Environment, Mapping, Transaction};
use page_reader::leaf::LeafRows;
pub(crate) use page_reader::lookup::Found;
use page_reader::lookup::MapTree;
use page_reader::page::{LEAF, PAGE_LEN, Pages, TREE_ROOT, row_count, word};
use residency::Residency;
pub use residency::{AbsentPages, PageNumber};
pub(crate) use row_cache::cached_rows::NewKey;
use row_cache::cached_rows::RowCache;
use row_cache::moved::MovedPages;
use row_cache::packed::ValueLocation;

use crate::layout::KEY_LEN_MAX;
use crate::maps::MapSpec;

type Result<T, E = Failure> = std::result::Result<T, E>;

/// An open data file with its maps.
pub(crate) struct Env {
    engine: Arc<Environment>,
    /// Record of moved pages and keys, created when a transaction first caches rows.
    moved: OnceLock<Arc<MovedPages>>,
}

impl Env {
    /// Does the same as [`Environment::open`].
    pub(crate) fn open(options: &EnvOptions<'_>, held: Box<dyn Any + Send + Sync>) -> Result<Env> {
        Ok(Env { engine: Arc::new(Environment::open(options, held)?), moved: OnceLock::new() })
    }

    /// Does the same as [`Environment::open_maps`].
    pub(crate) fn open_maps(&mut self, maps: &[MapSpec], create: bool) -> Result<Option<&'static str>> {
        let is_shared = Failure { operation: "mdb_dbi_open", code: Failure::INVALID };
        Arc::get_mut(&mut self.engine).ok_or(is_shared)?.open_maps(maps, create)
    }

    /// Changes the data file in one transaction.
    pub(crate) fn write(self: &Arc<Env>, change: impl FnOnce(&mut Txn) -> Result<()>) -> Result<()> {
        let mut txn = Txn::begin(self, TxnKind::Write)?;
        change(&mut txn)?;
        txn.commit()
    }

    /// Returns true if pages have the layout that the module `page_reader` supports.
    fn has_usual_pages(&self) -> bool {
        self.page_bytes == PAGE_LEN && cfg!(target_endian = "little")
    }

    /// Returns the record of moved pages and keys, which is maintained from the first call on. Returns `None` if the
    /// record cannot be maintained: another process may write the file, or the pages have an unusual layout.
    fn moved(&self) -> Option<Arc<MovedPages>> {
        let can_record = self.mode == Mode::ReadWrite && self.has_usual_pages();
        let last_txn_id = self.facts().ok().filter(|_| can_record)?.last_txn_id;
        Some(Arc::clone(self.moved.get_or_init(|| Arc::new(MovedPages::new(last_txn_id)))))
    }
}

impl Deref for Env {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.engine
    }
}

/// A transaction. Dropping it aborts it.
pub(crate) struct Txn {
    engine: Transaction,
    env: Arc<Env>,
    /// Whether pages are read by our own page reader instead of LMDB.
    reads_pages: bool,
    /// `Some` only in a reading transaction, because a write may move rows in the file.
    row_cache: Option<RefCell<RowCache>>,
    /// Record of moved pages and keys, to which the commit is added. `Some` only in a writing transaction that began
    /// after the record was created. Readers drop their cached rows after a commit that is not in the record.
    moved: Option<Arc<MovedPages>>,
    /// Whether reads fail instead of waiting for the disk.
    must_not_wait: Cell<bool>,
    /// Residency of pages, created at the first read without waiting.
    residency: OnceCell<Box<RefCell<Residency>>>,
    /// Roots of maps that were looked up in the current state; `Some(None)` for an empty map. The list is cleared when
    /// the transaction is reset.
    roots: RefCell<Vec<Option<Option<u64>>>>,
}

impl Txn {
    pub(crate) fn begin(env: &Arc<Env>, kind: TxnKind) -> Result<Txn> {
        let engine = Transaction::begin(&env.engine, kind)?;
        let reads_pages = kind == TxnKind::Read && env.has_usual_pages();
        let moved = if kind == TxnKind::Write { env.moved.get().cloned() } else { None };
        Ok(Txn {
            engine,
            env: Arc::clone(env),
            reads_pages,
            row_cache: None,
            moved,
            must_not_wait: Cell::new(false),
            residency: OnceCell::new(),
            roots: RefCell::default(),
        })
    }

    /// Caches the locations of rows in up to `bytes_max` bytes. Only for a reading transaction.
    pub(crate) fn cache_rows(&mut self, bytes_max: usize) {
        self.row_cache = Some(RefCell::new(RowCache::new(bytes_max, self.id(), self.env.moved())));
    }

    /// Returns the id of the committed transaction whose state is read. In a writing transaction, returns the id that
    /// its commit will get.
    pub(crate) fn id(&self) -> u64 {
        self.engine.id()
    }

    /// Releases the state that is read, but not the reader slot. Has no effect on a writing transaction.
    pub(crate) fn reset(&mut self) {
        if let Some(cache) = &mut self.row_cache {
            cache.get_mut().suspend();
        }
        self.roots.get_mut().clear();
        self.engine.reset();
    }

    /// Reads the newest committed state, after [`reset`](Txn::reset).
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.engine.renew()?;
        let id = self.id();
        if let Some(cache) = &mut self.row_cache {
            cache.get_mut().resume(id);
        }
        Ok(())
    }

    /// Commits. The changes are durable when this returns. A failure aborts the transaction.
    pub(crate) fn commit(self) -> Result<()> {
        let Txn { engine, env, moved, .. } = self;
        let id = engine.id();
        engine.commit()?;
        if let Some(moved) = &moved {
            // If recording fails, readers drop their cached rows.
            let _ = record_moved(moved, &env, id);
        }
        Ok(())
    }

    /// Returns the value of `key` in a map without sets.
    #[inline(always)]
    pub(crate) fn get(&self, map: usize, key: &[u8]) -> Result<Option<&[u8]>> {
        self.check_residency(map, key)?;
        let (Some(cache), Ok(number)) = (&self.row_cache, key.try_into().map(u64::from_be_bytes)) else {
            return self.get_from_tree(map, key);
        };
        let mut cache = cache.borrow_mut();
        if !cache.is_active() {
            return self.get_from_tree(map, key);
        }
        if let Some(place) = cache.row(map, number)
            && let Some(value) = self.bytes_at(place)
        {
            cache.keep_hint(map, number, place);
            return Ok(Some(value));
        }
        let value = self.get_from_tree(map, key)?;
        if let Some(place) = value.and_then(|value| self.place_of(value))
            && cache.cache_row(map, number, place)
        {
            self.cache_rows_ahead(&mut cache, map, place);
        }
        Ok(value)
    }

    /// Caches all rows of the leaf that contains this value. Most of the cost of a look-up is the descent to the leaf,
    /// and the other rows of the leaf then need no descent. So a server that has just started has cached most rows
    /// after a few requests for each hundred rows.
    #[inline(never)]
    fn cache_rows_ahead(&self, cache: &mut RowCache, map: usize, value: ValueLocation) {
        for (key, value) in self.leaf_of(value).into_iter().flat_map(LeafRows::with_value) {
            if let (Ok(number), Some(place)) = (key.try_into().map(u64::from_be_bytes), self.place_of(value))
            {
                cache.cache_row_ahead(map, number, place);
            }
        }
    }

    /// In a map of sets, caches the keys of the leaf that contains this value, except keys with several ids.
    #[inline(never)]
    fn cache_ids_ahead(&self, cache: &mut RowCache, map: usize, value: ValueLocation) {
        for (key, id) in self.leaf_of(value).into_iter().flat_map(LeafRows::with_value) {
            if let Ok(id) = id.try_into() {
                cache.cache_id_ahead(map, key, u64::from_be_bytes(id));
            }
        }
    }

    /// Returns the leaf that contains a value; `None` for a value with pages of its own.
    fn leaf_of(&self, (offset, _): ValueLocation) -> Option<&[u8]> {
        let number = offset / PAGE_LEN as u64;
        let page = self.pages().ok()??.page(number)?;
        (word(page, 0) == Some(number) && row_count(page, LEAF).is_some()).then_some(page)
    }

    fn get_from_tree(&self, map: usize, key: &[u8]) -> Result<Option<&[u8]>> {
        match self.find(map, key)? {
            Some(Found::Value(value)) => Ok(Some(value)),
            Some(Found::Nothing) => Ok(None),
            Some(Found::Set) | None => self.engine.get(map, key),
        }
    }

    /// Returns the bytes at a location of the data file that belongs to the current state.
    #[inline(always)]
    fn bytes_at(&self, (offset, len): ValueLocation) -> Option<&[u8]> {
        self.pages().ok()??.bytes(offset, len)
    }

    /// Returns the mapped data file, if its pages are read without LMDB.
    #[inline]
    fn pages(&self) -> Result<Option<Mapping<'_>>> {
        if self.reads_pages { self.engine.mapping() } else { Ok(None) }
    }

    fn place_of(&self, value: &[u8]) -> Option<ValueLocation> {
        Some((self.pages().ok()??.offset_of(value)?, value.len()))
    }

    /// Looks up a key. Returns `None` if only LMDB can look it up.
    #[inline]
    pub(crate) fn find(&self, map: usize, key: &[u8]) -> Result<Option<Found<'_>>> {
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            return Ok(None);
        }
        Ok(self.tree(map)?.and_then(|tree| tree.find(key)))
    }

    /// Returns the tree of a map; `None` if the map is empty or its pages have to be read by LMDB.
    #[inline]
    fn tree(&self, map: usize) -> Result<Option<MapTree<Mapping<'_>>>> {
        let cached = self.roots.borrow().get(map).copied().flatten();
        let root = cached.map_or_else(|| self.find_root(map), Ok)?;
        let Some(root) = root else { return Ok(None) };
        Ok(self.pages()?.map(|pages| MapTree { pages, root }))
    }

    #[inline(never)]
    fn find_root(&self, map: usize) -> Result<Option<u64>> {
        if !self.reads_pages {
            return Ok(None);
        }
        let record = self.engine.map_record(map)?;
        // An empty map has no root.
        let root = record.and_then(|record| word(record, TREE_ROOT)).filter(|root| *root != u64::MAX);
        let roots = &mut *self.roots.borrow_mut();
        roots.resize(roots.len().max(map + 1), None);
        if let Some(slot) = roots.get_mut(map) {
            *slot = Some(root);
        }
        Ok(root)
    }

    /// Returns the only id under `key` in a map of id sets, if the id is cached. Otherwise returns, as an error, the
    /// key in the form that [`cache_id`](Txn::cache_id) accepts. Returns `None` if there is no active cache, or if the
    /// key cannot be cached.
    #[inline]
    pub(crate) fn cached_id(&self, map: usize, key: &[u8]) -> Option<Result<u64, NewKey>> {
        let mut cache = self.row_cache.as_ref()?.borrow_mut();
        if !cache.is_active() {
            return None;
        }
        let answer = cache.id(map, key);
        if let Some(Ok(id)) = answer {
            // A caller that finds an id usually looks up the row of that id next.
            cache.prefetch_place(id);
        }
        answer
    }

    /// Prefetches the value of the row with the numeric key `key`, if its location is cached. Call it early enough
    /// before the row is read that the value can arrive.
    #[inline]
    pub(crate) fn prefetch(&self, map: usize, key: u64) {
        let Some(cache) = &self.row_cache else { return };
        let mut cache = cache.borrow_mut();
        // The hint is stored next to the id that was just found. Reading the hint therefore avoids waiting for the
        // memory of the row's slot.
        if cache.is_active()
            && let Some((offset, len)) = cache.hint(map, key).or_else(|| cache.row(map, key))
            && let Some(value) = self.bytes_at((offset, len.min(PREFETCHED_MAX)))
        {
            system::prefetch(value);
        }
    }

    /// Prefetches the cache slot of a key in a map of id sets. Call it early enough before the look-up of the key that
    /// the slot can arrive.
    #[inline]
    pub(crate) fn prefetch_id(&self, map: usize, key: &[u8]) {
        if let Some(cache) = &self.row_cache {
            cache.borrow_mut().prefetch_id(map, key);
        }
    }

    /// Caches `id`, the bytes that a look-up of `key` returned from the data file. `id` must be the only id under the
    /// key.
    pub(crate) fn cache_id(&self, map: usize, key: &NewKey, id: &[u8]) {
        let (Some(cache), Ok(number)) = (&self.row_cache, id.try_into().map(u64::from_be_bytes)) else {
            return;
        };
        let mut cache = cache.borrow_mut();
        if cache.is_active()
            && cache.cache_id(key, number)
            && let Some(place) = self.place_of(id)
        {
            self.cache_ids_ahead(&mut cache, map, place);
        }
    }

    #[cfg(test)]
    fn skip_patience(&mut self) {
        if let Some(cache) = &mut self.row_cache {
            cache.get_mut().skip_patience();
        }
    }

    #[cfg(test)]
    fn settle(&self) {
        if let Some(cache) = &self.row_cache {
            cache.borrow_mut().settle();
        }
    }

    #[cfg(test)]
    pub(crate) fn knows_row(&self, map: usize, key: u64) -> bool {
        let Some(mut cache) = self.row_cache.as_ref().map(RefCell::borrow_mut) else { return false };
        cache.is_active() && cache.row(map, key).is_some()
    }

    /// Returns the number of values in a map. Each value of a set counts.
    pub(crate) fn row_count(&self, map: usize) -> Result<u64> {
        self.engine.row_count(map)
    }

    /// Returns the names of all maps in the file, including the store's own.
    pub(crate) fn map_names(&self) -> Result<Vec<Vec<u8>>> {
        self.engine.map_names()
    }

    /// Does the same as [`Transaction::free_bytes`].
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        self.engine.free_bytes()
    }

    /// Does the same as [`Transaction::put`].
    pub(crate) fn put(&mut self, map: usize, key: &[u8], value: &[u8], kind: PutKind) -> Result<bool> {
        self.set_changes(map, key);
        self.engine.put(map, key, value, kind)
    }

    /// Does the same as [`Transaction::append_values`].
    pub(crate) fn append_values(
        &mut self,
        map: usize,
        key: &[u8],
        values: &[u8],
        value_len: usize,
        new_key: bool,
    ) -> Result<()> {
        self.set_changes(map, key);
        self.engine.append_values(map, key, values, value_len, new_key)
    }

    /// Does the same as [`Transaction::delete`].
    pub(crate) fn delete(&mut self, map: usize, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        self.set_changes(map, key);
        self.engine.delete(map, key, value)
    }

    /// Records that the set of a key is about to change.
    fn set_changes(&self, map: usize, key: &[u8]) {
        if let Some(moved) = &self.moved
            && self.env.has_sets(map)
        {
            moved.key_changes(map, key, self.id());
        }
    }
}

/// Maximum number of bytes of a value that are prefetched. This length covers the entry of a person, and a processor
/// can load this many cache lines in parallel.
const PREFETCHED_MAX: usize = 1_024;

/// Records the pages that the commit `txn_id` moved. Call it after the commit, when the keys whose sets the commit
/// changed are already recorded.
fn record_moved(moved: &MovedPages, env: &Arc<Env>, txn_id: u64) -> Result<()> {
    let txn = Txn::begin(env, TxnKind::Read)?;
    // If the commit changed nothing, it got no transaction number, and the number of the newest state is lower. If the
    // newest state belongs to a later commit, the later commit may have changed the list of pages that this commit
    // freed.
    if txn.id() == txn_id {
        moved.note(txn_id, txn.engine.freed_pages(txn_id)?);
    }
    Ok(())
}
