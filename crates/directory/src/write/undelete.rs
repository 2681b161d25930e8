//! Undelete: restores a deleted entry, with the entries below it that the same delete removed.
//!
//! Restored entries keep their ids, so the links in tombstones still name the same entries. The entry returns below
//! the superior that the request names. Without such a superior, it returns below its former superior, even if the
//! former superior has moved meanwhile.

use std::collections::HashMap;

use ldap::{ResultCode, UndeleteAnswer, UndeleteRequest};
use schema::AttributeDescription;

use crate::access::{EffectiveRights, NewEntryFacts, denied};
use crate::catalog::Allocations;
use crate::model::limits::{TOMBSTONES_PURGED_MAX, TREE_DEPTH_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::{Add, Change, Record, Undelete, Value, ValueChange, ValueChangeKind};
use crate::model::rows::{DELETED, EntryId};
use crate::model::tombstone::{KIND_ENTRY, Tombstone, TombstonePlace, delete_prefix};
use crate::model::usable::Uses;
use crate::model::virtual_entries::UNDELETE;
use crate::read::deleted;
use crate::tree::entry_rows::normal_rdn;
use crate::tree::target::{entry_dn, locate_name};
use crate::tree::{TreeState, damaged_row};
use crate::write::add::check_superior;
use crate::write::deciding::Deciding;
use crate::write::relaxed::check_free_uuid;
use crate::write::value_rules::AddedValues;
use crate::write::{dynamic_entries, permitted, structure_rules, tombstones, value_rules};

type Result<T> = std::result::Result<T, OperationError>;

/// Checks a request to restore an entry. Returns the record of its effect, and the answer to send after the commit.
pub(crate) fn decide(
    deciding: Deciding<'_>,
    request: &UndeleteRequest<'_>,
) -> Result<(Record, UndeleteAnswer)> {
    let Deciding { state, context, .. } = deciding;
    let rights = EffectiveRights::of(state, context)?;
    if !rights.may_use(Uses::of_oid(UNDELETE)) {
        return Err(denied(
            "only the administrator, or a requester that a rule allows it, may undelete entries",
        ));
    }
    let place = deleted::newest(state, &request.uuid)?.ok_or_else(|| {
        let uuid = uuid::Uuid::from_bytes(request.uuid);
        OperationError::refused(
            ResultCode::NO_SUCH_OBJECT,
            format!("no deleted entry with the entryUUID {uuid} is kept"),
        )
    })?;
    let together = deleted_together(state, place.position)?;
    let top = together.get(&place.id).ok_or_else(|| damaged(place.id))?;
    let parent = match request.superior {
        None => own_superior(state, top)?,
        Some(superior) => other_superior(state, &rights, top, superior)?,
    };
    if parent != EntryId::ROOT {
        let place = (Some(parent), Some(parent));
        let dn = request.superior.unwrap_or(&top.dn);
        permitted::check_new(state, &rights, dn, place, NewEntryFacts::Unknown)?;
    }
    let normal = normal_rdn(state.catalog, parent, &top.rdn)?;
    let dn = match parent {
        EntryId::ROOT => top.rdn.clone(),
        _ => [top.rdn.as_str(), ",", entry_dn(state, parent)?.as_str()].concat(),
    };
    if let Some((existing, _)) = state.child(parent, &normal)? {
        return Err(permitted::name_exists(state, &rights, existing, || dn.clone())?);
    }
    let (entries, height) = with_all_below(place.id, &together);
    if depth(state, parent)? + height >= TREE_DEPTH_MAX {
        let text = format!("the entries would be more than {} levels deep", TREE_DEPTH_MAX - 1);
        return Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
    }
    for head in entries.iter().filter_map(|id| together.get(id)) {
        check_free_uuid(state, &head.uuid)?;
    }
    let dns = new_dns(&entries, &together, &dn);
    check_rules(deciding, (place.position, parent), (&entries, &dns))?;
    let end = expiry_time(&deciding, parent, (&entries, &dns), &together)?;
    let mut allocations = Allocations::new(state.catalog);
    let changes = deciding.change().chain(end).map(|(description, value)| ValueChange {
        attribute: allocations.attribute(&description),
        kind: ValueChangeKind::Replace,
        values: vec![Value::Bytes(value)],
    });
    let changes = changes.collect();
    let answer = UndeleteAnswer { dn: dn.clone(), entries: entries.len() as u64 };
    let undelete = Undelete { position: place.position, dn, parent, entries, changes };
    Ok((deciding.record(allocations, Change::Undelete(undelete)), answer))
}

/// Returns the DNs of the restored entries. `dn` is the DN of the first entry.
fn new_dns(
    entries: &[EntryId],
    together: &HashMap<EntryId, Tombstone>,
    dn: &str,
) -> HashMap<EntryId, String> {
    let mut dns: HashMap<EntryId, String> = HashMap::with_capacity(entries.len());
    for (id, tombstone) in entries.iter().filter_map(|id| Some((*id, together.get(id)?))) {
        let dn = match dns.get(&tombstone.parent) {
            Some(superior) => [tombstone.rdn.as_str(), ",", superior].concat(),
            None => dn.to_owned(),
        };
        dns.insert(id, dn);
    }
    dns
}

/// Returns the expiry time of the dynamic entries in a restored tree; `None` if there are none.
///
/// # Errors
/// objectClassViolation if an entry may not be at its place.
fn expiry_time(
    deciding: &Deciding<'_>,
    parent: EntryId,
    (entries, dns): (&[EntryId], &HashMap<EntryId, String>),
    together: &HashMap<EntryId, Tombstone>,
) -> Result<Option<(AttributeDescription, Vec<u8>)>> {
    let class_set = |tombstone: &Tombstone| deciding.state.catalog.class_set(tombstone.class_set);
    let mut tombstones = entries.iter().filter_map(|id| together.get(id));
    let Some(top) = tombstones.next() else { return Ok(None) };
    let mut end = dynamic_entries::placed(deciding, class_set(top), parent)?;
    if end.is_some() {
        // All entries below a dynamic entry are dynamic.
        return Ok(end);
    }
    for tombstone in tombstones.filter(|tombstone| class_set(tombstone).is_dynamic) {
        if let Some(superior) = dns.get(&tombstone.parent) {
            end = Some(dynamic_entries::placed_below(deciding, superior)?);
        }
    }
    Ok(end)
}

/// Checks name forms, structure rules and value rules for the entries of a restored tree. The value rules check each
/// entry as if it were added with its new DN, and check the entries against each other.
fn check_rules(
    deciding: Deciding<'_>,
    (position, parent): (u64, EntryId),
    (entries, dns): (&[EntryId], &HashMap<EntryId, String>),
) -> Result<()> {
    let mut added = AddedValues::default();
    let mut structure = structure_rules::Returning::below(deciding.state, parent)?;
    if structure.is_none() && !value_rules::has_rules(deciding.state.catalog) {
        return Ok(());
    }
    for id in entries.iter().copied() {
        let Some(tombstone) = tombstones::read(deciding.state.read, TombstonePlace { position, id })? else {
            continue;
        };
        let superior = tombstone.parent;
        let dn = dns.get(&id).cloned().unwrap_or_default();
        let Tombstone { rdn, class_set, flags, values, ends, .. } = tombstone;
        let add = Change::Add(Add { id, parent, rdn, dn, class_set, flags, values, ends });
        let record = deciding.record(Allocations::new(deciding.state.catalog), add);
        if let Some(structure) = &mut structure {
            structure.check(deciding.state, &record, superior)?;
        }
        value_rules::check_added(deciding, &record, &mut added)?;
    }
    Ok(())
}

fn damaged(id: EntryId) -> OperationError {
    damaged_row("deleted", id)
}

/// Returns the remaining tombstones of one delete, without the values of their entries.
fn deleted_together(state: TreeState<'_>, position: u64) -> Result<HashMap<EntryId, Tombstone>> {
    let mut together = HashMap::new();
    for row in state.read.scan_below(DELETED, &delete_prefix(position)) {
        let (key, value) = row?;
        let place = TombstonePlace::of_key(key).ok_or_else(|| damaged(EntryId::ROOT))?;
        let head = Tombstone::decode_head(value).ok_or_else(|| damaged(place.id))?;
        together.insert(place.id, head);
    }
    Ok(together)
}

/// Returns `top` and the entries below it, each after its superior. Also returns their number of levels.
fn with_all_below(top: EntryId, together: &HashMap<EntryId, Tombstone>) -> (Vec<EntryId>, usize) {
    let mut children: HashMap<EntryId, Vec<EntryId>> = HashMap::new();
    for (id, tombstone) in together {
        children.entry(tombstone.parent).or_default().push(*id);
    }
    let (mut found, mut level, mut height) = (Vec::new(), vec![top], 0);
    while !level.is_empty() {
        height += 1;
        level.sort_unstable();
        let below = level.iter().flat_map(|id| children.get(id).into_iter().flatten().copied()).collect();
        found.append(&mut level);
        level = below;
    }
    (found, height)
}

/// Returns the superior that a deleted entry had.
fn own_superior(state: TreeState<'_>, top: &Tombstone) -> Result<EntryId> {
    if top.parent == EntryId::ROOT {
        let dn = parse_dn(&top.rdn)?;
        let is_suffix = state.catalog.has_suffix(&NormalName::of(&dn, &state.catalog.schema).key);
        return match is_suffix {
            true => Ok(EntryId::ROOT),
            false => {
                let text = format!("{} is not a suffix of this server any longer", Quoted(&top.rdn));
                Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text))
            }
        };
    }
    if state.node(top.parent)?.is_none() {
        let text = format!(
            "the superior of {} is deleted too: undelete that first, or name another superior",
            Quoted(&top.dn)
        );
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
    }
    check_superior(state, top.parent)?;
    Ok(top.parent)
}

