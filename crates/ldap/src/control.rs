//! Controls (RFC 4511 section 4.1.11).

use std::fmt;

use ber::{Reader, Tag, Writer, element_len, put_boolean, put_element, put_header};

use crate::decode::{Body, Budget, InComponent, checked_text, string};
use crate::{DecodeLimits, Limit};

/// A control of a request or a response. `Debug` does not show the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control<'a> {
    /// OID of the control; see [`oids`](crate::oids). Its syntax is not checked: any text that is not a known OID names
    /// an unknown control.
    pub oid: &'a str,
    /// Whether the operation must fail if the server does not support the control. Has no meaning on a response.
    pub critical: bool,
    /// The parameters, in a form that the OID defines.
    pub value: Option<&'a [u8]>,
}

/// The controls of a message: a validated SEQUENCE OF Control.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Controls<'a> {
    content: &'a [u8],
}

impl<'a> Controls<'a> {
    /// No controls.
    pub const NONE: Controls<'static> = Controls { content: &[] };

    /// Returns the controls in the order sent.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Control<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        std::iter::from_fn(move || {
            let mut control = reader.sequence(Tag::SEQUENCE).ok()?;
            let oid = checked_text(control.octet_string().ok()?);
            let critical = control.optional(Tag::BOOLEAN).ok()?.is_some_and(|octets| octets != [0]);
            let value = control.optional(Tag::OCTET_STRING).ok()?;
            Some(Control { oid, critical, value })
        })
    }

    /// Returns the controls in octets that [`as_bytes`](Controls::as_bytes) returned. Returns `None` if the octets are
    /// not controls.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Controls<'a>> {
        Controls::decode(Some(bytes), &DecodeLimits::default()).ok()
    }

    /// Returns the first control with this OID.
    pub fn find(&self, oid: &str) -> Option<Control<'a>> {
        self.iter().find(|control| control.oid == oid)
    }

    /// Returns true if there are no controls.
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns the octets on the wire: a series of Controls.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.content
    }

    pub(crate) fn decode(content: Option<&'a [u8]>, limits: &DecodeLimits) -> Body<Controls<'a>> {
        let Some(content) = content else { return Ok(Controls::NONE) };
        let mut budget = Budget::new(Limit::ControlCount, limits.control_count_max);
        let mut reader = Reader::new(content);
        while !reader.is_empty() {
            budget.take("LDAPMessage.controls")?;
            let mut control = reader.sequence(Tag::SEQUENCE).component("LDAPMessage.controls")?;
            string(&mut control).component("Control.controlType")?;
            if control.peek_tag() == Some(Tag::BOOLEAN) {
                control.boolean().component("Control.criticality")?;
            }
            control.optional(Tag::OCTET_STRING).component("Control.controlValue")?;
            control.skip_rest().component("Control")?;
        }
        Ok(Controls { content })
    }
}

/// Owned form of [`Controls`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlsBuf {
    content: Vec<u8>,
}

impl ControlsBuf {
    /// Creates an empty list.
    pub fn new() -> ControlsBuf {
        ControlsBuf::default()
    }

    /// Appends a control.
    pub fn push(&mut self, control: Control<'_>) {
        put_control(&mut self.content, &control);
    }

    /// Removes all controls and keeps the memory.
    pub fn clear(&mut self) {
        self.content.clear();
    }

    /// Returns the controls, to put into a message.
    pub fn as_controls(&self) -> Controls<'_> {
        Controls { content: &self.content }
    }
}

impl<'a> FromIterator<Control<'a>> for ControlsBuf {
    fn from_iter<I: IntoIterator<Item = Control<'a>>>(controls: I) -> ControlsBuf {
        let mut buf = ControlsBuf::new();
        controls.into_iter().for_each(|control| buf.push(control));
        buf
    }
}

/// Length of a BOOLEAN element in octets.
const BOOLEAN_LEN: usize = 3;

fn put_control(out: &mut Vec<u8>, control: &Control<'_>) {
    let criticality_len = if control.critical { BOOLEAN_LEN } else { 0 };
    let value_len = control.value.map_or(0, |value| element_len(value.len()));
    put_header(out, Tag::SEQUENCE, element_len(control.oid.len()) + criticality_len + value_len);
    put_element(out, Tag::OCTET_STRING, control.oid.as_bytes());
    // FALSE is the default, and a default must not be encoded (RFC 4511 section 5.1).
    if control.critical {
        put_boolean(out, Tag::BOOLEAN, true);
    }
    if let Some(value) = control.value {
        put_element(out, Tag::OCTET_STRING, value);
    }
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("oid", &self.oid)
            .field("critical", &self.critical)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Controls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Encodes the value of a control or extended operation: a SEQUENCE of the fields that `fields` writes.
pub(crate) fn sequence(fields: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let mark = writer.begin(Tag::SEQUENCE);
    fields(&mut writer);
    writer.end(mark);
    value
}

/// Encodes the value of an extended response that is an INTEGER.
pub fn encode_integer(number: i64) -> Vec<u8> {
    let mut value = Vec::new();
    Writer::new(&mut value).integer(number);
    value
}

/// Returns the octets as text; `None` if they are not UTF-8.
pub(crate) fn text(octets: &[u8]) -> Option<&str> {
    std::str::from_utf8(octets).ok()
}
