//! Difference between the entries of two LDIF texts. The difference consists of change records that turn the first text
//! into the second.
//!
//! Names and values are compared by the schema's matching rules, which may ignore differences in case or spaces.
//! Attributes that only the server writes (such as entryUUID and createTimestamp) are excluded, because clients cannot
//! change them. A rename appears as a deletion and an addition.
//!
//! Both texts are first sorted by name, on disk if memory is not enough. The comparison therefore needs memory only for
//! the sorters and two entries. Additions and modifications come first, superiors before their subordinates. Deletions
//! follow, subordinates before their superiors.

use std::io::{self, BufRead, Write};
use std::path::Path;

use ldap::ChangeOperation;
use ldap::ldif::{LdifBody, LdifError, LdifReader, LdifWriter};
use schema::Schema;
use store::{Sorter, StoreError};

use super::sorted_entries::{Compared, ComparedAttribute, EntryFault, EntrySorter, SortedEntries};

/// Maximum size of a record in a text, in bytes.
const RECORD_SIZE_MAX: usize = 4 << 30;

/// Counts of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffSummary {
    /// Number of entries that only the second text has.
    pub added: u64,
    /// Number of entries that both texts have, with different values.
    pub modified: u64,
    /// Number of entries that only the first text has.
    pub deleted: u64,
    /// Number of entries that both texts have, with the same values.
    pub same: u64,
}

/// Error of a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A text is not LDIF.
    #[error("{text}, {error}")]
    Ldif {
        /// Name of the text.
        text: &'static str,
        /// The error. It contains the number of the line.
        error: LdifError,
    },
    /// A record cannot be compared.
    #[error("{text}, line {line}: {what}")]
    Record {
        /// Name of the text.
        text: &'static str,
        /// Line of the record.
        line: u64,
        /// Description of the fault.
        what: String,
    },
    /// The texts cannot be sorted.
    #[error(transparent)]
    Sort(#[from] StoreError),
    /// The changes cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

type Result<T> = std::result::Result<T, DiffError>;

/// Writes the changes that turn the entries of `old` into the entries of `new`.
///
/// `scratch` is a directory for temporary files. Sorting uses about `memory_bytes` of memory.
///
/// # Errors
/// A text is not LDIF, or has change records, two entries with the same name, or names that the schema cannot compare;
/// or the disk failed.
pub fn diff(
    schema: &Schema,
    old: impl BufRead,
    new: impl BufRead,
    scratch: (&Path, usize),
    out: &mut dyn Write,
) -> Result<DiffSummary> {
    let (folder, memory_bytes) = scratch;
    let compared = Compared::user(schema);
    let sorter = || EntrySorter::new(schema, folder, memory_bytes / 2);
    let mut old = sort(old, FIRST, sorter())?;
    let mut new = sort(new, SECOND, sorter())?;
    let mut deletions = Sorter::new(folder, memory_bytes / 8);
    let mut writer = LdifWriter::new(out);
    writer.version()?;
    let mut summary = DiffSummary::default();
    while !(old.is_at_end && new.is_at_end) {
        check_name(&old, FIRST)?;
        check_name(&new, SECOND)?;
        match old.order(&new) {
            std::cmp::Ordering::Less => {
                // Descending keys reverse the order of the deletions.
                deletions.push(&(u64::MAX - summary.deleted).to_be_bytes(), old.dn().as_bytes())?;
                summary.deleted += 1;
                old.advance()?;
            }
            std::cmp::Ordering::Greater => {
                add(&compared, &new, &mut writer)?;
                summary.added += 1;
                new.advance()?;
            }
            std::cmp::Ordering::Equal => {
                if modify(&compared, &old, &new, &mut writer)? {
                    summary.modified += 1;
                } else {
                    summary.same += 1;
                }
                old.advance()?;
                new.advance()?;
            }
        }
    }
    let mut deletions = deletions.finish()?;
    while let Some((_, dn)) = deletions.next()? {
        writer.delete(std::str::from_utf8(dn).unwrap_or_default(), &[])?;
    }
    Ok(summary)
}

const FIRST: &str = "the first file";
const SECOND: &str = "the second file";

/// Sorts the entries of a text by their names.
fn sort(input: impl BufRead, text: &'static str, mut sorter: EntrySorter<'_>) -> Result<SortedEntries> {
    let mut reader = LdifReader::with_record_size_max(input, RECORD_SIZE_MAX);
    while let Some(record) = reader.next_record().map_err(|error| DiffError::Ldif { text, error })? {
        let bad = |what: String| DiffError::Record { text, line: record.line, what };
        let LdifBody::Entry(values) = record.body else {
            return Err(bad("this is a change record; only entries can be compared".to_owned()));
        };
        let values = values.iter().map(|line| (line.description, line.value));
        sorter.push(record.line, record.dn, values).map_err(|fault| match fault {
            EntryFault::Name(what) => bad(what),
            EntryFault::Sort(error) => error.into(),
        })?;
    }
    Ok(sorter.finish()?)
}

/// Checks that the current entry does not have the name of the previous entry.
fn check_name(entries: &SortedEntries, text: &'static str) -> Result<()> {
    if entries.is_at_end || !entries.is_repeated {
        return Ok(());
    }
    let what = "another entry has the same name".to_owned();
    Err(DiffError::Record { text, line: entries.number(), what })
}

fn add(compared: &Compared<'_>, new: &SortedEntries, writer: &mut LdifWriter<&mut dyn Write>) -> Result<()> {
    let lines = new.lines().filter(|(description, _)| compared.name(description).is_some());
    Ok(writer.add(new.dn(), &[], lines)?)
}

type Change<'e> = (ChangeOperation, &'e str, Vec<&'e [u8]>);

/// Writes the changes of one entry. Returns false if there are no changes.
fn modify(
    compared: &Compared<'_>,
    old: &SortedEntries,
    new: &SortedEntries,
    writer: &mut LdifWriter<&mut dyn Write>,
) -> Result<bool> {
    if old.lines().eq(new.lines()) {
        return Ok(false);
    }
    let (before, after) = (old.attributes(compared), new.attributes(compared));
    let mut changes: Vec<Change<'_>> = Vec::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changes.push((ChangeOperation::Delete, name, Vec::new()));
    }
    for (name, attribute) in &after {
        match before.get(name) {
            None => changes.push((ChangeOperation::Add, name, attribute.values.clone())),
            Some(before) => change_values(compared, name, before, attribute, &mut changes),
        }
    }
    if changes.is_empty() {
        return Ok(false);
    }
    writer.modify(old.dn(), &[], changes)?;
    Ok(true)
}

