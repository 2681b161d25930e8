//! The entry that an add builds in memory: the given values first, then the values that the server adds.
//!
//! The entry is not stored yet, so unlike a [`WorkingEntry`](crate::write::working_entry::WorkingEntry) it is compared
//! with no earlier state. Most attributes have a single value. The key of such a value is computed only when a second
//! value is added.

use std::borrow::Cow;

use schema::{AttributeDescription, Schema, TypeId};

use crate::catalog::{Allocations, Catalog};
use crate::model::record::Value;
use crate::model::rows::AttrId;
use crate::model::value_list::{KeyedValue, ValueList};
use crate::write::given_values::normal_value;
use crate::write::schema_check::Present;

/// Initial capacity for attributes. Most entries have fewer.
const TYPICAL_ATTRIBUTE_COUNT: usize = 32;

/// An entry that does not exist yet.
pub(crate) struct NewEntry<'a> {
    catalog: &'a Catalog,
    attributes: Vec<NewAttribute>,
}

/// An attribute of the entry, with at least one value.
struct NewAttribute {
    description: AttributeDescription,
    /// Number of the attribute; `None` if the catalog has no number for it yet.
    id: Option<AttrId>,
    /// The only value, if its key has not been computed. The attribute is then not a link.
    only: Option<Vec<u8>>,
    /// All values, if `only` is `None`.
    values: ValueList,
}

impl<'a> NewEntry<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> NewEntry<'a> {
        NewEntry { catalog, attributes: Vec::with_capacity(TYPICAL_ATTRIBUTE_COUNT) }
    }

    /// Returns the number of attributes that the entry has.
    pub(crate) fn len(&self) -> usize {
        self.attributes.len()
    }

    /// Returns true if the entry has the attribute.
    pub(crate) fn has(&self, description: &AttributeDescription) -> bool {
        self.place(description).is_some()
    }

    /// Adds an attribute with a single value. The entry must not have the attribute yet. The attribute must not be a
    /// link, and the value must have a key.
    pub(crate) fn add_only(&mut self, description: AttributeDescription, value: Vec<u8>) {
        self.push(description, Some(value), ValueList::default());
    }

    /// Replaces all values of an attribute that is not a link by this value.
    pub(crate) fn set(&mut self, description: AttributeDescription, value: Vec<u8>) {
        match self.place(&description) {
            Some(place) => {
                if let Some(attribute) = self.attributes.get_mut(place) {
                    (attribute.only, attribute.values) = (Some(value), ValueList::default());
                }
            }
            None => self.push(description, Some(value), ValueList::default()),
        }
    }

    /// Adds values in their order until a value already exists. Returns the place of the duplicate among `values`,
    /// counted from 0.
    pub(crate) fn add_all(&mut self, description: AttributeDescription, values: ValueList) -> Option<usize> {
        let Some(known) = self.values_mut(&description) else {
            self.push(description, None, values);
            return None;
        };
        values.into_iter().position(|value| !known.insert(value))
    }

    /// Returns the values of an attribute with their keys, if the entry has the attribute.
    pub(crate) fn values_mut(&mut self, description: &AttributeDescription) -> Option<&mut ValueList> {
        let place = self.place(description)?;
        Some(self.attributes.get_mut(place)?.values_mut(&self.catalog.schema))
    }

    /// Returns the values of an attribute that is not a link.
    pub(crate) fn values(&self, description: &AttributeDescription) -> impl Iterator<Item = &[u8]> {
        let attribute = self.place(description).and_then(|place| self.attributes.get(place));
        attribute.into_iter().flat_map(|attribute| {
            let keyed = attribute.values.iter().filter_map(|keyed| keyed.value.as_bytes());
            attribute.only.as_deref().into_iter().chain(keyed)
        })
    }

    /// Returns the attributes that the entry has.
    pub(crate) fn present(&self) -> Vec<Present<'_>> {
        let present = self.attributes.iter().map(|attribute| Present {
            description: Cow::Borrowed(&attribute.description),
            value_count: usize::from(attribute.only.is_some()) + attribute.values.len(),
        });
        present.collect()
    }

    /// Returns the descriptions of this type that the entry has, with their options.
    pub(crate) fn attributes_of_type(&self, type_id: TypeId) -> impl Iterator<Item = &AttributeDescription> {
        let descriptions = self.attributes.iter().map(|attribute| &attribute.description);
        descriptions.filter(move |description| description.type_id == type_id)
    }

    /// Returns all values, for a record.
    pub(crate) fn into_values(self, allocations: &mut Allocations<'_>) -> Vec<(AttrId, Vec<Value>)> {
        let attributes = self.attributes.into_iter().map(|attribute| {
            let id = attribute.id.unwrap_or_else(|| allocations.attribute(&attribute.description));
            let values = match attribute.only {
                Some(only) => vec![Value::Bytes(only)],
                None => attribute.values.into_values(),
            };
            (id, values)
        });
        attributes.collect()
    }

    fn place(&self, description: &AttributeDescription) -> Option<usize> {
        self.attributes.iter().position(|known| {
            known.description.type_id == description.type_id
                && known.description.options == description.options
        })
    }

    fn push(&mut self, description: AttributeDescription, only: Option<Vec<u8>>, values: ValueList) {
        let id = self.catalog.attribute_id(description.type_id, &description.options);
        self.attributes.push(NewAttribute { description, id, only, values });
    }
}

impl NewAttribute {
    fn values_mut(&mut self, schema: &Schema) -> &mut ValueList {
        if let Some(only) = self.only.take() {
            let attribute_type = schema.type_by_id(self.description.type_id);
            let key = normal_value(schema, attribute_type, &only).unwrap_or_else(|_| only.clone());
            self.values.insert(KeyedValue { key, value: Value::Bytes(only) });
        }
        &mut self.values
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn keyed(key: &str, value: &str) -> ValueList {
        let mut values = ValueList::default();
        values.insert(KeyedValue { key: key.into(), value: Value::Bytes(value.into()) });
        values
    }

    /// Values and their order do not depend on the method that adds them. Duplicates are refused.
    #[test]
    fn computes_keys_when_a_second_value_is_added() {
        let schema = Schema::shipped();
        let catalog = Catalog::new(Arc::clone(&schema));
        let (cn, sn) = (schema.parse_description("cn").unwrap(), schema.parse_description("sn;x-a").unwrap());
        for is_alone in [true, false] {
            let mut entry = NewEntry::new(&catalog);
            match is_alone {
                true => entry.set(cn.clone(), b"One".to_vec()),
                false => assert_eq!(entry.add_all(cn.clone(), keyed("one", "One")), None),
            }
            entry.set(sn.clone(), b"x".to_vec());
            entry.set(sn.clone(), b"y".to_vec());
            assert!(entry.has(&cn) && !entry.has(&AttributeDescription::of(sn.type_id)));
            assert_eq!(entry.add_all(cn.clone(), keyed("one", "ONE")), Some(0));
            assert_eq!(entry.add_all(cn.clone(), keyed("two", "Two")), None);
            assert!(entry.values(&cn).eq([&b"One"[..], b"Two"]));
            let counts: Vec<_> = entry.present().iter().map(|present| present.value_count).collect();
            assert_eq!(counts, [2, 1]);
            let values = |texts: &[&str]| -> Vec<Value> {
                texts.iter().map(|text| Value::Bytes((*text).into())).collect()
            };
            // The attribute sn is allocated a number before sn;x-a.
            let expected = [(AttrId(0), values(&["One", "Two"])), (AttrId(2), values(&["y"]))];
            assert_eq!(entry.into_values(&mut Allocations::new(&catalog)), expected);
        }
    }
}
