//! Object identifiers of controls, extended operations, notifications and features.
//!
//! The list includes OIDs that the server does not support. The root DSE lists those that it supports.

// Controls, on requests, responses or both.

/// ManageDsaIT: referral and alias entries are treated as plain entries (RFC 3296).
pub const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// Subentries: whether a search returns subentries (RFC 3672).
pub const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
/// Simple paged results (RFC 2696).
pub const PAGED_RESULTS: &str = "1.2.840.113556.1.4.319";
/// Server side sorting, request (RFC 2891).
pub const SORT_REQUEST: &str = "1.2.840.113556.1.4.473";
/// Server side sorting, response (RFC 2891).
pub const SORT_RESPONSE: &str = "1.2.840.113556.1.4.474";
/// Virtual list view, request (draft-ietf-ldapext-ldapv3-vlv).
pub const VLV_REQUEST: &str = "2.16.840.1.113730.3.4.9";
/// Virtual list view, response (draft-ietf-ldapext-ldapv3-vlv).
pub const VLV_RESPONSE: &str = "2.16.840.1.113730.3.4.10";
/// Assertion: the operation is performed only if a filter matches the entry (RFC 4528).
pub const ASSERTION: &str = "1.3.6.1.1.12";
/// Pre-read: return the entry as it was before the change (RFC 4527).
pub const PRE_READ: &str = "1.3.6.1.1.13.1";
/// Post-read: return the entry as it is after the change (RFC 4527).
pub const POST_READ: &str = "1.3.6.1.1.13.2";
/// Proxied authorization: act as another identity (RFC 4370).
pub const PROXIED_AUTHORIZATION: &str = "2.16.840.1.113730.3.4.18";
/// Proxied authorization as first drafted: act as another DN (draft-weltman-ldapv3-proxy-04).
pub const PROXIED_AUTHORIZATION_V1: &str = "2.16.840.1.113730.3.4.12";
/// Authorization identity on bind, request (RFC 3829).
pub const AUTHORIZATION_IDENTITY_REQUEST: &str = "2.16.840.1.113730.3.4.16";
/// Authorization identity on bind, response (RFC 3829).
pub const AUTHORIZATION_IDENTITY_RESPONSE: &str = "2.16.840.1.113730.3.4.15";
/// Matched values: return only the values that match a filter (RFC 3876).
pub const MATCHED_VALUES: &str = "1.2.826.0.1.3344810.2.3";
/// Don't use copy: only an authoritative server may answer (RFC 6171).
pub const DONT_USE_COPY: &str = "1.3.6.1.1.22";
/// Content synchronization, request (RFC 4533).
pub const SYNC_REQUEST: &str = "1.3.6.1.4.1.4203.1.9.1.1";
/// Content synchronization, the state of one entry (RFC 4533).
pub const SYNC_STATE: &str = "1.3.6.1.4.1.4203.1.9.1.2";
/// Content synchronization, sent with the result of the search (RFC 4533).
pub const SYNC_DONE: &str = "1.3.6.1.4.1.4203.1.9.1.3";
/// DirSync: changes since a cookie (Active Directory, MS-ADTS section 3.1.1.3.4.1.3).
pub const DIR_SYNC: &str = "1.2.840.113556.1.4.841";
/// Cookie of the external change log (OpenDJ).
pub const CHANGE_LOG_COOKIE: &str = "1.3.6.1.4.1.26027.1.5.4";
/// Transaction specification: this update belongs to a transaction (RFC 5805).
pub const TRANSACTION_SPECIFICATION: &str = "1.3.6.1.1.21.2";
/// Password policy, request and response (draft-behera-ldap-password-policy).
pub const PASSWORD_POLICY: &str = "1.3.6.1.4.1.42.2.27.8.5.1";
/// Account usability: a search returns, with each entry, the information whether its account can bind (Sun Directory
/// Server).
pub const ACCOUNT_USABILITY: &str = "1.3.6.1.4.1.42.2.27.9.5.8";
/// The password has expired: response on a bind (draft-vchu-ldap-pwd-policy).
pub const PASSWORD_EXPIRED: &str = "2.16.840.1.113730.3.4.4";
/// The password will expire: response on a bind (draft-vchu-ldap-pwd-policy).
pub const PASSWORD_EXPIRING: &str = "2.16.840.1.113730.3.4.5";
/// Get Effective Rights: the rights of an identity on the entries of a search (draft-ietf-ldapext-acl-model-08).
pub const EFFECTIVE_RIGHTS: &str = "1.3.6.1.4.1.42.2.27.9.5.2";
/// Relax rules: allow a repair tool to write values that users may not write (draft-zeilenga-ldap-relax).
pub const RELAX_RULES: &str = "1.3.6.1.4.1.4203.666.5.12";
/// No operation: report the result without changing anything (draft-zeilenga-ldap-noop), with OpenLDAP's OID.
pub const NO_OPERATION: &str = "1.3.6.1.4.1.4203.666.5.2";
/// No operation, with the OID of OpenDJ and UnboundID.
pub const NO_OPERATION_UNBOUNDID: &str = "1.3.6.1.4.1.4203.1.10.2";
/// Dereference: attributes of the entries that a link attribute names (draft-masarati-ldap-deref).
pub const DEREFERENCE: &str = "1.3.6.1.4.1.4203.666.5.16";
/// The "what failed" control: names the control or value that made an operation fail (draft-masarati-ldap-whatfailed).
pub const WHAT_FAILED: &str = "1.3.6.1.4.1.4203.666.5.17";
/// Session tracking: the client for which a proxy acts (draft-wahl-ldap-session).
pub const SESSION_TRACKING: &str = "1.3.6.1.4.1.21008.108.63.1";
/// Tree delete: delete an entry and all entries below it (draft-armijo-ldap-treedelete; mentioned in RFC 2849).
pub const TREE_DELETE: &str = "1.2.840.113556.1.4.805";
/// Permissive modify: adding an existing value or deleting a missing value succeeds (Active Directory).
pub const PERMISSIVE_MODIFY: &str = "1.2.840.113556.1.4.1413";
/// Subentries as drafted: a search returns only subentries (draft-ietf-ldup-subentry).
pub const SUBENTRIES_DRAFT: &str = "1.3.6.1.4.1.7628.5.101.1";
/// Real attributes only: no computed attributes (Netscape).
pub const REAL_ATTRIBUTES_ONLY: &str = "2.16.840.1.113730.3.4.17";
/// Virtual attributes only: only computed attributes (Netscape).
pub const VIRTUAL_ATTRIBUTES_ONLY: &str = "2.16.840.1.113730.3.4.19";
/// Search No-Op, request and response: the number of results of a search (OpenLDAP).
pub const SEARCH_NO_OP: &str = "1.3.6.1.4.1.4203.666.5.18";
/// Matching entry count, request (UnboundID).
pub const ENTRY_COUNT_REQUEST: &str = "1.3.6.1.4.1.30221.2.5.36";
/// Matching entry count, response (UnboundID).
pub const ENTRY_COUNT_RESPONSE: &str = "1.3.6.1.4.1.30221.2.5.37";
/// Lazy commit: the server may respond before the change is durable (Active Directory).
pub const LAZY_COMMIT: &str = "1.2.840.113556.1.4.619";
/// Search options: return no references, or extend the search to all naming contexts (Active Directory).
pub const SEARCH_OPTIONS: &str = "1.2.840.113556.1.4.1340";
/// Domain scope: no continuation references (Active Directory).
pub const DOMAIN_SCOPE: &str = "1.2.840.113556.1.4.1339";
/// Control "show deleted" of Active Directory (MS-ADTS section 3.1.1.3.4.1.14).
pub const SHOW_DELETED: &str = "1.2.840.113556.1.4.417";
/// Persistent search (draft-ietf-ldapext-psearch).
pub const PERSISTENT_SEARCH: &str = "2.16.840.1.113730.3.4.3";
/// Entry change notification, on entries of a persistent search (draft-ietf-ldapext-psearch).
pub const ENTRY_CHANGE_NOTIFICATION: &str = "2.16.840.1.113730.3.4.7";
/// Position: the response contains the log position of the state that the response shows. Pando defines this control,
/// on a placeholder arc.
pub const POSITION: &str = "1.3.6.1.4.1.99999.4.2";
/// At least: the server must respond from a state at or after a position. Pando defines this control, on a placeholder
/// arc.
pub const AT_LEAST: &str = "1.3.6.1.4.1.99999.4.3";

