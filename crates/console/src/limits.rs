//! Bounds on what clients can make the console hold.

use std::time::Duration;

/// Open HTTP connections; more are closed at once.
pub const CONNECTIONS_MAX: usize = 512;

/// Those of one address, or of one IPv6 network of 64 bits.
pub const CONNECTIONS_PER_SOURCE_MAX: usize = 128;

/// Time for a TLS handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Time for the head of a request, and for the next request on a connection.
pub const HEAD_TIME: Duration = Duration::from_secs(15);

/// Time for a request with its body and its answer's beginning. A request that takes longer is answered 503.
pub const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Age at which a connection accepts no further request.
pub const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Time after that for the answer that is being sent.
pub const LAST_ANSWER_TIME: Duration = Duration::from_secs(45);

/// Bytes of a request's head.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Bytes of a request's body.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Threads that wait for answers of the directory.
pub const LDAP_THREADS_MAX: usize = 32;

/// Conversations with the directory that run or wait for a thread. More are answered 503.
pub const CONVERSATIONS_MAX: usize = 256;

/// Time for each answer of the directory.
pub const LDAP_ANSWER_TIME: Duration = Duration::from_secs(20);

/// Bytes of one message of the directory, which contains one entry at most. A larger one ends the session.
pub const LDAP_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of all entries of one page of a search; further entries are left out, and the page says so.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Entries of a page of a search, and children of a page of the tree.
pub const PAGE_ENTRIES: u32 = 50;

/// Values of an attribute that are shown at once.
pub const VALUES_PER_PAGE: usize = 100;

/// Values of an attribute in one answer, if all of them are read.
pub const VALUES_PER_REQUEST: usize = 5_000;

/// Bytes of further values of an entry that is compared with the backup.
pub const WHOLE_ENTRY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Changes that bring a tree of the backup back, in one transaction.
pub const TREE_CHANGES_MAX: usize = 1_000;

/// Those of them that the page lists.
pub const TREE_LINES_MAX: usize = 200;

/// Time for the comparison of a tree.
pub const TREE_TIME: Duration = Duration::from_secs(15);

/// Bytes of an export. A larger result is refused: `pando export` has no such bound.
pub const EXPORT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of a photo that is uploaded.
pub const PHOTO_BYTES_MAX: usize = 512 * 1024;

/// Time after which a rehearsal of access rules asks for no further requester.
pub const REHEARSAL_TIME: Duration = Duration::from_secs(15);

/// Changes that a rehearsal lists.
pub const REHEARSAL_LINES: usize = 100;

/// Requesters that a rehearsal may name.
pub const REHEARSAL_REQUESTERS_MAX: usize = 20;

/// Shortest time over which rates of operations are computed.
pub const RATE_TIME_MIN: Duration = Duration::from_secs(1);

/// Longest time between two readings from which rates are computed.
pub const RATE_TIME_MAX: Duration = Duration::from_secs(600);

/// Exports that run at a time.
pub const EXPORTS_MAX: usize = 4;

/// Time that the threads have for their last answers when the server stops.
pub const STOP_TIME: Duration = Duration::from_secs(2);

/// Sign-ins under way. The server delays answers to wrong passwords, so a flood of them may take few of the threads.
pub const SIGN_INS_MAX: usize = 8;

/// Sign-ins under way of one address, or of one IPv6 network of 64 bits.
pub const SIGN_INS_PER_SOURCE_MAX: usize = 4;

/// Sign-ins under way of sources from which a user has signed in before, in addition: a flood from elsewhere leaves
/// them room.
pub const KNOWN_SIGN_INS_MAX: usize = 8;

/// Sources that are remembered for this.
pub const KNOWN_SOURCES_MAX: usize = 4_096;

/// Health checks under way.
pub const HEALTH_CHECKS_MAX: usize = 4;

/// Sessions; more sign-ins are refused.
pub const SESSIONS_MAX: usize = 256;

/// Sessions of one address, or of one IPv6 network of 64 bits.
pub const SESSIONS_PER_SOURCE_MAX: usize = 64;

/// Sessions of one user. The next one ends the oldest.
pub const SESSIONS_PER_IDENTITY_MAX: usize = 8;

/// Time without a request after which a session ends.
pub const SESSION_IDLE_TIME: Duration = Duration::from_secs(15 * 60);

/// Age at which a session ends.
pub const SESSION_TIME: Duration = Duration::from_secs(8 * 60 * 60);
