//! Files of a backup in their folder, and the selection of the files for one moment.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::backup::part::{Kind, Part, is_left_over};
use crate::backup::{BackupError, failed, time_text};
use crate::unfinished::UnfinishedFile;

/// Lock file of processes that write to the folder.
const LOCK: &str = "lock";

/// File with the sequence of the last file that `pando backup verify` has read, and the time.
const VERIFIED: &str = "verified";

/// Files of a folder, by sequence.
pub(crate) struct Folder {
    path: PathBuf,
    parts: Vec<Part>,
}

/// Rows, and the later changes.
pub(crate) type Chain<'f> = &'f [Part];

impl Folder {
    /// Lists a folder.
    pub(crate) fn read(path: &Path) -> Result<Folder, BackupError> {
        let mut parts = Vec::new();
        for entry in fs::read_dir(path).map_err(failed("read", path))? {
            let name = entry.map_err(failed("read", path))?.file_name();
            parts.extend(name.to_str().and_then(Part::of_name));
        }
        parts.sort_by_key(|part| part.sequence);
        Ok(Folder { path: path.to_owned(), parts })
    }

    /// Returns the file of a part.
    pub(crate) fn file(&self, part: &Part) -> PathBuf {
        self.path.join(part.file_name())
    }

    /// Returns the sequence up to which all files were verified, and the time in seconds since 1970.
    pub(crate) fn verified(&self) -> Option<(u64, u64)> {
        let text = fs::read_to_string(self.path.join(VERIFIED)).ok()?;
        let (sequence, seconds) = text.trim_end().split_once(' ')?;
        Some((sequence.parse().ok()?, seconds.parse().ok()?))
    }

    /// Records that all files were verified at a time.
    pub(crate) fn set_verified(&self, seconds: u64) -> Result<(), BackupError> {
        let Some(last) = self.parts.last() else { return Ok(()) };
        let file = self.path.join(VERIFIED);
        let temporary = UnfinishedFile::new(self.path.join(format!("{VERIFIED}.{}", std::process::id())));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(temporary.path());
        let written = opened.and_then(|mut out| {
            out.write_all(format!("{} {seconds}\n", last.sequence).as_bytes())?;
            out.sync_all()
        });
        written.and_then(|()| temporary.rename(&file)).map_err(failed("write", &file))
    }

    /// Returns all parts.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the chains, oldest first: the files from each one with rows to the next. Changes before the first rows
    /// are of no use, and are left out.
    pub(crate) fn chains(&self) -> Vec<Chain<'_>> {
        let chains = self.parts.chunk_by(|_, next| next.kind == Kind::Changes);
        chains.filter(|chain| chain.first().is_some_and(|first| first.kind == Kind::Rows)).collect()
    }

    /// Returns the newest chain that contains a moment: its rows were read before the second `seconds` began, and are
    /// not of a later position.
    pub(crate) fn chain_of(&self, seconds: u64, position: u64) -> Result<Chain<'_>, BackupError> {
        let chains = self.chains();
        let is_in_time = |rows: &&Part| rows.seconds < seconds && rows.position <= position;
        let chosen = chains.iter().rev().find(|chain| chain.first().as_ref().is_some_and(is_in_time));
        let path = self.path.display();
        chosen.copied().ok_or_else(|| {
            BackupError::Refused(match chains.first().and_then(|chain| chain.first()) {
                None => format!("{path} has no backup"),
                Some(Part { seconds, position, .. }) => {
                    let time = time_text(seconds.saturating_add(1).saturating_mul(1_000_000));
                    format!("the oldest moment in {path} is {time}, position {position}")
                }
            })
        })
    }

    /// Removes files that no moment from `seconds` on needs, oldest first. Returns their number.
    pub(crate) fn prune(&self, seconds: u64) -> Result<usize, BackupError> {
        let chains = self.chains();
        let rows = chains.iter().filter_map(|chain| chain.first());
        // The same condition as in `chain_of`.
        let Some(needed) = rows.rev().find(|rows| rows.seconds < seconds) else { return Ok(0) };
        let old = self.parts.iter().take_while(|part| part.sequence < needed.sequence);
        let mut removed = 0;
        for part in old {
            let file = self.file(part);
            fs::remove_file(&file).map_err(failed("remove", &file))?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// Exclusive right to write to a folder, until it is dropped.
pub(crate) struct Claim {
    _lock: File,
}

impl Claim {
    /// Creates the folder, if it is missing, for its owner alone, and removes the remains of an interrupted process.
    pub(crate) fn take(path: &Path) -> Result<Claim, BackupError> {
        if !path.is_dir() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path).map_err(failed("make", path))?;
        }
        let file = path.join(LOCK);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&file);
        let lock = opened.map_err(failed("open", &file))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let text = format!("another process is writing to {}", path.display());
                return Err(BackupError::Refused(text));
            }
            Err(error) => return Err(failed("lock", &file)(error.into())),
        }
        for entry in fs::read_dir(path).map_err(failed("read", path))? {
            let entry = entry.map_err(failed("read", path))?;
            if entry.file_name().to_str().is_some_and(is_left_over) {
                fs::remove_file(entry.path()).map_err(failed("remove", &entry.path()))?;
            }
        }
        Ok(Claim { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(parts: &[(u64, Kind, u64)]) -> Folder {
        let part = |(sequence, &(seconds, kind, position))| Part { sequence, seconds, kind, position };
        Folder { path: PathBuf::from("/nowhere"), parts: (1..).zip(parts).map(part).collect() }
    }

    #[test]
    fn a_moment_needs_the_newest_rows_before_it() {
        use Kind::{Changes, Rows};
        let folder = folder(&[
            (50, Changes, 3),
            (100, Rows, 10),
            (110, Changes, 20),
            (200, Rows, 30),
            (210, Changes, 40),
            // The data was restored: its history continues from an earlier position.
            (300, Rows, 15),
        ]);
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
