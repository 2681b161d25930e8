//! Delete (RFC 4511 section 4.8).
//!
//! Only leaves are deleted; a suffix entry is a leaf like another and can be added again. Links to the entry become
//! text or, where the setting asks for integrity, vanish: `apply` does that.

use ldap::{DeleteRequest, ResultCode};

use crate::access::EntryRights;
use crate::catalog::Allocations;
use crate::model::access_rule::DELETE;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::{Change, Delete, Record};
use crate::model::rows::{AttrId, children_counter};
use crate::read::search::check_assertion;
use crate::tree::TreeState;
use crate::tree::target::{check_not_virtual, locate_name};
use crate::write::deciding::Deciding;
use crate::write::permitted;

/// Decides a delete request.
pub(crate) fn decide(deciding: Deciding<'_>, request: &DeleteRequest<'_>) -> Result<Record, OperationError> {
    let Deciding { state, requester, controls, .. } = deciding;
    let dn = parse_dn(request.entry)?;
    let standing = permitted::tree_writer(state, requester, controls.link.as_ref())?;
    let name = NormalName::of(&dn, &state.catalog.schema);
    check_not_virtual(state, &dn, &name, ResultCode::UNWILLING_TO_PERFORM)?;
    let located = locate_name(state, &dn, &name, controls.manage_dsa_it);
    let may = ("delete", DELETE, EntryRights::may_delete as fn(&EntryRights) -> bool);
    let target = permitted::target(state, standing.as_ref(), request.entry, located, may)?;
    check_assertion(state, requester, controls, target.id)?;
    let child_count = state.read.count(&children_counter(target.id))?;
    if child_count > 0 {
        let entries = if child_count == 1 { "entry" } else { "entries" };
        return Err(OperationError::refused(
            ResultCode::NOT_ALLOWED_ON_NON_LEAF,
            format!(
                "{} has {child_count} {entries} directly below it: delete what is below first",
                Quoted(&target.dn)
            ),
        ));
    }
    let delete = Delete { id: target.id, dn: target.dn, vanishing: vanishing_attributes(state) };
    Ok(deciding.record(Allocations::new(state.catalog), Change::Delete(delete)))
}

/// The link attributes for which integrity is on.
fn vanishing_attributes(state: TreeState<'_>) -> Vec<AttrId> {
    let catalog = state.catalog;
    let names = &state.settings.general.integrity_attributes;
    let types = names.iter().filter_map(|name| catalog.schema.attribute_type(name));
    types.flat_map(|attribute_type| catalog.attributes_of_type(attribute_type.id)).copied().collect()
}

#[cfg(test)]
mod tests;
