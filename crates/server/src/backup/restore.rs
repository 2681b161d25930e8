//! Restore of a directory from a backup.

use std::fs;
use std::path::Path;

use directory::backup::{BackupSource, Moment, Replay, Until, restore_rows};
use directory::replicated::copy_plain;
use directory::{ReadOnlyDirectory, Stamp};

use crate::backup::encryption::BackupIdentities;
use crate::backup::folder::Folder;
use crate::backup::name::Kind;
use crate::backup::part::{Content, Heading};
use crate::backup::storage::Storage;
use crate::backup::{BackupError, failed, time_text};

/// Name of the folder inside the new data directory in which the restore takes place.
const RESTORING: &str = "restore-in-progress";

/// The result of a restore.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// Position of the last change that was restored.
    pub position: u64,
    /// Time of the last change that was restored, in microseconds since 1970.
    pub micros: u64,
    /// Whether the backup contains later changes.
    pub has_later: bool,
}

/// Creates the data directory `to` from the backup in `storage`. The data has the state at the moment `until`.
/// `generation` is the new generation of the data.
///
/// # Errors
/// `to` contains data, the backup does not cover the moment, or a file of the backup is damaged, missing, or not
/// decrypted by any of the identities. In each case no data is created.
pub(crate) fn restore(
    storage: &dyn Storage,
    identities: &BackupIdentities,
    to: &Path,
    until: Until,
    generation: [u8; 16],
    stamp: Stamp,
) -> Result<Restored, BackupError> {
    let data = |error: directory::OpenError| BackupError::Data(error.into());
    let has_data = || {
        let text =
            format!("{} has data already: a backup is restored into a new data directory", to.display());
        BackupError::Refused(text)
    };
    if store::has_data_file(to).map_err(|error| data(error.into()))? {
        return Err(has_data());
    }
    let work = to.join(RESTORING);
    let remove = || match fs::remove_dir_all(&work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", &work)(error)),
        _ => Ok(()),
    };
    remove()?;
    store::make_data_directory(to).map_err(|error| data(error.into()))?;
    let result = restore_in(storage, identities, &work, until, generation, stamp);
    let restored = result.and_then(|(restored, is_changed)| {
        // If changes were applied, the data is copied. The copy is complete even if the store was not closed properly,
        // and contains no unused pages.
        let is_placed = if is_changed {
            copy_plain(&work, to, &store::Options::default()).map(|()| true)
        } else {
            store::move_data_file(&work, to, directory::rows::MAPS).map_err(directory::OpenError::from)
        };
        match is_placed {
            Ok(true) => Ok(restored),
            Ok(false) | Err(directory::OpenError::HasData) => Err(has_data()),
            Err(error) => Err(data(error)),
        }
    });
    let removed = remove();
    let restored = restored?;
    removed?;
    Ok(restored)
}

/// Restores the data in the folder `work`. The second result is true if changes were applied to the rows of the first
/// file.
fn restore_in(
    storage: &dyn Storage,
    identities: &BackupIdentities,
    work: &Path,
    until: Until,
    generation: [u8; 16],
    stamp: Stamp,
) -> Result<(Restored, bool), BackupError> {
    let found = Folder::read(storage)?;
    let chain = found.chain_of(until.micros / 1_000_000, until.position)?;
    let mut replay: Option<Replay> = None;
    let mut last: Option<Moment> = None;
    let mut has_later = false;
    for part in chain {
        if last.is_some_and(|last| last.position >= until.position) {
            has_later = true;
            break;
        }
        let (heading, mut content) = Content::open(storage, part, identities)?;
        match (last, heading.kind) {
            (None, Kind::Rows) if heading.moment.micros > until.micros => {
                let time = time_text(heading.moment.micros);
                return Err(content.damaged(&format!("it has a change of {time}: the clock went back since")));
            }
            (None, Kind::Rows) => {
                restore_rows(content.input(), work, generation).map_err(|error| content.failed(error))?;
            }
            (Some(before), Kind::Changes) => {
                check_order(&before, &heading, &content)?;
                let replay = match &mut replay {
                    Some(replay) => replay,
                    None => replay.insert(Replay::open(work, until, stamp.clone())?),
                };
                has_later = replay.apply(content.input()).map_err(|error| content.failed(error))?;
            }
            _ => return Err(content.damaged("its name says that it is something else")),
        }
        last = Some(heading.moment);
        if has_later {
            break;
        }
    }
    let is_changed = replay.is_some();
    let moment = match replay {
        Some(replay) => replay.finish()?,
        None if last.is_none() => {
            return Err(BackupError::Refused(format!("{} has no backup", storage.address())));
        }
        None => {
            let restored = ReadOnlyDirectory::open(work).map_err(|error| BackupError::Data(error.into()))?;
            BackupSource::from(restored).moment()?
        }
    };
    if until.position != u64::MAX && moment.position < until.position {
        return Err(BackupError::Refused(format!(
            "{} ends at position {}, of {}",
            storage.address(),
            moment.position,
            time_text(moment.micros)
        )));
    }
    Ok((Restored { position: moment.position, micros: moment.micros, has_later }, is_changed))
}

/// Returns an error if the file with this heading does not contain the changes that directly follow `last`.
fn check_order(last: &Moment, heading: &Heading, content: &Content) -> Result<(), BackupError> {
    if heading.goes_on_from(last) {
        return Ok(());
    }
    Err(content.damaged(&format!(
        "its changes begin at position {}, and the files before it end at {}: one is missing, or of other data; what \
         was before can be had with that position",
        heading.first, last.position
    )))
}
