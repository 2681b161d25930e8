//! The values of request controls, decoded and owned.

use ldap::SelectionBuf;

/// Value of the effective rights control: the effective rights that a search requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveRightsOptions {
    /// The authorization identity as the client wrote it; `None` for the client's own identity.
    pub identity: Option<String>,
    /// Attributes for which rights are reported, in addition to the attributes that the search returns.
    pub attributes: Vec<String>,
}

/// Copy of the changed entry that a client requests (RFC 4527).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryCopyOptions {
    /// Whether the change must fail if the copy cannot be returned.
    pub is_critical: bool,
    /// The requested attributes, as in a search.
    pub selection: SelectionBuf,
}

/// Value of the dereference control (draft-masarati-ldap-deref): asks for attributes of the entries that values of
/// results name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DereferenceOptions {
    /// Whether the search must fail if the control cannot be honored.
    pub is_critical: bool,
    /// Pairs of an attribute that contains DNs and the attributes to return from the entries with these DNs.
    pub specs: Vec<(String, Vec<String>)>,
}

/// Sort request (RFC 2891).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortOptions {
    /// Whether the search must fail if it cannot sort.
    pub is_critical: bool,
    /// Sort keys, the most significant first.
    pub keys: Vec<RequestedSortKey>,
}

/// One sort key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedSortKey {
    /// The attribute description as the client wrote it.
    pub attribute: String,
    /// The name or OID of a matching rule; `None` for the default rule of the attribute.
    pub rule: Option<String>,
    /// Whether the order is descending.
    pub reverse: bool,
}

/// Requested part of a sorted list, from the virtual list view control (draft-ietf-ldapext-ldapv3-vlv).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListViewOptions {
    /// Number of entries before the target.
    pub before: u32,
    /// Number of entries after the target.
    pub after: u32,
    /// The target entry.
    pub target: WindowTarget,
    /// Whether the client sent a context id, which this server never issues.
    pub has_context: bool,
}

/// Target entry of a list view request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowTarget {
    /// Offset of the target in the list, and the length of the list that the client assumes.
    Offset(u32, u32),
    /// The first entry whose sort key is this value or greater.
    Value(Vec<u8>),
}

/// Synchronization request (RFC 4533).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncOptions {
    /// Whether the server sends later changes (refreshAndPersist).
    pub persists: bool,
    /// Cookie of the previous synchronization.
    pub cookie: Option<Vec<u8>>,
}

/// Control that makes a search count its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountKind {
    /// Search No-Op (OpenLDAP).
    SearchNoOp,
    /// Matching Entry Count (UnboundID).
    MatchingEntries,
}

/// Origin of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeOrigin {
    /// Stored attributes.
    Stored,
    /// Attributes that the server computes.
    Computed,
}
