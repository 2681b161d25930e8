//! Values of transactions (RFC 5805 sections 2.3 and 2.4).

use ber::{Reader, Tag};

use crate::control::sequence;
use crate::{Controls, MessageId};

/// Tag of the value of an extended response. A client receives the identifier of a transaction in such a value.
/// UnboundID's LDAP SDK sends the identifier back with this tag.
const RESPONSE_VALUE: Tag = Tag::context(11);

/// Request to end a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransaction<'a> {
    /// Whether to commit the changes; otherwise they are dropped.
    pub commits: bool,
    /// Identifier of the transaction.
    pub identifier: &'a [u8],
}

impl<'a> EndTransaction<'a> {
    /// Decodes a request's value; returns `None` if it is malformed.
    pub fn decode(value: Option<&'a [u8]>) -> Option<EndTransaction<'a>> {
        let mut reader = Reader::new(value?);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let commits = fields.peek_tag() != Some(Tag::BOOLEAN) || fields.boolean().ok()?;
        let identifier = match fields.optional(RESPONSE_VALUE).ok()? {
            Some(identifier) => identifier,
            None => fields.octet_string().ok()?,
        };
        (reader.is_empty() && fields.is_empty()).then_some(EndTransaction { commits, identifier })
    }

    /// Returns the value, to put into a request.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            // Encode the flag only if it is FALSE: TRUE is the default, and a default must not be encoded (RFC 4511
            // section 5.1).
            if !self.commits {
                writer.boolean(false);
            }
            writer.octet_string(self.identifier);
        })
    }
}

/// Value of the response to the end of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndTransactionResult<'a> {
    /// Message id of the failed change.
    pub failed: Option<MessageId>,
    /// Response controls of the changes, each with the message id of its change.
    pub controls: Vec<(MessageId, Controls<'a>)>,
}

impl<'a> EndTransactionResult<'a> {
    /// Decodes an answer's value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<EndTransactionResult<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let mut result = EndTransactionResult::default();
        if fields.peek_tag() == Some(Tag::INTEGER) {
            result.failed = Some(message_id(&mut fields)?);
        }
        if let Some(updates) = fields.optional(Tag::SEQUENCE).ok()? {
            let mut updates = Reader::new(updates);
            while !updates.is_empty() {
                let mut update = updates.sequence(Tag::SEQUENCE).ok()?;
                let id = message_id(&mut update)?;
                let controls = Controls::from_bytes(update.element(Tag::SEQUENCE).ok()?)?;
                result.controls.push((id, controls));
                if !update.is_empty() {
                    return None;
                }
            }
        }
        (reader.is_empty() && fields.is_empty()).then_some(result)
    }

    /// Returns the value; `None` if there is nothing to put into it.
    pub fn encode(&self) -> Option<Vec<u8>> {
        if *self == EndTransactionResult::default() {
            return None;
        }
        Some(sequence(|writer| {
            if let Some(id) = self.failed {
                writer.integer(id.0.into());
            }
            if !self.controls.is_empty() {
                let updates = writer.begin(Tag::SEQUENCE);
                for (id, controls) in &self.controls {
                    let update = writer.begin(Tag::SEQUENCE);
                    writer.integer(id.0.into());
                    writer.element(Tag::SEQUENCE, controls.as_bytes());
                    writer.end(update);
                }
                writer.end(updates);
            }
        }))
    }
}

fn message_id(fields: &mut Reader<'_>) -> Option<MessageId> {
    let id = i32::try_from(fields.integer().ok()?).ok()?;
    (id > 0).then_some(MessageId(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, ControlsBuf};

    #[test]
    fn requests_have_the_specified_encoding() {
        let cases: [(EndTransaction<'_>, &[u8]); 3] = [
            (EndTransaction { commits: true, identifier: b"ab" }, &[0x30, 4, 4, 2, b'a', b'b']),
            (EndTransaction { commits: false, identifier: b"a" }, &[0x30, 6, 1, 1, 0, 4, 1, b'a']),
            (EndTransaction { commits: true, identifier: b"" }, &[0x30, 2, 4, 0]),
        ];
        for (request, encoded) in cases {
            assert_eq!(request.encode(), encoded);
            assert_eq!(EndTransaction::decode(Some(encoded)), Some(request));
        }
        // Clients may send the default.
        let sent_default: &[u8] = &[0x30, 6, 1, 1, 0xff, 4, 1, b'a'];
        let expected = EndTransaction { commits: true, identifier: b"a" };
        assert_eq!(EndTransaction::decode(Some(sent_default)), Some(expected));
        assert_eq!(EndTransaction::decode(Some(&[0x30, 3, 0x8b, 1, b'a'])), Some(expected));
        let malformed: [&[u8]; 6] =
            [b"", &[0x30, 0], &[0x30, 3, 1, 1, 0], &[0x30, 2, 4, 0, 0], &[0x30, 4, 4, 0, 4, 0], &[4, 0]];
        for value in malformed {
            assert_eq!(EndTransaction::decode(Some(value)), None, "{value:02x?}");
        }
        assert_eq!(EndTransaction::decode(None), None);
    }

    #[test]
    fn answers_have_the_specified_encoding() {
        let controls: ControlsBuf =
            [Control { oid: "1.2", critical: false, value: Some(b"x") }].into_iter().collect();
        let one = controls.as_controls();
        let (seven, nine) = (MessageId(7), MessageId(9));
        let cases: [(EndTransactionResult<'_>, &[u8]); 3] = [
            (EndTransactionResult { failed: Some(seven), controls: vec![] }, &[0x30, 3, 2, 1, 7]),
            (
                EndTransactionResult { failed: None, controls: vec![(nine, one)] },
                b"\x30\x13\x30\x11\x30\x0f\x02\x01\x09\x30\x0a\x30\x08\x04\x031.2\x04\x01x",
            ),
            (
                EndTransactionResult { failed: Some(seven), controls: vec![(seven, one)] },
                b"\x30\x16\x02\x01\x07\x30\x11\x30\x0f\x02\x01\x07\x30\x0a\x30\x08\x04\x031.2\x04\x01x",
            ),
        ];
        for (result, encoded) in cases {
            assert_eq!(result.encode().as_deref(), Some(encoded));
            assert_eq!(EndTransactionResult::decode(encoded), Some(result));
        }
        assert_eq!(EndTransactionResult::default().encode(), None);
        let malformed: [&[u8]; 5] = [
            b"",
            &[0x30, 3, 2, 1, 0],
            &[0x30, 3, 2, 1, 7, 0],
            &[0x30, 4, 0x30, 2, 0x30, 0],
            &[0x30, 9, 0x30, 7, 0x30, 5, 2, 1, 1, 0x30, 1],
        ];
        for value in malformed {
            assert_eq!(EndTransactionResult::decode(value), None, "{value:02x?}");
        }
    }
}
