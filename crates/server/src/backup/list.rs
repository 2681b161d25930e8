//! The moments that a backup covers.

use crate::backup::BackupError;
use crate::backup::folder::Folder;
use crate::backup::storage::Storage;

/// A file with rows, and the files with the changes after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupChain {
    /// Time at which the rows were read, in seconds since 1970.
    pub rows_seconds: u64,
    /// Position of the rows.
    pub rows_position: u64,
    /// Time at which the data of the last file was read, in seconds since 1970.
    pub last_seconds: u64,
    /// Position of the last change in the chain.
    pub last_position: u64,
    /// Names of the files. The first is the file with rows.
    pub files: Vec<String>,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Whether the files are encrypted.
    pub is_encrypted: bool,
    /// The last successful trial restore that read files of this chain: its time in seconds since 1970, and the
    /// position up to which it read.
    pub verified: Option<(u64, u64)>,
}

/// Returns the chains of a backup, the oldest first.
///
/// # Errors
/// The backup cannot be read.
pub(crate) fn list(storage: &dyn Storage) -> Result<Vec<BackupChain>, BackupError> {
    let found = Folder::read(storage)?;
    let verified = found.verified();
    let mut chains = Vec::new();
    for chain in found.chains() {
        let (Some(rows), Some(last)) = (chain.first(), chain.last()) else { continue };
        chains.push(BackupChain {
            rows_seconds: rows.seconds,
            rows_position: rows.position,
            last_seconds: last.seconds,
            last_position: last.position,
            files: chain.iter().map(|part| part.file_name()).collect(),
            bytes: chain.iter().map(|part| found.size(part)).sum(),
            is_encrypted: rows.is_encrypted,
            verified: verified.and_then(|(sequence, seconds)| {
                let read = chain.iter().take_while(|part| part.sequence <= sequence);
                Some((seconds, read.last()?.position))
            }),
        });
    }
    Ok(chains)
}
