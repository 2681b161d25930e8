//! Safe wrappers of LMDB's functions: [`Environment`], [`Transaction`], [`Cursor`].
//!
//! LMDB's requirements, and how the types meet them:
//!
//! - *A transaction is used by one thread at a time.* [`Transaction`] is `Send` (the environment is opened with
//!   `MDB_NOTLS`) and not `Sync`: even a read changes the transaction's cache of map roots.
//! - *Returned bytes are valid until the transaction ends, is reset, or (if it writes) writes.* They borrow from the
//!   [`Transaction`]; ending, resetting and writing take it by value or by `&mut`. The same holds for [`Cursor`] and
//!   for [`Mapping`].
//! - *The environment outlives its transactions.* A transaction holds an `Arc` of its [`Environment`].
//! - *A data file is opened once at a time.* The environment owns the guards for this (the lock file, the process's
//!   claim) and drops them after closing.
//! - *Map handles belong to their environment.* Handles stay inside the environment; callers name maps by index, and
//!   each index is checked.
//!
//! No flag that weakens durability (`MDB_NOSYNC`, `MDB_NOMETASYNC`, `MDB_WRITEMAP`, `MDB_MAPASYNC`) is ever set on live
//! data. [`Mode::Making`] sets `MDB_NOSYNC` on a file that is not read before it is synced as a whole. `MDB_NOMEMINIT`
//! is never set: it would write stale heap memory, passwords included, into the file.

#![allow(unsafe_code)]

mod cursor;
mod environment;
mod mapping;
mod transaction;

use std::ffi::CStr;
use std::ptr;

use lmdb_master_sys as sys;

pub(crate) use cursor::{Cursor, Row, Step};
pub(crate) use environment::{EnvOptions, Environment, Mode};
pub(crate) use mapping::Mapping;
pub(crate) use transaction::{PutKind, Transaction, TxnKind};

use crate::StoreError;

/// A failed call of the engine, with its error number. LMDB's own error numbers are negative; positive numbers are
/// errnos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) operation: &'static str,
    pub(crate) code: i32,
}

impl Failure {
    pub(crate) const CORRUPTED: i32 = sys::MDB_CORRUPTED;
    pub(crate) const INVALID: i32 = sys::MDB_INVALID;
    pub(crate) const KEY_EXISTS: i32 = sys::MDB_KEYEXIST;
    pub(crate) const MAP_FULL: i32 = sys::MDB_MAP_FULL;
    pub(crate) const NOT_FOUND: i32 = sys::MDB_NOTFOUND;
    pub(crate) const PANIC: i32 = sys::MDB_PANIC;
    /// The read must not wait for the disk, and a page is not in memory. LMDB does not define this code.
    pub(crate) const NOT_IN_MEMORY: i32 = i32::MIN;
    pub(crate) const READERS_FULL: i32 = sys::MDB_READERS_FULL;
    pub(crate) const VERSION_MISMATCH: i32 = sys::MDB_VERSION_MISMATCH;

    /// Returns true if the call failed before the transaction was synced. Pages that were written before the failure
    /// are not referenced.
    pub(crate) fn is_before_commit(self) -> bool {
        self.is_of_beginning() || matches!(self.operation, "mdb_put" | "mdb_cursor_put" | "mdb_del")
    }

    /// Returns true if the call failed before any write. Such a call begins a transaction or a cursor, and allocates
    /// memory.
    pub(crate) fn is_of_beginning(self) -> bool {
        matches!(self.operation, "mdb_txn_begin" | "mdb_txn_renew" | "mdb_cursor_open")
    }

    /// Returns true if the system has temporarily run out of descriptors, memory or threads.
    pub(crate) fn is_exhausted(self) -> bool {
        [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN].contains(&self.code)
    }

    /// Returns the error for a shortage of system resources.
    pub(crate) fn exhausted(self) -> StoreError {
        StoreError::Exhausted { operation: self.operation, message: self.message() }
    }

    /// Returns the error text of LMDB or the system for the code.
    pub(crate) fn message(self) -> String {
        if self.code > 0 {
            return std::io::Error::from_raw_os_error(self.code).to_string();
        }
        // SAFETY: for codes that are not the system's, mdb_strerror returns a string constant.
        let text = unsafe { CStr::from_ptr(sys::mdb_strerror(self.code)) };
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
    if code == sys::MDB_SUCCESS { Ok(()) } else { Err(Failure { operation, code }) }
}

/// Does the same as [`check`], but returns "not found" as `false`.
fn found(operation: &'static str, code: i32) -> Result<bool> {
    if code == sys::MDB_NOTFOUND { Ok(false) } else { check(operation, code).map(|()| true) }
}

const EMPTY: sys::MDB_val = sys::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };

/// Converts `bytes` to an argument of an LMDB call. LMDB does not write through the pointer, although the type of the
/// pointer is not const.
fn value_of(bytes: &[u8]) -> sys::MDB_val {
    sys::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr() as *mut _ }
}

/// Returns the bytes of a result.
///
/// # Safety
/// `value` must be [`EMPTY`], or filled in by a successful call on a transaction. The caller must keep the state of
/// this transaction borrowed for `'t`.
unsafe fn bytes_of<'t>(value: sys::MDB_val) -> &'t [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: a non-empty result points to that many bytes of a page, in the map or on the heap, which do not change
    // until the transaction writes or ends (contract of this function).
    unsafe { std::slice::from_raw_parts(value.mv_data.cast(), value.mv_size) }
}
