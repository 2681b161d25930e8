//! Object identifiers of controls, extended operations, notifications and features, all in one place.
//!
//! That an OID is here does not mean that the server knows what to do with it: the root DSE names only what works.

// Controls, on requests, responses or both.

/// ManageDsaIT: referral and alias entries are plain entries (RFC 3296).
pub const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// Subentries: whether a search shows subentries (RFC 3672).
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
/// Assertion: the operation happens only if a filter is true (RFC 4528).
pub const ASSERTION: &str = "1.3.6.1.1.12";
/// Pre-read: the entry as it was before the change (RFC 4527).
pub const PRE_READ: &str = "1.3.6.1.1.13.1";
/// Post-read: the entry as it is after the change (RFC 4527).
pub const POST_READ: &str = "1.3.6.1.1.13.2";
/// Proxied authorization: act as another identity (RFC 4370).
pub const PROXIED_AUTHORIZATION: &str = "2.16.840.1.113730.3.4.18";
/// Proxied authorization as it was drafted: act as another DN (draft-weltman-ldapv3-proxy-04).
pub const PROXIED_AUTHORIZATION_V1: &str = "2.16.840.1.113730.3.4.12";
/// Authorization identity on bind, request (RFC 3829).
pub const AUTHORIZATION_IDENTITY_REQUEST: &str = "2.16.840.1.113730.3.4.16";
/// Authorization identity on bind, response (RFC 3829).
pub const AUTHORIZATION_IDENTITY_RESPONSE: &str = "2.16.840.1.113730.3.4.15";
/// Matched values: only the values that a filter matches come back (RFC 3876).
pub const MATCHED_VALUES: &str = "1.2.826.0.1.3344810.2.3";
/// Don't use copy: only an authoritative server may answer (RFC 6171).
pub const DONT_USE_COPY: &str = "1.3.6.1.1.22";
/// Content synchronization, request (RFC 4533).
pub const SYNC_REQUEST: &str = "1.3.6.1.4.1.4203.1.9.1.1";
/// Content synchronization, the state of one entry (RFC 4533).
pub const SYNC_STATE: &str = "1.3.6.1.4.1.4203.1.9.1.2";
/// Content synchronization, end of a phase (RFC 4533).
pub const SYNC_DONE: &str = "1.3.6.1.4.1.4203.1.9.1.3";
/// DirSync: changes since a cookie (Active Directory, MS-ADTS section 3.1.1.3.4.1.3).
pub const DIR_SYNC: &str = "1.2.840.113556.1.4.841";
/// Cookie of the external change log (OpenDJ).
pub const CHANGE_LOG_COOKIE: &str = "1.3.6.1.4.1.26027.1.5.4";
/// Transaction specification: this update belongs to a transaction (RFC 5805).
pub const TRANSACTION_SPECIFICATION: &str = "1.3.6.1.1.21.2";
/// Password policy, request and response (draft-behera-ldap-password-policy).
pub const PASSWORD_POLICY: &str = "1.3.6.1.4.1.42.2.27.8.5.1";
/// Account usability: whether one can bind, with each entry of a search (Sun Directory Server).
pub const ACCOUNT_USABILITY: &str = "1.3.6.1.4.1.42.2.27.9.5.8";
/// The password has expired: response on a bind (draft-vchu-ldap-pwd-policy).
pub const PASSWORD_EXPIRED: &str = "2.16.840.1.113730.3.4.4";
/// The password will expire: response on a bind (draft-vchu-ldap-pwd-policy).
pub const PASSWORD_EXPIRING: &str = "2.16.840.1.113730.3.4.5";
/// Get Effective Rights: the rights of an identity on the entries of a search (draft-ietf-ldapext-acl-model-08).
pub const EFFECTIVE_RIGHTS: &str = "1.3.6.1.4.1.42.2.27.9.5.2";
/// Relax rules: let a directory repair tool write what users may not (draft-zeilenga-ldap-relax).
pub const RELAX_RULES: &str = "1.3.6.1.4.1.4203.666.5.12";
/// No operation: say what would happen and do nothing (draft-zeilenga-ldap-noop), as OpenLDAP numbers it.
pub const NO_OPERATION: &str = "1.3.6.1.4.1.4203.666.5.2";
/// The same, as OpenDJ and UnboundID number it.
pub const NO_OPERATION_UNBOUNDID: &str = "1.3.6.1.4.1.4203.1.10.2";
/// Dereference: attributes of the entries that a link attribute names (draft-masarati-ldap-deref).
pub const DEREFERENCE: &str = "1.3.6.1.4.1.4203.666.5.16";
/// The "what failed" control: names the control or value that made an operation fail (draft-masarati-ldap-whatfailed).
pub const WHAT_FAILED: &str = "1.3.6.1.4.1.4203.666.5.17";
/// Session tracking: who a proxy works for (draft-wahl-ldap-session).
pub const SESSION_TRACKING: &str = "1.3.6.1.4.1.21008.108.63.1";
/// Tree delete: delete an entry with everything below (RFC 2849 mentions it; draft-armijo-ldap-treedelete).
pub const TREE_DELETE: &str = "1.2.840.113556.1.4.805";
/// Permissive modify: adding what is there and deleting what is not succeeds (Active Directory).
pub const PERMISSIVE_MODIFY: &str = "1.2.840.113556.1.4.1413";
/// Subentries as drafted (draft-ietf-ldup-subentry): only subentries are seen.
pub const SUBENTRIES_DRAFT: &str = "1.3.6.1.4.1.7628.5.101.1";
/// Real attributes only: no computed attributes (Netscape).
pub const REAL_ATTRIBUTES_ONLY: &str = "2.16.840.1.113730.3.4.17";
/// Virtual attributes only: only computed attributes (Netscape).
pub const VIRTUAL_ATTRIBUTES_ONLY: &str = "2.16.840.1.113730.3.4.19";
/// Search No-Op, request and response: how many results a search has (OpenLDAP).
pub const SEARCH_NO_OP: &str = "1.3.6.1.4.1.4203.666.5.18";
/// Matching entry count, request (UnboundID).
pub const ENTRY_COUNT_REQUEST: &str = "1.3.6.1.4.1.30221.2.5.36";
/// Matching entry count, response (UnboundID).
pub const ENTRY_COUNT_RESPONSE: &str = "1.3.6.1.4.1.30221.2.5.37";
/// Lazy commit: the change need not be durable when it is answered (Active Directory).
pub const LAZY_COMMIT: &str = "1.2.840.113556.1.4.619";
/// Search options: no references, all naming contexts (Active Directory).
pub const SEARCH_OPTIONS: &str = "1.2.840.113556.1.4.1340";
/// Domain scope: no continuation references (Active Directory).
pub const DOMAIN_SCOPE: &str = "1.2.840.113556.1.4.1339";
/// Control "show deleted" of Active Directory (MS-ADTS section 3.1.1.3.4.1.14).
pub const SHOW_DELETED: &str = "1.2.840.113556.1.4.417";
/// Persistent search (draft-ietf-ldapext-psearch).
pub const PERSISTENT_SEARCH: &str = "2.16.840.1.113730.3.4.3";
/// Entry change notification, on entries of a persistent search (draft-ietf-ldapext-psearch).
pub const ENTRY_CHANGE_NOTIFICATION: &str = "2.16.840.1.113730.3.4.7";
/// Position: the answer says where in the order of all changes it stands. Pando's own, on a placeholder arc.
pub const POSITION: &str = "1.3.6.1.4.1.99999.4.2";
/// At least: the request is answered from a state of at least a position. Pando's own, on a placeholder arc.
pub const AT_LEAST: &str = "1.3.6.1.4.1.99999.4.3";

