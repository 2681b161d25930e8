//! Events. An event is a sequence of fields, each with a number and a value. `docs/reference/audit-format.md` describes
//! the kinds of events.
//!
//! A *varint* is an unsigned integer of at most ten bytes. Each byte has seven bits of the integer, the lowest first.
//! All bytes except the last have the highest bit set. An event is a varint with the length of the rest, at most
//! 65,536, followed by fields in any order. A field begins with a varint: twice its number, plus one if its value
//! consists of bytes. Its value is a varint, or a varint with a length followed by bytes. A reader skips fields with
//! unknown numbers. Text is UTF-8.
//!
//! The values of a changed attribute are one byte for the kind (0 added, 1 removed, 2 replaced, 3 value before the
//! change), then the attribute's name and each value. The length of the name and of each value precedes it, as a
//! varint.
//!
//! An [`EventWriter`] appends fields to a buffer. A field that would make the event too long is omitted as a whole. An
//! [`Event`] is a view of bytes that were already checked.

use std::borrow::Cow;

use crate::limits::EVENT_BYTES_MAX;

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $number,)* }

        impl $name {
            /// All variants, in the order of their numbers.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// Returns the variant with this number.
            pub fn of(number: u64) -> Option<$name> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }
        }
    };
}

numbered! {
    /// A field of an event.
    Field {
        /// Kind of the event: see [`Kind`].
        Kind = 1,
        /// Time at which a request arrived or an event occurred, in microseconds since 1970.
        Time = 2,
        /// Duration in microseconds.
        Took = 3,
        /// Result code.
        Result = 4,
        /// Number of the connection.
        Connection = 5,
        /// Message id.
        MessageId = 6,
        /// Authentication identity of the connection.
        Who = 7,
        /// Authorization identity, if it differs from the authentication identity.
        ActsAs = 8,
        /// Address of the client.
        Network = 9,
        /// Source address in the session tracking control.
        TrackingAddress = 10,
        /// Source name in the session tracking control.
        TrackingName = 11,
        /// OID of the format of the identifier in the session tracking control.
        TrackingFormat = 12,
        /// Identifier in the session tracking control, in the format that [`Field::TrackingFormat`] names.
        TrackingIdentifier = 13,
        /// DN of the entry, or base of the search.
        Target = 14,
        /// Scope of the search.
        Scope = 15,
        /// Filter of the search, in BER.
        Filter = 16,
        /// Filter of the search, as text.
        FilterText = 17,
        /// Name of an attribute that was requested, compared or changed.
        Attribute = 18,
        /// Number of entries that a search returned, or that were deleted with their superior.
        Entries = 19,
        /// Position in the directory's log.
        Position = 20,
        /// Change sequence number.
        Csn = 21,
        /// Reason for a failure.
        Reason = 22,
        /// Method of a bind, or version of TLS.
        Method = 23,
        /// OID of an extended operation, new RDN, or name of an administrative action.
        Name = 24,
        /// DN of the new superior.
        Superior = 25,
        /// Values of a changed attribute: see [`Values`].
        Values = 26,
        /// Operation id.
        OperationId = 27,
        /// Epoch of the writer that decided the change.
        Epoch = 28,
        /// Access rule that decided the operation.
        Rule = 29,
        /// A number of items, such as lost events.
        Count = 30,
        /// Number of a segment.
        Segment = 31,
        /// Offset in the segment.
        Offset = 32,
        /// A hash.
        Hash = 33,
        /// Position up to which the event applies.
        Until = 34,
    }
}

numbered! {
    /// Kind of an event.
    Kind {
        /// Bind.
        Bind = 1,
        /// Unbind.
        Unbind = 2,
        /// Search.
        Search = 3,
        /// Modify.
        Modify = 4,
        /// Add.
        Add = 5,
        /// Delete.
        Delete = 6,
        /// Modify DN.
        ModifyDn = 7,
        /// Compare.
        Compare = 8,
        /// Abandon.
        Abandon = 9,
        /// An extended operation.
        Extended = 10,
        /// A connection was opened.
        Opened = 16,
        /// A connection was closed.
        Closed = 17,
        /// TLS began.
        Tls = 18,
        /// A change of something other than entries, or a change that the server itself made.
        Administration = 32,
        /// The trail was begun or continued.
        Started = 48,
        /// The server stopped.
        Stopped = 49,
        /// Events were lost.
        Lost = 50,
        /// The trail lacks some changes of the directory's log.
        Gap = 51,
        /// Segments were removed.
        Retired = 52,
    }
}

