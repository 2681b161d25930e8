//! Errors, one type a concern: schema text, descriptions, names, values.

use std::fmt;

/// What is wrong with a value, in terms of its bytes. Shared by [`SyntaxError`] and [`ValueError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The syntax wants at least one character.
    #[error("the value is empty")]
    Empty,
    /// Not UTF-8 from this byte on.
    #[error("not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Bytes before the first wrong one.
        offset: usize,
    },
    /// A character that the syntax does not have.
    #[error("{character:?} at byte {offset} is not allowed")]
    NotAllowed {
        /// Bytes before the character.
        offset: usize,
        /// The character (a byte over 0x7f of a non-UTF-8 value appears as its Latin-1 character).
        character: char,
    },
    /// Something else was expected here.
    #[error("expected {what} at byte {offset}")]
    Expected {
        /// Bytes before the place.
        offset: usize,
        /// What should be there.
        what: &'static str,
    },
    /// A number outside its range.
    #[error("{what} is out of range")]
    OutOfRange {
        /// Which number.
        what: &'static str,
    },
    /// A name that no definition of the schema carries.
    #[error("{name:?} is not defined in the schema")]
    UnknownName {
        /// The name as given.
        name: String,
    },
    /// A character that string preparation prohibits (RFC 4518 section 2.4).
    #[error("U+{:04X} is prohibited in comparisons", *.character as u32)]
    Prohibited {
        /// The character.
        character: char,
    },
    /// The distinguished name inside the value is wrong.
    #[error("{0}")]
    Name(String),
}

/// A value that its attribute's syntax does not allow (result code `invalidAttributeSyntax`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {syntax}: {fault}")]
pub struct SyntaxError {
    /// The syntax by its description, `Generalized Time` for example.
    pub syntax: String,
    /// What is wrong.
    pub fault: Fault,
}

/// A value that a matching rule cannot compare. As an assertion it makes a filter item Undefined (RFC 4511 section 4.5.1.7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule} cannot compare this value: {fault}")]
pub struct ValueError {
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong.
    pub fault: Fault,
}

/// An attribute description that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// Well formed, but the schema has no such type (`undefinedAttributeType`).
    #[error("attribute type {0:?} is not defined")]
    UnknownType(String),
    /// Not `attributetype *( ";" option )` (RFC 4512 section 2.5).
    #[error("{description:?} is not an attribute description: {fault}")]
    BadSyntax {
        /// The description as given.
        description: String,
        /// What is wrong.
        fault: Fault,
    },
}

/// A distinguished name that has no normal form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The schema has no such attribute type.
    #[error("attribute type {0:?} in the name is not defined")]
    UnknownType(String),
    /// The attribute type has no equality rule, so it cannot name an entry (RFC 4512 section 2.3).
    #[error("attribute type {0} has no equality rule and cannot name an entry")]
    NoEquality(String),
    /// One RDN has two values of one type (RFC 4512 section 2.3.1).
    #[error("attribute type {0} appears twice in one RDN")]
    RepeatedType(String),
    /// A value that the type's equality rule cannot compare.
    #[error("value of {attribute} in the name: {error}")]
    BadValue {
        /// Canonical name of the type.
        attribute: String,
        /// What is wrong.
        error: ValueError,
    },
}

/// A mistake in schema text, with the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// The file's name as given to the builder.
    pub file: String,
    /// First line of the definition, or the line of the mistake itself where that is known; from 1.
    pub line: usize,
    /// What is wrong.
    pub kind: SchemaErrorKind,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.kind)
    }
}

impl std::error::Error for SchemaError {}

/// What can be wrong with schema text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaErrorKind {
    /// The text does not follow the grammar.
    #[error("expected {what}, found {found}")]
    Unexpected {
        /// What the grammar wants here.
        what: &'static str,
        /// What is there.
        found: String,
    },
}
