//! Collective attributes (RFC 3671): finds the subentries that cover an entry, and merges the values of these
//! subentries into the entry's row.
//!
//! Values are merged when an entry is read, and are never stored. A merged row has the form of a stored row with all
//! values inline, so that filters, results and sort keys treat merged and stored rows alike. The rules:
//!
//! - A subentry covers the entries of its subtree (RFC 3672 section 2.1), but no subentries.
//! - An administrative point of the role collectiveAttributeSpecificArea or autonomousArea ends the areas above it. All
//!   other administrative points, such as those of the role collectiveAttributeInnerArea, add to the areas above them.
//! - The values of collectiveExclusions in the entry name types that are not merged. The value
//!   excludeAllCollectiveAttributes excludes all types.
//! - The values of a type from several subentries are merged into one set.

use std::sync::Arc;

use schema::Schema;
use store::Read;

use crate::catalog::Catalog;
use crate::model::collective::{CollectiveAttribute, CollectiveSubentries, CollectiveSubentry, Subtree};
use crate::model::entry::{EncodedAttribute, EntryRow, InlineValue, StoredEntry};
use crate::model::limits::{COLLECTIVE_SUBENTRIES_MAX, TREE_DEPTH_MAX};
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::Change;
use crate::model::rows::{AttrId, CLASSES, EntryId, NodeRow, class_key};
use crate::tree::stored_values::of_content;
use crate::tree::{TreeState, child, damaged_row, dn_of, entry_row, node};

type Result<T> = std::result::Result<T, OperationError>;

const ADMINISTRATIVE_ROLE: &str = "2.5.18.5";
const COLLECTIVE_EXCLUSIONS: &str = "2.5.18.7";
const SUBTREE_SPECIFICATION: &str = "2.5.18.6";

/// Roles of an administrative point that end the areas above the point, by OID and by name.
const ENDING_ROLES: [&str; 4] = ["2.5.23.1", "2.5.23.5", "autonomousArea", "collectiveAttributeSpecificArea"];

/// Value of collectiveExclusions that excludes all collective attributes, by OID and by name.
const ALL: [&str; 2] = ["2.5.18.0", "excludeAllCollectiveAttributes"];

/// Reads the collective attribute subentries, within the limits; `None` if there are none. The result depends only on
/// the rows in the store, not on earlier results.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn read_collective(read: &Read, catalog: &Catalog) -> Result<Option<Arc<CollectiveSubentries>>> {
    let mut ids = Vec::new();
    for (number, _) in catalog.numbered_class_sets().filter(|(_, set)| set.is_collective) {
        read.ids(CLASSES, &class_key(number))?.next_block(&mut ids, usize::MAX)?;
    }
    ids.sort_unstable();
    let mut all = CollectiveSubentries::default();
    for id in ids.iter().copied().take(COLLECTIVE_SUBENTRIES_MAX).map(EntryId) {
        let Some(node) = node(read, id)? else { continue };
        let subentry = read_subentry(read, catalog, (id, &node))?;
        let is_unsuitable = subentry.subtree.is_none();
        if all.add(subentry) && is_unsuitable {
            let dn = dn_of(read, id)?.unwrap_or_default();
            all.add_fault(format!("subentry {}: {UNSUITABLE_SUBTREE}: it covers no entry", Quoted(&dn)));
        }
    }
    all.leave_out(ids.len().saturating_sub(COLLECTIVE_SUBENTRIES_MAX));
    Ok(Some(all).filter(|all| !all.is_empty()).map(Arc::new))
}

