//! Making of a backup. A run adds the changes since the last run. If changes cannot continue the last file, the run
//! adds all rows.

use std::time::Duration;

use directory::backup::{BackupSource, Moment};

use crate::backup::encryption::{BackupIdentities, Label};
use crate::backup::folder::Folder;
use crate::backup::name::{Kind, Part};
use crate::backup::part::{self, Content, Heading, Pace};
use crate::backup::storage::{Storage, UNREAD};
use crate::backup::{BackupError, check_stop, time_text};
use crate::config::backup::BackupRecipient;

/// Rules by which a backup is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRules {
    /// Whether to add all rows even if the other rules do not require it.
    pub is_full: bool,
    /// Age of a chain at which all rows are written again. This limits the number of changes that a restore must apply.
    pub full_after: Duration,
    /// Age of the oldest moment that must stay restorable. Files that are needed only for older moments are removed.
    /// With `None`, no file is removed.
    pub keep: Option<Duration>,
    /// The recipients for whom the files are encrypted. If the list is empty, the files are not encrypted.
    pub recipients: Vec<BackupRecipient>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupOutcome {
    /// Position of the newest moment in the backup.
    pub position: u64,
    /// The kind of file that was added.
    pub written: WrittenPart,
    /// Size of the new file in bytes; 0 if none was added.
    pub bytes: u64,
    /// Number of old files that were removed.
    pub removed: usize,
}

/// The kind of file that a run has added to a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenPart {
    /// No file was added, because there were no new changes.
    Nothing,
    /// A file with all rows. The text is the reason.
    Rows(String),
    /// A file with this number of changes.
    Changes(u64),
}

/// Adds the missing changes to the backup in `storage`, or writes all rows if a new chain must begin. Creates the
/// folder of the backup if it does not exist.
///
/// # Errors
/// The data cannot be read, a file of the backup cannot be written, read back or removed, another process writes to the
/// backup, or the backup is encrypted and `rules` has no recipients.
pub(crate) fn make(
    storage: &dyn Storage,
    now_micros: u64,
    rules: &BackupRules,
    source: &BackupSource,
    pace: &Pace,
) -> Result<BackupOutcome, BackupError> {
    let _claim = storage.claim()?;
    read_back_last(storage, pace)?;
    let found = Folder::read(storage)?;
    found.remove_idle_checksums()?;
    let moment = source.moment()?;
    let seconds = now_micros / 1_000_000;
    let sequence = found.parts().last().map_or(1, |last| last.sequence.saturating_add(1));
    let is_encrypted = !rules.recipients.is_empty();
    let part = |kind| Part { sequence, seconds, kind, position: moment.position, is_encrypted };
    let recipients = &rules.recipients;
    let (written, bytes) = match next(storage, &found, seconds, rules, source, &moment)? {
        Next::Nothing => (WrittenPart::Nothing, 0),
        Next::Rows(reason) => {
            let heading = Heading { kind: Kind::Rows, moment, follows: None, first: moment.position };
            let rows = |mut out: &mut dyn std::io::Write| source.write_rows(&mut out);
            let bytes = part::write(storage, &part(Kind::Rows), &heading, recipients, pace, rows)?;
            (WrittenPart::Rows(reason), bytes)
        }
        Next::Changes(before) => {
            let first = before.position.saturating_add(1);
            let heading = Heading { kind: Kind::Changes, moment, follows: Some(before.fingerprint), first };
            let records = |mut out: &mut dyn std::io::Write| source.write_records(first, &mut out);
            let bytes = part::write(storage, &part(Kind::Changes), &heading, recipients, pace, records)?;
            (WrittenPart::Changes(moment.position.saturating_sub(before.position)), bytes)
        }
    };
    let removed = match rules.keep {
        Some(keep) => Folder::read(storage)?.prune(seconds.saturating_sub(keep.as_secs()))?,
        None => 0,
    };
    Ok(BackupOutcome { position: moment.position, written, bytes, removed })
}

/// Reads back the file that an earlier run has stored but not read back to its end. Removes the file if it is damaged.
fn read_back_last(storage: &dyn Storage, pace: &Pace) -> Result<(), BackupError> {
    let Some(name) = storage.unread()? else { return Ok(()) };
    if let Some(part) = Folder::read(storage)?.parts().iter().find(|part| part.file_name() == name) {
        match part::check(storage, part, &BackupIdentities::default(), pace) {
            Err(error @ BackupError::Damaged { .. })
                if !storage.was_cut() && check_stop(pace.is_stopping.as_ref()).is_ok() =>
            {
                tracing::error!("{error}: the file is removed");
                storage.remove(&name)?;
            }
            read => read?,
        }
    }
    storage.remove(UNREAD)
}

