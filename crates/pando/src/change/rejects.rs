//! The rejects file: the changes that were not made, and records that are not LDIF as comments.

use std::io::{self, Write as _};
use std::path::Path;

use ldap::Control;
use ldap::ldif::{LdifBody, LdifRecord, LdifWriter};

use crate::output::Output;

/// The rejects file, if one is requested. The file receives its name with the first record. An interrupted command
/// leaves the records that it has written, because the changes around them were made.
#[derive(Default)]
pub(super) struct Rejects {
    output: Option<Output>,
    is_empty: bool,
}

impl Rejects {
    /// Begins the file under a temporary name.
    ///
    /// # Errors
    /// A message to print, if the file exists or cannot be written.
    pub(super) fn create(path: &Path) -> Result<Rejects, String> {
        if path.is_file() {
            return Err(format!("{} exists; choose another file for rejects", path.display()));
        }
        let output = Output::create(Some(path), None);
        let output = output.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Rejects { output: Some(output), is_empty: true })
    }

    /// Writes the reason, and the lines of a record that is not LDIF, as comments.
    pub(super) fn malformed<'l>(
        &mut self,
        reason: &str,
        mut lines: impl Iterator<Item = &'l [u8]>,
    ) -> io::Result<()> {
        self.write(|writer| {
            writer.comment(reason)?;
            lines.try_for_each(|line| writer.comment(&String::from_utf8_lossy(line)))
        })
    }

    /// Writes the reason, if there is one, as a comment, and then the record as it was read.
    pub(super) fn record(&mut self, record: &LdifRecord<'_>, reason: Option<&str>) -> io::Result<()> {
        let controls: Vec<Control<'_>> = record.controls.iter().collect();
        self.write(|writer| {
            reason.map_or(Ok(()), |reason| writer.comment(reason))?;
            match record.body {
                LdifBody::Entry(values) | LdifBody::Add(values) => {
                    let values = values.iter().map(|line| (line.description, line.value));
                    writer.add(record.dn, &controls, values)
                }
                LdifBody::Delete => writer.delete(record.dn, &controls),
                LdifBody::Modify(modifications) => {
                    let changes = modifications.iter().map(|part| {
                        (part.operation, part.description, part.values.iter().map(|line| line.value))
                    });
                    writer.modify(record.dn, &controls, changes)
                }
                LdifBody::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
                    writer.modify_dn(record.dn, &controls, new_rdn, delete_old_rdn, new_superior)
                }
            }
        })
    }

    /// Writes one record in one piece, so that the file of an interrupted command ends with a whole record.
    fn write(&mut self, put: impl FnOnce(&mut LdifWriter<Vec<u8>>) -> io::Result<()>) -> io::Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let mut writer = LdifWriter::new(Vec::new());
        if self.is_empty {
            writer.version()?;
        }
        put(&mut writer)?;
        let mut text = writer.into_inner();
        if !text.ends_with(b"\n\n") {
            text.push(b'\n');
        }
        output.write_all(&text)?;
        self.is_empty = false;
        output.name_early()
    }

    /// Completes the file if it contains a record.
    pub(super) fn finish(self) -> io::Result<()> {
        match self.output {
            Some(output) if !self.is_empty => output.finish(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: an interrupted command removed its rejects, although the changes around them were made.
    #[test]
    fn the_file_has_its_name_from_the_first_record() {
        let path = std::env::temp_dir().join(format!("pando-rejects-{}", std::process::id()));
        let mut rejects = Rejects::create(&path).unwrap();
        assert!(!path.exists());
        rejects.malformed("a:1: bad", [&b"dn: a"[..], b"x"].into_iter()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "version: 1\n\n# a:1: bad\n# dn: a\n# x\n\n");
        rejects.finish().unwrap();
        std::fs::remove_file(&path).unwrap();
        drop(Rejects::create(&path).unwrap());
        assert!(!path.exists());
    }
}
