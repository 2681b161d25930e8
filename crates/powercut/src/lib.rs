//! Simulates a power failure in tests: ends a process, and discards the writes that it has not synced.
//!
//! Killing a process proves little about durability: its writes remain in the page cache and reach the disk later. This
//! crate discards unsynced writes. A small library (src/interpose.c, built by this crate's build script) is preloaded
//! into the process under test. The library forwards every file call. For each 512-byte sector that the process writes
//! in files below one directory, the library stores the content that the sector had at the last sync. At a chosen call
//! it saves these contents in a journal and ends the process. [`discard_unsynced`] then reverts all unsynced writes or
//! some of them, as a disk may: whole files, single pages, or sectors of a page. A process can rely only on data that
//! it has synced.
//!
//! The same library can make the Nth write or sync fail with a chosen error, kill the process at the Nth call, or
//! simulate a disk with limited space.
//!
//! ```no_run
//! use powercut::PowerCut;
//! use std::path::Path;
//! use std::process::Command;
//!
//! let (data, journal) = (Path::new("/tmp/t/data"), Path::new("/tmp/t/journal"));
//! let mut command = Command::new("the-process-under-test");
//! PowerCut::new(data, journal).cut_at(137).apply(&mut command);
//! let status = command.status().unwrap();
//! if status.code() == Some(powercut::EXIT_STATUS) {
//!     powercut::discard_unsynced(journal, 42).unwrap();
//! }
//! // Start the process again on the same data, and check which changes it finds.
//! ```
//!
//! [`Fault`]s are simpler: system calls that fail without any effect, selected by thread, path and number, and switched
//! on and off by a file. They need no directory and no journal, and can be combined with the failures above.
//!
//! To use this crate from another crate, add `powercut` to the dev-dependencies. No other build step is needed. The
//! environment variables are:
//!
//! - `LD_PRELOAD`: [`library`]
//! - `POWERCUT_DIRECTORY`: absolute path without symbolic links; files below it are watched
//! - `POWERCUT_JOURNAL`: file to write at the cut, not below the directory
//! - `POWERCUT_AT`: number of the call at which the power is cut, from 1; only writes, truncations and syncs of watched
//!   files are counted
//! - `POWERCUT_KILL_AT`: number of the call after which the process is killed by SIGKILL, from 1; its writes are
//!   retained
//! - `POWERCUT_ROOM`: file with the number of bytes by which watched files may grow in total; the library reads this
//!   file at every growth
//! - `POWERCUT_COUNT`: file to which a process that ends normally writes the number of calls and of bytes grown
//! - `POWERCUT_FAIL_KIND`, `_AT`, `_ERRNO`: `write` or `sync`, the number of the call that fails, and its error
//! - `POWERCUT_FAULTS`: rules for faults, separated by `;`, at most 16
//! - `POWERCUT_FAULTS_LOG`: file to which each fault appends a line: call, error number, thread, path
//!
//! A rule is a list of `name=value`, separated by commas, as in
//! `call=sync,thread=pando-writer,path=*/redo-*,from=3,times=1,errno=EIO`:
//!
//! - `call`: `open` (and creating), `write` (and truncating, allocating), `sync` (and writes with `O_DSYNC`), `rename`,
//!   `mmap`, `accept`, `thread` (creating one), `random` (getrandom), `wait` (epoll_wait, which blocks while the rule
//!   matches), `clock` (clock_gettime of the monotonic clock)
//! - `errno`: a number, or `EIO`, `ENOSPC`, `EDQUOT`, `EMFILE`, `ENFILE`, `ENOMEM`, `EAGAIN`, `EINTR`, `EACCES`,
//!   `EROFS`
//! - `delay`: instead of `errno`, the milliseconds that the call waits before it is executed
//! - `ahead`: instead of `errno`, the seconds that `clock` is ahead
//! - `thread`: pattern (fnmatch, `*` matches `/` too) for the calling thread's name, which Linux truncates to 15 bytes;
//!   default any
//! - `path`: pattern for the file's path; for a rename, the new path; for a socket, `socket:[N]`; default any
//! - `from`, `times`: the number of the first matching call that fails, from 1, and the number of calls that fail;
//!   default all
//! - `while`: a file: the rule matches and counts calls only while this file exists
//!
//! The rules also apply to child processes. An invalid rule ends the process by SIGABRT.
//!
//! A write at the cut is executed but not synced; a sync at the cut has no effect. A write through a descriptor opened
//! with `O_DSYNC` counts as a write and as a sync. If there is no room, nothing is written and no file can be created.
//! Later syncs do not write the sectors that a failed sync left unsynced, as under Linux.
//!
//! The library does not detect stores through a shared mapping (LMDB has none without `MDB_WRITEMAP`), system calls
//! that bypass the C library (rustix has such calls), and `O_TRUNC`. Renames and removals of files are treated as
//! durable at once, so a missing sync of a directory is not found.

