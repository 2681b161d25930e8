//! File with the records that were not imported.
//!
//! The file is LDIF. Each record has its original text. A comment before the record contains its position in the input
//! and the reason for the rejection. After an administrator has repaired the records, they can be imported or added by
//! a client. A record that is not valid LDIF is written as a comment.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use directory::import::{Refusal, RejectedRecord};

use crate::admin::import::source::Sources;
use crate::error::ServeError;
use crate::unfinished::UnfinishedFile;

/// Maximum number of names to try for a rejects file in the data directory.
const NAMES_MAX: u32 = 10_000;

/// Maximum size of a record that is copied, in bytes. For a larger record, the file contains only the comment.
const COPIED_SIZE_MAX: usize = 64 << 20;

/// Byte order mark at the beginning of a text.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The rejects file. It is created with the first rejected record. It receives its name in [`keep`](Rejects::keep).
/// After a failed or interrupted import, there is no file with this name, so that the command can be repeated. Such an
/// import changes nothing.
pub(super) struct Rejects {
    path: Option<PathBuf>,
    directory: PathBuf,
    file: Option<NewFile>,
    record: Vec<u8>,
    first_reason: Option<String>,
}

/// The rejects file while it has a temporary name.
struct NewFile {
    /// The final path.
    path: PathBuf,
    temporary: UnfinishedFile,
    writer: BufWriter<File>,
}

impl Rejects {
    /// Creates a rejects file with this path. No file with this path may exist. Without a path, the rejects file is a
    /// new file in `directory`.
    pub(super) fn new(path: Option<PathBuf>, directory: &Path) -> Result<Rejects, ServeError> {
        if let Some(path) = path.as_ref().filter(|path| path.exists()) {
            return Err(ServeError::RejectsExist { path: path.clone() });
        }
        Ok(Rejects {
            path,
            directory: directory.to_owned(),
            file: None,
            record: Vec::new(),
            first_reason: None,
        })
    }

    /// Writes a rejected record.
    pub(super) fn add(&mut self, sources: &Sources, rejected: &RejectedRecord) -> Result<(), ServeError> {
        let place = &rejected.place;
        let source = sources.get(place.source)?;
        let reason = rejected.reason.replace(['\n', '\r'], " ");
        let reason = format!("{}, line {}: {reason}", source.name, place.line);
        let copied = usize::try_from(place.length).ok().filter(|length| *length <= COPIED_SIZE_MAX);
        let mut record = std::mem::take(&mut self.record);
        record.resize(copied.unwrap_or(0), 0);
        source.read_at(place.offset, &mut record)?;
        let write = |file: &mut BufWriter<File>| {
            writeln!(file, "# {reason}")?;
            let text = record.strip_prefix(BOM).filter(|_| place.offset == 0).unwrap_or(&record);
            write_record(file, text, rejected.refusal == Refusal::Malformed)?;
            if copied.is_none() {
                writeln!(file, "# The record is not copied here: it has {} bytes.", place.length)?;
            }
            file.write_all(b"\n")
        };
        self.file().and_then(write).map_err(|error| self.failed(error))?;
        self.record = record;
        self.first_reason.get_or_insert(reason);
        Ok(())
    }

    fn failed(&self, error: io::Error) -> ServeError {
        let path = self.file.as_ref().map(|file| file.path.clone()).or_else(|| self.path.clone());
        ServeError::Rejects { path: path.unwrap_or_else(|| self.directory.join("rejects")), error }
    }

    /// Returns the position in the input and the reason of the first rejected record.
    pub(super) fn first_reason(&self) -> &str {
        self.first_reason.as_deref().unwrap_or("there is no record")
    }

    /// Flushes the file. Returns its final path; `None` if it was not created.
    pub(super) fn finish(&mut self) -> Result<Option<PathBuf>, ServeError> {
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.writer.flush()) {
            return Err(self.failed(error));
        }
        Ok(self.file.as_ref().map(|file| file.path.clone()))
    }

    /// Gives the file its name.
    pub(super) fn keep(mut self) -> Result<(), ServeError> {
        let Some(NewFile { path, temporary, .. }) = self.file.take() else { return Ok(()) };
        temporary.rename(&path).map_err(|error| ServeError::Rejects { path, error })
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        if self.file.is_none() {
            let path = self.new_path()?;
            let (temporary, file) = UnfinishedFile::create(&path)?;
            let mut writer = BufWriter::new(file);
            writer.write_all(b"version: 1\n\n")?;
            self.file = Some(NewFile { path, temporary, writer });
        }
        match &mut self.file {
            Some(file) => Ok(&mut file.writer),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the final path of the file. No file with this path exists.
    fn new_path(&self) -> io::Result<PathBuf> {
        let numbered = |number| self.directory.join(format!("rejects-{number}.ldif"));
        let new = self.path.clone().or_else(|| (1..NAMES_MAX).map(numbered).find(|path| !path.exists()));
        new.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }
}

/// Writes the lines of a record. Omits empty lines, and the version line, because the file already begins with a
/// version line.
fn write_record(file: &mut impl Write, record: &[u8], as_comment: bool) -> io::Result<()> {
    let mut has_started = false;
    for line in record.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_version = line.get(..8).is_some_and(|name| name.eq_ignore_ascii_case(b"version:"));
        if line.is_empty() || !has_started && is_version {
            continue;
        }
        has_started |= line.first() != Some(&b'#');
        if as_comment {
            file.write_all(b"# ")?;
        }
        file.write_all(line)?;
        file.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_copied_without_version_and_empty_lines() {
        let check = |record: &str, as_comment, expected: &str| {
            let mut out = Vec::new();
            write_record(&mut out, record.as_bytes(), as_comment).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check("\nversion: 1\r\ndn: a\r\nb: c\r\n d\r\n\r\n", false, "dn: a\nb: c\n d\n");
        check("dn: a\nb c\n\n", true, "# dn: a\n# b c\n");
        check("# hello\ndn: a\nversion: 2\n", false, "# hello\ndn: a\nversion: 2\n");
    }

    /// Regression test: an interrupted import left the rejects file under its name, so that the repeated command was
    /// refused; and the byte order mark of a text was copied to the middle of the file.
    #[test]
    fn the_file_has_its_name_only_after_the_import() {
        use directory::import::RecordPlace;

        use crate::import::{Input, InputData};

        let folder = std::env::temp_dir().join(format!("pando-import-rejects-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (text, path) = (folder.join("text.ldif"), folder.join("rejects.ldif"));
        std::fs::write(&text, "\u{feff}dn: a\nb: c\n").unwrap();
        let data = InputData::File(File::open(&text).unwrap());
        let sources = Sources::new(vec![Input { name: "text".to_owned(), data }], &folder).unwrap();
        let place = RecordPlace { source: 0, offset: 0, length: 14, line: 1 };
        let rejected = RejectedRecord { place, refusal: Refusal::Bad, reason: "bad".to_owned() };
        let rejects = || {
            let mut rejects = Rejects::new(Some(path.clone()), &folder).unwrap();
            rejects.add(&sources, &rejected).unwrap();
            assert_eq!(rejects.finish().unwrap().as_ref(), Some(&path));
            assert!(!path.exists());
            rejects
        };
        drop(rejects());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        rejects().keep().unwrap();
        let expected = "version: 1\n\n# text, line 1: bad\ndn: a\nb: c\n\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
