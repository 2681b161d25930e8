//! Row of an entry's attributes, read in place.
//!
//! A row consists of:
//!
//! - a version byte
//! - a crc32c of the rest (little-endian)
//! - the log position of the last record that changed the entry (8 bytes, big-endian)
//! - the length of all heads (4 bytes, big-endian)
//! - one head per attribute, in the order in which the entry received the attributes
//! - the contents of the attributes, in the same order
//!
//! A head consists of an attribute number (varint), a form (1 byte), the number of values (varint) and the length of
//! the content (varint). All heads are adjacent. A scan for one attribute therefore reads two or three cache lines of
//! heads and the lines of the attribute's values, not the values of the attributes before it.
//!
//! The forms of content:
//!
//! - *inline*: the values as consecutive BER OCTET STRINGs. A search result contains these octets unchanged as the
//!   contents of its `vals` SET (RFC 4511 section 4.5.2). A value over
//!   [`INLINE_VALUE_MAX`](crate::model::limits::INLINE_VALUE_MAX) bytes is replaced by a reference: tag 0x80, length
//!   16 and the key of its row in `values`. The form *mixed* marks an attribute with such references.
//! - *uuid*, *time*, *csn* and *words*: [packed] values.
//! - *table*: no content; each value is a row of `values`, in the order of normal keys.
//! - *links*: no content; the values are rows of `links`. Dangling links are rows of `values`.
//!
//! Rows of version 2 have no packed values. They become rows of version 3 when the entry changes or is imported.

mod packed;
mod stored;
mod words;

use std::borrow::Cow;

use ber::Tag;
use uuid::Uuid;

use crate::model::codec::Decoder;
use crate::model::limits::KEY_HASH_SIZE;
use crate::model::low_numbers::LowNumbers;
use crate::model::rows::AttrId;
pub use packed::PackedText;
pub use stored::{EncodedAttribute, StoredEntry};
pub(crate) use stored::{RowWriter, of_current_version, plain};

const VERSION: u8 = 3;

/// Version of rows without packed values.
const VERSION_PLAIN: u8 = 2;

/// Size of the version and the checksum. The checksum covers all bytes after these two fields.
const CHECKED_FROM: usize = 5;

/// Size of the fields before the heads.
const FIXED_SIZE: usize = CHECKED_FROM + 8 + 4;

/// Tag of a reference in content of the form *mixed*: context-specific, primitive, 0.
const REFERENCE_TAG: u8 = 0x80;

/// Size of a short head. A short head consists of the attribute number, form, count and length, one byte each. Most
/// heads are short.
const SHORT_HEAD: usize = 4;

const FORM_INLINE: u8 = 0;
const FORM_MIXED: u8 = 1;
const FORM_TABLE: u8 = 2;
const FORM_LINKS: u8 = 3;
const FORM_UUID: u8 = 4;
const FORM_TIME: u8 = 5;
const FORM_CSN: u8 = 6;
const FORM_WORDS: u8 = 7;

/// Storage of an attribute's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// All values are in the row.
    Inline(InlineValues<'a>),
    /// Each value is a row of `values`.
    Table,
    /// The values are rows of `links`, or of `values` for dangling links.
    Links,
}

/// An attribute of an entry row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeRow<'a> {
    /// Number of the attribute description: type and options.
    pub id: AttrId,
    /// Values of the attribute.
    pub content: Content<'a>,
}

/// Values of an inline attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineValues<'a> {
    /// Number of values.
    pub count: usize,
    form: u8,
    /// The content.
    bytes: &'a [u8],
}

/// One value of an inline attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineValue<'a> {
    /// The value itself.
    Here(&'a [u8]),
    /// The text of a value that the row contains in packed form.
    Text(PackedText),
    /// Hash of the value. The hash is the key of the value in `values`.
    Reference([u8; KEY_HASH_SIZE]),
}

/// An entry row whose checksum has been verified.
#[derive(Clone, Copy, Debug)]
pub struct EntryRow<'a> {
    /// Position of the last record that changed the entry.
    pub position: u64,
    heads: &'a [u8],
    contents: &'a [u8],
    version: u8,
}

