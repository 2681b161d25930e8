//! [`salvage`]: recovery of readable data from a directory whose redo log, or data file, is damaged.
//!
//! The data file is read as it is. The groups of the redo log that provably follow the data file without a gap are
//! applied to its rows in memory. Readable groups after a gap are not applied; only the records in them are returned. A
//! group's rows are absolute and may depend on rows of the missing groups. If such a group were applied alone, an entry
//! could appear without its superior, and a count without the rows that it counts.
//!
//! Salvage changes nothing in the directory, except that it creates the lock file if there is none. It does not change
//! the process id in the lock file or the engine's table of readers. The lock excludes writers, so the data file can be
//! read without the table of readers.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{self, Room};
use crate::error::{LogDamage, failed};
use crate::layout::{self, LOCK_FILE};
use crate::lmdb::{Mode, Txn, TxnKind};
use crate::log;
use crate::maps::{self, Map, MapSpec};
use crate::meta::RedoFacts;
use crate::open::{self, MissingMaps, Opening};
use crate::redo::{Change, FileDamage, Findings};
use crate::{OpenError, Options, Position, Read, Result, StoreError};

/// Readable contents of a damaged data directory. The directory is locked while this value exists.
pub struct Salvage {
    /// The data file with the applicable groups, or the error that prevented reading the data file.
    read: Result<Read, OpenError>,
    findings: Findings,
    room: Room,
    _lock: Arc<Locks>,
}

/// A log record after a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OmittedRecord<'a> {
    /// Number of the record's group.
    pub group: u64,
    /// Position of the record, and the bytes of the record or the kind of damage. `None` for a group without records.
    pub record: Option<(Position, Result<&'a [u8], LogDamage>)>,
}

/// Reads the undamaged contents of a data directory that no process has open. Changes nothing, except that it creates
/// the lock file if there is none.
///
/// # Errors
/// `InUse` while another process has the data directory open; `File` and `Store` if the directory itself cannot be
/// read. A data file that cannot be read is no error: see [`Salvage::read`].
pub fn salvage(directory: &Path, maps: &'static [MapSpec]) -> Result<Salvage, OpenError> {
    maps::check_names(maps)?;
    let lock = Arc::new(Locks::take(directory)?);
    let options = Options::default();
    let opened = File::open(directory).map_err(failed("open", directory))?;
    let room = Room::new(opened, directory, options.reserve_bytes);
    let read = open_data(directory, maps, &room, &lock).and_then(|(mut read, facts)| {
        let findings = Findings::of(directory, &room, &facts.owner)?;
        let clone = room.try_clone().map_err(failed("open", directory))?;
        facts.replay(&mut read, &mut findings.replay(clone))?;
        Ok((read, findings))
    });
    let (read, findings) = match read {
        Ok((read, findings)) => (Ok(read), findings),
        Err(error) => (Err(error), Findings::without_data(directory, &room)?),
    };
    Ok(Salvage { read, findings, room, _lock: lock })
}

/// Locks that exclude writers: on the directory, the lock file, and the data file.
struct Locks {
    _directory: Option<File>,
    _file: Option<File>,
    _data: Option<File>,
}

impl Locks {
    fn take(directory: &Path) -> Result<Locks, OpenError> {
        let locked = disk::lock_directory(directory)?;
        let file = lock(directory)?;
        // If the data file is missing or unreadable, the contents of the redo log can still be saved.
        let data = match disk::lock_data_file(directory, false) {
            Err(OpenError::File { .. }) => None,
            locked => Some(locked?),
        };
        Ok(Locks { _directory: locked, _file: file, _data: data })
    }
}

/// Locks the lock file without changing the process id in it. `None` if no process can write to the directory; a lock
/// is then not needed.
fn lock(directory: &Path) -> Result<Option<File>, OpenError> {
    let path = directory.join(LOCK_FILE);
    let opened = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)
        }
        opened => opened,
    };
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return Ok(None),
        opened => opened.map_err(failed("open", &path))?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            Err(OpenError::InUse { directory: directory.to_owned(), pid: disk::owner(&mut file) })
        }
        Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
    }
}

fn open_data(
    directory: &Path,
    maps: &'static [MapSpec],
    room: &Room,
    lock: &Arc<Locks>,
) -> Result<(Read, RedoFacts), OpenError> {
    let (data_file, options) = (directory.join(layout::DATA_FILE), Options::default());
    let opening =
        Opening { data_file: &data_file, maps, options: &options, mode: Mode::Frozen, read_ahead: true };
    let (env, _) = opening.open(room, Arc::clone(lock))?;
    let env = Arc::new(open::with_maps(env, &data_file, maps, MissingMaps::Refuse)?);
    let read = Read::new(Txn::begin(&env, TxnKind::Read).map_err(StoreError::from)?, maps);
    let facts = RedoFacts::read(&read.txn)?;
    Ok((read, facts))
}

impl Salvage {
    /// Returns the rows up to the first gap.
    ///
    /// # Errors
    /// The data file is missing or cannot be read.
    pub fn read(&self) -> Result<&Read, &OpenError> {
        self.read.as_ref()
    }

    /// Returns the numbers of the groups of the redo log that [`read`](Salvage::read) contains in addition to the data
    /// file.
    pub fn applied(&self) -> Option<RangeInclusive<u64>> {
        self.findings.whole()
    }

    /// Returns the numbers of groups that were durable and cannot be read.
    pub fn missing(&self) -> &[RangeInclusive<u64>] {
        &self.findings.missing
    }

    /// Returns the number of the unreadable group that may or may not have been durable. It is the last group of the
    /// log, and only its head or its tail can be read.
    pub fn in_doubt(&self) -> Option<u64> {
        self.findings.in_doubt
    }

    /// Returns the damage found in the files of the redo log.
    pub fn damage(&self) -> &[FileDamage] {
        &self.findings.damage
    }

    /// Returns true if there is any file of a redo log.
    pub fn has_redo_log(&self) -> bool {
        self.findings.has_segments()
    }

    /// Returns true if nothing is missing as far as the data file and the log show.
    pub fn is_whole(&self) -> bool {
        self.read.is_ok() && self.findings.is_whole()
    }

    /// Calls `each` with the records of the redo log after the gap. If there is no data file, calls `each` with all
    /// records. The records come in the order of their groups. `each` is also called for each group without records.
    ///
    /// # Errors
    /// `Engine`: the log can no longer be read.
    pub fn for_each_left_out(&self, each: &mut dyn FnMut(&OmittedRecord<'_>)) -> Result<()> {
        self.findings.for_each_detached(&self.room, &mut |group, changes| {
            let mut count = 0;
            for change in changes {
                if let Change::Put { map, key, value } = change
                    && map == Map::LOG.number()
                    && let Ok(position) = log::position_of(key)
                {
                    count += 1;
                    each(&OmittedRecord { group, record: Some((position, log::unframe(position, value))) });
                }
            }
            if count == 0 {
                each(&OmittedRecord { group, record: None });
            }
        })
    }
}
