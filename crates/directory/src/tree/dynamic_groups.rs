//! Reads dynamic groups from the rows, and updates their table in the catalog after changes.
//!
//! The content of the table depends only on the rows, not on earlier tables. If there are too many groups, the table
//! contains the groups with the lowest ids.

use std::sync::Arc;

use schema::AttributeDescription;
use store::Read;

use crate::catalog::Catalog;
use crate::model::attribute_numbers::AttributeNumbers;
use crate::model::dynamic_groups::{DynamicGroup, DynamicGroups, MEMBER_URL};
use crate::model::entry::Content;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::Change;
use crate::model::rows::{CLASSES, EntryId, class_key};
use crate::tree::stored_values::{table_values, whole_value};
use crate::tree::{dn_of, entry_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Part of the table that a change affects.
enum Affected {
    Nothing,
    One(EntryId),
    All,
}

/// Reads the dynamic groups, up to the limit. A dynamic group is an entry of a class that allows memberURL.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn read_dynamic_groups(read: &Read, catalog: &Catalog) -> Result<DynamicGroups> {
    let mut ids = Vec::new();
    for (number, _) in catalog.numbered_class_sets().filter(|(_, set)| set.allows_member_url) {
        read.ids(CLASSES, &class_key(number))?.next_block(&mut ids, usize::MAX)?;
    }
    ids.sort_unstable();
    let mut groups = DynamicGroups::default();
    for (place, id) in ids.iter().copied().map(EntryId).enumerate() {
        if let Some(group) = read_group(read, catalog, id)? {
            groups.push(group);
        }
        if groups.left_out() > 0 {
            groups.leave_out(ids.len() - place - 1);
            break;
        }
    }
    Ok(groups)
}

fn read_group(read: &Read, catalog: &Catalog, id: EntryId) -> Result<Option<DynamicGroup>> {
    let allows = |class_set| catalog.class_set(class_set).allows_member_url;
    match node(read, id)? {
        Some(node) if allows(node.class_set) => {
            let mut group = member_urls(read, catalog, id)?;
            if !group.faults.is_empty() {
                let dn = dn_of(read, id)?.unwrap_or_default();
                for fault in &mut group.faults {
                    *fault = format!("group {}: memberURL {fault}: it describes no entry", Quoted(&dn));
                }
            }
            Ok(Some(group).filter(DynamicGroup::has_values))
        }
        _ => Ok(None),
    }
}

/// Returns the attribute numbers of memberURL, with any options.
pub(crate) fn member_url_attributes(catalog: &Catalog) -> AttributeNumbers {
    let known = catalog.schema.attribute_type(MEMBER_URL);
    known.map_or_else(AttributeNumbers::default, |known| {
        catalog.matching_attributes(&AttributeDescription::of(known.id))
    })
}

/// Reads the memberURL values of an entry of any class.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn member_urls(read: &Read, catalog: &Catalog, id: EntryId) -> Result<DynamicGroup> {
    let (mut group, schema, numbers) =
        (DynamicGroup::new(id), &catalog.schema, member_url_attributes(catalog));
    let mut attributes = entry_row(read, id)?.attributes();
    while !numbers.is_empty()
        && let Some(row) = attributes.next_of(&numbers)
    {
        match row.content {
            Content::Inline(values) => {
                for value in values.iter() {
                    if !group.add(whole_value(read, id, row.id, &value)?, row.id, schema) {
                        return Ok(group);
                    }
                }
            }
            Content::Table | Content::Links => {
                for value in table_values(read, id, row.id) {
                    if !group.add(value?.1, row.id, schema) {
                        return Ok(group);
                    }
                }
            }
        }
    }
    Ok(group)
}

/// Updates the table in the catalog after a change was applied.
///
/// # Errors
/// The store failed, or rows contradict each other.
#[inline]
pub(crate) fn follow_change(read: &Read, catalog: &mut Arc<Catalog>, change: &Change) -> Result<()> {
    match affected(catalog, change) {
        Affected::Nothing => Ok(()),
        affected => renew(read, catalog, affected),
    }
}

fn affected(catalog: &Catalog, change: &Change) -> Affected {
    let allows = |class_set| catalog.class_set(class_set).allows_member_url;
    let groups = &catalog.dynamic_groups;
    let is_known = |id| !groups.is_empty() && groups.of(id).is_some();
    match change {
        Change::Add(add) if allows(add.class_set) => Affected::One(add.id),
        Change::Modify(modify) if allows(modify.class_set) || is_known(modify.id) => Affected::One(modify.id),
        Change::Delete(delete) if is_known(delete.id) => Affected::One(delete.id),
        Change::DeleteTree(_) if !groups.is_empty() => Affected::All,
        Change::Undelete(_) => Affected::All,
        Change::Settings(settings) if settings.schema.is_some() => Affected::All,
        // Deleting a group may make room for another group, which exceeded the limit of the table before.
        Change::Delete(_) if groups.left_out() > 0 => Affected::All,
        _ => Affected::Nothing,
    }
}

#[cold]
#[inline(never)]
fn renew(read: &Read, catalog: &mut Arc<Catalog>, affected: Affected) -> Result<()> {
    let mut groups = DynamicGroups::clone(&catalog.dynamic_groups);
    let is_done = match affected {
        Affected::One(id) => groups.set(id, read_group(read, catalog, id)?),
        Affected::Nothing | Affected::All => false,
    };
    if !is_done {
        groups = read_dynamic_groups(read, catalog)?;
    }
    if *catalog.dynamic_groups != groups {
        Arc::make_mut(catalog).dynamic_groups = Arc::new(groups);
    }
    Ok(())
}
