//! All limits of the server.
//!
//! [`ldap::DecodeLimits`] limits the content of a message, and the directory limits the cost of an operation. This
//! module limits connections, queues and waits. An administrator may change some of these limits (see
//! [`crate::config`]). For these limits, this module contains the defaults.

mod audit_trail;
mod authentication;
mod backup;
pub(crate) mod bucket;
pub(crate) mod follow;
pub(crate) mod http;
pub(crate) mod mail;
mod replication;
mod searches;
mod tls;
pub(crate) mod traces;

use std::time::Duration;

pub use self::audit_trail::*;
pub use self::authentication::*;
pub use self::backup::*;
pub use self::replication::*;
pub use self::searches::*;
pub use self::tls::*;

/// Default maximum number of open connections. A further connection is closed at once.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Default total size of the row caches of all event loops and of the writer, in octets. Caches of this size contain
/// all rows that lookups by an indexed value need in a directory of two million entries. The memory is allocated as it
/// is needed. See [`store::View::cache_rows`].
pub const ROW_CACHE_BYTES: usize = 256 << 20;

/// Divisor of the machine's memory. The quotient is the default size of the row caches if it is less than
/// [`ROW_CACHE_BYTES`]. Scarce memory is of more use as page cache.
pub const ROW_CACHE_MEMORY_DIVISOR: u64 = 16;

/// Divisor of the size of the row caches. The quotient is the writer's share. A change needs few rows, but needs each
/// of them several times.
pub const ROW_CACHE_WRITER_DIVISOR: usize = 8;

/// Memory for sorting the rows of indexes while the data is not served, in octets. If the rows do not fit, they are
/// sorted in temporary files in the data directory.
pub const INDEX_BUILD_MEMORY: usize = 256 << 20;

/// Default maximum size of the data that is read into memory at the start, in quarters of the machine's memory. The
/// rest is left for other uses, and for data that is added later.
pub const WARM_UP_MEMORY_QUARTERS: u64 = 3;

/// Nice value of the thread that reads data at the start. Threads that serve clients have priority.
pub const WARM_UP_NICENESS: i32 = 19;

/// Interval between two probes of the event loops for the page `/ready`.
pub const READINESS_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time without an answer of an event loop or of the disk. After that time the server is not ready. The sum of
/// this time and [`READINESS_INTERVAL`] is less than five seconds.
pub const PROBE_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Time for which `/ready` reports a failure after a change was refused because the disk is full. `/ready` reports the
/// failure even if the disk appears to have room.
pub const FULL_DISK_NOTED: Duration = Duration::from_secs(30);

/// Time limit for connecting to another server over HTTP.
pub const WEB_CONNECT: Duration = Duration::from_secs(10);

/// Divisor of the maximum number of connections. The quotient is the default maximum for one address. This maximum
/// applies only while at least half of all connections are in use.
pub const CONNECTIONS_SHARE_DIVISOR: usize = 8;

/// Maximum number of addresses without open connections whose connections are counted. Addresses with open connections
/// are counted in addition.
pub const SOURCES_MAX: usize = 100_000;

/// Maximum number of outstanding requests of one connection. At this number the server stops reading from the
/// connection.
pub const OUTSTANDING_MAX: usize = 1_024;

/// Maximum size of the unsent responses of one connection, in octets. At this size the connection's searches pause, and
/// the server stops reading from the connection. Therefore the responses to a slow reader occupy at most this much
/// memory and one entry, whatever it requests.
pub const UNSENT_MAX: usize = 256 << 10;

/// Maximum value that a table `[[limit]]` may set instead of [`UNSENT_MAX`].
pub const UNSENT_OWN_MAX: usize = 4 << 20;

/// Size of a pooled buffer, in octets. It is also the size of one read from a socket: about 200 small requests.
pub const BUFFER_SIZE: usize = 16 << 10;

/// Maximum total size of the free buffers of one event loop, in octets.
pub const BUFFERS_KEPT_BYTES_MAX: usize = 512 << 10;

