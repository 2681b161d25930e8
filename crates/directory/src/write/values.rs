//! Changes of the values of ordinary attributes: in the entry row, beside it when large, a row each when there are
//! many.

use store::Batch;

use crate::catalog::normal_value;
use crate::model::entry::{Content, EncodedAttribute, InlineValue};
use crate::model::limits::{INLINE_VALUE_COUNT_MAX, INLINE_VALUE_MAX, TABLE_VALUE_COUNT_MIN};
use crate::model::outcome::OperationError;
use crate::model::record::{Value, ValueChangeKind};
use crate::model::rows::{AttrId, EntryId, VALUES, value_counter, value_hash, value_key};
use crate::tree::entry_rows::ChangedEntry;
use crate::tree::stored_values::all;
use crate::{index, links};

type Result<T> = std::result::Result<T, OperationError>;

/// Makes one change to the values of one attribute: rows, index and counters.
pub(crate) fn change(
    batch: &mut Batch<'_>,
    changed: &mut ChangedEntry<'_>,
    attribute: AttrId,
    kind: ValueChangeKind,
    values: &[Value],
) -> Result<()> {
    if changed.catalog.attribute(attribute).is_link {
        links::change(batch, changed, attribute, kind, values)
    } else {
        change_ordinary(batch, changed, attribute, kind, values)
    }
}

/// The same for an attribute that is not a link.
fn change_ordinary(
    batch: &mut Batch<'_>,
    changed: &mut ChangedEntry<'_>,
    attribute: AttrId,
    kind: ValueChangeKind,
    values: &[Value],
) -> Result<()> {
    let given: Vec<&[u8]> = values.iter().filter_map(Value::as_bytes).collect();
    let before = match kind {
        ValueChangeKind::Replace => all(batch, changed.id, changed.entry, attribute)?,
        ValueChangeKind::Add | ValueChangeKind::Remove => Vec::new(),
    };
    let (removed, added) = match kind {
        ValueChangeKind::Add => (Vec::new(), given),
        ValueChangeKind::Remove => (given, Vec::new()),
        ValueChangeKind::Replace => (before.iter().map(Vec::as_slice).collect(), given),
    };
    remove(batch, changed, attribute, &removed)?;
    add(batch, changed, attribute, &added)?;
    if !changed.catalog.attribute(attribute).index.kept_parts().is_empty() {
        index::update(batch, changed, attribute, &removed, &added)?;
    }
    Ok(())
}

fn remove(
    batch: &mut Batch<'_>,
    changed: &mut ChangedEntry<'_>,
    attribute: AttrId,
    values: &[&[u8]],
) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let id = changed.id;
    match changed.entry.find(attribute) {
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
            changed.entry.set(attribute, content);
            Ok(())
        }
        Some(Content::Table | Content::Links) => {
            let def = changed.catalog.attribute(attribute);
            for value in values {
                let key = value_key(id, attribute, &normal_value(&changed.catalog.schema, def, value));
                if batch.delete(VALUES, &key)? {
                    batch.bump(&value_counter(id, attribute), -1)?;
                }
            }
            if batch.count(&value_counter(id, attribute))? < TABLE_VALUE_COUNT_MIN as i64 {
                table_to_inline(batch, changed, attribute)?;
            }
            Ok(())
        }
    }
}

fn add(
    batch: &mut Batch<'_>,
    changed: &mut ChangedEntry<'_>,
    attribute: AttrId,
    values: &[&[u8]],
) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let stored: Vec<InlineValue<'_>> = match changed.entry.find(attribute) {
        Some(Content::Table | Content::Links) => {
            return add_to_table(batch, changed, attribute, values);
        }
        Some(Content::Inline(stored)) => stored.iter().collect(),
        None => Vec::new(),
    };
    if stored.len() + values.len() > INLINE_VALUE_COUNT_MAX {
        inline_to_table(batch, changed, attribute)?;
        return add_to_table(batch, changed, attribute, values);
    }
    let mut stored = stored;
    for value in values {
        stored.push(store_inline(batch, changed.id, attribute, value)?);
    }
    let content = EncodedAttribute::inline(attribute, &stored);
    changed.entry.set(attribute, Some(content));
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
    changed: &ChangedEntry<'_>,
    attribute: AttrId,
    values: &[&[u8]],
) -> Result<()> {
    let def = changed.catalog.attribute(attribute);
    for value in values {
        let key = value_key(changed.id, attribute, &normal_value(&changed.catalog.schema, def, value));
        if batch.get(VALUES, &key)?.is_none() {
            batch.bump(&value_counter(changed.id, attribute), 1)?;
        }
        batch.put(VALUES, &key, value)?;
    }
    Ok(())
}

fn inline_to_table(batch: &mut Batch<'_>, changed: &mut ChangedEntry<'_>, attribute: AttrId) -> Result<()> {
    let values = all(batch, changed.id, changed.entry, attribute)?;
    for value in values.iter().filter(|value| value.len() > INLINE_VALUE_MAX) {
        batch.delete(VALUES, &value_key(changed.id, attribute, &value_hash(value)))?;
    }
    changed.entry.set(attribute, Some(EncodedAttribute::table(attribute)));
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    add_to_table(batch, changed, attribute, &values)
}

fn table_to_inline(batch: &mut Batch<'_>, changed: &mut ChangedEntry<'_>, attribute: AttrId) -> Result<()> {
    let values = all(batch, changed.id, changed.entry, attribute)?;
    let def = changed.catalog.attribute(attribute);
    for value in &values {
        let normal = normal_value(&changed.catalog.schema, def, value);
        batch.delete(VALUES, &value_key(changed.id, attribute, &normal))?;
    }
    batch.bump(&value_counter(changed.id, attribute), -(values.len() as i64))?;
    let mut stored = Vec::with_capacity(values.len());
    for value in &values {
        stored.push(store_inline(batch, changed.id, attribute, value)?);
    }
    let content = (!stored.is_empty()).then(|| EncodedAttribute::inline(attribute, &stored));
    changed.entry.set(attribute, content);
    Ok(())
}
