//! The log for external readers: its records in order, and descriptions of the attributes that records name by number.

use crate::catalog::Secrecy;
use crate::model::entry::EntryRow;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record, Value, ValueChange, ValueChangeKind};
use crate::model::rows::{AttrId, ENTRIES, EntryId, id_key};
use crate::snapshot::Snapshot;
use crate::tree::TreeState;
use crate::tree::stored_values::for_each_value;
use std::ops::ControlFlow;

/// Maximum size, in octets, of the old values that accompany a record. Values that do not fit are omitted.
const OLD_VALUES_BYTES_MAX: usize = 32_768;

/// A record of the log, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    /// The position.
    pub position: u64,
    /// The change and its entry.
    pub record: Record,
}

/// Records of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedChanges {
    /// The oldest position in the log; 0 if the log is empty.
    pub first: u64,
    /// The records from the requested position on. If that position is no longer in the log, the list starts with the
    /// oldest record.
    pub list: Vec<LoggedChange>,
}

/// Description of an attribute that a record names by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedAttribute<'a> {
    /// Name with options.
    pub name: &'a str,
    /// Whether only the administrator may see the values of the attribute.
    pub is_secret: bool,
    /// Whether the attribute is operational.
    pub is_operational: bool,
}

impl Snapshot {
    /// Returns the records from the position `from` on, with a total size of up to `bytes_max` octets. The first record
    /// is returned even if it is larger.
    ///
    /// # Errors
    /// The store failed, or a record is damaged or of a later version.
    pub fn log_changes(&self, from: u64, bytes_max: usize) -> Result<LoggedChanges, OperationError> {
        let read = self.state().read;
        let first = read.first_position()?.unwrap_or(0);
        let (mut list, mut bytes) = (Vec::new(), 0);
        for row in read.log_records(from.max(first)) {
            let (position, encoded) = row?;
            bytes += encoded.len();
            if bytes > bytes_max && !list.is_empty() {
                break;
            }
            let damaged = || OperationError::Damaged(format!("record {position} of the log cannot be read"));
            list.push(LoggedChange { position, record: Record::decode(encoded).ok_or_else(damaged)? });
        }
        Ok(LoggedChanges { first, list })
    }

    /// Returns the description of an attribute.
    pub fn logged_attribute(&self, id: AttrId) -> Option<LoggedAttribute<'_>> {
        let catalog = self.state().catalog;
        let known = catalog.attributes().get(id.0 as usize)?;
        let is_secret = known.secrecy != Secrecy::Open;
        Some(LoggedAttribute { name: &known.name, is_secret, is_operational: known.is_operational })
    }

    /// Returns true if this attribute type, given by name or OID, is a secret; `None` if the schema does not define it.
    pub fn is_secret_type(&self, name_or_oid: &str) -> Option<bool> {
        let catalog = self.state().catalog;
        catalog.schema.attribute_type(name_or_oid).map(|known| catalog.secrets.has(known.id))
    }

    /// Returns a value of a record as text or octets. For a link, returns the current DN of the entry that it names.
    /// If the DN cannot be read, returns the word `entry` and the entry id.
    pub fn logged_value(&self, value: &Value) -> Vec<u8> {
        match value {
            Value::Bytes(bytes) => bytes.clone(),
            Value::Link(id) => match self.state().dn(*id) {
                Ok(Some(dn)) => dn.into_bytes(),
                _ => format!("entry {}", id.0).into_bytes(),
            },
        }
    }
}

/// Returns the old values that a change replaces or removes but does not contain itself. Secret values are omitted.
pub(crate) fn old_values(
    state: TreeState<'_>,
    change: &Change,
) -> Result<Vec<(AttrId, Vec<Value>)>, OperationError> {
    let is_replaced = |changes: &[ValueChange], attribute| {
        let mut changes = changes.iter();
        changes.any(|change| change.attribute == attribute && change.kind == ValueChangeKind::Replace)
    };
    match change {
        Change::Modify(modify) => values_of(state, modify.id, |id| is_replaced(&modify.changes, id)),
        Change::ModifyDn(rename) => values_of(state, rename.id, |id| is_replaced(&rename.changes, id)),
        Change::Delete(delete) => values_of(state, delete.id, |_| true),
        _ => Ok(Vec::new()),
    }
}

fn values_of(
    state: TreeState<'_>,
    id: EntryId,
    wanted: impl Fn(AttrId) -> bool,
) -> Result<Vec<(AttrId, Vec<Value>)>, OperationError> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    let Some(entry) = state.read.get(ENTRIES, &id_key(id))?.and_then(EntryRow::decode) else {
        return Ok(all);
    };
    for row in entry.attributes().filter(|row| wanted(row.id)) {
        let known = state.catalog.attributes().get(row.id.0 as usize);
        if known.is_none_or(|known| known.secrecy != Secrecy::Open) {
            continue;
        }
        let (mut values, before) = (Vec::new(), bytes);
        for_each_value(state, id, &row, &mut |value| {
            bytes += value.len();
            values.push(Value::Bytes(value.to_vec()));
            if bytes > OLD_VALUES_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match bytes > OLD_VALUES_BYTES_MAX {
            true => bytes = before,
            false => all.push((row.id, values)),
        }
    }
    Ok(all)
}
