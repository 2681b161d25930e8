//! `apply`: converts a record to rows. `apply` is idempotent and cannot refuse a record.
//!
//! Every entry row contains the position of the last record that changed it. A record is applied to an entry only if
//! the record's position is later than the position in the entry's row. The same rule applies to a record's effects on
//! other entries, such as a name that becomes a link. Therefore the rows at the end of the log are the same if a record
//! is applied twice, or if replay starts with records older than the rows. During replay, an entry that a later record
//! deletes may reappear, but such an entry never takes a name that another entry has. A delete has no effect on an
//! entry that was restored after the delete.

use std::collections::HashSet;
use std::sync::Arc;

use store::Batch;

use crate::accounts::{has_policies, is_policy, read_policies};
use crate::catalog::auto_members::apply_joins;
use crate::catalog::{
    Catalog, META_ADMINISTRATOR, META_ATTRIBUTE, META_CLASS_SET, META_CONTEXT_CSN, META_LAST_CSN,
    META_LAST_ENTRY, last_csn, last_entry_id, meta_key,
};
use crate::index::sort_orders::{self, Cause};
use crate::links;
use crate::model::entry::StoredEntry;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::record::{
    Add, Change, Delete, DeleteTree, Modify, ModifyDn, Record, Undelete, ValueChange,
};
use crate::model::rows::{
    CLASSES, ClassSetId, DANGLING, EntryId, META, NAMES, NODES, NodeFlags, NodeRow, children_counter,
    class_key, encode_name_row, id_key, name_key, subtree_counter,
};
use crate::model::settings::SettingsRecord;
use crate::model::tombstone::TombstonePlace;
use crate::settings::apply::{apply_rest, apply_schema, apply_schema_times};
use crate::tree::entry_rows::{ChangedEntry, load_older, normal_rdn, save};
use crate::tree::operational::EXPIRE_TIME;
use crate::tree::{child, damaged_row, node, normal_dn_of};
use crate::tree::{collective, dynamic_groups};
use crate::write::tombstones::TombstoneDelete;
use crate::write::whole_entry::Removal;
use crate::write::{linking, tombstones, values, whole_entry};

type Result<T> = std::result::Result<T, OperationError>;

/// Applies the record at `position` of the log to the rows.
///
/// # Errors
/// The store failed, or rows contradict each other. The caller must then drop the batch.
pub fn apply(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    position: u64,
    record: &Record,
) -> Result<()> {
    if let Change::Settings(settings) = &record.change {
        if position <= catalog.settings.position {
            return stamp(batch, catalog, record);
        }
        apply_schema(batch, catalog, settings, position)?;
        if settings.schema.is_some() {
            sort_orders::rebuild_all(batch, catalog)?;
        }
        apply_schema_times(batch, catalog, record.csn, settings)?;
    }
    allocate(batch, catalog, record)?;
    let governs = changes_policies(catalog, &record.change);
    let is_shared = collective::changes_collective(batch, catalog, &record.change)?;
    match &record.change {
        Change::Add(add) => apply_add(batch, catalog, position, add)?,
        Change::Modify(modify) => apply_modify(batch, catalog, position, modify)?,
        Change::Delete(delete) => {
            if delete.is_kept {
                let tombstone_delete = TombstoneDelete { position, record, vanishing: &delete.vanishing };
                tombstones::keep(batch, catalog, tombstone_delete, (delete.id, &delete.dn))?;
            }
            apply_delete(batch, catalog, position, delete)?;
        }
        Change::DeleteTree(tree) => apply_delete_tree(batch, catalog, (position, record), tree)?,
        Change::ModifyDn(rename) => {
            let before = sort_orders::bases(batch, catalog, rename.id)?;
            apply_modify_dn(batch, catalog, position, rename)?;
            let after = sort_orders::bases(batch, catalog, rename.id)?;
            sort_orders::follow_tree(batch, catalog, &before, &after)?;
        }
        Change::Settings(settings) => apply_rest(batch, catalog, position, settings)?,
        Change::Suffix { dn } => apply_suffix(batch, catalog, position, dn)?,
        Change::Undelete(undelete) => apply_undelete(batch, catalog, position, undelete)?,
        Change::Joins(list) => apply_joins(batch, position, list)?,
        Change::Links(step) => linking::apply(batch, catalog, position, step)?,
        Change::Purge { position, id } => {
            tombstones::purge(batch, TombstonePlace { position: *position, id: *id })?;
        }
        Change::Administrator { stored } => {
            batch.put(META, META_ADMINISTRATOR, stored)?;
            Arc::make_mut(catalog).administrator = Some(stored.clone());
        }
    }
    if governs {
        let policies = read_policies(batch, catalog)?;
        if *catalog.policies != policies {
            Arc::make_mut(catalog).policies = Arc::new(policies);
        }
    }
    dynamic_groups::follow_change(batch, catalog, &record.change)?;
    if is_shared {
        collective::renew(batch, catalog)?;
    }
    stamp(batch, catalog, record)
}