enum Next {
    Nothing,
    Rows(String),
    /// A file with the changes after this moment.
    Changes(Moment),
}

/// Returns the kind of file to add next, or [`Next::Nothing`] if there are no changes.
fn next(
    storage: &dyn Storage,
    found: &Folder<'_>,
    seconds: u64,
    rules: &BackupRules,
    source: &BackupSource,
    moment: &Moment,
) -> Result<Next, BackupError> {
    let rows = |reason: &str| Ok(Next::Rows(reason.to_owned()));
    let (Some(chain), Some(last)) = (found.chains().pop(), found.parts().last()) else {
        return rows("it is the first");
    };
    if rules.is_full {
        return rows("that is asked for");
    }
    let before = match before(storage, last, rules, source, moment)? {
        Ok(before) => before,
        Err(reason) => return Ok(Next::Rows(reason)),
    };
    // If files are missing in the middle of the chain, all rows are written. Without this check, only a restore would
    // detect the gap.
    let oldest = chain.first().map_or(0, |rows| rows.seconds);
    if let Some(gap) = gap(found, chain) {
        return Ok(Next::Rows(gap));
    }
    if seconds.saturating_sub(oldest) >= rules.full_after.as_secs() {
        let time = time_text(oldest.saturating_mul(1_000_000));
        return Ok(Next::Rows(format!("the last rows are of {time}")));
    }
    Ok(if before.position == moment.position { Next::Nothing } else { Next::Changes(before) })
}

/// Returns the moment at the end of the last file, if changes can continue that file. Otherwise returns the reason to
/// write all rows.
fn before(
    storage: &dyn Storage,
    last: &Part,
    rules: &BackupRules,
    source: &BackupSource,
    moment: &Moment,
) -> Result<Result<Moment, String>, BackupError> {
    let rows = |reason: &str| Ok(Err(reason.to_owned()));
    let fingerprint = |position| source.fingerprint(position).map_err(directory::backup::BackupError::from);
    let too_short = "the log does not reach back to the last time";
    match (last.is_encrypted, rules.recipients.is_empty()) {
        (true, true) => Err(BackupError::Refused(format!(
            "the backup in {} is encrypted: name its recipients, or another place; `pando backup make --full` begins \
             one here that is not encrypted",
            storage.address()
        ))),
        (false, false) => rows("the files before are not encrypted"),
        (true, false) => {
            let name = last.file_name();
            let label = match storage.open(&name).and_then(|file| Label::read(file, &storage.path(&name))) {
                Ok(label) => label,
                Err(error) => return Ok(Err(format!("the last file cannot be used: {error}"))),
            };
            if last.position > moment.position {
                return rows("the data is another since the last time");
            }
            let Some(fingerprint) = fingerprint(last.position)? else { return rows(too_short) };
            let before = Moment { position: last.position, fingerprint, ..*moment };
            let same = Label::new(&before, &rules.recipients);
            match label.has_recipients_of(&same) {
                false => rows("the recipients are others since the last time"),
                true if label == same => Ok(Ok(before)),
                true => rows("the data is another, or has another history, since the last time"),
            }
        }
        (false, true) => {
            let before = match Content::open(storage, last, &BackupIdentities::default()) {
                Ok((heading, _)) => heading.moment,
                Err(error) => return Ok(Err(format!("the last file cannot be used: {error}"))),
            };
            if before.generation != moment.generation || before.position > moment.position {
                return rows("the data is another since the last time");
            }
            match fingerprint(before.position)? {
                Some(same) if same == before.fingerprint => Ok(Ok(before)),
                Some(_) => rows("the data has another history since the last time"),
                None => rows(too_short),
            }
        }
    }
}

/// Returns a text about the first gap in a chain; `None` if no file is missing.
fn gap(found: &Folder<'_>, chain: &[Part]) -> Option<String> {
    let mut sequences = chain.iter().zip(chain.iter().skip(1));
    let gap = sequences.find(|(one, next)| next.sequence != one.sequence.saturating_add(1));
    gap.map(|(one, _)| format!("a file is missing after {}", found.path(one).display()))
}
