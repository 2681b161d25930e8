//! The row of an entry's attributes, read in place.
//!
//! A row is a version byte, a crc32c of the rest (little-endian), the log position of the last record that changed the
//! entry (8, big-endian) and the attributes in the order in which the entry got them, each: number (varint), form (1 byte), count of values (varint), length (varint), content. Three forms:
//!
//! - *inline*: the values one after another as BER OCTET STRINGs, exactly the contents of the `vals` SET of a search
//!   result (RFC 4511 section 4.5.2), so that answering is copying. A value over
//!   [`INLINE_VALUE_MAX`](crate::limits::INLINE_VALUE_MAX) bytes is a reference instead: tag 0x80, length 16 and the
//!   key under which `values` has it; form *mixed* says that there are such.
//! - *table*: no content; each value is a row of `values`, in the order of their normal keys.
//! - *links*: no content; the values are rows of `links`, and of `values` for names without an entry.

use std::ops::Range;

use ber::Tag;

use crate::codec::{Decoder, put_varint};
use crate::limits::KEY_HASH_SIZE;
use crate::rows::AttrId;

const VERSION: u8 = 1;
const HEAD_SIZE: usize = 5;

/// Tag of a value's reference in a *mixed* content: context-specific, primitive, 0.
const REFERENCE_TAG: u8 = 0x80;

const FORM_INLINE: u8 = 0;
const FORM_MIXED: u8 = 1;
const FORM_TABLE: u8 = 2;
const FORM_LINKS: u8 = 3;

/// How an attribute's values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// All values are here.
    Inline(InlineValues<'a>),
    /// One row of `values` each.
    Table,
    /// Rows of `links` and `values`.
    Links,
}

/// An attribute of an entry row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeRow<'a> {
    /// Type and options.
    pub id: AttrId,
    /// Its values.
    pub content: Content<'a>,
}

/// The values of an inline attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineValues<'a> {
    /// Number of values.
    pub count: usize,
    /// Whether some are references into `values`.
    pub is_mixed: bool,
    /// BER OCTET STRINGs and, where `is_mixed`, references.
    pub bytes: &'a [u8],
}

/// One value of an inline attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineValue<'a> {
    /// The value.
    Here(&'a [u8]),
    /// The hash of the value, which is its key in `values`.
    Elsewhere([u8; KEY_HASH_SIZE]),
}

/// An entry row, checked against its checksum once.
#[derive(Clone, Copy, Debug)]
pub struct EntryRow<'a> {
    /// Position of the last record that changed the entry.
    pub position: u64,
    attributes: &'a [u8],
}

impl<'a> EntryRow<'a> {
    /// Reads a row; `None` when it is damaged.
    pub fn decode(bytes: &'a [u8]) -> Option<EntryRow<'a>> {
        let (head, rest) = bytes.split_at_checked(HEAD_SIZE)?;
        let crc = u32::from_le_bytes(head[1..].try_into().ok()?);
        (crc32c::crc32c(rest) == crc).then(|| EntryRow::unchecked(bytes)).flatten()
    }

    /// Reads a row without looking at its checksum, for whoever looks at many and returns few. A damaged row may read as
    /// anything.
    #[inline]
    pub(crate) fn unchecked(bytes: &'a [u8]) -> Option<EntryRow<'a>> {
        let (head, rest) = bytes.split_at_checked(HEAD_SIZE)?;
        let (position, attributes) = rest.split_first_chunk::<8>()?;
        (head[0] == VERSION).then_some(EntryRow { position: u64::from_be_bytes(*position), attributes })
    }

    /// The attributes in the order in which the entry got them.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes(Decoder(self.attributes))
    }

    /// Octets of all attributes as they are stored.
    pub(crate) fn len(&self) -> usize {
        self.attributes.len()
    }

    /// The attribute of this number.
    pub fn find(&self, id: AttrId) -> Option<AttributeRow<'a>> {
        self.attributes().find(|attribute| attribute.id == id)
    }
}