impl<'a> EntryRow<'a> {
    /// Decodes a row and verifies its checksum; `None` if it is damaged.
    pub fn decode(bytes: &'a [u8]) -> Option<EntryRow<'a>> {
        let (_, rest) = bytes.split_first()?;
        let (crc, rest) = rest.split_first_chunk::<{ CHECKED_FROM - 1 }>()?;
        let crc = u32::from_le_bytes(*crc);
        (crc32c::crc32c(rest) == crc).then(|| EntryRow::unchecked(bytes)).flatten()
    }

    /// Returns the entry's UUID. `attribute` is the number of entryUUID. Returns `None` if the entry has no UUID.
    pub(crate) fn uuid(&self, attribute: AttrId) -> Option<[u8; 16]> {
        let Content::Inline(values) = self.find(attribute)?.content else { return None };
        if values.form == FORM_UUID {
            return values.bytes.try_into().ok();
        }
        Uuid::try_parse_ascii(values.iter().next()?.here()?).map(Uuid::into_bytes).ok()
    }

    /// Decodes a row without verifying its checksum. The function is for callers that examine many rows and return few
    /// of them. The attributes of a damaged row are arbitrary.
    #[inline]
    pub(crate) fn unchecked(bytes: &'a [u8]) -> Option<EntryRow<'a>> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED_SIZE>()?;
        let position = u64::from_be_bytes(*fixed[CHECKED_FROM..].first_chunk()?);
        let heads_len = u32::from_be_bytes(*fixed.last_chunk()?);
        let (heads, contents) = rest.split_at_checked(heads_len as usize)?;
        let version = fixed[0];
        (version == VERSION || version == VERSION_PLAIN).then_some(EntryRow {
            position,
            heads,
            contents,
            version,
        })
    }

    /// Returns the attributes in the order in which the entry received them.
    #[inline]
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes { heads: Decoder(self.heads), contents: self.contents }
    }

    /// Returns the encoded size of all attributes, in octets.
    pub(crate) fn len(&self) -> usize {
        self.heads.len() + self.contents.len()
    }

    /// Returns the attribute with this number.
    #[inline]
    pub fn find(&self, id: AttrId) -> Option<AttributeRow<'a>> {
        self.attributes().next_of(&[id])
    }

    /// Like [`find`](EntryRow::find), without decoding the content. `place` is the attribute's place in a previous
    /// row. This place is tried first, because most entries of a directory have the same attributes. If the attribute
    /// has another place, `place` is updated.
    #[inline(always)]
    pub(crate) fn locate(&self, id: AttrId, place: &mut Place) -> Option<Located<'a>> {
        if let Some(located) = self.attributes().at(id, place) {
            return Some(located);
        }
        self.locate_anew(id, place)
    }

    #[inline(never)]
    fn locate_anew(&self, id: AttrId, place: &mut Place) -> Option<Located<'a>> {
        let mut attributes = self.attributes();
        let mut anew = Place::default();
        loop {
            let heads = attributes.pass_over(id)?;
            let (found, located) = attributes.next_located()?;
            anew.add_heads(heads);
            if found == id {
                *place = anew;
                return Some(located);
            }
            anew.add_long();
        }
    }
}

/// Place of an attribute in a row, given by the numbers of short and long heads before the attribute's head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Numbers of consecutive short heads: before the first long head, between long heads, and after the last long
    /// head.
    short: [u16; LONG_HEADS_MAX + 1],
    /// Number of long heads.
    long: u8,
}

/// Maximum number of long heads in a [`Place`]. An attribute after more long heads is searched for in each row.
const LONG_HEADS_MAX: usize = 3;

impl Place {
    /// Sets the number of short heads at the end of the place.
    fn add_heads(&mut self, count: usize) {
        if let Some(last) = self.short.get_mut(usize::from(self.long)) {
            *last = u16::try_from(count).unwrap_or(u16::MAX);
        }
    }

    /// Adds a long head at the end of the place.
    fn add_long(&mut self) {
        self.long = self.long.saturating_add(1);
    }
}

/// Iterator of [`EntryRow::attributes`].
pub struct Attributes<'a> {
    heads: Decoder<'a>,
    contents: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = AttributeRow<'a>;

    #[inline]
    fn next(&mut self) -> Option<AttributeRow<'a>> {
        self.next_located().map(|(id, located)| AttributeRow { id, content: located.content() })
    }
}

