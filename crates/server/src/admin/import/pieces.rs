//! Cutting a text into pieces of whole records.

use crate::admin::import::source::Sources;
use crate::admin::import::spares::Spares;
use crate::error::ServeError;

/// Bytes of a piece, unless a record is longer.
pub(super) const PIECE_SIZE: usize = 2 << 20;

/// A piece of text. One without bytes is a record too long to be held, to be read from its place.
pub(super) struct Piece {
    /// Its number among all pieces.
    pub(super) sequence: u64,
    /// The text that it is of.
    pub(super) source: u32,
    /// Bytes of the text before it.
    pub(super) offset: u64,
    /// Lines of the text before it.
    pub(super) line: u64,
    /// The id of its first record.
    pub(super) first_id: u64,
    /// How many records it can have at most.
    pub(super) record_count: u64,
    /// Its length, which `bytes` has only until they are read.
    pub(super) length: u64,
    pub(super) bytes: Vec<u8>,
}

/// Reads a text piece by piece.
pub(super) struct Pieces<'s> {
    sources: &'s Sources,
    spares: &'s Spares,
    source: usize,
    offset: u64,
    line: u64,
    /// What has been read behind the last piece.
    rest: Vec<u8>,
    is_at_end: bool,
    record_size_max: usize,
}

impl<'s> Pieces<'s> {
    /// A reader of one of the texts, into spare buffers.
    pub(super) fn new(
        sources: &'s Sources,
        spares: &'s Spares,
        source: usize,
        record_size_max: usize,
    ) -> Pieces<'s> {
        let rest = Vec::new();
        Pieces { sources, spares, source, offset: 0, line: 0, rest, is_at_end: false, record_size_max }
    }

    /// The next piece; its number and ids are for the caller to fill in.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, ServeError> {
        let mut bytes = std::mem::take(&mut self.rest);
        // Nothing before this has an end of a record.
        let mut searched = 0;
        let end = loop {
            if let Some(end) = last_end(&bytes, searched) {
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
            let filled = self.sources.fill(self.source, offset, &mut bytes, wanted)?;
            self.is_at_end = filled < wanted;
            if self.is_at_end {
                break bytes.len();
            }
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        self.rest = self.spares.take();
        self.rest.extend_from_slice(&bytes[end..]);
        bytes.truncate(end);
        let (line_count, record_count) = count(&bytes);
        let piece = Piece {
            sequence: 0,
            source: self.source as u32,
            offset: self.offset,
            line: self.line,
            first_id: 0,
            record_count,
            length: bytes.len() as u64,
            bytes,
        };
        self.offset += piece.length;
        self.line += line_count;
        Ok(Some(piece))
    }

    /// The record that begins with these bytes, without holding it: only its end is looked for.
    fn large(&mut self, mut bytes: Vec<u8>) -> Result<Piece, ServeError> {
        let (offset, line) = (self.offset, self.line);
        let mut searched = bytes.len();
        loop {
            // What has been searched is let go, but for what may be the beginning of its end.
            let kept = searched.saturating_sub(2);
            self.line += memchr::memchr_iter(b'\n', &bytes[..kept]).count() as u64;
            self.offset += kept as u64;
            bytes.drain(..kept);
            searched -= kept;
            let place = self.offset + bytes.len() as u64;
            let read = self.sources.fill(self.source, place, &mut bytes, PIECE_SIZE)?;
            self.is_at_end = read < PIECE_SIZE;
            let end = first_end(&bytes, searched);
            if let Some(end) = end.or(self.is_at_end.then_some(bytes.len())) {
                self.line += memchr::memchr_iter(b'\n', &bytes[..end]).count() as u64;
                self.offset += end as u64;
                self.rest = bytes.split_off(end);
                let (source, length) = (self.source as u32, self.offset - offset);
                let (sequence, first_id, bytes) = (0, 0, Vec::new());
                return Ok(Piece {
                    sequence,
                    source,
                    offset,
                    line,
                    first_id,
                    record_count: 1,
                    length,
                    bytes,
                });
            }
            searched = bytes.len();
        }
    }
}

/// Where the first empty line ends whose own end is at or behind `from`.
fn first_end(bytes: &[u8], from: usize) -> Option<usize> {
    let ends = memchr::memchr_iter(b'\n', &bytes[from..]);
    ends.map(|place| from + place).find(|&place| is_empty_line(bytes, place)).map(|place| place + 1)
}

/// Where the last empty line at or behind `from` ends.
fn last_end(bytes: &[u8], from: usize) -> Option<usize> {
    let ends = memchr::memrchr_iter(b'\n', &bytes[from..]);
    ends.map(|place| from + place).find(|&place| is_empty_line(bytes, place)).map(|place| place + 1)
}

/// Whether the line that ends here is empty, and not the first of all.
fn is_empty_line(bytes: &[u8], end: usize) -> bool {
    matches!(bytes[..end], [.., b'\n'] | [.., b'\n', b'\r'])
}

/// Lines, and records at most.
fn count(bytes: &[u8]) -> (u64, u64) {
    let (mut lines, mut records, mut last) = (0, 1, usize::MAX);
    for end in memchr::memchr_iter(b'\n', bytes) {
        lines += 1;
        let length = end.wrapping_sub(last).wrapping_sub(1);
        records += u64::from(length == 0 || length == 1 && bytes[end - 1] == b'\r');
        last = end;
    }
    (lines, records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_behind_empty_lines() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(last_end(text.as_bytes(), 0), expected, "{text:?}");
        };
        check("dn: a\na: b\n\ndn: c\n", Some(12));
        check("dn: a\r\n\r\ndn", Some(9));
        check("dn: a\na: b\n", None);
        check("dn: a\n\n\n", Some(8));
        check("", None);
    }

    #[test]
    fn there_are_never_more_records_than_counted() {
        for (text, lines, records) in
            [("dn: a\n\ndn: b\n", 3, 2), ("dn: a\r\n\r\ndn: b", 2, 2), ("\n\n\n", 3, 4), ("", 0, 1)]
        {
            assert_eq!(count(text.as_bytes()), (lines, records), "{text:?}");
        }
    }
}
