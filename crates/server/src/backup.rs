//! Backups: files in a folder or a bucket. From them a directory can be restored with its state at any moment that the
//! backup covers.
//!
//! ```text
//! 00000001-20261125T140000Z-rows-1200.pando       all rows, as they were at position 1200 of the log
//! 00000002-20261125T141500Z-changes-1310.pando    the records 1201 to 1310
//! 00000003-20261125T143000Z-changes-1377.pando    the records 1311 to 1377
//! 00000004-20261202T140000Z-rows-9001.pando       all rows again; earlier files are not needed
//! ```
//!
//! The name of an encrypted file ends with `.pando.age`. For each encrypted file there is a second file with its
//! checksum ([`encryption`]). All files of a chain have the same recipients. A chain begins with a file with rows and
//! ends before the next such file.
//!
//! A file in a folder is written under a temporary name, synced, read back to its end, and then renamed. Therefore a
//! file with its final name is complete. An object in a bucket appears when it is complete, and is then read back. A
//! file with changes contains the position and the hash of the record before its first record. Therefore files of
//! different histories are never combined, and a missing file is detected.

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

/// Error of making or using a backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file or folder of the backup cannot be used.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// File or folder of the error.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file of the backup is damaged, or is not a backup file.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Damaged file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// A file is encrypted, and none of the identities can decrypt it.
    #[error("{} is encrypted: {why}", path.display())]
    Encrypted {
        /// Encrypted file.
        path: PathBuf,
        /// Reason why none of the identities can decrypt it.
        why: &'static str,
    },
    /// The data cannot be read or written.
    #[error(transparent)]
    Data(#[from] directory::backup::BackupError),
    /// The request cannot be carried out, for the reason in the text. For example, another process is writing to the
    /// backup.
    #[error("{0}")]
    Refused(String),
}

/// Returns a function that converts an error of the system to an error of the file operation `action` on `path`.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |error| BackupError::File { action, path, error }
}

/// Opens the storage of a backup. Requests to a bucket fail after `is_stopping` was set.
pub(crate) fn open(
    place: &BackupPlace,
    is_stopping: Option<Arc<AtomicBool>>,
) -> Result<Box<dyn Storage>, BackupError> {
    Ok(match place {
        BackupPlace::Folder(path) => Box::new(LocalFolder(path.clone())),
        BackupPlace::Bucket(address) => Box::new(Bucket::open(address, is_stopping)?),
    })
}

/// Fails if `is_stopping` is set.
fn check_stop(is_stopping: Option<&Arc<AtomicBool>>) -> io::Result<()> {
    match is_stopping {
        Some(is_stopping) if is_stopping.load(Ordering::Relaxed) => {
            Err(io::Error::other("the server stops before it is whole"))
        }
        _ => Ok(()),
    }
}

/// Formats a time in UTC. `micros` is in microseconds since 1970. The text is exact: the option `--until` converts it
/// to the same time.
pub fn time_text(micros: u64) -> String {
    let seconds = directory::csn::rfc3339(micros / 1_000_000);
    match micros % 1_000_000 {
        0 => seconds,
        fraction => format!("{}.{fraction:06}Z", seconds.trim_end_matches('Z')),
    }
}
