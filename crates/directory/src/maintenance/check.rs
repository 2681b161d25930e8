//! The full check: compares every row with the entries, in both directions. Repair of derived rows.
//!
//! `nodes`, `entries`, `values` and `links` are the primary data. All other rows are derived: names, class postings,
//! index rows, reverse links, dangling names, counters. The check computes the derived rows again ([`expected`]),
//! sorted on disk if memory is not enough, and compares them with the existing rows ([`compare`]), so its memory
//! does not grow with the directory. Each difference is a [`Finding`]: a sentence with its place, and the changes
//! that repair it if the entries determine what is right.
//!
//! [`repair()`] makes those changes, a batch at a time, and checks again.

mod compare;
mod expected;
mod kept;
mod repair;
mod sort_orders;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::Path;

use store::MapId;

use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::snapshot::Snapshot;
use crate::tree::TreeState;
pub use repair::{RepairSummary, repair};

type Result<T> = std::result::Result<T, OperationError>;

/// Maximum number of findings that [`check`] returns; further ones are only counted.
const FINDINGS_MAX: usize = 200;

/// Memory of [`check`], which is for small directories.
const SMALL_MEMORY_BYTES: usize = 16 << 20;

/// Memory for sorting, sufficient for any size of directory: the rest goes to temporary files.
pub const MEMORY_BYTES: usize = 256 << 20;

/// A fault of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The fault and its place, as a sentence.
    pub text: String,
    /// Changes that repair it, in order; empty if the entries do not determine what is right.
    pub fixes: Vec<Fix>,
}

/// A change of a derived row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Writes a row of a plain map.
    Put(MapId, Vec<u8>, Vec<u8>),
    /// Removes a row of a plain map.
    Delete(MapId, Vec<u8>),
    /// Adds an id under a key.
    InsertId(MapId, Vec<u8>, u64),
    /// Removes an id under a key.
    RemoveId(MapId, Vec<u8>, u64),
    /// Adds to a counter.
    Count(Vec<u8>, i64),
    /// Adds or removes a link attribute in the entry row, according to whether it has values.
    Mark(EntryId, AttrId),
}

/// Options of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions<'a> {
    /// Folder for temporary files, which are as large as a part of the data; usually the data directory.
    pub scratch: &'a Path,
    /// Memory for sorting, in bytes.
    pub memory_bytes: usize,
}

/// Counts of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Number of entries.
    pub entries: u64,
    /// Number of derived rows that were compared.
    pub rows: u64,
    /// Number of findings.
    pub findings: u64,
}

/// Checks every row of a small directory in memory. Returns the findings, each a sentence with its place; none for a
/// sound directory.
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

/// Checks every row of a directory of any size, and passes the findings to `each`.
///
/// # Errors
/// The store failed, there is no room for temporary files, or `each` has failed.
pub fn check_all(
    state: TreeState<'_>,
    options: &CheckOptions<'_>,
    each: &mut dyn FnMut(Finding) -> Result<()>,
) -> Result<CheckSummary> {
    let mut report =
        Report { each, checked: CheckSummary::default(), unreadable: HashSet::new(), lost_nodes: false };
    let expected = expected::derive(state, options, &mut report)?;
    compare::compare(state, expected, &mut report)?;
    kept::check(state, &mut report)?;
    sort_orders::check(state, &mut report)?;
    Ok(report.checked)
}

/// Receiver of findings.
struct Report<'e> {
    each: &'e mut dyn FnMut(Finding) -> Result<()>,
    checked: CheckSummary,
    /// Entries that cannot be read completely: their derived rows are unknown.
    unreadable: HashSet<u64>,
    /// Whether the place in the tree of some entries is unknown.
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
