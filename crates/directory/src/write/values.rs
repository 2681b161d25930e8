//! Changes of the values of ordinary attributes. A small value is stored in the entry row, a large value in a row of
//! `values`. If an attribute has many values, each value has its own row of `values`.

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

/// Applies a change to the values of one attribute: to rows, indexes and counters.
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
        OrdinaryValues { batch, changed, attribute }.change(kind, values)
    }
}

/// An ordinary attribute's values during a change.
struct OrdinaryValues<'v, 'b, 'c> {
    batch: &'v mut Batch<'b>,
    changed: &'v mut ChangedEntry<'c>,
    attribute: AttrId,
}

/// Returns a value for the entry row. A large value gets its own row. The result then refers to this row.
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
    Ok(InlineValue::Reference(hash))
}

impl OrdinaryValues<'_, '_, '_> {
    fn change(&mut self, kind: ValueChangeKind, values: &[Value]) -> Result<()> {
        let given: Vec<&[u8]> = values.iter().filter_map(Value::as_bytes).collect();
        let before = match kind {
            ValueChangeKind::Replace => self.all()?,
            ValueChangeKind::Add | ValueChangeKind::Remove => Vec::new(),
            // Only links have end times.
            ValueChangeKind::Until(_) => return Ok(()),
        };
        let (removed, added) = match kind {
            ValueChangeKind::Add => (Vec::new(), given),
            ValueChangeKind::Remove => (given, Vec::new()),
            ValueChangeKind::Replace => (before.iter().map(Vec::as_slice).collect(), given),
            ValueChangeKind::Until(_) => (Vec::new(), Vec::new()),
        };
        self.remove(&removed)?;
        self.add(&added)?;
        if !self.changed.catalog.attribute(self.attribute).index.maintained_parts().is_empty() {
            index::update(self.batch, self.changed, self.attribute, &removed, &added)?;
        }
        Ok(())
    }

    fn remove(&mut self, values: &[&[u8]]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        match self.changed.entry.find(self.attribute) {
            None => {}
            Some(Content::Inline(stored)) => {
                let mut stored: Vec<InlineValue<'_>> = stored.iter().collect();
                for value in values {
                    if value.len() <= INLINE_VALUE_MAX {
                        stored.retain(|kept| kept.here() != Some(*value));
                        continue;
                    }
                    let hash = value_hash(value);
                    stored.retain(|kept| *kept != InlineValue::Reference(hash));
                    self.batch.delete(VALUES, &value_key(self.changed.id, self.attribute, &hash))?;
                }
                let content = inline(self.attribute, &stored);
                self.changed.entry.set(self.attribute, content);
            }
            Some(Content::Table | Content::Links) => {
                for value in values {
                    let key = self.table_key(value);
                    if self.batch.delete(VALUES, &key)? {
                        self.count(-1)?;
                    }
                }
                let counter = value_counter(self.changed.id, self.attribute);
                if self.batch.count(&counter)? < TABLE_VALUE_COUNT_MIN as i64 {
                    self.table_to_inline()?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, values: &[&[u8]]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let mut stored: Vec<InlineValue<'_>> = match self.changed.entry.find(self.attribute) {
            Some(Content::Table | Content::Links) => return self.add_to_table(values),
            Some(Content::Inline(stored)) => stored.iter().collect(),
            None => Vec::new(),
        };
        if stored.len() + values.len() > INLINE_VALUE_COUNT_MAX {
            self.inline_to_table()?;
            return self.add_to_table(values);
        }
        for value in values {
            stored.push(store_inline(self.batch, self.changed.id, self.attribute, value)?);
        }
        let content = inline(self.attribute, &stored);
        self.changed.entry.set(self.attribute, content);
        Ok(())
    }

    fn add_to_table(&mut self, values: &[&[u8]]) -> Result<()> {
        for value in values {
            let key = self.table_key(value);
            if self.batch.get(VALUES, &key)?.is_none() {
                self.count(1)?;
            }
            self.batch.put(VALUES, &key, value)?;
        }
        Ok(())
    }

    fn inline_to_table(&mut self) -> Result<()> {
        let values = self.all()?;
        for value in values.iter().filter(|value| value.len() > INLINE_VALUE_MAX) {
            let key = value_key(self.changed.id, self.attribute, &value_hash(value));
            self.batch.delete(VALUES, &key)?;
        }
        self.changed.entry.set(self.attribute, Some(EncodedAttribute::table(self.attribute)));
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        self.add_to_table(&values)
    }

    fn table_to_inline(&mut self) -> Result<()> {
        let values = self.all()?;
        for value in &values {
            let key = self.table_key(value);
            self.batch.delete(VALUES, &key)?;
        }
        self.count(-(values.len() as i64))?;
        let mut stored = Vec::with_capacity(values.len());
        for value in &values {
            stored.push(store_inline(self.batch, self.changed.id, self.attribute, value)?);
        }
        self.changed.entry.set(self.attribute, inline(self.attribute, &stored));
        Ok(())
    }

    fn all(&self) -> Result<Vec<Vec<u8>>> {
        all(self.batch, self.changed.id, self.changed.entry, self.attribute)
    }

    /// Returns the key of the row that stores this value.
    fn table_key(&self, value: &[u8]) -> Vec<u8> {
        let catalog = self.changed.catalog;
        let normal = normal_value(&catalog.schema, catalog.attribute(self.attribute), value);
        value_key(self.changed.id, self.attribute, &normal)
    }

    fn count(&mut self, delta: i64) -> Result<()> {
        self.batch.bump(&value_counter(self.changed.id, self.attribute), delta)?;
        Ok(())
    }
}

/// Encodes an attribute with these values for the entry row; `None` without values.
fn inline(attribute: AttrId, values: &[InlineValue<'_>]) -> Option<EncodedAttribute> {
    (!values.is_empty()).then(|| EncodedAttribute::inline(attribute, values))
}
