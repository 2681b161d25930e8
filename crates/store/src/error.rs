//! Errors of the store: [`OpenError`] when a store is opened (for the operator to fix), [`StoreError`] afterwards.
//!
//! The variants show whose fault an error is and what the caller may do. `DiskFull` and `WritesStopped` refuse writes
//! while reads continue. `Exhausted` is temporary: try again. `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind`,
//! `OutOfOrder` and `CounterOverflow` are errors of the caller and leave the batch unchanged. `DamagedLog`,
//! `DamagedRedo` and `DamagedRow` mean that the file differs from the written data. `Engine` is everything else that
//! the engine reports.

use std::io;
use std::path::{Path, PathBuf};

use crate::layout;

/// Reason why a store could not be opened.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this process, has the store open.
    #[error("the data directory {} is in use by {}", directory.display(), owner(*pid))]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// Process id that the owner wrote into the lock file, if that could be read.
        pid: Option<u32>,
    },
    /// The store was written in a format that this program does not read.
    #[error("the store has format {found}, this program reads format {supported}{}", newer(*found, *supported))]
    Format {
        /// The format version in the store.
        found: u32,
        /// The format version that this program reads and writes.
        supported: u32,
    },
    /// The directory contains a data file that is not a Pando store, or a data file that is too damaged to identify.
    #[error("{} is not a store: {reason}", file.display())]
    NotAStore {
        /// Path of the data file.
        file: PathBuf,
        /// Defect of the file.
        reason: String,
    },
    /// The directory has a redo log but no data file. The log contains acknowledged changes.
    #[error(
        "{} has no data.mdb, but its redo log, which holds acknowledged changes: {}; put data.mdb back, or restore \
         a backup into another directory; only to begin with an empty directory, move these files away first",
        directory.display(), files.join(", ")
    )]
    DataFileMissing {
        /// The data directory.
        directory: PathBuf,
        /// Names of the redo log's files in the directory.
        files: Vec<String>,
    },
    /// The data file is shorter than its newest root requires. The store was not changed.
    #[error(
        "{} is damaged: it has {length} bytes, {}; put back the file, or import or restore a backup",
        file.display(),
        needed(*expected)
    )]
    DataFileCut {
        /// The data file.
        file: PathBuf,
        /// Size of the data file in bytes.
        length: u64,
        /// Length required by the newest root page; 0 if there is none.
        expected: u64,
    },
    /// A map exists with a kind other than the requested one, or its name is reserved or given twice.
    #[error("map {name}: {reason}")]
    Map {
        /// The map's name.
        name: String,
        /// Reason why the map is refused.
        reason: &'static str,
    },
    /// The operating system refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// Failed action, as a verb: "create", "lock", "read".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The engine failed after the data file was opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns advice for a store of a newer format. The text is empty for a store of an older format.
fn newer(found: u32, supported: u32) -> String {
    match found > supported {
        true => format!("; a newer build reads it: one whose `pando version` lists store version {found}"),
        false => String::new(),
    }
}

/// Returns a function that converts the error of a file operation.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::File { action, path, source }
}

fn needed(expected: u64) -> String {
    if expected == 0 { "and cannot be empty".to_owned() } else { format!("and {expected} belong to it") }
}

fn owner(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

/// Reason why a read or a write failed.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or the memory map has no room for the write, or less than the reserve is free. The batch is rolled back
    /// and the store stays usable.
    #[error("the disk of {} is full: {free_bytes} bytes free, {reserve_bytes} kept in reserve", directory.display())]
    DiskFull {
        /// The data directory.
        directory: PathBuf,
        /// Free bytes on the file system of the data directory, for an unprivileged process.
        free_bytes: u64,
        /// Size of the reserve: writes are refused while less space is free
        /// ([`Options::reserve_bytes`](crate::Options)).
        reserve_bytes: u64,
    },
    /// The system has no file descriptor, memory or thread left for a step that precedes a write, such as opening a
    /// file or beginning a transaction. Nothing is written, writes are not stopped, and another attempt may succeed.
    #[error("{operation}: {message}")]
    Exhausted {
        /// Failed operation.
        operation: &'static str,
        /// Error text of the system.
        message: String,
    },
    /// An earlier commit failed in a way that leaves the disk's state unknown. No batch begins until the store is
    /// opened again; reads continue.
    #[error("writes are stopped until restart: {cause}")]
    WritesStopped {
        /// Error of the failed commit.
        cause: String,
    },
    /// No map accepts an empty key.
    #[error("empty key for map {map}")]
    EmptyKey {
        /// The map's name.
        map: &'static str,
    },
    /// A key longer than [`KEY_LEN_MAX`](crate::KEY_LEN_MAX).
    #[error("key of {length} bytes for map {map}, at most {} fit", layout::KEY_LEN_MAX)]
    KeyTooLong {
        /// The map's name.
        map: &'static str,
        /// The key's length in bytes.
        length: usize,
    },
    /// A value longer than [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX).
    #[error("value of {length} bytes for map {map}, at most {} fit", layout::VALUE_LEN_MAX)]
    ValueTooLong {
        /// The map's name.
        map: &'static str,
        /// The value's length in bytes.
        length: usize,
    },
    /// An operation on ids was called for a plain map, or the reverse.
    #[error("map {map} is of the other kind")]
    WrongMapKind {
        /// The map's name.
        map: &'static str,
    },
    /// A key, an id or a position is not above the previous one, although rows must be [appended](crate::BulkStore) in
    /// order.
    #[error("out of order: rows for map {map} must come with ascending keys")]
    OutOfOrder {
        /// The map's name.
        map: &'static str,
    },
    /// A counter would leave the range of an `i64`.
    #[error("a counter overflows")]
    CounterOverflow,
    /// A log record differs from what was written.
    #[error("log record {position} is damaged: {damage}")]
    DamagedLog {
        /// The record's position.
        position: u64,
        /// Kind of damage.
        damage: LogDamage,
    },
    /// The redo log differs from the written data. Acknowledged commits may be missing.
    #[error("the redo log is damaged in {} at byte {offset}: {damage}; {}", file.display(), salvage_hint(file))]
    DamagedRedo {
        /// The segment.
        file: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// Kind of damage.
        damage: RedoDamage,
    },
    /// The redo log lacks groups or segments that its mark or the data file requires. Acknowledged commits are missing.
    #[error("the redo log lacks acknowledged changes: {}; {}", listed(findings), hint(findings))]
    RedoContradicted {
        /// All contradictions.
        findings: Vec<RedoFinding>,
    },
    /// A row of the store's own maps has an impossible length.
    #[error("damaged row in map {map}")]
    DamagedRow {
        /// The map's name.
        map: &'static str,
    },
    /// The view is parked: call [`View::renew`](crate::View::renew) before reading.
    #[error("read through a parked view")]
    Parked,
    /// A read that must not wait needs a page that is not in memory; see
    /// [`Read::without_waiting`](crate::Read::without_waiting).
    #[error("not in memory")]
    NotInMemory,
    /// The number of open views has reached [`Options::views_max`](crate::Options).
    #[error("too many views are open at once")]
    TooManyViews,
    /// Any other failure of the engine.
    #[error("{operation}: {message}")]
    Engine {
        /// Name of the engine call.
        operation: &'static str,
        /// The engine's or the system's error number.
        code: i32,
        /// Error text of the engine.
        message: String,
    },
}

