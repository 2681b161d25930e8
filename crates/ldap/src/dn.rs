//! Distinguished names as text (RFC 4514), taken apart.

use std::borrow::Cow;
use std::fmt;

/// A distinguished name, parsed.
#[derive(Clone, Debug)]
pub struct Dn<'a> {
    text: &'a str,
    avas: Vec<Ava<'a>>,
}

/// One attribute value assertion of an RDN: a name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ava<'a> {
    /// The attribute's name or OID as written, without the `OID.` prefix of LDAPv2.
    pub attribute: &'a str,
    /// The value with all escapes undone.
    pub value: Cow<'a, [u8]>,
}

/// One relative distinguished name: one or more AVAs.
#[derive(Clone, Copy, Debug)]
pub struct Rdn<'d, 'a> {
    /// The AVAs in the order written; at least one.
    pub avas: &'d [Ava<'a>],
    /// The RDN as written, without surrounding spaces.
    pub text: &'a str,
}

/// Where and why a text is not a DN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnError {
    /// Octets before the place.
    pub offset: usize,
    /// What is wrong there.
    pub kind: DnErrorKind,
}

/// What is wrong with the text of a DN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DnErrorKind {
    /// No attribute name or OID where one must be.
    BadAttribute,
}

impl<'a> Dn<'a> {
    /// The empty DN: the root.
    pub const ROOT: Dn<'static> = Dn { text: "", avas: Vec::new() };

    /// Parses a DN.
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn parse(text: &'a str) -> Result<Dn<'a>, DnError> {
        todo!("{text}")
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The RDNs, leaf first.
    pub fn rdns(&self) -> impl DoubleEndedIterator<Item = Rdn<'_, 'a>> + ExactSizeIterator {
        todo!("{:?}", self.avas);
        #[allow(unreachable_code)]
        Vec::new().into_iter()
    }

    /// The first RDN, the entry's own; `None` for the root.
    pub fn rdn(&self) -> Option<Rdn<'_, 'a>> {
        todo!()
    }

    /// How many RDNs there are.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether this is the root.
    pub fn is_empty(&self) -> bool {
        self.avas.is_empty()
    }

    /// The DN without its first RDN; `None` for the root.
    pub fn parent(&self) -> Option<Dn<'a>> {
        todo!()
    }
}

impl fmt::Display for Dn<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl fmt::Display for DnError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl std::error::Error for DnError {}
