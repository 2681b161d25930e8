//! Attribute types, with all inherited properties resolved.

use crate::{MatchingRule, SyntaxId};

/// Index of an attribute type in one [`Schema`](crate::Schema). Not stable between schemas: store the OID instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// Usage of an attribute (RFC 4512 section 4.1.2). Everything but `UserApplications` is operational.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttributeUsage {
    /// Ordinary data, returned for `*`.
    UserApplications,
    /// Operational, the same on every server.
    DirectoryOperation,
    /// Operational, shared among servers of one naming context.
    DistributedOperation,
    /// Operational, meaningful on one server only.
    DsaOperation,
}

/// An attribute type definition (RFC 4512 section 4.1.2), including the properties inherited from its supertypes.
#[derive(Debug, Clone)]
pub struct AttributeType {
    /// Index of the type in its schema.
    pub id: TypeId,
    /// Numeric OID as text.
    pub oid: String,
    /// Short names in the schema's spelling, the canonical one first. May be empty.
    pub names: Vec<String>,
    /// `DESC`, a description for people.
    pub description: Option<String>,
    /// Whether the type is obsolete. Has no effect on matching.
    pub obsolete: bool,
    /// Direct supertype.
    pub sup: Option<TypeId>,
    /// Syntax, possibly inherited.
    pub syntax: SyntaxId,
    /// Suggested minimum upper bound of a value's length in characters; published, never enforced (RFC 4512 section
    /// 4.1.2).
    pub length_bound: Option<u32>,
    /// Equality rule, possibly inherited. Without an equality rule, an equality filter is Undefined.
    pub equality: Option<MatchingRule>,
    /// Ordering rule, possibly inherited.
    pub ordering: Option<MatchingRule>,
    /// Substring rule, possibly inherited.
    pub substring: Option<MatchingRule>,
    /// Whether an entry has at most one value.
    pub single_value: bool,
    /// Whether the attribute is collective (RFC 3671).
    pub collective: bool,
    /// Whether only the server sets values.
    pub no_user_modification: bool,
    /// Usage of the attribute.
    pub usage: AttributeUsage,
    /// Whether the definition has `X-LINK 'TRUE'`: values become links to the entries that they name.
    pub link: bool,
    /// Whether values are always transferred with the `binary` option (RFC 4522, RFC 4523 section 2).
    pub binary_transfer: bool,
    /// The definition in RFC 4512 notation, in the form that the subschema entry publishes.
    pub definition: String,
    /// `name()`, with `;binary` appended if the syntax requires it.
    pub(crate) returned_name: String,
    /// Bytes that represent the type in the keys of names; see [`crate::name_key`].
    pub(crate) type_key: Box<[u8]>,
}

impl AttributeType {
    /// Returns the canonical name: the first short name, or the OID if there is none.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// Returns the name under which values without other options are returned: [`Self::name`], with `;binary` if the
    /// syntax requires binary transfer.
    pub fn returned_name(&self) -> &str {
        &self.returned_name
    }

    /// Returns the BER content of the OID, if the OID has a BER form.
    pub(crate) fn oid_key(&self) -> Option<&[u8]> {
        crate::type_key::oid_of_type(&self.type_key)
    }

    /// Returns true for an operational attribute, which is returned for `+` (RFC 3673) and not for `*`.
    pub fn is_operational(&self) -> bool {
        self.usage != AttributeUsage::UserApplications
    }

    /// Returns true if keys of the equality rule can also answer the ordering rule, because both use the same normal
    /// form.
    pub fn ordering_shares_key(&self) -> bool {
        matches!((self.equality, self.ordering), (Some(equality), Some(ordering)) if equality.shares_key_with(ordering))
    }

    /// Returns true if keys of the equality rule can also answer the substring rule.
    pub fn substring_shares_key(&self) -> bool {
        matches!((self.equality, self.substring), (Some(equality), Some(rule)) if equality.shares_key_with(rule))
    }
}