// Extended operations.

/// StartTLS (RFC 4511 section 4.14).
pub const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
/// Modify password (RFC 3062).
pub const MODIFY_PASSWORD: &str = "1.3.6.1.4.1.4203.1.11.1";
/// Password policy state: read and set the state of a password (OpenDJ).
pub const PASSWORD_STATE: &str = "1.3.6.1.4.1.26027.1.6.1";
/// Password policy state, with the OID of UnboundID.
pub const PASSWORD_STATE_UNBOUNDID: &str = "1.3.6.1.4.1.30221.1.6.1";
/// The "Who am I?" operation (RFC 4532).
pub const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";
/// Get the number of the connection (UnboundID).
pub const CONNECTION_ID: &str = "1.3.6.1.4.1.30221.1.6.2";
/// Cancel an operation, with a response (RFC 3909).
pub const CANCEL: &str = "1.3.6.1.1.8";
/// Turn: exchange the roles of client and server (RFC 4531).
pub const TURN: &str = "1.3.6.1.1.19";
/// Refresh a dynamic entry (RFC 2589).
pub const REFRESH: &str = "1.3.6.1.4.1.1466.101.119.1";
/// Start a transaction (RFC 5805).
pub const START_TRANSACTION: &str = "1.3.6.1.1.21.1";
/// End a transaction (RFC 5805).
pub const END_TRANSACTION: &str = "1.3.6.1.1.21.3";
/// Start a bulk update (RFC 4373).
pub const START_LBURP: &str = "1.3.6.1.1.17.1";
/// End a bulk update (RFC 4373).
pub const END_LBURP: &str = "1.3.6.1.1.17.3";
/// Operations of a bulk update (RFC 4373).
pub const LBURP_UPDATE: &str = "1.3.6.1.1.17.5";
/// Verify credentials without a bind (OpenLDAP).
pub const VERIFY_CREDENTIALS: &str = "1.3.6.1.4.1.4203.666.6.5";
/// Fast bind: binds that only check passwords (Active Directory).
pub const FAST_BIND: &str = "1.2.840.113556.1.4.1781";
/// Several operations in one request (Active Directory).
pub const BATCH_REQUEST: &str = "1.2.840.113556.1.4.2212";

