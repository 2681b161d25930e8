//! Output forms of search results. Each entry is printed when it arrives.

use std::io::{self, Write};

use data_encoding::BASE64;
use ldap::SearchEntry;
use ldap::ldif::put_ldif_line;
use serde_json::{Map, Value, json};

use crate::output::Output;
use crate::table::{Table, printable};

/// Number of octets of text that are gathered before they are written.
const BUFFER_SIZE: usize = 64 << 10;

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Ldif,
    Json,
    Table,
}

/// Output of a search.
pub(crate) struct Results {
    form: Form,
    attributes: Vec<String>,
    table: Table,
    text: Vec<u8>,
    output: Output,
    entries: u64,
}

impl Results {
    pub(crate) fn new(form: Form, attributes: &[String]) -> io::Result<Results> {
        let start: &[u8] = match form {
            Form::Ldif => b"version: 1\n\n",
            Form::Json | Form::Table => b"",
        };
        Ok(Results {
            form,
            attributes: attributes.to_vec(),
            table: Table::new(attributes.iter().map(String::as_str).chain(["dn"])),
            text: start.to_vec(),
            output: Output::create(None, None)?,
            entries: 0,
        })
    }

    /// Returns the number of entries received so far.
    pub(crate) fn entry_count(&self) -> u64 {
        self.entries
    }

    pub(crate) fn entry(&mut self, entry: &SearchEntry<'_>) -> io::Result<()> {
        match self.form {
            Form::Ldif => put_ldif(&mut self.text, entry),
            Form::Json => {
                self.text.extend_from_slice(json_of(entry).to_string().as_bytes());
                self.text.push(b'\n');
            }
            Form::Table => {
                let mut cells: Vec<String> = self.attributes.iter().map(|name| cell(entry, name)).collect();
                cells.push(entry.object_name.to_owned());
                self.table.row(cells, &mut self.text);
            }
        }
        self.entries += 1;
        if self.text.len() >= BUFFER_SIZE { self.flush() } else { Ok(()) }
    }

    /// Reports a search result reference, which contains URLs of other servers that have a part of the results.
    pub(crate) fn reference(&mut self, urls: &[&str]) -> io::Result<()> {
        match self.form {
            Form::Ldif => {
                urls.iter().try_for_each(|url| writeln!(self.text, "# refers to {}\n", printable(url)))
            }
            Form::Json | Form::Table => {
                eprintln!("pando: more entries may be at {}", urls.join(" "));
                Ok(())
            }
        }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        let table = std::mem::replace(&mut self.table, Table::new([""; 0]));
        table.finish(&mut self.text);
        self.flush()?;
        self.output.finish()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.text)?;
        self.text.clear();
        Ok(())
    }
}

fn put_ldif(text: &mut Vec<u8>, entry: &SearchEntry<'_>) {
    put_ldif_line(text, "dn", entry.object_name.as_bytes());
    for attribute in entry.attributes.iter() {
        attribute.values.iter().for_each(|value| put_ldif_line(text, attribute.description, value));
    }
    text.push(b'\n');
}

/// Returns an entry as `{"dn": ..., "attributes": {NAME: [VALUE, ...], ...}}`. A value that is not text is
/// `{"base64": ...}`.
fn json_of(entry: &SearchEntry<'_>) -> Value {
    let attributes: Map<String, Value> = entry
        .attributes
        .iter()
        .map(|attribute| {
            (attribute.description.to_owned(), attribute.values.iter().map(json_value).collect())
        })
        .collect();
    json!({ "dn": entry.object_name, "attributes": attributes })
}

/// Returns a value as text, or as `{"base64": ...}`.
pub(crate) fn json_value(value: &[u8]) -> Value {
    match std::str::from_utf8(value) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "base64": BASE64.encode(value) }),
    }
}

/// Returns the text of a table cell: the values of an attribute with any options, such as languages.
fn cell(entry: &SearchEntry<'_>, name: &str) -> String {
    let is_wanted = |description: &str| {
        let base = description.split(';').next().unwrap_or_default();
        description.eq_ignore_ascii_case(name) || base.eq_ignore_ascii_case(name)
    };
    let attributes = entry.attributes.iter().filter(|attribute| is_wanted(attribute.description));
    let values: Vec<String> = attributes.flat_map(|attribute| attribute.values.iter()).map(text_of).collect();
    values.join("; ")
}

/// Returns a value as text. If it is not text, returns its size.
pub(crate) fn text_of(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("({} octets)", value.len()),
    }
}
