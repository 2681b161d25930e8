//! The engine: a safe face on the part of LMDB that the store uses. The only module of the crate with `unsafe` in it.
//!
//! What LMDB asks of its caller, and how the types here see to it:
//!
//! - *A transaction is used by one thread at a time.* [`Txn`] is `Send` (the environment is opened with `MDB_NOTLS`)
//!   and not `Sync`: even a read changes the transaction's cache of map roots.
//! - *Returned bytes live until the transaction ends, is reset, or (if it writes) writes.* They borrow from the `Txn`;
//!   ending, resetting and writing take it by value or by `&mut`. The same holds for [`Cursor`].
//! - *The environment outlives its transactions.* A `Txn` holds an `Arc` of its [`Env`].
//! - *A data file is opened once at a time.* [`Env`] carries whatever guards that (the lock file, the process's claim)
//!   and lets go of it after closing.
//! - *Rows stay where they are in the map while a reading transaction stands*, so their addresses can be remembered
//!   until it is reset (`known_rows`), and the page around a row can be read (`leaf`), and those on the way to it
//!   (`pages`, `trees`, `way`, `presence`). *A page that no commit between two states gave up is the same in both*, and
//!   the map never moves: so an address may be remembered from one state to the next (`moved`).
//! - *Map handles belong to their environment.* They stay inside `Env`; callers name maps by index, which is checked.
//!
//! LMDB trusts the bytes of its file: its pages carry no checksum. That is why only one process writes the file and why
//! the rows that matter carry their own checksum one level up. No flag that weakens durability (`MDB_NOSYNC`,
//! `MDB_NOMETASYNC`, `MDB_WRITEMAP`, `MDB_MAPASYNC`) is ever set on data that anybody relies on; [`Mode::Making`] sets
//! `MDB_NOSYNC` on a file that nobody reads before it is synced as a whole. `MDB_NOMEMINIT` is never set: it would
//! write stale heap memory, passwords included, into the file.

#![allow(unsafe_code)]

mod cursor;
mod fetch;
mod known_rows;
mod leaf;
mod moved;
mod pages;
mod presence;
mod recent_rows;
mod table;
mod trees;
mod way;

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use lmdb_master_sys as ffi;

use crate::StoreError;
use crate::maps::{MapKind, MapSpec};
use cursor::Walked;
pub(crate) use cursor::{Cursor, Row, Step};
pub use fetch::fetch;
use known_rows::Known;
pub(crate) use known_rows::NewKey;
use moved::Moved;
use pages::PAGE;
use presence::Presence;
pub use presence::{Absent, PageNumber};
use recent_rows::RecentRows;
pub(crate) use trees::Found;
use trees::Tree;

/// An error number that an engine call returned: negative for LMDB's own, else the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) operation: &'static str,
    pub(crate) code: i32,
}

impl Failure {
    pub(crate) const CORRUPTED: i32 = ffi::MDB_CORRUPTED;
    pub(crate) const INVALID: i32 = ffi::MDB_INVALID;
    pub(crate) const KEY_EXISTS: i32 = ffi::MDB_KEYEXIST;
    pub(crate) const MAP_FULL: i32 = ffi::MDB_MAP_FULL;
    pub(crate) const NOT_FOUND: i32 = ffi::MDB_NOTFOUND;
    pub(crate) const PANIC: i32 = ffi::MDB_PANIC;
    /// Not of LMDB: what was to be read only if it is in memory is not.
    pub(crate) const NOT_IN_MEMORY: i32 = i32::MIN;
    pub(crate) const READERS_FULL: i32 = ffi::MDB_READERS_FULL;
    pub(crate) const VERSION_MISMATCH: i32 = ffi::MDB_VERSION_MISMATCH;

    /// Whether what failed comes before a transaction is synced: what it has written until then, nothing refers to.
    pub(crate) fn is_before_commit(self) -> bool {
        self.is_of_beginning() || matches!(self.operation, "mdb_put" | "mdb_cursor_put" | "mdb_del")
    }

    /// Whether what failed comes before anything is written: beginning a transaction or a cursor, which takes memory.
    pub(crate) fn is_of_beginning(self) -> bool {
        matches!(self.operation, "mdb_txn_begin" | "mdb_txn_renew" | "mdb_cursor_open")
    }

    /// Whether the system has, for now, none left of what files, threads and transactions are made of.
    pub(crate) fn is_exhausted(self) -> bool {
        [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN].contains(&self.code)
    }

