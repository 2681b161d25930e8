//! Requests with their envelope: message id, operation and controls (RFC 4511 section 4.1.1).

use ber::{Reader, Tag};

use crate::decode::InComponent;
use crate::{Controls, DecodeError, DecodeErrorKind, DecodeLimits, Limit, MessageId, Request};

/// A request with its envelope. Borrows the buffer it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// Id that the responses repeat.
    pub id: MessageId,
    /// The requested operation.
    pub request: Request<'a>,
    /// The controls, in the order sent.
    pub controls: Controls<'a>,
}

/// Tag of the optional controls at the end of a message.
pub(crate) const CONTROLS_TAG: Tag = Tag::context_constructed(0);

impl<'a> Message<'a> {
    /// Decodes one whole message: the octets whose number [`frame_len`](crate::frame_len) returned. Validates the whole
    /// message, so that reading parts of the result later cannot fail. Does not allocate.
    ///
    /// Unknown components after the known ones of a SEQUENCE are ignored, as RFC 4511 section 4 requires.
    ///
    /// # Errors
    /// The first error in the message, with the id and the operation's tag if they could be read.
    pub fn decode(bytes: &'a [u8], limits: &DecodeLimits) -> Result<Message<'a>, DecodeError> {
        let mut id = None;
        let mut request_tag = None;
        let mut decode = || {
            let Envelope { id: message_id, tag, content, controls } =
                Envelope::read(bytes, limits, |known_id, known_tag| {
                    // A request must not have the id 0 (RFC 4511 section 4.1.1.1), so there is no id to answer.
                    id = Some(known_id).filter(|id| *id != MessageId::UNSOLICITED);
                    request_tag = known_tag;
                })?;
            if message_id == MessageId::UNSOLICITED {
                return Err(DecodeErrorKind::OutOfRange(0)).component("LDAPMessage.messageID");
            }
            let request = Request::decode(tag, content, limits)?;
            let controls = Controls::decode(controls, limits)?;
            Ok(Message { id: message_id, request, controls })
        };
        decode().map_err(|error: crate::decode::BodyError| DecodeError {
            id,
            request_tag,
            component: error.component,
            kind: error.kind,
        })
    }
}

/// Returns the tag of the operation in a whole message, without reading the operation itself. Returns `None` if the
/// octets are not a message.
pub fn operation_of(frame: &[u8]) -> Option<Tag> {
    let mut message = Reader::new(frame).sequence(Tag::SEQUENCE).ok()?;
    message.any().ok()?;
    message.peek_tag()
}

/// Parts of a message before the operation is decoded; shared by requests and responses.
pub(crate) struct Envelope<'a> {
    pub(crate) id: MessageId,
    pub(crate) tag: Tag,
    pub(crate) content: &'a [u8],
    pub(crate) controls: Option<&'a [u8]>,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope. Sets the id and the operation's tag in `progress` as soon as each is known, so that they are
    /// available if a later part of the message is invalid.
    pub(crate) fn read(
        bytes: &'a [u8],
        limits: &DecodeLimits,
        mut progress: impl FnMut(MessageId, Option<Tag>),
    ) -> crate::decode::Body<Envelope<'a>> {
        if bytes.len() > limits.message_size_max {
            let max = limits.message_size_max;
            return Err(crate::decode::BodyError::limit("LDAPMessage", Limit::MessageSize, max));
        }
        let mut outer = Reader::new(bytes);
        let mut message = outer.sequence(Tag::SEQUENCE).component("LDAPMessage")?;
        if !outer.is_empty() {
            return Err(DecodeErrorKind::Misplaced).component("LDAPMessage");
        }
        let number = message.integer().component("LDAPMessage.messageID")?;
        let id = i32::try_from(number).ok().filter(|id| *id >= 0).map(MessageId);
        let id = id.ok_or(DecodeErrorKind::OutOfRange(number)).component("LDAPMessage.messageID")?;
        progress(id, message.peek_tag());
        let (tag, content) = message.any().component("LDAPMessage.protocolOp")?;
        let controls = message.optional(CONTROLS_TAG).component("LDAPMessage.controls")?;
        message.skip_rest().component("LDAPMessage")?;
        Ok(Envelope { id, tag, content, controls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authentication, BerError, DerefAliases, Scope};

    fn decode(bytes: &[u8]) -> Result<Message<'_>, DecodeError> {
        let limits = DecodeLimits {
            message_size_max: 100,
            element_count_max: 2,
            value_count_max: 3,
            control_count_max: 1,
            ..DecodeLimits::default()
        };
        Message::decode(bytes, &limits)
    }

