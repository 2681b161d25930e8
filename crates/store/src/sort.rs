//! [`Sorter`]: an external sort, for more rows than fit into memory.
//!
//! Rows are buffered in memory; when the buffer is full, they are sorted and written to a file as a run. At the end the
//! runs are merged. Each thread may fill its own sorter, and one merge reads all sorters, so the threads share the work
//! of sorting.
//!
//! Memory: a sorter uses up to `memory_bytes` for rows and, after its first write, a write buffer of 1 MiB. A merge
//! uses at most the sum of the limits of its sorters. Sorters that have written nothing keep their rows in memory; the
//! runs of the other sorters are read through buffers. A sorter reserves an address space of nearly twice
//! `memory_bytes`. The reservation matters only if the system does not allow overcommit.
//!
//! Disk: about the bytes of the rows, less the common prefixes of adjacent keys. If there are more runs than 64 KiB
//! buffers fit in memory, some runs are merged beforehand, which takes the space of these runs a second time.

mod merge;
mod row_buffer;
pub(crate) mod run;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Room;
use crate::{Options, Result, StoreError};
use merge::{Merge, Rows};
use row_buffer::RowBuffer;
use run::{Run, RunReader, RunWriter, SortFile};

const READ_LEN_MIN: usize = 64 << 10;
const READ_LEN_MAX: usize = 1 << 20;
/// Minimum and maximum number of runs that are merged at once.
const FAN_IN_MIN: usize = 4;
const FAN_IN_MAX: usize = 1 << 10;

/// External sorter. It accepts rows in any order and returns them sorted, by key and then by value, byte by byte. Equal
/// rows are all returned.
pub struct Sorter {
    directory: PathBuf,
    reserve_bytes: u64,
    memory_bytes: usize,
    buffer: RowBuffer,
    /// Runs written so far, in one file.
    runs: Vec<Run>,
}

impl Sorter {
    /// Creates a sorter that holds up to `memory_bytes` of rows in memory, at most 4 GiB, and writes further rows to a
    /// file in `directory`, the data directory. The size of a row is the number of its bytes plus 20.
    pub fn new(directory: &Path, memory_bytes: usize) -> Sorter {
        Sorter::with_options(directory, memory_bytes, &Options::default())
    }

    /// Does the same as [`new`](Sorter::new) with the reserve of `options` ([`Options::reserve_bytes`]).
    pub fn with_options(directory: &Path, memory_bytes: usize, options: &Options) -> Sorter {
        Sorter {
            directory: directory.to_owned(),
            reserve_bytes: options.reserve_bytes,
            memory_bytes,
            buffer: RowBuffer::new(memory_bytes),
            runs: Vec::new(),
        }
    }

    /// Adds a row. Key and value may be empty, and each must be shorter than 4 GiB.
    ///
    /// # Errors
    /// `DiskFull`, `Engine`. `ValueTooLong` for a key or value of 4 GiB or more.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.buffer.has_room(key, value) {
            self.spill()?;
        }
        if self.buffer.push(key, value) {
            return Ok(());
        }
        Err(StoreError::ValueTooLong { map: "to sort", length: key.len().max(value.len()) })
    }

    /// Sorts the buffered rows now, on the calling thread, so that the merge does not sort them. If the sorter has
    /// written runs, also writes these rows as a run. More rows may follow.
    ///
    /// # Errors
    /// `DiskFull`, `Engine`.
    pub fn settle(&mut self) -> Result<()> {
        if self.runs.is_empty() {
            self.buffer.sort();
            return Ok(());
        }
        if self.buffer.len() > 0 {
            self.spill()?;
        }
        self.buffer.free();
        Ok(())
    }

    /// Returns all rows, sorted.
    ///
    /// # Errors
    /// `DiskFull`, `Engine`.
    pub fn finish(self) -> Result<Sorted> {
        Sorter::merge(vec![self])
    }

    /// Returns all rows of several sorters, sorted. Different threads may have filled the sorters.
    ///
    /// # Errors
    /// The same as [`finish`](Sorter::finish).
    pub fn merge(sorters: Vec<Sorter>) -> Result<Sorted> {
        let mut in_memory = Vec::new();
        let mut runs = Vec::new();
        // Memory of the sorters that have written their rows.
        let mut memory_bytes = 0;
        let mut directory = PathBuf::new();
        for mut sorter in sorters {
            sorter.settle()?;
            if sorter.runs.is_empty() {
                in_memory.push(Rows::Memory(sorter.buffer, 0));
                continue;
            }
            runs.append(&mut sorter.runs);
            memory_bytes += sorter.memory_bytes;
            directory = sorter.directory;
        }
        let fan_in = (memory_bytes / READ_LEN_MIN).clamp(FAN_IN_MIN, FAN_IN_MAX);
        while runs.len() > fan_in {
            let few = runs.drain(..fan_in.min(runs.len() - fan_in + 1)).collect();
            runs.push(merge_runs(&directory, few, memory_bytes)?);
        }
        in_memory.extend(readers(runs, memory_bytes));
        Ok(Sorted { merge: Merge::new(in_memory)? })
    }

    /// Writes the rows in memory as a run.
    fn spill(&mut self) -> Result<()> {
        let (file, start) = match self.runs.last() {
            Some(last) => (Arc::clone(&last.file), last.end()),
            None => (Arc::new(create(&self.directory, self.reserve_bytes)?), 0),
        };
        file.room.check_reserve()?;
        self.buffer.sort();
        let mut writer = RunWriter::new(file, start);
        for place in 0..self.buffer.len() {
            let (key, value) = self.buffer.row(place).unwrap_or_default();
            writer.push(key, value)?;
        }
        self.runs.push(writer.finish()?);
        self.buffer.clear();
        Ok(())
    }
}

fn create(directory: &Path, reserve_bytes: u64) -> Result<SortFile> {
    let opened = File::open(directory).map_err(|error| StoreError::Engine {
        operation: "open the data directory",
        code: error.raw_os_error().unwrap_or_default(),
        message: error.to_string(),
    })?;
    SortFile::create(directory, Room::new(opened, directory, reserve_bytes))
}

/// Merges several runs into one run, in a separate file.
fn merge_runs(directory: &Path, runs: Vec<Run>, memory_bytes: usize) -> Result<Run> {
    let reserve_bytes = runs.first().map_or(0, |run| run.file.room.reserve_bytes());
    let mut merge = Merge::new(readers(runs, memory_bytes).collect())?;
    let file = create(directory, reserve_bytes)?;
    file.room.check_reserve()?;
    let mut writer = RunWriter::new(Arc::new(file), 0);
    while let Some((key, value)) = merge.next()? {
        writer.push(key, value)?;
    }
    writer.finish()
}

fn readers(runs: Vec<Run>, memory_bytes: usize) -> impl Iterator<Item = Rows> {
    let buffer_len = (memory_bytes / runs.len().max(1)).clamp(READ_LEN_MIN, READ_LEN_MAX);
    runs.into_iter().map(move |run| Rows::File(RunReader::new(run, buffer_len)))
}

/// The rows of one or more [`Sorter`]s in order.
pub struct Sorted {
    merge: Merge,
}

impl Sorted {
    /// Returns the next row, as key and value, `None` after the last.
    ///
    /// # Errors
    /// `Engine`.
    #[expect(clippy::should_implement_trait, reason = "a row lives only until the next call")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.merge.next()
    }
}
