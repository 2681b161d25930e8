//! Backups: files in a folder or a bucket, from which the state of a directory can be restored at any moment that they
//! cover.
//!
//! ```text
//! 00000001-20261125T140000Z-rows-1200.pando       all rows, as they were at position 1200 of the log
//! 00000002-20261125T141500Z-changes-1310.pando    the records 1201 to 1310
//! 00000003-20261125T143000Z-changes-1377.pando    the records 1311 to 1377
//! 00000004-20261202T140000Z-rows-9001.pando       all rows again; earlier files are not needed
//! ```
//!
//! The names of encrypted files end with `.pando.age`. Each has a second file with its checksum ([`encryption`]). All
//! files from one with rows to the next have the same recipients.
//!
//! A file in a folder is written under a temporary name, synced, read back to its end, and renamed. So a file with its
//! final name is complete. An object in a bucket appears when it is complete, and is then read back. A file contains
//! the position and hash of the record that it follows. So files of different histories, or with a missing file between
//! them, are never combined.

mod bucket;
pub(crate) mod encryption;
pub(crate) mod folder;
pub(crate) mod list;
pub(crate) mod make;
pub(crate) mod name;
pub(crate) mod part;
pub(crate) mod restore;
pub(crate) mod storage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backup::bucket::Bucket;
use crate::backup::storage::{LocalFolder, Storage};
use crate::config::backup::BackupPlace;

/// Error of a backup or a restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file or folder of the backup cannot be used.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// File or folder of the error.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file of the backup is damaged, or is not a file of a backup.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Damaged file.
        path: PathBuf,
        /// Description of the defect.
        what: String,
    },
    /// A file is encrypted, and no identity decrypts it.
    #[error("{} is encrypted: {why}", path.display())]
    Encrypted {
        /// Encrypted file.
        path: PathBuf,
        /// Reason why no identity decrypts the file.
        why: &'static str,
    },
    /// The data cannot be read or written.
    #[error(transparent)]
    Data(#[from] directory::backup::BackupError),
    /// The backup does not contain the requested moment, or another process uses it.
    #[error("{0}")]
    Refused(String),
}

/// Returns a function that converts the error of a file operation.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |error| BackupError::File { action, path, error }
}

/// Opens the place of a backup. After `is_stopping` is set, requests to a bucket fail.
pub(crate) fn open(
    place: &BackupPlace,
    is_stopping: Option<Arc<AtomicBool>>,
) -> Result<Box<dyn Storage>, BackupError> {
    Ok(match place {
        BackupPlace::Folder(path) => Box::new(LocalFolder(path.clone())),
        BackupPlace::Bucket(address) => Box::new(Bucket::open(address, is_stopping)?),
    })
}

/// Fails if the server is stopping.
fn check_stop(is_stopping: Option<&Arc<AtomicBool>>) -> io::Result<()> {
    match is_stopping {
        Some(is_stopping) if is_stopping.load(Ordering::Relaxed) => {
            Err(io::Error::other("the server stops before it is whole"))
        }
        _ => Ok(()),
    }
}

/// Formats microseconds since 1970 as a time in UTC. The text is exact, so `--until` reads it as the same moment.
pub fn time_text(micros: u64) -> String {
    let seconds = directory::csn::rfc3339(micros / 1_000_000);
    match micros % 1_000_000 {
        0 => seconds,
        fraction => format!("{}.{fraction:06}Z", seconds.trim_end_matches('Z')),
    }
}
