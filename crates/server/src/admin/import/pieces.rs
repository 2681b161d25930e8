//! Division of a text into chunks of whole records.

use crate::admin::import::source::Source;
use crate::admin::import::spares::Spares;
use crate::error::ServeError;

/// Size of a chunk in bytes, unless a record is longer.
pub(super) const PIECE_SIZE: usize = 2 << 20;

/// Chunk of text. If `bytes` is empty, the chunk is one record that is too long for memory. That record must be read
/// from its source.
pub(super) struct Piece<'s> {
    /// Number of the chunk among all chunks.
    pub(super) sequence: u64,
    pub(super) source: &'s Source,
    /// Offset of the chunk in the text, in bytes.
    pub(super) offset: u64,
    /// Number of lines in the text before the chunk.
    pub(super) line: u64,
    /// Id of the first record.
    pub(super) first_id: u64,
    /// Upper bound on the number of records.
    pub(super) record_count: u64,
    /// Length of the chunk in bytes, even if `bytes` is empty.
    pub(super) length: u64,
    pub(super) bytes: Vec<u8>,
}

/// Reader that divides a text into chunks.
pub(super) struct Pieces<'s> {
    source: &'s Source,
    spares: &'s Spares,
    offset: u64,
    line: u64,
    /// Bytes read after the last complete chunk.
    rest: Vec<u8>,
    is_at_end: bool,
    record_size_max: usize,
}

impl<'s> Pieces<'s> {
    /// Creates a reader of a text. The reader uses spare buffers. A record of more than `record_size_max` bytes becomes
    /// a chunk without bytes.
    pub(super) fn new(source: &'s Source, spares: &'s Spares, record_size_max: usize) -> Pieces<'s> {
        Pieces { source, spares, offset: 0, line: 0, rest: Vec::new(), is_at_end: false, record_size_max }
    }

    /// Returns the next chunk. The caller must set the number and the first id of the chunk.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'s>>, ServeError> {
        let mut bytes = std::mem::take(&mut self.rest);
        // Number of bytes that have been searched and contain no end of a record.
        let mut searched = 0;
        let end = loop {
            if let Some(end) = record_ends(&bytes, searched).next_back() {
                break end;
            }
            if self.is_at_end {
                break bytes.len();
            }
            if bytes.len() > self.record_size_max {
                return self.large(bytes).map(Some);
            }
            searched = bytes.len().saturating_sub(2);
            let start = bytes.len();
            let offset = self.offset + start as u64;
            let wanted = start.max(PIECE_SIZE / 4) * 2 - start;
            let filled = self.source.fill(offset, &mut bytes, wanted)?;
            self.is_at_end = filled < wanted;
            if self.is_at_end {
                break bytes.len();
            }
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        self.rest = self.spares.take();
        self.rest.extend_from_slice(bytes.get(end..).unwrap_or_default());
        bytes.truncate(end);
        let (offset, line) = (self.offset, self.line);
        let (line_count, record_count) = count(&bytes);
        self.offset += bytes.len() as u64;
        self.line += line_count;
        Ok(Some(self.piece(offset, line, record_count, bytes)))
    }

    /// Returns a chunk without bytes for the record that begins with `bytes`. Reads the record only to find its end.
    fn large(&mut self, mut bytes: Vec<u8>) -> Result<Piece<'s>, ServeError> {
        let (offset, line) = (self.offset, self.line);
        let mut searched = bytes.len();
        loop {
            // The searched bytes are dropped, except those that may begin the empty line after the record.
            let dropped = searched.saturating_sub(2);
            self.line += line_count(bytes.drain(..dropped).as_slice());
            self.offset += dropped as u64;
            searched -= dropped;
            let read_from = self.offset + bytes.len() as u64;
            self.is_at_end = self.source.fill(read_from, &mut bytes, PIECE_SIZE)? < PIECE_SIZE;
            let end = record_ends(&bytes, searched).next();
            if let Some(end) = end.or(self.is_at_end.then_some(bytes.len())) {
                self.rest = bytes.split_off(end);
                self.line += line_count(&bytes);
                self.offset += end as u64;
                return Ok(self.piece(offset, line, 1, Vec::new()));
            }
            searched = bytes.len();
        }
    }

    /// Returns the chunk from `offset` to the present position of the reader.
    fn piece(&self, offset: u64, line: u64, record_count: u64, bytes: Vec<u8>) -> Piece<'s> {
        let length = self.offset - offset;
        Piece { sequence: 0, source: self.source, offset, line, first_id: 0, record_count, length, bytes }
    }
}

/// Returns the offset after each empty line that ends at or after `from`. Records end there.
fn record_ends(bytes: &[u8], from: usize) -> impl DoubleEndedIterator<Item = usize> {
    let newlines = memchr::memchr_iter(b'\n', bytes.get(from..).unwrap_or_default());
    let ends = newlines.map(move |newline| from + newline);
    ends.filter(|&end| is_empty_line(bytes, end)).map(|end| end + 1)
}

/// Returns true if the line that ends at `end` is empty and is not the first line.
fn is_empty_line(bytes: &[u8], end: usize) -> bool {
    matches!(bytes.get(..end), Some([.., b'\n'] | [.., b'\n', b'\r']))
}

fn line_count(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Returns the number of lines, and an upper bound on the number of records.
fn count(bytes: &[u8]) -> (u64, u64) {
    let (mut lines, mut records, mut last) = (0, 1, usize::MAX);
    for end in memchr::memchr_iter(b'\n', bytes) {
        lines += 1;
        let length = end.wrapping_sub(last).wrapping_sub(1);
        records += u64::from(length == 0 || length == 1 && bytes.get(end - 1) == Some(&b'\r'));
        last = end;
    }
    (lines, records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_after_empty_lines() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(record_ends(text.as_bytes(), 0).next_back(), expected, "{text:?}");
        };
        check("dn: a\na: b\n\ndn: c\n", Some(12));
        check("dn: a\r\n\r\ndn", Some(9));
        check("dn: a\na: b\n", None);
        check("dn: a\n\n\n", Some(8));
        check("", None);
    }

    #[test]
    fn the_bound_on_records_is_never_exceeded() {
        for (text, lines, records) in
            [("dn: a\n\ndn: b\n", 3, 2), ("dn: a\r\n\r\ndn: b", 2, 2), ("\n\n\n", 3, 4), ("", 0, 1)]
        {
            assert_eq!(count(text.as_bytes()), (lines, records), "{text:?}");
        }
    }
}