/// Pando's explanation of an access decision: see [`AccessQuestion`](crate::AccessQuestion). Pando's own operations are
/// on a placeholder arc.
pub const EXPLAIN_ACCESS: &str = "1.3.6.1.4.1.99999.5.2";
/// Pando's operation that reads and changes the settings of a directory: see
/// [`SettingsRequest`](crate::SettingsRequest).
pub const SETTINGS: &str = "1.3.6.1.4.1.99999.5.1";
/// Reads Pando's audit trail: see [`TrailRequest`](crate::TrailRequest).
pub const READ_AUDIT: &str = "1.3.6.1.4.1.99999.5.3";
/// Lists deleted entries: see [`DeletedRequest`](crate::DeletedRequest).
pub const LIST_DELETED: &str = "1.3.6.1.4.1.99999.5.4";
/// Restores deleted entries: see [`UndeleteRequest`](crate::UndeleteRequest).
pub const UNDELETE: &str = "1.3.6.1.4.1.99999.5.5";
/// Reads the log, for a replica: see [`LogRequest`](crate::LogRequest).
pub const READ_LOG: &str = "1.3.6.1.4.1.99999.5.7";
/// Reads and changes the requester's own credentials: see [`OwnCredentials`](crate::OwnCredentials).
pub const OWN_CREDENTIALS: &str = "1.3.6.1.4.1.99999.5.9";
/// Reads the history of an entry: see [`HistoryRequest`](crate::HistoryRequest).
pub const READ_HISTORY: &str = "1.3.6.1.4.1.99999.5.12";
/// Reads an entry from the backup: see [`BackupRequest`](crate::BackupRequest).
pub const READ_BACKUP: &str = "1.3.6.1.4.1.99999.5.24";
/// Copies the data of a supplier, for a new replica: see [`CopyRequest`](crate::CopyRequest).
pub const COPY_DATA: &str = "1.3.6.1.4.1.99999.5.21";
/// Forwards a client's change, for a replica.
pub const FORWARD: &str = "1.3.6.1.4.1.99999.5.20";
/// Makes a copy of another server's tree the original that accepts changes.
pub const PROMOTE: &str = "1.3.6.1.4.1.99999.5.11";
/// Promotes a replica to a supplier.
pub const PROMOTE_REPLICA: &str = "1.3.6.1.4.1.99999.5.22";
/// Makes a supplier stop writing before its replica is promoted. The replica sends this operation in a forwarded
/// request.
pub const FENCE: &str = "1.3.6.1.4.1.99999.5.23";

