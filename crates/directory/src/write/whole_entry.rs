//! Writes and deletes whole entries.
//!
//! An add or a delete affects all attributes of an entry, so no old state has to be compared. The entry row is written
//! or deleted in one step. The index rows of all attributes are collected and sorted by page. Changing these rows
//! value by value would be far slower.

use store::Batch;

use crate::catalog::{AttributeDef, Catalog};
use crate::index::keys::{RowKey, rows_of};
use crate::links::ends;
use crate::model::entry::{Content, EncodedAttribute, EntryRow, InlineValue, RowWriter, StoredEntry};
use crate::model::limits::INLINE_VALUE_COUNT_MAX;
use crate::model::outcome::OperationError;
use crate::model::record::{Add, Value, ValueChangeKind};
use crate::model::rows::{ENTRIES, EntryId, VALUES, id_key, value_key};
use crate::tree::damaged_row;
use crate::tree::entry_rows::ChangedEntry;
use crate::tree::stored_values::whole_value;
use crate::write::values::{change, store_inline};

type Result<T> = std::result::Result<T, OperationError>;

/// Writes the attributes of an entry that does not exist, with their index rows.
pub(crate) fn put(batch: &mut Batch<'_>, catalog: &Catalog, position: u64, add: &Add) -> Result<()> {
    let mut row = RowWriter::begin(Vec::with_capacity(1_024), position);
    let mut index_rows = Vec::new();
    let mut inline = Vec::new();
    for (attribute, values) in &add.values {
        let def = catalog.attribute(*attribute);
        if def.is_link || values.len() > INLINE_VALUE_COUNT_MAX {
            put_in_rows(batch, catalog, add.id, def, values, &mut row)?;
            continue;
        }
        let parts = def.index.maintained_parts();
        for value in values.iter().filter_map(Value::as_bytes) {
            inline.push(store_inline(batch, add.id, def.id, value)?);
            rows_of(&catalog.schema, def, parts, value, &mut index_rows);
        }
        if !inline.is_empty() {
            row.inline(def.id, &inline);
            inline.clear();
        }
    }
    for change in &add.ends {
        if let ValueChangeKind::Until(until) = change.kind {
            ends::set_all(batch, catalog, add.id, (change.attribute, &change.values), until)?;
        }
    }
    batch.put(ENTRIES, &id_key(add.id), &row.finish())?;
    // No key contains the id yet, because the entry is new and ids are never reused.
    for (part, key) in in_order(index_rows) {
        batch.insert_new_id(part.map(), &key, add.id.0)?;
    }
    Ok(())
}

/// Writes the values of an attribute that has one row per value.
fn put_in_rows(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    id: EntryId,
    def: &AttributeDef,
    values: &[Value],
    row: &mut RowWriter,
) -> Result<()> {
    let mut entry = StoredEntry::default();
    let mut changed = ChangedEntry { catalog, id, entry: &mut entry };
    change(batch, &mut changed, def.id, ValueChangeKind::Add, values)?;
    match entry.find(def.id) {
        Some(Content::Links) => row.links(def.id),
        Some(Content::Table) => row.table(def.id),
        Some(Content::Inline(_)) | None => {}
    }
    Ok(())
}

/// Result of [`remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Done,
    /// The entry does not exist.
    Missing,
    /// During replay: the entry was restored after the delete, so nothing was removed.
    CameBack,
}

/// Deletes the attributes of an entry with their index rows. `position` is the log position of the delete.
pub(crate) fn remove(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    id: EntryId,
) -> Result<Removal> {
    let Some(bytes) = batch.get(ENTRIES, &id_key(id))?.map(<[u8]>::to_vec) else {
        return Ok(Removal::Missing);
    };
    let row = EntryRow::decode(&bytes).ok_or_else(|| damaged_row("entries", id))?;
    if row.position > position {
        return Ok(Removal::CameBack);
    }
    let mut index_rows = Vec::new();
    for attribute in row.attributes() {
        let def = catalog.attribute(attribute.id);
        let parts = def.index.maintained_parts();
        let values = match attribute.content {
            Content::Inline(values) => values,
            Content::Table => {
                remove_rows(batch, catalog, id, def, EncodedAttribute::table(def.id))?;
                continue;
            }
            Content::Links => {
                remove_rows(batch, catalog, id, def, EncodedAttribute::links(def.id))?;
                continue;
            }
        };
        for value in values.iter() {
            if !parts.is_empty() {
                let value = whole_value(batch, id, def.id, &value)?;
                rows_of(&catalog.schema, def, parts, value, &mut index_rows);
            }
            if let InlineValue::Reference(hash) = value {
                batch.delete(VALUES, &value_key(id, def.id, &hash))?;
            }
        }
    }
    batch.delete(ENTRIES, &id_key(id))?;
    for (part, key) in in_order(index_rows) {
        batch.remove_id(part.map(), &key, id.0)?;
    }
    Ok(Removal::Done)
}

/// Deletes the values of an attribute that has one row per value.
fn remove_rows(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    id: EntryId,
    def: &AttributeDef,
    content: EncodedAttribute,
) -> Result<()> {
    let mut entry = StoredEntry::default();
    entry.set(def.id, Some(content));
    let mut changed = ChangedEntry { catalog, id, entry: &mut entry };
    change(batch, &mut changed, def.id, ValueChangeKind::Replace, &[])
}

/// Returns index rows without duplicates, in the order of store pages.
fn in_order(mut rows: Vec<RowKey>) -> Vec<RowKey> {
    rows.sort_unstable();
    rows.dedup();
    rows
}