fn hint(findings: &[RedoFinding]) -> String {
    findings.first().map(|finding| salvage_hint(&finding.file)).unwrap_or_default()
}

/// Returns advice for a directory that is refused because one of the store's files is missing or damaged.
pub(crate) fn salvage_hint(file: &Path) -> String {
    let directory = file.parent().unwrap_or(file);
    format!("`pando verify --data {} --salvage FILE.ldif` writes what is whole", directory.display())
}

/// Damage of a log record.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogDamage {
    /// The record is shorter than a frame's head, or its key is not a position.
    #[error("too short")]
    Short,
    /// The record has a frame version that this program does not read.
    #[error("frame version {0} is unknown")]
    Version(u8),
    /// The checksum does not match the bytes.
    #[error("checksum mismatch")]
    Checksum,
    /// Records between this record and the previous record are missing.
    #[error("records before it are missing")]
    Gap,
}

/// Damage of a file of the redo log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedoFinding {
    /// The file.
    pub file: PathBuf,
    /// Kind of damage.
    pub damage: RedoDamage,
}

fn listed(findings: &[RedoFinding]) -> String {
    let texts = findings.iter().map(|RedoFinding { file, damage }| format!("{}: {damage}", file.display()));
    texts.collect::<Vec<_>>().join("; ")
}

/// Kind of damage of the redo log.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedoDamage {
    /// A segment has a format that this program does not read.
    #[error("format version {0} is unknown")]
    Version(u32),
    /// A segment has groups after an invalid header.
    #[error("the segment's header is damaged")]
    Header,
    /// A segment that the mark names is missing.
    #[error("the segment is missing, with groups up to at least {last}")]
    SegmentMissing {
        /// Number of the last group known to be in the segment; 0 if no group is known.
        last: u64,
    },
    /// A segment that the mark names was truncated.
    #[error("the segment has {found} bytes instead of {length}")]
    SegmentShort {
        /// Length of the segment according to the mark.
        length: u64,
        /// Length of the segment now.
        found: u64,
    },
    /// Groups that were durable when the mark was written are missing.
    #[error(
        "groups {first} to {last} are durable according to redo.mark and are missing after the groups of this file"
    )]
    LastMissing {
        /// The first group that is missing.
        first: u64,
        /// The last of the missing groups.
        last: u64,
    },
    /// The mark is missing although the data file requires one.
    #[error("the file is missing, which lists the required segments of the redo log")]
    MarkMissing,
    /// The mark cannot be read, or belongs to other data.
    #[error(
        "the file, which lists the required segments of the redo log, is damaged or belongs to other data"
    )]
    Mark,
    /// A segment with groups has the file name of another segment.
    #[error("by its header this is segment {number}: its name must be {}", layout::redo_file(*number))]
    Misnamed {
        /// Number in the header of the segment.
        number: u64,
    },
    /// Groups are missing or unreadable, and later groups follow them. A later group is written only after the earlier
    /// groups were acknowledged.
    #[error("groups {first} to {last} cannot be read, and later groups follow them")]
    Missing {
        /// The first group that is missing.
        first: u64,
        /// The last group that is missing.
        last: u64,
    },
    /// A group follows a group with a higher number.
    #[error("redo group {found} follows group {last}; expected {}", last + 1)]
    Order {
        /// Number of the preceding group.
        last: u64,
        /// Number of the group that follows.
        found: u64,
    },
    /// A group that was read when the log was opened has changed or disappeared since.
    #[error("the group changed while the log was being read")]
    Changed,
    /// The group's checksum is correct, but its bytes are not valid changes.
    #[error("the group contains an invalid change")]
    NotAChange,
}
