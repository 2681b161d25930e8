//! Distinguished names: parsing, normal form and rendering.

use ldap::{Dn, Rdn, ResultCode, escape_value};
use schema::{NameError, Schema};

use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;

/// A DN in normal form, root first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalName {
    /// Concatenated normal RDNs, root first. The key of a superior is a prefix of this key.
    pub key: Vec<u8>,
    /// End of each RDN in `key`, root first.
    pub ends: Vec<usize>,
    /// Reason why an RDN has no normal form. `key` contains only the RDNs above this RDN. A name with a failure can be
    /// looked up, but no entry has such a name.
    pub failure: Option<NameError>,
}

impl NormalName {
    /// Returns the heap memory that the name uses, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.key.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Returns the normal form of `dn`.
    pub fn of(dn: &Dn<'_>, schema: &Schema) -> NormalName {
        let mut name = NormalName { key: Vec::with_capacity(64), ends: Vec::with_capacity(8), failure: None };
        for rdn in dn.rdns().rev() {
            name.push(&rdn, schema);
            if name.failure.is_some() {
                break;
            }
        }
        name
    }

    /// Returns the normal form of the name that consists of `rdn` and this name.
    pub(crate) fn below(&self, rdn: &Rdn<'_, '_>, schema: &Schema) -> NormalName {
        let mut name = NormalName {
            key: Vec::with_capacity(self.key.len() + 64),
            ends: Vec::with_capacity(self.ends.len() + 1),
            failure: self.failure.clone(),
        };
        name.key.extend_from_slice(&self.key);
        name.ends.extend_from_slice(&self.ends);
        if name.failure.is_none() {
            name.push(rdn, schema);
        }
        name
    }

    fn push(&mut self, rdn: &Rdn<'_, '_>, schema: &Schema) {
        if let Err(error) = schema.normalize_rdn(rdn, &mut self.key) {
            self.failure = Some(error);
            self.key.truncate(self.ends.last().copied().unwrap_or(0));
        } else {
            self.ends.push(self.key.len());
        }
    }

    /// Returns the number of RDNs.
    pub fn depth(&self) -> usize {
        self.ends.len()
    }

    /// Returns the normal form of the RDN at `place`, counted from 0 at the root.
    ///
    /// # Panics
    /// Panics if the name has too few RDNs.
    #[expect(
        clippy::indexing_slicing,
        reason = "what is asked for is below depth(), and ends lie within the key"
    )]
    pub fn rdn(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.key[start..self.ends[place]]
    }
}

/// Parses a DN from a client.
///
/// # Errors
/// invalidDNSyntax (RFC 4511 section 4.1.3).
pub fn parse_dn(text: &str) -> Result<Dn<'_>, OperationError> {
    Dn::parse(text).map_err(|error| {
        OperationError::refused(
            ResultCode::INVALID_DN_SYNTAX,
            format!("{} is not a distinguished name: {error}", Quoted(text)),
        )
    })
}

/// Returns the error for a name that no entry can have.
pub(crate) fn invalid_name(text: &str, failure: &NameError) -> OperationError {
    OperationError::refused(ResultCode::INVALID_DN_SYNTAX, format!("{}: {failure}", Quoted(text)))
}

/// Renders a DN with attribute names in the schema's spelling, and values escaped according to RFC 4514 section 2.4.
pub fn render_dn(schema: &Schema, dn: &Dn<'_>) -> String {
    let mut out = String::new();
    for rdn in dn.rdns() {
        if !out.is_empty() {
            out.push(',');
        }
        render_rdn(schema, &rdn, &mut out);
    }
    out
}

/// Appends an RDN with attribute names in the schema's spelling and with escaped values. The order of the RDN's parts
/// is unchanged.
pub fn render_rdn(schema: &Schema, rdn: &Rdn<'_, '_>, out: &mut String) {
    for (place, ava) in rdn.avas.iter().enumerate() {
        if place > 0 {
            out.push('+');
        }
        let known = schema.attribute_type(ava.attribute);
        out.push_str(known.map_or(ava.attribute, |attribute_type| attribute_type.name()));
        out.push('=');
        escape_value(&ava.value, out);
    }
}

/// Returns the normal form of the name in a link attribute's value. Returns `None` if the value can never become a
/// link: it has a UID part, is not a DN, or has undefined attribute types.
pub fn name_in(schema: &Schema, value: &[u8]) -> Option<NormalName> {
    let text = std::str::from_utf8(value).ok()?;
    if has_uid(text) {
        return None;
    }
    let name = NormalName::of(&Dn::parse(text).ok()?, schema);
    name.failure.is_none().then_some(name)
}

/// Returns true if a uniqueMember value has the optional UID part, such as `#'0101'B` (RFC 4517 section 3.3.21).
pub fn has_uid(text: &str) -> bool {
    let Some(bits) = text.strip_suffix("'B").and_then(|head| head.rsplit_once("#'")).map(|(_, bits)| bits)
    else {
        return false;
    };
    bits.bytes().all(|bit| bit == b'0' || bit == b'1')
}
