//! Snapshots that a node makes by itself, and the deletion of messages by the writer. A message is deleted only if all
//! registered nodes have committed it, and verified snapshots on two machines contain it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use directory::check::{self, CheckOptions, CheckSummary};
use directory::replicated::log_rows_in;
use directory::{Directory, ReadOnlyDirectory};
use replication::message::Announcement;
use replication::{Cursor, Role};

use super::Node;
use super::keys::is_due;
use crate::event::NodeEvent;
use crate::limits::{COPY_BYTES_PER_SECOND, SNAPSHOT_RETRY, TRIM_INTERVAL};

/// Prefix of the names of snapshots. The offset of the last message in the snapshot follows the prefix.
const PREFIX: &str = "snapshot-";
/// Interval between two checks of whether a snapshot is due.
const LOOK: Duration = Duration::from_secs(1);
/// Name of an unfinished snapshot.
const MAKING: &str = "snapshot.new";

/// Folder and interval of a node's snapshots.
pub(crate) struct Schedule {
    pub(crate) folder: PathBuf,
    pub(crate) interval: Duration,
}

/// State of the snapshots that a node makes by itself.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Time of the last check.
    checked: Option<Instant>,
    is_making: bool,
    is_trimming: bool,
    /// Time of this process's last attempt to make a snapshot, and whether it succeeded.
    tried: Option<(Instant, bool)>,
    trimmed: Option<Instant>,
}

/// Snapshot that was read back completely.
pub struct Verified {
    /// Offset of the last message of the log that the snapshot contains.
    pub offset: u64,
    /// Result of the check.
    pub checked: CheckSummary,
}

/// Reads a copy of a node's data back completely.
///
/// # Errors
/// The copy is incomplete or damaged.
pub fn verify(folder: &Path) -> Result<Verified, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    let copy = ReadOnlyDirectory::open(folder).map_err(|error| failed(&error))?;
    let options = CheckOptions { scratch: folder, memory_bytes: check::MEMORY_BYTES };
    let mut first = None;
    let checked = check::check_all(copy.state(), &options, &mut |finding| {
        first.get_or_insert_with(|| finding.text.clone());
        Ok(())
    });
    let checked = checked.map_err(|error| failed(&error))?;
    if let Some(finding) = first {
        return Err(format!("the copy in {} is not whole: {finding}", folder.display()));
    }
    drop(copy);
    let rows = log_rows_in(folder).map_err(|error| failed(&error))?;
    let cursor = Cursor::of_rows(&rows).ok_or_else(|| failed(&"it is no node's"))?;
    Ok(Verified { offset: cursor.offset, checked })
}

/// Makes a snapshot in a folder and removes the earlier snapshots. Returns the offset of the last message in the
/// snapshot.
fn make(directory: &Weak<Directory>, folder: &Path) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let making = folder.join(MAKING);
    if making.exists() {
        fs::remove_dir_all(&making).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    let directory = directory.upgrade().ok_or("the server stops")?;
    directory.copy_to(&making, COPY_BYTES_PER_SECOND).map_err(|error| error.to_string())?;
    drop(directory);
    let offset = verify(&making)?.offset;
    let older = snapshots_in(folder).map_err(failed)?;
    let new = folder.join(format!("{PREFIX}{offset}"));
    if new.exists() {
        fs::remove_dir_all(&new).map_err(failed)?;
    }
    fs::rename(&making, &new).and_then(|()| fs::File::open(folder)?.sync_all()).map_err(failed)?;
    for (old, _) in older.iter().filter(|(old, _)| *old != new) {
        fs::remove_dir_all(old).map_err(failed)?;
    }
    Ok(offset)
}

/// Returns the snapshots in a folder, each with its time.
fn snapshots_in(folder: &Path) -> std::io::Result<Vec<(PathBuf, SystemTime)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let offset = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u64>().ok());
        if offset.is_some() {
            found.push((entry.path(), entry.metadata()?.modified()?));
        }
    }
    Ok(found)
}

/// Returns the age of the newest snapshot in a folder; `None` if the folder has none.
fn age(folder: &Path) -> Option<Duration> {
    let newest = snapshots_in(folder).ok()?.into_iter().map(|(_, time)| time).max()?;
    // A time in the future is treated as now.
    Some(newest.elapsed().unwrap_or_default())
}

