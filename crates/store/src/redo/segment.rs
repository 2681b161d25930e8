//! Files of segments: creating, reusing and writing them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::{self, BLOCK_LEN, Identity, Life};
use super::mark::ListedSegment;
use crate::disk::{self, Room};
use crate::{Result, layout};

/// Number of zeroes that are written and synced at a time. The number is small, because the disk writes the zeroes
/// before groups that are appended meanwhile.
const ZEROES_LEN: usize = 1 << 20;

/// A file of the log. All blocks of the file are allocated, so a write within the file changes no metadata.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    pub(crate) life: Life,
    /// Size of the file in bytes, including the header block.
    pub(crate) length: u64,
}

impl Segment {
    /// Creates a segment of at least `length` bytes, durable together with its name. After an error, no file remains.
    ///
    /// # Errors
    /// `Exhausted`: there is no descriptor or memory for another file. `DiskFull`, `Engine`.
    pub(crate) fn create(directory: &Path, room: &Room, life: Life, length: u64) -> Result<Segment> {
        const MAKE: &str = "make a segment of the redo log";
        let length = length.next_multiple_of(BLOCK_LEN as u64);
        let path = directory.join(layout::redo_file(life.number));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| room.open_error(MAKE, &error))?;
        let filled = fill(&file, &life, length).and_then(|()| room.sync_directory());
        if let Err(error) = filled {
            let _ = disk::remove_if_there(&path);
            return Err(room.io_error(MAKE, &error));
        }
        Ok(Segment { path, file: Arc::new(file), life, length })
    }

    /// Reuses the file as a segment with another number. The file and its name are durable on return. Old frames do not
    /// belong to the new life, so they are not erased. If an error follows after the renaming, the file is removed.
    ///
    /// The power may fail between any two steps, and the steps may reach the disk in another order. As long as name and
    /// header disagree, the file is not a segment, and the next open removes it.
    pub(crate) fn reuse(self, room: &Room, number: u64) -> io::Result<Segment> {
        let life = Life { identity: self.life.identity, number };
        let path = self.path.with_file_name(layout::redo_file(number));
        fs::rename(&self.path, &path)?;
        let written = self.file.write_all_at(&frame::header(&life), 0);
        let durable = written.and_then(|()| self.file.sync_data()).and_then(|()| room.sync_directory());
        if let Err(error) = durable {
            let _ = disk::remove_if_there(&path);
            return Err(error);
        }
        Ok(Segment { path, life, ..self })
    }

    /// Opens a file that may be a segment, without reading its header.
    pub(crate) fn open(path: PathBuf, identity: Identity, number: u64, write: bool) -> io::Result<Segment> {
        let file = OpenOptions::new().read(true).write(write).open(&path)?;
        let length = file.metadata()?.len();
        Ok(Segment { path, file: Arc::new(file), life: Life { identity, number }, length })
    }

    /// Returns the segment's entry for the mark, with groups up to `last`.
    pub(crate) fn listed(&self, last: u64) -> ListedSegment {
        ListedSegment { number: self.life.number, length: self.length, last }
    }

    /// Writes `bytes` at `offset`, durably.
    pub(crate) fn overwrite(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.file.sync_data()
    }
}

/// Writes every block of the file, and the header block last. If the process is killed before the end, the file
/// therefore has no header.
fn fill(file: &File, life: &Life, length: u64) -> io::Result<()> {
    let zeroes = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(ZEROES_LEN)];
    let mut offset = BLOCK_LEN as u64;
    while offset < length {
        let part = usize::try_from(length - offset).unwrap_or(usize::MAX).min(zeroes.len());
        file.write_all_at(zeroes.get(..part).unwrap_or_default(), offset)?;
        file.sync_data()?;
        offset += part as u64;
    }
    file.write_all_at(&frame::header(life), 0)?;
    file.sync_all()
}

/// Returns the files in a directory that have the name of a segment, by their numbers.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let Some(number) = layout::redo_number(&entry.file_name())
            && entry.file_type()?.is_file()
        {
            segments.push((number, entry.path()));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}
