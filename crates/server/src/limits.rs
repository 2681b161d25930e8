//! All limits of the server.
//!
//! [`ldap::DecodeLimits`] limits the content of a message, and the directory limits the cost of an operation. This
//! module limits connections, queues and waits. For limits that an administrator may set (see [`crate::config`]) it has
//! the defaults.

pub(crate) mod bucket;
pub(crate) mod follow;
pub(crate) mod http;
pub(crate) mod mail;
pub(crate) mod traces;

use std::time::Duration;

use directory::index::sizes::SampleBounds;

/// Default maximum number of open connections. Further ones are closed at once.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Default total size of the row caches of all event loops and the writer, in octets: enough for the rows that lookups
/// by an indexed value need in a directory of two million entries. Allocated as needed. See
/// [`store::View::cache_rows`].
pub const ROW_CACHE_BYTES: usize = 256 << 20;

/// Fraction of all memory for the row caches by default, if that is less than [`ROW_CACHE_BYTES`]: if memory is scarce,
/// it is worth more as page cache.
pub const ROW_CACHE_MEMORY_DIVISOR: u64 = 16;

/// The writer's fraction of the row caches: a change needs few rows, each of them several times.
pub const ROW_CACHE_WRITER_DIVISOR: usize = 8;

/// Memory for sorting the rows of indexes that are built while the data is not served, in octets. Rows that do not fit
/// are sorted in temporary files in the data directory.
pub const INDEX_BUILD_MEMORY: usize = 256 << 20;

/// Default maximum size of data that is read at the start, in quarters of all memory. The rest is for other uses, and
/// for data that is added later.
pub const WARM_UP_MEMORY_QUARTERS: u64 = 3;

/// Nice value of the thread that reads data at the start, so that threads that serve clients run first.
pub const WARM_UP_NICENESS: i32 = 19;

/// Interval between probes of the event loops, for the page `/ready`.
pub const READINESS_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time without an answer of an event loop or of the disk before the server is not ready. Together with
/// [`READINESS_INTERVAL`] it is less than five seconds.
pub const PROBE_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Maximum time without an answer of its supplier before a replica is not ready for changes.
pub const SUPPLIER_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Time for which `/ready` reports failure after a full disk has refused a change, even if the disk seems to have room.
pub const FULL_DISK_NOTED: Duration = Duration::from_secs(30);

/// Nice value of the backup thread.
pub const BACKUP_NICENESS: i32 = 10;

/// Interval at which a server lists the files of its backup.
pub const BACKUP_LIST: Duration = Duration::from_secs(60);

/// Maximum number of backup file sets that `cn=monitor` shows. The newest ones are shown.
pub const BACKUP_CHAINS_MAX: usize = 100;

/// Interval between checks for a due backup.
pub const BACKUP_LOOK: Duration = Duration::from_secs(1);

/// Delay before a failed backup is retried, unless the next one is due sooner.
pub const BACKUP_RETRY: Duration = Duration::from_secs(60);

/// Minimum number of log records for which a backup is made before the log drops them. If the log keeps fewer records,
/// backups follow the schedule alone.
pub const BACKUP_RECORDS_MIN: u64 = 2_000;

/// Maximum number of recipients of a backup. Each takes about 170 octets of every file.
pub const BACKUP_RECIPIENTS_MAX: usize = 50;

/// Maximum size of the header of an encrypted backup file, and of a file of identities, in octets.
pub const BACKUP_HEADER_BYTES: u64 = 64 << 10;

/// Time limit for connecting to another server over HTTP.
pub const WEB_CONNECT: Duration = Duration::from_secs(10);

/// Default maximum number of persistent searches. Further ones are answered `busy`.
pub const PERSISTENT_SEARCHES_MAX: usize = 10_000;

/// Fraction of [`PERSISTENT_SEARCHES_MAX`] that one identity or one source may use once half of all are in use.
pub const PERSISTENT_SEARCHES_SHARE_DIVISOR: usize = 8;

/// Fraction of [`PERSISTENT_SEARCHES_MAX`] that is reserved for the administrator.
pub const PERSISTENT_SEARCHES_RESERVE_DIVISOR: usize = 16;

/// Maximum number of steps in the log that the feed of an event loop makes before the loop serves connections.
pub const FEED_STEPS: u32 = 1_000;

/// Maximum time for which the feed of an event loop waits for searches that still send notifications of its last change
/// set.
pub const FEED_PATIENCE: Duration = Duration::from_millis(100);

/// Default fraction of all connections that one address may have once half of them are in use.
pub const CONNECTIONS_SHARE_DIVISOR: usize = 8;

