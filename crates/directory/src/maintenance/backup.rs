//! Backup and restoration of a directory.
//!
//! A backup contains all rows as of one log position, and the later records in contiguous segments. A restoration loads
//! the rows and then applies the records up to the requested position, as a server does when it starts. This module
//! reads and writes rows and records as streams of bytes. This module opens no files.
//!
//! A backup excludes the state of a cluster's shared log, so a restored directory does not belong to a cluster. The
//! restored directory has a new generation, so that the restored directory does not accept cookies and positions that
//! the old directory issued after the backup.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
pub use store::StreamError;
use store::{BulkStore, MapId, Position, RowSink, StoreError, StreamWriter, View, copy, copy_log};

use crate::catalog::{META_GENERATION, META_REPLICATION, generation, last_csn};
use crate::database::{OpenOptions, ReadOnlyDirectory, Writer};
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::record::Record;
use crate::model::rows::{MAPS, META};
use crate::model::stamp::Stamp;
use crate::model::virtual_entries::{MonitorSource, VirtualEntry};
use crate::settings::{DirectorySettings, NodeSettings};
use crate::snapshot::Directory;

/// Total size of the records that a restoration applies in one commit, in bytes.
const GROUP_BYTES: usize = 8 << 20;

/// Short hash of a record. If two logs have the same fingerprint at a position, the logs are equal up to that
/// position.
pub type Fingerprint = [u8; 16];

/// Error of a backup or restoration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The bytes of the backup cannot be written or read.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An operation on the open directory failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> BackupError {
        BackupError::Stream(error.into())
    }
}

impl From<store::OpenError> for BackupError {
    fn from(error: store::OpenError) -> BackupError {
        BackupError::Open(error.into())
    }
}

/// A position in the history of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Generation of the data.
    pub generation: [u8; 16],
    /// Position of the last record.
    pub position: Position,
    /// Time of the last record, in microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// Hash of the last record.
    pub fingerprint: Fingerprint,
}

/// The data of a directory at one moment.
pub struct BackupSource(View);

impl From<ReadOnlyDirectory> for BackupSource {
    fn from(directory: ReadOnlyDirectory) -> BackupSource {
        BackupSource(directory.into_view())
    }
}

impl BackupSource {
    /// Returns the present data of a directory that is open in this process.
    ///
    /// # Errors
    /// The store failed.
    pub fn of(directory: &Directory) -> Result<BackupSource, StoreError> {
        Ok(BackupSource(directory.store.view()?))
    }

    /// Returns the position of the data in the directory's history.
    ///
    /// # Errors
    /// The store failed, or the data is damaged.
    pub fn moment(&self) -> Result<Moment, BackupError> {
        let position = self.0.position()?;
        let lost = || OperationError::Damaged("the last record of the log is missing".to_owned());
        Ok(Moment {
            generation: generation(&self.0)?,
            position,
            micros: last_csn(&self.0)?.micros,
            fingerprint: self.fingerprint(position)?.ok_or_else(lost)?,
        })
    }

    /// Returns the hash of the record at a position. Returns `None` if the log never had the record, or trimmed it.
    ///
    /// # Errors
    /// The store failed, or the record is damaged.
    pub fn fingerprint(&self, position: Position) -> Result<Option<Fingerprint>, StoreError> {
        match self.0.log_records(position).next().transpose()? {
            Some((found, record)) if found == position => Ok(Some(fingerprint(record))),
            _ => Ok(None),
        }
    }

    /// Writes all rows, and the last record of the log. A backup can be continued from this record, so the backup
    /// contains no older records.
    ///
    /// # Errors
    /// The store failed, or the bytes cannot be written.
    pub fn write_rows(&self, out: &mut impl Write) -> Result<(), BackupError> {
        let mut sink = Portable { sink: StreamWriter::new(MAPS, out), generation: None };
        copy(&self.0, MAPS, self.0.position()?, &mut sink)?;
        Ok(sink.sink.finish().map(drop).map_err(StreamError::from)?)
    }

