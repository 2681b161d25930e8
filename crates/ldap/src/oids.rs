//! Object identifiers of the protocol.

/// Notice of disconnection, an unsolicited notification (RFC 4511 section 4.4.1).
pub const NOTICE_OF_DISCONNECTION: &str = "1.3.6.1.4.1.1466.20036";

/// ManageDsaIT, a control: referral objects are entries like others (RFC 3296).
pub const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