/// Maximum number of addresses whose connections are counted, in addition to those with open connections.
pub const SOURCES_MAX: usize = 100_000;

/// Maximum number of outstanding requests of one connection. At this number the server stops reading from it.
pub const OUTSTANDING_MAX: usize = 1_024;

/// Maximum size of the unsent responses of one connection, in octets. At this size its searches pause and the server
/// stops reading from it. So a slow reader occupies this much memory and one entry, whatever it requested.
pub const UNSENT_MAX: usize = 256 << 10;

/// Maximum value that a table `[[limit]]` may set instead of [`UNSENT_MAX`].
pub const UNSENT_OWN_MAX: usize = 4 << 20;

/// Size of a pooled buffer, and so of one read from a socket: about 200 small requests.
pub const BUFFER_SIZE: usize = 16 << 10;

/// Maximum total size of the free buffers of one event loop, in octets.
pub const BUFFERS_KEPT_BYTES_MAX: usize = 512 << 10;

/// Maximum size of an incomplete message that is copied to a buffer of its exact size, so that clients that send a few
/// bytes and wait cost a few bytes.
pub const PARTIAL_COPY_MAX: usize = 2 << 10;

/// Size of the outstanding requests of a connection, in octets, at which it accepts no further request. The request
/// that reaches the limit is accepted, so a connection occupies at most this much, one request, and [`UNSENT_MAX`].
pub const OUTSTANDING_BYTES_MAX: usize = 4 << 20;

/// The same as [`OUTSTANDING_BYTES_MAX`] for searches alone: at this size only the connection's oldest search
/// continues. Its other searches may as well wait in the socket. Changes may not, because all changes that wait share
/// one sync.
pub const OUTSTANDING_SEARCH_BYTES_MAX: usize = 256 << 10;

/// Memory of a connection that is not charged, in octets: every request in progress occupies less than this.
pub const UNCHARGED_MAX: usize = 4 << 10;

/// Default fraction of all memory that the requests of all connections may occupy. They occupy at most twice as much;
/// see `request_memory`.
pub const REQUEST_MEMORY_DIVISOR: u64 = 8;

/// Minimum size of the memory for requests, in octets.
pub const REQUEST_MEMORY_MIN: usize = 128 << 20;

/// Fraction of the memory for requests that one source and identity may occupy.
pub const HOLDER_DIVISOR: usize = 4;

/// Fraction of the memory for requests that administrators may use in addition.
pub const REQUEST_MEMORY_RESERVE_DIVISOR: usize = 8;

/// Memory released by the connections of all event loops, in octets, that may wait to be returned to the system. A loop
/// that has released its share returns it when it is next idle, or after [`GIVE_BACK_INTERVAL`]. The pieces of the scan
/// threads have the same bound.
pub const GIVE_BACK_MIN: usize = 16 << 20;

/// Minimum share of a thread in [`GIVE_BACK_MIN`], in octets.
pub const GIVE_BACK_SHARE_MIN: usize = 1 << 20;

/// Interval at which an event loop that is never idle returns memory to the system.
pub const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(3);

/// Interval at which a connection that waits for memory checks again.
pub const MEMORY_RETRY: Duration = Duration::from_millis(10);

/// Maximum number of log lines about slow operations in a [period](SLOW_LINES_PERIOD).
pub const SLOW_LINES_MAX: u32 = 10;

/// Period of the limit on lines about slow operations.
pub const SLOW_LINES_PERIOD: Duration = Duration::from_secs(1);

/// Interval between log entries about the same continuing problem.
pub const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of reads from one connection before other connections have their turns.
pub const READS_PER_TURN_MAX: usize = 16;

/// Maximum time for requests that one connection sent at once, before other connections have their turns.
pub const TURN_TIME_MAX: Duration = Duration::from_millis(2);

/// Requests between two checks of the time of a turn.
pub const TURN_REQUESTS_PER_LOOK: usize = 16;

/// Size of a request, in octets, after which the time of the turn is checked, because a large request may take long.
pub const TURN_LARGE_REQUEST_SIZE: usize = 1024;

/// Maximum number of entries that a search examines before other connections have their turns: a fraction of a
/// millisecond.
pub const SLICE_ENTRIES_MAX: u32 = 250;

/// Maximum time that an event loop spends on connections with unfinished work before it checks for new requests.
pub const READY_TIME_MAX: Duration = Duration::from_millis(1);

/// Maximum size of the results that one slice of a search appends, in octets.
pub const SLICE_BYTES_MAX: usize = 64 << 10;

