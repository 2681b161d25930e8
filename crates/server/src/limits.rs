//! All limits of the server.
//!
//! [`ldap::DecodeLimits`] limits the content of a message, and the directory limits the cost of an operation. This
//! module limits connections, queues and waits. An administrator may change some of the limits (see [`crate::config`]).
//! For those, this module contains the defaults.

pub(crate) mod bucket;
pub(crate) mod follow;
pub(crate) mod http;
pub(crate) mod mail;
pub(crate) mod traces;

use std::time::Duration;

use directory::index::sizes::SampleBounds;

/// Default maximum number of open connections. If there are more, a new connection is closed at once.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Default total size of the row caches of all event loops and of the writer, in octets. In a directory of two million
/// entries, all rows fit that lookups by an indexed value need. The memory is allocated as it is needed. See
/// [`store::View::cache_rows`].
pub const ROW_CACHE_BYTES: usize = 256 << 20;

/// The memory of the machine is divided by this number. The result is the default size of the row caches if it is less
/// than [`ROW_CACHE_BYTES`]. Scarce memory is of more use as page cache.
pub const ROW_CACHE_MEMORY_DIVISOR: u64 = 16;

/// The size of the row caches is divided by this number. The result is the writer's share. A change needs few rows, but
/// each of them several times.
pub const ROW_CACHE_WRITER_DIVISOR: usize = 8;

/// Memory for sorting the rows of indexes while the data is not served, in octets. If the rows do not fit, they are
/// sorted in temporary files in the data directory.
pub const INDEX_BUILD_MEMORY: usize = 256 << 20;

/// Default maximum size of the data that is read into memory at the start, in quarters of the machine's memory. The
/// rest is left for other uses, and for data that is added later.
pub const WARM_UP_MEMORY_QUARTERS: u64 = 3;

/// Nice value of the thread that reads data at the start. Threads that serve clients run before it.
pub const WARM_UP_NICENESS: i32 = 19;

/// Interval between two probes of the event loops for the page `/ready`.
pub const READINESS_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time without an answer of an event loop or of the disk. After that time the server is not ready. The sum of
/// this time and [`READINESS_INTERVAL`] is less than five seconds.
pub const PROBE_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Maximum time without an answer of a replica's supplier. After that time the replica is not ready for changes.
pub const SUPPLIER_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Time for which `/ready` reports a failure after a change was refused because the disk is full. It does so even if
/// the disk appears to have room.
pub const FULL_DISK_NOTED: Duration = Duration::from_secs(30);

/// Nice value of the backup thread.
pub const BACKUP_NICENESS: i32 = 10;

/// Interval at which a server lists the files of its backup.
pub const BACKUP_LIST: Duration = Duration::from_secs(60);

/// Maximum number of chains of backup files that `cn=monitor` shows. The newest ones are shown.
pub const BACKUP_CHAINS_MAX: usize = 100;

/// Interval at which the backup thread checks whether a backup is due.
pub const BACKUP_LOOK: Duration = Duration::from_secs(1);

/// Delay before a failed backup is repeated, if no other backup is due earlier.
pub const BACKUP_RETRY: Duration = Duration::from_secs(60);

/// An extra backup is made when half of the records that the log keeps are newer than the last backup. If the log keeps
/// fewer records than this number, this number is used in place of theirs. The log may then drop records before the
/// backup contains them.
pub const BACKUP_RECORDS_MIN: u64 = 2_000;

/// Maximum number of recipients of a backup. Each recipient adds about 170 octets to every file.
pub const BACKUP_RECIPIENTS_MAX: usize = 50;

/// Maximum size of the header of an encrypted backup file, and of a file of identities, in octets.
pub const BACKUP_HEADER_BYTES: u64 = 64 << 10;

/// Time limit for connecting to another server over HTTP.
pub const WEB_CONNECT: Duration = Duration::from_secs(10);

/// Default maximum number of persistent searches. If there are more, a search is answered `busy`.
pub const PERSISTENT_SEARCHES_MAX: usize = 10_000;

/// [`PERSISTENT_SEARCHES_MAX`] is divided by this number. The result is the maximum number for one identity or one
/// source. It applies when half of all places are in use.
pub const PERSISTENT_SEARCHES_SHARE_DIVISOR: usize = 8;

