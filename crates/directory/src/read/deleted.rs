//! Deleted entries that the directory keeps: a list of them, and the entries that searches return for them.

mod entry;

use std::ops::Bound;

use ldap::{DeletedAnswer, DeletedEntry, DeletedRequest, ResultCode};
use store::Direction;

use crate::model::limits::TOMBSTONES_LISTED_MAX;
use crate::model::name::{NormalName, name_in, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::{DELETED, EntryId};
use crate::model::tombstone::{KIND_ENTRY, Tombstone, TombstonePlace, uuid_prefix};
use crate::tree::{TreeState, damaged_row};
pub(crate) use entry::{Deleted, Links};

/// Returns a part of the list of deleted entries, newest first. Examines at most `TOMBSTONES_LISTED_MAX` tombstones.
/// The caller must have checked that the requester may use the operation.
///
/// # Errors
/// protocolError if the request continues the list at a place that no earlier answer returned;
/// invalidDNSyntax; the store failed.
pub fn list(state: TreeState<'_>, request: &DeletedRequest<'_>) -> Result<DeletedAnswer, OperationError> {
    let schema = &state.catalog.schema;
    let wanted = match request.name {
        None => None,
        Some(name) => Some(NormalName::of(&parse_dn(name)?, schema)),
    };
    let end = [KIND_ENTRY + 1];
    let to = match (request.from, TombstonePlace::of_key(request.from)) {
        ([], _) => &end[..],
        (from, Some(_)) => from,
        (_, None) => {
            let text = "the list of deleted entries does not continue there";
            return Err(OperationError::refused(ResultCode::PROTOCOL_ERROR, text));
        }
    };
    let mut answer = DeletedAnswer::default();
    let range = (Bound::Included(&[KIND_ENTRY][..]), Bound::Excluded(to));
    for (count, row) in state.read.scan(DELETED, range, Direction::Backward).enumerate() {
        let (key, value) = row?;
        if count == TOMBSTONES_LISTED_MAX {
            break;
        }
        let head = Tombstone::decode_head(value).ok_or_else(|| damaged_row("deleted", EntryId::ROOT))?;
        let is_wanted = wanted.as_ref().is_none_or(|wanted| {
            name_in(schema, head.dn.as_bytes()).is_some_and(|name| name.key == wanted.key)
        });
        answer.next = if count + 1 == TOMBSTONES_LISTED_MAX { key.to_vec() } else { Vec::new() };
        if is_wanted {
            let Tombstone { uuid, micros, requester, dn, .. } = head;
            answer.entries.push(DeletedEntry { uuid, micros, requester, dn });
        }
    }
    Ok(answer)
}

/// Returns the place of the newest tombstone with this entryUUID.
///
/// # Errors
/// The store failed.
pub(crate) fn newest(
    state: TreeState<'_>,
    uuid: &[u8; 16],
) -> Result<Option<TombstonePlace>, OperationError> {
    let mut found = None;
    for row in state.read.scan_below(DELETED, &uuid_prefix(uuid)) {
        let (key, id) = row?;
        let position = key
            .last_chunk()
            .map(|position| u64::from_be_bytes(*position))
            .ok_or_else(|| damaged_row("deleted", EntryId::ROOT))?;
        let id =
            EntryId(u64::from_be_bytes(id.try_into().map_err(|_| damaged_row("deleted", EntryId::ROOT))?));
        found = Some(TombstonePlace { position, id });
    }
    Ok(found)
}

/// Returns true if at least one tombstone is older than the setting `keep_deleted_seconds` allows.
///
/// # Errors
/// The store failed.
pub fn is_one_expired(state: TreeState<'_>, now_micros: u64) -> Result<bool, OperationError> {
    let Some(row) = state.read.scan_below(DELETED, &[KIND_ENTRY]).next() else { return Ok(false) };
    let head = Tombstone::decode_head(row?.1).ok_or_else(|| damaged_row("deleted", EntryId::ROOT))?;
    Ok(head.is_expired(state.settings.general.keep_deleted_seconds, now_micros))
}