/// An attribute found in a row. Its content is not decoded yet.
#[derive(Clone, Copy)]
pub(crate) struct Located<'a> {
    form: u8,
    count: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Located<'a> {
    /// Placeholder for an attribute whose values are outside the row.
    pub(crate) const UNKNOWN: Located<'static> = Located { form: FORM_TABLE, count: 0, bytes: &[] };

    /// Returns the values as BER OCTET STRINGs, if the row or a constant contains them in this form; `None` otherwise.
    #[inline(always)]
    pub(crate) fn encoded(self) -> Option<&'a [u8]> {
        match self.form {
            FORM_INLINE => Some(self.bytes),
            FORM_WORDS => packed::encoded_words(self.bytes),
            _ => None,
        }
    }

    /// Returns the values, if the row contains them as OCTET STRINGs, which is the usual case; `None` otherwise.
    #[inline(always)]
    pub(crate) fn octet_strings(self) -> Option<OctetStrings<'a>> {
        (self.form == FORM_INLINE).then_some(OctetStrings(self.bytes))
    }

    #[inline(always)]
    pub(crate) fn content(self) -> Content<'a> {
        let Located { form, count, bytes } = self;
        match form {
            FORM_TABLE => Content::Table,
            FORM_LINKS => Content::Links,
            _ => Content::Inline(InlineValues { count, form, bytes }),
        }
    }
}

impl<'a> Attributes<'a> {
    #[inline(always)]
    fn next_located(&mut self) -> Option<(AttrId, Located<'a>)> {
        let Head { id, form, count, length } = match self.heads.0.split_first_chunk::<SHORT_HEAD>() {
            // Most heads are short.
            Some((&head, rest)) if u32::from_le_bytes(head) & LONG_HEAD == 0 => {
                self.heads.0 = rest;
                let [id, form, count, length] = head;
                Head { id: AttrId(id.into()), form, count: count.into(), length: length.into() }
            }
            _ => self.long_head()?,
        };
        let (bytes, rest) = self.contents.split_at_checked(length)?;
        self.contents = rest;
        Some((id, Located { form, count, bytes }))
    }
}

/// The head of an attribute.
struct Head {
    id: AttrId,
    form: u8,
    count: usize,
    length: usize,
}

/// Mask over four bytes of a head, read as a little-endian number. If one of the bits is set, the head is long: its
/// number, count or length continues in the next byte.
const LONG_HEAD: u32 = 0x8080_0080;

