//! Attribute indexes map values to entry ids. An attribute type has at most one index. An administrator defines the
//! kinds of the index, such as equality and substring.
//!
//! Keys of values keep the order of the type's ordering rule, so the same rows answer equality, ranges, initial
//! substrings and presence. Other substrings and sounds of words have rows of their own ([`keys`]). Values with options
//! are indexed under their type. An index yields candidates, and the matcher examines the entries. An index therefore
//! changes the cost of a search, never its results.
//!
//! - [`keys`]: index rows of a value
//! - [`maintenance`]: building and removing the rows of all entries in slices
//! - [`sizes`]: sizes of the indexes, estimated from a sample of the entries
//! - `sort_orders`: rows of sort orders, with the keys that `sort_key` computes
//!
//! Link attributes need no such index, because the maps `linked` and `dangling` index their values. objectClass needs
//! none either: every entry is in the posting list of its class set.

pub mod keys;
pub mod maintenance;
pub mod sizes;
pub(crate) mod slice;
pub(crate) mod sort_key;
pub(crate) mod sort_orders;
#[cfg(test)]
mod tests;

use schema::{MatchingRule, RuleUse, Schema};
use store::Batch;

use crate::catalog::AttributeDef;
pub(crate) use crate::filter::matches_by_sound;
pub use crate::model::index_definition::{AttributeIndex, IndexKinds, IndexPart, IndexParts, Phase};
use crate::model::outcome::OperationError;
use crate::model::rows::AttrId;
use crate::tree::entry_rows::ChangedEntry;
use crate::tree::stored_values;
use keys::{RowKey, rows_of};

type Result<T> = std::result::Result<T, OperationError>;

/// Updates the index rows of one attribute after some values were removed and others added.
///
/// `changed` contains the entry after the change.
pub(crate) fn update(
    batch: &mut Batch<'_>,
    changed: &ChangedEntry<'_>,
    attribute: AttrId,
    removed: &[&[u8]],
    added: &[&[u8]],
) -> Result<()> {
    let def = changed.catalog.attribute(attribute);
    let schema = &changed.catalog.schema;
    let parts = def.index.maintained_parts();
    let (mut obsolete, mut come) = (Vec::new(), Vec::new());
    removed.iter().for_each(|value| rows_of(schema, def, parts, value, &mut obsolete));
    added.iter().for_each(|value| rows_of(schema, def, parts, value, &mut come));
    for rows in [&mut obsolete, &mut come] {
        rows.sort_unstable();
        rows.dedup();
    }
    // The values of one attribute have different normal forms. Therefore only a value with other options can have the
    // same key as an added value.
    let is_alone =
        || changed.entry.ids().all(|id| id == def.id || changed.catalog.attribute(id).base != def.base);
    let is_alone = !come.is_empty() && is_alone();
    for row in &come {
        let (part, key) = row;
        if is_alone && *part == IndexPart::Values && obsolete.binary_search(row).is_err() {
            batch.insert_new_id(part.map(), key, changed.id.0)?;
        } else {
            batch.insert_id(part.map(), key, changed.id.0)?;
        }
    }
    obsolete.retain(|row| come.binary_search(row).is_err());
    if !obsolete.is_empty() {
        keep_what_others_have(batch, changed, def, parts, &mut obsolete)?;
    }
    for (part, key) in &obsolete {
        batch.remove_id(part.map(), key, changed.id.0)?;
    }
    Ok(())
}

/// Removes from `obsolete` the rows that another value of the type still needs. That value may have other options.
fn keep_what_others_have(
    batch: &Batch<'_>,
    changed: &ChangedEntry<'_>,
    def: &AttributeDef,
    parts: IndexParts,
    obsolete: &mut Vec<RowKey>,
) -> Result<()> {
    let catalog = changed.catalog;
    for other in changed.entry.ids().filter(|id| catalog.attribute(*id).base == def.base) {
        // The values of one attribute have different normal forms, so no two of them share a row of the part `Values`.
        let is_shared = |(part, _): &RowKey| other != def.id || *part != IndexPart::Values;
        if !obsolete.iter().any(is_shared) {
            continue;
        }
        let other_def = catalog.attribute(other);
        let mut rows = Vec::new();
        stored_values::any(batch, changed.id, changed.entry, other, &mut |value| {
            rows.clear();
            rows_of(&catalog.schema, other_def, parts, value, &mut rows);
            rows.sort_unstable();
            obsolete.retain(|row| rows.binary_search(row).is_err());
            !obsolete.iter().any(is_shared)
        })?;
    }
    Ok(())
}

/// Returns the rule whose normal forms are divided into grams; `None` if the type cannot have a substring index.
pub fn gram_rule(attribute_type: &schema::AttributeType) -> Option<MatchingRule> {
    let rule = attribute_type.substring.filter(|rule| rule.rule_use() == RuleUse::Substring)?;
    // Some rules have no normal form that can be divided into grams.
    schema::SubstringAssertion::new(rule, None, [], None).ok()?;
    Some(rule)
}

/// Returns the kinds among `kinds` that an index of the type can have.
pub fn possible_kinds(
    attribute_type: &schema::AttributeType,
    schema: &Schema,
    kinds: IndexKinds,
) -> IndexKinds {
    let is_possible =
        |kind: IndexKinds| kinds.contains(kind) && check_kinds(attribute_type, schema, kind).is_ok();
    let possible = IndexKinds::ALL.iter().filter(|(kind, _)| is_possible(*kind));
    possible.fold(IndexKinds::NONE, |all, (kind, _)| all.with(*kind))
}

/// Checks that an index of the type can have all these kinds.
///
/// # Errors
/// The reason why the index cannot have one of these kinds, as text for the administrator.
pub fn check_kinds(
    attribute_type: &schema::AttributeType,
    schema: &Schema,
    kinds: IndexKinds,
) -> std::result::Result<(), String> {
    let name = attribute_type.name();
    if crate::catalog::is_link_type(attribute_type) {
        return Err(format!("values of {name} are links to entries, which are always indexed"));
    }
    if attribute_type.oid == "2.5.4.0" {
        return Err(format!("{name} is always indexed"));
    }
    if crate::catalog::VirtualAttribute::of(attribute_type).is_some() {
        return Err(format!("{name} is computed on demand and needs no index"));
    }
    let refuse = |kind: IndexKinds, possible: bool, what: &str| {
        if kinds.contains(kind) && !possible { Err(format!("{name} has no {what}")) } else { Ok(()) }
    };
    refuse(IndexKinds::EQUALITY, attribute_type.equality.is_some(), "equality rule")?;
    let ordering = attribute_type.equality.zip(attribute_type.ordering);
    let is_ordered = ordering.is_some_and(|(equality, ordering)| equality.shares_key_with(ordering));
    // A search for a prefix also needs ordered keys, so an index for prefixes has the kind `ordering`.
    let has_prefixes = attribute_type
        .equality
        .zip(attribute_type.substring)
        .is_some_and(|(equality, substring)| equality.shares_key_with(substring));
    refuse(IndexKinds::ORDERING, is_ordered || has_prefixes, "ordering rule")?;
    refuse(IndexKinds::SUBSTRING, gram_rule(attribute_type).is_some(), "substring rule")?;
    let by_sound = matches_by_sound(schema, attribute_type);
    refuse(
        IndexKinds::APPROXIMATE,
        by_sound,
        "approximate match by sound: its values are not directory strings",
    )
}
