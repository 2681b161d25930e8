//! The value of the Cancel operation (RFC 3909 section 2.1).

use ber::{Reader, Tag};

use crate::MessageId;
use crate::control::sequence;

/// Decodes the value of a Cancel request: the message id of the operation to cancel. Returns `None` if the value is
/// missing or malformed.
pub fn decode_cancel(value: Option<&[u8]>) -> Option<MessageId> {
    let mut reader = Reader::new(value?);
    let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
    let id = i32::try_from(fields.integer().ok()?).ok()?;
    (id > 0 && fields.is_empty() && reader.is_empty()).then_some(MessageId(id))
}

/// Encodes the value of a Cancel request.
pub fn encode_cancel(id: MessageId) -> Vec<u8> {
    sequence(|writer| {
        writer.integer(id.0.into());
    })
}
