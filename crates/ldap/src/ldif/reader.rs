//! Reading records from a stream.

use std::io::{BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::record::{Line, LineKind, RecordBuffer};
use super::{LdifError, LdifErrorKind, LdifRecord};
use crate::LDIF_RECORD_SIZE_MAX;

/// Byte order mark, which editors on some systems put before UTF-8 text.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads records one after the other. Its buffers grow to the largest record and are reused.
#[derive(Debug)]
pub struct LdifReader<R> {
    input: R,
    record_size_max: usize,
    /// Physical lines read so far.
    line_count: u64,
    /// Whether a record has been read. A version is only allowed before the first record.
    has_started: bool,
    is_at_end: bool,
    buffer: RecordBuffer,
    /// Logical lines of the record. For each, the number of its first physical line, and its offset in the buffer's
    /// text.
    logical_lines: Vec<(u64, usize)>,
}

impl<R: BufRead> LdifReader<R> {
    /// Creates a reader of this text. Records may be up to [`LDIF_RECORD_SIZE_MAX`] octets long.
    pub fn new(input: R) -> LdifReader<R> {
        LdifReader::with_record_size_max(input, LDIF_RECORD_SIZE_MAX)
    }

    /// Creates a reader of this text with the given limit on a record's octets, comments not counted.
    pub fn with_record_size_max(input: R, record_size_max: usize) -> LdifReader<R> {
        LdifReader {
            input,
            record_size_max,
            line_count: 0,
            has_started: false,
            is_at_end: false,
            buffer: RecordBuffer::default(),
            logical_lines: Vec::new(),
        }
    }

    /// Reads the next record; `None` at the end of the text.
    ///
    /// After a malformed record, the next call reads the record that follows it, so a caller may report the error and
    /// continue. After [`LdifErrorKind::Io`] and [`LdifErrorKind::RecordTooLong`] there are no more records.
    ///
    /// # Errors
    /// The record is malformed, or the input could not be read; the error has the line and the kind.
    pub fn next_record(&mut self) -> Result<Option<LdifRecord<'_>>, LdifError> {
        loop {
            self.buffer.text.clear();
            self.buffer.decoded.clear();
            self.buffer.lines.clear();
            self.logical_lines.clear();
            self.read_lines()?;
            if self.logical_lines.is_empty() {
                return Ok(None);
            }
            self.take_apart()?;
            // A version may be alone, followed by an empty line.
            if !self.buffer.lines.is_empty() {
                return self.buffer.record();
            }
        }
    }

    /// Returns the lines of the record that was read last, even if it is malformed. Folded lines are joined, and
    /// comments are missing.
    pub fn record_lines(&self) -> impl Iterator<Item = &[u8]> {
        let text = &self.buffer.text;
        let starts = self.logical_lines.iter().map(|(_, start)| *start);
        let ends = starts.clone().skip(1).chain([text.len()]);
        starts.zip(ends).filter_map(|(start, end)| text.get(start..end))
    }

    /// Returns the source. The position of the source is after the last record that was read and the empty line that
    /// follows it.
    pub const fn get_ref(&self) -> &R {
        &self.input
    }

    /// Returns the number of lines read so far.
    pub const fn line_count(&self) -> u64 {
        self.line_count
    }

    /// Reads the lines of the next record, up to the empty line after it. Joins folded lines and drops comments.
    fn read_lines(&mut self) -> Result<(), LdifError> {
        // Kind of line that a continuation line would continue: none, a line of the record, or a comment.
        #[derive(PartialEq)]
        enum Last {
            None,
            Kept,
            Comment,
        }
        let mut last = Last::None;
        let mut stray_continuation = None;
        while !self.is_at_end {
            let start = self.buffer.text.len();
            self.read_physical_line()?;
            if self.line_count == 1 && self.buffer.text.get(start..).is_some_and(|line| line.starts_with(BOM))
            {
                self.buffer.text.drain(start..start + BOM.len());
            }
            match self.buffer.text.get(start) {
                None if self.is_at_end => break,
                None if self.logical_lines.is_empty() && stray_continuation.is_none() => last = Last::None,
                None => break,
                Some(b' ') if last == Last::Kept => {
                    self.buffer.text.copy_within(start + 1.., start);
                    self.buffer.text.pop();
                }
                Some(b' ') if last == Last::None => {
                    stray_continuation.get_or_insert(self.line_count);
                    self.buffer.text.truncate(start);
                }
                Some(b' ') => self.buffer.text.truncate(start),
                Some(b'#') => {
                    last = Last::Comment;
                    self.buffer.text.truncate(start);
                }
                Some(_) => {
                    last = Last::Kept;
                    self.logical_lines.push((self.line_count, start));
                }
            }
        }
        match stray_continuation {
            Some(line) => Err(LdifError { line, kind: LdifErrorKind::StrayContinuation }),
            None => Ok(()),
        }
    }

    /// Appends the next physical line, without its end, to the buffer's text.
    fn read_physical_line(&mut self) -> Result<(), LdifError> {
        self.line_count += 1;
        let text = &mut self.buffer.text;
        let start = text.len();
        let room = self.record_size_max.saturating_sub(start).saturating_add(1);
        // Usually the buffer contains the whole line. If filling the buffer fails, the read below reports the error.
        if let Ok(there) = self.input.fill_buf()
            && let Some(length) = memchr::memchr(b'\n', there.get(..room).unwrap_or(there))
            && let Some(line) = there.get(..length)
        {
            text.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
            self.input.consume(length + 1);
            return Ok(());
        }
        let mut input = (&mut self.input).take(room as u64);
        let read = match input.read_until(b'\n', text) {
            Ok(read) => read,
            Err(error) => {
                self.is_at_end = true;
                return Err(LdifError { line: self.line_count, kind: LdifErrorKind::Io(error) });
            }
        };
        if text.last() == Some(&b'\n') && read > 0 {
            text.pop();
            if text.len() > start && text.last() == Some(&b'\r') {
                text.pop();
            }
        } else if read == room {
            self.is_at_end = true;
            let kind = LdifErrorKind::RecordTooLong { max: self.record_size_max };
            return Err(LdifError { line: self.line_count, kind });
        } else {
            // There is no line end: this is the last line of the input, or the input ended before any octet was read.
            self.is_at_end = read == 0;
            self.line_count -= u64::from(self.is_at_end);
        }
        Ok(())
    }

    /// Finds the name and value of each logical line.
    fn take_apart(&mut self) -> Result<(), LdifError> {
        let buffer = &mut self.buffer;
        let mut lines = self.logical_lines.iter().copied().peekable();
        if !self.has_started {
            self.has_started = true;
            if let Some(&(number, start)) = lines.peek() {
                let end = self.logical_lines.get(1).map_or(buffer.text.len(), |next| next.1);
                let line = buffer.text.get(start..end).unwrap_or_default();
                if let Some(version) = version(line) {
                    if version != b"1" {
                        return Err(LdifError { line: number, kind: LdifErrorKind::UnknownVersion });
                    }
                    lines.next();
                }
            }
        }
        while let Some((number, start)) = lines.next() {
            let end = lines.peek().map_or(buffer.text.len(), |next| next.1);
            let text = buffer.text.get(start..end).unwrap_or_default();
            let line =
                parse_line(text, &mut buffer.decoded).map_err(|kind| LdifError { line: number, kind })?;
            buffer.lines.push(line.place(number, start));
        }
        Ok(())
    }
}

