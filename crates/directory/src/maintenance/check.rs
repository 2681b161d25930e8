//! Full check: compares all rows with the entries, in both directions. Also repairs derived rows.
//!
//! `nodes`, `entries`, `values` and `links` are the primary data. All other rows are derived from them: names, class
//! postings, index rows, reverse links, dangling links and counters. The check computes the derived rows again
//! ([`expected`]), sorts them, and compares them with the existing rows ([`compare`]). Sorting uses the disk if memory
//! is not enough, so memory does not grow with the directory. Each difference is a [`Finding`]. A finding consists of a
//! sentence that describes the fault and names the affected row, and the changes that repair the row. If the entries do
//! not determine the correct row, the finding contains no changes.
//!
//! [`repair()`] makes these changes in batches, and then checks again.

mod compare;
mod expected;
mod repair;
mod sort_orders;
#[cfg(test)]
mod tests;
mod tombstones;

use std::collections::HashSet;
use std::path::Path;

use store::MapId;

use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::snapshot::Snapshot;
use crate::tree::TreeState;
pub use repair::{RepairSummary, repair};

type Result<T> = std::result::Result<T, OperationError>;

/// Maximum number of findings that [`check`] returns. Further findings are only counted.
const FINDINGS_MAX: usize = 200;

/// Memory for sorting in [`check`], in bytes. [`check`] is meant for small directories.
const SMALL_MEMORY_BYTES: usize = 16 << 20;

/// Usual memory for sorting, in bytes. Suffices for any directory, because rows that do not fit are sorted in temporary
/// files.
pub const MEMORY_BYTES: usize = 256 << 20;

/// A fault of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Sentence that describes the fault and names the affected row.
    pub text: String,
    /// Changes that repair the fault, in order. Empty if the entries do not determine the correct row.
    pub fixes: Vec<Fix>,
}

/// A change of a derived row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Writes a row of a plain map.
    Put(MapId, Vec<u8>, Vec<u8>),
    /// Removes a row of a plain map.
    Delete(MapId, Vec<u8>),
    /// Adds an id to the set under a key.
    InsertId(MapId, Vec<u8>, u64),
    /// Removes an id from the set under a key.
    RemoveId(MapId, Vec<u8>, u64),
    /// Adds to a counter.
    Count(Vec<u8>, i64),
    /// Makes the entry row list this link attribute if and only if the entry has values of the attribute.
    Mark(EntryId, AttrId),
}

/// Options of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions<'a> {
    /// Directory for temporary files, usually the data directory. The files may grow to a fraction of the data's size.
    pub scratch: &'a Path,
    /// Memory for sorting, in bytes.
    pub memory_bytes: usize,
}

/// Counts of what a check has examined and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Number of entries.
    pub entries: u64,
    /// Number of derived rows that were compared.
    pub rows: u64,
    /// Number of findings.
    pub findings: u64,
}

/// Checks all rows of a small directory in memory. Returns the findings as sentences; none for a sound directory.
///
/// # Errors
/// The store failed.
pub fn check(snapshot: &Snapshot) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let options = CheckOptions { scratch: &std::env::temp_dir(), memory_bytes: SMALL_MEMORY_BYTES };
    let checked = check_all(snapshot.state(), &options, &mut |finding| {
        if texts.len() < FINDINGS_MAX {
            texts.push(finding.text);
        }
        Ok(())
    })?;
    if checked.findings > texts.len() as u64 {
        texts.push(format!("and {} more", checked.findings - texts.len() as u64));
    }
    Ok(texts)
}

/// Checks all rows of a directory of any size, and passes each finding to `each`.
///
/// # Errors
/// The store failed, the disk is full, or `each` has failed.
pub fn check_all(
    state: TreeState<'_>,
    options: &CheckOptions<'_>,
    each: &mut dyn FnMut(Finding) -> Result<()>,
) -> Result<CheckSummary> {
    let mut report =
        Report { each, checked: CheckSummary::default(), unreadable: HashSet::new(), lost_nodes: false };
    let expected = expected::derive(state, options, &mut report)?;
    compare::compare(state, expected, &mut report)?;
    tombstones::check(state, &mut report)?;
    sort_orders::check(state, &mut report)?;
    Ok(report.checked)
}

/// Receiver and counter of findings.
struct Report<'e> {
    each: &'e mut dyn FnMut(Finding) -> Result<()>,
    checked: CheckSummary,
    /// Entries that cannot be read completely. Their derived rows are therefore unknown.
    unreadable: HashSet<u64>,
    /// Whether the position in the tree is unknown for at least one entry.
    lost_nodes: bool,
}

impl Report<'_> {
    fn found(&mut self, text: String, fixes: Vec<Fix>) -> Result<()> {
        self.checked.findings += 1;
        (self.each)(Finding { text, fixes })
    }

    /// Reports an entry that cannot be read completely and cannot be repaired.
    fn unreadable(&mut self, id: EntryId, what: &str) -> Result<()> {
        self.unreadable.insert(id.0);
        self.found(format!("entry {}: {what}", id.0), Vec::new())
    }

    /// Returns true if the derived rows of the entry are unknown.
    fn is_unreadable(&self, id: u64) -> bool {
        self.unreadable.contains(&id)
    }
}
