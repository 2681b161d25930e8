//! Access checks of changes: the entries that the requester may change, and the errors for all other entries.

use ldap::ResultCode;

use crate::access::{EffectiveRights, NewEntryFacts, RequestContext, denied, hint};
use crate::model::access_rule::{ADD, Rights};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::EntryId;
use crate::tree::TreeState;
use crate::tree::target::{Target, entry_dn};

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the effective rights of a requester that may try to add, delete, rename or move entries. Must be called
/// before the entry is looked up, so that the error of other requesters reveals nothing about the entry.
pub(crate) fn tree_writer(state: TreeState<'_>, context: &RequestContext<'_>) -> Result<EffectiveRights> {
    let rights = EffectiveRights::of(state, context)?;
    rights.check_write_tree()?;
    Ok(rights)
}

/// Returns the entry to change, if the requester may see the entry and has the right `right` to the entry.
pub(crate) fn target(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    dn: &str,
    located: Result<Target>,
    (what, right): (&str, Rights),
) -> Result<Target> {
    let target = rights.permitted(state, dn, located)?;
    match rights.at_visible(state, target.id, dn)? {
        Some(at) if !at.may(right) => {
            let hint = hint(state, rights, &at, (target.id, right, None))?;
            Err(denied(format!("no access rule lets you {what} this entry{hint}")))
        }
        _ => Ok(target),
    }
}

/// Returns the error for a new name that an entry already has. A requester that may add entries learns from this error
/// that the entry exists. If the requester may not see the entry, the diagnostic text contains only the name in the
/// request.
pub(crate) fn name_exists(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    id: EntryId,
    name: impl FnOnce() -> String,
) -> Result<OperationError> {
    let dn = if rights.may_browse(state, id)? { entry_dn(state, id)? } else { name() };
    let diagnostic = format!("there is an entry {}", Quoted(dn));
    Ok(OperationError::refused(ResultCode::ENTRY_ALREADY_EXISTS, diagnostic))
}

/// Checks that the requester may add an entry below `parent`. The entry itself may exist already. `parent` is `None` if
/// the parent does not exist. `nearest` is the nearest existing superior.
pub(crate) fn check_new(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    dn: &str,
    (parent, nearest): (Option<EntryId>, Option<EntryId>),
    newcomer: NewEntryFacts<'_>,
) -> Result<()> {
    if !rights.is_restricted() {
        return Ok(());
    }
    let Some(parent) = parent else { return Err(rights.hidden(state, dn, nearest)?) };
    if rights.below(state, parent, newcomer)?.is_none_or(|at| at.may(ADD)) {
        return Ok(());
    }
    if !rights.may_browse(state, parent)? {
        return Err(rights.hidden(state, dn, Some(parent))?);
    }
    Err(denied("no access rule lets you add entries here"))
}