    /// The error for what the system had no room for.
    pub(crate) fn exhausted(self) -> StoreError {
        StoreError::Exhausted { operation: self.operation, message: self.message() }
    }

    /// The engine's or the system's words for the code.
    pub(crate) fn message(self) -> String {
        if self.code > 0 {
            return std::io::Error::from_raw_os_error(self.code).to_string();
        }
        // SAFETY: for codes that are not the system's, mdb_strerror returns a string constant.
        let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(self.code)) };
        text.to_string_lossy().into_owned()
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> StoreError {
        match failure.code {
            Failure::READERS_FULL => StoreError::TooManyViews,
            Failure::NOT_IN_MEMORY => StoreError::NotInMemory,
            _ if failure.is_of_beginning() && failure.is_exhausted() => failure.exhausted(),
            code => StoreError::Engine { operation: failure.operation, code, message: failure.message() },
        }
    }
}

type Result<T, E = Failure> = std::result::Result<T, E>;

fn check(operation: &'static str, code: i32) -> Result<()> {
    if code == ffi::MDB_SUCCESS { Ok(()) } else { Err(Failure { operation, code }) }
}

/// As [`check`], with "not found" as `false`.
fn found(operation: &'static str, code: i32) -> Result<bool> {
    if code == ffi::MDB_NOTFOUND { Ok(false) } else { check(operation, code).map(|()| true) }
}

const EMPTY: ffi::MDB_val = ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };

/// `bytes` as an argument. LMDB does not write through the pointer, its type is merely not const.
fn value_of(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr() as *mut _ }
}

/// The bytes of a result.
///
/// # Safety
/// `value` is [`EMPTY`] or was filled in by a successful call on a transaction, whose state the caller keeps borrowed
/// for `'t`.
unsafe fn bytes_of<'t>(value: ffi::MDB_val) -> &'t [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: a non-empty result points to that many bytes of a page, in the map or on the heap, that nobody changes
    // while the transaction stands as it is (contract of this function).
    unsafe { std::slice::from_raw_parts(value.mv_data.cast(), value.mv_size) }
}

/// What an environment is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reading and writing, with readers in this process and others.
    ReadWrite,
    /// Reading beside a writer in another process.
    ReadOnly,
    /// Reading outside LMDB's own locking: sound only while nobody writes.
    Frozen,
    /// Writing a new file that nobody else opens, without syncs and outside LMDB's locking: one writing transaction at
    /// a time and no other.
    Making,
}

impl Mode {
    fn flags(self) -> u32 {
        match self {
            Mode::ReadWrite => 0,
            Mode::ReadOnly => ffi::MDB_RDONLY,
            Mode::Frozen => ffi::MDB_RDONLY | ffi::MDB_NOLOCK,
            Mode::Making => ffi::MDB_NOSYNC | ffi::MDB_NOLOCK,
        }
    }
}

/// How to open an environment.
pub(crate) struct EnvOptions<'a> {
    pub(crate) data_file: &'a Path,
    pub(crate) map_bytes: usize,
    pub(crate) readers_max: u32,
    pub(crate) maps_max: u32,
    pub(crate) mode: Mode,
    /// Whether the system may read pages ahead: a gain for whole scans, a loss for everything else.
    pub(crate) read_ahead: bool,
}

/// A map that is open.
#[derive(Clone, Copy)]
struct OpenMap {
    name: &'static str,
    dbi: ffi::MDB_dbi,
    id_set: bool,
}

/// An open data file with its maps.
pub(crate) struct Env {
    raw: NonNull<ffi::MDB_env>,
    maps: Vec<OpenMap>,
    page_bytes: usize,
    mode: Mode,
    /// There once a transaction remembers rows.
    moved: OnceLock<Arc<Moved>>,
    /// Where the data file is mapped, once somebody wanted to know.
    start: OnceLock<usize>,
    /// Kept until the environment is closed. Fields drop after `Drop::drop`, which closes.
    _held: Box<dyn Any + Send + Sync>,
}

// SAFETY: an MDB_env may be used from any thread; LMDB guards what is shared in it with its own mutexes and atomics.
// `maps` changes only through `&mut`.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

/// Figures about an environment.
pub(crate) struct EnvFacts {
    pub(crate) map_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) reader_slots: u32,
    pub(crate) last_txn_id: u64,
}

