//! Making, listing and restoring backups of a data directory.

use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use directory::ReadOnlyDirectory;
use directory::backup::{BackupSource, Until};
use directory::check::CheckSummary;

use crate::admin::ownership::FolderOwner;
use crate::admin::verify::{open_read_only, verify};
use crate::backup::encryption::BackupIdentities;
use crate::backup::folder::Folder;
use crate::backup::list::list;
use crate::backup::make::{BackupOutcome, BackupRules, make};
use crate::backup::part::{Content, Pace, check};
use crate::backup::restore::{Restored, restore};
use crate::backup::{BackupError, failed};
use crate::config::Config;
use crate::config::backup::{BackupPlace, limited};
use crate::error::ServeError;
use crate::stamp::{Random, new_stamp, now_micros};
use crate::unfinished::TemporaryFolder;

pub use crate::backup::list::BackupChain;

/// Default folder for temporary data.
const TEMPORARY: &str = "/var/tmp";

/// Writes a new file to the backup in `place`, with the changes of a data directory since the previous file, or with
/// all rows. Writes no file if there are no changes. A server may be using the directory. Creates the backup's folder
/// if it does not exist. Reads the new file back before it returns. If `rules` has no recipients, the recipients in the
/// node file are used.
///
/// # Errors
/// There are too many recipients, or the backup is encrypted and there are no recipients. There is no data, or
/// it cannot be read. Another process writes to the backup, or the new file was not stored correctly.
pub fn make_backup(
    config: &Config,
    place: &BackupPlace,
    rules: &BackupRules,
) -> Result<BackupOutcome, ServeError> {
    let mut rules = rules.clone();
    rules.recipients = match (rules.recipients.is_empty(), &config.backup) {
        (true, Some(settings)) => settings.recipients.clone(),
        _ => limited(rules.recipients)?,
    };
    let source = BackupSource::from(open_read_only(config)?);
    let _owner = place.folder().map(FolderOwner::of);
    Ok(make(&*crate::backup::open(place, None)?, now_micros(), &rules, &source, &Pace::default())?)
}

/// Returns the chains of a backup, the oldest first.
///
/// # Errors
/// The backup cannot be read.
pub fn list_backup(place: &BackupPlace) -> Result<Vec<BackupChain>, ServeError> {
    Ok(list(&*crate::backup::open(place, None)?)?)
}

/// Creates the new data directory of `config` from a backup, with the data as it was at the moment `until`.
///
/// # Errors
/// The directory already has data. Or the backup does not cover the moment, is damaged, lacks a file, or cannot be
/// decrypted with any identity. In each case nothing is created.
pub fn restore_backup(
    config: &Config,
    place: &BackupPlace,
    identities: &BackupIdentities,
    until: Until,
) -> Result<Restored, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let mut random = Random::default();
    let generation = random.bytes()?;
    let storage = crate::backup::open(place, None)?;
    Ok(restore(&*storage, identities, &config.data, until, generation, new_stamp(&mut random)?)?)
}

/// Returns an unpredictable path for the folder of a [`RestoredCopy`]. The path is in the folder of the backup. For a
/// backup in a bucket, or if there are identities, the path is in `TMPDIR`, or in `/var/tmp` if that variable is not
/// set, because `/tmp` is often in memory. The folder of an encrypted backup may be on a disk that must not receive
/// decrypted data.
///
/// # Errors
/// The system has no random bytes.
pub fn scratch_folder(
    place: &BackupPlace,
    identities: &BackupIdentities,
    name: &str,
) -> Result<PathBuf, ServeError> {
    let name = format!("{name}-{}", HEXLOWER.encode(&Random::default().bytes()?));
    let temporary = || std::env::var_os("TMPDIR").filter(|path| !path.is_empty());
    Ok(match place.folder().filter(|_| identities.is_empty()) {
        Some(folder) => folder.join(name),
        None => temporary().map_or_else(|| TEMPORARY.into(), PathBuf::from).join(format!("pando-{name}")),
    })
}

/// Result of a trial restore.
#[derive(Debug)]
pub struct TrialRestore {
    /// Number of files that were read.
    pub files: usize,
    /// Position and time of the restored data, which is the newest data in the backup.
    pub restored: Restored,
    /// Summary of the check of the restored directory.
    pub checked: CheckSummary,
}

/// Reads all files of a backup and restores the newest data into the new folder `scratch`. Checks every row and entry
/// there as [`verify`] does, passes each finding to `each`, and removes the folder. If there are no findings, the time
/// of the check is recorded in the backup.
///
/// # Errors
/// A file is damaged or missing, cannot be read, or cannot be decrypted with any identity. There is no backup, there is
/// not enough room, or `scratch` exists.
pub fn try_backup(
    place: &BackupPlace,
    identities: &BackupIdentities,
    scratch: &Path,
    each: &mut dyn FnMut(&directory::check::Finding),
) -> Result<TrialRestore, ServeError> {
    let storage = crate::backup::open(place, None)?;
    let found = Folder::read(&*storage)?;
    let last = found.parts().last().filter(|last| last.is_encrypted && identities.is_empty());
    if let Some(last) = last {
        // The last file is encrypted and there are no identities. This call fails early, before all files are read.
        Content::open(&*storage, last, identities)?;
    }
    for part in found.parts() {
        check(&*storage, part, identities, &Pace::default())?;
    }
    let copy = RestoredCopy::make(place, identities, scratch, Until::END)?;
    let checked = verify(&copy.config, each)?;
    if checked.findings == 0 {
        found.set_verified(now_micros() / 1_000_000)?;
    }
    Ok(TrialRestore { files: found.parts().len(), restored: copy.restored, checked })
}

/// Reads all files of a backup and checks their content. An encrypted file is compared with its checksum, which
/// requires no identity. Returns the number of files.
///
/// # Errors
/// A file is damaged or has no checksum, or there is no backup.
pub fn check_backup(place: &BackupPlace) -> Result<usize, ServeError> {
    let storage = crate::backup::open(place, None)?;
    let found = Folder::read(&*storage)?;
    if found.parts().is_empty() {
        return Err(BackupError::Refused(format!("{place} has no backup")).into());
    }
    for part in found.parts() {
        check(&*storage, part, &BackupIdentities::default(), &Pace::default())?;
    }
    Ok(found.parts().len())
}

/// Data directory in a temporary folder, restored from a backup. Dropping this struct removes the folder.
#[derive(Debug)]
pub struct RestoredCopy {
    config: Config,
    restored: Restored,
    folder: TemporaryFolder,
}

impl RestoredCopy {
    /// Restores the data as it was at `until` from the backup in `place` into the new folder `scratch`.
    ///
    /// # Errors
    /// The same as those of [`restore_backup`], or `scratch` exists.
    pub fn make(
        place: &BackupPlace,
        identities: &BackupIdentities,
        scratch: &Path,
        until: Until,
    ) -> Result<RestoredCopy, ServeError> {
        let temporary = TemporaryFolder::create(scratch.to_owned()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Refused(format!(
                "{} is there already: name a folder that is to be made",
                scratch.display()
            )),
            _ => failed("create", scratch)(error),
        })?;
        let config = Config::new(scratch);
        let restored = restore_backup(&config, place, identities, until)?;
        Ok(RestoredCopy { config, restored, folder: temporary })
    }

    /// Opens the restored directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(&self) -> Result<ReadOnlyDirectory, ServeError> {
        open_read_only(&self.config)
    }

    /// Returns the position and the time of the restored data.
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
