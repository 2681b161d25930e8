//! [`Transaction`]: reads and writes of one state of the data file.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use lmdb_master_sys as sys;

use super::{EMPTY, Environment, Failure, Result, bytes_of, check, found, value_of};

/// Kind of transaction to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TxnKind {
    Read,
    /// Reads and writes. Only one writing transaction exists at a time: beginning a second transaction waits for the
    /// end of the first. LMDB's writer mutex belongs to the thread that took it, so a writing transaction must end on
    /// the thread that began it. A transaction that ends on another thread can block the writer for ever, but does not
    /// break memory safety.
    Write,
}

/// Mode of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutKind {
    /// Set the value, replacing an existing value.
    Set,
    /// Add a value to the set of the key, unless the set contains it.
    Insert,
    /// Set the value of a key that is above all other keys. The operation fails with [`Failure::KEY_EXISTS`] if another
    /// key is equal or higher.
    Append,
}

/// A transaction. Dropping it aborts it.
pub(crate) struct Transaction {
    pub(super) raw: NonNull<sys::MDB_txn>,
    ended: bool,
    /// Whether the transaction has a state to read. False after [`reset`](Transaction::reset).
    pub(super) is_readable: bool,
    pub(super) kind: TxnKind,
    pub(super) environment: Arc<Environment>,
    /// Start address of the mapped data file, and its length in the state that is read. `None` until first needed.
    pub(super) mapped: Cell<Option<(usize, usize)>>,
}

// SAFETY: with MDB_NOTLS a reading transaction is bound to no thread, and a writing transaction is bound to its thread
// only by LMDB's writer mutex (see `TxnKind::Write`). `Transaction` is not `Sync`, so only one thread at a time uses
// it.
unsafe impl Send for Transaction {}

impl Transaction {
    pub(crate) fn begin(environment: &Arc<Environment>, kind: TxnKind) -> Result<Transaction> {
        let flags = if kind == TxnKind::Read { sys::MDB_RDONLY } else { 0 };
        let mut raw = ptr::null_mut();
        // SAFETY: the environment is open; `raw` is a valid place.
        check("mdb_txn_begin", unsafe {
            sys::mdb_txn_begin(environment.raw.as_ptr(), ptr::null_mut(), flags, &mut raw)
        })?;
        let raw = NonNull::new(raw).ok_or(Failure { operation: "mdb_txn_begin", code: sys::MDB_PROBLEM })?;
        let environment = Arc::clone(environment);
        Ok(Transaction { raw, ended: false, is_readable: true, kind, environment, mapped: Cell::new(None) })
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the id of the committed transaction whose state is read. In a writing transaction, returns the id that
    /// its commit will get.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: `raw` is valid until the transaction ends, and no method can be called after that.
        unsafe { sys::mdb_txn_id(self.raw.as_ptr()) as u64 }
    }

    /// Releases the state that is read, but not the reader slot. Has no effect on a writing transaction.
    pub(crate) fn reset(&mut self) {
        self.mapped.set(None);
        self.is_readable = false;
        // SAFETY: as in `id`; `&mut self` proves that nothing borrows from the transaction.
        unsafe { sys::mdb_txn_reset(self.raw.as_ptr()) }
    }

    /// Reads the newest committed state, after [`reset`](Transaction::reset).
    pub(crate) fn renew(&mut self) -> Result<()> {
        // SAFETY: as in `reset`. LMDB refuses a transaction that is not reset.
        check("mdb_txn_renew", unsafe { sys::mdb_txn_renew(self.raw.as_ptr()) })?;
        self.is_readable = true;
        Ok(())
    }