/// Iterator of [`EntryRow::attributes`].
pub struct Attributes<'a>(Decoder<'a>);

impl<'a> Iterator for Attributes<'a> {
    type Item = AttributeRow<'a>;

    #[inline]
    fn next(&mut self) -> Option<AttributeRow<'a>> {
        let (id, form, count, bytes) = self.short().or_else(|| self.long())?;
        let content = match form {
            FORM_INLINE => Content::Inline(InlineValues { count, is_mixed: false, bytes }),
            FORM_MIXED => Content::Inline(InlineValues { count, is_mixed: true, bytes }),
            FORM_TABLE => Content::Table,
            _ => Content::Links,
        };
        Some(AttributeRow { id, content })
    }
}

/// Number, form, count of values and content of an attribute.
type Parts<'a> = (AttrId, u8, usize, &'a [u8]);

impl<'a> Attributes<'a> {
    /// The next attribute that has one of these numbers. Others are passed over without being taken apart, for scans spend much of their
    /// time here.
    #[inline]
    pub(crate) fn next_of(&mut self, ids: &[AttrId]) -> Option<AttributeRow<'a>> {
        // One number is what most filters are about.
        let only = match ids {
            [only] => only.0,
            _ => u32::MAX,
        };
        let is_wanted = |id: u8| {
            if only == u32::MAX { ids.contains(&AttrId(u32::from(id))) } else { only == u32::from(id) }
        };
        while let Some((&[id, _, count, length], rest)) = self.0.0.split_first_chunk::<4>() {
            if (id | count | length) > 0x7f || is_wanted(id) {
                let attribute = self.next()?;
                if ids.contains(&attribute.id) {
                    return Some(attribute);
                }
            } else {
                self.0.0 = rest.get(usize::from(length)..)?;
            }
        }
        None
    }

    /// The next attribute whose number is wanted. Others are passed over as by [`next_of`](Attributes::next_of).
    #[inline]
    pub(crate) fn next_where(
        &mut self,
        mut is_wanted: impl FnMut(AttrId) -> bool,
    ) -> Option<AttributeRow<'a>> {
        while let Some((&[id, _, count, length], rest)) = self.0.0.split_first_chunk::<4>() {
            if (id | count | length) > 0x7f {
                let attribute = self.next()?;
                if is_wanted(attribute.id) {
                    return Some(attribute);
                }
            } else if is_wanted(AttrId(u32::from(id))) {
                return self.next();
            } else {
                self.0.0 = rest.get(usize::from(length)..)?;
            }
        }
        None
    }

    /// The next attribute if its numbers are of one byte each, as most are.
    #[inline]
    fn short(&mut self) -> Option<Parts<'a>> {
        let (&[id, form, count, length], rest) = self.0.0.split_first_chunk::<4>()?;
        if (id | count | length) > 0x7f {
            return None;
        }
        let (content, rest) = rest.split_at_checked(usize::from(length))?;
        self.0.0 = rest;
        Some((AttrId(u32::from(id)), form, usize::from(count), content))
    }

    /// The next attribute, whatever its numbers are.
    fn long(&mut self) -> Option<Parts<'a>> {
        if self.0.is_empty() {
            return None;
        }
        Some((AttrId(self.0.number()?), self.0.byte()?, self.0.number()?, self.0.bytes()?))
    }
}

impl<'a> InlineValues<'a> {
    /// The values in the order in which they were given.
    pub fn iter(&self) -> InlineIter<'a> {
        InlineIter(self.bytes)
    }
}

/// Iterator of [`InlineValues::iter`].
pub struct InlineIter<'a>(&'a [u8]);

impl<'a> Iterator for InlineIter<'a> {
    type Item = InlineValue<'a>;