impl Node {
    /// Makes a snapshot if the last snapshot is too old, and deletes messages that no node needs.
    pub(super) fn snapshot_if_due(&mut self) {
        let (Some(schedule), Some(member)) = (&self.parts.snapshots, &self.member) else { return };
        let now = self.parts.runtime.now();
        if !is_due(&mut self.snapshots.checked, now, LOOK) {
            return;
        }
        let is_ready = self.stopped.is_none() && self.parts.log.is_open() && self.announced.is_known();
        if !is_ready || self.parts.figures.lock().lag_messages() > 0 {
            return;
        }
        let follower = member.follower();
        let own = follower.members().find(|(node, _)| *node == self.ids.node);
        let announced = own.and_then(|(_, row)| row.snapshot);
        let waits = match self.snapshots.tried {
            Some((tried, true)) => now.saturating_duration_since(tried) < schedule.interval,
            Some((tried, false)) => {
                now.saturating_duration_since(tried) < SNAPSHOT_RETRY.min(schedule.interval)
            }
            None => age(&schedule.folder).is_some_and(|age| age < schedule.interval) && announced.is_some(),
        };
        if !waits && !self.snapshots.is_making {
            self.make_snapshot();
        }
        self.trim_if_due();
    }

    fn make_snapshot(&mut self) {
        let Some(folder) = self.parts.snapshots.as_ref().map(|schedule| schedule.folder.clone()) else {
            return;
        };
        let (directory, sender) = (Arc::downgrade(&self.parts.directory), self.parts.runtime.sender());
        let make = move || {
            let _ = sender.send(NodeEvent::SnapshotWritten(make(&directory, &folder)));
        };
        match self.parts.runtime.spawn("pando-snapshot", Box::new(make)) {
            Ok(()) => self.snapshots.is_making = true,
            Err(error) => self.snapshot_written(Err(error.to_string())),
        }
    }

    pub(super) fn snapshot_written(&mut self, result: Result<u64, String>) {
        self.snapshots.is_making = false;
        self.snapshots.tried = Some((self.now(), result.is_ok()));
        match result {
            Ok(offset) => {
                tracing::info!("a snapshot up to offset {offset} is made and read back");
                self.parts.figures.lock().snapshot = Some(Ok((offset, self.now_seconds())));
                if let Some(member) = &self.member {
                    let message =
                        member.follower().announcement_of(self.ids.node, Announcement::Snapshot(offset));
                    self.append(&message);
                }
            }
            Err(error) => {
                tracing::error!("no snapshot is made, so that the log is kept whole: {error}");
                self.parts.figures.lock().snapshot = Some(Err(error));
            }
        }
    }

    /// If this node is the writer, deletes messages that no node needs.
    fn trim_if_due(&mut self) {
        let Some(member) = &self.member else { return };
        let is_leading = matches!(member.role(), Role::Leading { .. });
        let waits = self.snapshots.trimmed.is_some_and(|last| self.elapsed(last) < TRIM_INTERVAL);
        if !is_leading || waits || self.snapshots.is_trimming {
            return;
        }
        let Ok(offset) = member.follower().deletable_before() else { return };
        if offset <= self.parts.figures.lock().start_offset {
            return;
        }
        self.snapshots.trimmed = Some(self.now());
        match self.parts.log.delete_before(offset) {
            Ok(()) => self.snapshots.is_trimming = true,
            Err(error) => self.trimmed(Err(error.to_string())),
        }
    }

    pub(super) fn trimmed(&mut self, trimmed: Result<u64, String>) {
        self.snapshots.is_trimming = false;
        match &trimmed {
            Ok(start) => {
                tracing::info!("the log begins at offset {start} now: what was before is not needed")
            }
            Err(error) => tracing::error!("nothing of the log is deleted: {error}"),
        }
        let now_seconds = self.now_seconds();
        let mut figures = self.parts.figures.lock();
        if let Ok(start) = &trimmed {
            figures.start_offset = figures.start_offset.max(*start);
        }
        figures.trimmed = Some(trimmed.map(|_| now_seconds));
    }
}
