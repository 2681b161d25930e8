//! Attributes, values, changes and selectors on the wire (RFC 4511 sections 4.1.7, 4.5.1.8, 4.6 and 4.7).
//!
//! Each list has two types: a borrowed type, which iterates over the validated content of a SEQUENCE or SET, and a
//! `Buf` type, which owns the same bytes and which a client fills.

use std::fmt;

use ber::{Reader, Tag, Writer};

use crate::decode::{Body, BodyError, Budget, InComponent, checked_text, string};
use crate::limits::SELECTOR_COUNT_MAX;
use crate::{DecodeErrorKind, DecodeLimits, Limit};

/// The values of one attribute: a validated SET OF OCTET STRING.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values<'a> {
    content: &'a [u8],
}

impl<'a> Values<'a> {
    /// Returns the values in the order sent.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        // The content is validated, so an error occurs only at the end.
        std::iter::from_fn(move || reader.octet_string().ok())
    }

    /// Returns the number of values, in linear time.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if there are no values.
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns the octets on the wire: a series of OCTET STRINGs.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.content
    }

    fn decode(content: &'a [u8], budget: &mut Budget) -> Body<Values<'a>> {
        let mut reader = Reader::new(content);
        while !reader.is_empty() {
            reader.octet_string().component("PartialAttribute.vals")?;
            budget.take("PartialAttribute.vals")?;
        }
        Ok(Values { content })
    }
}

/// An attribute description with zero or more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialAttribute<'a> {
    /// The attribute description, unparsed.
    pub description: &'a str,
    /// The values.
    pub values: Values<'a>,
}

impl<'a> PartialAttribute<'a> {
    fn decode(reader: &mut Reader<'a>, budget: &mut Budget) -> Body<PartialAttribute<'a>> {
        let mut attribute = reader.sequence(Tag::SEQUENCE).component("PartialAttribute")?;
        let description = string(&mut attribute).component("PartialAttribute.type")?;
        let values = attribute.element(Tag::SET).component("PartialAttribute.vals")?;
        let values = Values::decode(values, budget)?;
        attribute.skip_rest().component("PartialAttribute")?;
        Ok(PartialAttribute { description, values })
    }

    /// Reads an attribute from content that [`decode`](Self::decode) has validated.
    fn read(reader: &mut Reader<'a>) -> Option<PartialAttribute<'a>> {
        let mut attribute = reader.sequence(Tag::SEQUENCE).ok()?;
        let description = checked_text(attribute.octet_string().ok()?);
        let content = attribute.element(Tag::SET).ok()?;
        Some(PartialAttribute { description, values: Values { content } })
    }
}

/// The attributes of an add request or a search entry: a validated SEQUENCE OF PartialAttribute.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes<'a> {
    content: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Returns the attributes in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = PartialAttribute<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        std::iter::from_fn(move || PartialAttribute::read(&mut reader))
    }

    /// Returns true if there are no attributes.
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns the octets on the wire: a series of PartialAttributes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.content
    }

    /// Decodes an AttributeList. Every attribute must have a value.
    pub(crate) fn decode_full(reader: &mut Reader<'a>, limits: &DecodeLimits) -> Body<Attributes<'a>> {
        Attributes::decode_checked(reader, limits, |attribute| {
            if attribute.values.is_empty() {
                return Err(DecodeErrorKind::Empty).component("Attribute.vals");
            }
            Ok(())
        })
    }

    /// Decodes a PartialAttributeList. Attributes may have no values.
    pub(crate) fn decode_partial(reader: &mut Reader<'a>, limits: &DecodeLimits) -> Body<Attributes<'a>> {
        Attributes::decode_checked(reader, limits, |_| Ok(()))
    }

    fn decode_checked(
        reader: &mut Reader<'a>,
        limits: &DecodeLimits,
        check: impl Fn(&PartialAttribute<'a>) -> Body<()>,
    ) -> Body<Attributes<'a>> {
        let content = reader.element(Tag::SEQUENCE).component("AttributeList")?;
        let mut elements = Budget::elements(limits);
        let mut values = Budget::values(limits);
        let mut list = Reader::new(content);
        while !list.is_empty() {
            elements.take("AttributeList")?;
            check(&PartialAttribute::decode(&mut list, &mut values)?)?;
        }
        Ok(Attributes { content })
    }
}

/// Operation of a change on its attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeOperation {
    /// Add the values.
    Add,
    /// Delete the values, or the whole attribute if no values are given.
    Delete,
    /// Replace all values of the attribute by the given values.
    Replace,
    /// Add the given value, a number, to each value of the attribute (RFC 4525).
    Increment,
}

