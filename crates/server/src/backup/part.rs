//! A backup file: its heading and its content.
//!
//! A file is one Zstandard frame with a checksum. The frame begins with lines of text. This module needs them, and
//! people can read them with `zstdcat FILE | head -8`. An empty line follows, and then a stream of rows or records
//! ([`directory::backup`]). An encrypted file is an age file whose content is the frame
//! ([`encryption`](crate::backup::encryption)).

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use directory::backup::{self, Fingerprint, Moment};
use sha2::{Digest, Sha256};
use system::RateLimit;

use crate::backup::encryption::{BackupIdentities, Label, decrypt, encrypt};
use crate::backup::name::{Kind, Part};
use crate::backup::storage::{NewFile, Storage};
use crate::backup::{BackupError, check_stop, failed};
use crate::config::backup::BackupRecipient;

/// The first line of a backup file.
const TITLE: &str = "pando backup 1";
/// Maximum size of a heading in bytes. All headings that the server writes are smaller.
const HEADING_BYTES_MAX: usize = 4_096;
/// Maximum number of bytes that are read from a checksum file. All checksum files that the server writes are smaller.
const CHECKSUM_BYTES_MAX: u64 = 1_024;
/// Compression level of Zstandard. It is the default of the library.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// The lines of text at the beginning of a backup file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) kind: Kind,
    /// Generation, position, time and last record of the data at the end of the file.
    pub(crate) moment: Moment,
    /// Hash of the record before the first record in the file; `None` for a file with rows.
    pub(crate) follows: Option<Fingerprint>,
    /// Position of the first record in the file. For a file with rows, the position of `moment`.
    pub(crate) first: u64,
}

impl Heading {
    fn text(&self) -> String {
        let Heading { kind, moment, follows, first } = self;
        let Moment { generation, position, micros, fingerprint } = moment;
        let follows = follows.map_or_else(|| "nothing".to_owned(), |hash| HEXLOWER.encode(&hash));
        format!(
            "{TITLE}\nkind: {}\ngeneration: {}\nfirst: {first}\nposition: {position}\nmicroseconds: {micros}\n\
             hash: {}\nfollows: {follows}\n\n",
            kind.name(),
            HEXLOWER.encode(generation),
            HEXLOWER.encode(fingerprint),
        )
    }

    fn parse(text: &str) -> Option<Heading> {
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(": ");
        let (kind, generation) = (Kind::named(value("kind")?)?, sixteen(value("generation")?)?);
        let first = value("first")?.parse().ok()?;
        let position = value("position")?.parse().ok()?;
        let micros = value("microseconds")?.parse().ok()?;
        let fingerprint = sixteen(value("hash")?)?;
        let follows = match value("follows")? {
            "nothing" => None,
            hash => Some(sixteen(hash)?),
        };
        let moment = Moment { generation, position, micros, fingerprint };
        Some(Heading { kind, moment, follows, first })
    }

    /// Returns true if the file with this heading contains the changes that directly follow `before`.
    pub(crate) fn goes_on_from(&self, before: &Moment) -> bool {
        self.kind == Kind::Changes
            && self.moment.generation == before.generation
            && self.first == before.position.saturating_add(1)
            && self.follows == Some(before.fingerprint)
    }
}

/// Parses sixteen octets from hexadecimal digits.
fn sixteen(text: &str) -> Option<[u8; 16]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// An open backup file, positioned after its heading.
pub(crate) struct Content {
    path: PathBuf,
    input: BufReader<zstd::Decoder<'static, BufReader<Box<dyn Read>>>>,
}

impl Content {
    /// Opens a backup file and reads its heading.
    pub(crate) fn open(
        storage: &dyn Storage,
        part: &Part,
        identities: &BackupIdentities,
    ) -> Result<(Heading, Content), BackupError> {
        let name = part.file_name();
        let (file, path) = (storage.open(&name)?, storage.path(&name));
        let file = if part.is_encrypted { decrypt(file, identities, &path)? } else { file };
        Content::of(file, path)
    }

    /// Reads the heading of a file that is already open and decrypted.
    fn of(file: Box<dyn Read>, path: PathBuf) -> Result<(Heading, Content), BackupError> {
        let decoder = zstd::Decoder::new(file).map_err(failed("read", &path))?;
        let mut content = Content { path, input: BufReader::new(decoder) };
        let heading = content.heading()?;
        Ok((heading, content))
    }

