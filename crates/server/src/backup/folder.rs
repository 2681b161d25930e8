//! The list of a backup's files, and the choice of the files from which the data of a moment is restored.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::backup::name::{Kind, Part, checked_by};
use crate::backup::storage::Storage;
use crate::backup::{BackupError, time_text};

/// Name of the file that contains the result of the last `pando backup verify`: the sequence number of the last file
/// that it read, and the time.
const VERIFIED: &str = "verified";

/// The files of a backup in the order of their sequence numbers.
pub(crate) struct Folder<'s> {
    storage: &'s dyn Storage,
    parts: Vec<Part>,
    /// Size of each file in bytes, by file name.
    sizes: HashMap<String, u64>,
}

/// A file with rows, and the files with the changes after it.
pub(crate) type Chain<'f> = &'f [Part];

impl<'s> Folder<'s> {
    /// Reads the list of a backup's files.
    pub(crate) fn read(storage: &'s dyn Storage) -> Result<Folder<'s>, BackupError> {
        let sizes = storage.list()?;
        let mut parts: Vec<_> = sizes.iter().filter_map(|(name, _)| Part::of_name(name)).collect();
        parts.sort_by_key(|part| part.sequence);
        Ok(Folder { storage, parts, sizes: sizes.into_iter().collect() })
    }

    /// Returns the path of a backup file for messages.
    pub(crate) fn path(&self, part: &Part) -> PathBuf {
        self.storage.path(&part.file_name())
    }

    /// Returns the size of a backup file in bytes.
    pub(crate) fn size(&self, part: &Part) -> u64 {
        self.sizes.get(&part.file_name()).copied().unwrap_or(0)
    }

    /// Removes the checksum files whose backup file does not exist. Such files remain if a run was interrupted. The
    /// caller must hold the exclusive right to write (`Storage::claim`).
    pub(crate) fn remove_idle_checksums(&self) -> Result<(), BackupError> {
        let names =
            self.sizes.keys().filter(|name| checked_by(name).is_some_and(|of| !self.sizes.contains_key(of)));
        names.into_iter().try_for_each(|name| self.storage.remove(name))
    }

    /// Returns the sequence number of the last file that was verified, and the time in seconds since 1970. All files
    /// before it were verified too.
    pub(crate) fn verified(&self) -> Option<(u64, u64)> {
        // Most backups do not contain this file. Checking the list first saves a request to a bucket.
        let text = self.sizes.contains_key(VERIFIED).then(|| self.storage.small(VERIFIED))??;
        let (sequence, seconds) = std::str::from_utf8(&text).ok()?.trim_end().split_once(' ')?;
        Some((sequence.parse().ok()?, seconds.parse().ok()?))
    }

    /// Records that all files were verified. `seconds` is the time since 1970.
    pub(crate) fn set_verified(&self, seconds: u64) -> Result<(), BackupError> {
        let Some(last) = self.parts.last() else { return Ok(()) };
        self.storage.set_small(VERIFIED, format!("{} {seconds}\n", last.sequence).as_bytes())
    }

    /// Returns all backup files in the order of their sequence numbers.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the chains, the oldest first. A chain begins with a file with rows and ends before the next such file.
    /// Files with changes before the first chain are omitted, because they cannot be restored.
    pub(crate) fn chains(&self) -> Vec<Chain<'_>> {
        let chains = self.parts.chunk_by(|_, next| next.kind == Kind::Changes);
        chains.filter(|chain| chain.first().is_some_and(|first| first.kind == Kind::Rows)).collect()
    }

    /// Returns the newest chain whose rows were read before the time `seconds` and at `position` or earlier.
    pub(crate) fn chain_of(&self, seconds: u64, position: u64) -> Result<Chain<'_>, BackupError> {
        let chains = self.chains();
        let is_in_time = |rows: &&Part| rows.seconds < seconds && rows.position <= position;
        let chosen = chains.iter().rev().find(|chain| chain.first().as_ref().is_some_and(is_in_time));
        let place = self.storage.address();
        chosen.copied().ok_or_else(|| {
            BackupError::Refused(match chains.first().and_then(|chain| chain.first()) {
                None => format!("{place} has no backup"),
                Some(Part { seconds, position, .. }) => {
                    let time = time_text(seconds.saturating_add(1).saturating_mul(1_000_000));
                    format!("the oldest moment in {place} is {time}, position {position}")
                }
            })
        })
    }

    /// Removes the files that are not needed to restore any moment from `seconds` on. Removes the oldest file first.
    /// Returns the number of removed files.
    pub(crate) fn prune(&self, seconds: u64) -> Result<usize, BackupError> {
        let chains = self.chains();
        let rows = chains.iter().filter_map(|chain| chain.first());
        // This condition on the time must be the same as in `chain_of`.
        let Some(needed) = rows.rev().find(|rows| rows.seconds < seconds) else { return Ok(0) };
        let old = self.parts.iter().take_while(|part| part.sequence < needed.sequence);
        let mut removed = 0;
        for part in old {
            self.storage.remove(&part.file_name())?;
            if self.sizes.contains_key(&part.checksum_name()) {
                self.storage.remove(&part.checksum_name())?;
            }
            removed += 1;
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::open;
    use crate::config::backup::BackupPlace;

    #[test]
    fn a_restore_begins_with_the_newest_rows_before_its_time() {
        use Kind::{Changes, Rows};
        let storage = open(&BackupPlace::Folder("/nowhere".into()), None).unwrap();
        let parts = [
            (50, Changes, 3),
            (100, Rows, 10),
            (110, Changes, 20),
            (200, Rows, 30),
            (210, Changes, 40),
            // These are the rows of restored data. Its history continues from an earlier position.
            (300, Rows, 15),
        ];
        let part = |(sequence, (seconds, kind, position))| Part {
            sequence,
            seconds,
            kind,
            position,
            is_encrypted: false,
        };
        let parts = (1..).zip(parts).map(part).collect();
        let folder = Folder { storage: &*storage, parts, sizes: HashMap::new() };
        let first_of = |seconds, position| {
            folder.chain_of(seconds, position).map(|chain| (chain[0].sequence, chain.len())).ok()
        };
        assert_eq!(first_of(u64::MAX, u64::MAX), Some((6, 1)));
        assert_eq!(first_of(301, u64::MAX), Some((6, 1)));
        assert_eq!(first_of(300, u64::MAX), Some((4, 2)));
        assert_eq!(first_of(200, u64::MAX), Some((2, 2)));
        assert_eq!(first_of(101, u64::MAX), Some((2, 2)));
        assert_eq!(first_of(u64::MAX, 14), Some((2, 2)));
        assert_eq!(first_of(100, u64::MAX), None);
        assert_eq!(first_of(u64::MAX, 9), None);
        let text = folder.chain_of(100, 0).map(|_| ()).unwrap_err().to_string();
        assert_eq!(text, "the oldest moment in /nowhere is 1970-01-01T00:01:41Z, position 10");
    }
}