/// Maximum size of an incomplete message that is copied to a buffer of its exact size, in octets. A client that sends a
/// few bytes and then waits therefore occupies only a few bytes.
pub const PARTIAL_COPY_MAX: usize = 2 << 10;

/// Size of a connection's outstanding requests, in octets, at which the connection accepts no further request. The
/// request that reaches this size is still accepted. Therefore a connection occupies at most this size, one request,
/// and [`UNSENT_MAX`].
pub const OUTSTANDING_BYTES_MAX: usize = 4 << 20;

/// Size of a connection's outstanding searches, in octets, at which only its oldest search continues. The requests of
/// the other searches then stay in the socket. There is no such limit for changes, because it is better if many changes
/// wait together: all of them share one sync.
pub const OUTSTANDING_SEARCH_BYTES_MAX: usize = 256 << 10;

/// A connection that occupies at most this number of octets is not charged for its memory. The number is less than the
/// size of a pooled buffer.
pub const UNCHARGED_MAX: usize = 4 << 10;

/// Divisor of the machine's memory. The quotient is the default size of the memory for the requests of all connections.
/// The requests may occupy at most twice this size, see `request_memory`.
pub const REQUEST_MEMORY_DIVISOR: u64 = 8;

/// Minimum size of the memory for requests, in octets.
pub const REQUEST_MEMORY_MIN: usize = 128 << 20;

/// Divisor of the memory for requests. The quotient is the maximum for one pair of source and identity.
pub const HOLDER_DIVISOR: usize = 4;

/// Divisor of the memory for requests. The quotient is the memory that administrators may use in addition.
pub const REQUEST_MEMORY_RESERVE_DIVISOR: usize = 8;

/// Amount of released memory, in octets, at which the event loops return memory to the system. It is divided among the
/// loops. A loop that has released its share returns it when the loop is next idle, or after [`GIVE_BACK_INTERVAL`].
/// The same amount applies to the results of the scan threads.
pub const GIVE_BACK_MIN: usize = 16 << 20;

/// Minimum share of one thread in [`GIVE_BACK_MIN`], in octets.
pub const GIVE_BACK_SHARE_MIN: usize = 1 << 20;

/// Interval at which an event loop that is never idle returns memory to the system.
pub const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(3);

/// Interval at which a connection that waits for memory checks whether there is enough.
pub const MEMORY_RETRY: Duration = Duration::from_millis(10);

/// Maximum number of log lines about slow operations in one [period](SLOW_LINES_PERIOD).
pub const SLOW_LINES_MAX: u32 = 10;

/// The period of [`SLOW_LINES_MAX`].
pub const SLOW_LINES_PERIOD: Duration = Duration::from_secs(1);

/// Interval between two log lines about the same problem.
pub const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of reads from one connection in a row. After them, other connections have their turns.
pub const READS_PER_TURN_MAX: usize = 16;

/// Maximum time that an event loop spends on requests that one connection sent together. After that, other connections
/// have their turns.
pub const TURN_TIME_MAX: Duration = Duration::from_millis(2);

/// Number of requests after which the event loop checks how long a turn has lasted.
pub const TURN_REQUESTS_PER_LOOK: usize = 16;

/// Size of a request in octets. After a request of this size, the event loop also checks how long the turn has lasted,
/// because large requests may take long.
pub const TURN_LARGE_REQUEST_SIZE: usize = 1024;

/// Maximum number of clients whose work an event loop counts in one period. Together with [`CLIENT_NAME_SIZE_MAX`], it
/// limits the clients of two periods to 128 KiB.
pub const CLIENTS_KEPT_MAX: usize = 128;
/// Maximum size in octets of the DN that is stored with a client's work.
pub const CLIENT_NAME_SIZE_MAX: usize = 256;
/// The period over which the work of clients is counted. The monitor shows the previous period as well.
pub const CLIENTS_PERIOD: Duration = Duration::from_secs(300);
/// Maximum number of clients that the monitor shows.
pub const TOP_CLIENTS_MAX: usize = 20;
/// Maximum number of indexes whose use an event loop counts.
pub const INDEXES_COUNTED_MAX: usize = 1_024;