fn read_subentry(
    read: &Read,
    catalog: &Catalog,
    (id, node): (EntryId, &NodeRow<'_>),
) -> Result<CollectiveSubentry> {
    let (row, schema) = (entry_row(read, id)?, &catalog.schema);
    let specification = plain(catalog, SUBTREE_SPECIFICATION);
    let (mut subtree, mut subtree_octets, mut attributes) = (None, 0, Vec::new());
    for attribute in row.attributes() {
        let type_id = catalog.attribute(attribute.id).description.type_id;
        let is_specification = Some(attribute.id) == specification;
        if !is_specification && !schema.type_by_id(type_id).collective {
            continue;
        }
        let values = of_content(read, id, attribute.id, Some(attribute.content))?;
        match values.first().filter(|_| is_specification) {
            Some(value) => (subtree, subtree_octets) = (Subtree::of(schema, value), value.len()),
            None => attributes.push(CollectiveAttribute { id: attribute.id, type_id, values }),
        }
    }
    Ok(CollectiveSubentry { id, point: node.parent, subtree, subtree_octets, attributes })
}

/// Notice about a subtree specification that is not applied.
pub(crate) const UNSUITABLE_SUBTREE: &str =
    "subtreeSpecification is malformed, or the schema lacks an attribute type or object class in it";

/// Returns the attribute number of a type without options, if any entry has ever had that attribute.
fn plain(catalog: &Catalog, oid: &str) -> Option<AttrId> {
    catalog.attribute_id(catalog.schema.attribute_type(oid)?.id, "")
}

/// Returns true if a change may affect the collective attribute subentries. Call it before the change is applied.
///
/// # Errors
/// The store failed, or rows contradict each other.
#[inline]
pub(crate) fn changes_collective(read: &Read, catalog: &Catalog, change: &Change) -> Result<bool> {
    let is_one = |class_set| catalog.class_set(class_set).is_collective;
    let Some(known) = &catalog.collective else {
        return Ok(match change {
            Change::Add(add) => is_one(add.class_set),
            Change::Modify(modify) => is_one(modify.class_set),
            Change::Settings(settings) => settings.schema.is_some(),
            Change::Undelete(_) => true,
            _ => false,
        });
    };
    let was_one = |id| Ok(node(read, id)?.is_some_and(|node| is_one(node.class_set)));
    match change {
        Change::Add(add) => Ok(is_one(add.class_set)),
        // The modify may remove the class that makes the entry a collective attribute subentry.
        Change::Modify(modify) if !is_one(modify.class_set) => was_one(modify.id),
        Change::Delete(delete) => was_one(delete.id),
        // The table contains DNs of subentries only in the descriptions of faults. If there are no faults, renaming an
        // entry above a subentry has no effect.
        Change::ModifyDn(rename) => Ok(known.has_faults() || was_one(rename.id)?),
        Change::Settings(settings) => Ok(settings.schema.is_some()),
        Change::Modify(_) | Change::DeleteTree(_) | Change::Undelete(_) => Ok(true),
        _ => Ok(false),
    }
}

/// Updates the subentries in the catalog after a change that may affect the subentries.
///
/// # Errors
/// The store failed, or rows contradict each other.
#[cold]
pub(crate) fn renew(read: &Read, catalog: &mut Arc<Catalog>) -> Result<()> {
    let collective = read_collective(read, catalog)?;
    if catalog.collective != collective {
        Arc::make_mut(catalog).collective = collective;
    }
    Ok(())
}

/// Returns the row of an entry merged with the collective attributes of the subentries that cover the entry. Returns
/// `None` if the entry has no collective attributes.
///
/// # Errors
/// The store failed, or rows contradict each other.
#[cold]
pub(crate) fn merged_row(
    state: TreeState<'_>,
    subentries: &CollectiveSubentries,
    (id, node): (EntryId, &NodeRow<'_>),
    row: &EntryRow<'_>,
) -> Result<Option<Vec<u8>>> {
    let covering = covering(state, subentries, (id, node), row)?;
    let attributes = covering.iter().flat_map(|subentry| &subentry.attributes);
    let excluded = Exclusions::of(state, id, row)?;
    let attributes: Vec<_> =
        attributes.filter(|attribute| !excluded.has(&state.catalog.schema, attribute)).collect();
    if attributes.is_empty() {
        return Ok(None);
    }
    let mut merged = StoredEntry::of(row);
    let mut done: Vec<AttrId> = Vec::new();
    for attribute in &attributes {
        if done.contains(&attribute.id) {
            continue;
        }
        done.push(attribute.id);
        let same = attributes.iter().filter(|other| other.id == attribute.id);
        let values = distinct(state.catalog, attribute.id, same.flat_map(|other| &other.values));
        let values: Vec<_> = values.into_iter().map(InlineValue::Here).collect();
        merged.set(attribute.id, Some(EncodedAttribute::inline(attribute.id, &values)));
    }
    Ok(Some(merged.encode()))
}

/// Returns the subentries from which an entry has collective attributes.
///
/// # Errors
/// The store failed, or rows contradict each other.
#[cold]
pub(crate) fn subentries_of(
    state: TreeState<'_>,
    (id, node): (EntryId, &NodeRow<'_>),
) -> Result<Vec<EntryId>> {
    let Some(subentries) = state.collective else { return Ok(Vec::new()) };
    let row = entry_row(state.read, id)?;
    let (excluded, schema) = (Exclusions::of(state, id, &row)?, &state.catalog.schema);
    let gives = |subentry: &&CollectiveSubentry| {
        subentry.attributes.iter().any(|attribute| !excluded.has(schema, attribute))
    };
    let covering = covering(state, subentries, (id, node), &row)?;
    Ok(covering.into_iter().filter(gives).map(|subentry| subentry.id).collect())
}

/// Returns the values, without values that equal an earlier value.
fn distinct<'v>(
    catalog: &Catalog,
    attribute: AttrId,
    values: impl Iterator<Item = &'v Vec<u8>>,
) -> Vec<&'v [u8]> {
    let equality = catalog.attribute(attribute).equality;
    let (mut keys, mut left) = (std::collections::HashSet::new(), Vec::new());
    for value in values {
        let mut key = Vec::new();
        let is_normal = equality.is_some_and(|rule| rule.normalize(&catalog.schema, value, &mut key).is_ok());
        if keys.insert(if is_normal { key } else { value.clone() }) {
            left.push(value.as_slice());
        }
    }
    left
}

/// Returns the subentries that cover an entry.
fn covering<'c>(
    state: TreeState<'_>,
    subentries: &'c CollectiveSubentries,
    (id, node): (EntryId, &NodeRow<'_>),
    row: &EntryRow<'_>,
) -> Result<Vec<&'c CollectiveSubentry>> {
    let mut covering = Vec::new();
    if node.flags.is_subentry() {
        return Ok(covering);
    }
    let role = plain(state.catalog, ADMINISTRATIVE_ROLE);
    let ends_areas = |id, row: &EntryRow<'_>| {
        let Some(role) = role else { return Ok(false) };
        let roles = of_content(state.read, id, role, row.find(role).map(|found| found.content))?;
        Ok::<_, OperationError>(roles.iter().any(|role| is_any(role, &ENDING_ROLES)))
    };
    // `path` contains the entry and its superiors, from the entry up.
    let (mut path, mut parent, mut is_end) = (vec![id], node.parent, ends_areas(id, row)?);
    loop {
        if let Some(point) = path.last().copied() {
            for subentry in subentries.at(point) {
                if let Some(subtree) = &subentry.subtree
                    && has_entry(state, subtree, &path, node)?
                {
                    covering.push(subentry.as_ref());
                }
            }
        }
        if is_end || parent == EntryId::ROOT {
            return Ok(covering);
        }
        if path.len() > TREE_DEPTH_MAX {
            return Err(OperationError::Damaged(format!(
                "the chain of parents of entry {} has no end",
                id.0
            )));
        }
        path.push(parent);
        is_end = role.is_some() && ends_areas(parent, &entry_row(state.read, parent)?)?;
        parent = state.node(parent)?.ok_or_else(|| damaged_row("nodes", parent))?.parent;
    }
}

