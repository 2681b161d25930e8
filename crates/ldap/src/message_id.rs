//! Identifiers of messages (RFC 4511 section 4.1.1.1).

use std::fmt;

/// Id of a message: 1 to 2^31 - 1, chosen by the client. 0 marks unsolicited notifications of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub i32);

impl MessageId {
    /// Id of unsolicited notifications (RFC 4511 section 4.4).
    pub const UNSOLICITED: MessageId = MessageId(0);
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