    fn next(&mut self) -> Option<InlineValue<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (length, header) = match *rest.first()? {
            short @ ..=0x7f => (usize::from(short), 1),
            0x81 => (usize::from(*rest.get(1)?), 2),
            _ => (usize::from(*rest.get(1)?) << 8 | usize::from(*rest.get(2)?), 3),
        };
        let value = rest.get(header..header + length)?;
        self.0 = &rest[header + length..];
        if tag == REFERENCE_TAG {
            return Some(InlineValue::Elsewhere(value.try_into().ok()?));
        }
        Some(InlineValue::Here(value))
    }
}

/// An entry row in memory, as `apply` changes it. Attributes stay encoded: a change of one copies the others as they are.
#[derive(Clone, Debug, Default)]
pub struct StoredEntry {
    /// Position of the last record that changed the entry.
    pub position: u64,
    /// The attributes of the row that it was made of.
    row: Vec<u8>,
    /// The attributes there are now, in the order in which the entry got them.
    attributes: Vec<(AttrId, Place)>,
}

/// Where an attribute of a [`StoredEntry`] is.
#[derive(Clone, Debug)]
enum Place {
    /// Where it was in the row.
    Row(Range<usize>),
    /// Here.
    Here(EncodedAttribute),
}

/// An attribute as it stands in a row.
#[derive(Clone, Debug)]
pub struct EncodedAttribute(Vec<u8>);

impl EncodedAttribute {
    /// One whose values are here, or referred to by their hash.
    pub(crate) fn inline(id: AttrId, values: &[InlineValue<'_>]) -> EncodedAttribute {
        let mut out = Vec::new();
        put_inline(&mut out, id, values.iter().copied());
        EncodedAttribute(out)
    }

    /// One with a row of `values` for each value.
    pub(crate) fn table(id: AttrId) -> EncodedAttribute {
        let mut out = Vec::new();
        put_empty(&mut out, id, FORM_TABLE);
        EncodedAttribute(out)
    }

    /// A link attribute.
    pub(crate) fn links(id: AttrId) -> EncodedAttribute {
        let mut out = Vec::new();
        put_empty(&mut out, id, FORM_LINKS);
        EncodedAttribute(out)
    }
}

impl StoredEntry {
    /// Copies a row.
    pub fn of(row: &EntryRow<'_>) -> StoredEntry {
        let bytes = row.attributes;
        let mut attributes = Vec::with_capacity(24);
        let mut rest = row.attributes();
        loop {
            let start = bytes.len() - rest.0.0.len();
            let Some(attribute) = rest.next() else { break };
            attributes.push((attribute.id, Place::Row(start..bytes.len() - rest.0.0.len())));
        }
        StoredEntry { position: row.position, row: bytes.to_vec(), attributes }
    }

    /// The row's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut row = RowWriter::begin(Vec::with_capacity(self.row.len() + 128), self.position);
        for (_, place) in &self.attributes {
            row.out.extend_from_slice(self.bytes(place));
        }
        row.finish()
    }

    /// The numbers of its attributes, in their order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = AttrId> {
        self.attributes.iter().map(|(id, _)| *id)
    }

    /// The content of an attribute.
    pub fn find(&self, id: AttrId) -> Option<Content<'_>> {
        let (_, place) = self.attributes.iter().find(|(attribute, _)| *attribute == id)?;
        Attributes(Decoder(self.bytes(place))).next().map(|attribute| attribute.content)
    }

    /// Sets or, with `None`, removes an attribute; a new one goes to the end.
    pub fn set(&mut self, id: AttrId, content: Option<EncodedAttribute>) {
        let place = self.attributes.iter().position(|(attribute, _)| *attribute == id);
        match (place, content.map(Place::Here)) {
            (Some(place), Some(content)) => self.attributes[place].1 = content,
            (Some(place), None) => drop(self.attributes.remove(place)),
            (None, Some(content)) => self.attributes.push((id, content)),
            (None, None) => {}
        }
    }

    fn bytes<'s>(&'s self, place: &'s Place) -> &'s [u8] {
        match place {
            Place::Row(range) => &self.row[range.clone()],
            Place::Here(attribute) => &attribute.0,
        }
    }
}

