//! Values of ordinary attributes: in the entry row, beside it when large, a row each when there are many.

use std::ops::Bound;

use store::{Batch, Direction, Read};

use crate::index::{self, normal_value};
use crate::model::entry::{Content, EncodedAttribute, InlineValue, StoredEntry};
use crate::model::limits::{INLINE_VALUE_COUNT_MAX, INLINE_VALUE_MAX, TABLE_VALUE_COUNT_MIN};
use crate::model::outcome::OperationError;
use crate::model::record::{Value, ValueChangeKind};
use crate::model::rows::{AttrId, EntryId, VALUES, link_key, value_counter, value_hash, value_key};
use crate::tree::damaged_row;
use crate::write::apply::Writing;

type Result<T> = std::result::Result<T, OperationError>;

/// A value kept beside its entry row, by the hash that the row has.
pub fn large_value<'r>(read: &'r Read, id: EntryId, attribute: AttrId, hash: &[u8]) -> Result<&'r [u8]> {
    read.get(VALUES, &value_key(id, attribute, hash))?.ok_or_else(|| damaged_row("values", id))
}

/// The rows of `values` of one attribute, in the order of their keys: `(normal value or its head and hash, value)`.
pub fn table_values(
    read: &Read,
    id: EntryId,
    attribute: AttrId,
) -> impl Iterator<Item = Result<(&[u8], &[u8])>> {
    let prefix = link_key(id, attribute);
    let range = (Bound::Included(&prefix[..]), Bound::Unbounded);
    read.scan(VALUES, range, Direction::Forward)
        .take_while(move |row| row.as_ref().map_or(true, |(key, _)| key.starts_with(&prefix)))
        .map(move |row| row.map(|(key, value)| (&key[prefix.len()..], value)).map_err(OperationError::from))
}

/// All values of an attribute that is not a link, copied.
pub(crate) fn all(read: &Read, id: EntryId, entry: &StoredEntry, attribute: AttrId) -> Result<Vec<Vec<u8>>> {
    match entry.find(attribute) {
        None => Ok(Vec::new()),
        Some(Content::Inline(values)) => values
            .iter()
            .map(|value| match value {
                InlineValue::Here(bytes) => Ok(bytes.to_vec()),
                InlineValue::Elsewhere(hash) => large_value(read, id, attribute, &hash).map(<[u8]>::to_vec),
            })
            .collect(),
        Some(Content::Table | Content::Links) => {
            table_values(read, id, attribute).map(|row| row.map(|(_, value)| value.to_vec())).collect()
        }
    }
}