/// Returns true if a subtree specification contains the first entry of `path`. The last entry of the path is the
/// administrative point.
fn has_entry(state: TreeState<'_>, subtree: &Subtree, path: &[EntryId], node: &NodeRow<'_>) -> Result<bool> {
    let Some(level) = (path.len() - 1).checked_sub(subtree.base.depth()) else { return Ok(false) };
    let classes = &state.catalog.class_set(node.class_set).closure;
    if level < subtree.minimum
        || subtree.maximum.is_some_and(|maximum| level > maximum)
        || subtree.filter.as_ref().is_some_and(|filter| !filter.holds(classes))
        || !leads_down(state, &subtree.base, path)?
    {
        return Ok(false);
    }
    let below = path.get(..=level).unwrap_or_default();
    for (name, is_before) in &subtree.exclusions {
        let least = if *is_before { level } else { level.saturating_sub(1) };
        let is_chopped = name.depth() <= least && (*is_before || level > 0);
        if is_chopped && leads_down(state, name, below)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a name denotes an entry on the path. The name is relative to the last entry of the path. The last
/// entry is the highest in the tree.
fn leads_down(state: TreeState<'_>, name: &NormalName, path: &[EntryId]) -> Result<bool> {
    let Some(mut at) = path.last().copied() else { return Ok(false) };
    for (place, expected) in path.iter().rev().skip(1).take(name.depth()).enumerate() {
        match child(state.read, at, name.rdn(place))? {
            Some((found, _)) if found == *expected => at = found,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The collective attributes that an entry excludes.
struct Exclusions(Vec<Vec<u8>>);

impl Exclusions {
    fn of(state: TreeState<'_>, id: EntryId, row: &EntryRow<'_>) -> Result<Exclusions> {
        let Some(attribute) = plain(state.catalog, COLLECTIVE_EXCLUSIONS) else {
            return Ok(Exclusions(Vec::new()));
        };
        let content = row.find(attribute).map(|found| found.content);
        Ok(Exclusions(of_content(state.read, id, attribute, content)?))
    }

    fn has(&self, schema: &Schema, attribute: &CollectiveAttribute) -> bool {
        self.0.iter().any(|value| {
            let named = std::str::from_utf8(value).ok().and_then(|name| schema.attribute_type(name.trim()));
            is_any(value, &ALL) || named.is_some_and(|named| named.id == attribute.type_id)
        })
    }
}

fn is_any(value: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| value.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}