/// Idle time after which an event loop gives up its snapshot. The store can then reuse old pages.
pub const PARK_AFTER: Duration = Duration::from_millis(10);

/// Maximum number of readiness events that are read from the kernel at a time.
pub const EVENTS_MAX: usize = 1_024;

/// Maximum number of changes of all connections that wait for the writer. At this number the server stops reading from
/// connections that send changes, until there is room.
pub const WRITES_QUEUED_MAX: usize = 65_536;

/// Maximum size of the changes of all connections that wait for the writer, in octets.
pub const WRITES_QUEUED_BYTES_MAX: usize = 64 << 20;

/// Rate at which a cluster node that serves clients copies its data, in octets of rows per second. It is limited
/// because clients and other nodes use the same disk.
pub const COPY_BYTES_PER_SECOND: u64 = 96 << 20;

/// Maximum number of changes in one batch. All changes of a batch share one sync.
pub const BATCH_WRITES_MAX: usize = 1_024;

/// Size of a batch in octets at which the writer adds no further changes to it.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Maximum number of entries that can be loaded at the start. They are loaded in one batch: either all of them or none.
pub const LOAD_ENTRIES_MAX: usize = 10_000;

/// Maximum number of changes in a transaction. The writer makes all of them at once, and other changes must wait for
/// that time.
pub const TRANSACTION_CHANGES_MAX: usize = 1_000;

/// Maximum size of a transaction in octets. This size is the sum of the sizes of its messages, plus
/// [`TRANSACTION_CHANGE_BYTES`] for each message.
pub const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// Memory that is charged for each change of a transaction in addition to its message, in octets.
pub const TRANSACTION_CHANGE_BYTES: usize = 1 << 10;

/// Maximum size of the entries in the pre-read and post-read controls (RFC 4527) of the answer to a transaction, in
/// octets.
pub const TRANSACTION_COPIES_BYTES_MAX: usize = 2 << 20;

/// Default time after which the server aborts a transaction that the client has not ended.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time without progress while a message is incomplete or the client does not read answers.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time that a client has to read the Notice of Disconnection (RFC 4511 section 4.4.1).
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time that operations have to finish when the server stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time that a client has to read the Notice of Disconnection (RFC 4511 section 4.4.1). It applies in place of
/// [`LINGER_TIMEOUT`] if the server is stopping.
pub const DRAIN_LINGER_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval at which a stopping server checks whether all connections are finished.
pub const DRAIN_TICK: Duration = Duration::from_millis(50);

/// Interval at which timeouts are checked while a connection may reach a timeout.
pub const TICK: Duration = Duration::from_secs(1);

/// Default idle time after which a connection over the network is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(900);

/// Default time that a connection over the network has until its first request.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which an event loop checks for idle connections.
pub const SILENCE_SWEEP: Duration = Duration::from_secs(1);
/// Maximum number of connections in one check for idle connections. A check of a hundred thousand connections would
/// delay requests.
pub const SILENCE_SWEEP_MAX: usize = 8_192;

/// Number of file descriptors that connections may not use. The store needs one for each segment of its redo log, and
/// the rest of the server needs some, too. See the module `descriptors`.
pub const DESCRIPTORS_RESERVED: u64 = 128;

/// Divisor of the number of file descriptors. The quotient is the number of reserved descriptors if it is less than
/// [`DESCRIPTORS_RESERVED`].
pub const DESCRIPTORS_RESERVED_DIVISOR: u64 = 4;

/// Divisor of the number of reserved file descriptors. The quotient is the number that the administrator's connections
/// over a local socket may use. Therefore a descriptor is free for such a connection even if the store uses some of the
/// reserved descriptors.
pub const DESCRIPTORS_TRUSTED_DIVISOR: u64 = 2;