impl ChangeOperation {
    /// Returns the operation with this number on the wire.
    pub const fn from_number(number: i64) -> Option<ChangeOperation> {
        match number {
            0 => Some(ChangeOperation::Add),
            1 => Some(ChangeOperation::Delete),
            2 => Some(ChangeOperation::Replace),
            3 => Some(ChangeOperation::Increment),
            _ => None,
        }
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> i64 {
        self as i64
    }
}

/// One change of a modify request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Operation of the change.
    pub operation: ChangeOperation,
    /// Attribute and values of the change.
    pub attribute: PartialAttribute<'a>,
}

/// The changes of a modify request: a validated SEQUENCE OF change.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes<'a> {
    content: &'a [u8],
}

impl<'a> Changes<'a> {
    /// Returns the changes in the order sent. The changes must be applied in this order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        std::iter::from_fn(move || {
            let mut change = reader.sequence(Tag::SEQUENCE).ok()?;
            let operation = ChangeOperation::from_number(change.enumerated().ok()?)?;
            Some(Change { operation, attribute: PartialAttribute::read(&mut change)? })
        })
    }

    /// Returns true if there are no changes. Such a modify request is valid and changes nothing.
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns the octets on the wire: a series of changes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.content
    }

    pub(crate) fn decode(reader: &mut Reader<'a>, limits: &DecodeLimits) -> Body<Changes<'a>> {
        let content = reader.element(Tag::SEQUENCE).component("ModifyRequest.changes")?;
        let mut elements = Budget::elements(limits);
        let mut values = Budget::values(limits);
        let mut list = Reader::new(content);
        while !list.is_empty() {
            elements.take("ModifyRequest.changes")?;
            let mut change = list.sequence(Tag::SEQUENCE).component("ModifyRequest.changes")?;
            let operation = change.enumerated().component("ModifyRequest.changes.operation")?;
            if ChangeOperation::from_number(operation).is_none() {
                let kind = DecodeErrorKind::OutOfRange(operation);
                return Err(BodyError::new("ModifyRequest.changes.operation", kind));
            }
            PartialAttribute::decode(&mut change, &mut values)?;
            change.skip_rest().component("ModifyRequest.changes")?;
        }
        Ok(Changes { content })
    }
}

/// Attributes that a search requests: a validated SEQUENCE OF LDAPString. Empty means all user attributes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeSelection<'a> {
    content: &'a [u8],
}

impl<'a> AttributeSelection<'a> {
    /// Returns the selectors in the order sent: attribute descriptions, and special selectors such as `*`, `+` and
    /// `1.1`.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        std::iter::from_fn(move || reader.octet_string().ok().map(checked_text))
    }

    /// Decodes a selection that is not part of a search request, as in the controls of RFC 4527.
    ///
    /// # Errors
    /// The selection is malformed, or octets follow it.
    pub fn from_bytes(
        bytes: &'a [u8],
        limits: &DecodeLimits,
    ) -> Result<AttributeSelection<'a>, DecodeErrorKind> {
        let mut reader = Reader::new(bytes);
        let selection = AttributeSelection::decode(&mut reader, limits).map_err(|error| error.kind)?;
        if reader.is_empty() { Ok(selection) } else { Err(DecodeErrorKind::Misplaced) }
    }

    /// Returns true if there are no selectors.
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns the octets on the wire: a series of OCTET STRINGs. Equal octets select equal attributes, so the octets
    /// can be the key of a cache.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.content
    }

    pub(crate) fn decode(reader: &mut Reader<'a>, limits: &DecodeLimits) -> Body<AttributeSelection<'a>> {
        let content = reader.element(Tag::SEQUENCE).component("SearchRequest.attributes")?;
        let max = limits.element_count_max.min(SELECTOR_COUNT_MAX);
        let mut elements = Budget::new(Limit::ElementCount, max);
        let mut list = Reader::new(content);
        while !list.is_empty() {
            elements.take("SearchRequest.attributes")?;
            string(&mut list).component("SearchRequest.attributes")?;
        }
        Ok(AttributeSelection { content })
    }
}