/// Returns true if a change may affect the password policies or the entries that they apply to.
fn changes_policies(catalog: &Catalog, change: &Change) -> bool {
    let is_policy = |class_set| is_policy(catalog, &catalog.class_set(class_set).closure);
    match change {
        Change::Add(add) => is_policy(add.class_set),
        Change::Modify(modify) => is_policy(modify.class_set) || catalog.policies.of(modify.id).is_some(),
        Change::Delete(delete) => {
            catalog.policies.of(delete.id).is_some() || !catalog.policies.notices.is_empty()
        }
        Change::DeleteTree(_) | Change::ModifyDn(_) => has_policies(catalog),
        Change::Undelete(_) => true,
        Change::Settings(settings) => settings.general.is_some() || settings.schema.is_some(),
        Change::Suffix { .. }
        | Change::Administrator { .. }
        | Change::Purge { .. }
        | Change::Joins(_)
        | Change::Links(_) => false,
    }
}

/// Adds the record's allocations to the catalog.
fn allocate(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>, record: &Record) -> Result<()> {
    // Existing numbers are skipped, because a later schema may have changed their meaning.
    let (attributes, class_sets) = (catalog.attributes().len(), catalog.class_sets().len());
    for allocation in record.attributes.iter().filter(|new| new.id.0 as usize >= attributes) {
        let mut bytes = Vec::new();
        allocation.encode(&mut bytes);
        batch.put(META, &meta_key(META_ATTRIBUTE, allocation.id.0), &bytes)?;
        Arc::make_mut(catalog).add_attribute(allocation).map_err(undefined)?;
    }
    for allocation in record.class_sets.iter().filter(|new| new.id.0 as usize >= class_sets) {
        let mut bytes = Vec::new();
        allocation.encode(&mut bytes);
        batch.put(META, &meta_key(META_CLASS_SET, allocation.id.0), &bytes)?;
        Arc::make_mut(catalog).add_class_set(allocation).map_err(undefined)?;
    }
    Ok(())
}

/// Returns the error for a record that refers to a definition missing in this server's schema. After this error, no
/// further record can be applied.
fn undefined(error: OpenError) -> OperationError {
    OperationError::Damaged(error.to_string())
}

/// Applies a record that defines a naming context. The first version of the program wrote such a record to add a
/// naming context. An import still writes such a record for each naming context that exists.
fn apply_suffix(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>, position: u64, dn: &str) -> Result<()> {
    if position <= catalog.settings.position
        || catalog.suffix_of(dn).is_ok_and(|new| catalog.has_suffix(&new.key))
    {
        return Ok(());
    }
    let mut suffixes: Vec<_> =
        catalog.suffixes.iter().map(|known| (known.number, known.dn.clone())).collect();
    suffixes.push((catalog.next_suffix_number(), catalog.suffix_of(dn).map_err(undefined)?.dn));
    let record = SettingsRecord { suffixes: Some(suffixes), ..SettingsRecord::default() };
    apply_rest(batch, catalog, position, &record)
}