/// Returns the entry that the request names as new superior. If the requester may not see this entry, the error does
/// not reveal that the entry exists.
fn other_superior(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    top: &Tombstone,
    superior: &str,
) -> Result<EntryId> {
    if top.parent == EntryId::ROOT {
        let text = format!("{} is a suffix entry, which has no superior", Quoted(&top.dn));
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
    }
    let dn = parse_dn(superior)?;
    let name = NormalName::of(&dn, &state.catalog.schema);
    let target = rights.permitted(state, superior, locate_name(state, &dn, &name, false))?;
    match check_superior(state, target.id) {
        Err(_) if !rights.may_browse(state, target.id)? => {
            Err(rights.hidden(state, superior, Some(target.id))?)
        }
        checked => checked.map(|()| target.id),
    }
}

/// Returns the number of entries on the path from the suffix entry to this entry.
fn depth(state: TreeState<'_>, id: EntryId) -> Result<usize> {
    let (mut depth, mut at) = (0, id);
    while at != EntryId::ROOT && depth <= TREE_DEPTH_MAX {
        depth += 1;
        at = state.node(at)?.ok_or_else(|| damaged_row("nodes", at))?.parent;
    }
    Ok(depth)
}

/// Returns the last tombstone that can be removed now, because this tombstone and all earlier tombstones are older
/// than the setting allows. Examines a limited number of tombstones. Returns `None` if the oldest tombstone must stay.
pub(crate) fn expired(state: TreeState<'_>, now_micros: u64) -> Result<Option<TombstonePlace>> {
    let mut last = None;
    for row in state.read.scan_below(DELETED, &[KIND_ENTRY]).take(TOMBSTONES_PURGED_MAX) {
        let (key, value) = row?;
        let place = TombstonePlace::of_key(key).ok_or_else(|| damaged(EntryId::ROOT))?;
        let head = Tombstone::decode_head(value).ok_or_else(|| damaged(place.id))?;
        if !head.is_expired(state.settings.general.keep_deleted_seconds, now_micros) {
            break;
        }
        last = Some(place);
    }
    Ok(last)
}

#[cfg(test)]
mod tests;
