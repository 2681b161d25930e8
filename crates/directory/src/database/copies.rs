//! Pre-read and post-read controls (RFC 4527): the response to a change contains copies of the entry.

use ldap::{Control, ControlsBuf, Request, ResultCode};

use crate::access::RequestContext;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::model::rows::EntryId;
use crate::read::controls::{EntryCopyOptions, RequestControls};
use crate::read::search::copy_of_entry;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Checks that a change of settings, or of the administrator's password, has no critical pre-read or post-read control,
/// because the object of the change is not an entry of the tree.
///
/// # Errors
/// unavailableCriticalExtension, if the control is critical.
pub(super) fn check_none(controls: &RequestControls) -> Result<()> {
    let (before, after) = controls.copies();
    if !before.into_iter().chain(after).any(|asked| asked.is_critical) {
        return Ok(());
    }
    Err(OperationError::refused(
        ResultCode::UNAVAILABLE_CRITICAL_EXTENSION,
        "the object is not an entry of the tree: there is no copy of it (RFC 4527)",
    ))
}

/// Returns the entry that `request` changes. `record` is the record of the change. The record must not be applied yet.
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
    id.ok_or(OperationError::Defect("a change was decided for an entry that does not exist"))
}

/// Adds the copy for the pre-read or the post-read control. `oid` is the OID of the control. Returns the reason if no
/// copy can be made and the control is not critical.
///
/// # Errors
/// No copy can be made, and the control is critical. The caller must not apply the change, or must roll it back.
pub(super) fn put(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    id: EntryId,
    (oid, asked): (&str, &EntryCopyOptions),
    copies: &mut ControlsBuf,
) -> Result<Option<String>> {
    let none = match copy_of_entry(state, context, id, asked) {
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
