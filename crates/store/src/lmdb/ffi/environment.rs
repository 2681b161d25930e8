//! [`Environment`]: an open data file with its maps.

use std::any::Any;
use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use lmdb_master_sys as sys;

use super::{Failure, Result, check};
use crate::maps::{MapKind, MapSpec};

/// Access mode of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reading and writing, with readers in this process and others.
    ReadWrite,
    /// Reading while another process may write.
    ReadOnly,
    /// Reading without LMDB's locking: sound only while no process writes.
    Frozen,
    /// Writing a new file that no other process opens, without syncs and without LMDB's locking. Only one transaction
    /// may exist at a time, and it must be a writing transaction.
    Making,
}

impl Mode {
    fn flags(self) -> u32 {
        match self {
            Mode::ReadWrite => 0,
            Mode::ReadOnly => sys::MDB_RDONLY,
            Mode::Frozen => sys::MDB_RDONLY | sys::MDB_NOLOCK,
            Mode::Making => sys::MDB_NOSYNC | sys::MDB_NOLOCK,
        }
    }
}

/// Options for opening an environment.
pub(crate) struct EnvOptions<'a> {
    pub(crate) data_file: &'a Path,
    pub(crate) map_bytes: usize,
    pub(crate) readers_max: u32,
    pub(crate) maps_max: u32,
    pub(crate) mode: Mode,
    /// Whether the system may read pages ahead. Reading ahead speeds up scans of the whole file and slows down all
    /// other reads.
    pub(crate) read_ahead: bool,
}

/// A map that is open.
#[derive(Clone, Copy)]
pub(super) struct OpenMap {
    pub(super) name: &'static str,
    pub(super) dbi: sys::MDB_dbi,
    id_set: bool,
}

/// An open data file with its maps.
pub(crate) struct Environment {
    pub(super) raw: NonNull<sys::MDB_env>,
    pub(super) maps: Vec<OpenMap>,
    /// Page size of the data file, in bytes.
    pub(crate) page_bytes: usize,
    pub(crate) mode: Mode,
    /// Start address of the mapped data file, once it is known.
    pub(super) start: OnceLock<usize>,
    /// Guards that are dropped after the environment is closed: `Drop::drop` closes the environment, and fields are
    /// dropped after `Drop::drop`.
    _held: Box<dyn Any + Send + Sync>,
}

// SAFETY: an MDB_env may be used from any thread; LMDB guards what is shared in it with its own mutexes and atomics.
// `maps` changes only through `&mut`.
unsafe impl Send for Environment {}
// SAFETY: as for `Send`.
unsafe impl Sync for Environment {}

/// Figures of an environment.
pub(crate) struct EnvironmentFacts {
    pub(crate) map_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) reader_slots: u32,
    pub(crate) last_txn_id: u64,
}

impl Environment {
    /// Opens a data file, which is created if it is missing. No map is open yet. `held` is dropped after the file is
    /// closed.
    ///
    /// The caller must ensure that at most one process has the file open for writing, that no process opens it twice (a
    /// second opening with [`Mode::Frozen`] is allowed), and that the conditions of the mode hold.
    pub(crate) fn open(options: &EnvOptions<'_>, held: Box<dyn Any + Send + Sync>) -> Result<Environment> {
        let path = CString::new(options.data_file.as_os_str().as_bytes())
            .map_err(|_| Failure { operation: "mdb_env_open", code: sys::MDB_INVALID })?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a valid place for the new environment.
        check("mdb_env_create", unsafe { sys::mdb_env_create(&mut raw) })?;
        let raw = NonNull::new(raw).ok_or(Failure { operation: "mdb_env_create", code: sys::MDB_PROBLEM })?;
        // From here on, a failure drops `env`, and dropping `env` closes the environment. LMDB requires this even after
        // a failed open.
        let mut env = Environment {
            raw,
            maps: Vec::new(),
            page_bytes: 0,
            mode: options.mode,
            start: OnceLock::new(),
            _held: held,
        };
        let mut flags = sys::MDB_NOSUBDIR | sys::MDB_NOTLS | options.mode.flags();
        if !options.read_ahead {
            flags |= sys::MDB_NORDAHEAD;
        }
        // SAFETY: the environment is created and not yet open, as these calls require; `path` ends with a NUL and is
        // copied.
        unsafe {
            check("mdb_env_set_mapsize", sys::mdb_env_set_mapsize(raw.as_ptr(), options.map_bytes))?;
            check("mdb_env_set_maxreaders", sys::mdb_env_set_maxreaders(raw.as_ptr(), options.readers_max))?;
            check("mdb_env_set_maxdbs", sys::mdb_env_set_maxdbs(raw.as_ptr(), options.maps_max))?;
            check("mdb_env_open", sys::mdb_env_open(raw.as_ptr(), path.as_ptr(), flags, 0o600))?;
        }
        env.page_bytes = env.stat()?.ms_psize as usize;
        Ok(env)
    }

