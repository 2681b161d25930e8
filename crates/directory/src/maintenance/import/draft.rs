//! Draft: an entry that is being read. The draft contains the entry's values and their normal forms, grouped by
//! attribute.
//!
//! All entries share one draft, so that reading an entry allocates almost no memory.

#![expect(
    clippy::indexing_slicing,
    reason = "numbers and ranges are those that the draft gave out for the entry"
)]

use std::ops::Range;

/// Maximum number of values that are compared pairwise to find duplicates.
const COMPARED_MAX: usize = 8;

/// A value and its normal form, as ranges in the draft's buffers.
#[derive(Clone, Debug)]
pub(super) struct DraftValue {
    bytes: Range<usize>,
    normal: Range<usize>,
}

/// The values of one attribute.
#[derive(Debug, Default)]
pub(super) struct DraftAttribute {
    /// Index of the attribute in [`super::resolved::ResolvedAttributes`].
    pub(super) place: usize,
    values: Vec<DraftValue>,
    /// Whether the attribute has a single value whose normal form has not been computed.
    lacks_normal: bool,
    /// Number of values whose rows have already been made, because the attribute has too many values for memory.
    streamed_count: usize,
}

/// The entry being read.
#[derive(Debug)]
pub(super) struct Draft {
    bytes: Vec<u8>,
    normals: Vec<u8>,
    attributes: Vec<DraftAttribute>,
    /// For each known attribute: the number of the last entry with the attribute, counted from 1, and the index of the
    /// attribute in `attributes` at that entry.
    numbers: Vec<(u64, usize)>,
    entry: u64,
    /// Number of elements of `attributes` that the current entry uses. Later elements are kept only to reuse their
    /// memory.
    count: usize,
}

impl Default for Draft {
    fn default() -> Draft {
        let (bytes, normals, attributes, numbers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Draft { bytes, normals, attributes, numbers, entry: 1, count: 0 }
    }
}

impl Draft {
    /// Clears the draft for a new entry.
    pub(super) fn clear(&mut self) {
        self.entry += 1;
        self.bytes.clear();
        self.normals.clear();
        self.count = 0;
    }

    /// Returns the attributes in the order in which the entry received them.
    pub(super) fn attributes(&self) -> &[DraftAttribute] {
        &self.attributes[..self.count]
    }

    /// Returns the attribute whose index in `ResolvedAttributes` is `place`, if the entry has the attribute.
    pub(super) fn find(&self, place: usize) -> Option<&DraftAttribute> {
        self.number(place).map(|number| &self.attributes[number])
    }

    fn number(&self, place: usize) -> Option<usize> {
        let &(entry, number) = self.numbers.get(place)?;
        (entry == self.entry).then_some(number)
    }

    /// Returns the number of an attribute within the entry, counted from 0. Adds the attribute if the entry does not
    /// have it.
    pub(super) fn attribute(&mut self, place: usize) -> usize {
        if let Some(number) = self.number(place) {
            return number;
        }
        if place >= self.numbers.len() {
            self.numbers.resize(place + 1, (0, 0));
        }
        self.numbers[place] = (self.entry, self.count);
        if self.count == self.attributes.len() {
            self.attributes.push(DraftAttribute::default());
        }
        let attribute = &mut self.attributes[self.count];
        attribute.place = place;
        attribute.values.clear();
        (attribute.lacks_normal, attribute.streamed_count) = (false, 0);
        self.count += 1;
        self.count - 1
    }

    /// Adds a value to the attribute with this number. `normalize` appends the normal form. If `normalize` fails, the
    /// value is not added.
    pub(super) fn add<E>(
        &mut self,
        number: usize,
        bytes: &[u8],
        normalize: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.normals.len();
        normalize(bytes, &mut self.normals)?;
        let normal = start..self.normals.len();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.attributes[number].values.push(DraftValue { bytes: start..self.bytes.len(), normal });
        Ok(())
    }

    /// Adds the first value to the attribute with this number, without its normal form.
    pub(super) fn add_alone(&mut self, number: usize, bytes: &[u8]) {
        let _ = self.add(number, bytes, |_, _| Ok::<(), ()>(()));
        self.attributes[number].lacks_normal = true;
    }

