//! Limits on what the clients of the console may use.

use std::time::Duration;

/// Maximum number of HTTP connections. If there are more, a new connection is closed at once.
pub const CONNECTIONS_MAX: usize = 512;

/// Maximum number of HTTP connections from one source. A source is an IPv4 address or an IPv6 /64 network.
pub const CONNECTIONS_PER_SOURCE_MAX: usize = 128;

/// Maximum time for a TLS handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Maximum time until the head of a request has arrived. This time also limits the wait for the next request on a
/// connection.
pub const HEAD_TIME: Duration = Duration::from_secs(15);

/// Maximum time for a request. It includes receiving the body, and ends with the beginning of the response. If a
/// request takes longer, it is answered with 503.
pub const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Age at which a connection accepts no further requests.
pub const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Time that a response in progress still has after [`CONNECTION_TIME`].
pub const LAST_ANSWER_TIME: Duration = Duration::from_secs(45);

/// Maximum size of the head of a request, in bytes.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Maximum size of the body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of fields of a form or a query. The largest forms contain several thousand values.
pub const FIELDS_MAX: usize = 20_000;

/// Maximum number of threads that run conversations with the directory.
pub const LDAP_THREADS_MAX: usize = 32;

/// Maximum number of conversations with the directory that run or wait for a thread. If there are more, a request is
/// answered with 503.
pub const CONVERSATIONS_MAX: usize = 256;

/// Maximum time to wait for each answer of the directory.
pub const LDAP_ANSWER_TIME: Duration = Duration::from_secs(20);

/// Maximum size of a message from the directory, in bytes. A message contains at most one entry. A larger message ends
/// the session.
pub const LDAP_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum total size of the entries on one page of a search, in bytes. Further entries are omitted, and a notice on
/// the page states that.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Number of entries on a page of a search or of the tree.
pub const PAGE_ENTRIES: u32 = 50;

/// Number of an attribute's values that a page shows at once.
pub const VALUES_PER_PAGE: usize = 100;

/// Number of an attribute's values in one answer if all values are read.
pub const VALUES_PER_REQUEST: usize = 5_000;

/// Maximum total size in bytes of the values of an entry that are read after the first values of each attribute.
pub const WHOLE_ENTRY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum number of changes in the transaction that restores a tree from the backup.
pub const TREE_CHANGES_MAX: usize = 1_000;

/// Maximum number of changes that the page for restoring a tree shows.
pub const TREE_LINES_MAX: usize = 200;

/// Maximum time for comparing a tree with the backup.
pub const TREE_TIME: Duration = Duration::from_secs(15);

/// Maximum size of an export in bytes. A larger export is refused. `pando export` has no such limit.
pub const EXPORT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum size of an uploaded photo in bytes.
pub const PHOTO_BYTES_MAX: usize = 512 * 1024;

/// Time after which a rehearsal of access rules examines no further requester.
pub const REHEARSAL_TIME: Duration = Duration::from_secs(15);

/// Maximum number of differences that a rehearsal shows.
pub const REHEARSAL_LINES: usize = 100;

/// Maximum number of requesters in a rehearsal.
pub const REHEARSAL_REQUESTERS_MAX: usize = 20;

/// Minimum time between the two readings from which rates of operations are computed.
pub const RATE_TIME_MIN: Duration = Duration::from_secs(1);

/// Maximum time between the two readings from which rates of operations are computed.
pub const RATE_TIME_MAX: Duration = Duration::from_secs(600);

/// Maximum number of concurrent exports.
pub const EXPORTS_MAX: usize = 4;

/// Time for the last responses when the server stops.
pub const STOP_TIME: Duration = Duration::from_secs(2);

/// Maximum number of concurrent sign-ins. The server delays the answers to wrong passwords. Therefore many wrong
/// passwords from unknown sources can occupy only this number of threads.
pub const SIGN_INS_MAX: usize = 8;

/// Maximum number of concurrent sign-ins from one source. A source is an IPv4 address or an IPv6 /64 network.
pub const SIGN_INS_PER_SOURCE_MAX: usize = 4;

/// Number of additional sign-ins that are reserved for sources from which a user has signed in before.
pub const KNOWN_SIGN_INS_MAX: usize = 8;

/// Number of additional requests of another protocol for sources from which such a request has signed in before. Each
/// request of another protocol signs in, and counts as a sign-in for all other limits.
pub const KNOWN_PART_REQUESTS_MAX: usize = 16;

/// Maximum number of sources of successful sign-ins that are remembered.
pub const KNOWN_SOURCES_MAX: usize = 4_096;

/// Maximum number of concurrent health checks.
pub const HEALTH_CHECKS_MAX: usize = 4;

/// Maximum number of sessions. If there are more, a sign-in is refused.
pub const SESSIONS_MAX: usize = 256;

/// Maximum number of sessions from one source. A source is an IPv4 address or an IPv6 /64 network.
pub const SESSIONS_PER_SOURCE_MAX: usize = 64;

/// Maximum number of sessions of one user. A further session ends the oldest session.
pub const SESSIONS_PER_IDENTITY_MAX: usize = 8;

/// Time without a request after which a session ends.
pub const SESSION_IDLE_TIME: Duration = Duration::from_secs(15 * 60);

/// Age at which a session ends.
pub const SESSION_TIME: Duration = Duration::from_secs(8 * 60 * 60);

// If another protocol uses all of its places, threads are left for the pages of the console.
const _: () = assert!(SIGN_INS_MAX + KNOWN_PART_REQUESTS_MAX < LDAP_THREADS_MAX);