    /// Commits. The changes are durable when this returns. A failure aborts the transaction.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.ended = true;
        // SAFETY: as in `reset`; LMDB frees the transaction whatever the outcome, and `ended` keeps `drop` from
        // aborting it.
        check("mdb_txn_commit", unsafe { sys::mdb_txn_commit(self.raw.as_ptr()) })
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "callers name maps by the index returned when they were opened"
    )]
    pub(super) fn dbi(&self, map: usize) -> sys::MDB_dbi {
        self.environment.maps[map].dbi
    }

    /// Returns LMDB's handle of the map of maps.
    pub(super) fn map_of_maps(&self) -> Result<sys::MDB_dbi> {
        let mut dbi = 0;
        // SAFETY: as in `id`; a null name stands for the map of maps, which always exists; `dbi` is a valid place.
        check("mdb_dbi_open", unsafe { sys::mdb_dbi_open(self.raw.as_ptr(), ptr::null(), 0, &mut dbi) })?;
        Ok(dbi)
    }

    /// Returns the value of `key` in a map. In a map of sets, returns the lowest value of the key.
    #[inline]
    pub(crate) fn get(&self, map: usize, key: &[u8]) -> Result<Option<&[u8]>> {
        self.get_from(self.dbi(map), key)
    }

    /// Returns LMDB's record of a map, stored under its name in the map of maps.
    pub(crate) fn map_record(&self, map: usize) -> Result<Option<&[u8]>> {
        let Some(map) = self.environment.maps.get(map) else { return Ok(None) };
        self.get_from(self.map_of_maps()?, map.name.as_bytes())
    }

    #[inline]
    fn get_from(&self, dbi: sys::MDB_dbi, key: &[u8]) -> Result<Option<&[u8]>> {
        let (mut key, mut value) = (value_of(key), EMPTY);
        // SAFETY: as in `id`; LMDB only reads the key. The result borrows from `self`: writing, resetting and ending
        // need more than `&self`.
        unsafe {
            let code = sys::mdb_get(self.raw.as_ptr(), dbi, &mut key, &mut value);
            Ok(found("mdb_get", code)?.then(|| bytes_of(value)))
        }
    }

    /// Returns the number of values in a map. Each value of a set counts.
    pub(crate) fn row_count(&self, map: usize) -> Result<u64> {
        // SAFETY: a plain C structure for which all zeroes is a valid value; the rest as in `id`.
        let (stat, code) = unsafe {
            let mut stat: sys::MDB_stat = std::mem::zeroed();
            let code = sys::mdb_stat(self.raw.as_ptr(), self.dbi(map), &mut stat);
            (stat, code)
        };
        check("mdb_stat", code)?;
        Ok(stat.ms_entries as u64)
    }

    /// Puts a value. Returns false if `kind` is [`PutKind::Insert`] and the value exists.
    pub(crate) fn put(&mut self, map: usize, key: &[u8], value: &[u8], kind: PutKind) -> Result<bool> {
        let flags = match kind {
            PutKind::Set => 0,
            PutKind::Insert => sys::MDB_NODUPDATA,
            PutKind::Append => sys::MDB_APPEND,
        };
        let (mut key, mut value) = (value_of(key), value_of(value));
        // SAFETY: as in `reset`; LMDB copies key and value, and writes through neither without MDB_RESERVE.
        let code = unsafe { sys::mdb_put(self.raw.as_ptr(), self.dbi(map), &mut key, &mut value, flags) };
        if code == sys::MDB_KEYEXIST && kind == PutKind::Insert {
            return Ok(false);
        }
        check("mdb_put", code).map(|()| true)
    }

    /// Removes a key with all its values, or one value of its set. Returns false if the key or value did not exist.
    pub(crate) fn delete(&mut self, map: usize, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        let mut key = value_of(key);
        let mut value = value.map(value_of);
        let value = value.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: as in `reset`; LMDB only reads key and value, and a null value means all values.
        let code = unsafe { sys::mdb_del(self.raw.as_ptr(), self.dbi(map), &mut key, value) };
        found("mdb_del", code)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: the transaction is open or reset, and not used after this.
            unsafe { sys::mdb_txn_abort(self.raw.as_ptr()) }
        }
    }
}