/// [`PERSISTENT_SEARCHES_MAX`] is divided by this number. The result is the number of places that are reserved for the
/// administrator.
pub const PERSISTENT_SEARCHES_RESERVE_DIVISOR: usize = 16;

/// Maximum number of steps through the log that an event loop's feed makes before the loop serves connections again.
pub const FEED_STEPS: u32 = 1_000;

/// Maximum time for which an event loop's feed waits for searches that are still sending notifications about the feed's
/// last set of changes.
pub const FEED_PATIENCE: Duration = Duration::from_millis(100);

/// The maximum number of connections is divided by this number. The result is the default maximum for one address. It
/// applies when half of all connections are in use.
pub const CONNECTIONS_SHARE_DIVISOR: usize = 8;

/// Maximum number of addresses without open connections whose connections are counted. Addresses with open connections
/// are counted in addition.
pub const SOURCES_MAX: usize = 100_000;

/// Maximum number of outstanding requests of one connection. At this number the server stops reading from the
/// connection.
pub const OUTSTANDING_MAX: usize = 1_024;

/// Maximum size of the unsent responses of one connection, in octets. At this size the connection's searches pause, and
/// the server stops reading from the connection. Therefore a slow reader occupies at most this much memory and one
/// entry, whatever it requests.
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

/// Size of a connection's outstanding requests, in octets, from which on it accepts no further request. The request
/// that reaches this size is still accepted. Therefore a connection occupies at most this size, one request, and
/// [`UNSENT_MAX`].
pub const OUTSTANDING_BYTES_MAX: usize = 4 << 20;

/// Size of a connection's outstanding searches, in octets, from which on only its oldest search continues. The requests
/// of the other searches then stay in the socket. There is no such limit for changes, because it is better if many
/// changes wait together: all of them share one sync.
pub const OUTSTANDING_SEARCH_BYTES_MAX: usize = 256 << 10;

/// A connection that occupies at most this number of octets is not charged for its memory. The number is less than the
/// size of a pooled buffer.
pub const UNCHARGED_MAX: usize = 4 << 10;

/// The memory of the machine is divided by this number. The result is the default size of the memory for the requests
/// of all connections. They occupy at most twice as much, see `request_memory`.
pub const REQUEST_MEMORY_DIVISOR: u64 = 8;

/// Minimum size of the memory for requests, in octets.
pub const REQUEST_MEMORY_MIN: usize = 128 << 20;

/// The memory for requests is divided by this number. The result is the maximum for one pair of source and identity.
pub const HOLDER_DIVISOR: usize = 4;

/// The memory for requests is divided by this number. The result is what administrators may use in addition.
pub const REQUEST_MEMORY_RESERVE_DIVISOR: usize = 8;

/// Memory in octets that the connections of all event loops have released but that is not yet returned to the system. A
/// loop returns its share when it is next idle, or after [`GIVE_BACK_INTERVAL`]. The same limit applies to the results
/// of the scan threads.
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

/// Maximum number of entries that a search examines in one slice. After it, other connections have their turns. A slice
/// takes less than a millisecond.
pub const SLICE_ENTRIES_MAX: u32 = 250;

/// Maximum time that an event loop spends on connections with unfinished work. After that, it checks whether new
/// requests have arrived.
pub const READY_TIME_MAX: Duration = Duration::from_millis(1);

/// Maximum size of the results that a search adds in one slice, in octets.
pub const SLICE_BYTES_MAX: usize = 64 << 10;

/// Minimum number of remaining candidates with which a search moves to the scan threads. The event loop itself finishes
/// a smaller search sooner.
pub const SCAN_CANDIDATES_MIN: u64 = 2_048;

/// Maximum number of candidates that a scan thread examines before it continues with another search. They take about a
/// millisecond.
pub const SCAN_ENTRIES_MAX: u32 = 4_096;

/// Maximum number of searches on the scan threads. Any further searches stay on the event loops.
pub const SCANS_MAX: usize = 128;

/// Maximum number of searches of one identity on the scan threads. There is then still room for other identities.
pub const SCANS_OF_IDENTITY_MAX: usize = SCANS_MAX / 2;

