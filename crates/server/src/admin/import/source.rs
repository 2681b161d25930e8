//! Texts to import. Parts of them can be read again.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::ServeError;

/// A text to import.
pub struct Input {
    /// Name of the text, for messages.
    pub name: String,
    /// Source of the text.
    pub data: InputData,
}

/// Source of a text.
pub enum InputData {
    /// A file of plain text. It can be read again.
    File(File),
    /// Any other source. Its text is copied to a temporary file in the data directory until the import ends.
    Stream(Box<dyn Read + Send>),
}

/// All texts, by number.
pub(super) struct Sources(Vec<Source>);

/// A text, and a file from which it can be read again.
pub(super) struct Source {
    pub(super) number: u32,
    pub(super) name: String,
    /// The text as a stream. Only the reader's thread locks it.
    stream: Mutex<Box<dyn Read + Send>>,
    /// File of the text, or of its copy.
    file: File,
    is_copied: bool,
    length: Option<u64>,
}

impl Sources {
    pub(super) fn new(inputs: Vec<Input>, directory: &Path) -> Result<Sources, ServeError> {
        let source = |(number, Input { name, data })| -> io::Result<Source> {
            let (stream, file, is_copied): (Box<dyn Read + Send>, _, _) = match data {
                InputData::File(file) => (Box::new(file.try_clone()?), file, false),
                InputData::Stream(stream) => (stream, store::temporary_file(directory)?, true),
            };
            let length = if is_copied { None } else { Some(file.metadata()?.len()) };
            Ok(Source { number, name, stream: Mutex::new(stream), file, is_copied, length })
        };
        Ok(Sources((0..).zip(inputs).map(source).collect::<io::Result<_>>()?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    /// Returns the text with this number.
    pub(super) fn get(&self, number: u32) -> io::Result<&Source> {
        let found = self.iter().find(|source| source.number == number);
        found.ok_or_else(|| io::Error::other(format!("there is no text {number}")))
    }

    /// Returns the total size of all texts in bytes, if known.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        self.iter().map(|source| source.length).sum()
    }
}

impl Source {
    fn failed(&self, error: io::Error) -> ServeError {
        ServeError::Text { name: self.name.clone(), error }
    }

    /// Appends the next `wanted` bytes to `buffer`, or fewer at the end of the text. `offset` must be the number of
    /// bytes read before. Returns the number of bytes.
    pub(super) fn fill(&self, offset: u64, buffer: &mut Vec<u8>, wanted: usize) -> Result<usize, ServeError> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let start = buffer.len();
        buffer.reserve(wanted);
        let filled = stream.by_ref().take(wanted as u64).read_to_end(buffer);
        let filled = filled.map_err(|error| self.failed(error))?;
        if self.is_copied {
            self.file.write_all_at(buffer.get(start..).unwrap_or_default(), offset)?;
        }
        Ok(filled)
    }

    /// Reads bytes again that [`fill`](Source::fill) has read.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ServeError> {
        self.file.read_exact_at(buffer, offset).map_err(|error| self.failed(error))
    }

    /// Returns a reader of bytes that [`fill`](Source::fill) has read.
    pub(super) fn range(&self, offset: u64, length: u64) -> Box<dyn Read + '_> {
        let range = Range { file: &self.file, offset, end: offset + length };
        Box::new(BufReader::with_capacity(1 << 16, range))
    }
}

/// A range of a file.
struct Range<'f> {
    file: &'f File,
    offset: u64,
    end: u64,
}

impl Read for Range<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.end - self.offset).unwrap_or(usize::MAX));
        let read = self.file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