/// Returns the common name of an extended operation, for diagnostic texts; `None` for unknown operations.
pub fn extended_operation_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        START_TLS => "StartTLS",
        MODIFY_PASSWORD => "Password Modify",
        PASSWORD_STATE | PASSWORD_STATE_UNBOUNDID => "Password Policy State",
        WHO_AM_I => "Who am I?",
        CONNECTION_ID => "Get Connection ID",
        CANCEL => "Cancel",
        TURN => "Turn",
        REFRESH => "Refresh",
        START_TRANSACTION => "Start Transaction",
        END_TRANSACTION => "End Transaction",
        START_LBURP => "Start LBURP",
        END_LBURP => "End LBURP",
        LBURP_UPDATE => "LBURP Update",
        VERIFY_CREDENTIALS => "Verify Credentials",
        FAST_BIND => "Fast Bind",
        BATCH_REQUEST => "Batch Request",
        SETTINGS => "Settings",
        EXPLAIN_ACCESS => "Explain Access",
        READ_AUDIT => "Read Audit Trail",
        LIST_DELETED => "List Deleted Entries",
        UNDELETE => "Undelete",
        READ_HISTORY => "Read History",
        READ_BACKUP => "Read Backup",
        OWN_CREDENTIALS => "Own Credentials",
        READ_LOG => "Read Log",
        COPY_DATA => "Copy Data",
        FORWARD => "Forward Change",
        PROMOTE => "Promote Copy",
        PROMOTE_REPLICA => "Promote Replica",
        FENCE => "Stop Writing",
        _ => return None,
    })
}

// Intermediate responses and unsolicited notifications.

/// Synchronization information, an intermediate response (RFC 4533).
pub const SYNC_INFO: &str = "1.3.6.1.4.1.4203.1.9.1.4";
/// Notice of disconnection (RFC 4511 section 4.4.1).
pub const NOTICE_OF_DISCONNECTION: &str = "1.3.6.1.4.1.1466.20036";
/// Aborted transaction notice (RFC 5805).
pub const ABORTED_TRANSACTION_NOTICE: &str = "1.3.6.1.1.21.4";

// Features, as listed in supportedFeatures.

/// `+` selects all operational attributes (RFC 3673).
pub const ALL_OPERATIONAL_ATTRIBUTES: &str = "1.3.6.1.4.1.4203.1.5.1";
/// `@class` selects the attributes of an object class (RFC 4529).
pub const OBJECT_CLASS_ATTRIBUTES: &str = "1.3.6.1.4.1.4203.1.5.2";
/// `(&)` is true and `(|)` false (RFC 4526).
pub const TRUE_FALSE_FILTERS: &str = "1.3.6.1.4.1.4203.1.5.3";
/// Language tag options (RFC 3866).
pub const LANGUAGE_TAGS: &str = "1.3.6.1.4.1.4203.1.5.4";
/// Language range options (RFC 3866).
pub const LANGUAGE_RANGES: &str = "1.3.6.1.4.1.4203.1.5.5";
/// Increment in modify (RFC 4525).
pub const MODIFY_INCREMENT: &str = "1.3.6.1.1.14";