impl Kind {
    /// Returns the name of the kind, for output and options.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bind => "bind",
            Kind::Unbind => "unbind",
            Kind::Search => "search",
            Kind::Modify => "modify",
            Kind::Add => "add",
            Kind::Delete => "delete",
            Kind::ModifyDn => "modifyDN",
            Kind::Compare => "compare",
            Kind::Abandon => "abandon",
            Kind::Extended => "extended",
            Kind::Opened => "opened",
            Kind::Closed => "closed",
            Kind::Tls => "tls",
            Kind::Administration => "administration",
            Kind::Started => "started",
            Kind::Stopped => "stopped",
            Kind::Lost => "lost",
            Kind::Gap => "gap",
            Kind::Retired => "retired",
        }
    }

    /// Returns the kind with this name. Case is ignored.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        let [lowest, ..] = value.to_le_bytes();
        out.push(lowest | 0x80);
        value >>= 7;
    }
    let [lowest, ..] = value.to_le_bytes();
    out.push(lowest);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (shift, &byte) in (0..64).step_by(7).zip(from.iter()) {
        // Only the lowest bit of the tenth byte fits into 64 bits.
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            *from = from.get(shift / 7 + 1..)?;
            return Some(value);
        }
    }
    None
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_varint(from)?).ok()?;
    let (taken, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(taken)
}

/// Appends the fields of one event to a buffer, from which [`finish`](EventWriter::finish) makes an event.
#[derive(Debug)]
pub struct EventWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> EventWriter<'a> {
    /// Creates a writer that appends fields to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> EventWriter<'a> {
        let start = out.len();
        EventWriter { out, start }
    }

    /// Appends the kind of the event. The kind must be the first field.
    pub fn kind(&mut self, kind: Kind) -> &mut Self {
        self.number(Field::Kind, kind as u64)
    }

    /// Appends a field with a number.
    pub fn number(&mut self, field: Field, value: u64) -> &mut Self {
        self.within(|out| {
            put_varint(out, u64::from(field as u8) << 1);
            put_varint(out, value);
        })
    }

    /// Appends a field with a text.
    pub fn text(&mut self, field: Field, value: &str) -> &mut Self {
        self.bytes(field, value.as_bytes())
    }

    /// Appends a field with a text, unless the text is empty.
    pub fn text_if_any(&mut self, field: Field, value: &str) -> &mut Self {
        if value.is_empty() { self } else { self.text(field, value) }
    }

    /// Appends a field with bytes.
    pub fn bytes(&mut self, field: Field, value: &[u8]) -> &mut Self {
        self.within(|out| {
            put_varint(out, u64::from(field as u8) << 1 | 1);
            put_bytes(out, value);
        })
    }

    /// Appends a field with bytes. `put` must append exactly `length` bytes.
    pub fn put(&mut self, field: Field, length: usize, put: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.within(|out| {
            put_varint(out, u64::from(field as u8) << 1 | 1);
            put_varint(out, length as u64);
            put(out);
        })
    }

    /// Appends the fields that another writer made.
    pub fn fields(&mut self, fields: &[u8]) -> &mut Self {
        self.within(|out| out.extend_from_slice(fields))
    }

    fn within(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        let before = self.out.len();
        put(self.out);
        if self.out.len() - self.start > EVENT_BYTES_MAX {
            self.out.truncate(before);
        }
        self
    }

    /// Appends an event to `out`. `fields` contains the fields that one or more writers made. Omits an event that is
    /// too long.
    pub fn finish(out: &mut Vec<u8>, fields: &[&[u8]]) {
        let length = fields.iter().map(|part| part.len()).sum::<usize>();
        if length <= EVENT_BYTES_MAX {
            put_varint(out, length as u64);
            fields.iter().for_each(|part| out.extend_from_slice(part));
        }
    }
}