    /// Writes the records from position `from` on.
    ///
    /// # Errors
    /// See [`write_rows`](BackupSource::write_rows).
    pub fn write_records(&self, from: Position, out: &mut impl Write) -> Result<(), BackupError> {
        let mut writer = StreamWriter::new(MAPS, out);
        copy_log(&self.0, from, &mut writer)?;
        Ok(writer.finish().map(drop).map_err(StreamError::from)?)
    }
}

fn fingerprint(record: &[u8]) -> Fingerprint {
    let mut hash = Fingerprint::default();
    for (to, from) in hash.iter_mut().zip(Sha256::digest(record)) {
        *to = from;
    }
    hash
}

/// Filter of rows that drops the rows of a cluster node's state, and replaces the generation if a new generation is
/// given.
struct Portable<S> {
    sink: S,
    generation: Option<[u8; 16]>,
}

impl<S: RowSink> RowSink for Portable<S> {
    type Error = S::Error;

    fn row(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<(), S::Error> {
        match &self.generation {
            _ if map == META && key.starts_with(META_REPLICATION) => Ok(()),
            Some(generation) if map == META && key == META_GENERATION => self.sink.row(map, key, generation),
            _ => self.sink.row(map, key, value),
        }
    }

    fn ids(&mut self, map: MapId, key: &[u8], ids: &[u64]) -> Result<(), S::Error> {
        self.sink.ids(map, key, ids)
    }

    fn counter(&mut self, key: &[u8], count: i64) -> Result<(), S::Error> {
        self.sink.counter(key, count)
    }

    fn log_start(&mut self, position: Position) -> Result<(), S::Error> {
        self.sink.log_start(position)
    }

    fn record(&mut self, record: &[u8]) -> Result<(), S::Error> {
        self.sink.record(record)
    }
}

/// Reads a stream of rows or records to its end, and verifies its completeness.
///
/// # Errors
/// The stream is incomplete or cannot be read.
pub fn read_back(input: &mut impl Read) -> Result<ReadBack, BackupError> {
    let mut seen = ReadBack::default();
    read(input, &mut seen)?;
    Ok(seen)
}

fn read<S: RowSink>(input: &mut impl Read, sink: &mut S) -> Result<(), BackupError>
where
    BackupError: From<S::Error>,
{
    store::read_stream(input, MAPS, sink)
}

/// Summary of the stream that [`read_back`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Number of rows of maps, ids of sets, and counters.
    pub rows: u64,
    /// Number of records.
    pub records: u64,
    /// Position of the last record.
    pub position: Position,
    /// Hash of the last record.
    pub fingerprint: Fingerprint,
}

impl RowSink for ReadBack {
    type Error = StreamError;

    fn row(&mut self, _: MapId, _: &[u8], _: &[u8]) -> Result<(), StreamError> {
        self.rows += 1;
        Ok(())
    }

    fn ids(&mut self, _: MapId, _: &[u8], ids: &[u64]) -> Result<(), StreamError> {
        self.rows += ids.len() as u64;
        Ok(())
    }

    fn counter(&mut self, _: &[u8], _: i64) -> Result<(), StreamError> {
        self.rows += 1;
        Ok(())
    }

    fn log_start(&mut self, position: Position) -> Result<(), StreamError> {
        self.position = position.saturating_sub(1);
        Ok(())
    }

    fn record(&mut self, record: &[u8]) -> Result<(), StreamError> {
        Record::decode(record)
            .ok_or(StreamError::Damaged("a record of a kind that this program does not know"))?;
        self.records += 1;
        self.position = self.position.saturating_add(1);
        self.fingerprint = fingerprint(record);
        Ok(())
    }
}

/// Creates a data directory from rows. The directory receives the generation `generation`, which must be new.
///
/// # Errors
/// `to` contains data, or the rows cannot be read. In both cases, nothing is created.
pub fn restore_rows(input: &mut impl Read, to: &Path, generation: [u8; 16]) -> Result<(), BackupError> {
    if store::has_data_file(to)? {
        return Err(OpenError::HasData.into());
    }
    let bulk = BulkStore::create(to, MAPS, &store::Options::default())?;
    let mut sink = Portable { sink: bulk, generation: Some(generation) };
    read(input, &mut sink)?;
    Ok(sink.sink.finish()?)
}

