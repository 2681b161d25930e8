//! Rows with the end times (expiration times) of values. These rows are written together with the values.
//!
//! If no value has an end time, this module reads only the number of such rows.

use store::Batch;

use crate::catalog::{Catalog, normal_value};
use crate::model::outcome::OperationError;
use crate::model::record::Value;
use crate::model::rows::{AttrId, DUE, ENDS, EntryId, LINKS, VALUES, link_key, value_key};
use crate::model::value_end::{EndingValue, due_keys, read_until};
use crate::tree::damaged_row;

type Result<T> = std::result::Result<T, OperationError>;

/// Removes and returns the end time of a value. Returns 0 if the value has no end time.
pub(crate) fn take(
    batch: &mut Batch<'_>,
    (source, attribute): (EntryId, AttrId),
    value: EndingValue<'_>,
) -> Result<u64> {
    match batch.row_count(ENDS)? {
        0 => Ok(0),
        _ => take_from(batch, (source, attribute), value),
    }
}

#[cold]
#[inline(never)]
fn take_from(
    batch: &mut Batch<'_>,
    (source, attribute): (EntryId, AttrId),
    value: EndingValue<'_>,
) -> Result<u64> {
    let key = value.key(source, attribute);
    let Some(row) = batch.get(ENDS, &key)? else { return Ok(0) };
    let until = read_until(row).ok_or_else(|| damaged_row("ends", source))?;
    batch.delete(ENDS, &key)?;
    for due in due_keys(&key, until) {
        batch.delete(DUE, &due)?;
    }
    Ok(until)
}

/// Sets the end time of a value. Replaces an existing end time. Does nothing if `until` is 0.
pub(crate) fn set(
    batch: &mut Batch<'_>,
    (source, attribute): (EntryId, AttrId),
    value: EndingValue<'_>,
    until: u64,
) -> Result<()> {
    if until == 0 {
        return Ok(());
    }
    take(batch, (source, attribute), value)?;
    let (key, row) = (value.key(source, attribute), until.to_be_bytes());
    batch.put(ENDS, &key, &row)?;
    for due in due_keys(&key, until) {
        batch.put(DUE, &due, &row)?;
    }
    Ok(())
}

/// Merges the end time `until` of another value that has become equal to this value. The remaining value has the later
/// of the two end times, or none if either value had none.
pub(crate) fn join(
    batch: &mut Batch<'_>,
    place: (EntryId, AttrId),
    value: EndingValue<'_>,
    until: u64,
) -> Result<()> {
    match take(batch, place, value)? {
        0 => Ok(()),
        other if until > 0 => set(batch, place, value, until.max(other)),
        _ => Ok(()),
    }
}

/// Sets the end time of values that the entry has. If the end time is 0, removes the end times of these values.
#[cold]
pub(crate) fn set_all(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    source: EntryId,
    (attribute, values): (AttrId, &[Value]),
    until: u64,
) -> Result<()> {
    for value in values {
        let normal;
        let (value, exists) = match value {
            Value::Link(target) => {
                let exists = batch.contains_id(LINKS, &link_key(source, attribute), target.0)?;
                (EndingValue::Link(*target), exists)
            }
            Value::Bytes(text) => {
                normal = normal_value(&catalog.schema, catalog.attribute(attribute), text);
                let exists = batch.get(VALUES, &value_key(source, attribute, &normal))?.is_some();
                (EndingValue::Text(&normal), exists)
            }
        };
        take(batch, (source, attribute), value)?;
        if exists {
            set(batch, (source, attribute), value, until)?;
        }
    }
    Ok(())
}
