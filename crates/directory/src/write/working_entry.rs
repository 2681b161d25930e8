//! An existing entry that an operation changes in memory: its stored values, and the values that the operation adds
//! and removes. An add builds a [`NewEntry`](crate::write::new_entry::NewEntry) instead.
//!
//! Attributes are loaded when a change first touches them. The values of a link attribute, or of another attribute
//! with one row per value, are never loaded. Additions and removals of such values are recorded separately. Adding one
//! member to a group of ten million therefore costs two lookups. An operation may add, delete and replace values in
//! any order. At the end, [`WorkingEntry::changes`] returns the smallest difference from the stored entry.

use std::borrow::Cow;
use std::collections::HashSet;

use ldap::ResultCode;
use schema::{AttributeDescription, AttributeType, TypeId};

use crate::catalog::Allocations;
use crate::model::entry::{Content, EntryRow};
use crate::model::limits::ENTRY_ATTRIBUTES_MAX;
use crate::model::outcome::OperationError;
use crate::model::record::{Value, ValueChange, ValueChangeKind};
use crate::model::rows::{
    AttrId, ENTRIES, EntryId, LINKS, VALUES, id_key, link_key, value_counter, value_key,
};
use crate::model::value_list::{KeyedValue, ValueList};
use crate::tree::stored_values::{inline_values, table_values};
use crate::tree::{TreeState, damaged_row};
use crate::write::deciding::Deciding;
use crate::write::given_values::{normal_value, read_link_key};
use crate::write::schema_check::Present;

type Result<T> = std::result::Result<T, OperationError>;

/// Initial capacity for touched attributes: one or two that the client changes, and the attributes that the server
/// always updates.
const TYPICAL_TOUCHED_COUNT: usize = 6;

/// An entry with the changes of an operation so far.
pub(crate) struct WorkingEntry<'a> {
    state: TreeState<'a>,
    id: EntryId,
    row: EntryRow<'a>,
    touched: Vec<WorkingAttribute>,
}

/// An attribute that the operation has read or changed.
struct WorkingAttribute {
    description: AttributeDescription,
    /// Number of the attribute; `None` if the catalog has no number for it yet.
    id: Option<AttrId>,
    before: Before,
    /// Whether the stored rows of `Before::Rows` are still valid, except the rows of values in `removed`.
    keeps_rows: bool,
    /// Removed values that are stored in rows of their own.
    removed: ValueList,
    /// Values that were loaded or added.
    values: ValueList,
}

