//! Entries that the other server may have changed without a message, by the records that repeated its changes.

use std::collections::BTreeSet;

use ldap::SyncUuid;
use store::Position;

use super::{ENTRY_UUID, Result};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Delete, DeleteTree, Modify, Record, Value};
use crate::model::rows::AttrId;
use crate::snapshot::Snapshot;
use crate::tree::entry_row;

/// Returns the entries, with their DNs, that received a value that names no entry, or that named a deleted entry, by
/// the records after a position; and the position of the last record. Returns about `max` entries at most.
///
/// # Errors
/// The store failed, or a record is damaged.
pub fn doubtful(
    snapshot: &Snapshot,
    since: Position,
    max: usize,
) -> Result<(Vec<(SyncUuid, String)>, Position)> {
    let state = snapshot.state();
    let newest = state.read.position()?;
    let first = state.read.first_position()?.unwrap_or(1);
    let is_link = |attribute: AttrId| state.catalog.attribute(attribute).is_link;
    let has_text = |values: &[Value]| values.iter().any(|value| matches!(value, Value::Bytes(_)));
    let mut ids = BTreeSet::new();
    for record in state.read.log_records((since + 1).max(first)) {
        let (position, bytes) = record?;
        if position > newest || ids.len() >= max {
            break;
        }
        let damaged = || OperationError::Damaged(format!("the record at position {position} of the log"));
        match Record::decode(bytes).ok_or_else(damaged)?.change {
            Change::Add(add) if add.values.iter().any(|(of, values)| is_link(*of) && has_text(values)) => {
                ids.insert(add.id);
            }
            Change::Modify(Modify { id, changes, .. })
                if changes.iter().any(|change| is_link(change.attribute) && has_text(&change.values)) =>
            {
                ids.insert(id);
            }
            Change::Delete(Delete { trace: Some(trace), .. })
            | Change::DeleteTree(DeleteTree { trace: Some(trace), .. }) => ids.extend(trace.named_by),
            _ => {}
        }
    }
    let type_id = state.catalog.schema.attribute_type(ENTRY_UUID).map(|known| known.id);
    let attribute = type_id.and_then(|id| state.catalog.attribute_id(id, ""));
    let mut entries = Vec::new();
    for id in ids {
        let (Some(dn), Some(attribute)) = (state.dn(id)?, attribute) else { continue };
        entries.extend(entry_row(state.read, id)?.uuid(attribute).map(|uuid| (uuid, dn)));
    }
    Ok((entries, newest))
}
