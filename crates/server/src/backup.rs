//! Backups: a folder of files from which a directory comes back as it was at any moment that they reach.
//!
//! ```text
//! 00000001-20261125T140000Z-rows-1200.pando       all rows, as they were at position 1200 of the log
//! 00000002-20261125T141500Z-changes-1310.pando    the records 1201 to 1310
//! 00000003-20261125T143000Z-changes-1377.pando    the records 1311 to 1377
//! 00000004-20261202T140000Z-rows-9001.pando       rows again, which nothing before is needed for
//! ```
//!
//! A file is written under another name, synced, read back to its end, and renamed, so that what has its name is whole.
//! One says which record it follows, by position and hash: files of different histories, or with one missing between
//! them, are never put together.

pub(crate) mod folder;
pub(crate) mod make;
pub(crate) mod part;
pub(crate) mod restore;

use std::io;
use std::path::{Path, PathBuf};

/// Error of a backup or a restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file or folder of the backup cannot be used.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file of the backup is damaged, or is none.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// The data cannot be read, or made.
    #[error(transparent)]
    Data(#[from] directory::backup::BackupError),
    /// The backup does not have what is asked for, or somebody else is at it.
    #[error("{0}")]
    Refused(String),
}

/// Turns the error of a file operation into ours.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |error| BackupError::File { action, path, error }
}

/// A time in UTC for people to read, of microseconds since 1970. It is exact: as `--until` it means the same.
pub fn time_text(micros: u64) -> String {
    let seconds = directory::csn::rfc3339(micros / 1_000_000);
    match micros % 1_000_000 {
        0 => seconds,
        fraction => format!("{}.{fraction:06}Z", seconds.trim_end_matches('Z')),
    }
}