fn change_values<'e>(
    compared: &Compared<'_>,
    name: &'e str,
    before: &ComparedAttribute<'e>,
    after: &ComparedAttribute<'e>,
    changes: &mut Vec<Change<'e>>,
) {
    let (removed, added) = (before.without(compared, after), after.without(compared, before));
    if removed.is_empty() && added.is_empty() {
        return;
    }
    // Without an equality rule, a modify cannot delete single values (RFC 4511 section 4.6). The modify then replaces
    // all values. The modify does the same for a single-valued attribute, and if no old value remains.
    if before.is_single || before.equality.is_none() || removed.len() == before.values.len() {
        changes.push((ChangeOperation::Replace, name, after.values.clone()));
        return;
    }
    for (operation, values) in [(ChangeOperation::Delete, removed), (ChangeOperation::Add, added)] {
        if !values.is_empty() {
            changes.push((operation, name, values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(old: &str, new: &str) -> (DiffSummary, String) {
        let mut out = Vec::new();
        let scratch = std::env::temp_dir();
        let summary =
            diff(&Schema::shipped(), old.as_bytes(), new.as_bytes(), (&scratch, 1 << 20), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        (summary, text.strip_prefix("version: 1\n\n").unwrap().to_owned())
    }

    #[test]
    fn ignores_differences_that_the_matching_rules_ignore() {
        let old = "dn: cn=a,o=b\nobjectClass: person\ncn: a\nsn: Smith\nentryUUID: 1\n\ndn: o=b\no: b\n";
        let new = "dn: o=B\no: b\n\ndn: CN=A, o=b\nSN: smith\ncommonName: A\nobjectClass: PERSON\n";
        assert_eq!(changes(old, new), (DiffSummary { same: 2, ..DiffSummary::default() }, String::new()));
    }

    #[test]
    fn writes_superiors_first_and_deletions_last() {
        let old = "dn: o=b\no: b\n\ndn: ou=x,o=b\nou: x\n\ndn: cn=1,ou=x,o=b\ncn: 1\n";
        let new = "dn: cn=2,ou=y,o=b\ncn: 2\n\ndn: ou=y,o=b\nou: y\n\ndn: o=b\no: b\nl: here\n";
        let (summary, text) = changes(old, new);
        assert_eq!(summary, DiffSummary { added: 2, modified: 1, deleted: 2, same: 0 });
        let dns: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("dn: ")).collect();
        assert_eq!(dns, ["o=b", "ou=y,o=b", "cn=2,ou=y,o=b", "cn=1,ou=x,o=b", "ou=x,o=b"]);
    }

    #[test]
    fn adds_deletes_and_replaces_values() {
        let entry = |rest: &str| format!("dn: cn=a\ncn: a\n{rest}");
        let modified = |rest: &str| format!("dn: cn=a\nchangetype: modify\n{rest}\n");
        let cases = [
            ("", "sn: b\n", "add: sn\nsn: b\n-\n"),
            ("sn: b\n", "", "delete: sn\n-\n"),
            ("sn: b\nsn: c\n", "sn: C\nsn: d\n", "delete: sn\nsn: b\n-\nadd: sn\nsn: d\n-\n"),
            ("uidNumber: 1\n", "uidNumber: 2\n", "replace: uidNumber\nuidNumber: 2\n-\n"),
            ("jpegPhoto: x\njpegPhoto: y\n", "jpegPhoto: x\n", "replace: jpegPhoto\njpegPhoto: x\n-\n"),
            ("odd: 1\n", "ODD: 2\n", "replace: odd\nodd: 2\n-\n"),
        ];
        for (old, new, expected) in cases {
            assert_eq!(changes(&entry(old), &entry(new)).1, modified(expected), "{old} {new}");
        }
    }

    #[test]
    fn reports_records_that_cannot_be_compared_with_their_line() {
        let scratch = std::env::temp_dir();
        let cases = [
            ("dn: o=a\no: a\n\ndn: O=A\no: a\n", "line 4: another entry has the same name"),
            ("dn: o=a\nchangetype: delete\n", "line 1: this is a change record"),
            ("dn: what=a\no: a\n", "line 1: \"what=a\""),
            ("dn: o=a\no a\n", "line 2"),
        ];
        for (text, part) in cases {
            for (old, new, which) in [(text, "", FIRST), ("", text, SECOND)] {
                let error = diff(
                    &Schema::shipped(),
                    old.as_bytes(),
                    new.as_bytes(),
                    (&scratch, 1 << 20),
                    &mut io::sink(),
                );
                let error = error.unwrap_err().to_string();
                assert!(error.contains(part) && error.starts_with(which), "{text}: {error}");
            }
        }
    }
}