/// Writes an entry row from its beginning to its end, attribute by attribute.
pub(crate) struct RowWriter {
    out: Vec<u8>,
    /// Where the row begins in `out`.
    start: usize,
}

impl RowWriter {
    /// Begins a row behind what is in `out`.
    pub(crate) fn begin(mut out: Vec<u8>, position: u64) -> RowWriter {
        let start = out.len();
        out.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
        out.extend_from_slice(&position.to_be_bytes());
        RowWriter { out, start }
    }

    /// An attribute whose values are here, or referred to by their hash.
    pub(crate) fn inline<'v>(
        &mut self,
        id: AttrId,
        values: impl ExactSizeIterator<Item = InlineValue<'v>> + Clone,
    ) {
        put_inline(&mut self.out, id, values);
    }

    /// An attribute with a row of `values` for each value.
    pub(crate) fn table(&mut self, id: AttrId) {
        put_empty(&mut self.out, id, FORM_TABLE);
    }

    /// A link attribute.
    pub(crate) fn links(&mut self, id: AttrId) {
        put_empty(&mut self.out, id, FORM_LINKS);
    }

    /// The buffer with the complete row at its end.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let (_, row) = self.out.split_at_mut(self.start);
        let crc = crc32c::crc32c(&row[HEAD_SIZE..]);
        row[1..HEAD_SIZE].copy_from_slice(&crc.to_le_bytes());
        self.out
    }
}

fn put_inline<'v>(
    out: &mut Vec<u8>,
    id: AttrId,
    values: impl ExactSizeIterator<Item = InlineValue<'v>> + Clone,
) {
    let (mut size, mut is_mixed) = (0, false);
    for value in values.clone() {
        let (tag, bytes) = tagged(&value);
        is_mixed |= tag == REFERENCE_TAG;
        size += 2 + usize::from(bytes.len() > 0x7f) + usize::from(bytes.len() > 0xff) + bytes.len();
    }
    put_varint(out, u64::from(id.0));
    out.push(if is_mixed { FORM_MIXED } else { FORM_INLINE });
    put_varint(out, values.len() as u64);
    put_varint(out, size as u64);
    for value in values {
        let (tag, bytes) = tagged(&value);
        out.push(tag);
        // Inline values end at INLINE_VALUE_MAX, far below two length octets.
        match bytes.len() {
            short @ ..=0x7f => out.push(short as u8),
            medium @ ..0x100 => out.extend_from_slice(&[0x81, medium as u8]),
            long => out.extend_from_slice(&[0x82, (long >> 8) as u8, long as u8]),
        }
        out.extend_from_slice(bytes);
    }
}

/// An attribute without a content.
fn put_empty(out: &mut Vec<u8>, id: AttrId, form: u8) {
    put_varint(out, u64::from(id.0));
    out.extend_from_slice(&[form, 0, 0]);
}

fn tagged<'v>(value: &'v InlineValue<'_>) -> (u8, &'v [u8]) {
    match value {
        InlineValue::Here(bytes) => (Tag::OCTET_STRING.0, bytes),
        InlineValue::Elsewhere(key) => (REFERENCE_TAG, key),
    }
}