/// Sets the log's last CSN, and the contextCSN of the suffix that contains the change (draft-ietf-ldup-model; as in
/// OpenLDAP). Does nothing for a record that is not newer than the last CSN.
fn stamp(batch: &mut Batch<'_>, catalog: &Catalog, record: &Record) -> Result<()> {
    if record.csn <= last_csn(batch)? {
        return Ok(());
    }
    let csn = record.csn.text();
    // Every record of a batch overwrites these rows, so they are buffered until the commit.
    batch.put_buffered(META, META_LAST_CSN, csn.as_bytes())?;
    let dn = match &record.change {
        Change::Add(add) => &add.dn,
        Change::Modify(modify) => &modify.dn,
        Change::Delete(delete) => &delete.dn,
        Change::DeleteTree(tree) => &tree.dn,
        Change::ModifyDn(rename) => &rename.old_dn,
        Change::Undelete(undelete) => &undelete.dn,
        Change::Suffix { .. }
        | Change::Settings(_)
        | Change::Joins(_)
        | Change::Links(_)
        | Change::Administrator { .. }
        | Change::Purge { .. } => {
            return Ok(());
        }
    };
    // The DN need not be parsed if the directory has a single suffix, which is the usual case.
    let number = match catalog.suffixes.as_slice() {
        [suffix] => Some(suffix.number),
        _ => {
            let parsed = ldap::Dn::parse(dn).map_err(|error| OperationError::Damaged(error.to_string()))?;
            let name = crate::model::name::NormalName::of(&parsed, &catalog.schema);
            catalog.suffix_above(&name.key).map(|suffix| suffix.number)
        }
    };
    if let Some(number) = number {
        batch.put_buffered(META, &meta_key(META_CONTEXT_CSN, number), csn.as_bytes())?;
    }
    Ok(())
}

fn apply_add(batch: &mut Batch<'_>, catalog: &Catalog, position: u64, add: &Add) -> Result<()> {
    if node(batch, add.id)?.is_some() {
        return Ok(());
    }
    if add.id > last_entry_id(batch)? {
        batch.put_buffered(META, META_LAST_ENTRY, &add.id.0.to_be_bytes())?;
    }
    let place = EntryNode { parent: add.parent, rdn: &add.rdn, class_set: add.class_set, flags: add.flags };
    let own_name = normal_rdn(catalog, add.parent, &add.rdn)?;
    let places = sort_orders::places(batch, catalog, add.id, Cause::Place)?;
    put_node(batch, catalog, add.id, None, &place, &own_name)?;
    whole_entry::put(batch, catalog, position, add)?;
    sort_orders::follow(batch, catalog, add.id, places)?;
    if batch.row_count(DANGLING)? == 0 {
        return Ok(());
    }
    // A normal name starts at the root, so the RDN of an entry follows the name of its parent.
    let mut name = normal_dn(batch, catalog, add.parent)?;
    name.extend_from_slice(&own_name);
    links::attach(batch, catalog, position, add.id, &name)
}

fn apply_modify(batch: &mut Batch<'_>, catalog: &Catalog, position: u64, modify: &Modify) -> Result<()> {
    let Some(entry) = load_older(batch, modify.id, position)? else { return Ok(()) };
    let row = node(batch, modify.id)?.ok_or_else(|| damaged_row("nodes", modify.id))?;
    let is_reclassified = row.class_set != modify.class_set || row.flags != modify.flags;
    let places = match is_reclassified {
        true => sort_orders::places(batch, catalog, modify.id, Cause::Classes)?,
        false => sort_orders::places(batch, catalog, modify.id, Cause::Values(&modify.changes))?,
    };
    if is_reclassified {
        let old = OldNode::of(modify.id, &row)?;
        let (parent, rdn) = (old.parent, old.rdn.clone());
        let place = EntryNode { parent, rdn: &rdn, class_set: modify.class_set, flags: modify.flags };
        let name = normal_rdn(catalog, parent, &rdn)?;
        put_node(batch, catalog, modify.id, Some(old), &place, &name)?;
    }
    change_values(batch, catalog, position, modify.id, entry, &modify.changes)?;
    sort_orders::follow(batch, catalog, modify.id, places)
}

fn apply_modify_dn(batch: &mut Batch<'_>, catalog: &Catalog, position: u64, rename: &ModifyDn) -> Result<()> {
    let Some(entry) = load_older(batch, rename.id, position)? else { return Ok(()) };
    let row = node(batch, rename.id)?.ok_or_else(|| damaged_row("nodes", rename.id))?;
    let (class_set, flags) = (row.class_set, row.flags);
    let old = OldNode::of(rename.id, &row)?;
    let place = EntryNode { parent: rename.parent, rdn: &rename.rdn, class_set, flags };
    let name = normal_rdn(catalog, rename.parent, &rename.rdn)?;
    let places = sort_orders::places(batch, catalog, rename.id, Cause::Place)?;
    put_node(batch, catalog, rename.id, Some(old), &place, &name)?;
    change_values(batch, catalog, position, rename.id, entry, &rename.changes)?;
    sort_orders::follow(batch, catalog, rename.id, places)?;
    let name = normal_dn(batch, catalog, rename.id)?;
    links::attach_subtree(batch, catalog, position, &name)
}

