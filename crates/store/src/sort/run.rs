//! Runs: sorted rows in a file, written and read sequentially. A [`Sorter`](crate::Sorter) writes its rows to the disk
//! in this form.
//!
//! Each row omits the prefix of its key that it shares with the previous row:
//!
//! ```text
//!   shared (varint) | rest of the key: length (varint) | value: length (varint) | rest of the key | value
//! ```
//!
//! The file is unlinked right after its creation, so the system frees its space however the process ends. A process
//! killed between the two steps leaves an empty file, which the next open of the data directory removes.

#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "ranges stay within the buffer, whose length the reader sets, and the low bits of a number are its octets"
)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::disk::Room;
use crate::{Result, layout};

/// Number of bytes that are written at a time.
const WRITE_LEN: usize = 1 << 20;
/// Maximum length of a row's head: three varints of up to five bytes.
const ROW_HEAD_LEN_MAX: usize = 15;
/// Maximum number of names that are tried. A name is taken if a crash left a file with this name, or while another
/// thread has created a file with this name and not unlinked it yet.
const NAMES_MAX: u32 = 100_000;

/// A file of runs.
pub(crate) struct SortFile {
    file: File,
    pub(crate) room: Room,
}

/// A sorted run of rows in a file.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) file: Arc<SortFile>,
    bytes: Range<u64>,
}

impl Run {
    pub(crate) fn end(&self) -> u64 {
        self.bytes.end
    }
}

impl SortFile {
    pub(crate) fn create(directory: &Path, room: Room) -> Result<SortFile> {
        let file =
            temporary_file(directory).map_err(|error| room.open_error("create a sort file", &error))?;
        Ok(SortFile { file, room })
    }
}

/// Creates a temporary file in the data directory, readable by its owner alone. The file is unlinked at once, so its
/// space is freed however the process ends. The caller must hold the lock of the data directory.
///
/// # Errors
/// The file cannot be created.
pub fn temporary_file(directory: &Path) -> io::Result<File> {
    for number in 0..NAMES_MAX {
        let path = directory.join(format!("{}{number}", layout::SORT_FILE_PREFIX));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Writer of a run.
pub(crate) struct RunWriter {
    file: Arc<SortFile>,
    start: u64,
    /// Offset in the file of the first byte of `buffer`.
    position: u64,
    buffer: Vec<u8>,
    last_key: Vec<u8>,
}

impl RunWriter {
    /// Creates a writer of a run that begins at `start`. `start` must be the end of `file`.
    pub(crate) fn new(file: Arc<SortFile>, start: u64) -> RunWriter {
        RunWriter {
            file,
            start,
            position: start,
            buffer: Vec::with_capacity(WRITE_LEN),
            last_key: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let shared = common_len(&self.last_key, key);
        let rest = &key[shared..];
        for length in [shared, rest.len(), value.len()] {
            push_varint(&mut self.buffer, length);
        }
        self.buffer.extend_from_slice(rest);
        self.buffer.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(rest);
        if self.buffer.len() >= WRITE_LEN - ROW_HEAD_LEN_MAX - 1_024 { self.flush() } else { Ok(()) }
    }

    pub(crate) fn finish(mut self) -> Result<Run> {
        self.flush()?;
        Ok(Run { file: self.file, bytes: self.start..self.position })
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.file.file.write_all_at(&self.buffer, self.position);
        written.map_err(|error| self.file.room.io_error("write a sort file", &error))?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reader of a run.
pub(crate) struct RunReader {
    run: Run,
    /// Range of the run that has not been read into the buffer yet.
    unread: Range<u64>,
    /// Bytes read from the file. The buffer is allocated with its final length and grows only if a row is longer.
    buffer: Vec<u8>,
    /// Range of `buffer` that was read from the file and not returned yet.
    filled: Range<usize>,
    key: Vec<u8>,
    value: Range<usize>,
}

impl RunReader {
    /// Creates a reader before the first row.
    pub(crate) fn new(run: Run, buffer_len: usize) -> RunReader {
        let unread = run.bytes.clone();
        RunReader { run, unread, buffer: vec![0; buffer_len], filled: 0..0, key: Vec::new(), value: 0..0 }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        &self.buffer[self.value.clone()]
    }

    /// Moves to the next row. Returns false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.step().map_err(|error| self.run.file.room.io_error("read a sort file", &error))
    }

    fn step(&mut self) -> io::Result<bool> {
        if self.filled.len() < ROW_HEAD_LEN_MAX {
            self.fill(ROW_HEAD_LEN_MAX)?;
            if self.filled.is_empty() {
                return Ok(false);
            }
        }
        let [shared, rest_len, value_len] = [self.varint()?, self.varint()?, self.varint()?];
        if self.filled.len() < rest_len + value_len {
            self.fill(rest_len + value_len)?;
        }
        if self.filled.len() < rest_len + value_len || shared > self.key.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let rest_end = self.filled.start + rest_len;
        self.key.truncate(shared);
        self.key.extend_from_slice(&self.buffer[self.filled.start..rest_end]);
        self.value = rest_end..rest_end + value_len;
        self.filled.start = self.value.end;
        Ok(true)
    }

    /// Reads until the buffer has at least `wanted` bytes, or the rest of the run.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        if self.buffer.len() < wanted {
            let there = wanted.min(self.filled.len() + (self.unread.end - self.unread.start) as usize);
            self.buffer.resize(there.max(self.buffer.len()), 0);
        }
        let free = &mut self.buffer[self.filled.end..];
        let length = free.len().min((self.unread.end - self.unread.start) as usize);
        self.run.file.file.read_exact_at(&mut free[..length], self.unread.start)?;
        self.unread.start += length as u64;
        self.filled.end += length;
        Ok(())
    }

    #[inline]
    fn varint(&mut self) -> io::Result<usize> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let Some(&byte) = self.buffer[self.filled.clone()].first() else { break };
            self.filled.start += 1;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn push_varint(out: &mut Vec<u8>, number: usize) {
    let mut number = number;
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns the length of the common prefix of two keys.
fn common_len(one: &[u8], other: &[u8]) -> usize {
    let eights = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let equal = eights.take_while(|(one, other)| one == other).count() * 8;
    equal + one[equal..].iter().zip(&other[equal..]).take_while(|(one, other)| one == other).count()
}