impl<'a> Attributes<'a> {
    /// Returns the next attribute with one of these numbers. Skips other attributes without decoding them, because
    /// scans spend much of their time here.
    #[inline]
    pub(crate) fn next_of(&mut self, ids: &[AttrId]) -> Option<AttributeRow<'a>> {
        // Most filters test one attribute number.
        if let [only] = ids {
            let located = self.only(*only)?;
            return Some(AttributeRow { id: *only, content: located.content() });
        }
        let mut passed = 0;
        while let Some((&head, rest)) = self.heads.0.split_first_chunk::<SHORT_HEAD>() {
            let head = u32::from_le_bytes(head);
            if head & LONG_HEAD == 0 && !ids.contains(&AttrId(head & 0x7f)) {
                self.heads.0 = rest;
                passed += (head >> 24) as usize;
                continue;
            }
            self.contents = self.contents.get(passed..)?;
            passed = 0;
            let attribute = self.next()?;
            if ids.contains(&attribute.id) {
                return Some(attribute);
            }
        }
        None
    }

    /// Returns the next matching attribute. `wanted` selects among attributes with short heads, `is_wanted` among
    /// attributes with long heads. Skips other attributes without decoding them.
    #[inline]
    pub(crate) fn next_where(
        &mut self,
        wanted: LowNumbers,
        mut is_wanted: impl FnMut(AttrId) -> bool,
    ) -> Option<(AttrId, Located<'a>)> {
        // Local copies avoid writing the fields for every attribute.
        let (mut heads, mut passed) = (self.heads.0, 0);
        while let Some((&head, rest)) = heads.split_first_chunk::<SHORT_HEAD>() {
            let bits = u32::from_le_bytes(head);
            if bits & LONG_HEAD != 0 {
                self.heads.0 = heads;
                self.contents = self.contents.get(passed..)?;
                let (id, located) = self.next_located()?;
                if is_wanted(id) {
                    return Some((id, located));
                }
                (heads, passed) = (self.heads.0, 0);
                continue;
            }
            heads = rest;
            let length = (bits >> 24) as usize;
            if wanted.contains(bits) {
                self.heads.0 = rest;
                let (bytes, contents) = self.contents.get(passed..)?.split_at_checked(length)?;
                self.contents = contents;
                let [id, form, count, _] = head;
                return Some((AttrId(id.into()), Located { form, count: count.into(), bytes }));
            }
            passed += length;
        }
        None
    }

    /// Returns the attribute with this number. Exhausts the iterator, because an attribute number occurs only once in a
    /// row.
    #[inline]
    fn only(&mut self, id: AttrId) -> Option<Located<'a>> {
        loop {
            self.pass_over(id)?;
            let (found, located) = self.next_located()?;
            if found == id {
                self.heads.0 = &[];
                return Some(located);
            }
        }
    }

    /// Skips attributes up to the first attribute with a long head or with this number. Returns the number of skipped
    /// attributes.
    #[inline]
    fn pass_over(&mut self, id: AttrId) -> Option<usize> {
        let (heads, contents) = passed_over(self.heads.0, id);
        self.heads.0 = self.heads.0.get(heads..)?;
        self.contents = self.contents.get(contents..)?;
        Some(heads / SHORT_HEAD)
    }

    /// Returns the attribute at this place, if the attribute has this number.
    #[inline(always)]
    fn at(mut self, id: AttrId, place: &Place) -> Option<Located<'a>> {
        let mut last = place.short[0];
        if place.long > 0 {
            last = self.skip_long(place)?;
        }
        let (heads, _) = self.heads.0.as_chunks::<SHORT_HEAD>();
        let (before, rest) = heads.split_at_checked(last.into())?;
        let head = rest.first()?;
        let [number, form, count, length] = *head;
        let (all, passed) = summed(before);
        if all & LONG_HEAD != 0 {
            return None;
        }
        let contents = self.contents.get(passed..)?;
        if u32::from_le_bytes(*head) & LONG_HEAD != 0 {
            let heads = self.heads.0.get(before.as_flattened().len()..)?;
            return Attributes { heads: Decoder(heads), contents }.first_if(id);
        }
        if u32::from(number) != id.0 {
            return None;
        }
        Some(Located { form, count: count.into(), bytes: contents.get(..length.into())? })
    }

    /// Returns the next attribute if this attribute has the number `id`.
    #[inline(never)]
    fn first_if(mut self, id: AttrId) -> Option<Located<'a>> {
        let (found, located) = self.next_located()?;
        (found == id).then_some(located)
    }

    /// Skips the attributes up to the last long head of a place. Returns the number of short heads after this long
    /// head. A head that is long in `place` may be short in this row.
    #[inline(never)]
    fn skip_long(&mut self, place: &Place) -> Option<u16> {
        let (before, rest) = place.short.split_at_checked(place.long.into())?;
        for count in before {
            let (heads, _) = self.heads.0.as_chunks::<SHORT_HEAD>();
            let (short, _) = heads.split_at_checked((*count).into())?;
            let (all, passed) = summed(short);
            if all & LONG_HEAD != 0 {
                return None;
            }
            self.heads.0 = self.heads.0.get(short.as_flattened().len()..)?;
            self.contents = self.contents.get(passed..)?;
            self.next_located()?;
        }
        rest.first().copied()
    }

    /// Decodes the next head, short or long.
    fn long_head(&mut self) -> Option<Head> {
        if self.heads.is_empty() {
            return None;
        }
        let heads = &mut self.heads;
        Some(Head {
            id: AttrId(heads.number()?),
            form: heads.byte()?,
            count: heads.number()?,
            length: heads.number()?,
        })
    }
}