    /// Computes the normal form of the attribute's only value, if the normal form is missing.
    pub(super) fn complete_normal<E>(
        &mut self,
        number: usize,
        normalize: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Draft { bytes, normals, attributes, .. } = self;
        let attribute = &mut attributes[number];
        if !attribute.lacks_normal {
            return Ok(());
        }
        let start = normals.len();
        if let Some(value) = attribute.values.first_mut() {
            normalize(&bytes[value.bytes.clone()], normals)?;
            value.normal = start..normals.len();
        }
        attribute.lacks_normal = false;
        Ok(())
    }

    /// Replaces the values of the attribute with this number.
    pub(super) fn replace<E>(
        &mut self,
        number: usize,
        values: &[Vec<u8>],
        mut normalize: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.attributes[number].values.clear();
        self.attributes[number].lacks_normal = false;
        values.iter().try_for_each(|value| self.add(number, value, &mut normalize))
    }

    /// Counts a value of the attribute with this number. The rows of the value have already been made.
    pub(super) fn add_streamed(&mut self, number: usize) {
        self.attributes[number].streamed_count += 1;
    }

    /// Returns the number of values of the attribute with this number.
    pub(super) fn value_count(&self, number: usize) -> usize {
        let attribute = &self.attributes[number];
        attribute.values.len() + attribute.streamed_count
    }

    /// Returns the values of an attribute, each with its normal form. A normal form that was not computed is empty.
    pub(super) fn values<'d>(
        &'d self,
        attribute: &'d DraftAttribute,
    ) -> impl ExactSizeIterator<Item = (&'d [u8], &'d [u8])> + Clone {
        let pair =
            |value: &DraftValue| (&self.bytes[value.bytes.clone()], &self.normals[value.normal.clone()]);
        attribute.values.iter().map(pair)
    }

    /// Returns the number, counted from 1, of a value that repeats an earlier value of the attribute.
    pub(super) fn given_twice(&self, attribute: &DraftAttribute) -> Option<usize> {
        let normal = |place: usize| &self.normals[attribute.values[place].normal.clone()];
        let count = attribute.values.len();
        if count <= COMPARED_MAX {
            let is_repeated = |&place: &usize| (0..place).any(|earlier| normal(earlier) == normal(place));
            return (1..count).find(is_repeated).map(|place| place + 1);
        }
        let mut places: Vec<usize> = (0..count).collect();
        places.sort_unstable_by(|one, other| (normal(*one), one).cmp(&(normal(*other), other)));
        let repeated = places.windows(2).filter(|pair| normal(pair[0]) == normal(pair[1]));
        repeated.map(|pair| pair[1] + 1).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ()> {
        out.extend(bytes.to_ascii_lowercase());
        Ok(())
    }

    #[test]
    fn finds_values_given_twice_among_any_number() {
        let mut draft = Draft::default();
        for count in [2, 5, 20] {
            draft.clear();
            let number = draft.attribute(7);
            for value in 0..count {
                draft.add(number, format!("Value {value}").as_bytes(), lower).unwrap();
            }
            assert_eq!(draft.given_twice(&draft.attributes()[number]), None);
            draft.add(number, b"vALUE 1", lower).unwrap();
            assert_eq!(draft.given_twice(&draft.attributes()[number]), Some(count + 1));
            assert_eq!(draft.value_count(number), count + 1);
        }
    }

    #[test]
    fn computes_a_missing_normal_form_later() {
        let mut draft = Draft::default();
        let number = draft.attribute(4);
        draft.add_alone(number, b"One");
        assert!(draft.values(&draft.attributes()[number]).eq([(&b"One"[..], &b""[..])]));
        for _ in 0..2 {
            draft.complete_normal(number, lower).unwrap();
            assert!(draft.values(&draft.attributes()[number]).eq([(&b"One"[..], &b"one"[..])]));
        }
        draft.add(number, b"oNE", lower).unwrap();
        assert_eq!(draft.given_twice(&draft.attributes()[number]), Some(2));
    }

    #[test]
    fn a_draft_keeps_nothing_of_the_previous_entry() {
        let mut draft = Draft::default();
        let number = draft.attribute(1);
        draft.add(number, b"x", lower).unwrap();
        draft.clear();
        assert!(draft.find(1).is_none());
        let number = draft.attribute(2);
        assert_eq!((number, draft.attribute(3), draft.attribute(2)), (0, 1, 0));
    }
}