/// Owned form of [`Attributes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesBuf {
    content: Vec<u8>,
}

impl AttributesBuf {
    /// Creates an empty list.
    pub fn new() -> AttributesBuf {
        AttributesBuf::default()
    }

    /// Appends an attribute.
    pub fn push<V: AsRef<[u8]>>(&mut self, description: &str, values: impl IntoIterator<Item = V>) {
        write_attribute(&mut Writer::new(&mut self.content), description, values);
    }

    /// Removes all attributes and keeps the memory.
    pub fn clear(&mut self) {
        self.content.clear();
    }

    /// Returns the attributes, to put into a request.
    pub fn as_attributes(&self) -> Attributes<'_> {
        Attributes { content: &self.content }
    }
}

/// Owned form of [`Changes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesBuf {
    content: Vec<u8>,
}

impl ChangesBuf {
    /// Creates an empty list.
    pub fn new() -> ChangesBuf {
        ChangesBuf::default()
    }

    /// Appends a change.
    pub fn push<V: AsRef<[u8]>>(
        &mut self,
        operation: ChangeOperation,
        description: &str,
        values: impl IntoIterator<Item = V>,
    ) {
        let mut writer = Writer::new(&mut self.content);
        let change = writer.begin(Tag::SEQUENCE);
        writer.enumerated(operation.number());
        write_attribute(&mut writer, description, values);
        writer.end(change);
    }

    /// Removes all changes and keeps the memory.
    pub fn clear(&mut self) {
        self.content.clear();
    }

    /// Returns the changes, to put into a request.
    pub fn as_changes(&self) -> Changes<'_> {
        Changes { content: &self.content }
    }
}

/// Owned form of [`AttributeSelection`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectionBuf {
    content: Vec<u8>,
}

impl SelectionBuf {
    /// Creates an empty selection, which means all user attributes.
    pub fn new() -> SelectionBuf {
        SelectionBuf::default()
    }

    /// Appends a selector.
    pub fn push(&mut self, selector: &str) {
        Writer::new(&mut self.content).octet_string(selector.as_bytes());
    }

    /// Returns the selection, to put into a request.
    pub fn as_selection(&self) -> AttributeSelection<'_> {
        AttributeSelection { content: &self.content }
    }
}

impl From<AttributeSelection<'_>> for SelectionBuf {
    fn from(selection: AttributeSelection<'_>) -> SelectionBuf {
        SelectionBuf { content: selection.content.to_vec() }
    }
}

impl<S: AsRef<str>> FromIterator<S> for SelectionBuf {
    fn from_iter<I: IntoIterator<Item = S>>(selectors: I) -> SelectionBuf {
        let mut selection = SelectionBuf::new();
        selectors.into_iter().for_each(|selector| selection.push(selector.as_ref()));
        selection
    }
}

fn write_attribute<V: AsRef<[u8]>>(
    writer: &mut Writer<'_>,
    description: &str,
    values: impl IntoIterator<Item = V>,
) {
    let attribute = writer.begin(Tag::SEQUENCE);
    writer.octet_string(description.as_bytes());
    let set = writer.begin(Tag::SET);
    values.into_iter().for_each(|value| writer.octet_string(value.as_ref()));
    writer.end(set);
    writer.end(attribute);
}

/// Shows only the number of values, because values may be passwords and requests are logged.
impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} values]", self.len())
    }
}

impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for AttributeSelection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