/// Maximum number of clients whose use of the scan threads by unindexed searches is recorded.
pub const SCAN_TALLIES_MAX: usize = if cfg!(test) { 100 } else { 8_192 };

/// Maximum number of filter shapes in the statistics about missing indexes. Together with [`ADVISED_INDEXES_MAX`] and
/// [`ADVISED_FILTERS_MAX`], it limits the size of the statistics to less than 100 KiB.
pub const ADVISED_SHAPES_MAX: usize = 64;
/// Maximum number of missing indexes that are recorded for one filter shape.
pub const ADVISED_INDEXES_MAX: usize = 8;
/// Maximum number of filters that are shown with a proposed index.
pub const ADVISED_FILTERS_MAX: usize = 3;

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

/// Size in octets of the results that wait for the client of one search. At this size the scan threads stop working on
/// the search. Together with [`SCANS_MAX`], it limits all waiting results to 64 MiB.
pub const SCAN_BYTES_WAITING_MAX: usize = 512 << 10;

/// Maximum number of completed parts of one search that wait for an earlier part. Parts without results count too.
pub const SCAN_PIECES_WAITING_MAX: usize = 256;

/// Nice value of the scan threads. 19 is the lowest priority.
pub const SCAN_NICENESS: i32 = 19;

/// Default maximum number of prefetch threads, for data that is larger than memory. A disk can perform about as many
/// page reads at once.
pub const READ_AHEAD_THREADS: usize = 64;

/// Memory that the machine must have for each prefetch thread, in octets. After its first work, a thread occupies half
/// a megabyte.
pub const READ_AHEAD_MEMORY_PER_THREAD: u64 = 16 << 20;

/// Nice value of the prefetch threads. The event loops run before them, because their clients may need only pages that
/// are in memory.
pub const READ_AHEAD_NICENESS: i32 = 10;

/// Maximum number of requests that one thread prefetches in a row.
pub const READ_AHEAD_MESSAGES: usize = 4;

/// Maximum number of prefetch jobs that one thread takes at a time. The thread requests the pages of these jobs from
/// the disk together.
pub const READ_AHEAD_PAGES: usize = 16;

/// Maximum number of requests of one connection that are checked for missing pages at a time.
pub const READ_AHEAD_LOOKS: usize = 16;

/// Maximum number of entries for which the event loop itself checks a search for missing pages. If there are more, a
/// prefetch thread does it.
pub const READ_AHEAD_LOOK_ENTRIES: u32 = 4;

/// Maximum number of prefetch rounds in a row for one request. A request follows a few paths of about five pages each,
/// from a root to a row. If more rounds are necessary, memory is so short that pages are evicted before they are read.
pub const READ_AHEAD_ROUNDS: u8 = 32;

/// Interval at which an event loop checks how long it has waited for the disk.
pub const COLD_TICK: Duration = Duration::from_millis(100);

/// Minimum wait for the disk in one [tick](COLD_TICK) that starts prefetching. It is an eighth of the tick. If the wait
/// is shorter, it costs less than a dry run of each request.
pub const COLD_WAIT_MIN: Duration = Duration::from_micros(12_500);

/// Minimum number of missing pages in one tick that starts prefetching, however long the loop has waited.
pub const COLD_PAGES_MIN: u32 = 8;

/// Number of ticks without such a wait after which an event loop stops prefetching.
pub const COLD_TICKS: u32 = 20;

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

/// Maximum number of hashes that wait, per hash thread. With Argon2id they take about ten seconds. At this number a
/// bind is answered `busy`. Changes of passwords have a separate queue with the same limit.
pub const HASHES_PER_THREAD_MAX: usize = 512;

/// The maximum number of waiting hashes for changes is divided by this number. The result is the maximum for one
/// identity from all of its sources.
pub const HASH_IDENTITY_DIVISOR: u64 = 4;

/// Number of consecutive wrong passwords from one source. After it, binds of that source wait until there are none of
/// other sources.
pub const SOURCE_FAILURES_MAX: u32 = 3;

/// Number of consecutive binds of one source that were answered `busy`. After it, binds of that source wait until there
/// are none of other sources.
pub const SOURCE_REFUSALS_MAX: u32 = 16;

