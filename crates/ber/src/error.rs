//! Errors of decoding an element.

use std::fmt;

use crate::Tag;

/// Reason why bytes are not the requested BER element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BerError {
    /// The bytes end inside an element.
    Truncated,
    /// A length of the indefinite form, which LDAP forbids (RFC 4511 section 5.1).
    IndefiniteLength,
    /// The reserved length octet 0xFF (X.690 section 8.1.3.5).
    ReservedLength,
    /// A length above [`CONTENT_LEN_MAX`](crate::CONTENT_LEN_MAX).
    LengthTooLarge,
    /// A tag number above 30, which no LDAP element has.
    HighTagNumber,
    /// An element with a different tag than the expected tag.
    UnexpectedTag {
        /// Tag that the protocol requires for this element.
        expected: Tag,
        /// Tag that was found.
        found: Tag,
    },
    /// An INTEGER or ENUMERATED without content or above 64 bits.
    BadInteger,
    /// A BOOLEAN whose content is not one octet.
    BadBoolean,
    /// A NULL with content.
    BadNull,
}

impl fmt::Display for BerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BerError::Truncated => f.write_str("element is cut short"),
            BerError::IndefiniteLength => f.write_str("indefinite length"),
            BerError::ReservedLength => f.write_str("reserved length octet 0xff"),
            BerError::LengthTooLarge => f.write_str("length above 2147483647"),
            BerError::HighTagNumber => f.write_str("tag number above 30"),
            BerError::UnexpectedTag { expected, found } => {
                write!(f, "expected tag {expected}, found {found}")
            }
            BerError::BadInteger => f.write_str("malformed integer"),
            BerError::BadBoolean => f.write_str("malformed boolean"),
            BerError::BadNull => f.write_str("null with content"),
        }
    }
}

impl std::error::Error for BerError {}
