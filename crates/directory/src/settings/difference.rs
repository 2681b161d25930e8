//! Differences between settings, and their descriptions for administrators with the cost of each change.

use super::{DirectorySettings, GENERAL, SettingValue};
use crate::catalog::Catalog;
use crate::model::index_definition::{IndexKinds, IndexPart};
use crate::model::outcome::OperationError;
use crate::model::rows::NODES;
use crate::tree::TreeState;

/// A difference between two settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A suffix is added.
    SuffixAdded(String),
    /// A suffix is removed.
    SuffixRemoved(String),
    /// A schema text is added, removed or changed.
    Schema {
        /// Name of the schema text.
        name: String,
        /// Number of lines before the change; `None` for a new text.
        before: Option<usize>,
        /// Number of lines after the change; `None` for a removed text.
        after: Option<usize>,
    },
    /// The kinds of an index change.
    Index {
        /// Name of the attribute type.
        attribute: String,
        /// Kinds before the change.
        before: IndexKinds,
        /// Kinds after the change.
        after: IndexKinds,
    },
    /// The value of a general setting changes.
    General {
        /// Key of the setting.
        key: &'static str,
        /// Value before the change.
        before: SettingValue,
        /// Value after the change.
        after: SettingValue,
    },
}

impl Difference {
    /// Returns all differences between two settings in canonical form.
    pub fn between(before: &DirectorySettings, after: &DirectorySettings) -> Vec<Difference> {
        let mut found = Vec::new();
        let is_in = |dn: &String, other: &DirectorySettings| {
            other.suffixes.iter().any(|known| known.eq_ignore_ascii_case(dn))
        };
        let removed = before.suffixes.iter().filter(|dn| !is_in(dn, after));
        found.extend(removed.cloned().map(Difference::SuffixRemoved));
        let added = after.suffixes.iter().filter(|dn| !is_in(dn, before));
        found.extend(added.cloned().map(Difference::SuffixAdded));
        for name in union(before.schema.keys(), after.schema.keys()) {
            let (old, new) = (before.schema.get(name), after.schema.get(name));
            if old != new {
                let lines = |text: &String| text.lines().count();
                let (before, after) = (old.map(lines), new.map(lines));
                found.push(Difference::Schema { name: name.clone(), before, after });
            }
        }
        for setting in &GENERAL {
            let (before, after) = (setting.value(&before.general), setting.value(&after.general));
            if before != after {
                found.push(Difference::General { key: setting.key, before, after });
            }
        }
        for attribute in union(before.indexes.keys(), after.indexes.keys()) {
            let kinds =
                |of: &DirectorySettings| of.indexes.get(attribute).copied().unwrap_or(IndexKinds::NONE);
            let (before, after) = (kinds(before), kinds(after));
            if before != after {
                found.push(Difference::Index { attribute: attribute.clone(), before, after });
            }
        }
        found
    }

    /// Describes the difference and its cost, as one or more lines. `state` is the directory to change, or `None` if a
    /// new directory is created. With `counts_rows`, also counts the index rows to be removed. Counting traverses the
    /// keys of these rows.
    ///
    /// # Errors
    /// The store failed.
    pub fn describe(
        &self,
        state: Option<TreeState<'_>>,
        counts_rows: bool,
    ) -> Result<Vec<String>, OperationError> {
        Ok(match self {
            Difference::SuffixAdded(dn) => vec![format!("adds the suffix {dn}")],
            Difference::SuffixRemoved(dn) => vec![format!("removes the suffix {dn}, which has no entries")],
            Difference::Schema { name, before: None, after } => {
                vec![format!("adds the schema text {name} ({})", lines(after.unwrap_or(0)))]
            }
            Difference::Schema { name, after: None, .. } => vec![format!("removes the schema text {name}")],
            Difference::Schema { name, before: Some(before), after: Some(after) } => {
                vec![format!("changes the schema text {name} (from {} to {})", lines(*before), lines(*after))]
            }
            Difference::General {
                key,
                before: SettingValue::Words(before),
                after: SettingValue::Words(after),
            } if before.len().max(after.len()) > 1 => describe_list(key, before, after),
            Difference::General { key, before, after } => {
                vec![format!("changes {key} from {before} to {after}")]
            }
            Difference::Index { attribute, before, after } => {
                describe_index(state, counts_rows, attribute, (*before, *after))?
            }
        })
    }
}

