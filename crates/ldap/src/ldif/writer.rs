//! Writing records.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{ChangeOperation, Control};

/// Longest line written, in octets, the line end not counted.
const LINE_LEN_MAX: usize = 76;

/// Writes records. Each method writes at once; wrap a file in a `BufWriter`.
///
/// A record is one of [`entry`](Self::entry) and the change methods, which each write it whole, with the empty line
/// behind it.
#[derive(Debug)]
pub struct LdifWriter<W> {
    out: W,
    /// The logical line being written, reused.
    line: Vec<u8>,
    /// The base64 of its value, reused.
    encoded: String,
}

impl<W: Write> LdifWriter<W> {
    /// A writer to `out`.
    pub fn new(out: W) -> LdifWriter<W> {
        LdifWriter { out, line: Vec::new(), encoded: String::new() }
    }

    /// Gives back what is written to. Nothing is buffered here.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes the version, which must come first in a file, and an empty line.
    ///
    /// # Errors
    /// Those of writing, as for all methods.
    pub fn version(&mut self) -> io::Result<()> {
        self.out.write_all(b"version: 1\n\n")
    }

    /// Writes a comment before a record; each of its lines becomes one.
    ///
    /// # Errors
    /// Those of writing.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        for line in text.lines() {
            // A carriage return is the end of a line for some readers.
            let line = line.replace('\r', " ");
            writeln!(self.out, "# {line}")?;
        }
        Ok(())
    }

    /// Writes an entry: a record without a change type.
    ///
    /// # Errors
    /// Those of writing.
    pub fn entry<'v>(
        &mut self,
        dn: &str,
        values: impl IntoIterator<Item = (&'v str, &'v [u8])>,
    ) -> io::Result<()> {
        self.attribute("dn", dn.as_bytes())?;
        self.values(values)?;
        self.end_record()
    }

    /// Writes the addition of an entry.
    ///
    /// # Errors
    /// Those of writing.
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

    /// Writes the deletion of an entry.
    ///
    /// # Errors
    /// Those of writing.
    pub fn delete(&mut self, dn: &str, controls: &[Control<'_>]) -> io::Result<()> {
        self.begin_change(dn, controls, "delete")?;
        self.end_record()
    }

    /// Writes changes of an entry's attributes: operation, attribute description and values of each.
    ///
    /// # Errors
    /// Those of writing.
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

    /// Writes the renaming or move of an entry.
    ///
    /// # Errors
    /// Those of writing.
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
        self.line.extend_from_slice(name.as_bytes());
        if is_safe(value) {
            self.line.extend_from_slice(if value.is_empty() { b":" } else { b": " });
            self.line.extend_from_slice(value);
        } else {
            self.encoded.clear();
            STANDARD.encode_string(value, &mut self.encoded);
            self.line.extend_from_slice(b":: ");
            self.line.extend_from_slice(self.encoded.as_bytes());
        }
        self.write_folded()
    }

    /// Writes the line, all of it ASCII, with line ends and spaces put in.
    fn write_folded(&mut self) -> io::Result<()> {
        let (first, rest) = self.line.split_at(self.line.len().min(LINE_LEN_MAX));
        self.out.write_all(first)?;
        self.out.write_all(b"\n")?;
        for part in rest.chunks(LINE_LEN_MAX - 1) {
            self.out.write_all(b" ")?;
            self.out.write_all(part)?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Whether a value can stand as it is: SAFE-STRING of RFC 2849, and no space at the end (its note 8).
fn is_safe(value: &[u8]) -> bool {
    let starts_safe = !matches!(value.first(), Some(b' ' | b':' | b'<'));
    let is_safe_octet = |octet: &u8| octet.is_ascii() && !matches!(octet, 0 | b'\n' | b'\r');
    starts_safe && value.last() != Some(&b' ') && value.iter().all(is_safe_octet)
}