fn apply_delete(batch: &mut Batch<'_>, catalog: &Catalog, position: u64, delete: &Delete) -> Result<()> {
    let places = sort_orders::places(batch, catalog, delete.id, Cause::Place)?;
    match whole_entry::remove(batch, catalog, position, delete.id)? {
        Removal::Done => {
            remove_node(batch, catalog, delete.id)?;
            sort_orders::follow(batch, catalog, delete.id, places)?;
        }
        Removal::Missing => {}
        Removal::CameBack => return Ok(()),
    }
    // Detach links even if the entry is missing: replay may have restored links that are older than the deletion of the
    // entry.
    links::detach(batch, catalog, position, delete)
}

fn apply_delete_tree(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    (position, record): (u64, &Record),
    tree: &DeleteTree,
) -> Result<()> {
    let entries = tree.entries();
    if tree.is_kept {
        let tombstone_delete = TombstoneDelete { position, record, vanishing: &tree.vanishing };
        // Create all tombstones before the first delete, because a delete changes the entries that name the deleted
        // entry.
        for (id, dn) in &entries {
            tombstones::keep(batch, catalog, tombstone_delete, (*id, dn))?;
        }
    }
    let (vanishing, last) = (tree.vanishing.clone(), tree.last);
    let (id, dn, is_kept) = (tree.top, String::new(), tree.is_kept);
    let mut delete = Delete { id, dn, vanishing, last, is_kept, trace: None };
    for (id, dn) in entries {
        (delete.id, delete.dn) = (id, dn);
        apply_delete(batch, catalog, position, &delete)?;
    }
    Ok(())
}

fn apply_undelete(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    undelete: &Undelete,
) -> Result<()> {
    let together: HashSet<EntryId> = undelete.entries.iter().copied().collect();
    let expire_time = catalog.schema.attribute_type(EXPIRE_TIME).map(|known| known.id);
    let mut named = Vec::new();
    for id in undelete.entries.iter().copied() {
        let place = TombstonePlace { position: undelete.position, id };
        let Some(mut tombstone) = tombstones::take(batch, place)? else { continue };
        if node(batch, id)?.is_some() {
            continue;
        }
        named.push((id, std::mem::take(&mut tombstone.dn), std::mem::take(&mut tombstone.named_by)));
        let mut add = tombstones::into_add(batch, catalog, (id, tombstone), &together)?;
        let is_dynamic = catalog.class_set(add.class_set).is_dynamic;
        let expires = |attribute| Some(catalog.attribute(attribute).description.type_id) == expire_time;
        for change in undelete.changes.iter().filter(|change| is_dynamic || !expires(change.attribute)) {
            add.values.retain(|(attribute, _)| *attribute != change.attribute);
            add.values.push((change.attribute, change.values.clone()));
        }
        if undelete.entries.first() == Some(&id) {
            add.parent = undelete.parent;
        }
        apply_add(batch, catalog, position, &add)?;
    }
    for id in &undelete.entries {
        // Compute the places in the sort orders again: entries below the base of a sort order may have been restored
        // before the base itself.
        let places = sort_orders::places(batch, catalog, *id, Cause::Place)?;
        sort_orders::follow(batch, catalog, *id, places)?;
    }
    for (id, old_dn, named_by) in named {
        for named_by in named_by {
            links::restore(batch, catalog, position, (id, &old_dn), &named_by)?;
        }
    }
    Ok(())
}

fn change_values(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    id: EntryId,
    mut entry: StoredEntry,
    changes: &[ValueChange],
) -> Result<()> {
    let mut changed = ChangedEntry { catalog, id, entry: &mut entry };
    for change in changes {
        values::change(batch, &mut changed, change.attribute, change.kind, &change.values)?;
    }
    entry.position = position;
    save(batch, id, &entry)
}

/// Parent, RDN and object classes of an entry, from which its node row is encoded.
struct EntryNode<'a> {
    parent: EntryId,
    rdn: &'a str,
    class_set: ClassSetId,
    flags: NodeFlags,
}

/// Parent, RDN and object classes of an entry before a change.
struct OldNode {
    parent: EntryId,
    rdn: String,
    class_set: ClassSetId,
}