const _: () = assert!(crate::limits::INLINE_VALUE_MAX < 0x1_0000);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: [u8; 700] = [b'l'; 700];

    fn sample() -> StoredEntry {
        let mut entry = StoredEntry { position: 77, ..StoredEntry::default() };
        let short = [InlineValue::Here(b"one"), InlineValue::Here(b"")];
        entry.set(AttrId(3), Some(EncodedAttribute::inline(AttrId(3), &short)));
        let mixed = [InlineValue::Here(&LONG), InlineValue::Elsewhere([7; 16])];
        entry.set(AttrId(200), Some(EncodedAttribute::inline(AttrId(200), &mixed)));
        entry.set(AttrId(4), Some(EncodedAttribute::table(AttrId(4))));
        entry.set(AttrId(5), Some(EncodedAttribute::links(AttrId(5))));
        entry
    }

    fn values<'e>(entry: &'e StoredEntry, id: u32) -> Vec<InlineValue<'e>> {
        let Some(Content::Inline(values)) = entry.find(AttrId(id)) else { panic!("not inline") };
        values.iter().collect()
    }

    #[test]
    fn rows_go_both_ways() {
        let bytes = sample().encode();
        let row = EntryRow::decode(&bytes).unwrap();
        let entry = StoredEntry::of(&row);
        assert_eq!(entry.encode(), bytes);
        assert_eq!(entry.position, 77);
        assert_eq!(entry.ids().collect::<Vec<_>>(), [AttrId(3), AttrId(200), AttrId(4), AttrId(5)]);
        assert_eq!(values(&entry, 3), [InlineValue::Here(b"one"), InlineValue::Here(b"")]);
        assert_eq!(values(&entry, 200), [InlineValue::Here(&LONG), InlineValue::Elsewhere([7; 16])]);
        assert_eq!(entry.find(AttrId(4)), Some(Content::Table));
        assert_eq!(entry.find(AttrId(5)), Some(Content::Links));
        let Content::Inline(values) = row.find(AttrId(3)).unwrap().content else { panic!("not inline") };
        assert!(!values.is_mixed);
        assert_eq!(values.bytes, b"\x04\x03one\x04\x00");
        assert_eq!(row.find(AttrId(9)), None);
    }

    #[test]
    fn attributes_change_in_their_place_and_new_ones_go_to_the_end() {
        let bytes = sample().encode();
        let mut entry = StoredEntry::of(&EntryRow::decode(&bytes).unwrap());
        entry.set(AttrId(200), Some(EncodedAttribute::inline(AttrId(200), &[InlineValue::Here(b"new")])));
        entry.set(AttrId(4), None);
        entry.set(AttrId(9), None);
        entry.set(AttrId(6), Some(EncodedAttribute::table(AttrId(6))));
        let bytes = entry.encode();
        let entry = StoredEntry::of(&EntryRow::decode(&bytes).unwrap());
        assert_eq!(entry.ids().collect::<Vec<_>>(), [AttrId(3), AttrId(200), AttrId(5), AttrId(6)]);
        assert_eq!(values(&entry, 3), [InlineValue::Here(b"one"), InlineValue::Here(b"")]);
        assert_eq!(values(&entry, 200), [InlineValue::Here(b"new")]);
    }

    #[test]
    fn some_attributes_are_found_among_others() {
        let bytes = sample().encode();
        let row = EntryRow::decode(&bytes).unwrap();
        for ids in [&[][..], &[3], &[200], &[4, 5], &[5, 4], &[3, 200, 5], &[9, 201], &[3, 4, 5, 200]] {
            let ids: Vec<_> = ids.iter().copied().map(AttrId).collect();
            let expected: Vec<_> = row.attributes().filter(|row| ids.contains(&row.id)).collect();
            let mut attributes = row.attributes();
            let found: Vec<_> = std::iter::from_fn(|| attributes.next_of(&ids)).collect();
            assert_eq!(found, expected, "{ids:?}");
            let mut attributes = row.attributes();
            let found: Vec<_> =
                std::iter::from_fn(|| attributes.next_where(|id| ids.contains(&id))).collect();
            assert_eq!(found, expected, "{ids:?}");
        }
    }

    #[test]
    fn damage_is_seen() {
        let good = sample().encode();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x40;
            assert!(EntryRow::decode(&bad).is_none(), "byte {place}");
        }
    }
}