/// Minimum number of remaining candidates for which a search moves to the scan threads. The event loop completes
/// smaller searches sooner.
pub const SCAN_CANDIDATES_MIN: u64 = 2_048;

/// Maximum number of candidates that a scan thread examines before the next search has its turn: about a millisecond.
pub const SCAN_ENTRIES_MAX: u32 = 4_096;

/// Maximum number of searches on the scan threads. Further ones stay on the event loops.
pub const SCANS_MAX: usize = 128;

/// Maximum number of searches of one identity on the scan threads, so that there is room for others.
pub const SCANS_OF_IDENTITY_MAX: usize = SCANS_MAX / 2;

/// Maximum number of clients of unindexed searches whose use of the scan threads is recorded.
pub const SCAN_TALLIES_MAX: usize = if cfg!(test) { 100 } else { 8_192 };

/// Maximum number of filter shapes in the statistics about missing indexes. With [`ADVISED_INDEXES_MAX`] and
/// [`ADVISED_FILTERS_MAX`], the statistics occupy less than 100 KiB.
pub const ADVISED_SHAPES_MAX: usize = 64;
/// Maximum number of missing indexes of one filter shape.
pub const ADVISED_INDEXES_MAX: usize = 8;
/// Maximum number of filters that are shown with a proposed index.
pub const ADVISED_FILTERS_MAX: usize = 3;

/// Maximum number of clients whose work each event loop counts in a period. With names of [`CLIENT_NAME_SIZE_MAX`], the
/// clients of two periods occupy at most 128 KiB.
pub const CLIENTS_KEPT_MAX: usize = 128;
/// Maximum size of the client's DN that is stored with its work, in octets.
pub const CLIENT_NAME_SIZE_MAX: usize = 256;
/// Period over which the work of clients is counted. The monitor shows the previous period too.
pub const CLIENTS_PERIOD: Duration = Duration::from_secs(300);
/// Maximum number of clients that the monitor shows.
pub const TOP_CLIENTS_MAX: usize = 20;
/// Maximum number of indexes whose use each event loop counts.
pub const INDEXES_COUNTED_MAX: usize = 1_024;

/// Size of the results that wait for the client of one search, in octets, at which scan threads stop working on it.
/// With [`SCANS_MAX`], all waiting results occupy at most 64 MiB.
pub const SCAN_BYTES_WAITING_MAX: usize = 512 << 10;

/// Maximum number of parts of one search, with or without results, that wait for an earlier part.
pub const SCAN_PIECES_WAITING_MAX: usize = 256;

/// Nice value of scan threads, as in nice(1): 19 is the lowest priority.
pub const SCAN_NICENESS: i32 = 19;

/// Default maximum number of prefetch threads, for data larger than memory: as many concurrent page reads as a disk
/// performs well.
pub const READ_AHEAD_THREADS: usize = 64;

/// Memory that the machine must have for each prefetch thread, in octets. A thread occupies half a megabyte once it has
/// worked.
pub const READ_AHEAD_MEMORY_PER_THREAD: u64 = 16 << 20;

/// Nice value of prefetch threads. Event loops run first, because their clients may need only pages that are in memory.
pub const READ_AHEAD_NICENESS: i32 = 10;

/// Maximum number of requests that one thread prefetches in a row.
pub const READ_AHEAD_MESSAGES: usize = 4;

/// Maximum number of prefetch jobs that one thread takes at a time, so that it requests their pages from the disk
/// together.
pub const READ_AHEAD_PAGES: usize = 16;

/// Maximum number of requests of one connection that are checked for missing pages at a time.
pub const READ_AHEAD_LOOKS: usize = 16;

/// Maximum number of entries of a search that the event loop checks for missing pages; for more, a prefetch thread
/// traverses the search.
pub const READ_AHEAD_LOOK_ENTRIES: u32 = 4;

/// Maximum number of prefetch rounds in a row for one request. A path from a root to a row has a handful of pages, and
/// a request has a few such paths. If it needs more rounds, memory is so short that pages are evicted before they are
/// read.
pub const READ_AHEAD_ROUNDS: u8 = 32;

/// Interval at which an event loop checks how long it waited for the disk.
pub const COLD_TICK: Duration = Duration::from_millis(100);

/// Minimum wait for the disk in a [tick](COLD_TICK) for which the loop has requests prefetched: an eighth of the tick.
/// Shorter waits cost less than a dry run of each request.
pub const COLD_WAIT_MIN: Duration = Duration::from_micros(12_500);

/// Minimum number of missing pages in a tick for which prefetching begins, however long the loop waited.
pub const COLD_PAGES_MIN: u32 = 8;

