//! The full check: every row against the entries, both ways; and the repair of what follows from them.
//!
//! `nodes`, `entries` and `values`, and of links the direction from source to target, say what the directory is. All
//! other rows follow: names, class postings, index rows, links backwards, dangling names, counters. The check makes
//! those anew ([`expected`]), sorted on disk where memory is not enough, and walks them beside the rows that are there
//! ([`compare`]), so memory does not grow with the directory. Each difference is a [`Finding`]: a sentence with its
//! place, and the changes that mend it where the entries say what is right.
//!
//! [`repair()`] makes those changes, a batch at a time, and checks again.

mod compare;
mod expected;
mod repair;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::Path;

use store::MapId;

use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::snapshot::Snapshot;
use crate::tree::TreeState;
pub use repair::{Repaired, repair};

type Result<T> = std::result::Result<T, OperationError>;

/// Findings beyond this many are counted, not told, by [`check`].
const FINDINGS_MAX: usize = 200;

/// Memory of [`check`], which is for small directories.
const SMALL_MEMORY_BYTES: usize = 16 << 20;

/// Memory for sorting that is enough for any size of directory: what is more goes to temporary files.
pub const MEMORY_BYTES: usize = 256 << 20;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What, and where: a sentence.
    pub text: String,
    /// What mends it, in order; nothing where the entries do not say what is right.
    pub fixes: Vec<Fix>,
}

/// A change of a row that follows from the entries.
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
    /// Brings an entry's mark of a link attribute in line with whether it has values.
    Mark(EntryId, AttrId),
}

/// How to check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions<'a> {
    /// Where temporary files go, which are as large as a part of the data: the data directory itself, as a rule.
    pub scratch: &'a Path,
    /// Memory for sorting, in bytes.
    pub memory_bytes: usize,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Entries.
    pub entries: u64,
    /// Rows that follow from them and were compared.
    pub rows: u64,
    /// Things found wrong.
    pub findings: u64,
}

/// Checks every row of a small directory in memory. The findings, each a sentence with its place; none in a sound
/// directory.
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

/// Checks every row of a directory of any size, and gives the findings one by one.
///
/// # Errors
/// The store failed, there is no room for temporary files, or `each` has failed.
pub fn check_all(
    state: TreeState<'_>,
    options: &CheckOptions<'_>,
    each: &mut dyn FnMut(Finding) -> Result<()>,
) -> Result<Checked> {
    let mut report =
        Report { each, checked: Checked::default(), unreadable: HashSet::new(), lost_nodes: false };
    let expected = expected::derive(state, options, &mut report)?;
    compare::compare(state, expected, &mut report)?;
    Ok(report.checked)
}

/// Where findings go.
struct Report<'e> {
    each: &'e mut dyn FnMut(Finding) -> Result<()>,
    checked: Checked,
    /// Entries of which not everything can be read: what follows from them is not known.
    unreadable: HashSet<u64>,
    /// Whether there are entries whose place in the tree is not known.
    lost_nodes: bool,
}

impl Report<'_> {
    fn found(&mut self, text: String, fixes: Vec<Fix>) -> Result<()> {
        self.checked.findings += 1;
        (self.each)(Finding { text, fixes })
    }

    /// Tells of an entry that cannot be read as a whole, which nothing here can repair.
    fn unreadable(&mut self, id: EntryId, what: &str) -> Result<()> {
        self.unreadable.insert(id.0);
        self.found(format!("entry {}: {what}", id.0), Vec::new())
    }

    /// Whether nothing is known of what should follow from the entry.
    fn is_unreadable(&self, id: u64) -> bool {
        self.unreadable.contains(&id)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
