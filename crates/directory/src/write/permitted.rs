//! Changes under access rules: which entries the asker may change, and what those who may not are told.

use ldap::ResultCode;

use crate::access::{Access, EntryRights, Newcomer, Requester, Standing, denied, hint};
use crate::model::access_rule::Rights;
use crate::model::client_link::ClientLink;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::EntryId;
use crate::tree::TreeState;
use crate::tree::target::{Target, entry_dn};

type Result<T> = std::result::Result<T, OperationError>;

/// The standing of who wants to add, delete, rename or move entries; `None` where no rules bind. Ask before looking for
/// the entry.
pub(crate) fn tree_writer(
    state: TreeState<'_>,
    requester: &Requester,
    link: Option<&ClientLink>,
) -> Result<Option<Standing>> {
    let access = Access::of(requester, state.settings);
    let standing = Standing::of(state, requester, link)?;
    match &standing {
        None => access.check_write_tree()?,
        Some(_) => access.check_bound()?,
    }
    Ok(standing)
}

/// The entry that is to be changed, where the asker may see it and `may` says yes to the rights there.
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

/// Whether an entry on the way of a change is not there for the requester.
pub(crate) fn is_hidden(state: TreeState<'_>, standing: Option<&Standing>, id: EntryId) -> Result<bool> {
    match standing {
        Some(standing) if id != EntryId::ROOT => Ok(!standing.at_entry(state, id)?.may_browse()),
        _ => Ok(false),
    }
}

/// The refusal of a name that another entry has. That it has one cannot be kept from who may put entries there;
/// everything else of it can, so a requester who may not see the entry gets the name as the request has it.
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

/// Whether the asker may put an entry below `parent`, where `nearest` is the nearest entry that there is at or above
/// the place; the entry itself may be there already. `None` stands for a parent that is not there.
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