#![forbid(unsafe_code)]

mod fault;
mod journal;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use fault::{Fault, FaultCall, inject, inject_logged};
pub use journal::{Discarded, discard_unsynced};

/// Exit status of a process whose power was cut.
pub const EXIT_STATUS: i32 = 86;

/// Returns the path of the library to preload.
pub fn library() -> &'static Path {
    Path::new(env!("POWERCUT_LIBRARY"))
}

/// Kind of file call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailKind {
    /// A write, truncation or allocation. If it fails with `EIO`, the bytes are in memory but never reach the disk;
    /// with any other error, nothing is written.
    Write,
    /// A sync, or a write through a descriptor opened with `O_DSYNC`.
    Sync,
}

/// Returns a folder for files of tests that need no disk: a folder in memory, or the temporary folder if the system has
/// no such folder.
///
/// Syncs are free there. A process under [`PowerCut`] loses unsynced data there as well, because the journal and not
/// the disk determines the loss.
pub fn memory_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Plan of the failures of a process under test.
#[derive(Debug, Clone)]
pub struct PowerCut {
    directory: PathBuf,
    journal: PathBuf,
    cut_at: Option<u64>,
    failure: Option<(FailKind, u64, i32)>,
    kill_at: Option<u64>,
    room: Option<PathBuf>,
    count: Option<PathBuf>,
}

/// Calls and growth of a process that ended by itself. Another run can be stopped at any of these calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Number of calls, counted as by [`PowerCut::cut_at`] and [`PowerCut::kill_at`].
    pub calls: u64,
    /// Bytes by which files grew, less the bytes by which they were truncated.
    pub grown_bytes: i64,
}

/// Reads the file of [`PowerCut::count`].
///
/// # Errors
/// The file cannot be read; `InvalidData` if it has another format.
pub fn counted(file: &Path) -> io::Result<Counted> {
    let text = std::fs::read_to_string(file)?;
    let numbers = text.split_once(' ').and_then(|(calls, grown)| {
        Some(Counted { calls: calls.parse().ok()?, grown_bytes: grown.trim_end().parse().ok()? })
    });
    numbers.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl PowerCut {
    /// Creates a plan that watches the files below `directory`. At the cut, `journal` is written. It must not be below
    /// `directory`. Both must exist or be possible to create; `directory` must be absolute and contain no symbolic
    /// link.
    pub fn new(directory: &Path, journal: &Path) -> PowerCut {
        PowerCut {
            directory: directory.to_owned(),
            journal: journal.to_owned(),
            cut_at: None,
            failure: None,
            kill_at: None,
            room: None,
            count: None,
        }
    }

    /// Cuts the power at the `call`th call, counted from 1.
    pub fn cut_at(mut self, call: u64) -> PowerCut {
        self.cut_at = Some(call);
        self
    }

    /// Makes only the `call`th call of a kind, counted from 1, fail with a system error number.
    pub fn fail_at(mut self, kind: FailKind, call: u64, errno: i32) -> PowerCut {
        self.failure = Some((kind, call, errno));
        self
    }

    /// Kills the process after the `call`th call, counted from 1. The journal is not written.
    pub fn kill_at(mut self, call: u64) -> PowerCut {
        self.kill_at = Some(call);
        self
    }

    /// Limits the total growth of files, in bytes. `file` contains the limit as a decimal number. A changed limit
    /// applies from the next growth on.
    pub fn room(mut self, file: &Path) -> PowerCut {
        self.room = Some(file.to_owned());
        self
    }

    /// Makes the process write `file` when it ends by itself; [`counted`] reads it.
    pub fn count(mut self, file: &Path) -> PowerCut {
        self.count = Some(file.to_owned());
        self
    }

    /// Sets the environment of a process to be started.
    pub fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library());
        command.env("POWERCUT_DIRECTORY", &self.directory).env("POWERCUT_JOURNAL", &self.journal);
        if let Some(call) = self.cut_at {
            command.env("POWERCUT_AT", call.to_string());
        }
        if let Some(call) = self.kill_at {
            command.env("POWERCUT_KILL_AT", call.to_string());
        }
        for (name, file) in [("POWERCUT_ROOM", &self.room), ("POWERCUT_COUNT", &self.count)] {
            if let Some(file) = file {
                command.env(name, file);
            }
        }
        if let Some((kind, call, errno)) = self.failure {
            let kind = match kind {
                FailKind::Write => "write",
                FailKind::Sync => "sync",
            };
            command.env("POWERCUT_FAIL_KIND", kind);
            command.env("POWERCUT_FAIL_AT", call.to_string()).env("POWERCUT_FAIL_ERRNO", errno.to_string());
        }
    }
}