    /// Opens further maps, and creates missing maps if `create` is set. Returns the name of the first map that exists
    /// with a different kind.
    pub(crate) fn open_maps(&mut self, maps: &[MapSpec], create: bool) -> Result<Option<&'static str>> {
        let begin_flags = if create { 0 } else { sys::MDB_RDONLY };
        let mut txn = ptr::null_mut();
        // SAFETY: the environment is open, and `&mut self` proves that no other transaction of it is open; `txn` is a
        // valid place.
        check("mdb_txn_begin", unsafe {
            sys::mdb_txn_begin(self.raw.as_ptr(), ptr::null_mut(), begin_flags, &mut txn)
        })?;
        let outcome = maps.iter().try_fold(None, |mismatch, map| {
            // SAFETY: `txn` is the transaction just begun; this is its only user.
            let (dbi, same_kind) = unsafe { open_map(txn, map, create) }?;
            self.maps.push(OpenMap { name: map.name, dbi, id_set: map.kind == MapKind::IdSet });
            Ok(if same_kind { mismatch } else { mismatch.or(Some(map.name)) })
        });
        match outcome {
            // The commit, even of a reading transaction, makes the map handles belong to the environment. SAFETY: `txn`
            // is open and not used after this.
            Ok(None) => check("mdb_txn_commit", unsafe { sys::mdb_txn_commit(txn) }).map(|()| None),
            other => {
                // SAFETY: `txn` is open and not used after this.
                unsafe { sys::mdb_txn_abort(txn) };
                other
            }
        }
    }

    /// Makes all commits durable, even in [`Mode::Making`].
    pub(crate) fn sync(&self) -> Result<()> {
        // SAFETY: the environment is open.
        check("mdb_env_sync", unsafe { sys::mdb_env_sync(self.raw.as_ptr(), 1) })
    }

    /// Frees the slots, and so the pages, of readers in other processes that died. Costs well under a microsecond while
    /// no other process has a slot.
    pub(crate) fn forget_dead_readers(&self) -> Result<()> {
        // SAFETY: the environment is open; a null count is allowed.
        check("mdb_reader_check", unsafe { sys::mdb_reader_check(self.raw.as_ptr(), ptr::null_mut()) })
    }

    /// Returns figures of the environment, at constant cost.
    pub(crate) fn facts(&self) -> Result<EnvironmentFacts> {
        // SAFETY: a plain C structure for which all zeroes is a valid value; the environment is open.
        let (info, code) = unsafe {
            let mut info: sys::MDB_envinfo = std::mem::zeroed();
            let code = sys::mdb_env_info(self.raw.as_ptr(), &mut info);
            (info, code)
        };
        check("mdb_env_info", code)?;
        Ok(EnvironmentFacts {
            map_bytes: info.me_mapsize as u64,
            used_bytes: (info.me_last_pgno as u64 + 1) * self.page_bytes as u64,
            reader_slots: info.me_numreaders,
            last_txn_id: info.me_last_txnid as u64,
        })
    }

    /// Returns true if a map holds sets.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers name maps by the index returned when they were opened"
    )]
    pub(crate) fn has_sets(&self, map: usize) -> bool {
        self.maps[map].id_set
    }

    /// Returns the data file.
    pub(crate) fn data_file(&self) -> Result<BorrowedFd<'_>> {
        let mut descriptor = -1;
        // SAFETY: the environment is open; `descriptor` is a valid place.
        check("mdb_env_get_fd", unsafe { sys::mdb_env_get_fd(self.raw.as_ptr(), &mut descriptor) })?;
        // SAFETY: the descriptor is open as long as the environment, and the result borrows the environment.
        Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    fn stat(&self) -> Result<sys::MDB_stat> {
        // SAFETY: a plain C structure for which all zeroes is a valid value; the environment is open.
        let (stat, code) = unsafe {
            let mut stat: sys::MDB_stat = std::mem::zeroed();
            let code = sys::mdb_env_stat(self.raw.as_ptr(), &mut stat);
            (stat, code)
        };
        check("mdb_env_stat", code)?;
        Ok(stat)
    }
}

/// Opens one map. Returns its handle, and whether the map has the requested kind.
///
/// # Safety
/// `txn` must be an open transaction with no other user.
unsafe fn open_map(txn: *mut sys::MDB_txn, map: &MapSpec, create: bool) -> Result<(sys::MDB_dbi, bool)> {
    let name = CString::new(map.name)
        .map_err(|_| Failure { operation: "mdb_dbi_open", code: sys::MDB_BAD_VALSIZE })?;
    let kind_flags = if map.kind == MapKind::IdSet { sys::MDB_DUPSORT | sys::MDB_DUPFIXED } else { 0 };
    let flags = if create { kind_flags | sys::MDB_CREATE } else { kind_flags };
    let (mut dbi, mut found_flags) = (0, 0);
    // SAFETY: the contract of this function; `name` ends with a NUL and is copied; `dbi` and `found_flags` are valid
    // places.
    unsafe {
        check("mdb_dbi_open", sys::mdb_dbi_open(txn, name.as_ptr(), flags, &mut dbi))?;
        check("mdb_dbi_flags", sys::mdb_dbi_flags(txn, dbi, &mut found_flags))?;
    }
    Ok((dbi, found_flags == kind_flags))
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: every transaction holds an `Arc` of this environment, so none exists any more; nothing uses `raw`
        // afterwards.
        unsafe { sys::mdb_env_close(self.raw.as_ptr()) }
    }
}
