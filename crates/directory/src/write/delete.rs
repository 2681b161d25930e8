//! Delete (RFC 4511 section 4.8).
//!
//! Without the tree delete control, only an entry without subordinates can be deleted. With this control, one record
//! deletes an entry and everything below it, or nothing. A suffix entry can be deleted like other entries, and added
//! again. `apply` turns links to deleted entries into text. In attributes with referential integrity, `apply` removes
//! the links instead. If the record says that deleted entries are kept, `apply` makes a tombstone of each deleted
//! entry.

use ldap::{DeleteRequest, ResultCode};

use crate::access::{EffectiveRights, denied};
use crate::catalog::Allocations;
use crate::model::access_rule::DELETE;
use crate::model::limits::{DELETE_TRACE_MAX, TOMBSTONES_BYTES_MAX, TREE_DELETED_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::{Below, Change, Delete, DeleteTrace, DeleteTree, LastValue, Record};
use crate::model::rows::{
    AttrId, EntryId, LINKED, NAMES, children_counter, decode_name_row, id_key, link_key, subtree_counter,
};
use crate::read::search::check_assertion;
use crate::tree::target::{Target, check_not_virtual, locate_name};
use crate::tree::{TreeState, damaged_row, entry_row};
use crate::write::deciding::Deciding;
use crate::write::{permitted, relaxed, tombstones};

/// Checks a delete request. Returns the record of its effect.
pub(crate) fn decide(deciding: Deciding<'_>, request: &DeleteRequest<'_>) -> Result<Record, OperationError> {
    let Deciding { state, context, controls, .. } = deciding;
    let dn = parse_dn(request.entry)?;
    let rights = &permitted::tree_writer(state, context)?;
    relaxed::check_use(controls, rights)?;
    let name = NormalName::of(&dn, &state.catalog.schema);
    check_not_virtual(state, &dn, &name, ResultCode::UNWILLING_TO_PERFORM)?;
    let located = locate_name(state, &dn, &name, controls.manage_dsa_it);
    let target = permitted::target(state, rights, request.entry, located, ("delete", DELETE))?;
    check_assertion(state, rights, controls, target.id)?;
    let child_count = state.read.count(&children_counter(target.id))?;
    let (vanishing, last) = (vanishing_attributes(state), LastValue::EmptyDn);
    let is_kept = state.settings.general.keep_deleted_seconds > 0;
    let change = match (child_count, controls.tree_delete()) {
        (0, _) => {
            let trace = trace(state, &[target.id])?;
            Change::Delete(Delete { id: target.id, dn: target.dn, vanishing, last, is_kept, trace })
        }
        (_, true) => {
            let below = below(state, rights, &target, controls.manage_dsa_it)?;
            let ids: Vec<EntryId> =
                [target.id].into_iter().chain(below.iter().map(|below| below.id)).collect();
            let (top, dn, trace) = (target.id, target.dn, trace(state, &ids)?);
            Change::DeleteTree(DeleteTree { top, dn, below, vanishing, last, is_kept, trace })
        }
        (_, false) => {
            // The exact number would reveal entries that the requester may not see.
            let entries = match (child_count, rights.is_restricted()) {
                (_, true) => "entries".to_owned(),
                (1, false) => "1 entry".to_owned(),
                (count, false) => format!("{count} entries"),
            };
            return Err(OperationError::refused(
                ResultCode::NOT_ALLOWED_ON_NON_LEAF,
                format!(
                    "{} has {entries} directly below it: delete the entries below it first",
                    Quoted(&target.dn)
                ),
            ));
        }
    };
    if is_kept {
        check_tombstones(state, &change)?;
    }
    Ok(deciding.record(Allocations::new(state.catalog), change))
}

/// Returns the trace of a delete of the entries `ids`. In `ids`, each entry follows its superior. Returns `None` if an
/// entry has no entryUUID, or if the trace would be too large.
fn trace(state: TreeState<'_>, ids: &[EntryId]) -> Result<Option<DeleteTrace>, OperationError> {
    let description = state.catalog.schema.attribute_type("entryUUID").map(|known| known.id);
    let Some(attribute) = description.and_then(|type_id| state.catalog.attribute_id(type_id, "")) else {
        return Ok(None);
    };
    if ids.len() > DELETE_TRACE_MAX {
        return Ok(None);
    }
    let mut trace = DeleteTrace { uuids: Vec::with_capacity(ids.len()), named_by: Vec::new() };
    let mut sources = Vec::new();
    for id in ids.iter().rev().copied() {
        let Some(uuid) = entry_row(state.read, id)?.uuid(attribute) else { return Ok(None) };
        trace.uuids.push(uuid);
        for link in state.catalog.attributes().iter().filter(|def| def.is_link) {
            let left = DELETE_TRACE_MAX + 1 - sources.len();
            state.read.ids(LINKED, &link_key(id, link.id))?.next_block(&mut sources, left)?;
            if sources.len() > DELETE_TRACE_MAX {
                return Ok(None);
            }
        }
    }
    sources.sort_unstable();
    sources.dedup();
    trace.named_by = sources.into_iter().map(EntryId).collect();
    Ok(Some(trace))
}

/// Checks that the tombstones of a delete are not too large.
#[cold]
fn check_tombstones(state: TreeState<'_>, change: &Change) -> Result<(), OperationError> {
    let ids: Vec<EntryId> = match change {
        Change::Delete(delete) => vec![delete.id],
        Change::DeleteTree(tree) => {
            [tree.top].into_iter().chain(tree.below.iter().map(|below| below.id)).collect()
        }
        _ => Vec::new(),
    };
    let mut bytes = 0;
    for id in ids {
        bytes += tombstones::size(state, id)?;
        if bytes > TOMBSTONES_BYTES_MAX {
            let text = format!(
                "what is deleted has more than {TOMBSTONES_BYTES_MAX} octets, too many to keep (setting \
                 keep_deleted_seconds): delete parts of it first"
            );
            return Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
        }
    }
    Ok(())
}

/// Returns all entries below `top`, each after its superior. Refuses the tree delete if the requester may not delete
/// one of these entries.
fn below(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    top: &Target,
    manage_dsa_it: bool,
) -> Result<Vec<Below>, OperationError> {
    let too_many = || {
        OperationError::refused(
            ResultCode::ADMIN_LIMIT_EXCEEDED,
            format!(
                "more than {TREE_DELETED_MAX} entries are below {}: delete parts of it first",
                Quoted(&top.dn)
            ),
        )
    };
    // If access rules restrict the requester, the rights are checked before this limit. Otherwise the error would
    // reveal the number of entries.
    if !rights.is_restricted() && state.read.count(&subtree_counter(top.id))? > TREE_DELETED_MAX as i64 {
        return Err(too_many());
    }
    let mut found = Vec::new();
    let mut superior = 0;
    let mut next = Some(top.id);
    while let Some(parent) = next {
        for row in state.read.scan_below(NAMES, &id_key(parent)) {
            let (_, value) = row?;
            let (id, flags) = decode_name_row(value).ok_or_else(|| damaged_row("names", parent))?;
            if rights.at_entry(state, id)?.is_some_and(|at| !at.may(DELETE)) {
                return Err(denied("no access rule lets you delete everything below this entry"));
            }
            if flags.is_referral() && !manage_dsa_it {
                return Err(OperationError::refused(
                    ResultCode::AFFECTS_MULTIPLE_DSAS,
                    "an entry below is a referral to another server, which would keep what it has: use \
                     manageDsaIT to delete the referral",
                ));
            }
            if found.len() >= TREE_DELETED_MAX {
                return Err(too_many());
            }
            let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
            let rdn = node.rdn_text().ok_or_else(|| damaged_row("nodes", id))?;
            found.push(Below { id, rdn: rdn.to_owned(), superior });
        }
        next = found.get(superior as usize).map(|below: &Below| below.id);
        superior += 1;
    }
    Ok(found)
}

/// Returns the link attributes with referential integrity. Values of these attributes vanish with the entries that they
/// name.
fn vanishing_attributes(state: TreeState<'_>) -> Vec<AttrId> {
    let catalog = state.catalog;
    let names = &state.settings.general.integrity_attributes;
    let types = names.iter().filter_map(|name| catalog.schema.attribute_type(name));
    types.flat_map(|attribute_type| catalog.stored_attributes_of_type(attribute_type.id)).copied().collect()
}

#[cfg(test)]
mod tests;
