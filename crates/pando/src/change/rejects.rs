//! The rejects file: the changes that were not made.

use std::io;
use std::path::Path;

use ldap::Control;
use ldap::ldif::{LdifBody, LdifRecord, LdifWriter};

use crate::output::Output;

/// The rejects file, if one is requested. The file receives its name only when it is complete, and only if it contains
/// a record.
#[derive(Default)]
pub(super) struct Rejects {
    writer: Option<LdifWriter<Output>>,
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
        Ok(Rejects { writer: Some(LdifWriter::new(output)), is_empty: true })
    }

    /// Writes a comment in place of a record that cannot be read.
    pub(super) fn comment(&mut self, text: &str) -> io::Result<()> {
        self.write(|writer| writer.comment(text))
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

    fn write(&mut self, put: impl FnOnce(&mut LdifWriter<Output>) -> io::Result<()>) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if self.is_empty {
            writer.version()?;
        }
        self.is_empty = false;
        put(writer)
    }

    /// Completes the file if it contains a record.
    pub(super) fn finish(self) -> io::Result<()> {
        match self.writer {
            Some(writer) if !self.is_empty => writer.into_inner().finish(),
            _ => Ok(()),
        }
    }
}
