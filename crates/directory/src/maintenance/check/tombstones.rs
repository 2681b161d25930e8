//! Check of tombstones.

use data_encoding::HEXLOWER;

use super::{Fix, Report, Result};
use crate::model::rows::{DELETED, id_key};
use crate::model::tombstone::{KIND_ENTRY, KIND_UUID, Tombstone, TombstonePlace};
use crate::tree::TreeState;

/// Reads all tombstones. Compares them with the rows that map entryUUIDs to tombstones.
pub(super) fn check(state: TreeState<'_>, report: &mut Report<'_>) -> Result<()> {
    for row in state.read.scan_below(DELETED, &[KIND_ENTRY]) {
        let (key, value) = row?;
        let (Some(place), Some(tombstone)) = (TombstonePlace::of_key(key), Tombstone::decode(value)) else {
            report.found(format!("deleted: row {} is damaged", HEXLOWER.encode(key)), Vec::new())?;
            continue;
        };
        let (key, id) = (place.uuid_key(&tombstone.uuid), id_key(place.id));
        if state.read.get(DELETED, &key)? != Some(&id[..]) {
            let text = format!("deleted: entry {} is not found by its entryUUID", place.id.0);
            report.found(text, vec![Fix::Put(DELETED, key.to_vec(), id.to_vec())])?;
        }
    }
    for row in state.read.scan_below(DELETED, &[KIND_UUID]) {
        let (key, id) = row?;
        let position = key.last_chunk().map(|position| u64::from_be_bytes(*position));
        let place = position.zip(id.try_into().ok()).map(|(position, id)| TombstonePlace {
            position,
            id: crate::model::rows::EntryId(u64::from_be_bytes(id)),
        });
        let tombstone = match place {
            Some(place) => state.read.get(DELETED, &place.key())?.and_then(Tombstone::decode_head),
            None => None,
        };
        let is_right = place.zip(tombstone).is_some_and(|(place, of)| place.uuid_key(&of.uuid) == key);
        if !is_right {
            let text = format!("deleted: row {} leads to no deleted entry", HEXLOWER.encode(key));
            report.found(text, vec![Fix::Delete(DELETED, key.to_vec())])?;
        }
    }
    Ok(())
}
