//! Changes under access rules: entries that the requester may change, and responses for other entries.

use ldap::ResultCode;

use crate::access::{Access, EntryRights, Newcomer, RequestContext, Standing, denied, hint};
use crate::model::access_rule::Rights;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::EntryId;
use crate::tree::TreeState;
use crate::tree::target::{Target, entry_dn};

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the effective rights of a requester that wants to add, delete, rename or move entries; `None` if no rules
/// apply. Call it before the entry is looked up.
pub(crate) fn tree_writer(state: TreeState<'_>, context: &RequestContext<'_>) -> Result<Option<Standing>> {
    let access = Access::of(context.requester, state.settings);
    let standing = Standing::of(state, context)?;
    match &standing {
        None => access.check_write_tree()?,
        Some(_) => access.check_bound()?,
    }
    Ok(standing)
}

/// Returns the entry to be changed, if the requester may see it and `may` accepts the rights there.
pub(crate) fn target(
    state: TreeState<'_>,
    standing: Option<&Standing>,
    dn: &str,
    located: Result<Target>,
    (what, right, may): (&str, Rights, fn(&EntryRights) -> bool),
) -> Result<Target> {
    let Some(standing) = standing else { return located };
    let target = match located {
        Ok(target) => target,
        Err(error) => return Err(standing.permitted(state, dn, error)?),
    };
    let rights = standing.at_entry(state, target.id)?;
    if !rights.may_browse() {
        return Err(standing.hidden(state, dn, Some(target.id))?);
    }
    if !may(&rights) {
        let hint = hint(state, standing, &rights, (target.id, right, None))?;
        return Err(denied(format!("no access rule lets you {what} this entry{hint}")));
    }
    Ok(target)
}

/// Returns true if an entry involved in a change is invisible to the requester.
pub(crate) fn is_hidden(state: TreeState<'_>, standing: Option<&Standing>, id: EntryId) -> Result<bool> {
    match standing {
        Some(standing) if id != EntryId::ROOT => Ok(!standing.at_entry(state, id)?.may_browse()),
        _ => Ok(false),
    }
}

/// Returns the refusal of a name that another entry has. A requester that may add entries there cannot be kept from
/// learning that it exists, but nothing else is revealed: if the requester may not see the entry, the diagnostic
/// text has the name as the request spelled it.
pub(crate) fn taken(
    state: TreeState<'_>,
    standing: Option<&Standing>,
    id: EntryId,
    name: impl FnOnce() -> String,
) -> Result<OperationError> {
    let dn = if is_hidden(state, standing, id)? { name() } else { entry_dn(state, id)? };
    let diagnostic = format!("there is an entry {}", Quoted(dn));
    Ok(OperationError::refused(ResultCode::ENTRY_ALREADY_EXISTS, diagnostic))
}

/// Checks that the requester may add an entry below `parent`; `nearest` is the nearest existing entry at or above
/// the place. The entry itself may already exist. `parent` is `None` if there is no such entry.
pub(crate) fn check_new(
    state: TreeState<'_>,
    standing: &Standing,
    dn: &str,
    (parent, nearest): (Option<EntryId>, Option<EntryId>),
    newcomer: Newcomer<'_>,
) -> Result<()> {
    let Some(parent) = parent else { return Err(standing.hidden(state, dn, nearest)?) };
    if standing.below(state, parent, newcomer)?.may_add() {
        return Ok(());
    }
    if parent != EntryId::ROOT && !standing.at_entry(state, parent)?.may_browse() {
        return Err(standing.hidden(state, dn, Some(parent))?);
    }
    Err(denied("no access rule lets you add entries here"))
}
