//! The copies of an entry that the answer to a change has: as it was before, and as it is after (RFC 4527).

use ldap::{Control, ControlsBuf, Request, ResultCode};

use crate::access::Requester;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::model::rows::EntryId;
use crate::read::controls::{CopyAsked, RequestControls};
use crate::read::search::copy_of_entry;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Refuses a request that wants a copy where there is no entry of the tree to copy.
///
/// # Errors
/// unavailableCriticalExtension, where the client can do nothing with the answer otherwise.
pub(super) fn check_none(controls: &RequestControls) -> Result<()> {
    let (before, after) = controls.copies();
    if !before.into_iter().chain(after).any(|asked| asked.is_critical) {
        return Ok(());
    }
    Err(OperationError::refused(
        ResultCode::UNAVAILABLE_CRITICAL_EXTENSION,
        "settings are no entries of the tree: there is no copy of them (RFC 4527)",
    ))
}

/// The entry that a change is about, which is decided and not made yet.
pub(super) fn subject(
    state: TreeState<'_>,
    request: &Request<'_>,
    record: Option<&Record>,
) -> Result<EntryId> {
    let dn = match request {
        Request::Modify(modify) => modify.object,
        Request::Delete(delete) => delete.entry,
        Request::ModifyDn(rename) => rename.entry,
        _ => "",
    };
    let id = match record.map(|record| &record.change) {
        Some(Change::Add(add)) => Some(add.id),
        _ => state.entry_of(&NormalName::of(&parse_dn(dn)?, &state.catalog.schema))?,
    };
    id.ok_or(OperationError::Defect("a change was decided of an entry that is not there"))
}

/// Adds the copy as of before the change, or as of after it: `copy` says which control that is. Returns why there is
/// none, where the client can do without.
///
/// # Errors
/// There is none, and the client asked for it by a critical control: the change is not to be made, or taken back.
pub(super) fn put(
    state: TreeState<'_>,
    (requester, controls): (&Requester, &RequestControls),
    id: EntryId,
    (oid, asked): (&str, &CopyAsked),
    copies: &mut ControlsBuf,
) -> Result<Option<String>> {
    let none = match copy_of_entry(state, requester, controls, id, asked) {
        Ok(Some(entry)) => {
            copies.push(Control { oid, critical: false, value: Some(&entry) });
            return Ok(None);
        }
        Ok(None) => OperationError::refused(
            ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
            "you may not see the entry, so there is no copy of it (RFC 4527)",
        ),
        Err(error) => error,
    };
    match none {
        OperationError::Refused { diagnostic, .. } if !asked.is_critical => Ok(Some(diagnostic)),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests;