/// This limit applies in place of [`SOURCE_FAILURES_MAX`] to a source that has sent right passwords before. Example: an
/// application with many users.
pub const GOOD_SOURCE_FAILURES_MAX: u32 = 100;

/// Time after which a source's wrong passwords are forgotten.
pub const REPUTATION_FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Time after a bind for which its user may change their own TOTP codes and application passwords.
pub const RECENT_PROOF_TIME: Duration = Duration::from_secs(5 * 60);

/// Default time for which the verification of a password stays in the cache.
pub const BIND_CACHE: Duration = Duration::from_secs(60);

/// Maximum number of verified passwords in the cache. Each occupies about 50 octets. The full cache occupies 6 MB.
pub const VERIFIED_BINDS_MAX: usize = 65_536;

/// Maximum number of changes in a transaction. The writer makes all of them at once, and other changes must wait for
/// that time.
pub const TRANSACTION_CHANGES_MAX: usize = 1_000;

/// Maximum size of a transaction in octets. It is the size of its messages, and [`TRANSACTION_CHANGE_BYTES`] for each
/// message.
pub const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// Memory that is charged for each change of a transaction in addition to its message, in octets.
pub const TRANSACTION_CHANGE_BYTES: usize = 1 << 10;

/// Maximum size of the copies of entries in the answer to a transaction (RFC 4527), in octets.
pub const TRANSACTION_COPIES_BYTES_MAX: usize = 2 << 20;

/// Default time after which the server aborts a transaction that the client has not ended.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of clear passwords in one request. Each takes a hash thread about 20 ms. A request with more is
/// refused. Deleting a clear password counts once for every password of the entry.
pub const CLEAR_PASSWORDS_MAX: usize = 16;

/// Maximum number of an account's failures that wait to be recorded. An entry stores no more than this number.
pub const FAILURES_NOTED_MAX: usize = 100;

/// Maximum number of accounts with events that are not recorded yet. At this number, events of further accounts are
/// dropped.
pub const UNWRITTEN_ACCOUNTS_MAX: usize = 100_000;

/// Maximum number of last logins that are gathered. At this number they are written early. As many more may be in the
/// writer's queue. The gathered logins occupy about 13 MB: a hash table with 2^19 slots just before it would grow.
pub const LOGINS_MAX: usize = 458_752;

/// This limit applies in place of [`LOGINS_MAX`] to cluster nodes. A node that stops keeps all changes in memory that
/// are not yet in the log.
pub const CLUSTER_LOGINS_MAX: usize = 57_344;

/// The precision of last logins in their policy is divided by this number. The result is the time for which they are
/// gathered. Writing them takes the same time.
pub const LOGIN_WAIT_DIVISOR: u32 = 16;

/// Maximum time for which last logins are gathered before they are written.
pub const LOGIN_WAIT_MAX: Duration = Duration::from_secs(300);

/// Minimum time for which last logins are gathered. If the time would be shorter, each of them is written at once.
pub const LOGIN_WAIT_MIN: Duration = Duration::from_secs(1);

/// Interval at which a part of the gathered last logins is written.
pub const LOGIN_TICK: Duration = Duration::from_secs(1);

/// Interval at which a thread checks again whether the writer's queue has room for last logins.
pub const LOGIN_RETRY: Duration = Duration::from_millis(5);

/// Maximum time for which last logins wait for room in the writer's queue.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Number of wrong passwords for an account from one source that are answered without a delay.
pub const GUESSES_FREE: u32 = 3;
/// Delay of the answer to the first wrong password after those. The delay doubles with each further one.
pub const GUESS_DELAY_FIRST: Duration = Duration::from_millis(250);
/// Maximum delay of an answer.
pub const GUESS_DELAY_MAX: Duration = Duration::from_secs(8);
/// Maximum number of delayed answers to one source about one account. At this number further binds are answered `busy`.
pub const GUESSES_DELAYED_MAX: u32 = 8;
/// Time without a failure after which earlier failures are forgotten.
pub const GUESSES_FORGOTTEN_AFTER: Duration = Duration::from_secs(900);
/// Maximum number of pairs of account and source whose failures are counted. They occupy about 10 MB.
pub const GUESSES_MAX: usize = 100_000;

