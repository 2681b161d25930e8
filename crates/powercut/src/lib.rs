//! For tests: cuts the power under a process, and discards what it had not synced.
//!
//! Killing a process proves little about durability: what it wrote stays in the page cache and reaches the disk after
//! all. This crate loses it. A small library (src/interpose.c, built by this crate's build script) is preloaded into
//! the process under test. It passes every file call on, and remembers for each 512-byte sector written below one
//! directory what the disk held when the file was last synced. At a chosen call it writes that down in a journal and
//! ends the process. [`discard_unsynced`] then takes back what was not synced, or any part of it, as a disk may: whole
//! files, single pages, or sectors of a page. What the process may rely on is what is left.
//!
//! The same library makes the Nth write or sync fail with an error of choice, kills the process at the Nth call, or
//! gives it a disk with so much room and no more.
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
//! // Start it again on the same data and see what it has.
//! ```
//!
//! [`Fault`]s are plainer: system calls that fail without having done anything, chosen by thread, path and number, and
//! switched on and off by a file. They need no directory and no journal, and go together with all of the above.
//!
//! To use it from another crate, add `powercut` to the dev-dependencies; nothing else needs building. The environment
//! variables are:
//!
//! - `LD_PRELOAD`: [`library`]
//! - `POWERCUT_DIRECTORY`: absolute path without symbolic links; files below it are watched
//! - `POWERCUT_JOURNAL`: file to write at the cut, not below the directory
//! - `POWERCUT_AT`: number of the call at which the power goes, from 1; writes, truncations and syncs of watched files
//!   count
//! - `POWERCUT_KILL_AT`: number of the call after which the process is killed by SIGKILL, from 1; what it wrote stays
//! - `POWERCUT_ROOM`: file with the number of bytes by which watched files may grow in all; read anew at every growth
//! - `POWERCUT_COUNT`: file to write, at a regular end, the number of calls and of bytes grown to
//! - `POWERCUT_FAIL_KIND`, `_AT`, `_ERRNO`: `write` or `sync`, the number of such a call, and the error it gives
//! - `POWERCUT_FAULTS`: rules for faults, separated by `;`, at most 16
//! - `POWERCUT_FAULTS_LOG`: file to which each fault appends a line: call, error number, thread, path
//!
//! A rule is a list of `name=value`, separated by commas, as in
//! `call=sync,thread=pando-writer,path=*/redo-*,from=3,times=1,errno=EIO`:
//!
//! - `call`: `open` (and creating), `write` (and truncating, allocating), `sync` (and writes with `O_DSYNC`), `rename`,
//!   `mmap`, `accept`, `thread` (creating one), `random` (getrandom), `wait` (epoll_wait, which hangs as long as the
//!   rule matches)
//! - `errno`: a number, or `EIO`, `ENOSPC`, `EDQUOT`, `EMFILE`, `ENFILE`, `ENOMEM`, `EAGAIN`, `EINTR`, `EACCES`,
//!   `EROFS`
//! - `thread`: pattern (fnmatch, `*` matches `/` too) for the calling thread's name, of which Linux keeps 15 bytes; any
//!   if left out
//! - `path`: pattern for the file's path, of a rename the new one; a socket's is `socket:[N]`; any if left out
//! - `from`, `times`: the first call that fails, of those that match, from 1; and how many fail, all if left out
//! - `while`: a file: the rule matches, and counts, only as long as it is there
//!
//! The rules apply to processes that the process starts, too. One that is not understood ends the process by SIGABRT.
//!
//! A write at the cut is carried out and not synced; a sync at the cut does nothing. A write through a descriptor
//! opened with `O_DSYNC` counts as a write and as a sync. If there is no room, nothing is written, and no file can
//! be made. After a failed sync the sectors that it left unsynced are lost to later syncs, as under Linux.
//!
//! What it does not see: stores through a shared mapping (LMDB makes none without `MDB_WRITEMAP`), system calls that
//! bypass the C library (rustix makes such), `O_TRUNC`. Renaming and removing files counts as durable at once, so it
//! finds no missing sync of a directory.

#![forbid(unsafe_code)]

mod fault;
mod journal;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use fault::{Fault, FaultCall, inject, inject_logged};
pub use journal::{Discarded, discard_unsynced};

/// Exit status of a process that lost its power.
pub const EXIT_STATUS: i32 = 86;

/// The library to preload.
pub fn library() -> &'static Path {
    Path::new(env!("POWERCUT_LIBRARY"))
}

/// A kind of call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailKind {
    /// A write, truncation or allocation. With `EIO` the bytes are in memory and never reach the disk; with other
    /// errors nothing happens.
    Write,
    /// A sync, or a write through a descriptor opened with `O_DSYNC`.
    Sync,
}

/// Returns the folder for files of tests that need no disk: one in memory, or the temporary folder if there is none.
///
/// Syncs there cost nothing. A process under [`PowerCut`] loses unsynced data there as well: the journal decides what
/// is lost, not the disk.
pub fn memory_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Plan of the failures of a process.
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

/// Calls and growth of a process that ended regularly: the places at which another run can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Calls, as [`PowerCut::cut_at`] and [`PowerCut::kill_at`] count them.
    pub calls: u64,
    /// Bytes by which files grew, less those by which they were cut short.
    pub grown_bytes: i64,
}

/// Reads what [`PowerCut::count`] has left.
///
/// # Errors
/// Of reading the file; `InvalidData` for one that is none of ours.
pub fn counted(file: &Path) -> io::Result<Counted> {
    let text = std::fs::read_to_string(file)?;
    let numbers = text.split_once(' ').and_then(|(calls, grown)| {
        Some(Counted { calls: calls.parse().ok()?, grown_bytes: grown.trim_end().parse().ok()? })
    });
    numbers.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl PowerCut {
    /// Watches the files below `directory`; at the cut writes `journal`, which lies elsewhere. Both exist or can be
    /// created at these paths, and `directory` is absolute and without symbolic links.
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

    /// Makes the `call`th call of a kind, counted from 1, fail with a system error number, and only that one.
    pub fn fail_at(mut self, kind: FailKind, call: u64, errno: i32) -> PowerCut {
        self.failure = Some((kind, call, errno));
        self
    }

    /// Kills the process after the `call`th call, counted from 1. The journal is not written.
    pub fn kill_at(mut self, call: u64) -> PowerCut {
        self.kill_at = Some(call);
        self
    }

    /// Lets files grow by as many bytes in all as the text of `file` says, in decimal. Another number there counts from
    /// the next growth on.
    pub fn room(mut self, file: &Path) -> PowerCut {
        self.room = Some(file.to_owned());
        self
    }

    /// Has `file` written when the process ends by itself, for [`counted`].
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