/// An event whose fields are well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    fields: &'a [u8],
}

/// Value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn take_field<'a>(from: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = take_varint(from)?;
    let value = match tag & 1 {
        0 => Value::Number(take_varint(from)?),
        _ => Value::Bytes(take_bytes(from)?),
    };
    Some((tag >> 1, value))
}

impl<'a> Event<'a> {
    /// Returns the event with these encoded fields. Returns `None` if they are not well formed.
    pub fn parse(fields: &'a [u8]) -> Option<Event<'a>> {
        let mut rest = fields;
        let mut has_kind = false;
        while !rest.is_empty() {
            let (number, value) = take_field(&mut rest)?;
            has_kind |= number == Field::Kind as u64 && matches!(value, Value::Number(_));
        }
        (has_kind && fields.len() <= EVENT_BYTES_MAX).then_some(Event { fields })
    }

    /// Returns the encoded fields, in the form that [`parse`](Event::parse) accepts.
    pub fn as_bytes(self) -> &'a [u8] {
        self.fields
    }

    fn values(self) -> impl Iterator<Item = (u64, Value<'a>)> {
        let mut rest = self.fields;
        std::iter::from_fn(move || if rest.is_empty() { None } else { take_field(&mut rest) })
    }

    /// Returns the kind. Returns `None` for a kind that this version does not know.
    pub fn kind(self) -> Option<Kind> {
        Kind::of(self.number(Field::Kind)?)
    }

    /// Returns the number in a field.
    pub fn number(self, field: Field) -> Option<u64> {
        self.values().find_map(|(number, value)| match value {
            Value::Number(value) if number == u64::from(field as u8) => Some(value),
            _ => None,
        })
    }

    /// Returns the bytes of all occurrences of a field.
    pub fn all(self, field: Field) -> impl Iterator<Item = &'a [u8]> {
        self.values().filter_map(move |(number, value)| match value {
            Value::Bytes(value) if number == u64::from(field as u8) => Some(value),
            _ => None,
        })
    }

    /// Returns the bytes of the first occurrence of a field.
    pub fn bytes(self, field: Field) -> Option<&'a [u8]> {
        self.all(field).next()
    }

    /// Returns the text in a field, with invalid UTF-8 replaced. This crate never writes invalid UTF-8, but a reader
    /// must not fail on it.
    pub fn text(self, field: Field) -> Option<Cow<'a, str>> {
        self.bytes(field).map(String::from_utf8_lossy)
    }

    /// Returns the texts of all occurrences of a field.
    pub fn texts(self, field: Field) -> impl Iterator<Item = Cow<'a, str>> {
        self.all(field).map(String::from_utf8_lossy)
    }
}

/// Iterator over the events in the payload of a block. At an event that is not well formed, it yields `Err` and ends.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    rest: &'a [u8],
}

impl<'a> Events<'a> {
    /// Returns the events in these bytes.
    pub fn of(payload: &'a [u8]) -> Events<'a> {
        Events { rest: payload }
    }
}

/// Error for bytes that are not well-formed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no events")]
pub struct NoEvents;

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>, NoEvents>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let event = take_bytes(&mut self.rest).and_then(Event::parse).ok_or(NoEvents);
        if event.is_err() {
            self.rest = &[];
        }
        Some(event)
    }
}

/// Effect of a change on the values of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueEffect {
    /// The values were added.
    Added,
    /// The values were removed.
    Removed,
    /// The values replaced all previous values.
    Replaced,
    /// The attribute had these values before the change.
    Before,
}

impl ValueEffect {
    const ALL: [ValueEffect; 4] =
        [ValueEffect::Added, ValueEffect::Removed, ValueEffect::Replaced, ValueEffect::Before];

    /// Returns the name of the effect, for output.
    pub fn name(self) -> &'static str {
        match self {
            ValueEffect::Added => "added",
            ValueEffect::Removed => "removed",
            ValueEffect::Replaced => "replaced",
            ValueEffect::Before => "before",
        }
    }
}