/// Number of ticks without such waits after which the loop stops prefetching.
pub const COLD_TICKS: u32 = 20;

/// Idle time after which an event loop parks its snapshot, so that old pages can be reused.
pub const PARK_AFTER: Duration = Duration::from_millis(10);

/// Maximum number of readiness events taken from the kernel at a time.
pub const EVENTS_MAX: usize = 1_024;

/// Maximum number of changes of all connections that wait for the writer. At this number the server stops reading from
/// connections that send more, until there is room.
pub const WRITES_QUEUED_MAX: usize = 65_536;

/// Maximum size of the changes of all connections that wait for the writer, in octets.
pub const WRITES_QUEUED_BYTES_MAX: usize = 64 << 20;

/// Rate at which a node that serves clients copies its data, in octets of rows per second: clients and other nodes use
/// the same disk.
pub const COPY_BYTES_PER_SECOND: u64 = 96 << 20;

/// Maximum number of changes in one batch, which share one sync.
pub const BATCH_WRITES_MAX: usize = 1_024;

/// Size of the changes in a batch, in octets, at which it accepts no more.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Maximum number of entries that a start loads. It loads all of them in one batch, or none.
pub const LOAD_ENTRIES_MAX: usize = 10_000;

/// Maximum number of hashes for binds that wait, per hash thread: about ten seconds of Argon2id. At this number the
/// answer is `busy`. As many may wait for changes of passwords.
pub const HASHES_PER_THREAD_MAX: usize = 512;

/// Fraction of the waiting hashes for changes that one identity may have, from all its sources.
pub const HASH_IDENTITY_DIVISOR: u64 = 4;

/// Number of consecutive wrong passwords from one source after which its binds wait for those of other sources.
pub const SOURCE_FAILURES_MAX: u32 = 3;

/// Number of consecutive binds of one source answered `busy` after which its binds wait for those of other sources.
pub const SOURCE_REFUSALS_MAX: u32 = 16;

/// The same as [`SOURCE_FAILURES_MAX`] for a source that has sent right passwords before, such as an application with
/// many users.
pub const GOOD_SOURCE_FAILURES_MAX: u32 = 100;

/// Time after which the record of a source's wrong passwords is dropped.
pub const REPUTATION_FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Time after a bind for which its user may change their own TOTP codes and application passwords.
pub const RECENT_PROOF_TIME: Duration = Duration::from_secs(5 * 60);

/// Default lifetime of a cached verification of a password.
pub const BIND_CACHE: Duration = Duration::from_secs(60);

/// Maximum number of verified passwords in the cache. Each takes some 50 octets, all of them 6 MB.
pub const VERIFIED_BINDS_MAX: usize = 65_536;

/// Maximum number of changes in a transaction. The writer makes all of them at once, and other changes wait meanwhile.
pub const TRANSACTION_CHANGES_MAX: usize = 1_000;

/// Maximum size of the messages of a transaction, in octets, including [`TRANSACTION_CHANGE_BYTES`] for each.
pub const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// Memory that is charged for a change of a transaction in addition to its message, in octets.
pub const TRANSACTION_CHANGE_BYTES: usize = 1 << 10;

/// Maximum size of the copies of entries in the answer to a transaction (RFC 4527), in octets.
pub const TRANSACTION_COPIES_BYTES_MAX: usize = 2 << 20;

/// Default time after which a transaction is aborted that the client does not end.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of clear passwords in one request, each of which takes the pool some 20 ms. A request with more is
/// refused. A deleted password counts once for every password of the entry.
pub const CLEAR_PASSWORDS_MAX: usize = 16;

/// Maximum number of failures of an account that wait to be recorded: as many as an entry stores.
pub const FAILURES_NOTED_MAX: usize = 100;

/// Maximum number of accounts with unrecorded events. Further events are dropped until the writer has caught up.
pub const UNWRITTEN_ACCOUNTS_MAX: usize = 100_000;

/// Maximum number of gathered last logins. As many more may be on the way to the writer. At this number they are
/// written early. They take some 13 MB: a hash table of 2^19 slots before it grows.
pub const LOGINS_MAX: usize = 458_752;

/// The same as [`LOGINS_MAX`] for nodes of a cluster. A stopping node keeps in memory all changes that the log does not
/// have yet.
pub const CLUSTER_LOGINS_MAX: usize = 57_344;

/// Divisor of the precision of last logins in their policy: the result is the time for which logins are gathered.
/// Writing them takes as long.
pub const LOGIN_WAIT_DIVISOR: u32 = 16;

/// Maximum time for which last logins are gathered before they are written.
pub const LOGIN_WAIT_MAX: Duration = Duration::from_secs(300);

