//! The entry of a record as it is after the record's change.

use std::collections::HashSet;

use schema::{AttributeDescription, TypeId};

use crate::catalog::Shown;
use crate::catalog::access_rules::TypeSet;
use crate::catalog::covered_entries::CoveredEntries;
use crate::catalog::normal_value;
use crate::filter::{Covering, InMemory, Matcher, Term, Truth};
use crate::model::entry::EntryRow;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record, Value, ValueChange, ValueChangeKind};
use crate::model::rows::{AttrId, EntryId};
use crate::tree::stored_values::of_content;
use crate::tree::{TreeState, entry_row};

type Result<T> = std::result::Result<T, OperationError>;

/// The changed or new entry of a record. Only attributes that are not links are accessible.
pub(crate) struct Changed<'a> {
    state: TreeState<'a>,
    record: &'a Record,
    /// The entry.
    pub(crate) id: EntryId,
    /// Stored row of the entry; `None` for a new entry.
    row: Option<EntryRow<'a>>,
}

impl<'a> Changed<'a> {
    /// Returns the entry that a record adds, modifies, renames or moves.
    pub(crate) fn of(state: TreeState<'a>, record: &'a Record) -> Result<Changed<'a>> {
        let (id, is_new) = match &record.change {
            Change::Add(add) => (add.id, true),
            Change::Modify(modify) => (modify.id, false),
            Change::ModifyDn(rename) => (rename.id, false),
            _ => (EntryId::ROOT, true),
        };
        let row = if is_new { None } else { Some(entry_row(state.read, id)?) };
        Ok(Changed { state, record, id, row })
    }

    /// Returns the change of the record.
    pub(crate) fn change(&self) -> &'a Change {
        &self.record.change
    }

    /// Returns true if the record changes an attribute of one of these types.
    pub(crate) fn touches(&self, types: &TypeSet) -> bool {
        let touches = |attribute: AttrId| self.type_of(attribute).is_some_and(|id| types.contains(id));
        match &self.record.change {
            Change::Add(add) => add.values.iter().any(|(attribute, _)| touches(*attribute)),
            _ => self.changes().iter().any(|change| touches(change.attribute)),
        }
    }

    /// Returns the values that the record adds to attributes of a type, with any options.
    pub(crate) fn added(&self, type_id: TypeId) -> Vec<&'a [u8]> {
        let is_of_type = |attribute: AttrId| self.type_of(attribute) == Some(type_id);
        match &self.record.change {
            Change::Add(add) => {
                let of_type = add.values.iter().filter(|(attribute, _)| is_of_type(*attribute));
                of_type.flat_map(|(_, values)| values).filter_map(Value::as_bytes).collect()
            }
            _ => {
                let adds = |change: &&ValueChange| {
                    matches!(change.kind, ValueChangeKind::Add | ValueChangeKind::Replace)
                        && is_of_type(change.attribute)
                };
                let adding = self.changes().iter().filter(adds);
                adding.flat_map(|change| &change.values).filter_map(Value::as_bytes).collect()
            }
        }
    }

    /// Returns all values of a type, with any options, after the change.
    pub(crate) fn values(&self, type_id: TypeId) -> Result<Vec<Vec<u8>>> {
        let mut types = TypeSet::default();
        types.insert(type_id);
        Ok(self.attributes(&types)?.into_iter().flat_map(|(_, values)| values).collect())
    }

    /// Returns true if the entry matches a filter after the change. `types` are the attribute types that the filter
    /// tests.
    fn matches(&self, filter: &Term, types: &TypeSet) -> Result<bool> {
        let attributes = self.attributes(types)?;
        let attributes =
            attributes.iter().map(|(description, values)| (description.clone(), values.as_slice()));
        let entry = InMemory { dn: "", attributes: attributes.collect() };
        let truth = Matcher::new(Shown::Plain).truth_in_memory(filter, self.state.catalog, &entry);
        Ok(truth == Truth::True)
    }

    /// Returns true if a stored entry matches the rule's filter only after the change. Returns `None` if the entry does
    /// not match after the change. Returns false if the rule has no filter, and for a new entry, because the record
    /// adds all values of a new entry.
    pub(super) fn begins_to_match(
        &self,
        covering: &Covering,
        covered: &CoveredEntries,
    ) -> Result<Option<bool>> {
        let Some(filter) = &covering.filter else { return Ok(Some(false)) };
        if !self.matches(filter, &covered.tests)? {
            return Ok(None);
        }
        Ok(Some(!self.is_new() && !covering.matches(self.state, self.id)?))
    }

    /// Returns true if the record adds the entry.
    pub(super) fn is_new(&self) -> bool {
        self.row.is_none()
    }

    /// Returns the attributes of these types that the entry has after the change.
    fn attributes(&self, types: &TypeSet) -> Result<Vec<(AttributeDescription, Vec<Vec<u8>>)>> {
        let mut ids: Vec<AttrId> = match &self.record.change {
            Change::Add(add) => add.values.iter().map(|(attribute, _)| *attribute).collect(),
            _ => self.changes().iter().map(|change| change.attribute).collect(),
        };
        ids.extend(self.row.iter().flat_map(|row| row.attributes().map(|attribute| attribute.id)));
        ids.sort_unstable();
        ids.dedup();
        let mut found = Vec::new();
        for id in ids {
            let Some(description) = self.description(id).filter(|of| types.contains(of.type_id)) else {
                continue;
            };
            let values = self.values_of(id, &description)?;
            if !values.is_empty() {
                found.push((description, values));
            }
        }
        Ok(found)
    }

    fn values_of(&self, id: AttrId, description: &AttributeDescription) -> Result<Vec<Vec<u8>>> {
        let bytes = |values: &[Value]| -> Vec<Vec<u8>> {
            values.iter().filter_map(Value::as_bytes).map(<[u8]>::to_vec).collect()
        };
        if let Change::Add(add) = &self.record.change {
            let given = add.values.iter().filter(|(attribute, _)| *attribute == id);
            return Ok(given.flat_map(|(_, values)| bytes(values)).collect());
        }
        let mut values = match &self.row {
            Some(row) => stored_values(self.state, self.id, row, id)?,
            None => Vec::new(),
        };
        let schema = &self.state.catalog.schema;
        let equality = schema.type_by_id(description.type_id).equality;
        let key = |value: &[u8]| {
            let mut key = Vec::with_capacity(value.len() + 8);
            match equality.map(|rule| rule.normalize(schema, value, &mut key)) {
                Some(Ok(())) => key,
                _ => value.to_vec(),
            }
        };
        for change in self.changes().iter().filter(|change| change.attribute == id) {
            match change.kind {
                ValueChangeKind::Add => values.extend(bytes(&change.values)),
                ValueChangeKind::Replace => values = bytes(&change.values),
                ValueChangeKind::Remove => {
                    let removed: HashSet<_> = bytes(&change.values).iter().map(|value| key(value)).collect();
                    values.retain(|value| !removed.contains(&key(value)));
                }
                ValueChangeKind::Until(_) => {}
            }
        }
        Ok(values)
    }

    fn changes(&self) -> &'a [ValueChange] {
        match &self.record.change {
            Change::Modify(modify) => &modify.changes,
            Change::ModifyDn(rename) => &rename.changes,
            _ => &[],
        }
    }

    fn type_of(&self, attribute: AttrId) -> Option<TypeId> {
        match self.state.catalog.attributes().get(attribute.0 as usize) {
            Some(def) => Some(def.description.type_id),
            None => self.description(attribute).map(|description| description.type_id),
        }
    }

    /// Returns the type and options of the attribute with this number. The record itself may allocate the number.
    fn description(&self, attribute: AttrId) -> Option<AttributeDescription> {
        if let Some(def) = self.state.catalog.attributes().get(attribute.0 as usize) {
            return Some(def.description.clone());
        }
        let new = self.record.attributes.iter().find(|allocation| allocation.id == attribute)?;
        let type_id = self.state.catalog.schema.attribute_type(&new.oid)?.id;
        Some(AttributeDescription { type_id, options: new.options.as_str().into(), binary: false })
    }
}

