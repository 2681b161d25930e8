//! Writing records.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{ChangeOperation, Control};

/// Maximum length of a line in octets, without the line end.
const LINE_LEN_MAX: usize = 76;

/// Writer of records. Each method writes immediately; wrap a file in a `BufWriter`.
///
/// [`entry`](Self::entry) and the methods for changes each write one whole record and an empty line.
#[derive(Debug)]
pub struct LdifWriter<W> {
    out: W,
    /// The logical line being written, reused.
    line: Vec<u8>,
}

impl<W: Write> LdifWriter<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W) -> LdifWriter<W> {
        LdifWriter { out, line: Vec::new() }
    }

    /// Returns the underlying writer. This type buffers nothing.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes the version, which must come first in a file, and an empty line.
    ///
    /// # Errors
    /// Writing to the underlying writer failed. All methods return this error.
    pub fn version(&mut self) -> io::Result<()> {
        self.out.write_all(b"version: 1\n\n")
    }

    /// Writes a comment before a record, with one comment line for each line of `text`.
    ///
    /// # Errors
    /// Writing failed.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        for line in text.lines() {
            // Replace carriage returns, because some readers treat them as the end of a line.
            let line = line.replace('\r', " ");
            writeln!(self.out, "# {line}")?;
        }
        Ok(())
    }

    /// Writes an entry: a record without a change type.
    ///
    /// # Errors
    /// Writing failed.
    pub fn entry<'v>(
        &mut self,
        dn: &str,
        values: impl IntoIterator<Item = (&'v str, &'v [u8])>,
    ) -> io::Result<()> {
        self.attribute("dn", dn.as_bytes())?;
        self.values(values)?;
        self.end_record()
    }

    /// Writes a record that adds an entry.
    ///
    /// # Errors
    /// Writing failed.
    pub fn add<'v>(
        &mut self,
        dn: &str,
        controls: &[Control<'_>],
        values: impl IntoIterator<Item = (&'v str, &'v [u8])>,
    ) -> io::Result<()> {
        self.begin_change(dn, controls, "add")?;
        self.values(values)?;
        self.end_record()
    }

    /// Writes a record that deletes an entry.
    ///
    /// # Errors
    /// Writing failed.
    pub fn delete(&mut self, dn: &str, controls: &[Control<'_>]) -> io::Result<()> {
        self.begin_change(dn, controls, "delete")?;
        self.end_record()
    }

    /// Writes a record that modifies an entry. Each change has an operation, an attribute description and values.
    ///
    /// # Errors
    /// Writing failed.
    pub fn modify<'v, V: IntoIterator<Item = &'v [u8]>>(
        &mut self,
        dn: &str,
        controls: &[Control<'_>],
        changes: impl IntoIterator<Item = (ChangeOperation, &'v str, V)>,
    ) -> io::Result<()> {
        self.begin_change(dn, controls, "modify")?;
        for (operation, description, values) in changes {
            let keyword = match operation {
                ChangeOperation::Add => "add",
                ChangeOperation::Delete => "delete",
                ChangeOperation::Replace => "replace",
                ChangeOperation::Increment => "increment",
            };
            self.attribute(keyword, description.as_bytes())?;
            for value in values {
                self.attribute(description, value)?;
            }
            self.out.write_all(b"-\n")?;
        }
        self.end_record()
    }

    /// Writes a record that renames or moves an entry.
    ///
    /// # Errors
    /// Writing failed.
    pub fn modify_dn(
        &mut self,
        dn: &str,
        controls: &[Control<'_>],
        new_rdn: &str,
        delete_old_rdn: bool,
        new_superior: Option<&str>,
    ) -> io::Result<()> {
        self.begin_change(dn, controls, "modrdn")?;
        self.attribute("newrdn", new_rdn.as_bytes())?;
        self.attribute("deleteoldrdn", if delete_old_rdn { b"1" } else { b"0" })?;
        if let Some(new_superior) = new_superior {
            self.attribute("newsuperior", new_superior.as_bytes())?;
        }
        self.end_record()
    }

    fn begin_change(&mut self, dn: &str, controls: &[Control<'_>], change_type: &str) -> io::Result<()> {
        self.attribute("dn", dn.as_bytes())?;
        for control in controls {
            let criticality = if control.critical { " true" } else { "" };
            let name = format!("control: {}{criticality}", control.oid);
            match control.value {
                Some(value) => self.attribute(&name, value)?,
                None => writeln!(self.out, "{name}")?,
            }
        }
        self.attribute("changetype", change_type.as_bytes())
    }

    fn values<'v>(&mut self, values: impl IntoIterator<Item = (&'v str, &'v [u8])>) -> io::Result<()> {
        values.into_iter().try_for_each(|(description, value)| self.attribute(description, value))
    }

    fn end_record(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")
    }

    /// Writes `name: value` or `name:: base64`, folded.
    fn attribute(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        self.line.clear();
        put_ldif_line(&mut self.line, name, value);
        self.out.write_all(&self.line)
    }
}

/// Appends the line of one value, `name: value` or `name:: base64`, folded, with its line end. Suitable for millions of
/// lines: it allocates only space in `out`.
///
/// To write whole records, use [`LdifWriter`].
pub fn put_ldif_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if is_safe(value) {
        let separator: &[u8] = if value.is_empty() { b":" } else { b": " };
        if name.len() + separator.len() + value.len() <= LINE_LEN_MAX {
            for piece in [name.as_bytes(), separator, value] {
                out.extend_from_slice(piece);
            }
        } else {
            let mut column = 0;
            for piece in [name.as_bytes(), separator, value] {
                put_folded(out, &mut column, piece);
            }
        }
    } else {
        let mut column = 0;
        put_folded(out, &mut column, name.as_bytes());
        put_folded(out, &mut column, b":: ");
        let mut encoded = [0; BASE64_STEP / 3 * 4];
        for step in value.chunks(BASE64_STEP) {
            // The buffer has space for a whole step, so this cannot fail.
            let length = STANDARD.encode_slice(step, &mut encoded).unwrap_or(0);
            put_folded(out, &mut column, encoded.get(..length).unwrap_or_default());
        }
    }
    out.push(b'\n');
}

/// Number of octets encoded at a time. A multiple of three, so that only the last step is padded.
const BASE64_STEP: usize = 768;

/// Appends ASCII text to a line that already has `column` octets, and folds the line as needed.
fn put_folded(out: &mut Vec<u8>, column: &mut usize, mut text: &[u8]) {
    while let Some((part, rest)) = text.split_at_checked(LINE_LEN_MAX - *column)
        && !rest.is_empty()
    {
        out.extend_from_slice(part);
        out.extend_from_slice(b"\n ");
        *column = 1;
        text = rest;
    }
    out.extend_from_slice(text);
    *column += text.len();
}

/// Returns true if a value can be written without base64: it is a SAFE-STRING of RFC 2849, does not end with a space
/// (note 8 of that RFC), and has no control characters except tabs, which a terminal would interpret.
fn is_safe(value: &[u8]) -> bool {
    let starts_safe = !matches!(value.first(), Some(b' ' | b':' | b'<'));
    // The loop has no branches, so that the compiler can vectorize it.
    let has_unsafe = value.iter().fold(false, |found, &octet| found | !matches!(octet, b' '..=b'~' | b'\t'));
    starts_safe && value.last() != Some(&b' ') && !has_unsafe
}
