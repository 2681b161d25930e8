//! Attribute types as the rest of the server sees them: everything inherited is already resolved.

use crate::{MatchingRule, SyntaxId};

/// An attribute type's place in one [`Schema`](crate::Schema). Not stable between schemas: store the OID, not this.
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

/// One attribute type definition (RFC 4512 section 4.1.2), with what it inherits from its supertypes filled in.
#[derive(Debug, Clone)]
pub struct AttributeType {
    /// Place in the schema.
    pub id: TypeId,
    /// Numeric OID as text.
    pub oid: String,
    /// Short names in the schema's spelling, the canonical one first. May be empty.
    pub names: Vec<String>,
    /// `DESC`, for people only.
    pub description: Option<String>,
    /// Marked obsolete. No effect on matching.
    pub obsolete: bool,
    /// Direct supertype.
    pub sup: Option<TypeId>,
    /// Syntax, its own or inherited.
    pub syntax: SyntaxId,
    /// Suggested minimum upper bound of a value's length in characters; published, never enforced (RFC 4512 section
    /// 4.1.2).
    pub length_bound: Option<u32>,
    /// Equality rule, its own or inherited. Without one, a filter on equality is Undefined.
    pub equality: Option<MatchingRule>,
    /// Ordering rule, its own or inherited.
    pub ordering: Option<MatchingRule>,
    /// Substring rule, its own or inherited.
    pub substring: Option<MatchingRule>,
    /// At most one value an entry.
    pub single_value: bool,
    /// Collective attribute (RFC 3671).
    pub collective: bool,
    /// Only the server sets it.
    pub no_user_modification: bool,
    /// Usage of the attribute.
    pub usage: AttributeUsage,
    /// The definition has `X-LINK 'TRUE'`: values become links to the entries that they name.
    pub link: bool,
    /// Values are always transferred with the `binary` option (RFC 4522, RFC 4523 section 2).
    pub binary_transfer: bool,
    /// The definition in RFC 4512 notation, as the subschema entry publishes it.
    pub definition: String,
    /// `name()`, with `;binary` appended if the syntax requires it.
    pub(crate) returned_name: String,
    /// Bytes that represent the type in the keys of names; see [`crate::name_key`].
    pub(crate) type_key: Box<[u8]>,
}

impl AttributeType {
    /// The canonical name: the first short name, or the OID when there is none.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// The name under which values without other options are returned: [`Self::name`], with `;binary` where the syntax
    /// needs binary transfer.
    pub fn returned_name(&self) -> &str {
        &self.returned_name
    }

    /// BER content of the OID, if it has any.
    pub(crate) fn oid_key(&self) -> Option<&[u8]> {
        crate::type_key::oid_of_type(&self.type_key)
    }

    /// Whether this is an operational attribute: not returned for `*`, returned for `+` (RFC 3673).
    pub fn is_operational(&self) -> bool {
        self.usage != AttributeUsage::UserApplications
    }

    /// Whether the keys of the equality rule also answer the ordering rule: they come from the same normal form.
    pub fn ordering_shares_key(&self) -> bool {
        matches!((self.equality, self.ordering), (Some(equality), Some(ordering)) if equality.shares_key_with(ordering))
    }

    /// Whether the keys of the equality rule also answer the substring rule.
    pub fn substring_shares_key(&self) -> bool {
        matches!((self.equality, self.substring), (Some(equality), Some(rule)) if equality.shares_key_with(rule))
    }
}