impl Env {
    /// Opens a data file, created if missing, without any map yet. `held` is dropped after the file is closed.
    ///
    /// The caller sees to it that one process at a time has the file open for writing, that no process opens it twice
    /// unless the second time is [`Mode::Frozen`], and what the modes ask for.
    pub(crate) fn open(options: &EnvOptions<'_>, held: Box<dyn Any + Send + Sync>) -> Result<Env> {
        let path = CString::new(options.data_file.as_os_str().as_bytes())
            .map_err(|_| Failure { operation: "mdb_env_open", code: ffi::MDB_INVALID })?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a valid place for the new environment.
        check("mdb_env_create", unsafe { ffi::mdb_env_create(&mut raw) })?;
        let raw = NonNull::new(raw).ok_or(Failure { operation: "mdb_env_create", code: ffi::MDB_PROBLEM })?;
        // From here on a failure drops `env`, which closes: what LMDB asks for also after a failed open.
        let mut env = Env {
            raw,
            maps: Vec::new(),
            page_bytes: 0,
            mode: options.mode,
            moved: OnceLock::new(),
            start: OnceLock::new(),
            _held: held,
        };
        let mut flags = ffi::MDB_NOSUBDIR | ffi::MDB_NOTLS | options.mode.flags();
        if !options.read_ahead {
            flags |= ffi::MDB_NORDAHEAD;
        }
        // SAFETY: the environment is created and not yet open, as these calls ask; `path` ends with a NUL and is
        // copied.
        unsafe {
            check("mdb_env_set_mapsize", ffi::mdb_env_set_mapsize(raw.as_ptr(), options.map_bytes))?;
            check("mdb_env_set_maxreaders", ffi::mdb_env_set_maxreaders(raw.as_ptr(), options.readers_max))?;
            check("mdb_env_set_maxdbs", ffi::mdb_env_set_maxdbs(raw.as_ptr(), options.maps_max))?;
            check("mdb_env_open", ffi::mdb_env_open(raw.as_ptr(), path.as_ptr(), flags, 0o600))?;
        }
        env.page_bytes = env.stat()?.ms_psize as usize;
        Ok(env)
    }

    /// Opens maps, in addition to those open, creating them where `create` says so. Returns the first that exists with
    /// another kind.
    pub(crate) fn open_maps(&mut self, maps: &[MapSpec], create: bool) -> Result<Option<&'static str>> {
        let begin_flags = if create { 0 } else { ffi::MDB_RDONLY };
        let mut txn = ptr::null_mut();
        // SAFETY: the environment is open, and `&mut self` says that no other transaction of ours is; `txn` is a valid
        // place.
        check("mdb_txn_begin", unsafe {
            ffi::mdb_txn_begin(self.raw.as_ptr(), ptr::null_mut(), begin_flags, &mut txn)
        })?;
        let outcome = maps.iter().try_fold(None, |mismatch, map| {
            // SAFETY: `txn` is the transaction just begun; nobody else uses it.
            let (dbi, same_kind) = unsafe { open_map(txn, map, create) }?;
            self.maps.push(OpenMap { name: map.name, dbi, id_set: map.kind == MapKind::IdSet });
            Ok(if same_kind { mismatch } else { mismatch.or(Some(map.name)) })
        });
        match outcome {
            // Handles become the environment's by the commit, also by that of a reading transaction.
            // SAFETY: `txn` is open and not used after this.
            Ok(None) => check("mdb_txn_commit", unsafe { ffi::mdb_txn_commit(txn) }).map(|()| None),
            other => {
                // SAFETY: as above.
                unsafe { ffi::mdb_txn_abort(txn) };
                other
            }
        }
    }

    /// Changes the data file in one transaction.
    pub(crate) fn write(self: &Arc<Env>, change: impl FnOnce(&mut Txn) -> Result<()>) -> Result<()> {
        let mut txn = Txn::begin(self, TxnKind::Write)?;
        change(&mut txn)?;
        txn.commit()
    }

    /// Makes everything that was committed durable, in [`Mode::Making`] too.
    pub(crate) fn sync(&self) -> Result<()> {
        // SAFETY: the environment is open.
        check("mdb_env_sync", unsafe { ffi::mdb_env_sync(self.raw.as_ptr(), 1) })
    }

    /// Frees the slots, and so the pages, that readers in other processes held when they died. Costs well under a
    /// microsecond while there are none of other processes.
    pub(crate) fn forget_dead_readers(&self) -> Result<()> {
        // SAFETY: the environment is open; a null count is allowed.
        check("mdb_reader_check", unsafe { ffi::mdb_reader_check(self.raw.as_ptr(), ptr::null_mut()) })
    }

    /// Figures about the environment: constant cost.
    pub(crate) fn facts(&self) -> Result<EnvFacts> {
        // SAFETY: a plain C structure for which all zeroes is a valid value.
        let mut info: ffi::MDB_envinfo = unsafe { std::mem::zeroed() };
        // SAFETY: the environment is open; `info` is a valid place.
        check("mdb_env_info", unsafe { ffi::mdb_env_info(self.raw.as_ptr(), &mut info) })?;
        Ok(EnvFacts {
            map_bytes: info.me_mapsize as u64,
            used_bytes: (info.me_last_pgno as u64 + 1) * self.page_bytes as u64,
            reader_slots: info.me_numreaders,
            last_txn_id: info.me_last_txnid as u64,
        })
    }

    /// What commits move, from now on if nobody asked before; `None` where that cannot be known, because another
    /// process writes.
    fn moved(&self) -> Option<Arc<Moved>> {
        let is_known = self.mode == Mode::ReadWrite && self.page_bytes == PAGE;
        let last_txn_id = self.facts().ok().filter(|_| is_known)?.last_txn_id;
        Some(Arc::clone(self.moved.get_or_init(|| Arc::new(Moved::new(last_txn_id)))))
    }

    fn stat(&self) -> Result<ffi::MDB_stat> {
        // SAFETY: a plain C structure for which all zeroes is a valid value.
        let mut stat: ffi::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: the environment is open; `stat` is a valid place.
        check("mdb_env_stat", unsafe { ffi::mdb_env_stat(self.raw.as_ptr(), &mut stat) })?;
        Ok(stat)
    }
}