/// Minimum time for which last logins are gathered. If it would be shorter, they are written at once.
pub const LOGIN_WAIT_MIN: Duration = Duration::from_secs(1);

/// Interval at which a portion of the last logins is written.
pub const LOGIN_TICK: Duration = Duration::from_secs(1);

/// Interval at which the thread checks again whether the writer's queue has room for last logins.
pub const LOGIN_RETRY: Duration = Duration::from_millis(5);

/// Maximum time for which last logins wait for room in the writer's queue.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Number of wrong passwords of an account from one source that are answered without delay.
pub const GUESSES_FREE: u32 = 3;
/// Delay of the answer to the next wrong password. It doubles with each further one.
pub const GUESS_DELAY_FIRST: Duration = Duration::from_millis(250);
/// Maximum delay of an answer.
pub const GUESS_DELAY_MAX: Duration = Duration::from_secs(8);
/// Maximum number of delayed answers about an account to one source; further binds are answered `busy`.
pub const GUESSES_DELAYED_MAX: u32 = 8;
/// Time without a failure after which earlier failures are forgotten.
pub const GUESSES_FORGOTTEN_AFTER: Duration = Duration::from_secs(900);
/// Maximum number of pairs of account and source whose failures are counted: some 10 MB.
pub const GUESSES_MAX: usize = 100_000;

/// Maximum size of a file of forbidden words, which is kept in memory, in octets.
pub const BAD_WORDS_SIZE_MAX: u64 = 64 << 20;
/// Maximum size of a line in a file of breached passwords, in octets.
pub const BREACHED_LINE_MAX: usize = 128;

/// Default timeout of each step of a bind at another server.
pub const PASS_THROUGH_SECONDS: u64 = 5;

/// Default maximum number of concurrent binds at another server.
pub const PASS_THROUGH_THREADS: usize = 8;

/// Maximum number of passwords that wait, per thread that verifies them by a bind at another server.
pub const PASS_THROUGH_JOBS_PER_THREAD_MAX: usize = 64;

/// Default maximum difference to the clock of the issuer of tokens, in seconds.
pub const CLOCK_SKEW_SECONDS: u32 = 60;

/// Maximum number of unfinished Kerberos exchanges of all connections: a context of MIT's library takes a few KiB. At
/// this number further ones are answered `busy`.
pub const KERBEROS_EXCHANGES_MAX: usize = 4_096;

/// Memory charged for a SASL exchange that waits for its client's next message, in octets: about as much as a Kerberos
/// exchange takes, and more than most others.
pub const SASL_EXCHANGE_BYTES: usize = 8 << 10;

/// Maximum number of SASL exchanges for Verify Credentials that wait on one connection for the client's next message. A
/// further exchange replaces the oldest.
pub const VERIFYING_MAX: usize = 16;

/// Maximum number of tokens of one Kerberos exchange: Kerberos has one, SPNEGO a few.
pub const KERBEROS_TOKENS_MAX: u8 = 8;

/// Maximum logged size of the Kerberos library's message about a token, in octets.
pub const KERBEROS_REASON_MAX: usize = 512;

/// Maximum logged size of the trace information in an anonymous bind, in octets.
pub const SASL_TRACE_MAX: usize = 255;

/// Maximum time without progress while a message is incomplete or answers are unread.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time for a client to read the notice that its connection ends.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time for operations to finish when the server stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// [`LINGER_TIMEOUT`] when the server stops.
pub const DRAIN_LINGER_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval at which a stopping server checks whether all connections are finished.
pub const DRAIN_TICK: Duration = Duration::from_millis(50);

/// Interval between checks for timeouts, while a connection may reach one.
pub const TICK: Duration = Duration::from_secs(1);

/// Default idle time after which a connection from the network is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(900);

/// Default time limit for the first request of a connection from the network.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which an event loop checks for idle connections.
pub const SILENCE_SWEEP: Duration = Duration::from_secs(1);
/// Maximum number of connections in one check for idle connections. A check of a hundred thousand would delay requests.
pub const SILENCE_SWEEP_MAX: usize = 8_192;

/// Number of file descriptors that connections may not use. The store needs one for each segment of its redo log; the
/// rest of the server needs others. See the module `descriptors`.
pub const DESCRIPTORS_RESERVED: u64 = 128;

/// Fraction of all file descriptors that is reserved if there are few.
pub const DESCRIPTORS_RESERVED_DIVISOR: u64 = 4;

/// Fraction of the reserved descriptors that the administrator's connections over a local socket may use, so that one
/// is free even if the store has taken some.
pub const DESCRIPTORS_TRUSTED_DIVISOR: u64 = 2;