/// Appends the values of a changed attribute in the form of [`Field::Values`].
pub fn put_values<'v>(
    out: &mut Vec<u8>,
    fate: ValueEffect,
    attribute: &str,
    values: impl Iterator<Item = &'v [u8]>,
) {
    out.push(fate as u8);
    put_bytes(out, attribute.as_bytes());
    values.for_each(|value| put_bytes(out, value));
}

/// Values of a changed attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values<'a> {
    /// Effect of the change on the values.
    pub fate: ValueEffect,
    /// Name of the attribute.
    pub attribute: &'a [u8],
    values: &'a [u8],
}

impl<'a> Values<'a> {
    /// Parses the bytes of a [`Field::Values`].
    pub fn parse(bytes: &'a [u8]) -> Option<Values<'a>> {
        let (&fate, mut rest) = bytes.split_first()?;
        let fate = *ValueEffect::ALL.get(usize::from(fate))?;
        let attribute = take_bytes(&mut rest)?;
        let values = rest;
        while !rest.is_empty() {
            take_bytes(&mut rest)?;
        }
        Some(Values { fate, attribute, values })
    }

    /// Returns the values.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.values;
        std::iter::from_fn(move || if rest.is_empty() { None } else { take_bytes(&mut rest) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_decodes_as_encoded() {
        let mut fields = Vec::new();
        EventWriter::new(&mut fields)
            .kind(Kind::Search)
            .number(Field::Time, u64::MAX)
            .text(Field::Target, "dc=example")
            .text_if_any(Field::Who, "")
            .text(Field::Attribute, "cn")
            .text(Field::Attribute, "sn");
        let mut out = b"before".to_vec();
        EventWriter::finish(&mut out, &[&fields, &[8, 32]]);
        let mut events = Events::of(&out[6..]);
        let event = events.next().unwrap().unwrap();
        assert_eq!(events.next(), None);
        assert_eq!(event.kind(), Some(Kind::Search));
        assert_eq!(event.number(Field::Time), Some(u64::MAX));
        assert_eq!(event.number(Field::Result), Some(32));
        assert_eq!(event.text(Field::Target).unwrap(), "dc=example");
        assert_eq!(event.text(Field::Who), None);
        assert_eq!(event.texts(Field::Attribute).collect::<Vec<_>>(), ["cn", "sn"]);
    }

    #[test]
    fn malformed_events_are_refused() {
        let check = |bytes: &[u8]| {
            assert!(Events::of(bytes).any(|event| event.is_err()), "{bytes:02x?}");
        };
        check(&[1]);
        check(&[0]);
        check(&[2, 8, 32]);
        check(&[3, 2, 1, 3]);
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        check(&[4, 2, 1, 3, 200]);
    }

    /// A field that would make an event too long is omitted.
    #[test]
    fn an_event_never_grows_beyond_its_bound() {
        let mut fields = Vec::new();
        let mut writer = EventWriter::new(&mut fields);
        writer.kind(Kind::Add);
        for _ in 0..100 {
            writer.text(Field::Attribute, &"x".repeat(1_000));
        }
        writer.number(Field::Result, 1);
        assert!(fields.len() <= EVENT_BYTES_MAX);
        let event = Event::parse(&fields).unwrap();
        assert_eq!(event.number(Field::Result), Some(1));
        assert_eq!(event.texts(Field::Attribute).count(), 65);
    }

    #[test]
    fn values_decode_as_encoded() {
        let mut out = Vec::new();
        put_values(&mut out, ValueEffect::Before, "cn", [&b"a"[..], b"", b"bc"].into_iter());
        let values = Values::parse(&out).unwrap();
        assert_eq!((values.fate, values.attribute), (ValueEffect::Before, &b"cn"[..]));
        assert_eq!(values.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bc"]);
        assert_eq!(Values::parse(&[9, 0]), None);
        assert_eq!(Values::parse(&out[..out.len() - 1]), None);
    }

    #[test]
    fn kinds_are_found_by_name_and_number() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::named(&kind.name().to_uppercase()), Some(kind));
            assert_eq!(Kind::of(kind as u64), Some(kind));
        }
    }
}