impl OldNode {
    fn of(id: EntryId, row: &NodeRow<'_>) -> Result<OldNode> {
        let rdn = row.rdn_text().ok_or_else(|| damaged_row("nodes", id))?;
        Ok(OldNode { parent: row.parent, rdn: rdn.to_owned(), class_set: row.class_set })
    }
}

/// Writes the node row and all rows derived from it: the name, the class posting and the counters of the superiors.
/// `old` is the entry's node before the change, or `None` for a new entry. `own_name` is the normal form of the new
/// RDN.
fn put_node(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    id: EntryId,
    old: Option<OldNode>,
    place: &EntryNode<'_>,
    own_name: &[u8],
) -> Result<()> {
    if let Some(old) = &old {
        let old_name = normal_rdn(catalog, old.parent, &old.rdn)?;
        if (old.parent, &*old_name) != (place.parent, own_name) {
            remove_name(batch, old.parent, &old_name, id)?;
        }
        if old.class_set != place.class_set {
            batch.remove_id(CLASSES, &class_key(old.class_set), id.0)?;
        }
    }
    if child(batch, place.parent, own_name)?.is_none_or(|(owner, _)| owner == id) {
        batch.put(NAMES, &name_key(place.parent, own_name), &encode_name_row(id, place.flags))?;
    }
    match &old {
        None => batch.insert_new_id(CLASSES, &class_key(place.class_set), id.0)?,
        Some(old) if old.class_set != place.class_set => {
            batch.insert_id(CLASSES, &class_key(place.class_set), id.0)?;
        }
        Some(_) => {}
    }
    let old_parent = old.map(|old| old.parent);
    if old_parent != Some(place.parent) {
        let size = batch.count(&subtree_counter(id))? + 1;
        if let Some(parent) = old_parent {
            count_below(batch, parent, -1, -size)?;
        }
        count_below(batch, place.parent, 1, size)?;
    }
    let row = NodeRow {
        parent: place.parent,
        class_set: place.class_set,
        flags: place.flags,
        rdn: place.rdn.as_bytes(),
    };
    batch.put(NODES, &id_key(id), &row.encode())?;
    Ok(())
}

fn remove_node(batch: &mut Batch<'_>, catalog: &Catalog, id: EntryId) -> Result<()> {
    let Some(row) = node(batch, id)? else { return Ok(()) };
    let (parent, class_set) = (row.parent, row.class_set);
    let rdn = row.rdn_text().ok_or_else(|| damaged_row("nodes", id))?;
    let name = normal_rdn(catalog, parent, rdn)?;
    remove_name(batch, parent, &name, id)?;
    batch.remove_id(CLASSES, &class_key(class_set), id.0)?;
    // Without children, an entry has no subordinates. Reading the counter of children is cheap, because `decide` has
    // just read this counter.
    let below = match batch.count(&children_counter(id))? {
        0 => 0,
        _ => batch.count(&subtree_counter(id))?,
    };
    count_below(batch, parent, -1, -1 - below)?;
    batch.delete(NODES, &id_key(id))?;
    Ok(())
}

/// Removes a name, unless it now belongs to another entry.
fn remove_name(batch: &mut Batch<'_>, parent: EntryId, normal_rdn: &[u8], id: EntryId) -> Result<()> {
    if child(batch, parent, normal_rdn)?.is_some_and(|(owner, _)| owner == id) {
        batch.delete(NAMES, &name_key(parent, normal_rdn))?;
    }
    Ok(())
}

/// Adds to the counters of a parent (`children`, `subtree`), and to the subtree counters of the parent's superiors.
fn count_below(batch: &mut Batch<'_>, parent: EntryId, children: i64, subtree: i64) -> Result<()> {
    batch.bump(&children_counter(parent), children)?;
    let mut at = parent;
    for _ in 0..crate::model::limits::TREE_DEPTH_MAX {
        batch.bump(&subtree_counter(at), subtree)?;
        if at == EntryId::ROOT {
            return Ok(());
        }
        match node(batch, at)? {
            Some(row) => at = row.parent,
            None => return Ok(()),
        }
    }
    Err(OperationError::Damaged(format!("the chain of parents of entry {} has no end", parent.0)))
}

fn normal_dn(batch: &Batch<'_>, catalog: &Catalog, id: EntryId) -> Result<Vec<u8>> {
    Ok(normal_dn_of(batch, &catalog.schema, id)?.unwrap_or_default())
}
