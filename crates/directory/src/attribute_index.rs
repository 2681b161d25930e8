//! The attribute index: normal values to entry ids, one index an attribute type.
//!
//! Keys keep the order of the type's ordering rule, so the same rows answer equality, ranges, initial substrings and
//! presence. Values with options are indexed under the type: an index gives candidates, the entry decides.

use std::ops::Bound;

use schema::Schema;
use store::{Batch, Direction};

use crate::OperationError;
use crate::apply::Writing;
use crate::catalog::{AttributeDef, Catalog};
use crate::entry::{EntryRow, StoredEntry};
use crate::rows::{AttrId, ENTRIES, EntryId, INDEX, index_key};
use crate::stored_values;

type Result<T> = std::result::Result<T, OperationError>;

/// Entries indexed between two looks at the rows while an index is built.
const BUILD_SLICE: usize = 1_024;

/// The normal form of a value: equal for values that the equality rule makes equal. The bytes themselves where the type
/// has no rule.
pub fn normal_value(schema: &Schema, def: &AttributeDef, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(value.len() + 8);
    match def.equality {
        Some(rule) if rule.normalize(schema, value, &mut key).is_ok() => key,
        _ => value.to_vec(),
    }
}

/// Moves the index rows of one attribute from the values removed to the values added, given in normal form.
///
/// The entry in `writing` is as it is after the change.
pub(crate) fn update(
    batch: &mut Batch<'_>,
    writing: &Writing<'_>,
    attribute: AttrId,
    removed: &[Vec<u8>],
    added: &[Vec<u8>],
) -> Result<()> {
    let def = writing.catalog.attribute(attribute);
    for key in removed.iter().filter(|key| !added.contains(key)) {
        if !other_variant_has(batch, writing, def, key)? {
            batch.remove_id(INDEX, &index_key(def.base, key), writing.id.0)?;
        }
    }
    for key in added {
        batch.insert_id(INDEX, &index_key(def.base, key), writing.id.0)?;
    }
    Ok(())
}

/// Whether the same type with other options has the value, so that its row must stay.
fn other_variant_has(
    batch: &Batch<'_>,
    writing: &Writing<'_>,
    def: &AttributeDef,
    key: &[u8],
) -> Result<bool> {
    let others = writing.entry.attributes.iter().map(|(id, _)| *id);
    for other in others.filter(|id| *id != def.id && writing.catalog.attribute(*id).base == def.base) {
        let values = stored_values::all(batch, writing.id, writing.entry, other)?;
        let other_def = writing.catalog.attribute(other);
        if values.iter().any(|value| normal_value(&writing.catalog.schema, other_def, value) == key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the rows of an index for all entries there are.
pub(crate) fn build(batch: &mut Batch<'_>, catalog: &Catalog, base: AttrId) -> Result<()> {
    let mut after = Bound::Unbounded;
    loop {
        let (rows, last) = slice(batch, catalog, base, after)?;
        for (key, id) in rows {
            batch.insert_id(INDEX, &key, id.0)?;
        }
        match last {
            Some(last) => after = Bound::Excluded(last),
            None => return Ok(()),
        }
    }
}

type IndexRows = Vec<(Vec<u8>, EntryId)>;

fn slice(
    batch: &Batch<'_>,
    catalog: &Catalog,
    base: AttrId,
    after: Bound<[u8; 8]>,
) -> Result<(IndexRows, Option<[u8; 8]>)> {
    let mut rows = Vec::new();
    let mut last = None;
    let from = match &after {
        Bound::Excluded(key) => Bound::Excluded(&key[..]),
        _ => Bound::Unbounded,
    };
    for row in batch.scan(ENTRIES, (from, Bound::Unbounded), Direction::Forward).take(BUILD_SLICE) {
        let (key, bytes) = row?;
        let key: [u8; 8] =
            key.try_into().map_err(|_| OperationError::Damaged("key of entries".to_owned()))?;
        let id = EntryId(u64::from_be_bytes(key));
        let row = EntryRow::decode(bytes).ok_or_else(|| crate::tree::damaged_row("entries", id))?;
        for attribute in row.attributes().filter(|attribute| catalog.attribute(attribute.id).base == base) {
            let entry = StoredEntry::of(&row);
            for value in stored_values::all(batch, id, &entry, attribute.id)? {
                let def = catalog.attribute(attribute.id);
                rows.push((index_key(base, &normal_value(&catalog.schema, def, &value)), id));
            }
        }
        last = Some(key);
    }
    Ok((rows, last))
}
