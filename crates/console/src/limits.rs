//! Limits on the resources that clients of the console can occupy.

use std::time::Duration;

/// Maximum number of HTTP connections. Further ones are closed at once.
pub const CONNECTIONS_MAX: usize = 512;

/// Maximum number of HTTP connections from one address, or from one IPv6 /64 network.
pub const CONNECTIONS_PER_SOURCE_MAX: usize = 128;

/// Maximum time for a TLS handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Maximum time for the head of a request, and for the next request on a connection.
pub const HEAD_TIME: Duration = Duration::from_secs(15);

/// Maximum time for a request, including its body and the beginning of the answer. A request that takes longer is
/// answered with 503.
pub const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Age at which a connection accepts no more requests.
pub const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Time after [`CONNECTION_TIME`] for the answer that is being sent.
pub const LAST_ANSWER_TIME: Duration = Duration::from_secs(45);

/// Maximum size of the head of a request, in bytes.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Maximum size of the body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of fields of a form or a query. The largest forms show some thousand values.
pub const FIELDS_MAX: usize = 20_000;

/// Maximum number of threads that wait for answers of the directory.
pub const LDAP_THREADS_MAX: usize = 32;

/// Maximum number of conversations with the directory that run or wait for a thread. Further ones are answered with
/// 503.
pub const CONVERSATIONS_MAX: usize = 256;

/// Maximum time for each answer of the directory.
pub const LDAP_ANSWER_TIME: Duration = Duration::from_secs(20);

/// Maximum size of a message from the directory in bytes. A message contains at most one entry. A larger message ends
/// the session.
pub const LDAP_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum total size of the entries on one page of a search, in bytes. Further entries are omitted, and the page says
/// so.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Number of entries on a page of a search, and of children on a page of the tree.
pub const PAGE_ENTRIES: u32 = 50;

/// Number of values of an attribute that are shown at once.
pub const VALUES_PER_PAGE: usize = 100;

/// Number of values of an attribute in one answer when all values are read.
pub const VALUES_PER_REQUEST: usize = 5_000;

/// Maximum size of the further values of an entry that is compared with the backup, in bytes.
pub const WHOLE_ENTRY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum number of changes that restore a tree from the backup in one transaction.
pub const TREE_CHANGES_MAX: usize = 1_000;

/// Maximum number of these changes that the page lists.
pub const TREE_LINES_MAX: usize = 200;

/// Maximum time for the comparison of a tree.
pub const TREE_TIME: Duration = Duration::from_secs(15);

/// Maximum size of an export in bytes. A larger result is refused. `pando export` has no such limit.
pub const EXPORT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum size of an uploaded photo in bytes.
pub const PHOTO_BYTES_MAX: usize = 512 * 1024;

/// Time after which a rehearsal of access rules examines no further requester.
pub const REHEARSAL_TIME: Duration = Duration::from_secs(15);

/// Maximum number of changes that a rehearsal lists.
pub const REHEARSAL_LINES: usize = 100;

/// Maximum number of requesters in a rehearsal.
pub const REHEARSAL_REQUESTERS_MAX: usize = 20;

/// Minimum time between two readings from which rates of operations are computed.
pub const RATE_TIME_MIN: Duration = Duration::from_secs(1);

/// Maximum time between two readings from which rates are computed.
pub const RATE_TIME_MAX: Duration = Duration::from_secs(600);

/// Maximum number of concurrent exports.
pub const EXPORTS_MAX: usize = 4;

/// Time for the last answers when the server stops.
pub const STOP_TIME: Duration = Duration::from_secs(2);

/// Maximum number of concurrent sign-ins. The server delays answers to wrong passwords, so a flood of them can occupy
/// only these threads.
pub const SIGN_INS_MAX: usize = 8;

/// Maximum number of concurrent sign-ins from one address, or from one IPv6 /64 network.
pub const SIGN_INS_PER_SOURCE_MAX: usize = 4;

/// Number of additional concurrent sign-ins for sources from which a user has signed in before. A flood from elsewhere
/// cannot occupy them.
pub const KNOWN_SIGN_INS_MAX: usize = 8;

/// Maximum number of concurrent requests of another protocol, each of which signs in, from sources from which one has
/// signed in before. Others have the numbers of sign-ins.
pub const KNOWN_PART_REQUESTS_MAX: usize = 16;

/// Maximum number of remembered sources of successful sign-ins.
pub const KNOWN_SOURCES_MAX: usize = 4_096;

/// Maximum number of concurrent health checks.
pub const HEALTH_CHECKS_MAX: usize = 4;

/// Maximum number of sessions. Further sign-ins are refused.
pub const SESSIONS_MAX: usize = 256;

/// Maximum number of sessions from one address, or from one IPv6 /64 network.
pub const SESSIONS_PER_SOURCE_MAX: usize = 64;

/// Maximum number of sessions of one user. A further one ends the oldest.
pub const SESSIONS_PER_IDENTITY_MAX: usize = 8;

/// Time without a request after which a session ends.
pub const SESSION_IDLE_TIME: Duration = Duration::from_secs(15 * 60);

/// Age at which a session ends.
pub const SESSION_TIME: Duration = Duration::from_secs(8 * 60 * 60);

// The pages of the console keep threads while another protocol uses all of its places.
const _: () = assert!(SIGN_INS_MAX + KNOWN_PART_REQUESTS_MAX < LDAP_THREADS_MAX);