/// Delay before accepting connections again when the process or the system has no file descriptors or memory left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of connections accepted before open connections have their turns.
pub const ACCEPTS_PER_PASS_MAX: usize = 64;

/// Interval between log entries about paused accepting or refused connections.
pub const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of URLs that a server listens on: a connection stores the index of its listener in an octet.
pub const LISTENERS_MAX: usize = 250;

/// Maximum number of connections that wait in the kernel to be accepted.
pub const LISTEN_BACKLOG: i32 = 4_096;

/// Idle time after which the kernel probes whether a peer still exists.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);

/// Interval between keepalive probes. Three without an answer end the connection.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Delay before a failed slice of index rows is retried if no change occurs meanwhile. Slices usually fail because the
/// disk is full.
pub const INDEX_SLICE_RETRY: Duration = Duration::from_secs(2);

/// Maximum number of log lines per [interval](FAULT_LINES_INTERVAL) about operations that failed because of a defect of
/// the server, for each kind of defect.
pub const FAULT_LINES_MAX: usize = 4;

/// Interval of [`FAULT_LINES_MAX`].
pub const FAULT_LINES_INTERVAL: Duration = Duration::from_secs(60);

/// Number of batches of changes between two slices of index rows while changes are waiting.
pub const BATCHES_PER_INDEX_SLICE: u32 = 16;

/// Number of random octets that the writer requests from the system at a time. It needs 16 for each change.
pub const RANDOM_BLOCK_SIZE: usize = 4 << 10;

/// Size of the events that an event loop gathers before it hands them over, in octets.
pub const AUDIT_BUFFER_BYTES: usize = 64 << 10;

/// Maximum time for which a busy loop gathers events.
pub const AUDIT_HAND_OVER: Duration = Duration::from_millis(100);

/// Maximum size of the events that wait to be written, in octets. Above it requests wait, or events are lost and
/// counted.
pub const AUDIT_WAITING_BYTES_MAX: usize = 8 << 20;

/// Approximate size of the events in one block, in octets: enough to compress well.
pub const AUDIT_BLOCK_BYTES: usize = 512 << 10;

/// Maximum wait of a request for a position. A longer one is reduced to this.
pub const POSITION_WAIT_MAX: Duration = Duration::from_secs(30);

/// Maximum number of connections of an event loop whose request waits for a position.
pub const POSITION_WAITERS_MAX: usize = 1_024;

/// Maximum time for which the thread of the audit trail waits for more events.
pub const AUDIT_GATHER: Duration = Duration::from_millis(100);

/// Interval between syncs of the trail while events arrive. A power failure may lose the reads and binds of this time.
pub const AUDIT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before a failed write is retried.
pub const AUDIT_RETRY: Duration = Duration::from_millis(500);

/// Maximum number of changes by which the audit trail may lag the log while it cannot be written. Above it requests
/// wait, or the changes count as lost.
pub const AUDIT_LAG_CHANGES_MAX: u64 = 100_000;

/// Approximate size of the events in an answer to a reader of the trail, in octets. The answer may have one block more.
pub const TRAIL_ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of requests about settings that wait for their thread.
pub const SETTINGS_REQUESTS_MAX: usize = 8;

/// Maximum number of requests for entries of the backup that wait for their thread.
pub const BACKUP_READS_MAX: usize = 4;

/// Maximum time for which a request waits for the restore of its moment before it is answered `busy`.
pub const BACKUP_READ_WAIT: Duration = Duration::from_secs(3);

/// Time after the last request for which a restored moment of the backup is kept.
pub const BACKUP_COPY_KEPT: Duration = Duration::from_secs(10 * 60);

/// Time for which a restored copy of the newest moment serves further requests for that moment, although the backup
/// grows.
pub const BACKUP_COPY_FRESH: Duration = Duration::from_secs(60);

/// Size of the sample from which sizes of indexes are estimated.
pub const INDEX_SAMPLE: SampleBounds = SampleBounds { entries_max: 1_000, rows_max: 200_000 };

/// Minimum time between two measurements of the sizes of indexes.
pub const INDEX_SIZES_FRESH: Duration = Duration::from_secs(10);

/// The time between two measurements is at least this multiple of the time that a measurement takes.
pub const INDEX_SIZES_PAUSE: u32 = 100;

/// Maximum size of an entry or tree of the backup in an answer, in octets.
pub const BACKUP_ENTRY_BYTES: usize = 8 << 20;

