//! Virtual entries, and OIDs of extended operations.

/// DN of the only subschema subentry of the server (RFC 4512 section 4.2).
pub const SUBSCHEMA_DN: &str = "cn=subschema";

/// DN of the root of the entries that a [`MonitorSource`] provides.
pub const MONITOR_DN: &str = "cn=monitor";

/// DN of the root of the directory-wide settings; see [`crate::settings::entries`].
pub const CONFIG_DN: &str = "cn=config";

/// OID of the extended operation that reads directory-wide settings, compares a file with them, and applies a file
/// atomically: see `docs/reference/protocol.md`. The request value is an [`ldap::SettingsRequest`]. The arc is a
/// placeholder until the project has its own enterprise number.
pub const APPLY_SETTINGS: &str = ldap::oids::SETTINGS;

/// OID of the extended operation that explains which rule grants or denies a right: see
/// `docs/how-to/access-rules.md`. The request value is an [`ldap::AccessQuestion`]; the response value contains the
/// lines of an [`AccessExplanation`](crate::access::AccessExplanation), or of an
/// [`AccessList`](crate::access::AccessList) if the question is about all requesters.
pub const EXPLAIN_ACCESS: &str = ldap::oids::EXPLAIN_ACCESS;

/// OID of the extended operation that reads the audit trail: see `docs/how-to/audit.md`. The request value is an
/// [`ldap::TrailRequest`], the response value an [`ldap::TrailAnswer`].
pub const READ_AUDIT: &str = ldap::oids::READ_AUDIT;

/// OID of the extended operation that lists deleted entries: see `docs/reference/protocol.md`. The request value is an
/// [`ldap::DeletedRequest`], the response value an [`ldap::DeletedAnswer`].
pub const LIST_DELETED: &str = ldap::oids::LIST_DELETED;

/// OID of the extended operation that restores a deleted entry. The request value is an [`ldap::UndeleteRequest`], the
/// response value an [`ldap::UndeleteAnswer`].
pub const UNDELETE: &str = ldap::oids::UNDELETE;

/// OID of the extended operation with which a replica reads the log of its supplier: see
/// `docs/reference/replica-protocol.md`.
pub const READ_LOG: &str = ldap::oids::READ_LOG;

/// OID of the extended operation that reads the history of an entry from the log: see `docs/reference/protocol.md`. The
/// request value is an [`ldap::HistoryRequest`], the response value an [`ldap::HistoryAnswer`].
pub const READ_HISTORY: &str = ldap::oids::READ_HISTORY;

/// OID of the extended operation with which the administrator reads an entry of the server's backup. The request value
/// is an [`ldap::BackupRequest`], the response value an [`ldap::BackupAnswer`].
pub const READ_BACKUP: &str = ldap::oids::READ_BACKUP;

/// OID of the extended operation with which a replica forwards a client's change.
pub const FORWARD: &str = ldap::oids::FORWARD;

/// OID of the extended operation with which a new replica copies the data of its supplier.
pub const COPY_DATA: &str = ldap::oids::COPY_DATA;

/// OID of the extended operation with which the administrator promotes a replica: see `docs/how-to/replica.md`.
pub const PROMOTE_REPLICA: &str = ldap::oids::PROMOTE_REPLICA;

/// OID of the extended operation that ends the copying of another server's tree: see `docs/how-to/follow.md`. The
/// response value is the cookie that the other server sent with the last copied change.
pub const PROMOTE: &str = ldap::oids::PROMOTE;

/// OID of the internal request that makes the writer apply changes that are due. Clients cannot send this request.
pub const MAKE_DUE_CHANGES: &str = "1.3.6.1.4.1.99999.5.6";

/// OID of the extended operation that manages the requester's own credentials. The request value is an
/// [`ldap::OwnCredentials`].
pub const OWN_CREDENTIALS: &str = ldap::oids::OWN_CREDENTIALS;

/// OID of the internal request that makes the writer store an application password that the server generated for the
/// password's user. Clients cannot send this request. The value is an [`ldap::GeneratedApplication`].
pub const STORE_APPLICATION: &str = "1.3.6.1.4.1.99999.5.8";

/// Supported extended operations, with their names.
pub const SUPPORTED_EXTENSIONS: [(&str, &str); 24] = [
    (ldap::oids::VERIFY_CREDENTIALS, "verification of credentials, OpenLDAP"),
    (ldap::oids::START_TLS, "StartTLS, RFC 4511 section 4.14"),
    (ldap::oids::MODIFY_PASSWORD, "password modify, RFC 3062"),
    (ldap::oids::PASSWORD_STATE, "password policy state"),
    (ldap::oids::PASSWORD_STATE_UNBOUNDID, "password policy state, as UnboundID calls it"),
    (ldap::oids::START_TRANSACTION, "start of a transaction, RFC 5805"),
    (ldap::oids::END_TRANSACTION, "end of a transaction, RFC 5805"),
    (ldap::oids::WHO_AM_I, "who am I?"),
    (ldap::oids::REFRESH, "refresh of dynamic entries, RFC 2589"),
    (ldap::oids::CONNECTION_ID, "number of the connection, UnboundID"),
    (ldap::oids::CANCEL, "cancel, RFC 3909"),
    (APPLY_SETTINGS, "settings of the directory"),
    (EXPLAIN_ACCESS, "explanation of access"),
    (READ_AUDIT, "the audit trail"),
    (LIST_DELETED, "deleted entries"),
    (UNDELETE, "undelete"),
    (READ_HISTORY, "the history of an entry"),
    (READ_BACKUP, "entries of the backup"),
    (PROMOTE, "promotion of a copy"),
    (READ_LOG, "log of changes, for replicas"),
    (OWN_CREDENTIALS, "own credentials"),
    (FORWARD, "changes that replicas forward"),
    (COPY_DATA, "copies of the data, for replicas"),
    (PROMOTE_REPLICA, "promotion of a replica"),
];

/// Supported features, with their names (RFC 3674).
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

/// An entry that is not stored in the directory tree, such as the root DSE or an entry of `cn=monitor`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualEntry {
    /// DN as returned to clients.
    pub dn: String,
    /// Attribute descriptions with their values, in the order in which they are returned. Undefined types count as user
    /// attributes; clients can request them by name, but cannot use them in filters.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

/// Source of the entries at and below `cn=monitor`.
pub trait MonitorSource: Send + Sync {
    /// Returns all entries, superiors first, without entryDN and subschemaSubentry. Every search in `cn=monitor` calls
    /// this method.
    fn entries(&self) -> Vec<VirtualEntry>;

    /// Returns attributes to add to the root DSE, with their values. Every search of the root DSE calls this method.
    fn root_dse(&self) -> Vec<(&'static str, Vec<String>)> {
        Vec::new()
    }
}

impl VirtualEntry {
    /// Returns an entry without attributes.
    pub fn new(dn: impl Into<String>) -> VirtualEntry {
        VirtualEntry { dn: dn.into(), attributes: Vec::new() }
    }

    /// Adds an attribute unless it has no values.
    #[must_use]
    pub fn with<V: Into<Vec<u8>>>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> VirtualEntry {
        let values: Vec<Vec<u8>> = values.into_iter().map(Into::into).collect();
        if !values.is_empty() {
            self.attributes.push((name.to_owned(), values));
        }
        self
    }

    /// Adds the operational attributes entryDN and subschemaSubentry.
    pub(crate) fn with_operational(self) -> VirtualEntry {
        let dn = self.dn.clone();
        self.with("entryDN", [dn]).with("subschemaSubentry", [SUBSCHEMA_DN])
    }
}