/// Returns the stored values of an attribute that is not a link.
fn stored_values(
    state: TreeState<'_>,
    id: EntryId,
    row: &EntryRow<'_>,
    attribute: AttrId,
) -> Result<Vec<Vec<u8>>> {
    of_content(state.read, id, attribute, row.find(attribute).map(|found| found.content))
}

/// Returns the stored values of a type, with any options.
pub(crate) fn stored_of_type(state: TreeState<'_>, id: EntryId, type_id: TypeId) -> Result<Vec<Vec<u8>>> {
    let row = entry_row(state.read, id)?;
    let mut all = Vec::new();
    for attribute in state.catalog.stored_attributes_of_type(type_id) {
        all.extend(stored_values(state, id, &row, *attribute)?);
    }
    Ok(all)
}

/// Returns true if an entry has a value of this type, with any options, whose normal form is `normal`.
pub(crate) fn has_normal_value(
    state: TreeState<'_>,
    id: EntryId,
    type_id: TypeId,
    normal: &[u8],
) -> Result<bool> {
    let Some(base) = state.catalog.attribute_id(type_id, "") else { return Ok(false) };
    let def = state.catalog.attribute(base);
    let values = stored_of_type(state, id, type_id)?;
    Ok(values.iter().any(|value| normal_value(&state.catalog.schema, def, value) == normal))
}