/// Describes the members that a list loses and gains, one per line.
fn describe_list(key: &str, before: &[String], after: &[String]) -> Vec<String> {
    let removed: Vec<&String> = before.iter().filter(|word| !after.contains(word)).collect();
    let added: Vec<&String> = after.iter().filter(|word| !before.contains(word)).collect();
    if removed.is_empty() && added.is_empty() {
        return vec![format!("changes the order of {key}, or repeated members")];
    }
    let mut lines = vec![format!("changes {key}: removes {}, adds {}", removed.len(), added.len())];
    // Members are quoted as in Rust, because a member may have several lines.
    lines.extend(removed.iter().map(|word| format!("  - {word:?}")));
    lines.extend(added.iter().map(|word| format!("  + {word:?}")));
    lines
}

/// Returns the names in at least one of the two maps, sorted and without duplicates.
fn union<'a>(
    one: impl Iterator<Item = &'a String>,
    other: impl Iterator<Item = &'a String>,
) -> Vec<&'a String> {
    let mut all: Vec<&String> = one.chain(other).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{} lines", grouped(count as u64)) }
}

/// Formats a number with commas between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn describe_index(
    state: Option<TreeState<'_>>,
    counts_rows: bool,
    attribute: &str,
    (before, after): (IndexKinds, IndexKinds),
) -> Result<Vec<String>, OperationError> {
    let mut texts = Vec::new();
    let had = |part: &IndexPart| part.is_of(before);
    let has = |part: &IndexPart| part.is_of(after);
    let built: Vec<IndexPart> = IndexPart::ALL.into_iter().filter(|part| has(part) && !had(part)).collect();
    if !built.is_empty() {
        let count = state.map_or(Ok(0), |state| state.read.row_count(NODES))?;
        texts.push(match count {
            0 => format!("keeps {} on {attribute}", indexes(after, &built)),
            _ => format!("builds {} on {attribute} over {} entries", indexes(after, &built), grouped(count)),
        });
    }
    let dropped: Vec<IndexPart> = IndexPart::ALL.into_iter().filter(|part| had(part) && !has(part)).collect();
    if !dropped.is_empty() {
        let what = match after.is_none() {
            true => "the index".to_owned(),
            false => indexes(before, &dropped).replacen("an ", "the ", 1).replacen("a ", "the ", 1),
        };
        let mut text = format!("drops {what} on {attribute}");
        if let (Some(state), true) = (state, counts_rows) {
            let mut rows = 0;
            for part in &dropped {
                rows += row_count(state, attribute, *part)?;
            }
            text += &format!(": {} rows", grouped(rows));
        }
        texts.push(text);
    }
    if texts.is_empty() {
        // Equality and ordering share their rows, so no rows are built or removed.
        texts.push(format!("changes the index on {attribute} from {before} to {after}, without new rows"));
    }
    Ok(texts)
}

/// Formats the kinds among `kinds` that need these parts, as "an equality index" or "equality and substring indexes".
fn indexes(kinds: IndexKinds, parts: &[IndexPart]) -> String {
    let of_parts = |kind: &IndexKinds| kinds.contains(*kind) && parts.iter().any(|part| part.is_of(*kind));
    let names: Vec<&str> =
        IndexKinds::ALL.iter().filter(|(kind, _)| of_parts(kind)).map(|(_, name)| *name).collect();
    match names.as_slice() {
        [one] if one.starts_with(['a', 'e', 'o']) => format!("an {one} index"),
        [one] => format!("a {one} index"),
        [all @ .., last] => format!("{} and {last} indexes", all.join(", ")),
        [] => "no index".to_owned(),
    }
}

/// Returns the approximate number of rows of an index part.
fn row_count(state: TreeState<'_>, attribute: &str, part: IndexPart) -> Result<u64, OperationError> {
    let Some(base) = base_of(state.catalog, attribute) else { return Ok(0) };
    let prefix = part.key_prefix(base);
    let mut count = 0;
    for row in state.read.scan_keys_below(part.map(), &prefix) {
        let (key, _) = row?;
        count += state.read.ids(part.map(), key)?.estimate();
    }
    Ok(count)
}

fn base_of(catalog: &Catalog, attribute: &str) -> Option<crate::model::rows::AttrId> {
    catalog.attribute_id(catalog.schema.attribute_type(attribute)?.id, "")
}
