//! The engine: the part of LMDB that the store uses, with a page reader and a row cache of our own.
//!
//! ```text
//!   Env, Txn, Cursor          what the store sees
//!     row_cache               where rows were found, from one look-up to the next
//!     residency               which pages are in memory
//!     page_reader             look-ups and walks over LMDB's pages; one unsafe function
//!     ffi                     LMDB's calls
//! ```
//!
//! All `unsafe` code of the crate is in `ffi` and in one function of `page_reader`, which makes slices of the mapped
//! file. The modules that decode those slices run under Miri and are fuzzed (see `tests/properties`). What that relies
//! on:
//!
//! - Pages of a committed state do not change while a reading transaction of that state stands, and the map never
//!   moves. So a slice of them may be borrowed from the transaction, and an offset in the file may be remembered as
//!   long as it stands (`cached_rows`). A page that no commit between two states gave up is the same in both: so an
//!   offset may be remembered from one state to the next (`moved`).
//! - LMDB trusts the bytes of its file: its pages carry no checksum. That is why only one process writes the file and
//!   why the rows that matter carry their own checksum one level up. The page reader checks every bound and trusts
//!   nothing, but a look-up that it leaves to LMDB is as safe as LMDB.

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
pub use residency::{Absent, PageNumber};
pub(crate) use row_cache::cached_rows::NewKey;
use row_cache::cached_rows::RowCache;
use row_cache::moved::Moved;
use row_cache::packed::ValueLocation;

use crate::layout::KEY_LEN_MAX;
use crate::maps::MapSpec;

type Result<T, E = Failure> = std::result::Result<T, E>;

/// An open data file with its maps.
pub(crate) struct Env {
    engine: Arc<Environment>,
    /// There once a transaction remembers rows.
    moved: OnceLock<Arc<Moved>>,
}

impl Env {
    /// As [`Environment::open`].
    pub(crate) fn open(options: &EnvOptions<'_>, held: Box<dyn Any + Send + Sync>) -> Result<Env> {
        Ok(Env { engine: Arc::new(Environment::open(options, held)?), moved: OnceLock::new() })
    }

    /// As [`Environment::open_maps`].
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

    /// Whether pages are as the module `page_reader` describes them.
    fn has_usual_pages(&self) -> bool {
        self.page_bytes == PAGE_LEN && cfg!(target_endian = "little")
    }

    /// Returns the record of what commits move, kept from the first call on; `None` if it cannot be kept, because
    /// another process writes.
    fn moved(&self) -> Option<Arc<Moved>> {
        let can_record = self.mode == Mode::ReadWrite && self.has_usual_pages();
        let last_txn_id = self.facts().ok().filter(|_| can_record)?.last_txn_id;
        Some(Arc::clone(self.moved.get_or_init(|| Arc::new(Moved::new(last_txn_id)))))
    }
}

impl Deref for Env {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.engine
    }
}

/// A transaction. Dropped, it is aborted.
pub(crate) struct Txn {
    engine: Transaction,
    env: Arc<Env>,
    /// Whether pages are read without LMDB.
    reads_pages: bool,
    /// Only in a reading transaction: rows that a writing one has read may move.
    row_cache: Option<RefCell<RowCache>>,
    /// Only of a writing transaction, and from its beginning: a reader does not trust what a commit did not record.
    moved: Option<Arc<Moved>>,
    /// Whether reads fail instead of waiting for the disk.
    must_not_wait: Cell<bool>,
    /// Residency of pages, created at the first read without waiting.
    residency: OnceCell<Box<RefCell<Residency>>>,
    /// The roots of maps that were looked for, in the state that is read, an empty map without one: nothing while the
    /// transaction is reset.
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

    /// Of a reading transaction: remembers in up to `bytes_max` bytes what it is asked.
    pub(crate) fn cache_rows(&mut self, bytes_max: usize) {
        self.row_cache = Some(RefCell::new(RowCache::new(bytes_max, self.id(), self.env.moved())));
    }

    /// The id of the committed transaction that is read, or that a commit will give.
    pub(crate) fn id(&self) -> u64 {
        self.engine.id()
    }

    /// Lets go of what is read, keeping the reader slot. Without effect on a writing transaction.
    pub(crate) fn reset(&mut self) {
        if let Some(cache) = &mut self.row_cache {
            cache.get_mut().suspend();
        }
        self.roots.get_mut().clear();
        self.engine.reset();
    }