/// Returns the total size in bytes of the heads before the first head that is long or has this number. Also returns the
/// total size of their contents. The loop handles four heads at a time, so that the compiler vectorizes it.
#[inline]
fn passed_over(heads: &[u8], id: AttrId) -> (usize, usize) {
    // A long head has at least one bit of `LONG_HEAD`. The lowest byte is the attribute number, so the mask includes
    // the lowest byte to compare numbers below 128.
    let stops = |head: u32| head & LONG_HEAD | if head & (LONG_HEAD | 0xff) == id.0 { u32::MAX } else { 0 };
    let (heads, _) = heads.as_chunks::<SHORT_HEAD>();
    let (mut place, mut passed) = (0, 0);
    for block in heads.as_chunks::<4>().0 {
        let block = block.map(u32::from_le_bytes);
        let [a, b, c, d] = block.map(stops);
        if a | b | c | d != 0 {
            break;
        }
        place += 4;
        passed += block.map(|head| head >> 24).iter().sum::<u32>();
    }
    for head in heads.get(place..).unwrap_or_default() {
        let head = u32::from_le_bytes(*head);
        if stops(head) != 0 {
            break;
        }
        place += 1;
        passed += head >> 24;
    }
    (place * SHORT_HEAD, passed as usize)
}

/// Returns the bitwise OR of these heads, and the total size of their contents. The size is valid only if all heads are
/// short. Vectorized like [`passed_over`].
#[inline(always)]
fn summed(heads: &[[u8; SHORT_HEAD]]) -> (u32, usize) {
    let (blocks, rest) = heads.as_chunks::<4>();
    let (mut all, mut passed) = ([0; 4], [0; 4]);
    for block in blocks {
        let block = block.map(u32::from_le_bytes);
        for ((all, passed), head) in all.iter_mut().zip(&mut passed).zip(block) {
            *all |= head;
            *passed += head >> 24;
        }
    }
    let rest = rest.iter().map(|head| u32::from_le_bytes(*head));
    let (all, passed) = (all.into_iter().reduce(|a, b| a | b).unwrap_or(0), passed.iter().sum::<u32>());
    rest.fold((all, passed as usize), |(all, passed), head| (all | head, passed + (head >> 24) as usize))
}

impl<'a> InlineValues<'a> {
    /// Returns the values in the order in which clients added them.
    #[inline]
    pub fn iter(&self) -> InlineIter<'a> {
        InlineIter { form: self.form, bytes: self.bytes, listed: &[] }
    }

    /// Returns the values, if the row contains them as OCTET STRINGs, which is the usual case; `None` otherwise.
    #[inline(always)]
    pub(crate) fn octet_strings(&self) -> Option<OctetStrings<'a>> {
        let InlineValues { form, count, bytes } = *self;
        Located { form, count, bytes }.octet_strings()
    }
}

impl<'a> InlineValue<'a> {
    /// Returns the value; `None` if it is not in the row.
    #[inline]
    pub fn here(&self) -> Option<&[u8]> {
        match self {
            InlineValue::Here(value) => Some(value),
            InlineValue::Text(text) => Some(text.as_bytes()),
            InlineValue::Reference(_) => None,
        }
    }

    /// Returns the value with the lifetime of the row; `None` if it is not in the row.
    pub(crate) fn into_here(self) -> Option<Cow<'a, [u8]>> {
        match self {
            InlineValue::Here(value) => Some(Cow::Borrowed(value)),
            InlineValue::Text(text) => Some(Cow::Owned(text.as_bytes().to_vec())),
            InlineValue::Reference(_) => None,
        }
    }
}

/// Iterator of [`InlineValues::octet_strings`].
pub(crate) struct OctetStrings<'a>(&'a [u8]);

impl<'a> Iterator for OctetStrings<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        next_element(&mut self.0).map(|(_, value)| value)
    }
}

/// Iterator of [`InlineValues::iter`].
pub struct InlineIter<'a> {
    form: u8,
    bytes: &'a [u8],
    /// Values that the last octet represents and that the iterator has not returned yet, as OCTET STRINGs.
    listed: &'static [u8],
}

impl<'a> Iterator for InlineIter<'a> {
    type Item = InlineValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<InlineValue<'a>> {
        if self.form > FORM_MIXED {
            return self.next_packed();
        }
        next_element(&mut self.bytes).and_then(inline_value)
    }
}

