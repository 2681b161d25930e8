//! Writers of entry rows. [`RowWriter`] writes a whole row attribute by attribute. [`StoredEntry`] changes some
//! attributes of an existing row in memory.

use std::borrow::Cow;
use std::ops::Range;

use super::{
    Attributes, CHECKED_FROM, Content, EntryRow, FIXED_SIZE, FORM_INLINE, FORM_LINKS, FORM_MIXED, FORM_TABLE,
    InlineValue, VERSION, VERSION_PLAIN, packed, put_value, tagged,
};
use crate::model::codec::{Decoder, put_varint};
use crate::model::rows::AttrId;

/// Initial capacity for heads; enough for most entries.
const HEADS_CAPACITY: usize = 128;

/// An entry row in memory that `apply` changes. Attributes stay encoded, so a change of one attribute copies the other
/// attributes without decoding them.
#[derive(Clone, Debug, Default)]
pub struct StoredEntry {
    /// Position of the last record that changed the entry.
    pub position: u64,
    /// Heads and contents of the original row.
    row: Vec<u8>,
    /// The current attributes, in the order in which the entry received them.
    attributes: Vec<(AttrId, AttributePlace)>,
}

/// Location of an attribute of a [`StoredEntry`].
#[derive(Clone, Debug)]
enum AttributePlace {
    /// An unchanged attribute: ranges of its head and its content in `row`. A row is far smaller than 4 GiB.
    Row(Range<u32>, Range<u32>),
    /// A new or changed attribute.
    Here(EncodedAttribute),
}

/// An attribute encoded as in an entry row.
#[derive(Clone, Debug)]
pub struct EncodedAttribute {
    /// The content, then the head.
    bytes: Vec<u8>,
    content_len: u32,
}

impl EncodedAttribute {
    /// Encodes an attribute with inline values. The row contains each value, or a reference with the hash of the value.
    pub(crate) fn inline(id: AttrId, values: &[InlineValue<'_>]) -> EncodedAttribute {
        // A head usually takes four octets. A tag and a length precede each value, in two or three octets.
        let len: usize = values.iter().map(|value| 3 + tagged(value).1.len()).sum();
        let mut bytes = Vec::with_capacity(8 + len);
        let form = packed::put(&mut bytes, values).unwrap_or_else(|| put_values(&mut bytes, values));
        let content_len = bytes.len();
        put_head(&mut bytes, id, (form, values.len(), content_len));
        EncodedAttribute { bytes, content_len: as_u32(content_len) }
    }

    /// Encodes an attribute that has one row of `values` per value.
    pub(crate) fn table(id: AttrId) -> EncodedAttribute {
        EncodedAttribute::empty(id, FORM_TABLE)
    }

    /// Encodes a link attribute.
    pub(crate) fn links(id: AttrId) -> EncodedAttribute {
        EncodedAttribute::empty(id, FORM_LINKS)
    }

    /// Returns the head and the content.
    fn parts(&self) -> (&[u8], &[u8]) {
        let (content, head) = self.bytes.split_at(self.content_len as usize);
        (head, content)
    }

    fn empty(id: AttrId, form: u8) -> EncodedAttribute {
        let mut bytes = Vec::new();
        put_empty(&mut bytes, id, form);
        EncodedAttribute { bytes, content_len: 0 }
    }
}

impl StoredEntry {
    /// Copies a row. Values of a row of an earlier version are packed.
    pub fn of(row: &EntryRow<'_>) -> StoredEntry {
        let mut copy = StoredEntry::copy_of(row);
        if row.version != VERSION {
            copy.pack();
        }
        copy
    }

    fn copy_of(row: &EntryRow<'_>) -> StoredEntry {
        let mut attributes = Vec::with_capacity(24);
        let mut rest = row.attributes();
        let (mut head, mut content) = (0, as_u32(row.heads.len()));
        while let Some(attribute) = rest.next() {
            let head_end = as_u32(row.heads.len() - rest.heads.0.len());
            let content_end = as_u32(row.len() - rest.contents.len());
            attributes.push((attribute.id, AttributePlace::Row(head..head_end, content..content_end)));
            (head, content) = (head_end, content_end);
        }
        StoredEntry { position: row.position, row: [row.heads, row.contents].concat(), attributes }
    }

