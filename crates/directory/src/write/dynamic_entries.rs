//! Dynamic entries (RFC 2589): entries of the class dynamicObject. A dynamic entry is deleted unless a client
//! refreshes it.
//!
//! The expiry time is a value of entryExpireTimestamp. The writer sets this value when the entry is added, and at each
//! refresh. The writer finds expired entries by the index of this attribute. The writer deletes expired entries with
//! the same record as a client's delete, so that all nodes agree on the order. entryTtl is computed for each response.

use std::ops::Bound;

use ldap::{DeleteRequest, RefreshRequest, ResultCode};
use schema::AttributeDescription;
use store::Direction;

use crate::access::{EffectiveRights, Requester, denied};
use crate::catalog::{Allocations, ClassSet, normal_value};
use crate::model::access_rule::BROWSE;
use crate::model::csn::{Csn, generalized_time};
use crate::model::limits::{DYNAMIC_TTL_LIMIT, VALUE_RULE_ENTRIES_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::own_changes::DYNAMIC_ENTRIES;
use crate::model::quoted::Quoted;
use crate::model::record::{Change, Modify, Record};
use crate::model::rows::{
    AttrId, CLASSES, EntryId, INDEX, NAMES, children_counter, class_key, decode_name_row, id_key, index_key,
    subtree_counter,
};
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::tree::operational::EXPIRE_TIME;
use crate::tree::target::{check_not_virtual, entry_dn, locate_name};
use crate::tree::{TreeState, damaged_row, normal_dn_of};
use crate::write::deciding::Deciding;
use crate::write::new_entry::NewEntry;
use crate::write::working_entry::WorkingEntry;
use crate::write::{delete, permitted, value_rules};

type Result<T> = std::result::Result<T, OperationError>;

/// Name of the setting in messages.
const SETTING: &str = "dynamic_subtrees";

fn violation(text: String) -> OperationError {
    OperationError::refused(ResultCode::OBJECT_CLASS_VIOLATION, text)
}

/// Returns the attribute entryExpireTimestamp. Returns objectClassViolation if the attribute has no index, or busy if
/// its index is not complete.
fn expire_attribute(state: TreeState<'_>) -> Result<(AttributeDescription, AttrId)> {
    let known = state.catalog.schema.attribute_type(EXPIRE_TIME);
    let known = known.ok_or_else(|| OperationError::Damaged(format!("the schema lacks {EXPIRE_TIME}")))?;
    match value_rules::indexed(state, known.id, SETTING)? {
        Some(def) => Ok((def.description.clone(), def.id)),
        None => Err(violation(format!(
            "dynamicObject: no entries expire here, because {EXPIRE_TIME} has no index"
        ))),
    }
}

/// Sets the expiry time of a new dynamic entry. Refuses an entry that is not allowed below `parent`.
///
/// # Errors
/// objectClassViolation.
#[inline]
pub(crate) fn added(
    deciding: &Deciding<'_>,
    entry: &mut NewEntry<'_>,
    class_set: &ClassSet,
    parent: EntryId,
) -> Result<()> {
    match class_set.is_dynamic || deciding.state.catalog.has_dynamic_entries {
        true => added_with_checks(deciding, entry, class_set, parent),
        false => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn added_with_checks(
    deciding: &Deciding<'_>,
    entry: &mut NewEntry<'_>,
    class_set: &ClassSet,
    parent: EntryId,
) -> Result<()> {
    if let Some((description, end)) = placed(deciding, class_set, parent)? {
        entry.set(description, end);
    }
    Ok(())
}

/// Checks that a new or restored entry may be below `parent`. Returns the expiry time of a dynamic entry.
///
/// # Errors
/// objectClassViolation.
pub(crate) fn placed(
    deciding: &Deciding<'_>,
    class_set: &ClassSet,
    parent: EntryId,
) -> Result<Option<(AttributeDescription, Vec<u8>)>> {
    check_place(deciding.state, class_set, parent)?;
    class_set.is_dynamic.then(|| expiry(deciding)).transpose()
}

/// Returns the expiry time of a restored dynamic entry. `superior` is the DN of its superior, which is restored too.
///
/// # Errors
/// objectClassViolation.
pub(crate) fn placed_below(
    deciding: &Deciding<'_>,
    superior: &str,
) -> Result<(AttributeDescription, Vec<u8>)> {
    let state = deciding.state;
    check_subtree(state, &NormalName::of(&parse_dn(superior)?, &state.catalog.schema).key)?;
    expiry(deciding)
}

/// Returns the expiry time that a new or restored dynamic entry receives.
fn expiry(deciding: &Deciding<'_>) -> Result<(AttributeDescription, Vec<u8>)> {
    let seconds = deciding.state.settings.general.dynamic_ttl_max_seconds;
    Ok((expire_attribute(deciding.state)?.0, end(deciding.csn, seconds)))
}

/// Checks that the settings allow dynamic entries below an entry with this normal DN.
fn check_subtree(state: TreeState<'_>, superior: &[u8]) -> Result<()> {
    if base_keys(state)?.iter().any(|base| superior.starts_with(base)) {
        return Ok(());
    }
    Err(violation(format!("dynamicObject: the setting {SETTING} allows no dynamic entries at this place")))
}

/// Returns the normal DNs of the subtrees that may contain dynamic entries.
fn base_keys(state: TreeState<'_>) -> Result<Vec<Vec<u8>>> {
    let subtrees = state.settings.general.dynamic_subtrees.iter();
    subtrees.map(|dn| Ok(NormalName::of(&parse_dn(dn)?, &state.catalog.schema).key)).collect()
}

/// Checks that no dynamic entry below the entry `top` leaves the subtrees of the settings, if `top` gets this superior
/// and this normal RDN.
///
/// # Errors
/// objectClassViolation; adminLimitExceeded if too many entries would have to be examined.
pub(crate) fn check_all_below(
    state: TreeState<'_>,
    top: EntryId,
    (superior, normal_rdn): (EntryId, &[u8]),
) -> Result<()> {
    if !state.catalog.has_dynamic_entries || state.read.count(&children_counter(top))? == 0 {
        return Ok(());
    }
    let name_of = |id| {
        let name = normal_dn_of(state.read, &state.catalog.schema, id)?;
        name.ok_or_else(|| damaged_row("nodes", id))
    };
    let (bases, before) = (base_keys(state)?, name_of(top)?);
    let after = [&name_of(superior)?, normal_rdn].concat();
    if before == after || bases.iter().any(|base| after.starts_with(base)) {
        return Ok(());
    }
    for id in dynamic_below(state, top)? {
        let name = name_of(id)?;
        let name = [&after, name.get(before.len()..).unwrap_or_default()].concat();
        // The base itself may not be dynamic.
        if !bases.iter().any(|base| name.len() > base.len() && name.starts_with(base)) {
            // The text names no entry, because the requester may not see the entry.
            return Err(violation(format!(
                "dynamicObject: entries below are dynamic, which the setting {SETTING} does not allow at the new place"
            )));
        }
    }
    Ok(())
}

/// Returns the dynamic entries below an entry.
fn dynamic_below(state: TreeState<'_>, top: EntryId) -> Result<Vec<EntryId>> {
    let mut found = Vec::new();
    let (mut all, mut is_small) = (Vec::new(), true);
    for (id, _) in state.catalog.numbered_class_sets().filter(|(_, set)| set.is_dynamic) {
        let left = (VALUE_RULE_ENTRIES_MAX + 1).saturating_sub(all.len());
        state.read.ids(CLASSES, &class_key(id))?.next_block(&mut all, left)?;
        is_small &= all.len() <= VALUE_RULE_ENTRIES_MAX;
    }
    if is_small {
        for id in all.into_iter().map(EntryId) {
            if id != top && state.is_at_or_below(id, top)? {
                found.push(id);
            }
        }
        return Ok(found);
    }
    let below = usize::try_from(state.read.count(&subtree_counter(top))?).unwrap_or(usize::MAX);
    if below > VALUE_RULE_ENTRIES_MAX {
        let text = format!("more than {VALUE_RULE_ENTRIES_MAX} entries may be dynamic: move smaller parts");
        return Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
    }
    let mut pending = vec![top];
    while let Some(superior) = pending.pop() {
        for row in state.read.scan_below(NAMES, &id_key(superior)) {
            let (child, _) = decode_name_row(row?.1).ok_or_else(|| damaged_row("names", superior))?;
            let node = state.node(child)?.ok_or_else(|| damaged_row("nodes", child))?;
            if state.catalog.class_set(node.class_set).is_dynamic {
                found.push(child);
            }
            pending.push(child);
        }
    }
    Ok(found)
}

/// Checks that the settings and the superior allow an entry with these classes below `parent`.
///
/// # Errors
/// objectClassViolation.
pub(crate) fn check_place(state: TreeState<'_>, class_set: &ClassSet, parent: EntryId) -> Result<()> {
    if !class_set.is_dynamic && !state.catalog.has_dynamic_entries {
        return Ok(());
    }
    if class_set.is_dynamic {
        let superior = normal_dn_of(state.read, &state.catalog.schema, parent)?;
        return check_subtree(state, &superior.unwrap_or_default());
    }
    match state.node(parent)? {
        Some(node) if state.catalog.class_set(node.class_set).is_dynamic => Err(violation(
            "the superior is a dynamic entry, below which only dynamic entries can be".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Checks that a modify does not make a dynamic entry static, or a static entry dynamic.
///
/// # Errors
/// objectClassViolation.
pub(crate) fn check_same_lifetime(before: &ClassSet, after: &ClassSet) -> Result<()> {
    match before.is_dynamic == after.is_dynamic {
        true => Ok(()),
        false => Err(violation(
            "dynamicObject can neither be added to an entry nor removed: add a new entry instead".to_owned(),
        )),
    }
}

fn end(csn: Csn, ttl_seconds: u32) -> Vec<u8> {
    generalized_time(csn.micros / 1_000_000 + u64::from(ttl_seconds)).into_bytes()
}

/// Checks a refresh request. Returns its record, and the new time to live in seconds.
///
/// # Errors
/// noSuchObject; objectClassViolation for a static entry; insufficientAccessRights; sizeLimitExceeded for a time to
/// live that is too long (RFC 2589 section 4.2); protocolError for a time to live of 0 (section 4.1).
pub(crate) fn refresh(deciding: Deciding<'_>, request: &RefreshRequest<'_>) -> Result<(Record, u32)> {
    let Deciding { state, context, controls, csn, .. } = deciding;
    let dn = parse_dn(request.entry)?;
    let rights = &EffectiveRights::of(state, context)?;
    rights.check_bound()?;
    let name = NormalName::of(&dn, &state.catalog.schema);
    check_not_virtual(state, &dn, &name, ResultCode::OBJECT_CLASS_VIOLATION)?;
    let located = locate_name(state, &dn, &name, controls.manage_dsa_it);
    let target = permitted::target(state, rights, request.entry, located, ("refresh", BROWSE))?;
    check_refresher(&deciding, rights, target.id)?;
    let node = state.node(target.id)?.ok_or_else(|| damaged_row("nodes", target.id))?;
    if !state.catalog.class_set(node.class_set).is_dynamic {
        return Err(violation(format!("{} is not a dynamic entry", Quoted(&target.dn))));
    }
    let refusal = match request.ttl_seconds {
        0 => Some(ResultCode::PROTOCOL_ERROR),
        1..=DYNAMIC_TTL_LIMIT => None,
        _ => Some(ResultCode::SIZE_LIMIT_EXCEEDED),
    };
    if let Some(code) = refusal {
        let text = format!("an entry is refreshed for 1 to {DYNAMIC_TTL_LIMIT} seconds");
        return Err(OperationError::refused(code, text));
    }
    let general = &state.settings.general;
    let ttl = request.ttl_seconds.max(general.dynamic_ttl_min_seconds).min(general.dynamic_ttl_max_seconds);
    let mut entry = WorkingEntry::of(state, target.id)?;
    entry.set_by_server(&expire_attribute(state)?.0, end(csn, ttl))?;
    let mut allocations = Allocations::new(state.catalog);
    let (class_set, flags) = (node.class_set, node.flags);
    let changes = entry.changes(&mut allocations);
    let modify = Modify { id: target.id, dn: target.dn, class_set, flags, changes };
    Ok((deciding.record(allocations, Change::Modify(modify)), ttl))
}

/// Checks that the requester may refresh an entry. If access rules restrict the requester, the right to write entryTtl
/// is necessary. Otherwise only the administrator and the client that added the entry may refresh the entry.
fn check_refresher(deciding: &Deciding<'_>, rights: &EffectiveRights, id: EntryId) -> Result<()> {
    let (state, schema) = (deciding.state, &deciding.state.catalog.schema);
    let may = match (rights.at_entry(state, id)?, schema.attribute_type("entryTtl")) {
        (Some(at), Some(ttl)) => at.may_write(ttl.id),
        (None, _) if rights.is_administrator() => true,
        (None, _) => {
            let creator =
                schema.attribute_type("creatorsName").map(|known| AttributeDescription::of(known.id));
            let mut entry = WorkingEntry::of(state, id)?;
            let names = creator.map(|creator| entry.values(&creator)).transpose()?.unwrap_or_default();
            names.iter().any(|name| name == deciding.context.requester.dn().as_bytes())
        }
        (Some(_), None) => false,
    };
    match may {
        true => Ok(()),
        false => Err(denied(
            "you may not refresh this entry: without a rule that lets you write entryTtl, its creator may",
        )),
    }
}

/// Returns true if a dynamic entry has expired.
///
/// # Errors
/// The store failed.
pub fn is_one_expired(state: TreeState<'_>, now_micros: u64) -> Result<bool> {
    Ok(expired(state, now_micros, &[])?.is_some())
}

/// Returns one expired dynamic entry: among those without subordinates and not in `refused`, the one that expired
/// first. Examines a limited number of entries.
///
/// # Errors
/// The store failed.
pub(crate) fn expired(state: TreeState<'_>, now_micros: u64, refused: &[EntryId]) -> Result<Option<EntryId>> {
    const EXAMINED_MAX: usize = 1_000;
    if !state.catalog.has_dynamic_entries {
        return Ok(None);
    }
    let Ok((_, attribute)) = expire_attribute(state) else { return Ok(None) };
    let def = state.catalog.attribute(attribute);
    let key = |time: &str| index_key(attribute, &normal_value(&state.catalog.schema, def, time.as_bytes()));
    let now = key(&generalized_time(now_micros / 1_000_000));
    let range = (Bound::Included(&attribute.0.to_be_bytes()[..]), Bound::Included(&now[..]));
    let mut ids = Vec::new();
    for row in state.read.scan_keys(INDEX, range, Direction::Forward).take(EXAMINED_MAX) {
        state.read.ids(INDEX, row?.0)?.next_block(&mut ids, EXAMINED_MAX)?;
        for id in ids.drain(..).map(EntryId) {
            // An entry stays until its subordinates have expired.
            if state.read.count(&children_counter(id))? == 0 && !refused.contains(&id) {
                return Ok(Some(id));
            }
        }
    }
    Ok(None)
}

/// Returns the record that deletes an expired entry. A referral ends like any other entry.
///
/// # Errors
/// The store failed, or the entry is too large to be kept.
pub(crate) fn expire(state: TreeState<'_>, id: EntryId, stamp: &Stamp, csn: Csn) -> Result<Record> {
    let server = Requester::Administrator { dn: DYNAMIC_ENTRIES.to_owned() };
    let controls = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
    let context = server.context();
    let deciding = Deciding { state, context: &context, controls: &controls, stamp, csn };
    delete::decide(deciding, &DeleteRequest { entry: &entry_dn(state, id)? })
}

#[cfg(test)]
mod tests;