    fn heading(&mut self) -> Result<Heading, BackupError> {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"\n\n") && text.len() < HEADING_BYTES_MAX {
            if self.input.read_exact(&mut byte).is_err() {
                break;
            }
            text.extend_from_slice(&byte);
        }
        let text = String::from_utf8(text).ok();
        let lines = text.as_ref().and_then(|text| text.strip_prefix(TITLE)?.strip_prefix('\n'));
        let heading = lines.and_then(Heading::parse);
        heading.ok_or_else(|| self.damaged("it is no file of a backup, or one of a later version"))
    }

    /// Returns an error about damage in this file. `what` describes the damage.
    pub(crate) fn damaged(&self, what: &str) -> BackupError {
        BackupError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }

    /// Converts an error that occurred while the content of this file was processed.
    pub(crate) fn failed(&self, error: backup::BackupError) -> BackupError {
        match error {
            backup::BackupError::Stream(directory::backup::StreamError::Bytes(error)) => {
                self.damaged(&format!("it is damaged, or cannot be read: {error}"))
            }
            backup::BackupError::Stream(error @ directory::backup::StreamError::Damaged(_)) => {
                self.damaged(&error.to_string())
            }
            other => other.into(),
        }
    }

    /// Returns a reader of the stream of rows or records.
    pub(crate) fn input(&mut self) -> &mut impl Read {
        &mut self.input
    }
}

/// Writes a backup file and reads it back. Returns its size in bytes.
pub(crate) fn write(
    storage: &dyn Storage,
    part: &Part,
    heading: &Heading,
    recipients: &[BackupRecipient],
    pace: &Pace,
    content: impl FnOnce(&mut dyn Write) -> Result<(), backup::BackupError>,
) -> Result<u64, BackupError> {
    let name = part.file_name();
    let path = storage.path(&name);
    let out = CountedFile { out: BufWriter::new(storage.create(&name)?), bytes: 0, hash: None };
    if !part.is_encrypted {
        let out = write_content(out, &path, heading, pace, content)?;
        let bytes = out.bytes;
        out.written(&path)?.finish(&mut |stored| check_content(Content::of(stored, path.clone())?, pace))?;
        return Ok(bytes);
    }
    let out = CountedFile { hash: Some(Sha256::new()), ..out };
    let label = Label::new(&heading.moment, recipients);
    let out = encrypt(out, recipients, &label).map_err(failed("write", &path))?;
    let out = write_content(out, &path, heading, pace, content)?.finish();
    let mut out = out.map_err(failed("write", &path))?;
    let (bytes, hash) = (out.bytes, out.hash.take().unwrap_or_default());
    // The checksum file is stored first. Therefore every encrypted file with its final name has a checksum file.
    let checksum = checksum_text(hash, &name);
    storage.set_small(&part.checksum_name(), checksum.as_bytes())?;
    out.written(&path)?.finish(&mut |stored| check_sum(stored, &name, &path, checksum.as_bytes(), pace))?;
    Ok(bytes)
}