/// Returns the version in a `version:` line; `None` for any other line.
fn version(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"version:";
    let (name, number) = line.split_at_checked(NAME.len())?;
    name.eq_ignore_ascii_case(NAME).then(|| number.trim_ascii())
}

impl Line {
    /// Returns the line with its number, and with its ranges converted from offsets in the line to offsets in the
    /// buffer.
    fn place(mut self, number: u64, start: usize) -> Line {
        self.number = number;
        self.name = self.name.start + start..self.name.end + start;
        if !self.is_decoded {
            self.value = self.value.start + start..self.value.end + start;
        }
        self
    }
}

/// Parses a logical line. Appends decoded base64 to `decoded`.
fn parse_line(text: &[u8], decoded: &mut Vec<u8>) -> Result<Line, LdifErrorKind> {
    if text == b"-" {
        let (name, value) = (0..0, 0..0);
        return Ok(Line { number: 0, kind: LineKind::EndOfChange, name, value, is_decoded: false });
    }
    let colon = text.iter().position(|octet| *octet == b':').ok_or(LdifErrorKind::MissingColon)?;
    let (name, value) = text.split_at(colon);
    if !is_description(name) {
        return Err(LdifErrorKind::BadDescription);
    }
    if name.eq_ignore_ascii_case(b"control") {
        return parse_control(text, colon, decoded);
    }
    let (value, is_decoded) = parse_value(value, colon, decoded)?;
    Ok(Line { number: 0, kind: LineKind::Value, name: 0..colon, value, is_decoded })
}