/// Stored values of an attribute.
enum Before {
    /// No values.
    Absent,
    /// All values, loaded from the entry row.
    Inline(Vec<Vec<u8>>),
    /// Kind and number of the values' rows, one for each value.
    Rows(RowKind, usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowKind {
    Table,
    Links,
}

impl<'a> WorkingEntry<'a> {
    /// Loads an existing entry.
    pub(crate) fn of(state: TreeState<'a>, id: EntryId) -> Result<WorkingEntry<'a>> {
        let bytes = state.read.get(ENTRIES, &id_key(id))?.ok_or_else(|| damaged_row("entries", id))?;
        let row = EntryRow::decode(bytes).ok_or_else(|| damaged_row("entries", id))?;
        Ok(WorkingEntry { state, id, row, touched: Vec::with_capacity(TYPICAL_TOUCHED_COUNT) })
    }

    /// Adds a value. Returns false if the value already existed.
    pub(crate) fn add(&mut self, description: &AttributeDescription, value: KeyedValue) -> Result<bool> {
        let (state, id) = (self.state, self.id);
        let attribute = self.attribute(description)?;
        if attribute.contains(&state, id, &value.key)? {
            return Ok(false);
        }
        attribute.insert(value);
        Ok(true)
    }

    /// Removes the value with this key. Returns true if the value existed.
    pub(crate) fn remove(&mut self, description: &AttributeDescription, key: &[u8]) -> Result<bool> {
        let (state, id) = (self.state, self.id);
        self.attribute(description)?.remove(&state, id, key)
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self, description: &AttributeDescription) -> Result<()> {
        self.attribute_for_clearing(description).map(WorkingAttribute::clear)
    }

    /// Replaces the values of an attribute that only the server sets by a single value. The value is not checked and
    /// has no key, so the attribute must not be changed afterwards.
    pub(crate) fn set_by_server(&mut self, description: &AttributeDescription, bytes: Vec<u8>) -> Result<()> {
        let attribute = self.attribute_for_clearing(description)?;
        attribute.clear();
        attribute.values.insert(KeyedValue { key: Vec::new(), value: Value::Bytes(bytes) });
        Ok(())
    }

    /// Replaces all values of an attribute that the server maintains.
    pub(crate) fn set_all_by_server(
        &mut self,
        description: &AttributeDescription,
        values: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<()> {
        let attribute_type = self.state.catalog.schema.type_by_id(description.type_id);
        self.clear(description)?;
        for bytes in values {
            let key = self.stored_key(attribute_type, &bytes);
            self.add(description, KeyedValue { key, value: Value::Bytes(bytes) })?;
        }
        Ok(())
    }

    /// Sets the attributes that record the last change of an entry.
    pub(crate) fn stamp_change(&mut self, deciding: &Deciding<'_>) -> Result<()> {
        deciding.change().try_for_each(|(description, value)| self.set_by_server(&description, value))
    }

    /// Returns true if the entry has the value with this key.
    pub(crate) fn contains(&mut self, description: &AttributeDescription, key: &[u8]) -> Result<bool> {
        let (state, id) = (self.state, self.id);
        self.attribute(description)?.contains(&state, id, key)
    }

    /// Returns true if the stored rows of an attribute are still valid, except rows that were removed individually.
    pub(crate) fn keeps_rows(&mut self, description: &AttributeDescription) -> Result<bool> {
        Ok(self.attribute(description)?.keeps_rows)
    }

    /// Returns the number of values of an attribute, 0 if the entry does not have the attribute.
    pub(crate) fn value_count(&mut self, description: &AttributeDescription) -> Result<usize> {
        Ok(self.attribute(description)?.value_count())
    }

    /// Returns all values of an attribute that is not a link, in their order.
    pub(crate) fn values(&mut self, description: &AttributeDescription) -> Result<Vec<Vec<u8>>> {
        let (state, id) = (self.state, self.id);
        self.attribute(description)?.all(&state, id)
    }

    /// Returns the attribute descriptions of this type, with any options, that the entry has now. The catalog cannot
    /// provide these descriptions, because the catalog lacks the new descriptions of this change.
    pub(crate) fn attributes_of_type(&self, type_id: TypeId) -> Vec<AttributeDescription> {
        let catalog = self.state.catalog;
        let stored = self.row.attributes().filter(|row| self.touched.iter().all(|of| of.id != Some(row.id)));
        let stored = stored.map(|row| &catalog.attribute(row.id).description);
        let touched = self.touched.iter().filter(|attribute| attribute.value_count() > 0);
        let all = stored.chain(touched.map(|attribute| &attribute.description));
        all.filter(|description| description.type_id == type_id).cloned().collect()
    }

    /// Returns true if the operation has read or changed this attribute.
    pub(crate) fn has_touched_attribute(&self, description: &AttributeDescription) -> bool {
        self.place(description).is_some()
    }

    /// Returns true if the operation has read or changed any attribute of this type.
    pub(crate) fn has_touched(&self, type_id: TypeId) -> bool {
        self.touched.iter().any(|attribute| attribute.description.type_id == type_id)
    }

    /// Returns the attributes that the entry has now.
    pub(crate) fn present(&self) -> Result<Vec<Present<'_>>> {
        let mut present = Vec::with_capacity(32);
        for stored in self.row.attributes() {
            if self.touched.iter().any(|attribute| attribute.id == Some(stored.id)) {
                continue;
            }
            let description = Cow::Borrowed(&self.state.catalog.attribute(stored.id).description);
            let value_count = match stored.content {
                Content::Inline(values) => values.count,
                Content::Table | Content::Links => self.row_count(stored.id)?,
            };
            present.push(Present { description, value_count });
        }
        let touched = self.touched.iter().filter(|attribute| attribute.value_count() > 0);
        present.extend(touched.map(|attribute| Present {
            description: Cow::Borrowed(&attribute.description),
            value_count: attribute.value_count(),
        }));
        Ok(present)
    }

    /// Returns true if the entry differs from the stored entry.
    pub(crate) fn is_changed(&self) -> bool {
        self.touched.iter().any(WorkingAttribute::is_changed)
    }

    /// Returns the differences from the stored entry as value changes for a record.
    pub(crate) fn changes(self, allocations: &mut Allocations<'_>) -> Vec<ValueChange> {
        let mut changes = Vec::with_capacity(2 * self.touched.len());
        for attribute in self.touched {
            debug_assert_eq!(attribute.is_changed(), !attribute.differences().is_empty());
            if !attribute.is_changed() {
                continue;
            }
            let id = allocations.attribute(&attribute.description);
            let change = |(kind, values)| ValueChange { attribute: id, kind, values };
            match attribute {
                // In the usual case, an attribute has one value before the operation and one value after it.
                WorkingAttribute { before: Before::Inline(before), values, .. }
                    if before.len() == 1 && values.len() == 1 =>
                {
                    let removed = before.into_iter().map(Value::Bytes).collect();
                    changes.push(change((ValueChangeKind::Remove, removed)));
                    changes.push(change((ValueChangeKind::Add, values.into_values())));
                }
                attribute => changes.extend(attribute.differences().into_iter().map(change)),
            }
        }
        changes
    }

    #[expect(clippy::indexing_slicing, reason = "a place that place() gave, or that was just filled")]
    fn attribute(&mut self, description: &AttributeDescription) -> Result<&mut WorkingAttribute> {
        let place = match self.place(description) {
            Some(place) => place,
            None => {
                check_attribute_count(self.touched.len())?;
                let attribute = self.load(description)?;
                self.touched.push(attribute);
                self.touched.len() - 1
            }
        };
        Ok(&mut self.touched[place])
    }

    /// Like [`attribute`](Self::attribute), without the keys of the values, because the caller removes all values next.
    #[expect(clippy::indexing_slicing, reason = "a place that place() gave, or that was just filled")]
    fn attribute_for_clearing(
        &mut self,
        description: &AttributeDescription,
    ) -> Result<&mut WorkingAttribute> {
        let place = match self.place(description) {
            Some(place) => place,
            None => {
                check_attribute_count(self.touched.len())?;
                let mut attribute = self.describe(description);
                attribute.before = self.before(&attribute)?;
                self.touched.push(attribute);
                self.touched.len() - 1
            }
        };
        Ok(&mut self.touched[place])
    }

    fn place(&self, description: &AttributeDescription) -> Option<usize> {
        self.touched.iter().position(|known| known.is_of(description))
    }

    fn load(&self, description: &AttributeDescription) -> Result<WorkingAttribute> {
        let mut attribute = self.describe(description);
        attribute.before = self.before(&attribute)?;
        if let Before::Inline(values) = &attribute.before {
            let attribute_type = self.state.catalog.schema.type_by_id(description.type_id);
            let keyed = |bytes: &Vec<u8>| KeyedValue {
                key: self.stored_key(attribute_type, bytes),
                value: Value::Bytes(bytes.clone()),
            };
            let values: Vec<KeyedValue> = values.iter().map(keyed).collect();
            values.into_iter().for_each(|value| attribute.insert(value));
        }
        Ok(attribute)
    }

    /// Returns the attribute without its stored values.
    fn describe(&self, description: &AttributeDescription) -> WorkingAttribute {
        let id = self.state.catalog.attribute_id(description.type_id, &description.options);
        WorkingAttribute::new(description.clone(), id)
    }

    fn before(&self, attribute: &WorkingAttribute) -> Result<Before> {
        let stored = attribute.id.and_then(|id| self.row.find(id));
        let Some(stored) = stored else { return Ok(Before::Absent) };
        Ok(match stored.content {
            Content::Table => Before::Rows(RowKind::Table, self.row_count(stored.id)?),
            Content::Links => Before::Rows(RowKind::Links, self.row_count(stored.id)?),
            Content::Inline(values) => {
                Before::Inline(inline_values(self.state.read, self.id, stored.id, values)?)
            }
        })
    }

    /// Returns the key of a stored value. A value without a normal form is damaged, because a schema is refused if
    /// stored values are invalid under it. The key of a damaged value is its bytes, as in `apply`.
    fn stored_key(&self, attribute_type: &AttributeType, bytes: &[u8]) -> Vec<u8> {
        normal_value(&self.state.catalog.schema, attribute_type, bytes).unwrap_or_else(|_| bytes.to_vec())
    }

    fn row_count(&self, attribute: AttrId) -> Result<usize> {
        let count = self.state.read.count(&value_counter(self.id, attribute))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

impl WorkingAttribute {
    fn new(description: AttributeDescription, id: Option<AttrId>) -> WorkingAttribute {
        WorkingAttribute {
            description,
            id,
            before: Before::Absent,
            keeps_rows: true,
            removed: ValueList::default(),
            values: ValueList::default(),
        }
    }

    fn is_of(&self, description: &AttributeDescription) -> bool {
        self.description.type_id == description.type_id && self.description.options == description.options
    }

    fn value_count(&self) -> usize {
        let rows = match self.before {
            Before::Rows(_, count) if self.keeps_rows => count.saturating_sub(self.removed.len()),
            _ => 0,
        };
        rows + self.values.len()
    }

    fn contains(&self, state: &TreeState<'_>, entry: EntryId, key: &[u8]) -> Result<bool> {
        if self.values.contains(key) {
            return Ok(true);
        }
        if !self.keeps_rows || self.removed.contains(key) {
            return Ok(false);
        }
        Ok(self.row_value(state, entry, key)?.is_some())
    }

    /// Returns the value with this key from the rows of values. Returns `None` if no row has the key, or if the
    /// attribute has no rows of values.
    fn row_value(&self, state: &TreeState<'_>, entry: EntryId, key: &[u8]) -> Result<Option<Value>> {
        let (Before::Rows(kind, _), Some(id)) = (&self.before, self.id) else { return Ok(None) };
        let normal = match kind {
            RowKind::Table => key,
            RowKind::Links => match read_link_key(key) {
                Ok(target) => {
                    let is_linked = state.read.contains_id(LINKS, &link_key(entry, id), target.0)?;
                    return Ok(is_linked.then_some(Value::Link(target)));
                }
                Err(normal) => normal,
            },
        };
        let row = state.read.get(VALUES, &value_key(entry, id, normal))?;
        Ok(row.map(|bytes| Value::Bytes(bytes.to_vec())))
    }

    fn insert(&mut self, value: KeyedValue) {
        if self.removed.find(&value.key) == Some(&value) {
            // The same value was removed before, so adding it only cancels the removal.
            self.removed.remove(&value.key);
            return;
        }
        self.values.insert(value);
    }

    fn remove(&mut self, state: &TreeState<'_>, entry: EntryId, key: &[u8]) -> Result<bool> {
        if self.values.remove(key).is_some() {
            return Ok(true);
        }
        if !self.keeps_rows || self.removed.contains(key) {
            return Ok(false);
        }
        let Some(value) = self.row_value(state, entry, key)? else { return Ok(false) };
        self.removed.insert(KeyedValue { key: key.to_vec(), value });
        Ok(true)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.removed.clear();
        self.keeps_rows = false;
    }

    fn all(&self, state: &TreeState<'_>, entry: EntryId) -> Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        if let (Before::Rows(RowKind::Table, _), true, Some(id)) = (&self.before, self.keeps_rows, self.id) {
            let removed: HashSet<_> =
                self.removed.iter().filter_map(|keyed| keyed.value.as_bytes()).collect();
            for row in table_values(state.read, entry, id) {
                let value = row?.1;
                if !removed.contains(value) {
                    all.push(value.to_vec());
                }
            }
        }
        let loaded = self.values.iter().filter_map(|keyed| keyed.value.as_bytes());
        all.extend(loaded.map(<[u8]>::to_vec));
        Ok(all)
    }

    /// Returns true if there are [`differences`](Self::differences) from the stored values.
    fn is_changed(&self) -> bool {
        match &self.before {
            Before::Absent => self.values.len() > 0,
            Before::Inline(before) => {
                let now = self.values.iter().map(|keyed| keyed.value.as_bytes());
                !now.eq(before.iter().map(|bytes| Some(bytes.as_slice())))
            }
            Before::Rows(..) => !self.keeps_rows || self.removed.len() > 0 || self.values.len() > 0,
        }
    }

    /// Returns the differences from the stored values.
    fn differences(&self) -> Vec<(ValueChangeKind, Vec<Value>)> {
        let now: Vec<&Value> = self.values.iter().map(|keyed| &keyed.value).collect();
        let copied = |values: &[&Value]| values.iter().map(|value| (*value).clone()).collect::<Vec<_>>();
        let changes = match &self.before {
            Before::Absent => vec![(ValueChangeKind::Add, copied(&now))],
            Before::Inline(_) if now.is_empty() => return vec![(ValueChangeKind::Replace, Vec::new())],
            Before::Inline(before) => inline_differences(before, &now),
            Before::Rows(..) if !self.keeps_rows => return vec![(ValueChangeKind::Replace, copied(&now))],
            Before::Rows(..) => {
                let removed = self.removed.iter().map(|keyed| keyed.value.clone()).collect();
                vec![(ValueChangeKind::Remove, removed), (ValueChangeKind::Add, copied(&now))]
            }
        };
        changes.into_iter().filter(|(_, values)| !values.is_empty()).collect()
    }
}

/// Checks that a request that concerns `count` attributes may concern one attribute more. A limit is needed because
/// attributes are looked up one by one, and the catalog keeps their numbers.
///
/// # Errors
/// adminLimitExceeded.
pub(crate) fn check_attribute_count(count: usize) -> Result<()> {
    if count < ENTRY_ATTRIBUTES_MAX {
        return Ok(());
    }
    let text = format!("one request concerns at most {ENTRY_ATTRIBUTES_MAX} attributes, counting options");
    Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text))
}

/// Returns the changes from `before` to `now`: a removal of values and an addition of values at the end, if the result
/// has the order of `now`; otherwise a replacement of all values.
fn inline_differences(before: &[Vec<u8>], now: &[&Value]) -> Vec<(ValueChangeKind, Vec<Value>)> {
    let is_in = |values: &[&Value], bytes: &[u8]| values.iter().any(|value| value.as_bytes() == Some(bytes));
    let (retained, removed): (Vec<_>, Vec<_>) = before.iter().partition(|bytes| is_in(now, bytes));
    let leads_there = retained.len() <= now.len()
        && retained.iter().zip(now).all(|(b, n)| n.as_bytes() == Some(b.as_slice()));
    if !leads_there {
        return vec![(ValueChangeKind::Replace, now.iter().map(|value| (*value).clone()).collect())];
    }
    let removed = removed.into_iter().map(|bytes| Value::Bytes(bytes.clone())).collect();
    let added = now.iter().skip(retained.len()).map(|value| (*value).clone()).collect();
    vec![(ValueChangeKind::Remove, removed), (ValueChangeKind::Add, added)]
}
