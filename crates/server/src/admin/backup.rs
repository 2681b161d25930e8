//! Making, listing and restoring backups of a data directory.

use std::path::Path;

use directory::ReadOnlyDirectory;
use directory::backup::{BackupSource, Until};
use directory::check::CheckSummary;

use crate::admin::ownership::FolderOwner;
use crate::admin::verify::{open_read_only, verify};
use crate::backup::folder::Folder;
use crate::backup::make::{BackedUp, BackupRules, make};
use crate::backup::part::{Pace, check};
use crate::backup::restore::{Restored, restore};
use crate::backup::{BackupError, failed};
use crate::config::Config;
use crate::error::ServeError;
use crate::stamp::{Random, new_stamp, now_micros};
use crate::unfinished::TemporaryFolder;

/// Adds the changes of a data directory, served or not, to the backup in `folder`, and creates the folder if it is
/// missing. Reads the new file back before it returns.
///
/// # Errors
/// There is no data, or it cannot be read; another process writes to the folder; or the disk did not store the file.
pub fn make_backup(config: &Config, folder: &Path, rules: &BackupRules) -> Result<BackedUp, ServeError> {
    let source = BackupSource::from(open_read_only(config)?);
    Ok(make(folder, now_micros(), rules, &source, &Pace::default())?)
}

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
    /// Time of the last successful [`try_backup`] that read files of it, in seconds since 1970, and the position up to
    /// which it did.
    pub verified: Option<(u64, u64)>,
}

/// Returns the content of a backup, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn list_backup(folder: &Path) -> Result<Vec<BackupChain>, ServeError> {
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

/// Creates the new data directory of `config` from a backup, as it was at a moment.
///
/// # Errors
/// The directory has data already; the backup does not reach the moment, is damaged, or lacks a file. Nothing is
/// created then.
pub fn restore_backup(config: &Config, folder: &Path, until: Until) -> Result<Restored, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let mut random = Random::default();
    let generation = random.bytes()?;
    Ok(restore(folder, &config.data, until, generation, new_stamp(&mut random)?)?)
}

/// Result of a trial restore.
#[derive(Debug)]
pub struct TriedOut {
    /// Number of files read.
    pub files: usize,
    /// The newest moment, which was restored.
    pub restored: Restored,
    /// Findings of the check of the restored directory.
    pub checked: CheckSummary,
}

/// Reads all files of a backup, restores its newest moment into the new folder `scratch`, compares every row there with
/// every entry, as [`verify`] does, and removes it. Passes each finding to `each`.
/// Records the time in the folder if there are none.
///
/// # Errors
/// A file is damaged or missing, there is no backup, there is no room, or `scratch` exists.
pub fn try_backup(
    folder: &Path,
    scratch: &Path,
    each: &mut dyn FnMut(&directory::check::Finding),
) -> Result<TriedOut, ServeError> {
    let found = Folder::read(folder)?;
    for part in found.parts() {
        check(&found.file(part), &Pace::default())?;
    }
    let copy = RestoredCopy::make(folder, scratch, Until::END)?;
    let checked = verify(&copy.config, each)?;
    if checked.findings == 0 {
        found.set_verified(now_micros() / 1_000_000)?;
    }
    Ok(TriedOut { files: found.parts().len(), restored: copy.restored, checked })
}

/// A moment of a backup, restored into a temporary folder, which is removed with it.
#[derive(Debug)]
pub struct RestoredCopy {
    config: Config,
    restored: Restored,
    folder: TemporaryFolder,
}

impl RestoredCopy {
    /// Restores a moment of the backup in `folder` into the new folder `scratch`.
    ///
    /// # Errors
    /// As [`restore_backup`]; `scratch` exists.
    pub fn make(folder: &Path, scratch: &Path, until: Until) -> Result<RestoredCopy, ServeError> {
        if scratch.exists() {
            let text = format!("{} is there already: name a folder that is to be made", scratch.display());
            return Err(BackupError::Refused(text).into());
        }
        let temporary = TemporaryFolder::new(scratch.to_owned());
        let config = Config::new(scratch);
        let restored = restore_backup(&config, folder, until)?;
        Ok(RestoredCopy { config, restored, folder: temporary })
    }

    /// Opens the restored directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(&self) -> Result<ReadOnlyDirectory, ServeError> {
        open_read_only(&self.config)
    }

    /// Returns the restored moment.
    pub fn restored(&self) -> Restored {
        self.restored
    }

    /// Returns the temporary folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(test)]
mod tests;
