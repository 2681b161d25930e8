//! Identifier octets (X.690 section 8.1.2).

use std::fmt;

/// The identifier octet of an element on the wire: class, primitive or constructed, and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u8);

impl Tag {
    /// BOOLEAN.
    pub const BOOLEAN: Tag = Tag(0x01);
    /// INTEGER.
    pub const INTEGER: Tag = Tag(0x02);
    /// OCTET STRING in the primitive form. LDAP does not use the constructed form (RFC 4511 section 5.1).
    pub const OCTET_STRING: Tag = Tag(0x04);
    /// NULL.
    pub const NULL: Tag = Tag(0x05);
    /// ENUMERATED.
    pub const ENUMERATED: Tag = Tag(0x0a);
    /// SEQUENCE and SEQUENCE OF.
    pub const SEQUENCE: Tag = Tag(0x30);
    /// SET and SET OF.
    pub const SET: Tag = Tag(0x31);

    const CONSTRUCTED: u8 = 0x20;
    const NUMBER: u8 = 0x1f;

    /// `[APPLICATION number]`, primitive. `number` must be at most 30.
    pub const fn application(number: u8) -> Tag {
        Tag(0x40 | (number & Self::NUMBER))
    }

    /// `[APPLICATION number]`, constructed. `number` must be at most 30.
    pub const fn application_constructed(number: u8) -> Tag {
        Tag(0x60 | (number & Self::NUMBER))
    }

    /// `[number]`, context-specific and primitive. `number` must be at most 30.
    pub const fn context(number: u8) -> Tag {
        Tag(0x80 | (number & Self::NUMBER))
    }

    /// `[number]`, context-specific and constructed. `number` must be at most 30.
    pub const fn context_constructed(number: u8) -> Tag {
        Tag(0xa0 | (number & Self::NUMBER))
    }

    /// Returns true if the content is a series of elements.
    pub const fn is_constructed(self) -> bool {
        self.0 & Self::CONSTRUCTED != 0
    }

    /// Returns true if the number does not fit in the octet, so that more tag octets follow. LDAP has no such element.
    pub(crate) const fn is_high_number(self) -> bool {
        self.0 & Self::NUMBER == Self::NUMBER
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:02x}", self.0)
    }
}
