//! The copies of an entry that the answer to a change has: as it was before, and as it is after (RFC 4527).

use ldap::{Control, ControlsBuf, Request, ResultCode, oids};

use crate::access::Requester;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::model::rows::EntryId;
use crate::read::controls::RequestControls;
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

/// Adds the copy as of before the change, which can still be refused.
///
/// # Errors
/// It is too large, and critical.
pub(super) fn put_before(
    state: TreeState<'_>,
    requester: &Requester,
    controls: &RequestControls,
    id: EntryId,
    copies: &mut ControlsBuf,
) -> Result<()> {
    let (Some(asked), _) = controls.copies() else { return Ok(()) };
    match copy_of_entry(state, requester, controls, id, asked) {
        Err(OperationError::Refused { .. }) if !asked.is_critical => {}
        copy => push(copies, oids::PRE_READ, copy?),
    }
    Ok(())
}

/// Adds the copy as of after the change, which is made. Returns what is to be said where it is too large.
pub(super) fn put_after(
    state: TreeState<'_>,
    requester: &Requester,
    controls: &RequestControls,
    id: EntryId,
    copies: &mut ControlsBuf,
) -> Result<String> {
    let (_, Some(asked)) = controls.copies() else { return Ok(String::new()) };
    match copy_of_entry(state, requester, controls, id, asked) {
        Err(OperationError::Refused { diagnostic, .. }) => return Ok(format!("made, but {diagnostic}")),
        copy => push(copies, oids::POST_READ, copy?),
    }
    Ok(String::new())
}

fn push(copies: &mut ControlsBuf, oid: &str, copy: Option<Vec<u8>>) {
    if let Some(entry) = copy {
        copies.push(Control { oid, critical: false, value: Some(&entry) });
    }
}

#[cfg(test)]
mod tests;