    /// Returns a message with the id 5. `operation` is the encoded operation with the octets that follow it.
    fn message(operation: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x30, operation.len() as u8 + 3, 0x02, 0x01, 0x05];
        bytes.extend_from_slice(operation);
        bytes
    }

    #[test]
    fn a_bind_request_of_openldap_decodes() {
        let bytes = message(b"\x60\x0f\x02\x01\x03\x04\x04cn=a\x80\x04pass");
        let Message { id, request, controls } = decode(&bytes).unwrap();
        assert_eq!(id, MessageId(5));
        let Request::Bind(bind) = request else { panic!("{request:?}") };
        assert_eq!((bind.version, bind.name), (3, "cn=a"));
        assert_eq!(bind.authentication, Authentication::Simple(b"pass"));
        assert!(controls.is_empty());
        assert!(!format!("{request:?}").contains("pass"));
    }

    #[test]
    fn unknown_trailing_components_are_ignored() {
        // Messages with unknown components after the operation, after the controls, within a bind, and within a
        // control.
        for operation in [
            &b"\x4a\x04cn=a\x8a\x01x"[..],
            b"\x4a\x04cn=a\xa0\x07\x30\x05\x04\x031.2\x8a\x01x",
            b"\x60\x0c\x02\x01\x03\x04\x00\x80\x01p\x8b\x02xx",
            b"\x4a\x04cn=a\xa0\x0a\x30\x08\x04\x031.2\x8c\x01x",
        ] {
            assert!(decode(&message(operation)).is_ok(), "{operation:02x?}");
        }
    }

    #[test]
    fn errors_contain_the_message_id_and_the_request_tag() {
        let check = |bytes: &[u8], id: Option<i32>, tag: Option<u8>, kind: DecodeErrorKind| {
            let error = decode(bytes).unwrap_err();
            let expected = (id.map(MessageId), tag.map(Tag), kind);
            assert_eq!((error.id, error.request_tag, error.kind), expected, "{bytes:02x?} {error}");
        };
        let truncated = DecodeErrorKind::Ber(BerError::Truncated);
        check(b"", None, None, truncated);
        check(b"\x30\x05\x02\x01\x05", None, None, truncated);
        check(b"\x30\x02\x02\x01", None, None, truncated);
        check(b"\x30\x03\x02\x01\x05", Some(5), None, truncated);
        check(b"\x30\x05\x02\x01\x00\x42\x00", None, Some(0x42), DecodeErrorKind::OutOfRange(0));
        check(b"\x30\x05\x02\x01\xff\x42\x00", None, None, DecodeErrorKind::OutOfRange(-1));
        let too_large_id = b"\x30\x09\x02\x05\x00\x80\x00\x00\x00\x42\x00";
        check(too_large_id, None, None, DecodeErrorKind::OutOfRange(0x8000_0000));
        check(b"\x30\x05\x02\x01\x05\x42\x00\x00", None, None, DecodeErrorKind::Misplaced);
        check(
            &[0x30; 101],
            None,
            None,
            DecodeErrorKind::LimitExceeded { limit: Limit::MessageSize, max: 100 },
        );
        check(&message(b"\x4a\x04cn="), Some(5), Some(0x4a), truncated);
        check(&message(b"\x4a\x01\xff"), Some(5), Some(0x4a), DecodeErrorKind::NotUtf8);
        check(&message(b"\x7d\x00"), Some(5), Some(0x7d), DecodeErrorKind::UnknownOperation);
        check(&message(b"\x61\x00"), Some(5), Some(0x61), DecodeErrorKind::UnknownOperation);
        check(
            &message(b"\x60\x07\x02\x01\x00\x04\x00\x80\x00"),
            Some(5),
            Some(0x60),
            DecodeErrorKind::OutOfRange(0),
        );
        check(&message(b"\x50\x01\xff"), Some(5), Some(0x50), DecodeErrorKind::OutOfRange(-1));
        check(&message(b"\x4a\x01x\xa0\x01\x30"), Some(5), Some(0x4a), truncated);
    }

    /// Some clients encode numbers in as many octets as their integer type has. X.690 section 8.3.2 forbids this
    /// encoding, but servers accept it.
    #[test]
    fn numbers_may_have_leading_zero_octets() {
        let long_id = b"\x30\x08\x02\x04\x00\x00\x00\x01\x4a\x00";
        assert_eq!(decode(long_id).unwrap().id, MessageId(1));
        let longest_id = b"\x30\x0d\x02\x09\x00\x00\x00\x00\x00\x00\x00\x00\x07\x4a\x00";
        assert_eq!(decode(longest_id).unwrap().id, MessageId(7));
        let bind = message(b"\x60\x0a\x02\x04\x00\x00\x00\x03\x04\x00\x80\x00");
        assert!(matches!(decode(&bind).unwrap().request, Request::Bind(bind) if bind.version == 3));
        let abandon = message(b"\x50\x04\x00\x00\x00\x09");
        assert_eq!(decode(&abandon).unwrap().request, Request::Abandon(MessageId(9)));
        let modify =
            message(b"\x66\x14\x04\x00\x30\x10\x30\x0e\x0a\x04\x00\x00\x00\x02\x30\x06\x04\x02cn\x31\x00");
        let Request::Modify(modify) = decode(&modify).unwrap().request else { panic!() };
        assert_eq!(modify.changes.iter().map(|change| change.operation.number()).collect::<Vec<_>>(), [2]);
        // A search in which scope, derefAliases, sizeLimit and timeLimit have leading zero octets.
        let search = message(
            b"\x63\x21\x04\x00\x0a\x02\x00\x02\x0a\x02\x00\x03\x02\x04\x00\x00\x00\x05\x02\x08\
              \x00\x00\x00\x00\x00\x00\x00\x06\x01\x01\x00\x87\x00\x30\x00",
        );
        let Request::Search(search) = decode(&search).unwrap().request else { panic!() };
        assert_eq!((search.scope, search.deref_aliases), (Scope::WholeSubtree, DerefAliases::Always));
        assert_eq!((search.size_limit, search.time_limit_seconds), (5, 6));
    }

    #[test]
    fn an_add_needs_values_and_a_modify_does_not() {
        let add = message(b"\x68\x0c\x04\x00\x30\x08\x30\x06\x04\x02cn\x31\x00");
        assert_eq!(decode(&add).unwrap_err().kind, DecodeErrorKind::Empty);
        let modify = message(b"\x66\x11\x04\x00\x30\x0d\x30\x0b\x0a\x01\x01\x30\x06\x04\x02cn\x31\x00");
        assert!(decode(&modify).is_ok());
        let unknown = message(b"\x66\x11\x04\x00\x30\x0d\x30\x0b\x0a\x01\x04\x30\x06\x04\x02cn\x31\x00");
        assert_eq!(decode(&unknown).unwrap_err().kind, DecodeErrorKind::OutOfRange(4));
    }

    #[test]
    fn counts_are_limited() {
        let check = |operation: &[u8], limit: Limit, max: usize| {
            let kind = decode(&message(operation)).unwrap_err().kind;
            assert_eq!(kind, DecodeErrorKind::LimitExceeded { limit, max });
        };
        let two_controls = b"\x4a\x00\xa0\x0a\x30\x03\x04\x011\x30\x03\x04\x012";
        check(two_controls, Limit::ControlCount, 1);
        let three_attributes =
            [&b"\x68\x22\x04\x00\x30\x1e"[..], &b"\x30\x08\x04\x01a\x31\x03\x04\x01x".repeat(3)].concat();
        check(&three_attributes, Limit::ElementCount, 2);
        let four_values =
            b"\x68\x13\x04\x00\x30\x0f\x30\x0d\x04\x01a\x31\x08\x04\x00\x04\x00\x04\x00\x04\x00";
        check(four_values, Limit::ValueCount, 3);
    }
}