/// Maximum size of a file of forbidden words, in octets. The words are kept in memory.
pub const BAD_WORDS_SIZE_MAX: u64 = 64 << 20;
/// Maximum size of a line in a file of breached passwords, in octets.
pub const BREACHED_LINE_MAX: usize = 128;

/// Default time limit of each step of a bind at another server.
pub const PASS_THROUGH_SECONDS: u64 = 5;

/// Default maximum number of concurrent binds at another server.
pub const PASS_THROUGH_THREADS: usize = 8;

/// Maximum number of passwords that wait to be verified by a bind at another server, per thread that does so.
pub const PASS_THROUGH_JOBS_PER_THREAD_MAX: usize = 64;

/// Default maximum difference between this server's clock and the clock of an issuer of tokens, in seconds.
pub const CLOCK_SKEW_SECONDS: u32 = 60;

/// Maximum number of Kerberos exchanges in progress on all connections. The context of an exchange occupies a few KiB
/// in MIT's library. At this number further exchanges are answered `busy`.
pub const KERBEROS_EXCHANGES_MAX: usize = 4_096;

/// Memory that is charged for a SASL exchange that waits for the client's next message, in octets. A Kerberos exchange
/// occupies about this much, and most other exchanges less.
pub const SASL_EXCHANGE_BYTES: usize = 8 << 10;

/// Maximum number of SASL exchanges for Verify Credentials on one connection that wait for the client's next message. A
/// further exchange replaces the oldest one.
pub const VERIFYING_MAX: usize = 16;

/// Maximum number of tokens of one Kerberos exchange. Kerberos itself needs one, and SPNEGO needs a few.
pub const KERBEROS_TOKENS_MAX: u8 = 8;

/// Maximum number of octets of the Kerberos library's message about a token that are logged.
pub const KERBEROS_REASON_MAX: usize = 512;

/// Maximum number of octets of the trace information in an anonymous bind that are logged.
pub const SASL_TRACE_MAX: usize = 255;

/// Maximum time without progress while a message is incomplete or the client does not read answers.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time that a client has to read the notice that its connection ends.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time that operations have to finish when the server stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// This limit applies in place of [`LINGER_TIMEOUT`] when the server stops.
pub const DRAIN_LINGER_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval at which a stopping server checks whether all connections are finished.
pub const DRAIN_TICK: Duration = Duration::from_millis(50);

/// Interval at which timeouts are checked while a connection may reach one.
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
/// the rest of the server needs others. See the module `descriptors`.
pub const DESCRIPTORS_RESERVED: u64 = 128;

/// The number of file descriptors is divided by this number. The result is the number of reserved ones if it is less
/// than [`DESCRIPTORS_RESERVED`].
pub const DESCRIPTORS_RESERVED_DIVISOR: u64 = 4;

/// The number of reserved file descriptors is divided by this number. The result is the number that the administrator's
/// connections over a local socket may use. One is then free even if the store uses some of the reserved ones.
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

/// Delay before a failed slice of index rows is repeated. If a change occurs meanwhile, it is repeated earlier. The
/// usual cause of a failure is a full disk.
pub const INDEX_SLICE_RETRY: Duration = Duration::from_secs(2);

/// Maximum number of log lines in one [interval](FAULT_LINES_INTERVAL) about operations that failed because of a fault
/// of the server. It applies to each kind of fault.
pub const FAULT_LINES_MAX: usize = 4;

/// Interval of [`FAULT_LINES_MAX`].
pub const FAULT_LINES_INTERVAL: Duration = Duration::from_secs(60);

/// Number of batches of changes that are made between two slices of index rows while changes are waiting.
pub const BATCHES_PER_INDEX_SLICE: u32 = 16;

/// Number of random octets that the writer reads from the system at a time. Each change needs 16 of them.
pub const RANDOM_BLOCK_SIZE: usize = 4 << 10;

/// Size of the events that an event loop gathers before it passes them to the thread of the audit trail, in octets.
pub const AUDIT_BUFFER_BYTES: usize = 64 << 10;