    #[cold]
    fn pack(&mut self) {
        for place in 0..self.attributes.len() {
            let Some((id, known)) = self.attributes.get(place) else { return };
            let (head, contents) = self.bytes(known);
            let content = Attributes { heads: Decoder(head), contents }.next().map(|known| known.content);
            let Some(Content::Inline(values)) = content else { continue };
            let values: Vec<_> = values.iter().collect();
            let packed = AttributePlace::Here(EncodedAttribute::inline(*id, &values));
            if let Some((_, known)) = self.attributes.get_mut(place) {
                *known = packed;
            }
        }
    }

    /// Returns the encoded row.
    pub fn encode(&self) -> Vec<u8> {
        let mut row = RowWriter::begin(Vec::with_capacity(FIXED_SIZE + self.row.len() + 128), self.position);
        // Adjacent attributes of the original row are copied together.
        let (mut heads, mut contents) = (0..0, 0..0);
        for (_, place) in &self.attributes {
            match place {
                AttributePlace::Row(head, content)
                    if head.start == heads.end && content.start == contents.end =>
                {
                    (heads.end, contents.end) = (head.end, content.end);
                    continue;
                }
                AttributePlace::Row(..) | AttributePlace::Here(_) => {}
            }
            row.heads.extend_from_slice(self.of_row(&heads));
            row.out.extend_from_slice(self.of_row(&contents));
            (heads, contents) = (0..0, 0..0);
            match place {
                AttributePlace::Row(head, content) => (heads, contents) = (head.clone(), content.clone()),
                AttributePlace::Here(attribute) => {
                    let (head, content) = attribute.parts();
                    row.heads.extend_from_slice(head);
                    row.out.extend_from_slice(content);
                }
            }
        }
        row.heads.extend_from_slice(self.of_row(&heads));
        row.out.extend_from_slice(self.of_row(&contents));
        row.finish()
    }

    /// Returns the numbers of the attributes, in their order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = AttrId> {
        self.attributes.iter().map(|(id, _)| *id)
    }