    /// After [`reset`](Txn::reset): reads the newest committed state.
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.engine.renew()?;
        let id = self.id();
        if let Some(cache) = &mut self.row_cache {
            cache.get_mut().resume(id);
        }
        Ok(())
    }

    /// Commits: durable when this returns. A failure aborts.
    pub(crate) fn commit(self) -> Result<()> {
        let Txn { engine, env, moved, .. } = self;
        let id = engine.id();
        engine.commit()?;
        if let Some(moved) = &moved {
            // If that fails, readers forget what they remember.
            let _ = record_moved(moved, &env, id);
        }
        Ok(())
    }

    /// The value of `key` in a map without sets.
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
        if let Some(value) = cache.row(map, number).and_then(|place| self.bytes_at(place)) {
            return Ok(Some(value));
        }
        let value = self.get_from_tree(map, key)?;
        if let Some(place) = value.and_then(|value| self.place_of(value)) {
            cache.cache_row(map, number, place);
            if cache.has_room_for_rows() {
                self.cache_rows_ahead(&mut cache, map, place);
            }
        }
        Ok(value)
    }

    /// Remembers the rows of the leaf with this value: the way to the leaf is most of what a look-up costs, and it need
    /// not be gone again for each of them. So a server that has just started knows most of its rows after a few
    /// requests for every hundred of them.
    #[inline(never)]
    fn cache_rows_ahead(&self, cache: &mut RowCache, map: usize, value: ValueLocation) {
        for (key, value) in self.leaf_of(value).into_iter().flat_map(LeafRows::with_value) {
            if let (Ok(number), Some(place)) = (key.try_into().map(u64::from_be_bytes), self.place_of(value))
            {
                cache.cache_row_ahead(map, number, place);
            }
        }
    }

    /// The same of a map of sets: the keys of the leaf that have one id.
    #[inline(never)]
    fn cache_ids_ahead(&self, cache: &mut RowCache, map: usize, value: ValueLocation) {
        for (key, id) in self.leaf_of(value).into_iter().flat_map(LeafRows::with_value) {
            if let Ok(id) = id.try_into() {
                cache.cache_id_ahead(map, key, u64::from_be_bytes(id));
            }
        }
    }

    /// The leaf in which a value lies; `None` of one with pages of its own.
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

    /// The bytes at a place of the data file that belongs to the state that is read.
    #[inline]
    fn bytes_at(&self, (offset, len): ValueLocation) -> Option<&[u8]> {
        self.pages().ok()??.bytes(offset, len)
    }

    /// The data file in memory, if its pages are read without LMDB.
    #[inline]
    fn pages(&self) -> Result<Option<Mapping<'_>>> {
        if self.reads_pages { self.engine.mapping() } else { Ok(None) }
    }

    fn place_of(&self, value: &[u8]) -> Option<ValueLocation> {
        Some((self.pages().ok()??.offset_of(value)?, value.len()))
    }

    /// Looks up a key; returns `None` if LMDB has to be asked.
    #[inline]
    pub(crate) fn find(&self, map: usize, key: &[u8]) -> Result<Option<Found<'_>>> {
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            return Ok(None);
        }
        Ok(self.tree(map)?.and_then(|tree| tree.find(key)))
    }

    /// Returns the tree of a map; `None` if the map is empty, or pages are not read without LMDB.
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
        // An empty map has none.
        let root = record.and_then(|record| word(record, TREE_ROOT)).filter(|root| *root != u64::MAX);
        let roots = &mut *self.roots.borrow_mut();
        roots.resize(roots.len().max(map + 1), None);
        if let Some(slot) = roots.get_mut(map) {
            *slot = Some(root);
        }
        Ok(root)
    }

    /// In a map of sets, the one value of `key` if it is known to have one only; or the key as
    /// [`cache_id`](Txn::cache_id) takes it, if it would.
    #[inline]
    pub(crate) fn cached_id(&self, map: usize, key: &[u8]) -> Option<Result<u64, NewKey>> {
        let mut cache = self.row_cache.as_ref()?.borrow_mut();
        if !cache.is_active() {
            return None;
        }
        let answer = cache.id(map, key);
        if let Some(Ok(id)) = answer {
            // A caller that finds an id asks for the rows of that number next.
            cache.prefetch_place(id);
        }
        answer
    }

    /// Has the processor fetch the value of the number `key`, if its location is known: call it before a read.
    #[inline]
    pub(crate) fn prefetch(&self, map: usize, key: u64) {
        let Some(cache) = &self.row_cache else { return };
        let mut cache = cache.borrow_mut();
        if cache.is_active()
            && let Some((offset, len)) = cache.row(map, key)
            && let Some(value) = self.bytes_at((offset, len.min(PREFETCHED_MAX)))
        {
            system::prefetch(value);
        }
    }

    /// Caches the one value of a key, at the location where it was read.
    pub(crate) fn cache_id(&self, map: usize, key: &NewKey, id: &[u8]) {
        let (Some(cache), Ok(number)) = (&self.row_cache, id.try_into().map(u64::from_be_bytes)) else {
            return;
        };
        let mut cache = cache.borrow_mut();
        if cache.is_active() {
            cache.cache_id(key, number);
            if let (true, Some(place)) = (cache.has_room_for_ids(), self.place_of(id)) {
                self.cache_ids_ahead(&mut cache, map, place);
            }
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

    /// Values in a map, all those of a set counted.
    pub(crate) fn row_count(&self, map: usize) -> Result<u64> {
        self.engine.row_count(map)
    }

    /// The names of all maps in the file, the store's own too.
    pub(crate) fn map_names(&self) -> Result<Vec<Vec<u8>>> {
        self.engine.map_names()
    }

    /// As [`Transaction::put`].
    pub(crate) fn put(&mut self, map: usize, key: &[u8], value: &[u8], kind: PutKind) -> Result<bool> {
        self.set_changes(map, key);
        self.engine.put(map, key, value, kind)
    }

    /// As [`Transaction::append_values`].
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

    /// As [`Transaction::delete`].
    pub(crate) fn delete(&mut self, map: usize, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        self.set_changes(map, key);
        self.engine.delete(map, key, value)
    }

    /// Says that the set of a key is about to change.
    fn set_changes(&self, map: usize, key: &[u8]) {
        if let Some(moved) = &self.moved
            && self.env.has_sets(map)
        {
            moved.key_changes(map, key, self.id());
        }
    }
}

/// Bytes of a value that are fetched before it is read: more than an entry of a person takes, and as many lines as a
/// processor waits for at a time.
const PREFETCHED_MAX: usize = 1_024;

/// Records which pages the commit `txn_id` moved. It is over and has recorded the keys whose sets it changed.
fn record_moved(moved: &Moved, env: &Arc<Env>, txn_id: u64) -> Result<()> {
    let txn = Txn::begin(env, TxnKind::Read)?;
    // A commit that changed nothing gets no number, and a later commit may have changed this one's list.
    if txn.id() == txn_id {
        moved.note(txn_id, txn.engine.freed_pages(txn_id)?);
    }
    Ok(())
}
