//! Errors in schema text, in attribute descriptions, in names and in values. Each has a separate type.

use ldap::Excerpt;
use std::fmt;

/// Fault of a value, with its position in the bytes of the value. Shared by [`SyntaxError`] and [`ValueError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The syntax requires at least one character.
    #[error("the value is empty")]
    Empty,
    /// The value is not UTF-8 from this byte on.
    #[error("not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Number of bytes before the first invalid byte.
        offset: usize,
    },
    /// A character that the syntax does not allow.
    #[error("{character:?} at byte {offset} is not allowed")]
    NotAllowed {
        /// Bytes before the character.
        offset: usize,
        /// The character. In a value that is not UTF-8, a byte above 0x7f is shown as its Latin-1 character.
        character: char,
    },
    /// The syntax requires something else here.
    #[error("expected {what} at byte {offset}")]
    Expected {
        /// Number of bytes before the error.
        offset: usize,
        /// Expected text.
        what: &'static str,
    },
    /// A number outside its range.
    #[error("{what} is out of range")]
    OutOfRange {
        /// Name of the number.
        what: &'static str,
    },
    /// A name that the schema does not define.
    #[error("{name:?} is not defined in the schema", name = Excerpt(.name))]
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
    /// The distinguished name or definition inside the value is invalid, for the given reason.
    #[error("{0}")]
    Name(String),
}

/// A value that its attribute's syntax does not allow (result code `invalidAttributeSyntax`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid as {syntax}: {fault}")]
pub struct SyntaxError {
    /// The syntax by its description, `Generalized Time` for example.
    pub syntax: String,
    /// Kind of fault.
    pub fault: Fault,
}

/// A value that a matching rule cannot compare. As an assertion it makes a filter item Undefined (RFC 4511 section
/// 4.5.1.7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule} cannot compare this value: {fault}")]
pub struct ValueError {
    /// The rule's name.
    pub rule: &'static str,
    /// Kind of fault.
    pub fault: Fault,
}

/// An attribute description that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The description is well formed, but the schema has no such type (`undefinedAttributeType`).
    #[error("attribute type {text:?} is not defined", text = Excerpt(.0))]
    UnknownType(String),
    /// The option `binary` on a type whose syntax does not allow binary transfer. It is treated as unrecognized (RFC
    /// 4522 section 3).
    #[error("{0} has no binary form, leave ;binary out")]
    NoBinaryForm(String),
    /// Not `attributetype *( ";" option )` (RFC 4512 section 2.5).
    #[error("{description:?} is not an attribute description: {fault}", description = Excerpt(.description))]
    BadSyntax {
        /// The description as given.
        description: String,
        /// Kind of fault.
        fault: Fault,
    },
}

/// Reason why a distinguished name has no normal form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The schema has no such attribute type.
    #[error("attribute type {text:?} in the name is not defined", text = Excerpt(.0))]
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
        /// Error of the value.
        error: ValueError,
    },
}

/// A mistake in schema text, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// The file's name as given to the builder.
    pub file: String,
    /// First line of the definition, or the line of the mistake itself if known; from 1.
    pub line: usize,
    /// Kind of error.
    pub kind: SchemaErrorKind,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.kind)
    }
}

impl std::error::Error for SchemaError {}

/// All mistakes in schema texts, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaErrors(Vec<SchemaError>);

impl SchemaErrors {
    /// Sorts the mistakes: files in the order in which they were given, lines in ascending order.
    pub(crate) fn of(mut errors: Vec<SchemaError>) -> SchemaErrors {
        let files: Vec<String> = errors.iter().map(|error| error.file.clone()).collect();
        errors.sort_by_key(|error| (files.iter().position(|file| *file == error.file), error.line));
        errors.dedup();
        SchemaErrors(errors)
    }

    /// Returns the mistakes.
    pub fn all(&self) -> &[SchemaError] {
        &self.0
    }
}

/// Writes one line for each mistake.
impl fmt::Display for SchemaErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for SchemaErrors {}

impl SchemaErrorKind {
    /// Returns the unknown name, if the error is that a name is unknown.
    pub(crate) fn unknown_name(&self) -> Option<&str> {
        match self {
            SchemaErrorKind::UnknownSuperior(name)
            | SchemaErrorKind::UnknownAttribute { name, .. }
            | SchemaErrorKind::UnknownClass { name, .. }
            | SchemaErrorKind::UnknownMacro(name)
            | SchemaErrorKind::UnknownNameForm(name) => Some(name),
            _ => None,
        }
    }
}