/// Maximum number of entries of a tree of the backup in an answer. A transaction that restores them may have as many
/// changes.
pub const BACKUP_TREE_ENTRIES_MAX: usize = TRANSACTION_CHANGES_MAX;

/// Maximum number of values in an answer that name an entry of a tree of the backup from outside the tree.
pub const BACKUP_TREE_NAMES_MAX: usize = 20_000;

/// Maximum size of these values and the DNs of their entries, in octets.
pub const BACKUP_TREE_NAMES_BYTES: usize = 4 << 20;

/// Time after which a rehearsal of access rules for a client starts no further requester.
pub const REHEARSAL_TIME: Duration = Duration::from_secs(2);

/// Maximum number of entries in a rehearsal of access rules for a client.
pub const REHEARSAL_ENTRIES: u64 = 1_000;

/// Number of users in a rehearsal of access rules whose request names none.
pub const REHEARSAL_USERS: usize = 20;

/// Maximum number of changes that the answer to a rehearsal lists.
pub const REHEARSAL_LINES: usize = 100;

/// Maximum number of entries that are compared with the rules of proposed settings for a client.
pub const PLAN_ENTRIES_MAX: u64 = 200_000;

/// Maximum number of requests for the trail that wait for its thread.
pub const TRAIL_READS_MAX: usize = 16;

/// Maximum size of the records in an answer to a replica, in octets. The first record may be larger.
pub const LOG_BLOCK_BYTES: usize = 512 << 10;

/// Maximum number of requests of replicas that wait for records.
pub const LOG_READS_MAX: usize = 1_024;

/// Maximum time for which a request of a replica waits for records.
pub const LOG_WAIT_MAX: Duration = Duration::from_secs(2);

/// Size of the blocks of records that are cached for other replicas, in octets. The last block may be larger.
pub const LOG_BLOCKS_BYTES: usize = 8 << 20;

/// Time by which each answer to a replica delays the records that follow, so that answers to many replicas leave
/// processor time for changes.
pub const LOG_ANSWER_PAUSE: Duration = Duration::from_micros(200);

/// Maximum delay by [`LOG_ANSWER_PAUSE`].
pub const LOG_PAUSE_MAX: Duration = Duration::from_millis(10);

/// Interval between comparisons of a slice of the data with the replicas.
pub const COMPARE_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum size of a comparison slice, in octets of rows.
pub const COMPARE_SLICE_BYTES: u64 = 256 << 20;

/// Nice value of the thread that reads a comparison slice, because no client waits for it.
pub const DIGEST_NICENESS: i32 = 19;

/// Maximum number of parts that a message about differing data lists.
pub const DIFFERING_PARTS_LOGGED: usize = 20;

/// Maximum number of replicas that the metrics have by name.
pub const REPLICAS_NAMED_MAX: usize = 100;

/// Time after its last request for which a replica is shown in the monitor.
pub const CONSUMER_KEPT: Duration = Duration::from_secs(10);

/// Maximum time for which a replica waits for an event.
pub const REPLICA_TICK: Duration = Duration::from_millis(100);

/// Time limit of each step of connecting to a supplier.
pub const REPLICA_CONNECT: Duration = Duration::from_secs(5);

/// Time for which a request of a replica waits for records at the supplier.
pub const REPLICA_LOOK: Duration = Duration::from_millis(500);

/// Silence of a supplier after which a replica connects again.
pub const REPLICA_SILENCE: Duration = Duration::from_secs(30);

/// Minimum delay before a replica connects again.
pub const REPLICA_RETRY_MIN: Duration = Duration::from_millis(200);

/// Maximum delay before a replica connects again.
pub const REPLICA_RETRY_MAX: Duration = Duration::from_secs(5);

/// Delay before a replica asks again if the supplier has no records for it.
pub const REPLICA_HALTED_RETRY: Duration = Duration::from_secs(30);

/// Maximum number of answers with records that were received and not applied yet.
pub const BLOCKS_WAITING_MAX: usize = 4;

/// Size of the records that a replica applies in one commit, in octets, at which it adds no more.
pub const APPLY_BYTES_MAX: usize = 1 << 20;

/// Delay before records that could not be applied are tried again.
pub const APPLY_RETRY: Duration = Duration::from_millis(500);

/// Maximum time for which a change waits on a replica before its client is refused.
pub const FORWARD_PATIENCE: Duration = Duration::from_secs(15);

/// Maximum number of changes that a replica forwards together.
pub const FORWARD_MAX: usize = 128;

/// Size of the changes that a replica forwards together, in octets, at which it adds no more.
pub const FORWARD_BYTES_MAX: usize = 1 << 20;