/// Delay before connections are accepted again if the process or the system had no file descriptors or memory left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of connections that are accepted in a row. After them, open connections have their turns.
pub const ACCEPTS_PER_PASS_MAX: usize = 64;

/// Interval between two log lines about refused connections, or about a pause in accepting them.
pub const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of URLs on which a server listens. A connection stores the index of its listener in one octet.
pub const LISTENERS_MAX: usize = 250;

/// Maximum number of connections that wait in the kernel to be accepted.
pub const LISTEN_BACKLOG: i32 = 4_096;

/// Idle time after which the kernel checks whether the other end of a connection still exists.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);

/// Interval between two checks by the kernel. After three checks without an answer, the connection ends.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Delay before a failed slice of index rows is repeated. If a change arrives meanwhile, the slice is repeated earlier.
/// The usual cause of a failure is a full disk.
pub const INDEX_SLICE_RETRY: Duration = Duration::from_secs(2);

/// Maximum number of log lines in one [interval](FAULT_LINES_INTERVAL) about operations that failed because of a fault
/// of the server. The maximum applies to each kind of fault separately.
pub const FAULT_LINES_MAX: usize = 4;

/// Interval of [`FAULT_LINES_MAX`].
pub const FAULT_LINES_INTERVAL: Duration = Duration::from_secs(60);

/// Number of batches of changes that are made between two slices of index rows while changes are waiting.
pub const BATCHES_PER_INDEX_SLICE: u32 = 16;

/// Number of random octets that the writer reads from the system at a time. Each change needs 16 of them.
pub const RANDOM_BLOCK_SIZE: usize = 4 << 10;

/// Maximum time for which a request may wait for a position. A longer time in a request is reduced to this time.
pub const POSITION_WAIT_MAX: Duration = Duration::from_secs(30);

/// Maximum number of connections of one event loop that wait for a position.
pub const POSITION_WAITERS_MAX: usize = 1_024;

/// Maximum number of requests about settings that wait for the thread that answers them.
pub const SETTINGS_REQUESTS_MAX: usize = 8;

/// Time limit of a rehearsal of access rules that a client requested. After this time, the rehearsal evaluates no
/// further requester.
pub const REHEARSAL_TIME: Duration = Duration::from_secs(2);

/// Maximum number of entries in a rehearsal of access rules that a client requested.
pub const REHEARSAL_ENTRIES: u64 = 1_000;

/// Number of users in a rehearsal of access rules if the request contains no users.
pub const REHEARSAL_USERS: usize = 20;

/// Maximum number of differences that the answer to a rehearsal lists.
pub const REHEARSAL_LINES: usize = 100;

/// Maximum number of entries that are checked against the rules of proposed settings when a client asks for a plan.
pub const PLAN_ENTRIES_MAX: u64 = 200_000;

const _: () = assert!(AUDIT_BLOCK_BYTES + AUDIT_BUFFER_BYTES < audit::limits::PAYLOAD_BYTES_MAX);
const _: () = assert!(WRITES_QUEUED_BYTES_MAX >= ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(SLICE_BYTES_MAX <= UNSENT_MAX && BUFFER_SIZE <= BUFFERS_KEPT_BYTES_MAX);
const _: () = assert!(SCAN_BYTES_WAITING_MAX >= SLICE_BYTES_MAX);
const _: () = assert!(REQUEST_MEMORY_MIN >= 4 * ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(UNCHARGED_MAX < BUFFER_SIZE && OUTSTANDING_SEARCH_BYTES_MAX <= OUTSTANDING_BYTES_MAX);
const _: () = assert!(PARTIAL_COPY_MAX < BUFFER_SIZE && BATCH_WRITES_MAX <= WRITES_QUEUED_MAX);
const _: () = assert!(RANDOM_BLOCK_SIZE.is_multiple_of(16));

/// Time that a proxy has to send the header that contains the address of its client.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time for which a reload waits for all event loops to apply the new settings.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(10);
