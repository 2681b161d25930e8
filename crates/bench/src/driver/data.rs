//! The entries that requests use as keys: their count and their numbers. If the DNs cannot be derived from the numbers,
//! the driver takes DNs and other values from the template that generated the entries.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::pattern::ColumnNames;
use crate::template::{Parameters, Template, TemplateError};
use crate::workload::Data;

/// The keys of a workload's data.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyData {
    /// The first key's number.
    pub(crate) first: u64,
    /// Number of keys.
    pub(crate) count: u64,
    columns: Vec<Column>,
}

/// Values of one attribute (a column), one for each key, concatenated.
#[derive(Clone, Debug, Default)]
struct Column {
    octets: Vec<u8>,
    ends: Vec<u64>,
}

impl KeyData {
    /// Returns keys that are only numbers.
    pub(crate) fn numbers(first: u64, count: u64) -> KeyData {
        KeyData { first, count, columns: Vec::new() }
    }

    /// Returns keys with values. The keys are the entries of the template whose RDN has the attribute `data.rdn` and
    /// that have a value in each column.
    ///
    /// # Errors
    /// The template cannot be read.
    pub(crate) fn of_template(
        data: &Data,
        entries: u64,
        seed: u64,
        names: &ColumnNames,
    ) -> Result<KeyData, TemplateError> {
        let parameters = Parameters { constants: data.constants.clone(), entries: Some(entries) };
        let template = Template::read(&data.template, &parameters)?;
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let mut collector = Collector::new(&data.rdn, names);
        // Writing to the collector never fails.
        let _ = template.generate(seed, threads, &mut collector);
        collector.take_logical_line();
        collector.end_entry();
        let count = collector.columns.first().map_or(0, |column| column.ends.len() as u64);
        Ok(KeyData { first: data.first, count, columns: collector.columns })
    }

    /// Returns the value in a column for the key at `position`; empty if the data has no such value.
    pub(crate) fn value(&self, column: usize, position: u64) -> &[u8] {
        let Some(column) = self.columns.get(column) else { return &[] };
        let position = position as usize;
        let Some(end) = column.ends.get(position) else { return &[] };
        let start = position.checked_sub(1).map_or(0, |before| column.ends[before]);
        column.octets.get(start as usize..*end as usize).unwrap_or_default()
    }
}

/// A sink for LDIF that stores the values in the columns, for the entries that are keys.
struct Collector<'a> {
    rdn: String,
    names: &'a ColumnNames,
    columns: Vec<Column>,
    /// Values of the current entry.
    entry: Vec<Option<Vec<u8>>>,
    is_key: bool,
    /// The current logical line, which may be folded (RFC 2849). The next field is the current physical line, which is
    /// incomplete.
    logical: Vec<u8>,
    line: Vec<u8>,
}

impl<'a> Collector<'a> {
    fn new(rdn: &str, names: &'a ColumnNames) -> Collector<'a> {
        Collector {
            rdn: format!("{}=", rdn.to_ascii_lowercase()),
            names,
            columns: vec![Column::default(); names.0.len()],
            entry: vec![None; names.0.len()],
            is_key: false,
            logical: Vec::new(),
            line: Vec::new(),
        }
    }

    /// Processes a physical line, which may continue the previous line.
    fn take_line(&mut self) {
        if let Some(more) = self.line.strip_prefix(b" ") {
            self.logical.extend_from_slice(more);
        } else {
            self.take_logical_line();
            std::mem::swap(&mut self.logical, &mut self.line);
            if self.logical.is_empty() {
                self.end_entry();
            }
        }
        self.line.clear();
    }

    fn take_logical_line(&mut self) {
        let line = std::mem::take(&mut self.logical);
        if let Some(colon) = line.iter().position(|octet| *octet == b':') {
            self.take_value(&line[..colon], &line[colon + 1..]);
        }
        self.logical = line;
        self.logical.clear();
    }

    fn take_value(&mut self, name: &[u8], value: &[u8]) {
        let wanted = self.names.0.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let is_dn = name.eq_ignore_ascii_case(b"dn");
        if wanted.is_none() && !is_dn {
            return;
        }
        let value = match value {
            [b':', coded @ ..] => BASE64_STANDARD.decode(coded.trim_ascii()).unwrap_or_default(),
            plain => plain.trim_ascii_start().to_vec(),
        };
        if is_dn {
            let start = value.get(..self.rdn.len()).unwrap_or_default();
            self.is_key = start.eq_ignore_ascii_case(self.rdn.as_bytes());
        }
        if let Some(column) = wanted {
            self.entry[column].get_or_insert(value);
        }
    }

    /// Ends an entry. The entry is a key only if it has a value in every column.
    fn end_entry(&mut self) {
        let is_key = std::mem::take(&mut self.is_key) && self.entry.iter().all(Option::is_some);
        for (value, column) in self.entry.iter_mut().zip(&mut self.columns) {
            let value = value.take();
            if is_key && let Some(value) = value {
                column.octets.extend_from_slice(&value);
                column.ends.push(column.octets.len() as u64);
            }
        }
    }
}

impl Write for Collector<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        for piece in octets.split_inclusive(|octet| *octet == b'\n') {
            let (text, is_whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            self.line.extend_from_slice(text);
            if is_whole {
                self.take_line();
            }
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_lines_are_unfolded() {
        let names = ColumnNames(vec!["cn".to_owned(), "dn".to_owned()]);
        let mut collector = Collector::new("cn", &names);
        let ldif =
            "dn: cn=a long\n er name,o=x\ncn: a long\n er name\n\ndn: o=x\no: x\n\ndn:: Y249YixvPXg=\ncn: b";
        // The text is written in small chunks, as the threads of a generator would write it.
        ldif.as_bytes().chunks(7).for_each(|piece| collector.write_all(piece).unwrap());
        collector.write_all(b"\n").unwrap();
        collector.take_logical_line();
        collector.end_entry();
        let data = KeyData { first: 0, count: 2, columns: collector.columns };
        assert_eq!([data.value(0, 0), data.value(0, 1)], [&b"a longer name"[..], b"b"]);
        assert_eq!([data.value(1, 0), data.value(1, 1)], [&b"cn=a longer name,o=x"[..], b"cn=b,o=x"]);
    }

    #[test]
    fn columns_are_generated_from_the_template() {
        let names = ColumnNames(vec!["dn".to_owned(), "cn".to_owned(), "telephonenumber".to_owned()]);
        let data = "template = 'directorymark'\nrdn = 'cn'\ndn = '{dn}'";
        let data = KeyData::of_template(&toml::from_str(data).unwrap(), 100, 1, &names).unwrap();
        assert_eq!(data.count, 100);
        let text = |column, position| String::from_utf8_lossy(data.value(column, position)).into_owned();
        for position in [0, 50, 99] {
            let unit = position / 10 + 1;
            assert!(
                text(0, position).starts_with(&format!("cn={},ou=Unit {unit},", text(1, position))),
                "{}",
                text(0, position)
            );
            assert!(text(1, position).contains(' ') && !text(2, position).is_empty());
        }
        assert_eq!(data.value(0, 100), b"");
        assert_eq!(data.value(9, 0), b"");
    }
}