/// Maximum time for which a busy event loop gathers events for the audit trail.
pub const AUDIT_HAND_OVER: Duration = Duration::from_millis(100);

/// Maximum size in octets of the events that wait to be written to the audit trail. If there are more, requests wait,
/// or events are lost and counted.
pub const AUDIT_WAITING_BYTES_MAX: usize = 8 << 20;

/// Approximate size of the events in one block of the audit trail, in octets. A block of this size compresses well.
pub const AUDIT_BLOCK_BYTES: usize = 512 << 10;

/// Maximum time for which a request may wait for a position. A longer time in a request is reduced to this one.
pub const POSITION_WAIT_MAX: Duration = Duration::from_secs(30);

/// Maximum number of connections of one event loop that wait for a position.
pub const POSITION_WAITERS_MAX: usize = 1_024;

/// Maximum time for which the thread of the audit trail waits for more events.
pub const AUDIT_GATHER: Duration = Duration::from_millis(100);

/// Interval between two syncs of the audit trail while events arrive. A power failure may lose the reads and binds of
/// this time.
pub const AUDIT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before a failed write to the audit trail is repeated.
pub const AUDIT_RETRY: Duration = Duration::from_millis(500);

/// Maximum number of changes in the log that are missing in the audit trail because it cannot be written. If there are
/// more, requests wait, or the changes count as lost.
pub const AUDIT_LAG_CHANGES_MAX: u64 = 100_000;

/// Approximate size of the events in one answer to a reader of the audit trail, in octets. The answer may be larger by
/// one block.
pub const TRAIL_ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of requests about settings that wait for the thread that answers them.
pub const SETTINGS_REQUESTS_MAX: usize = 8;

/// Maximum number of requests for entries of the backup that wait for the thread that answers them.
pub const BACKUP_READS_MAX: usize = 4;

/// Maximum time for which a request waits until its moment of the backup is restored. After that it is answered `busy`.
pub const BACKUP_READ_WAIT: Duration = Duration::from_secs(3);

/// Time for which a restored moment of the backup is kept after the last request for it.
pub const BACKUP_COPY_KEPT: Duration = Duration::from_secs(10 * 60);

/// Time for which a restored copy of the newest moment also answers later requests for the newest moment. The backup
/// may have grown meanwhile.
pub const BACKUP_COPY_FRESH: Duration = Duration::from_secs(60);

/// Maximum size of the sample from which the sizes of indexes are estimated.
pub const INDEX_SAMPLE: SampleBounds = SampleBounds { entries_max: 1_000, rows_max: 200_000 };

/// Minimum time between two measurements of the sizes of indexes.
pub const INDEX_SIZES_FRESH: Duration = Duration::from_secs(10);

/// The time of a measurement is multiplied by this number. The result is another minimum for the time between two
/// measurements.
pub const INDEX_SIZES_PAUSE: u32 = 100;

/// Maximum size of an entry or tree of the backup in one answer, in octets.
pub const BACKUP_ENTRY_BYTES: usize = 8 << 20;

/// Maximum number of entries in an answer with a tree of the backup. A transaction that restores the tree may contain
/// as many changes.
pub const BACKUP_TREE_ENTRIES_MAX: usize = TRANSACTION_CHANGES_MAX;

/// Maximum number of references in an answer with a subtree from the backup. A reference is a value of an entry outside
/// the subtree that names an entry in the subtree.
pub const BACKUP_TREE_NAMES_MAX: usize = 20_000;

/// Maximum size of these references and of the DNs of their entries, in octets.
pub const BACKUP_TREE_NAMES_BYTES: usize = 4 << 20;

/// Time limit of a rehearsal of access rules that a client requested. After it, the rehearsal begins with no further
/// requester.
pub const REHEARSAL_TIME: Duration = Duration::from_secs(2);

/// Maximum number of entries in a rehearsal of access rules that a client requested.
pub const REHEARSAL_ENTRIES: u64 = 1_000;

/// Number of users in a rehearsal of access rules if the request contains no users.
pub const REHEARSAL_USERS: usize = 20;

/// Maximum number of differences that the answer to a rehearsal lists.
pub const REHEARSAL_LINES: usize = 100;

/// Maximum number of entries that are checked against the rules of proposed settings when a client asks for a plan.
pub const PLAN_ENTRIES_MAX: u64 = 200_000;

