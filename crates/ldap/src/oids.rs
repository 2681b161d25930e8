//! Object identifiers of the protocol.

/// Notice of disconnection, an unsolicited notification (RFC 4511 section 4.4.1).
pub const NOTICE_OF_DISCONNECTION: &str = "1.3.6.1.4.1.1466.20036";
