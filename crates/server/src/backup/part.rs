//! File of a backup: its name, its heading, its content.
//!
//! A file is one Zstandard frame with a checksum. Its content begins with lines of text, for people and for the rest
//! of this module: `zstdcat FILE | head -8`. After an empty line comes a stream of rows or records
//! ([`directory::backup`]).

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use directory::backup::{self, Fingerprint, Moment};
use system::RateLimit;

use crate::backup::{BackupError, failed};
use crate::unfinished::UnfinishedFile;

/// First line of a file.
const TITLE: &str = "pando backup 1";
const ENDING: &str = ".pando";
/// Suffix of a file that is being written.
const PARTIAL: &str = ".partial";
/// Most bytes of a heading; real ones have fewer.
const HEADING_BYTES_MAX: usize = 4_096;
/// Compression level: the default of Zstandard.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// Contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All rows at a position.
    Rows,
    /// The records from one position to another.
    Changes,
}

impl Kind {
    const ALL: [(Kind, &'static str); 2] = [(Kind::Rows, "rows"), (Kind::Changes, "changes")];

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

/// Part of a backup, described by the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Number among the files of a folder.
    pub(crate) sequence: u64,
    /// Time at which its data was read, in seconds since 1970.
    pub(crate) seconds: u64,
    pub(crate) kind: Kind,
    /// Last position in the file.
    pub(crate) position: u64,
}

impl Part {
    /// Returns the name of its file. Times have the form of ISO 8601 without separators.
    pub(crate) fn file_name(&self) -> String {
        let Part { sequence, seconds, kind, position } = self;
        let mut time = directory::csn::generalized_time(*seconds);
        time.insert(8.min(time.len()), 'T');
        format!("{sequence:08}-{time}-{}-{position}{ENDING}", kind.name())
    }

    /// Parses the name of a file; returns `None` if it is not the name of a part.
    pub(crate) fn of_name(name: &str) -> Option<Part> {
        let mut words = name.strip_suffix(ENDING)?.split('-');
        let (sequence, time, kind, position) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (date, clock) = time.split_once('T')?;
        let time = directory::csn::unix_seconds(&[date, clock].concat())?;
        let part = Part {
            sequence: sequence.parse().ok()?,
            seconds: time,
            kind: Kind::named(kind)?,
            position: position.parse().ok()?,
        };
        // Each part has exactly one name: a file with another spelling is not a part.
        (part.file_name() == name).then_some(part)
    }
}

/// Returns true for the name of a file whose writing was interrupted.
pub(crate) fn is_left_over(name: &str) -> bool {
    name.strip_suffix(PARTIAL).is_some_and(|name| Part::of_name(name).is_some())
}

/// Heading of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) kind: Kind,
    /// Moment of its last record.
    pub(crate) moment: Moment,
    /// For changes: hash of the record before the first.
    pub(crate) follows: Option<Fingerprint>,
    /// For changes: position of the first record. For rows: position of the moment.
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

    /// Returns true if the file of this heading continues at the end of another.
    pub(crate) fn goes_on_from(&self, before: &Moment) -> bool {
        self.kind == Kind::Changes
            && self.moment.generation == before.generation
            && self.first == before.position.saturating_add(1)
            && self.follows == Some(before.fingerprint)
    }
}

/// Parses sixteen octets in hexadecimal.
fn sixteen(text: &str) -> Option<[u8; 16]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Content of an open file, after its heading.
pub(crate) struct Content {
    path: PathBuf,
    input: BufReader<zstd::Decoder<'static, BufReader<File>>>,
}

impl Content {
    /// Opens a file and reads its heading.
    pub(crate) fn open(path: &Path) -> Result<(Heading, Content), BackupError> {
        let file = File::open(path).map_err(failed("open", path))?;
        let decoder = zstd::Decoder::new(file).map_err(failed("read", path))?;
        let mut content = Content { path: path.to_owned(), input: BufReader::new(decoder) };
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

    /// Returns an error for damage of this file.
    pub(crate) fn damaged(&self, what: &str) -> BackupError {
        BackupError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }

    /// Returns an error of a consumer of the content.
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

    /// Returns the reader of its stream.
    pub(crate) fn input(&mut self) -> &mut impl Read {
        &mut self.input
    }
}

/// Writes a file into a folder, and reads it back. Returns its size.
pub(crate) fn write(
    folder: &Path,
    part: &Part,
    heading: &Heading,
    pace: &Pace,
    content: impl FnOnce(&mut dyn Write) -> Result<(), backup::BackupError>,
) -> Result<u64, BackupError> {
    let path = folder.join(part.file_name());
    let partial = UnfinishedFile::new(folder.join(part.file_name() + PARTIAL));
    write_partial(partial.path(), heading, pace, content)?;
    check(partial.path(), pace)?;
    partial.rename(&path).map_err(failed("rename", &path))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))?;
    Ok(path.metadata().map_err(failed("read", &path))?.len())
}