/// End of a restoration: the position and the time of the last record to apply, both inclusive. The first limit that is
/// reached ends the restoration.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// Position of the last record to apply.
    pub position: Position,
    /// Latest time of a record, in microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
}

impl Until {
    /// No limit: all records are applied.
    pub const END: Until = Until { position: Position::MAX, micros: u64::MAX };
}

/// A directory that is being restored, to which records are applied.
pub struct Replay {
    directory: Arc<Directory>,
    writer: Writer,
    until: Until,
    /// Position of the next record of the stream.
    next: Position,
    first: Position,
    group: Vec<Vec<u8>>,
    group_bytes: usize,
    is_over: bool,
}

impl Replay {
    /// Opens the directory that [`restore_rows`] created.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(path: &Path, until: Until, stamp: Stamp) -> Result<Replay, BackupError> {
        let options = OpenOptions {
            initial: DirectorySettings::default(),
            suffixes: Vec::new(),
            node: NodeSettings::default(),
            monitor: Arc::new(NoMonitor),
            vendor_version: String::new(),
            store: store::Options::default(),
            stamp,
            follows_log: false,
            becomes_replica: false,
        };
        let (directory, writer) = Directory::open(path, options)?;
        let (group, group_bytes) = (Vec::new(), 0);
        Ok(Replay { directory, writer, until, next: 1, first: 1, group, group_bytes, is_over: false })
    }

    /// Applies the records of a stream, up to the end of the restoration. Skips records that are already applied.
    /// Returns true if the end is reached.
    ///
    /// # Errors
    /// The records cannot be read, do not follow the last applied record, or cannot be applied.
    pub fn apply(&mut self, input: &mut impl Read) -> Result<bool, BackupError> {
        read(input, self)?;
        self.apply_group()?;
        Ok(self.is_over)
    }

    /// Closes the directory. Returns the moment to which the directory was restored.
    ///
    /// # Errors
    /// The store failed.
    pub fn finish(self) -> Result<Moment, BackupError> {
        BackupSource::of(&self.directory)?.moment()
    }

    fn apply_group(&mut self) -> Result<(), OperationError> {
        let group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        if group.is_empty() {
            return Ok(());
        }
        self.writer.apply_group(self.first, group.iter().map(Vec::as_slice), &[])
    }
}

impl RowSink for Replay {
    type Error = BackupError;

    fn row(&mut self, _: MapId, _: &[u8], _: &[u8]) -> Result<(), BackupError> {
        Err(StreamError::Damaged("rows among records").into())
    }

    fn ids(&mut self, map: MapId, key: &[u8], _: &[u64]) -> Result<(), BackupError> {
        self.row(map, key, &[])
    }

    fn counter(&mut self, key: &[u8], _: i64) -> Result<(), BackupError> {
        self.row(META, key, &[])
    }

    fn log_start(&mut self, position: Position) -> Result<(), BackupError> {
        self.apply_group()?;
        (self.next, self.first) = (position, position);
        Ok(())
    }

    fn record(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        let record = Record::decode(bytes);
        let record =
            record.ok_or(StreamError::Damaged("a record of a kind that this program does not know"))?;
        self.is_over |= self.next > self.until.position || record.csn.micros > self.until.micros;
        if self.is_over {
            return Ok(());
        }
        if self.group.is_empty() {
            self.first = self.next;
        }
        self.group.push(bytes.to_vec());
        self.group_bytes += bytes.len();
        self.next += 1;
        if self.group_bytes >= GROUP_BYTES { Ok(self.apply_group()?) } else { Ok(()) }
    }
}

/// Source without entries for `cn=monitor`, because a directory that is being restored answers no searches.
struct NoMonitor;

impl MonitorSource for NoMonitor {
    fn entries(&self) -> Vec<VirtualEntry> {
        Vec::new()
    }
}