// Extended operations.

/// StartTLS (RFC 4511 section 4.14).
pub const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
/// Modify password (RFC 3062).
pub const MODIFY_PASSWORD: &str = "1.3.6.1.4.1.4203.1.11.1";
/// The state of a password under its policy: to read and to set it (OpenDJ).
pub const PASSWORD_STATE: &str = "1.3.6.1.4.1.26027.1.6.1";
/// The same, as UnboundID calls it.
pub const PASSWORD_STATE_UNBOUNDID: &str = "1.3.6.1.4.1.30221.1.6.1";
/// The "Who am I?" operation (RFC 4532).
pub const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";
/// Get the number of the connection (UnboundID).
pub const CONNECTION_ID: &str = "1.3.6.1.4.1.30221.1.6.2";
/// Cancel an operation and say so (RFC 3909).
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

/// Pando's explanation of an access decision: see [`AccessQuestion`](crate::AccessQuestion). The arc of Pando's own
/// operations is a placeholder.
pub const EXPLAIN_ACCESS: &str = "1.3.6.1.4.1.99999.5.2";
/// Pando's operation on the settings of a directory: see [`SettingsRequest`](crate::SettingsRequest).
pub const SETTINGS: &str = "1.3.6.1.4.1.99999.5.1";
/// Pando's audit trail: see [`TrailRequest`](crate::TrailRequest).
pub const READ_AUDIT: &str = "1.3.6.1.4.1.99999.5.3";
/// Pando's list of deleted entries: see [`DeletedRequest`](crate::DeletedRequest).
pub const LIST_DELETED: &str = "1.3.6.1.4.1.99999.5.4";
/// Pando's undelete: see [`UndeleteRequest`](crate::UndeleteRequest).
pub const UNDELETE: &str = "1.3.6.1.4.1.99999.5.5";
/// Pando's reading of the log by a replica: see [`LogRequest`](crate::LogRequest).
pub const READ_LOG: &str = "1.3.6.1.4.1.99999.5.7";
/// Pando's operation on the requester's own credentials: see [`OwnCredentials`](crate::OwnCredentials).
pub const OWN_CREDENTIALS: &str = "1.3.6.1.4.1.99999.5.9";
/// Pando's history of an entry: see [`HistoryRequest`](crate::HistoryRequest).
pub const READ_HISTORY: &str = "1.3.6.1.4.1.99999.5.12";
/// Pando's reading of an entry of the backup: see [`BackupRequest`](crate::BackupRequest).
pub const READ_BACKUP: &str = "1.3.6.1.4.1.99999.5.24";
/// Pando's copying of the data of a supplier by a new replica: see [`CopyRequest`](crate::CopyRequest).
pub const COPY_DATA: &str = "1.3.6.1.4.1.99999.5.21";
/// Pando's forwarding of a client's change by a replica.
pub const FORWARD: &str = "1.3.6.1.4.1.99999.5.20";
/// Pando's promotion of a copy of another server's tree.
pub const PROMOTE: &str = "1.3.6.1.4.1.99999.5.11";
/// Pando's promotion of a replica.
pub const PROMOTE_REPLICA: &str = "1.3.6.1.4.1.99999.5.22";
/// The request by which a server that is to be promoted has its supplier write no more. Only forwarded.
pub const FENCE: &str = "1.3.6.1.4.1.99999.5.23";

/// Returns the common name of an extended operation, for diagnostic texts; `None` if its OID is not above.
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

// Features, as in supportedFeatures.

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
