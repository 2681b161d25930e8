//! Adding to a backup: the changes since the last time, or all rows if changes cannot follow.

use std::time::Duration;

use directory::backup::{BackupSource, Moment};

use crate::backup::folder::Folder;
use crate::backup::name::{Kind, Part};
use crate::backup::part::{self, Content, Heading, Pace};
use crate::backup::storage::{Storage, UNREAD};
use crate::backup::{BackupError, check_stop, time_text};

/// Rules for making a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRules {
    /// Whether to write all rows in any case.
    pub is_full: bool,
    /// Time after which rows are written again, which limits the changes that a restore applies.
    pub full_after: Duration,
    /// Age above which files are removed that only older moments need; `None` keeps all.
    pub keep: Option<Duration>,
}

/// Result of adding to a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// Position that the backup reaches now.
    pub position: u64,
    /// The part that was written.
    pub written: WrittenPart,
    /// Size of the new file in bytes.
    pub bytes: u64,
    /// Number of old files that were removed.
    pub removed: usize,
}

/// New file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenPart {
    /// No file, because nothing has changed.
    Nothing,
    /// All rows, with the reason.
    Rows(String),
    /// A number of changes.
    Changes(u64),
}

/// Adds the missing changes to the backup in `storage`, and creates its folder if that is missing.
///
/// # Errors
/// The data cannot be read, the place cannot be written, or a new file cannot be read back. The backup is unchanged
/// then.
pub(crate) fn make(
    storage: &dyn Storage,
    now_micros: u64,
    rules: &BackupRules,
    source: &BackupSource,
    pace: &Pace,
) -> Result<BackedUp, BackupError> {
    let _claim = storage.claim()?;
    read_back_last(storage, pace)?;
    let found = Folder::read(storage)?;
    let moment = source.moment()?;
    let seconds = now_micros / 1_000_000;
    let sequence = found.parts().last().map_or(1, |last| last.sequence.saturating_add(1));
    let part = |kind| Part { sequence, seconds, kind, position: moment.position };
    let (written, bytes) = match next(storage, &found, seconds, rules, source, &moment)? {
        Next::Nothing => (WrittenPart::Nothing, 0),
        Next::Rows(reason) => {
            let heading = Heading { kind: Kind::Rows, moment, follows: None, first: moment.position };
            let rows = |mut out: &mut dyn std::io::Write| source.write_rows(&mut out);
            let bytes = part::write(storage, &part(Kind::Rows), &heading, pace, rows)?;
            (WrittenPart::Rows(reason), bytes)
        }
        Next::Changes(before) => {
            let first = before.position.saturating_add(1);
            let heading = Heading { kind: Kind::Changes, moment, follows: Some(before.fingerprint), first };
            let records = |mut out: &mut dyn std::io::Write| source.write_records(first, &mut out);
            let bytes = part::write(storage, &part(Kind::Changes), &heading, pace, records)?;
            (WrittenPart::Changes(moment.position.saturating_sub(before.position)), bytes)
        }
    };
    let removed = match rules.keep {
        Some(keep) => Folder::read(storage)?.prune(seconds.saturating_sub(keep.as_secs()))?,
        None => 0,
    };
    Ok(BackedUp { position: moment.position, written, bytes, removed })
}

/// Reads back the file that an earlier run stored without reading it to its end, and removes it if it is damaged.
fn read_back_last(storage: &dyn Storage, pace: &Pace) -> Result<(), BackupError> {
    let Some(name) = storage.unread()? else { return Ok(()) };
    if let Some(part) = Folder::read(storage)?.parts().iter().find(|part| part.file_name() == name) {
        match part::check(storage, part, pace) {
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
    /// Changes after this moment.
    Changes(Moment),
}

/// Returns the part to write.
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
    let before = match Content::open(storage, last) {
        Ok((heading, _)) => heading.moment,
        Err(error) => return Ok(Next::Rows(format!("the last file cannot be used: {error}"))),
    };
    if before.generation != moment.generation || before.position > moment.position {
        return rows("the data is another since the last time");
    }
    match source.fingerprint(before.position).map_err(directory::backup::BackupError::from)? {
        Some(same) if same == before.fingerprint => {}
        Some(_) => return rows("the data has another history since the last time"),
        None => return rows("the log does not reach back to the last time"),
    }
    // Files that were removed between the rows and the last file would be missed only when they are needed.
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

/// Returns a description of the place where a file of the chain is missing.
fn gap(found: &Folder<'_>, chain: &[Part]) -> Option<String> {
    let mut sequences = chain.iter().zip(chain.iter().skip(1));
    let gap = sequences.find(|(one, next)| next.sequence != one.sequence.saturating_add(1));
    gap.map(|(one, _)| format!("a file is missing after {}", found.path(one).display()))
}