/// Shows the values of an attribute that is not a link, until told that one is the one looked for. Whether it was.
pub(crate) fn any(
    read: &Read,
    id: EntryId,
    entry: &StoredEntry,
    attribute: AttrId,
    is_it: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool> {
    match entry.find(attribute) {
        None => {}
        Some(Content::Inline(values)) => {
            for value in values.iter() {
                let value = match value {
                    InlineValue::Here(bytes) => bytes,
                    InlineValue::Elsewhere(hash) => large_value(read, id, attribute, &hash)?,
                };
                if is_it(value) {
                    return Ok(true);
                }
            }
        }
        Some(Content::Table | Content::Links) => {
            for row in table_values(read, id, attribute) {
                if is_it(row?.1) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Changes the values of one attribute and its index rows.
pub(crate) fn change(
    batch: &mut Batch<'_>,
    writing: &mut Writing<'_>,
    attribute: AttrId,
    kind: ValueChangeKind,
    values: &[Value],
) -> Result<()> {
    let given: Vec<&[u8]> = values.iter().filter_map(Value::as_bytes).collect();
    let before = match kind {
        ValueChangeKind::Replace => all(batch, writing.id, writing.entry, attribute)?,
        ValueChangeKind::Add | ValueChangeKind::Remove => Vec::new(),
    };
    let (removed, added) = match kind {
        ValueChangeKind::Add => (Vec::new(), given),
        ValueChangeKind::Remove => (given, Vec::new()),
        ValueChangeKind::Replace => (before.iter().map(Vec::as_slice).collect(), given),
    };
    remove(batch, writing, attribute, &removed)?;
    add(batch, writing, attribute, &added)?;
    if !writing.catalog.attribute(attribute).index.kept_parts().is_empty() {
        index::update(batch, writing, attribute, &removed, &added)?;
    }
    Ok(())
}

fn remove(
    batch: &mut Batch<'_>,
    writing: &mut Writing<'_>,
    attribute: AttrId,
    values: &[&[u8]],
) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let id = writing.id;
    match writing.entry.find(attribute) {
        None => Ok(()),
        Some(Content::Inline(stored)) => {
            let mut stored: Vec<InlineValue<'_>> = stored.iter().collect();
            for value in values {
                if value.len() <= INLINE_VALUE_MAX {
                    stored.retain(|kept| *kept != InlineValue::Here(value));
                    continue;
                }
                let hash = value_hash(value);
                stored.retain(|kept| *kept != InlineValue::Elsewhere(hash));
                batch.delete(VALUES, &value_key(id, attribute, &hash))?;
            }
            let content = (!stored.is_empty()).then(|| EncodedAttribute::inline(attribute, &stored));
            writing.entry.set(attribute, content);
            Ok(())
        }
        Some(Content::Table | Content::Links) => {
            let def = writing.catalog.attribute(attribute);
            for value in values {
                let key = value_key(id, attribute, &normal_value(&writing.catalog.schema, def, value));
                if batch.delete(VALUES, &key)? {
                    batch.bump(&value_counter(id, attribute), -1)?;
                }
            }
            if batch.count(&value_counter(id, attribute))? < TABLE_VALUE_COUNT_MIN as i64 {
                table_to_inline(batch, writing, attribute)?;
            }
            Ok(())
        }
    }
}

fn add(batch: &mut Batch<'_>, writing: &mut Writing<'_>, attribute: AttrId, values: &[&[u8]]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let stored: Vec<InlineValue<'_>> = match writing.entry.find(attribute) {
        Some(Content::Table | Content::Links) => {
            return add_to_table(batch, writing, attribute, values);
        }
        Some(Content::Inline(stored)) => stored.iter().collect(),
        None => Vec::new(),
    };
    if stored.len() + values.len() > INLINE_VALUE_COUNT_MAX {
        inline_to_table(batch, writing, attribute)?;
        return add_to_table(batch, writing, attribute, values);
    }
    let mut stored = stored;
    for value in values {
        stored.push(store_inline(batch, writing.id, attribute, value)?);
    }
    let content = EncodedAttribute::inline(attribute, &stored);
    writing.entry.set(attribute, Some(content));
    Ok(())
}

/// Puts a value beside the entry row if it is a large one. Returns what the row has of it.
pub(crate) fn store_inline<'v>(
    batch: &mut Batch<'_>,
    id: EntryId,
    attribute: AttrId,
    value: &'v [u8],
) -> Result<InlineValue<'v>> {
    if value.len() <= INLINE_VALUE_MAX {
        return Ok(InlineValue::Here(value));
    }
    let hash = value_hash(value);
    batch.put(VALUES, &value_key(id, attribute, &hash), value)?;
    Ok(InlineValue::Elsewhere(hash))
}

fn add_to_table(
    batch: &mut Batch<'_>,
    writing: &Writing<'_>,
    attribute: AttrId,
    values: &[&[u8]],
) -> Result<()> {
    let def = writing.catalog.attribute(attribute);
    for value in values {
        let key = value_key(writing.id, attribute, &normal_value(&writing.catalog.schema, def, value));
        if batch.get(VALUES, &key)?.is_none() {
            batch.bump(&value_counter(writing.id, attribute), 1)?;
        }
        batch.put(VALUES, &key, value)?;
    }
    Ok(())
}

fn inline_to_table(batch: &mut Batch<'_>, writing: &mut Writing<'_>, attribute: AttrId) -> Result<()> {
    let values = all(batch, writing.id, writing.entry, attribute)?;
    for value in values.iter().filter(|value| value.len() > INLINE_VALUE_MAX) {
        batch.delete(VALUES, &value_key(writing.id, attribute, &value_hash(value)))?;
    }
    writing.entry.set(attribute, Some(EncodedAttribute::table(attribute)));
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    add_to_table(batch, writing, attribute, &values)
}

fn table_to_inline(batch: &mut Batch<'_>, writing: &mut Writing<'_>, attribute: AttrId) -> Result<()> {
    let values = all(batch, writing.id, writing.entry, attribute)?;
    let def = writing.catalog.attribute(attribute);
    for value in &values {
        let normal = normal_value(&writing.catalog.schema, def, value);
        batch.delete(VALUES, &value_key(writing.id, attribute, &normal))?;
    }
    batch.bump(&value_counter(writing.id, attribute), -(values.len() as i64))?;
    let mut stored = Vec::with_capacity(values.len());
    for value in &values {
        stored.push(store_inline(batch, writing.id, attribute, value)?);
    }
    let content = (!stored.is_empty()).then(|| EncodedAttribute::inline(attribute, &stored));
    writing.entry.set(attribute, content);
    Ok(())
}