    /// Returns the content of an attribute.
    pub fn find(&self, id: AttrId) -> Option<Content<'_>> {
        let (_, place) = self.attributes.iter().find(|(attribute, _)| *attribute == id)?;
        let (head, contents) = self.bytes(place);
        Attributes { heads: Decoder(head), contents }.next().map(|attribute| attribute.content)
    }

    /// Sets an attribute, or removes it if `content` is `None`. A new attribute becomes the last attribute.
    pub fn set(&mut self, id: AttrId, content: Option<EncodedAttribute>) {
        let place = self.attributes.iter().position(|(attribute, _)| *attribute == id);
        match (place, content.map(AttributePlace::Here)) {
            (Some(place), None) => drop(self.attributes.remove(place)),
            (Some(place), Some(content)) => {
                if let Some((_, known)) = self.attributes.get_mut(place) {
                    *known = content;
                }
            }
            (None, Some(content)) => self.attributes.push((id, content)),
            (None, None) => {}
        }
    }

    /// Returns the head and content of an attribute.
    fn bytes<'s>(&'s self, place: &'s AttributePlace) -> (&'s [u8], &'s [u8]) {
        match place {
            AttributePlace::Row(head, content) => (self.of_row(head), self.of_row(content)),
            AttributePlace::Here(attribute) => attribute.parts(),
        }
    }

    fn of_row(&self, range: &Range<u32>) -> &[u8] {
        self.row.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// Writes an entry row attribute by attribute.
pub(crate) struct RowWriter {
    /// Buffer: the caller's bytes, then the fixed part of the row, then the contents.
    out: Vec<u8>,
    /// Start of the row in `out`.
    start: usize,
    /// The heads, which `finish` inserts before the contents.
    heads: Vec<u8>,
}

impl RowWriter {
    /// Begins a row after the bytes in `out`.
    #[expect(clippy::indexing_slicing, reason = "constants within the fixed size")]
    pub(crate) fn begin(mut out: Vec<u8>, position: u64) -> RowWriter {
        let start = out.len();
        let mut fixed = [0; FIXED_SIZE];
        fixed[0] = VERSION;
        fixed[CHECKED_FROM..][..8].copy_from_slice(&position.to_be_bytes());
        out.extend_from_slice(&fixed);
        RowWriter { out, start, heads: Vec::with_capacity(HEADS_CAPACITY) }
    }

    /// Appends an attribute with inline values. The row contains each value, or a reference with the hash of the value.
    pub(crate) fn inline(&mut self, id: AttrId, values: &[InlineValue<'_>]) {
        self.put(id, values, |out| packed::put(out, values).unwrap_or_else(|| put_values(out, values)));
    }

    /// Appends an attribute like [`inline`](RowWriter::inline), without packing its values.
    fn plain(&mut self, id: AttrId, values: &[InlineValue<'_>]) {
        self.put(id, values, |out| put_values(out, values));
    }

    /// Appends an attribute whose content `put` appends to the buffer. `put` returns the form of the content.
    #[inline]
    fn put(&mut self, id: AttrId, values: &[InlineValue<'_>], put: impl FnOnce(&mut Vec<u8>) -> u8) {
        let start = self.out.len();
        let form = put(&mut self.out);
        put_head(&mut self.heads, id, (form, values.len(), self.out.len() - start));
    }

    /// Appends an attribute that has one row of `values` per value.
    pub(crate) fn table(&mut self, id: AttrId) {
        put_empty(&mut self.heads, id, FORM_TABLE);
    }

    /// Appends a link attribute.
    pub(crate) fn links(&mut self, id: AttrId) {
        put_empty(&mut self.heads, id, FORM_LINKS);
    }

    /// Returns the buffer, which ends with the complete row.
    #[expect(clippy::indexing_slicing, reason = "begin() has put FIXED_SIZE octets after start")]
    pub(crate) fn finish(self) -> Vec<u8> {
        let RowWriter { mut out, start, heads } = self;
        let contents = start + FIXED_SIZE;
        let contents_end = out.len();
        // Make room for the heads.
        out.extend_from_slice(&heads);
        out.copy_within(contents..contents_end, contents + heads.len());
        out[contents..contents + heads.len()].copy_from_slice(&heads);
        out[contents - 4..contents].copy_from_slice(&as_u32(heads.len()).to_be_bytes());
        let crc = crc32c::crc32c(&out[start + CHECKED_FROM..]);
        out[start + 1..start + CHECKED_FROM].copy_from_slice(&crc.to_le_bytes());
        out
    }
}

/// Converts a length within a row; rows are far below 4 GiB.
fn as_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Returns the row in the current version, with packed values.
pub(crate) fn of_current_version<'r>(row: &EntryRow<'_>, bytes: &'r [u8]) -> Cow<'r, [u8]> {
    match row.version {
        VERSION => Cow::Borrowed(bytes),
        _ => Cow::Owned(StoredEntry::of(row).encode()),
    }
}

/// Returns the row in the version without packed values, so that rows with the same attributes and values are equal.
/// Returns a damaged row unchanged.
pub(crate) fn plain(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Some(row) = EntryRow::decode(bytes).filter(|row| row.version != VERSION_PLAIN) else {
        return Cow::Borrowed(bytes);
    };
    let mut plain = RowWriter::begin(Vec::with_capacity(2 * bytes.len()), row.position);
    if let Some(version) = plain.out.first_mut() {
        *version = VERSION_PLAIN;
    }
    for attribute in row.attributes() {
        match attribute.content {
            Content::Table => plain.table(attribute.id),
            Content::Links => plain.links(attribute.id),
            Content::Inline(values) => {
                let values: Vec<_> = values.iter().collect();
                plain.plain(attribute.id, &values);
            }
        }
    }
    Cow::Owned(plain.finish())
}

/// Appends the head of an attribute: its form, number of values and size.
#[inline]
fn put_head(head: &mut Vec<u8>, id: AttrId, (form, count, size): (u8, usize, usize)) {
    // Most heads are short.
    if let (Ok(id @ ..0x80), Ok(count @ ..0x80), Ok(size @ ..0x80)) =
        (u8::try_from(id.0), u8::try_from(count), u8::try_from(size))
    {
        return head.extend_from_slice(&[id, form, count, size]);
    }
    put_varint(head, u64::from(id.0));
    head.push(form);
    put_varint(head, count as u64);
    put_varint(head, size as u64);
}

/// Appends values without packing, and returns their form.
fn put_values(content: &mut Vec<u8>, values: &[InlineValue<'_>]) -> u8 {
    let mut form = FORM_INLINE;
    for value in values {
        if let InlineValue::Reference(_) = value {
            form = FORM_MIXED;
        }
        put_value(content, value);
    }
    form
}

/// Appends the head of an attribute without content.
fn put_empty(head: &mut Vec<u8>, id: AttrId, form: u8) {
    put_head(head, id, (form, 0, 0));
}