impl<'a> InlineIter<'a> {
    #[inline(never)]
    fn next_packed(&mut self) -> Option<InlineValue<'a>> {
        if self.form != FORM_WORDS {
            return packed::text(self.form, std::mem::take(&mut self.bytes)).map(InlineValue::Text);
        }
        if !self.listed.is_empty() {
            return next_element(&mut self.listed).and_then(inline_value);
        }
        let (octet, rest) = self.bytes.split_first()?;
        if let Some(values) = words::values_of(*octet) {
            (self.bytes, self.listed) = (rest, values);
            return next_element(&mut self.listed).and_then(inline_value);
        }
        if ![Tag::OCTET_STRING.0, REFERENCE_TAG].contains(octet) {
            return None;
        }
        next_element(&mut self.bytes).and_then(inline_value)
    }
}

/// Removes the first element from the encoded values and references, and returns its tag and octets.
#[inline(always)]
fn next_element<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (length, header) = match *rest.first()? {
        short @ ..=0x7f => (usize::from(short), 1),
        0x81 => (usize::from(*rest.get(1)?), 2),
        _ => (usize::from(*rest.get(1)?) << 8 | usize::from(*rest.get(2)?), 3),
    };
    let (value, rest) = rest.get(header..)?.split_at_checked(length)?;
    *bytes = rest;
    Some((tag, value))
}

#[inline]
fn inline_value((tag, octets): (u8, &[u8])) -> Option<InlineValue<'_>> {
    if tag == REFERENCE_TAG {
        return Some(InlineValue::Reference(octets.try_into().ok()?));
    }
    Some(InlineValue::Here(octets))
}

/// Appends a value, or the reference to it.
fn put_value(content: &mut Vec<u8>, value: &InlineValue<'_>) {
    let (tag, bytes) = tagged(value);
    // Inline values are at most INLINE_VALUE_MAX long, so two length octets suffice.
    match bytes.len().to_be_bytes() {
        [.., 0, short @ ..=0x7f] => content.extend_from_slice(&[tag, short]),
        [.., 0, medium] => content.extend_from_slice(&[tag, 0x81, medium]),
        [.., high, low] => content.extend_from_slice(&[tag, 0x82, high, low]),
    }
    content.extend_from_slice(bytes);
}

/// Returns the tag and the octets of a value or a reference.
fn tagged<'v>(value: &'v InlineValue<'_>) -> (u8, &'v [u8]) {
    match value {
        InlineValue::Reference(key) => (REFERENCE_TAG, key),
        InlineValue::Here(bytes) => (Tag::OCTET_STRING.0, bytes),
        InlineValue::Text(text) => (Tag::OCTET_STRING.0, text.as_bytes()),
    }
}

