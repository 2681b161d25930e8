//! The envelope of requests: id, operation, controls (RFC 4511 section 4.1.1).

use std::fmt;

use ber::{Reader, Tag};

use crate::decode::InComponent;
use crate::{Controls, DecodeError, DecodeErrorKind, DecodeLimits, Limit, Request};

/// A message's id: 1 to 2^31 - 1, chosen by the client, and 0 for what the server sends unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub i32);

impl MessageId {
    /// The id of unsolicited notifications (RFC 4511 section 4.4).
    pub const UNSOLICITED: MessageId = MessageId(0);
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request with its envelope. Borrows the buffer it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// The id that the answers carry.
    pub id: MessageId,
    /// What is asked.
    pub request: Request<'a>,
    /// The controls, in the order sent.
    pub controls: Controls<'a>,
}

/// The tag of the optional controls at the end of a message.
pub(crate) const CONTROLS_TAG: Tag = Tag::context_constructed(0);

impl<'a> Message<'a> {
    /// Decodes one whole message, found with [`frame_len`](crate::frame_len). Everything in it is checked here, so
    /// that nothing that is reached through the result can fail later. No allocation.
    ///
    /// Unknown components after the known ones of a SEQUENCE are ignored, as RFC 4511 section 4 demands.
    ///
    /// # Errors
    /// The first thing that is wrong, with the id and the operation's tag when those could be read.
    pub fn decode(bytes: &'a [u8], limits: &DecodeLimits) -> Result<Message<'a>, DecodeError> {
        let mut id = None;
        let mut request_tag = None;
        let mut decode = || {
            let Envelope { id: message_id, tag, content, controls } =
                Envelope::read(bytes, limits, |known_id, known_tag| {
                    // Requests never have the id 0 (RFC 4511 section 4.1.1.1), so such a message has none to answer.
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

/// A message's parts before the operation is looked into: shared by requests and responses.
pub(crate) struct Envelope<'a> {
    pub(crate) id: MessageId,
    pub(crate) tag: Tag,
    pub(crate) content: &'a [u8],
    pub(crate) controls: Option<&'a [u8]>,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope. `progress` hears of the id and the operation's tag as soon as each is known, so that they
    /// survive an error behind them.
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