/// Maximum number of requests for the audit trail that wait for the thread that answers them.
pub const TRAIL_READS_MAX: usize = 16;

/// Maximum size of the records in an answer to a replica, in octets. The first record may be larger than this.
pub const LOG_BLOCK_BYTES: usize = 512 << 10;

/// Maximum number of requests by replicas that wait for records.
pub const LOG_READS_MAX: usize = 1_024;

/// Maximum time for which a replica's request waits for records.
pub const LOG_WAIT_MAX: Duration = Duration::from_secs(2);

/// Size of the blocks of records that are cached for other replicas, in octets. The last block may exceed it.
pub const LOG_BLOCKS_BYTES: usize = 8 << 20;

/// Each answer to a replica delays the next records by this time. If there are many replicas, this leaves processor
/// time for changes.
pub const LOG_ANSWER_PAUSE: Duration = Duration::from_micros(200);

/// Maximum total delay by [`LOG_ANSWER_PAUSE`].
pub const LOG_PAUSE_MAX: Duration = Duration::from_millis(10);

/// Interval at which a slice of the data is compared with the replicas.
pub const COMPARE_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum size of the slice of data in one comparison, in octets of rows.
pub const COMPARE_SLICE_BYTES: u64 = 256 << 20;

/// Nice value of the thread that reads the slice for a comparison. No client waits for it.
pub const DIGEST_NICENESS: i32 = 19;

/// Maximum number of differing parts of the data that a message lists.
pub const DIFFERING_PARTS_LOGGED: usize = 20;

/// Maximum number of replicas that have their own figures in the metrics.
pub const REPLICAS_NAMED_MAX: usize = 100;

/// Time for which the monitor shows a replica after its last request.
pub const CONSUMER_KEPT: Duration = Duration::from_secs(10);

/// Maximum time for which a replica waits for an event.
pub const REPLICA_TICK: Duration = Duration::from_millis(100);

/// Time limit of each step when a replica connects to its supplier.
pub const REPLICA_CONNECT: Duration = Duration::from_secs(5);

/// Time for which the supplier may keep a replica's request until there are records.
pub const REPLICA_LOOK: Duration = Duration::from_millis(500);

/// Time without an answer of the supplier after which a replica connects again.
pub const REPLICA_SILENCE: Duration = Duration::from_secs(30);

/// Minimum delay before a replica connects again.
pub const REPLICA_RETRY_MIN: Duration = Duration::from_millis(200);

/// Maximum delay before a replica connects again.
pub const REPLICA_RETRY_MAX: Duration = Duration::from_secs(5);

/// Delay before a replica asks its supplier again, if the supplier has no records for it.
pub const REPLICA_HALTED_RETRY: Duration = Duration::from_secs(30);

/// Maximum number of answers with records that a replica has received and not yet applied.
pub const BLOCKS_WAITING_MAX: usize = 4;

/// Size of a commit in octets at which a replica adds no further records to it.
pub const APPLY_BYTES_MAX: usize = 1 << 20;

/// Delay before a replica tries again to apply records.
pub const APPLY_RETRY: Duration = Duration::from_millis(500);

/// Maximum time for which a change waits on a replica. After it the client's request is refused.
pub const FORWARD_PATIENCE: Duration = Duration::from_secs(15);

/// Maximum number of changes that a replica forwards in one group.
pub const FORWARD_MAX: usize = 128;

/// Size of a group of forwarded changes in octets at which a replica adds no further change to it.
pub const FORWARD_BYTES_MAX: usize = 1 << 20;

/// Idle time after which a connection for forwarded changes is tested before it is used again.
pub const FORWARD_IDLE: Duration = Duration::from_secs(1);

/// Maximum time for which a replica that stops waits for the answers to forwarded changes.
pub const REPLICA_STOP: Duration = Duration::from_secs(5);

/// Size of a part of a copy of the data, in octets before compression.
pub const COPY_PART_BYTES: usize = 1 << 20;

/// Maximum number of requests for parts of a copy that wait for the thread that answers them.
pub const COPY_READS_MAX: usize = 256;