/// Opens one map; says whether it is of the kind asked for.
///
/// # Safety
/// `txn` is an open transaction that nobody else uses.
unsafe fn open_map(txn: *mut ffi::MDB_txn, map: &MapSpec, create: bool) -> Result<(ffi::MDB_dbi, bool)> {
    let name = CString::new(map.name)
        .map_err(|_| Failure { operation: "mdb_dbi_open", code: ffi::MDB_BAD_VALSIZE })?;
    let kind_flags = if map.kind == MapKind::IdSet { ffi::MDB_DUPSORT | ffi::MDB_DUPFIXED } else { 0 };
    let flags = if create { kind_flags | ffi::MDB_CREATE } else { kind_flags };
    let (mut dbi, mut found_flags) = (0, 0);
    // SAFETY: the contract of this function; `name` ends with a NUL and is copied; `dbi` and `found_flags` are valid
    // places.
    unsafe {
        check("mdb_dbi_open", ffi::mdb_dbi_open(txn, name.as_ptr(), flags, &mut dbi))?;
        check("mdb_dbi_flags", ffi::mdb_dbi_flags(txn, dbi, &mut found_flags))?;
    }
    Ok((dbi, found_flags == kind_flags))
}

impl Drop for Env {
    fn drop(&mut self) {
        // SAFETY: every transaction holds an `Arc` of this environment, so none is left; nothing uses `raw` afterwards.
        unsafe { ffi::mdb_env_close(self.raw.as_ptr()) }
    }
}

/// Which kind of transaction to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TxnKind {
    Read,
    /// One at a time: beginning a second one waits for the first. LMDB's writer mutex belongs to the thread that took
    /// it, so a writing transaction must end on the thread where it began; to break that rule costs a dead writer, not
    /// memory safety.
    Write,
}

/// How to put a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutKind {
    /// Set the value, replacing one that is there.
    Set,
    /// Add a value to the key's set unless it is in there.
    Insert,
    /// Set the value of a key above all others; [`Failure::KEY_EXISTS`] if it is not.
    Append,
}

