//! The texts to import, and how to come back to what has been read of them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::ServeError;

/// A text to import.
pub struct Input {
    /// Its name for people.
    pub name: String,
    /// What it reads from.
    pub data: InputData,
}

/// What a text is read from.
pub enum InputData {
    /// A file of plain text, which can be read again.
    File(File),
    /// Anything else. A copy is kept beside the data meanwhile.
    Stream(Box<dyn Read + Send>),
}

/// All texts.
pub(super) struct Sources {
    all: Vec<Source>,
}

struct Source {
    name: String,
    /// The reader's end. Nobody else reads from it.
    stream: Mutex<Box<dyn Read + Send>>,
    /// The text, or the copy that is made of it.
    file: File,
    is_copied: bool,
    length: Option<u64>,
}

impl Sources {
    pub(super) fn new(inputs: Vec<Input>, directory: &Path) -> Result<Sources, ServeError> {
        let source = |input: Input| -> io::Result<Source> {
            let Input { name, data } = input;
            let (stream, file, is_copied): (Box<dyn Read + Send>, _, _) = match data {
                InputData::File(file) => (Box::new(file.try_clone()?), file, false),
                InputData::Stream(stream) => (stream, store::temporary_file(directory)?, true),
            };
            let length = if is_copied { None } else { Some(file.metadata()?.len()) };
            Ok(Source { name, stream: Mutex::new(stream), file, is_copied, length })
        };
        let all = inputs.into_iter().map(source).collect::<io::Result<_>>()?;
        Ok(Sources { all })
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// The bytes of all texts, where they are known beforehand.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        self.all.iter().map(|source| source.length).sum()
    }

    /// Reads on in a text, `wanted` bytes or to its end, and appends them to `buffer`. Returns how many there were.
    /// `offset` is where they stand.
    pub(super) fn fill(
        &self,
        source: usize,
        offset: u64,
        buffer: &mut Vec<u8>,
        wanted: usize,
    ) -> Result<usize, ServeError> {
        let source = &self.all[source];
        let failed = |error| ServeError::Text { name: source.name.clone(), error };
        let mut stream = source.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let start = buffer.len();
        buffer.reserve(wanted);
        let filled = (&mut **stream).take(wanted as u64).read_to_end(buffer).map_err(failed)?;
        if source.is_copied {
            source.file.write_all_at(&buffer[start..], offset)?;
        }
        Ok(filled)
    }

    /// What stands in a text at a place that has been read.
    pub(super) fn read_at(&self, source: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.all[source].file.read_exact_at(buffer, offset)
    }

    /// A part of a text that has been read, from its beginning to its end.
    pub(super) fn range(&self, source: usize, offset: u64, length: u64) -> Box<dyn Read + '_> {
        Box::new(BufReader::with_capacity(
            1 << 16,
            Range { file: &self.all[source].file, offset, end: offset + length },
        ))
    }

    /// The name of a text.
    pub(super) fn name(&self, source: usize) -> &str {
        &self.all[source].name
    }
}

/// A part of a file.
struct Range<'f> {
    file: &'f File,
    offset: u64,
    end: u64,
}

impl Read for Range<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.end - self.offset).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
