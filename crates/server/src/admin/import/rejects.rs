//! File with the records that were not imported.
//!
//! The file is LDIF. Each record has its original text. A comment before the record contains its position in the input
//! and the reason for the rejection. After an administrator has repaired the records, they can be imported or added by
//! a client. A record that is not valid LDIF is written as a comment.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use directory::import::{Refusal, RejectedRecord};

use crate::admin::import::source::Sources;
use crate::error::ServeError;

/// Maximum number of names to try for a rejects file in the data directory.
const NAMES_MAX: u32 = 10_000;

/// Maximum size of a record that is copied, in bytes. For a larger record, the file contains only the comment.
const COPIED_SIZE_MAX: usize = 64 << 20;

/// The rejects file. It is created with the first rejected record.
pub(super) struct Rejects {
    path: Option<PathBuf>,
    directory: PathBuf,
    file: Option<(PathBuf, BufWriter<File>)>,
    record: Vec<u8>,
    first_reason: Option<String>,
    is_kept: bool,
}

/// After a failed import, the file is removed, so that the command can be repeated. A failed import changes nothing.
impl Drop for Rejects {
    fn drop(&mut self) {
        if let Some((path, _)) = self.file.take().filter(|_| !self.is_kept)
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::warn!(%error, "{} could not be removed", path.display());
        }
    }
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
            is_kept: false,
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
            write_record(file, &record, rejected.refusal == Refusal::Malformed)?;
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
        let path = self.file.as_ref().map(|(path, _)| path.clone()).or_else(|| self.path.clone());
        ServeError::Rejects { path: path.unwrap_or_else(|| self.directory.join("rejects")), error }
    }

    /// Returns the position in the input and the reason of the first rejected record.
    pub(super) fn first_reason(&self) -> &str {
        self.first_reason.as_deref().unwrap_or("there is no record")
    }

    /// Flushes the file. Returns its path; `None` if it was not created.
    pub(super) fn finish(&mut self) -> Result<Option<PathBuf>, ServeError> {
        if let Some(Err(error)) = self.file.as_mut().map(|(_, file)| file.flush()) {
            return Err(self.failed(error));
        }
        Ok(self.file.as_ref().map(|(path, _)| path.clone()))
    }

    /// Drops the value without removing the file.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        if self.file.is_none() {
            let (path, file) = self.create()?;
            let mut file = BufWriter::new(file);
            file.write_all(b"version: 1\n\n")?;
            self.file = Some((path, file));
        }
        match &mut self.file {
            Some((_, file)) => Ok(file),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn create(&self) -> io::Result<(PathBuf, File)> {
        if let Some(path) = &self.path {
            return Ok((path.clone(), create_new(path)?));
        }
        for number in 1..NAMES_MAX {
            let path = self.directory.join(format!("rejects-{number}.ldif"));
            match create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => return Ok((path, file)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Creates a file that only its owner may read, because records may contain passwords.
fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
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
}