/// Number of parts that a new replica requests before the first of them has arrived.
pub const COPY_PIPELINE: usize = 4;

/// Maximum number of attempts that a new replica makes to copy the data.
pub const COPY_TRIES: u32 = 10;

/// Delay between two attempts to copy the data.
pub const COPY_RETRY: Duration = Duration::from_secs(1);

/// Maximum time for which a request for a part waits until the copy is ready. After that it is answered anyway.
pub const COPY_WAIT: Duration = Duration::from_secs(1);

/// Time for which a copy of the data is kept after its last use.
pub const COPY_KEPT: Duration = Duration::from_secs(60);

/// Rate at which a copy for replicas is made, in octets of rows per second.
pub const REPLICA_COPY_BYTES_PER_SECOND: u64 = 512 << 20;

/// A replica syncs the copy that it receives each time after this number of octets.
pub const COPY_SYNC_BYTES: u64 = 64 << 20;

/// Maximum size in octets of the text of a filter or name in an event. A longer text is cut off.
pub const AUDIT_TEXT_SIZE_MAX: usize = 1_024;

/// Maximum size in octets of a recorded field of a session tracking control.
pub const TRACKING_SIZE_MAX: usize = 256;

/// Maximum number of session tracking controls of one request that are recorded.
pub const TRACKING_MAX: usize = 4;

/// Maximum number of attributes of one request that an event contains.
pub const AUDIT_ATTRIBUTES_MAX: usize = 64;

const _: () = assert!(AUDIT_BLOCK_BYTES + AUDIT_BUFFER_BYTES < audit::limits::PAYLOAD_BYTES_MAX);
const _: () = assert!(WRITES_QUEUED_BYTES_MAX >= ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(SLICE_BYTES_MAX <= UNSENT_MAX && BUFFER_SIZE <= BUFFERS_KEPT_BYTES_MAX);
const _: () = assert!(SCAN_BYTES_WAITING_MAX >= SLICE_BYTES_MAX);
const _: () = assert!(REQUEST_MEMORY_MIN >= 4 * ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(UNCHARGED_MAX < BUFFER_SIZE && OUTSTANDING_SEARCH_BYTES_MAX <= OUTSTANDING_BYTES_MAX);
const _: () = assert!(PARTIAL_COPY_MAX < BUFFER_SIZE && BATCH_WRITES_MAX <= WRITES_QUEUED_MAX);
const _: () = assert!(RANDOM_BLOCK_SIZE.is_multiple_of(16));

/// Size in octets of the responses that are encrypted before the socket accepts them. A TLS connection occupies this
/// memory in addition to [`UNSENT_MAX`].
pub const TLS_CHUNK_MAX: usize = 64 << 10;

/// Time that a proxy has to send the header that contains the address of its client.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a client has for its part of a TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size in octets of a client's messages in a TLS handshake. Certificates are the largest part of them.
pub const TLS_HANDSHAKE_SIZE_MAX: usize = 64 << 10;

/// Maximum size of a file with certificates or keys, in octets.
pub const TLS_FILE_SIZE_MAX: u64 = 16 << 20;

/// Interval at which the certificate files are checked for changes.
pub const CERTIFICATE_WATCH: Duration = Duration::from_secs(10);

/// Time before the end of a certificate's validity from which on the server warns about it.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(30 * 86_400);

/// Interval between two warnings about the end of a certificate's validity.
pub const CERTIFICATE_WARNING_INTERVAL: Duration = Duration::from_secs(86_400);

/// Number of days for which the server's own certificate authority is valid.
pub const OWN_AUTHORITY_DAYS: i64 = 7_300;

/// Number of days for which the server's own certificate is valid. Apple's systems reject a certificate that is valid
/// for more than 825 days.
pub const OWN_CERTIFICATE_DAYS: i64 = 730;

/// The server's own certificate is renewed this number of days before its validity ends.
pub const OWN_CERTIFICATE_RENEWAL_DAYS: i64 = 90;

/// Maximum time by which the clock of a client may lag the clock of the server that creates a certificate.
pub const CERTIFICATE_CLOCK_SKEW: Duration = Duration::from_secs(86_400);

/// Maximum time for which a reload waits for all event loops to apply the new settings.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(10);
