//! List of values in insertion order, with lookup by key.
//!
//! Most attributes have one to three values, but some have a million. A short list is searched linearly, and a long
//! list has a hash table. With tables for short lists, an entry of twenty attributes would build and drop twenty
//! tables.

use std::collections::HashMap;

use crate::model::record::Value;

/// Maximum length of a list that is searched linearly.
const COMPARED_MAX: usize = 16;

/// A value with the key that identifies it among the values of its attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyedValue {
    /// Key of the value. In a link attribute, the key identifies the entry or contains the normal name. In other
    /// attributes, the key is the normal form of the value.
    pub(crate) key: Vec<u8>,
    /// The stored value.
    pub(crate) value: Value,
}

/// Values with different keys, in the order of insertion.
#[derive(Default)]
pub(crate) struct ValueList {
    /// The values; `None` for a removed value.
    slots: Vec<Option<KeyedValue>>,
    count: usize,
    /// Places of the values by key; `None` until the list has more than [`COMPARED_MAX`] values.
    #[allow(
        clippy::box_collection,
        reason = "a pointer, for there are lists by the dozen and hardly a table"
    )]
    places: Option<Box<HashMap<Vec<u8>, usize>>>,
}

impl ValueList {
    /// Returns an empty list with capacity for `count` values.
    pub(crate) fn with_capacity(count: usize) -> ValueList {
        ValueList { slots: Vec::with_capacity(count), ..ValueList::default() }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the value with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&KeyedValue> {
        self.slots.get(self.place(key)?)?.as_ref()
    }

    /// Returns true if there is a value with this key.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.place(key).is_some()
    }

    /// Appends a value, unless the list already has a value with the same key. Returns true if the value was appended.
    pub(crate) fn insert(&mut self, value: KeyedValue) -> bool {
        if self.contains(&value.key) {
            return false;
        }
        let place = self.slots.len();
        if place == COMPARED_MAX {
            let kept =
                self.slots.iter().enumerate().filter_map(|(place, slot)| Some((place, slot.as_ref()?)));
            self.places = Some(Box::new(kept.map(|(place, kept)| (kept.key.clone(), place)).collect()));
        }
        if let Some(places) = &mut self.places {
            places.insert(value.key.clone(), place);
        }
        self.slots.push(Some(value));
        self.count += 1;
        true
    }

    /// Removes and returns the value with this key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<KeyedValue> {
        let place = self.place(key)?;
        if let Some(places) = &mut self.places {
            places.remove(key);
        }
        self.count -= 1;
        self.slots.get_mut(place)?.take()
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self) {
        *self = ValueList::default();
    }

    /// Returns the values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyedValue> {
        self.slots.iter().flatten()
    }

    /// Returns the values in their order, without their keys.
    pub(crate) fn into_values(self) -> Vec<Value> {
        let mut values = Vec::with_capacity(self.count);
        values.extend(self.slots.into_iter().flatten().map(|keyed| keyed.value));
        values
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        if let Some(places) = &self.places {
            return places.get(key).copied();
        }
        self.slots.iter().position(|slot| slot.as_ref().is_some_and(|value| value.key == key))
    }
}

impl IntoIterator for ValueList {
    type Item = KeyedValue;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Option<KeyedValue>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.slots.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(number: usize) -> KeyedValue {
        KeyedValue { key: number.to_be_bytes().to_vec(), value: Value::Bytes(vec![number as u8]) }
    }

    fn keys(list: &ValueList) -> Vec<Vec<u8>> {
        list.iter().map(|value| value.key.clone()).collect()
    }

    /// The list behaves the same with a hash table, without a hash table, and when it grows beyond the limit.
    #[test]
    fn keeps_order_and_unique_keys_with_and_without_a_table() {
        for count in [1, COMPARED_MAX - 1, COMPARED_MAX, COMPARED_MAX + 1, 3 * COMPARED_MAX] {
            let mut list = ValueList::default();
            for number in 0..count {
                assert!(list.insert(value(number)), "{number} of {count}");
                assert!(!list.insert(value(number)), "{number} of {count}");
            }
            assert_eq!(list.len(), count);
            assert_eq!(list.remove(&value(0).key), Some(value(0)));
            assert_eq!(list.remove(&value(0).key), None);
            assert!(!list.contains(&value(0).key));
            assert!(list.insert(value(0)), "it went and comes back as the last of {count}");
            let expected: Vec<_> = (1..count).chain([0]).map(|number| value(number).key).collect();
            assert_eq!(keys(&list), expected);
            assert_eq!(list.len(), count);
            for number in 0..count {
                assert_eq!(list.find(&value(number).key), Some(&value(number)), "{number} of {count}");
            }
            list.clear();
            assert_eq!((list.len(), list.contains(&value(0).key)), (0, false));
            assert!(list.insert(value(0)));
        }
    }
}