/// A transaction. Dropped, it is aborted.
pub(crate) struct Txn {
    raw: NonNull<ffi::MDB_txn>,
    ended: bool,
    kind: TxnKind,
    env: Arc<Env>,
    /// Only of a reading transaction: what a writing one has read does not stay where it is.
    known: Option<RefCell<Known>>,
    /// Only of a writing transaction, and from its beginning or not at all: then nobody trusts what it would not tell.
    moved: Option<Arc<Moved>>,
    /// Whether somebody reads who must not wait for the disk.
    looks_first: Cell<bool>,
    /// What is known of the pages, once such a one has read.
    presence: OnceCell<Box<RefCell<Presence>>>,
    /// Only of the reading transaction that batches are made over.
    recent: Option<RefCell<RecentRows>>,
    /// The trees of maps that were looked for, of the state that is read, an empty map without one: nothing while the
    /// transaction is reset.
    trees: RefCell<Vec<Option<Option<Tree>>>>,
}

// SAFETY: with MDB_NOTLS a reading transaction is bound to no thread, and a writing one only by its mutex (see
// `TxnKind::Write`). `Txn` is not `Sync`, so that one thread at a time uses it.
unsafe impl Send for Txn {}

impl Txn {
    pub(crate) fn begin(env: &Arc<Env>, kind: TxnKind) -> Result<Txn> {
        let flags = if kind == TxnKind::Read { ffi::MDB_RDONLY } else { 0 };
        let mut raw = ptr::null_mut();
        // SAFETY: the environment is open; `raw` is a valid place.
        check("mdb_txn_begin", unsafe {
            ffi::mdb_txn_begin(env.raw.as_ptr(), ptr::null_mut(), flags, &mut raw)
        })?;
        let raw = NonNull::new(raw).ok_or(Failure { operation: "mdb_txn_begin", code: ffi::MDB_PROBLEM })?;
        let moved = if kind == TxnKind::Write { env.moved.get().cloned() } else { None };
        Ok(Txn {
            raw,
            ended: false,
            kind,
            env: Arc::clone(env),
            known: None,
            moved,
            looks_first: Cell::new(false),
            presence: OnceCell::new(),
            recent: None,
            trees: RefCell::default(),
        })
    }

    /// Of a reading transaction: remembers in up to `bytes_max` bytes what it is asked.
    pub(crate) fn remember_rows(&mut self, bytes_max: usize) {
        self.known = Some(RefCell::new(Known::new(bytes_max, self.id(), self.env.moved())));
    }