const _: () = assert!(crate::model::limits::INLINE_VALUE_MAX < 0x1_0000);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: [u8; 700] = [b'l'; 700];

    fn sample() -> StoredEntry {
        let mut entry =
            StoredEntry::of(&EntryRow { position: 77, heads: &[], contents: &[], version: VERSION });
        let short = [InlineValue::Here(b"one"), InlineValue::Here(b"")];
        entry.set(AttrId(3), Some(EncodedAttribute::inline(AttrId(3), &short)));
        let mixed = [InlineValue::Here(&LONG), InlineValue::Reference([7; 16])];
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
    fn rows_round_trip() {
        let bytes = sample().encode();
        let row = EntryRow::decode(&bytes).unwrap();
        let entry = StoredEntry::of(&row);
        assert_eq!(entry.encode(), bytes);
        assert_eq!(entry.position, 77);
        assert_eq!(entry.ids().collect::<Vec<_>>(), [AttrId(3), AttrId(200), AttrId(4), AttrId(5)]);
        assert_eq!(values(&entry, 3), [InlineValue::Here(b"one"), InlineValue::Here(b"")]);
        assert_eq!(values(&entry, 200), [InlineValue::Here(&LONG), InlineValue::Reference([7; 16])]);
        assert_eq!(entry.find(AttrId(4)), Some(Content::Table));
        assert_eq!(entry.find(AttrId(5)), Some(Content::Links));
        let Content::Inline(values) = row.find(AttrId(3)).unwrap().content else { panic!("not inline") };
        assert_eq!(values.octet_strings().unwrap().0, b"\x04\x03one\x04\x00");
        assert_eq!(row.find(AttrId(9)), None);
    }

    #[test]
    fn changed_attributes_keep_their_place_and_new_ones_are_appended() {
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
    fn requested_attributes_are_found_in_row_order() {
        let bytes = sample().encode();
        let row = EntryRow::decode(&bytes).unwrap();
        for ids in [&[][..], &[3], &[200], &[4, 5], &[5, 4], &[3, 200, 5], &[9, 201], &[3, 4, 5, 200]] {
            let ids: Vec<_> = ids.iter().copied().map(AttrId).collect();
            let expected: Vec<_> = row.attributes().filter(|row| ids.contains(&row.id)).collect();
            let mut attributes = row.attributes();
            let found: Vec<_> = std::iter::from_fn(|| attributes.next_of(&ids)).collect();
            assert_eq!(found, expected, "{ids:?}");
            let mut attributes = row.attributes();
            let mut low = LowNumbers::default();
            ids.iter().for_each(|id| low.insert(*id));
            let found: Vec<_> = std::iter::from_fn(|| attributes.next_where(low, |id| ids.contains(&id)))
                .map(|(id, located)| AttributeRow { id, content: located.content() })
                .collect();
            assert_eq!(found, expected, "{ids:?}");
        }
    }

    #[test]
    fn locates_an_attribute_whatever_its_place_in_the_previous_row() {
        let mut plain = StoredEntry::default();
        for id in 1..20 {
            let value = vec![b'v'; id as usize];
            plain.set(AttrId(id), Some(EncodedAttribute::inline(AttrId(id), &[InlineValue::Here(&value)])));
        }
        for entry in [sample(), plain, StoredEntry::default()] {
            let bytes = entry.encode();
            let row = EntryRow::decode(&bytes).unwrap();
            for id in (0..22).chain([199, 200, 201]).map(AttrId) {
                let expected = row.find(id).map(|attribute| attribute.content);
                for was in places() {
                    let mut place = was;
                    let located = row.locate(id, &mut place).map(Located::content);
                    assert_eq!(located, expected, "{id:?} looked for at {was:?}");
                    assert_eq!(row.locate(id, &mut place).map(Located::content), expected, "again");
                }
            }
        }
        let bytes = sample().encode();
        let mut place = Place { short: [7, 0, 0, 0], long: 0 };
        let row = EntryRow::decode(&bytes).unwrap();
        assert!(row.locate(AttrId(3), &mut place).is_some());
        assert_eq!((place.short[0], place.long), (0, 0));
    }

    /// Returns places with up to five long heads, more than [`LONG_HEADS_MAX`].
    fn places() -> impl Iterator<Item = Place> {
        let short = (0..6u16).flat_map(|first| (0..4).map(move |second| [first * 4, second, first, second]));
        short.flat_map(|short| (0..6).map(move |long| Place { short, long }))
    }

    /// The rows have the same attributes in the same order, but short and long heads at different places.
    #[test]
    fn attributes_are_located_after_short_and_long_heads() {
        let mut rng = fastrand::Rng::with_seed(37);
        for _ in 0..300 {
            let count = rng.u32(1..24);
            let mut place = Place::default();
            let wanted = AttrId(rng.u32(0..count + 2));
            for _ in 0..8 {
                let mut entry = StoredEntry::default();
                for id in 0..count {
                    let value = vec![b'v'; [3, 40, 126, 127, 128, 500][rng.usize(..6)]];
                    let values = vec![InlineValue::Here(&value); rng.usize(1..3)];
                    if rng.u32(..12) > 0 {
                        entry.set(AttrId(id), Some(EncodedAttribute::inline(AttrId(id), &values)));
                    }
                }
                let bytes = entry.encode();
                let row = EntryRow::decode(&bytes).unwrap();
                let expected = row.attributes().find(|attribute| attribute.id == wanted);
                let located = row.locate(wanted, &mut place).map(Located::content);
                assert_eq!(located, expected.map(|attribute| attribute.content));
            }
        }
    }

    #[test]
    fn detects_damaged_rows() {
        let good = sample().encode();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x40;
            assert!(EntryRow::decode(&bad).is_none(), "byte {place}");
        }
    }
}