fn write_partial(
    partial: &Path,
    heading: &Heading,
    pace: &Pace,
    content: impl FnOnce(&mut dyn Write) -> Result<(), backup::BackupError>,
) -> Result<(), BackupError> {
    let failed = |error| failed("write", partial)(error);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial).map_err(failed)?;
    let mut encoder = zstd::Encoder::new(BufWriter::new(file), LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    encoder.write_all(heading.text().as_bytes()).map_err(failed)?;
    let rate_limit = pace.bytes_per_second.map(RateLimit::new);
    let paced = Paced { out: encoder, rate_limit, written: 0, is_stopping: pace.is_stopping.clone() };
    let mut paced = BufWriter::with_capacity(1 << 20, paced);
    content(&mut paced).map_err(|error| match error {
        backup::BackupError::Stream(backup::StreamError::Bytes(error)) => failed(error),
        other => other.into(),
    })?;
    let paced = paced.into_inner().map_err(|error| failed(error.into_error()))?;
    let file = paced.out.finish().and_then(|file| file.into_inner().map_err(|error| error.into_error()));
    file.and_then(|file| file.sync_all()).map_err(failed)
}

/// Reads a file to its end, and compares it with its heading, so that a backup reports at once that the disk did not
/// store the file.
pub(crate) fn check(path: &Path, pace: &Pace) -> Result<(), BackupError> {
    let (heading, mut content) = Content::open(path)?;
    let mut input = Stoppable { input: content.input(), is_stopping: pace.is_stopping.clone() };
    let found = backup::read_back(&mut input).map_err(|error| content.failed(error))?;
    let Heading { kind, moment, first, .. } = heading;
    let records = moment.position.saturating_sub(first).saturating_add(1);
    let is_whole = (found.position, found.fingerprint) == (moment.position, moment.fingerprint)
        && found.records == records
        && (found.rows > 0) == (kind == Kind::Rows);
    if is_whole { Ok(()) } else { Err(content.damaged("it has not what it says")) }
}

/// Limits on writing a file: rate and cancellation. By default there are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Most bytes a second, before compression.
    pub(crate) bytes_per_second: Option<u64>,
    /// Set if the file is not wanted any longer.
    pub(crate) is_stopping: Option<Arc<AtomicBool>>,
}

fn check_stop(is_stopping: Option<&Arc<AtomicBool>>) -> io::Result<()> {
    match is_stopping {
        Some(is_stopping) if is_stopping.load(Ordering::Relaxed) => {
            Err(io::Error::other("the server stops before it is whole"))
        }
        _ => Ok(()),
    }
}

/// Reader that ends with an error once the file is not wanted any longer.
struct Stoppable<R> {
    input: R,
    is_stopping: Option<Arc<AtomicBool>>,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        check_stop(self.is_stopping.as_ref())?;
        self.input.read(bytes)
    }
}

/// Writer with a limited rate.
struct Paced<W> {
    out: W,
    rate_limit: Option<RateLimit>,
    written: u64,
    is_stopping: Option<Arc<AtomicBool>>,
}

impl<W: Write> Write for Paced<W> {
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
    fn names_say_what_a_file_is() {
        let part = Part { sequence: 17, seconds: 1_795_616_103, kind: Kind::Changes, position: 1_310 };
        let name = part.file_name();
        assert_eq!(name, "00000017-20261125T141503Z-changes-1310.pando");
        assert_eq!(Part::of_name(&name), Some(part));
        for other in [
            "17-20261125T141503Z-changes-1310.pando",
            "00000017-20261125T141503Z-changes-1310.pando.partial",
            "00000017-20261125141503Z-changes-1310.pando",
            "00000017-20261325T141503Z-changes-1310.pando",
            "00000017-20261125T141503Z-change-1310.pando",
            "00000017-20261125T141503Z-changes-01310.pando",
            "00000017-20261125T141503Z-changes-1310-2.pando",
            "lock",
            "",
        ] {
            assert_eq!(Part::of_name(other), None, "{other}");
            assert_eq!(is_left_over(other), other.ends_with(PARTIAL), "{other}");
        }
    }

    #[test]
    fn a_heading_is_read_as_it_is_written() {
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
    fn changes_go_on_where_the_same_history_ends() {
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