    /// The id of the committed transaction that is read, or that a commit will give.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: `raw` is a transaction until it ends, and nothing can be called on it afterwards.
        unsafe { ffi::mdb_txn_id(self.raw.as_ptr()) as u64 }
    }

    /// Lets go of what is read, keeping the reader slot. Without effect on a writing transaction.
    pub(crate) fn reset(&mut self) {
        if let Some(known) = &mut self.known {
            known.get_mut().stand_by();
        }
        self.trees.get_mut().clear();
        if let Some(recent) = &mut self.recent {
            recent.get_mut().stand_by();
        }
        // SAFETY: as in `id`; `&mut self` says that nothing borrows from the transaction.
        unsafe { ffi::mdb_txn_reset(self.raw.as_ptr()) }
    }

    /// After [`reset`](Txn::reset): reads the newest committed state.
    pub(crate) fn renew(&mut self) -> Result<()> {
        // SAFETY: as in `reset`. LMDB refuses a transaction that is not reset.
        check("mdb_txn_renew", unsafe { ffi::mdb_txn_renew(self.raw.as_ptr()) })?;
        let id = self.id();
        if let Some(known) = &mut self.known {
            known.get_mut().go_on(id);
        }
        if let Some(recent) = &mut self.recent {
            recent.get_mut().go_on(id);
        }
        Ok(())
    }

    /// Commits: durable when this returns. A failure aborts.
    pub(crate) fn commit(mut self) -> Result<()> {
        let id = self.id();
        self.ended = true;
        // SAFETY: as in `reset`; LMDB frees the transaction whatever the outcome, and `ended` keeps `drop` from
        // aborting it.
        check("mdb_txn_commit", unsafe { ffi::mdb_txn_commit(self.raw.as_ptr()) })?;
        if let Some(moved) = &self.moved {
            // Where that fails, what is remembered is forgotten.
            let _ = moved.take_down(&self.env, id);
        }
        Ok(())
    }

    fn map(&self, map: usize) -> ffi::MDB_dbi {
        self.env.maps[map].dbi
    }

    /// The value of `key` in a map without sets.
    #[inline(always)]
    pub(crate) fn get(&self, map: usize, key: &[u8]) -> Result<Option<&[u8]>> {
        self.look_for(map, key)?;
        let (Some(known), Ok(number)) = (&self.known, key.try_into().map(u64::from_be_bytes)) else {
            return self.get_recent(map, key);
        };
        let mut known = known.borrow_mut();
        if !known.is_time() {
            return self.get_from_tree(map, key);
        }
        // SAFETY: only what this transaction has read is remembered, just below. It stays where it is as long as the
        // same committed state is read, and in a later one if the page that it lies in was not given up by a commit
        // between: `stand_by` and `go_on` say which state that is, `commit` which pages, and `Moved` trusts none that
        // has not said so. The value borrows from `self` as that of any read does.
        unsafe {
            if let Some(value) = known.row(map, number) {
                return Ok(Some(bytes_of(value)));
            }
        }
        let value = self.get_from_tree(map, key)?;
        if let Some(value) = value {
            known.remember_row(map, number, value);
        }
        Ok(value)
    }

    fn get_from_tree(&self, map: usize, key: &[u8]) -> Result<Option<&[u8]>> {
        match self.find(map, key)? {
            Some(Found::Value(value)) => return Ok(Some(value)),
            Some(Found::Nothing) => return Ok(None),
            Some(Found::Set) | None => {}
        }
        let (mut key, mut value) = (value_of(key), EMPTY);
        // SAFETY: as in `id`; LMDB only reads the key. The result borrows from `self`: writing, resetting and ending
        // need more than `&self`.
        unsafe {
            let code = ffi::mdb_get(self.raw.as_ptr(), self.map(map), &mut key, &mut value);
            Ok(found("mdb_get", code)?.then(|| bytes_of(value)))
        }
    }

    /// In a map of sets, the one value of `key` if it is known to have one only; or the key as
    /// [`remember_id`](Txn::remember_id) takes it, if it would.
    #[inline]
    pub(crate) fn known_id(&self, map: usize, key: &[u8]) -> Option<std::result::Result<u64, NewKey>> {
        let mut known = self.known.as_ref()?.borrow_mut();
        if !known.is_time() {
            return None;
        }
        let answer = known.id(map, key);
        if let Some(Ok(id)) = answer {
            // Who finds an id asks for the rows of that number next.
            known.fetch_place(id);
        }
        answer
    }

    /// Says that the value of `key`, a number, will be read soon: if it is known where that lies, the processor fetches
    /// it meanwhile.
    #[inline]
    pub(crate) fn expect(&self, map: usize, key: u64) {
        let Some(known) = &self.known else { return };
        let mut known = known.borrow_mut();
        if known.is_time() {
            // SAFETY: as in `get`.
            unsafe { known.fetch_value(map, key) }
        }
    }

    /// Remembers the one value of a key.
    pub(crate) fn remember_id(&self, key: &NewKey, id: u64) {
        if let Some(known) = &self.known {
            let mut known = known.borrow_mut();
            if known.is_time() {
                known.remember_id(key, id);
            }
        }
    }

    #[cfg(test)]
    fn skip_patience(&mut self) {
        if let Some(known) = &mut self.known {
            known.get_mut().skip_patience();
        }
    }

    #[cfg(test)]
    fn settle(&self) {
        if let Some(known) = &self.known {
            known.borrow_mut().settle();
        }
    }

    #[cfg(test)]
    fn knows_row(&self, map: usize, key: u64) -> bool {
        let Some(mut known) = self.known.as_ref().map(RefCell::borrow_mut) else { return false };
        // SAFETY: as in `get`.
        known.is_time() && unsafe { known.row(map, key) }.is_some()
    }

    /// Values in a map, all those of a set counted.
    pub(crate) fn row_count(&self, map: usize) -> Result<u64> {
        // SAFETY: a plain C structure for which all zeroes is a valid value.
        let mut stat: ffi::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: as in `id`; `stat` is a valid place.
        check("mdb_stat", unsafe { ffi::mdb_stat(self.raw.as_ptr(), self.map(map), &mut stat) })?;
        Ok(stat.ms_entries as u64)
    }

    /// The names of all maps in the file, the store's own too.
    pub(crate) fn map_names(&self) -> Result<Vec<Vec<u8>>> {
        let mut dbi = 0;
        // SAFETY: as in `id`; a null name stands for the map of maps, which is always there; `dbi` is a valid place.
        check("mdb_dbi_open", unsafe { ffi::mdb_dbi_open(self.raw.as_ptr(), ptr::null(), 0, &mut dbi) })?;
        let mut cursor = self.cursor_of(dbi)?;
        let mut names = Vec::new();
        while let Some((name, _)) = cursor.step(if names.is_empty() { Step::First } else { Step::NextKey })? {
            names.push(name.to_vec());
        }
        Ok(names)
    }

    /// Puts a value. `false`: it was to be inserted and is there already.
    pub(crate) fn put(&mut self, map: usize, key: &[u8], value: &[u8], kind: PutKind) -> Result<bool> {
        let flags = match kind {
            PutKind::Set => 0,
            PutKind::Insert => ffi::MDB_NODUPDATA,
            PutKind::Append => ffi::MDB_APPEND,
        };
        self.set_changes(map, key);
        let (mut key, mut value) = (value_of(key), value_of(value));
        // SAFETY: as in `reset`; LMDB copies key and value, and writes through neither without MDB_RESERVE.
        let code = unsafe { ffi::mdb_put(self.raw.as_ptr(), self.map(map), &mut key, &mut value, flags) };
        if code == ffi::MDB_KEYEXIST && kind == PutKind::Insert {
            return Ok(false);
        }
        check("mdb_put", code).map(|()| true)
    }

    /// Puts values into the set of the key above all others, or, unless `new_key`, into that of the highest key. The
    /// values stand one after the other, `value_len` bytes each, ascend, and are above those that are there;
    /// [`Failure::KEY_EXISTS`] if one is not.
    pub(crate) fn append_values(
        &mut self,
        map: usize,
        key: &[u8],
        values: &[u8],
        value_len: usize,
        new_key: bool,
    ) -> Result<()> {
        let mut flags = ffi::MDB_MULTIPLE | ffi::MDB_APPENDDUP;
        if new_key {
            flags |= ffi::MDB_APPEND;
        }
        // Asked for none, LMDB would write one.
        if values.len() < value_len {
            return Ok(());
        }
        self.set_changes(map, key);
        let mut key = value_of(key);
        let count = ffi::MDB_val { mv_size: values.len() / value_len, mv_data: ptr::null_mut() };
        let mut data = [ffi::MDB_val { mv_size: value_len, ..value_of(values) }, count];
        let cursor = self.cursor(map)?;
        // SAFETY: the cursor is open and the only one, as `&mut self` says; `data` is what MDB_MULTIPLE asks for: the
        // length of one value with a pointer to all of them, and their count, which `values` has room for. LMDB copies
        // key and values and writes through neither.
        let code = unsafe { ffi::mdb_cursor_put(cursor.raw.as_ptr(), &mut key, data.as_mut_ptr(), flags) };
        check("mdb_cursor_put", code)
    }

    /// Removes a key with all its values, or one value of its set. `false`: it was not there.
    pub(crate) fn delete(&mut self, map: usize, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        self.set_changes(map, key);
        let mut key = value_of(key);
        let mut value = value.map(value_of);
        let value = value.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: as in `reset`; LMDB only reads key and value, and a null value stands for all.
        let code = unsafe { ffi::mdb_del(self.raw.as_ptr(), self.map(map), &mut key, value) };
        found("mdb_del", code)
    }

    /// Says that the set of a key is about to change.
    fn set_changes(&self, map: usize, key: &[u8]) {
        if let Some(moved) = &self.moved
            && self.env.maps[map].id_set
        {
            moved.key_changes(map, key, self.id());
        }
    }

    pub(crate) fn cursor(&self, map: usize) -> Result<Cursor<'_>> {
        let mut cursor = self.cursor_of(self.map(map))?;
        let is_walked = self.kind == TxnKind::Read && self.env.has_usual_pages();
        cursor.walked = is_walked.then_some(Walked { txn: self, map });
        Ok(cursor)
    }

    fn cursor_of(&self, dbi: ffi::MDB_dbi) -> Result<Cursor<'_>> {
        let mut raw = ptr::null_mut();
        // SAFETY: as in `id`; `raw` is a valid place.
        check("mdb_cursor_open", unsafe { ffi::mdb_cursor_open(self.raw.as_ptr(), dbi, &mut raw) })?;
        let raw =
            NonNull::new(raw).ok_or(Failure { operation: "mdb_cursor_open", code: ffi::MDB_PROBLEM })?;
        Ok(Cursor::of(raw))
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: the transaction is open or reset, and not used after this.
            unsafe { ffi::mdb_txn_abort(self.raw.as_ptr()) }
        }
    }
}
