//! Syntaxes: the table of those we know, and where each is checked.

/// A syntax's place in one [`Schema`](crate::Schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SyntaxId(pub u16);

/// One LDAP syntax (RFC 4512 section 4.1.5).
#[derive(Debug, Clone)]
pub struct Syntax {
    /// Numeric OID as text.
    pub oid: String,
    /// What people call it, `Directory String` for example.
    pub description: String,
    /// Whether values are transferred with the `binary` option only (RFC 4522).
    pub binary_transfer: bool,
    /// Whether a value is text that a person can read; others are better shown in base64.
    pub human_readable: bool,
    /// The definition in RFC 4512 notation.
    pub definition: String,
}