/// Writes the heading and the content of a new file to `out`.
fn write_content<W: Write>(
    out: W,
    path: &Path,
    heading: &Heading,
    pace: &Pace,
    content: impl FnOnce(&mut dyn Write) -> Result<(), backup::BackupError>,
) -> Result<W, BackupError> {
    let failed = |error| failed("write", path)(error);
    let mut encoder = zstd::Encoder::new(out, LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    encoder.write_all(heading.text().as_bytes()).map_err(failed)?;
    let rate_limit = pace.bytes_per_second.map(RateLimit::new);
    let paced = PacedWriter { out: encoder, rate_limit, written: 0, is_stopping: pace.is_stopping.clone() };
    let mut paced = BufWriter::with_capacity(1 << 20, paced);
    content(&mut paced).map_err(|error| match error {
        backup::BackupError::Stream(backup::StreamError::Bytes(error)) => failed(error),
        other => other.into(),
    })?;
    let paced = paced.into_inner().map_err(|error| failed(error.into_error()))?;
    paced.out.finish().map_err(failed)
}

/// A new file, with the number of bytes written to it. If the file is encrypted, the hash of these bytes is computed
/// too.
struct CountedFile {
    out: BufWriter<Box<dyn NewFile>>,
    bytes: u64,
    hash: Option<Sha256>,
}

impl CountedFile {
    /// Flushes the buffer and returns the file, which the caller must finish.
    fn written(self, path: &Path) -> Result<Box<dyn NewFile>, BackupError> {
        self.out.into_inner().map_err(|error| failed("write", path)(error.into_error()))
    }
}

impl Write for CountedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        if let (Some(hash), Some(bytes)) = (&mut self.hash, bytes.get(..written)) {
            hash.update(bytes);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the content of a checksum file, in the format of `sha256sum`.
fn checksum_text(hash: Sha256, name: &str) -> String {
    format!("{}  {name}\n", HEXLOWER.encode(&hash.finalize()))
}

/// Reads an encrypted file to its end and compares its hash with `checksum`.
fn check_sum(
    file: Box<dyn Read>,
    name: &str,
    path: &Path,
    checksum: &[u8],
    pace: &Pace,
) -> Result<(), BackupError> {
    let mut file = BufReader::new(StoppableReader { input: file, is_stopping: pace.is_stopping.clone() });
    let mut hash = Sha256::new();
    loop {
        let bytes = file.fill_buf().map_err(|error| BackupError::Damaged {
            path: path.to_owned(),
            what: format!("it cannot be read: {error}"),
        })?;
        if bytes.is_empty() {
            break;
        }
        hash.update(bytes);
        let count = bytes.len();
        file.consume(count);
    }
    if checksum_text(hash, name).as_bytes() == checksum {
        return Ok(());
    }
    let what = "it is damaged: it has another checksum".to_owned();
    Err(BackupError::Damaged { path: path.to_owned(), what })
}

/// Reads a file to its end and compares its content with its heading. An encrypted file is compared with its checksum
/// if there are no identities. Without this check, only a restore would detect that a file was not stored correctly.
pub(crate) fn check(
    storage: &dyn Storage,
    part: &Part,
    identities: &BackupIdentities,
    pace: &Pace,
) -> Result<(), BackupError> {
    if !part.is_encrypted || !identities.is_empty() {
        return check_content(Content::open(storage, part, identities)?, pace);
    }
    let (name, path) = (part.file_name(), storage.path(&part.file_name()));
    let mut checksum = Vec::new();
    let stored_at = part.checksum_name();
    match storage.open(&stored_at) {
        Ok(file) => file.take(CHECKSUM_BYTES_MAX).read_to_end(&mut checksum),
        Err(BackupError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            let what =
                format!("its checksum, {stored_at}, is missing: only an identity shows whether it is whole");
            return Err(BackupError::Damaged { path, what });
        }
        Err(error) => return Err(error),
    }
    .map_err(failed("read", &storage.path(&stored_at)))?;
    check_sum(storage.open(&name)?, &name, &path, &checksum, pace)
}

fn check_content((heading, mut content): (Heading, Content), pace: &Pace) -> Result<(), BackupError> {
    let mut input = StoppableReader { input: content.input(), is_stopping: pace.is_stopping.clone() };
    let found = backup::read_back(&mut input).map_err(|error| content.failed(error))?;
    let Heading { kind, moment, first, .. } = heading;
    let records = moment.position.saturating_sub(first).saturating_add(1);
    let is_whole = (found.position, found.fingerprint) == (moment.position, moment.fingerprint)
        && found.records == records
        && (found.rows > 0) == (kind == Kind::Rows);
    if is_whole { Ok(()) } else { Err(content.damaged("its content does not match its heading")) }
}

/// Limits on the writing of a file. By default there is no limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Maximum rate in bytes per second, measured before compression.
    pub(crate) bytes_per_second: Option<u64>,
    /// If set to true, the writing is cancelled.
    pub(crate) is_stopping: Option<Arc<AtomicBool>>,
}

/// A reader that fails after the writing was cancelled.
struct StoppableReader<R> {
    input: R,
    is_stopping: Option<Arc<AtomicBool>>,
}

impl<R: Read> Read for StoppableReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        check_stop(self.is_stopping.as_ref())?;
        self.input.read(bytes)
    }
}

/// A writer with a limited rate. It fails after the writing was cancelled.
struct PacedWriter<W> {
    out: W,
    rate_limit: Option<RateLimit>,
    written: u64,
    is_stopping: Option<Arc<AtomicBool>>,
}

impl<W: Write> Write for PacedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_stop(self.is_stopping.as_ref())?;
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.wait(self.written);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_decodes_as_encoded() {
        let moment = Moment { generation: [1; 16], position: 9, micros: 7, fingerprint: [255; 16] };
        for (kind, follows, first) in [(Kind::Rows, None, 9), (Kind::Changes, Some([0; 16]), 4)] {
            let heading = Heading { kind, moment, follows, first };
            let text = heading.text();
            let behind_title = text.strip_prefix("pando backup 1\n").unwrap();
            assert_eq!(Heading::parse(behind_title), Some(heading));
            for missing in 0..7 {
                let mut lines: Vec<_> = behind_title.lines().collect();
                lines.remove(missing);
                assert_eq!(Heading::parse(&lines.join("\n")), None, "without line {missing}");
            }
        }
    }

    #[test]
    fn changes_continue_only_the_same_history() {
        let before = Moment { generation: [1; 16], position: 9, micros: 7, fingerprint: [2; 16] };
        let after = Moment { position: 12, fingerprint: [3; 16], ..before };
        let heading = Heading { kind: Kind::Changes, moment: after, follows: Some([2; 16]), first: 10 };
        assert!(heading.goes_on_from(&before));
        for other in [
            Moment { generation: [9; 16], ..before },
            Moment { position: 8, ..before },
            Moment { position: 10, ..before },
            Moment { fingerprint: [9; 16], ..before },
        ] {
            assert!(!heading.goes_on_from(&other), "{other:?}");
        }
        assert!(!Heading { kind: Kind::Rows, ..heading }.goes_on_from(&before));
    }
}