/// Parses `value-spec` of RFC 2849. `text` starts with the colon, `start` octets into its line. Returns the range of
/// the value, and whether it is in `decoded`.
fn parse_value(
    text: &[u8],
    start: usize,
    decoded: &mut Vec<u8>,
) -> Result<(std::ops::Range<usize>, bool), LdifErrorKind> {
    let behind_spaces =
        |from: usize| from + text.iter().skip(from).take_while(|octet| **octet == b' ').count();
    match text.get(1) {
        Some(b'<') => Err(LdifErrorKind::UrlValue),
        Some(b':') => {
            let encoded = text.get(behind_spaces(2)..).unwrap_or_default().trim_ascii_end();
            let decoded_start = decoded.len();
            STANDARD.decode_vec(encoded, decoded).map_err(|_| LdifErrorKind::BadBase64)?;
            Ok((decoded_start..decoded.len(), true))
        }
        _ => Ok((start + behind_spaces(1)..start + text.len(), false)),
    }
}

/// Parses `control:` with an OID, an optional criticality, and an optional value.
fn parse_control(text: &[u8], colon: usize, decoded: &mut Vec<u8>) -> Result<Line, LdifErrorKind> {
    let is_space = |octet: &u8| *octet == b' ';
    let skip_spaces = |from: usize| from + text.iter().skip(from).take_while(|octet| is_space(octet)).count();
    let word_end = |from: usize| {
        let is_inner = |octet: &&u8| !is_space(octet) && **octet != b':';
        from + text.iter().skip(from).take_while(is_inner).count()
    };
    let oid_start = skip_spaces(colon + 1);
    let oid = oid_start..word_end(oid_start);
    let is_oid_octet = |octet: &u8| octet.is_ascii_digit() || *octet == b'.';
    let oid_text = text.get(oid.clone()).unwrap_or_default();
    if oid_text.is_empty() || !oid_text.iter().all(is_oid_octet) {
        return Err(LdifErrorKind::BadControl);
    }
    let word_start = skip_spaces(oid.end);
    let mut end = word_end(word_start);
    let critical = match text.get(word_start..end).unwrap_or_default() {
        b"" => false,
        word if word.eq_ignore_ascii_case(b"true") => true,
        word if word.eq_ignore_ascii_case(b"false") => false,
        _ => return Err(LdifErrorKind::BadControl),
    };
    end = skip_spaces(end);
    let value_text = text.get(end..).unwrap_or_default();
    let has_value = !value_text.is_empty();
    let (value, is_decoded) = match value_text.first() {
        None => (0..0, false),
        Some(b':') => parse_value(value_text, end, decoded)?,
        Some(_) => return Err(LdifErrorKind::BadControl),
    };
    let kind = LineKind::Control { critical, has_value };
    Ok(Line { number: 0, kind, name: oid, value, is_decoded })
}

/// Returns true if a text is an attribute description. Active Directory's option `range=0-1499` is accepted.
fn is_description(text: &[u8]) -> bool {
    let is_plain = |text: &[u8]| text.iter().copied().all(is_description_octet);
    let Some(place) = text.iter().position(|octet| *octet == b'=') else {
        return !text.is_empty() && is_plain(text);
    };
    let (before, after) = text.split_at(place);
    let is_range = before.to_ascii_lowercase().ends_with(b";range");
    let after = after.iter().copied().skip(1).filter(|octet| *octet != b'*');
    is_range && is_plain(before) && after.into_iter().all(is_description_octet)
}

/// Returns true if an attribute description can contain this octet (RFC 4512 section 2.5). Underscores are accepted,
/// because names in the schemas of other servers contain them.
fn is_description_octet(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b';' | b'_')
}