/// Kind of error in schema text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaErrorKind {
    /// The text does not follow the grammar.
    #[error("expected {what}, found {found}")]
    Unexpected {
        /// Text that the grammar expects here.
        what: &'static str,
        /// Text found.
        found: String,
    },
    /// A line that begins with an unknown keyword.
    #[error("{text:?} is not the beginning of a schema definition", text = Excerpt(.0))]
    UnknownDirective(String),
    /// An LDIF value after `::` that is not base64.
    #[error("the value after '::' is not base64")]
    NotBase64,
    /// A word that is not a term of this kind of definition.
    #[error("{term} is not a term of {definition}")]
    UnknownTerm {
        /// The unknown word.
        term: String,
        /// Kind of definition.
        definition: &'static str,
    },
    /// A term given twice.
    #[error("{0} is given twice")]
    RepeatedTerm(&'static str),
    /// Terms that exclude each other.
    #[error("{0} and {1} exclude each other")]
    ContradictoryTerms(&'static str, &'static str),
    /// A required term is missing.
    #[error("{0} is missing")]
    MissingTerm(&'static str),
    /// A text that is not a numeric OID.
    #[error("{text:?} is not a numeric OID", text = Excerpt(.0))]
    BadOid(String),
    /// A text that is not a descriptor.
    #[error("{text:?} is not a name: a letter, then letters, digits and hyphens", text = Excerpt(.0))]
    BadName(String),
    /// A text that is not a usage.
    #[error(
        "{text:?} is not a usage: userApplications, directoryOperation, distributedOperation or dSAOperation",
        text = Excerpt(.0)
    )]
    BadUsage(String),
    /// A text that should be the length of a syntax or the id of a structure rule is not a number.
    #[error("{text:?} is not a number", text = Excerpt(.0))]
    BadNumber(String),
    /// An OID macro used before its `objectidentifier` line.
    #[error("OID macro {text:?} is not defined above", text = Excerpt(.0))]
    UnknownMacro(String),
    /// An OID macro defined with two meanings.
    #[error("OID macro {text:?} is defined twice with different OIDs", text = Excerpt(.0))]
    RepeatedMacro(String),
    /// Two definitions with one OID.
    #[error("OID {oid} is already defined as {other}, differently")]
    DuplicateOid {
        /// The OID.
        oid: String,
        /// The other definition: name, file and line.
        other: String,
    },
    /// A definition whose meaning differs from another definition with the same OID or name.
    #[error("{name} contradicts {other}: {what}")]
    Contradiction {
        /// Name of the definition.
        name: String,
        /// The other definition: name, file and line.
        other: String,
        /// The difference.
        what: String,
    },
    /// Two definitions with one name.
    #[error("name {name:?} already belongs to {other}", name = Excerpt(.name))]
    DuplicateName {
        /// The name.
        name: String,
        /// The other definition: OID, file and line.
        other: String,
    },
    /// A supertype, superclass or superior rule that is not defined.
    #[error("superior {text:?} is not defined", text = Excerpt(.0))]
    UnknownSuperior(String),
    /// An attribute type that is not defined.
    #[error("attribute type {name:?} in {term} is not defined", name = Excerpt(.name))]
    UnknownAttribute {
        /// Term that contains the attribute type.
        term: &'static str,
        /// The attribute type as written.
        name: String,
    },
    /// An object class that is not defined.
    #[error("object class {name:?} in {term} is not defined", name = Excerpt(.name))]
    UnknownClass {
        /// Term that contains the object class.
        term: &'static str,
        /// The object class as written.
        name: String,
    },
    /// A name form that is not defined.
    #[error("name form {text:?} is not defined", text = Excerpt(.0))]
    UnknownNameForm(String),
    /// A syntax that Pando does not support.
    #[error("syntax {text:?} is not known; a new one is defined with X-SUBST, naming a known one", text = Excerpt(.0))]
    UnknownSyntax(String),
    /// A matching rule that Pando does not support.
    #[error("matching rule {name:?} in {term} is not known", name = Excerpt(.name))]
    UnknownRule {
        /// Term that contains the matching rule.
        term: &'static str,
        /// The matching rule as written.
        name: String,
    },
    /// A matching rule that cannot be used in this term.
    #[error("matching rule {name} cannot be used for {term}")]
    WrongRule {
        /// Term that contains the matching rule.
        term: &'static str,
        /// Name of the rule.
        name: &'static str,
    },
    /// A definition that is its own superior.
    #[error("{0} is derived from itself")]
    Cycle(String),
    /// A type that is not collective with a collective supertype, or the reverse.
    #[error("supertype {0} is collective and this is not, or the reverse")]
    CollectiveMismatch(String),
    /// `COLLECTIVE` with an operational usage (RFC 4512 section 4.1.2).
    #[error("a collective attribute cannot be operational")]
    CollectiveOperational,
    /// `X-LINK` in a definition whose values cannot be links.
    #[error("{0:?}: X-LINK cannot be followed: {1}")]
    Link(String, &'static str),
    /// A class derived from a class of a kind that RFC 4512 section 2.4 does not allow.
    #[error("{kind} class cannot be derived from {superior_kind} class {superior}")]
    ClassInheritance {
        /// Kind of the class.
        kind: &'static str,
        /// The superclass.
        superior: String,
        /// Kind of the superclass.
        superior_kind: &'static str,
    },
    /// A content rule or name form for a class that is not structural.
    #[error("object class {0} is not structural")]
    NotStructural(String),
    /// A class in the list of auxiliary classes that is not auxiliary.
    #[error("object class {0} in AUX is not auxiliary")]
    NotAuxiliary(String),
    /// An attribute type that a content rule cannot regulate.
    #[error("attribute type {0} is operational or collective: content rules are about other attributes")]
    NotOfEntries(String),
    /// An attribute type in a name form that cannot be in an RDN.
    #[error(
        "attribute type {0} cannot name an entry: it is operational or collective, or has no equality rule"
    )]
    CannotName(String),
    /// An attribute type both precluded and required, or both required and allowed for naming.
    #[error("attribute type {name} is in {one} and in {other}")]
    ContradictoryAttribute {
        /// Name of the attribute type.
        name: String,
        /// One term.
        one: &'static str,
        /// The other term.
        other: &'static str,
    },
}
