//! Entries that are not in the tree, and their names.

/// DN of the subschema subentry (RFC 4512 section 4.2), of which there is one for the whole server.
pub const SUBSCHEMA_DN: &str = "cn=subschema";

/// DN of the root of the entries that a [`MonitorSource`] makes.
pub const MONITOR_DN: &str = "cn=monitor";

/// DN of the root of the directory-wide settings; see [`crate::settings::entries`].
pub const CONFIG_DN: &str = "cn=config";

/// OID of the extended operation that puts directory-wide settings in force, all at once: see
/// `docs/how-to/configure.md`. The arc is a placeholder until we have a number of our own.
pub const APPLY_SETTINGS: &str = "1.3.6.1.4.1.99999.5.1";

/// OID of the extended operation that says who may do what, and by which rule: see `docs/how-to/access-rules.md`. Its
/// value is an [`ldap::AccessQuestion`], that of the answer the lines of an
/// [`AccessExplanation`](crate::access::AccessExplanation).
pub const EXPLAIN_ACCESS: &str = "1.3.6.1.4.1.99999.5.2";

/// OID of the extended operation that reads the audit trail: see `docs/how-to/audit.md`. Its value is an
/// [`ldap::TrailRequest`], that of the answer an [`ldap::TrailAnswer`].
pub const READ_AUDIT: &str = "1.3.6.1.4.1.99999.5.3";

/// Extended operations that work, with their names.
pub const SUPPORTED_EXTENSIONS: [(&str, &str); 9] = [
    (ldap::oids::START_TLS, "StartTLS, RFC 4511 section 4.14"),
    (ldap::oids::MODIFY_PASSWORD, "password modify, RFC 3062"),
    (ldap::oids::PASSWORD_STATE, "password policy state"),
    (ldap::oids::PASSWORD_STATE_UNBOUNDID, "password policy state, as UnboundID calls it"),
    (ldap::oids::WHO_AM_I, "who am I?"),
    (ldap::oids::CANCEL, "cancel, RFC 3909"),
    (APPLY_SETTINGS, "settings of the directory"),
    (EXPLAIN_ACCESS, "explanation of access"),
    (READ_AUDIT, "the audit trail"),
];

/// Features that work, with their names (RFC 3674).
pub const SUPPORTED_FEATURES: [(&str, &str); 7] = [
    ("1.3.6.1.4.1.4203.1.5.1", "all operational attributes, RFC 3673"),
    ("1.3.6.1.4.1.4203.1.5.2", "attributes by object class, RFC 4529"),
    ("1.3.6.1.4.1.4203.1.5.3", "absolute true and false filters, RFC 4526"),
    ("1.3.6.1.4.1.4203.1.5.4", "language tags, RFC 3866"),
    ("1.3.6.1.4.1.4203.1.5.5", "language ranges, RFC 3866"),
    ("1.3.6.1.1.14", "modify-increment, RFC 4525"),
    (
        "1.3.6.1.4.1.4203.666.8.1",
        "searches of what is below the base, draft-sermersheim-ldap-subordinate-scope",
    ),
];

/// An entry that is not in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualEntry {
    /// Its DN, as returned.
    pub dn: String,
    /// Attribute descriptions with their values, as returned and in this order. Types that the schema does not know
    /// count as user attributes; they can be asked for by name, but not be used in filters.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

/// Makes the entries at and below `cn=monitor`.
pub trait MonitorSource: Send + Sync {
    /// All of them, superiors first. Called for every search in `cn=monitor`; entryDN and subschemaSubentry are added.
    fn entries(&self) -> Vec<VirtualEntry>;

    /// What the root DSE says of this server besides: attribute types with values. Called for every search there.
    fn root_dse(&self) -> Vec<(&'static str, Vec<String>)> {
        Vec::new()
    }
}

impl VirtualEntry {
    /// An entry without attributes.
    pub fn new(dn: impl Into<String>) -> VirtualEntry {
        VirtualEntry { dn: dn.into(), attributes: Vec::new() }
    }

    /// Adds an attribute; nothing where there are no values.
    #[must_use]
    pub fn with<V: Into<Vec<u8>>>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> VirtualEntry {
        let values: Vec<Vec<u8>> = values.into_iter().map(Into::into).collect();
        if !values.is_empty() {
            self.attributes.push((name.to_owned(), values));
        }
        self
    }

    /// Adds the operational attributes that every entry has.
    pub(crate) fn with_operational(self) -> VirtualEntry {
        let dn = self.dn.clone();
        self.with("entryDN", [dn]).with("subschemaSubentry", [SUBSCHEMA_DN])
    }
}
