//! The content of a backup: the moments that it covers.

use std::path::Path;

use crate::backup::folder::Folder;
use crate::backup::{BackupError, failed};

/// Rows of a backup, and the later changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupChain {
    /// Time at which its rows were read, in seconds since 1970.
    pub rows_seconds: u64,
    /// Position of its rows.
    pub rows_position: u64,
    /// Time at which the last file was written.
    pub last_seconds: u64,
    /// Last position.
    pub last_position: u64,
    /// Names of its files, the rows first.
    pub files: Vec<String>,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Time of the last successful trial restore that read files of it, in seconds since 1970, and the position up to
    /// which it did.
    pub verified: Option<(u64, u64)>,
}

/// Returns the content of a backup, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn list(folder: &Path) -> Result<Vec<BackupChain>, BackupError> {
    let found = Folder::read(folder)?;
    let verified = found.verified();
    let mut chains = Vec::new();
    for chain in found.chains() {
        let (Some(rows), Some(last)) = (chain.first(), chain.last()) else { continue };
        let mut bytes = 0;
        for part in chain {
            let file = found.file(part);
            bytes += file.metadata().map_err(failed("read", &file))?.len();
        }
        chains.push(BackupChain {
            rows_seconds: rows.seconds,
            rows_position: rows.position,
            last_seconds: last.seconds,
            last_position: last.position,
            files: chain.iter().map(|part| part.file_name()).collect(),
            bytes,
            verified: verified.and_then(|(sequence, seconds)| {
                let read = chain.iter().take_while(|part| part.sequence <= sequence);
                Some((seconds, read.last()?.position))
            }),
        });
    }
    Ok(chains)
}