/// Idle time after which a connection for forwarded changes is probed before it is used.
pub const FORWARD_IDLE: Duration = Duration::from_secs(1);

/// Maximum time for which a stopping replica waits for answers to changes.
pub const REPLICA_STOP: Duration = Duration::from_secs(5);

/// Size of a part of a copy of the data before it is compressed, in octets.
pub const COPY_PART_BYTES: usize = 1 << 20;

/// Maximum number of requests for parts of a copy that wait.
pub const COPY_READS_MAX: usize = 256;

/// Number of parts that a new replica requests before it has received the first of them.
pub const COPY_PIPELINE: usize = 4;

/// Maximum number of attempts of a new replica to copy the data.
pub const COPY_TRIES: u32 = 10;

/// Delay between attempts to copy the data.
pub const COPY_RETRY: Duration = Duration::from_secs(1);

/// Time after which a request is answered even if the copy is not ready yet.
pub const COPY_WAIT: Duration = Duration::from_secs(1);

/// Time after its last use for which a copy of the data is kept.
pub const COPY_KEPT: Duration = Duration::from_secs(60);

/// Rate at which a copy for replicas is made, in octets of rows per second.
pub const REPLICA_COPY_BYTES_PER_SECOND: u64 = 512 << 20;

/// Size of the received part of a copy after which it is synced, in octets.
pub const COPY_SYNC_BYTES: u64 = 64 << 20;

/// Maximum size of the text of a filter or name in an event, in octets. The rest is cut off.
pub const AUDIT_TEXT_SIZE_MAX: usize = 1_024;

/// Maximum size of a field of a session tracking control that is recorded, in octets.
pub const TRACKING_SIZE_MAX: usize = 256;

/// Maximum number of session tracking controls of a request that are recorded.
pub const TRACKING_MAX: usize = 4;

/// Maximum number of attributes that an event names.
pub const AUDIT_ATTRIBUTES_MAX: usize = 64;

const _: () = assert!(AUDIT_BLOCK_BYTES + AUDIT_BUFFER_BYTES < audit::limits::PAYLOAD_BYTES_MAX);
const _: () = assert!(WRITES_QUEUED_BYTES_MAX >= ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(SLICE_BYTES_MAX <= UNSENT_MAX && BUFFER_SIZE <= BUFFERS_KEPT_BYTES_MAX);
const _: () = assert!(SCAN_BYTES_WAITING_MAX >= SLICE_BYTES_MAX);
const _: () = assert!(REQUEST_MEMORY_MIN >= 4 * ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(UNCHARGED_MAX < BUFFER_SIZE && OUTSTANDING_SEARCH_BYTES_MAX <= OUTSTANDING_BYTES_MAX);
const _: () = assert!(PARTIAL_COPY_MAX < BUFFER_SIZE && BATCH_WRITES_MAX <= WRITES_QUEUED_MAX);
const _: () = assert!(RANDOM_BLOCK_SIZE.is_multiple_of(16));

/// Size of the responses that are encrypted before the socket takes them, in octets. A TLS connection occupies this
/// much in addition to [`UNSENT_MAX`].
pub const TLS_CHUNK_MAX: usize = 64 << 10;

/// Time limit for a proxy to send the header that names its client.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a client's part of a TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a client's part of a TLS handshake, mainly its certificates, in octets.
pub const TLS_HANDSHAKE_SIZE_MAX: usize = 64 << 10;

/// Maximum size of a file of certificates or keys, in octets.
pub const TLS_FILE_SIZE_MAX: u64 = 16 << 20;

/// Interval between checks of the certificate files.
pub const CERTIFICATE_WATCH: Duration = Duration::from_secs(10);

/// Time before the expiry of a certificate at which the server begins to warn.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(30 * 86_400);

/// Interval between warnings about an expiring certificate.
pub const CERTIFICATE_WARNING_INTERVAL: Duration = Duration::from_secs(86_400);

/// Validity in days of the authority that signs the server's own certificate.
pub const OWN_AUTHORITY_DAYS: i64 = 7_300;

/// Validity in days of the server's own certificate. Apple's systems reject a certificate valid for more than 825 days.
pub const OWN_CERTIFICATE_DAYS: i64 = 730;

/// Number of days before expiry at which the server's own certificate is renewed.
pub const OWN_CERTIFICATE_RENEWAL_DAYS: i64 = 90;

/// Maximum time by which clients' clocks may lag the clock of a server that makes a certificate.
pub const CERTIFICATE_CLOCK_SKEW: Duration = Duration::from_secs(86_400);

/// Maximum time for which a reload waits for all event loops to apply the new settings.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(10);
