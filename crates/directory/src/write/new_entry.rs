//! The entry that an add makes, in memory: what is given and what the server adds, in this order.
//!
//! Nothing is stored of it yet, so unlike a [`WorkingEntry`](crate::write::working_entry::WorkingEntry) it has nothing
//! to be compared with. Most attributes have one value, and nobody compares that with another: its key is made when a
//! second one comes and not before.

use std::borrow::Cow;

use schema::{AttributeDescription, Schema};

use crate::catalog::{Allocations, Catalog};
use crate::model::record::Value;
use crate::model::rows::AttrId;
use crate::model::value_list::{KeyedValue, ValueList};
use crate::write::given_values::normal_value;
use crate::write::schema_check::Present;

/// Room for this many attributes is made at once; most entries have fewer.
const TYPICAL_ATTRIBUTE_COUNT: usize = 32;

/// An entry that does not exist yet.
pub(crate) struct NewEntry<'a> {
    catalog: &'a Catalog,
    attributes: Vec<NewAttribute>,
}

/// An attribute of the entry. It has a value at least.
struct NewAttribute {
    description: AttributeDescription,
    /// `None`: no entry has had it so far.
    id: Option<AttrId>,
    /// The only value, while its key is not made. Never a link.
    only: Option<Vec<u8>>,
    /// All values otherwise.
    values: ValueList,
}

impl<'a> NewEntry<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> NewEntry<'a> {
        NewEntry { catalog, attributes: Vec::with_capacity(TYPICAL_ATTRIBUTE_COUNT) }
    }

    /// Whether the entry has the attribute.
    pub(crate) fn has(&self, description: &AttributeDescription) -> bool {
        self.place(description).is_some()
    }

    /// Adds an attribute that the entry does not have and that is not a link, with this one value, whose key can be
    /// made.
    pub(crate) fn add_only(&mut self, description: AttributeDescription, value: Vec<u8>) {
        self.push(description, Some(value), ValueList::default());
    }

    /// Gives an attribute that is not a link this one value and no other.
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

    /// Adds values in their order. Returns the place, counted from 0, of the first that is there already, where it
    /// stops.
    pub(crate) fn add_all(&mut self, description: AttributeDescription, values: ValueList) -> Option<usize> {
        let Some(known) = self.values_mut(&description) else {
            self.push(description, None, values);
            return None;
        };
        values.into_iter().position(|value| !known.insert(value))
    }

    /// The values of an attribute with their keys, if the entry has it.
    pub(crate) fn values_mut(&mut self, description: &AttributeDescription) -> Option<&mut ValueList> {
        let place = self.place(description)?;
        Some(self.attributes.get_mut(place)?.values_mut(&self.catalog.schema))
    }

    /// The values of an attribute that is not a link.
    pub(crate) fn values(&self, description: &AttributeDescription) -> impl Iterator<Item = &[u8]> {
        let attribute = self.place(description).and_then(|place| self.attributes.get(place));
        attribute.into_iter().flat_map(|attribute| {
            let keyed = attribute.values.iter().filter_map(|keyed| keyed.value.as_bytes());
            attribute.only.as_deref().into_iter().chain(keyed)
        })
    }

    /// The attributes that the entry has.
    pub(crate) fn present(&self) -> Vec<Present<'_>> {
        let present = self.attributes.iter().map(|attribute| Present {
            description: Cow::Borrowed(&attribute.description),
            value_count: usize::from(attribute.only.is_some()) + attribute.values.len(),
        });
        present.collect()
    }

    /// All values, for a record.
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

    /// However the values of an attribute come, they are the same values in the same order, and none of them twice.
    #[test]
    fn a_key_may_come_later() {
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
            // The type of sn;x-a has a number before it.
            let expected = [(AttrId(0), values(&["One", "Two"])), (AttrId(2), values(&["y"]))];
            assert_eq!(entry.into_values(&mut Allocations::new(&catalog)), expected);
        }
    }
}
