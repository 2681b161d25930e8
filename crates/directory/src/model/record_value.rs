//! Values in records.

use crate::model::codec::{Decoder, put_bytes, put_varint};
use crate::model::rows::EntryId;

/// A value of an attribute in a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Bytes as the client sent them. In a link attribute they are the name of a dangling link, or a name with a UID
    /// part.
    Bytes(Vec<u8>),
    /// The entry that the value of a link attribute names.
    Link(EntryId),
}

impl Value {
    /// Returns the bytes of a value that is not a link.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Link(_) => None,
        }
    }
}

pub(crate) fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bytes(bytes) => {
            out.push(0);
            put_bytes(out, bytes);
        }
        Value::Link(target) => {
            out.push(1);
            put_varint(out, target.0);
        }
    }
}

pub(crate) fn take_value(decoder: &mut Decoder<'_>) -> Option<Value> {
    match decoder.byte()? {
        0 => Some(Value::Bytes(decoder.bytes()?.to_vec())),
        1 => Some(Value::Link(EntryId(decoder.varint()?))),
        _ => None,
    }
}
