//! All limits of the server.
//!
//! [`ldap::DecodeLimits`] limits the content of a message, and the directory limits the cost of an operation. This
//! module has the limits of connections, of queues and of waits. Those that an administrator may set (see
//! [`crate::config`]) have their defaults here.

pub(crate) mod bucket;
pub(crate) mod follow;
pub(crate) mod mail;
pub(crate) mod traces;

use std::time::Duration;

use directory::index::sizes::SampleBounds;

/// Most open connections, by default. Further ones are closed at once.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Bytes of the row caches of all event loops and the writer together, by default: enough for the rows that lookups
/// by an indexed value need in a directory of two million entries. They are allocated as needed. See
/// [`store::View::cache_rows`].
pub const ROW_CACHE_BYTES: usize = 256 << 20;

/// Fraction of all memory for the row caches by default, if that is less: with little memory, pages are worth more.
pub const ROW_CACHE_MEMORY_DIVISOR: u64 = 16;

/// Fraction of the row caches that is the writer's: a change needs few rows, each of them several times.
pub const ROW_CACHE_WRITER_DIVISOR: usize = 8;

/// Bytes of memory for sorting the rows of indexes that are built while the data is not served. Rows that do not fit
/// are sorted in temporary files in the data directory.
pub const INDEX_BUILD_MEMORY: usize = 256 << 20;

/// Quarters of all memory up to which data is read at the start, by default. The rest is for other uses of memory,
/// and for data that is added.
pub const WARM_UP_MEMORY_QUARTERS: u64 = 3;

/// Nice value of the thread that reads data at the start, so that clients go first.
pub const WARM_UP_NICENESS: i32 = 19;

/// Interval between probes of the event loops, for the page `/ready`.
pub const READINESS_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time without an answer of an event loop, or of the disk, until the server is not ready. With the interval it
/// is less than five seconds.
pub const PROBE_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Longest time without an answer of its supplier until a replica is not ready for changes.
pub const SUPPLIER_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Time that `/ready` is false after a change that a full disk refused, if the disk seems to have room.
pub const FULL_DISK_NOTED: Duration = Duration::from_secs(30);

/// Nice value of the backup thread.
pub const BACKUP_NICENESS: i32 = 10;

/// Interval at which a server lists its backup.
pub const BACKUP_LIST: Duration = Duration::from_secs(60);

/// Most sets of files of a backup that `cn=monitor` has, the newest ones.
pub const BACKUP_CHAINS_MAX: usize = 100;

/// Interval between checks for a due backup.
pub const BACKUP_LOOK: Duration = Duration::from_secs(1);

/// Delay before a failed backup is retried, unless the next one is due sooner.
pub const BACKUP_RETRY: Duration = Duration::from_secs(60);

/// Least number of records of the log for which a backup is made before the log drops them. With fewer records,
/// backups follow the schedule alone.
pub const BACKUP_RECORDS_MIN: u64 = 2_000;

/// Most recipients of a backup, each of which takes some 170 bytes of every file.
pub const BACKUP_RECIPIENTS_MAX: usize = 50;

/// Most bytes of the header of an encrypted file of a backup that are read, and of a file of identities.
pub const BACKUP_HEADER_BYTES: u64 = 64 << 10;

/// Longest time to connect to another server over HTTP.
pub const WEB_CONNECT: Duration = Duration::from_secs(10);

/// Most persistent searches at a time, by default. Further ones are answered busy.
pub const PERSISTENT_SEARCHES_MAX: usize = 10_000;

/// Fraction of them that one identity, or one source, may have once half of all are in use.
pub const PERSISTENT_SEARCHES_SHARE_DIVISOR: usize = 8;

/// Fraction of them that is reserved for the administrator.
pub const PERSISTENT_SEARCHES_RESERVE_DIVISOR: usize = 16;

/// Steps that the feed of an event loop makes in the log before the loop serves others.
pub const FEED_STEPS: u32 = 1_000;

/// Longest time that the feed of an event loop waits for searches that still send notifications of its last change
/// set.
pub const FEED_PATIENCE: Duration = Duration::from_millis(100);

/// Most open connections to the listener of metrics. If there are more, the oldest without a request is closed.
pub const HTTP_CONNECTIONS_MAX: usize = 1_024;

/// Divisor of the process's file descriptors that gives the most connections there, if that is less.
pub const HTTP_CONNECTIONS_DESCRIPTORS_DIVISOR: u64 = 8;

/// Divisor of the most connections there that gives the most from one address.
pub const HTTP_CONNECTIONS_SHARE_DIVISOR: usize = 2;

/// Time in which a connection to it must send its request before it may have to give way to others. While all
/// connections are newer, further clients wait in the kernel: at most 10,240 connections a second.
pub const HTTP_GRACE: Duration = Duration::from_millis(100);

/// Connections accepted there before the accepted ones are served.
pub const HTTP_ACCEPTS_PER_PASS: usize = 128;

/// Connections served there, the newest first, before new ones are accepted.
pub const HTTP_TURNS_PER_PASS: usize = 16;

/// Time limit of each of these connections.
pub const HTTP_CONNECTION_TIME: Duration = Duration::from_secs(10);

/// Most octets of a request there, and of answers that the peer has not read.
pub const HTTP_BUFFER_MAX: usize = 16 << 10;

/// Pause of accepting there after the system had no room.
pub const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Fraction of all connections that one address may have once half of them are in use, by default.
pub const CONNECTIONS_SHARE_DIVISOR: usize = 8;

/// Most addresses whose connections are counted, in addition to those with open connections.
pub const SOURCES_MAX: usize = 100_000;

/// Most outstanding requests of one connection. At this number the server stops reading from it.
pub const OUTSTANDING_MAX: usize = 1_024;

/// Most bytes of unsent answers of one connection. At this number its searches pause and the server stops reading
/// from it, so a slow reader occupies this much memory and one entry, whatever it requested.
pub const UNSENT_MAX: usize = 256 << 10;

/// Most bytes that a table `[[limit]]` may set instead.
pub const UNSENT_OWN_MAX: usize = 4 << 20;

/// Size of a pooled buffer, which is the most that one read takes: about 200 small requests.
pub const BUFFER_SIZE: usize = 16 << 10;

/// Largest buffer that is kept after use; larger ones are freed.
pub const BUFFER_KEPT_SIZE_MAX: usize = 256 << 10;

/// Most free buffers that one event loop keeps.
pub const BUFFERS_KEPT_MAX: usize = 64;

/// Largest incomplete message that is kept in a buffer of its own size, so that peers that send a few bytes and wait
/// cost a few bytes.
pub const PARTIAL_COPY_MAX: usize = 2 << 10;

/// A connection whose outstanding requests have this many bytes takes no further one. The request that reaches it is
/// taken, so a connection occupies this much, one request, and [`UNSENT_MAX`].
pub const OUTSTANDING_BYTES_MAX: usize = 4 << 20;

/// The same for its searches: at this number only the oldest of them continues. A search that waits for its turn may
/// as well wait in the socket; a change waits for a sync that all changes share.
pub const OUTSTANDING_SEARCH_BYTES_MAX: usize = 256 << 10;

/// Bytes of a connection that are not charged: every request in progress occupies less than this.
pub const UNCHARGED_MAX: usize = 4 << 10;

/// Fraction of all memory that requests of all connections may occupy by default. They occupy at most twice that; see
/// `request_memory`.
pub const REQUEST_MEMORY_DIVISOR: u64 = 8;

/// Least memory for requests.
pub const REQUEST_MEMORY_MIN: usize = 128 << 20;

/// Fraction of it that the requests of one source and identity may occupy.
pub const HOLDER_DIVISOR: usize = 4;

/// Fraction of it that administrators may use in addition.
pub const REQUEST_MEMORY_RESERVE_DIVISOR: usize = 8;

/// Bytes released by connections of an event loop after which it returns memory to the system when it is next idle.
pub const GIVE_BACK_MIN: usize = 16 << 20;

/// Interval at which a connection that waits for memory checks again.
pub const MEMORY_RETRY: Duration = Duration::from_millis(10);

/// Most lines about slow operations in a [period](SLOW_LINES_PERIOD).
pub const SLOW_LINES_MAX: u32 = 10;

/// Period of the limit on lines about slow operations.
pub const SLOW_LINES_PERIOD: Duration = Duration::from_secs(1);

/// Interval between log entries about the same continuing problem.
pub const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Reads from one connection before others get their turn.
pub const READS_PER_TURN_MAX: usize = 16;

/// Longest time for requests that one connection sent at once, before others get their turn.
pub const TURN_TIME_MAX: Duration = Duration::from_millis(2);

/// Requests between two checks of the time of a turn.
pub const TURN_REQUESTS_PER_LOOK: usize = 16;

/// Octets of a request after which the time of the turn is checked, because a large request may take long.
pub const TURN_LARGE_REQUEST_SIZE: usize = 1024;

/// Entries that a search examines before others get their turn: a fraction of a millisecond.
pub const SLICE_ENTRIES_MAX: u32 = 250;

/// Longest time in a pass of an event loop for connections that need more turns, before it checks for new requests.
pub const READY_TIME_MAX: Duration = Duration::from_millis(1);

/// Bytes of answers that one slice of a search appends.
pub const SLICE_BYTES_MAX: usize = 64 << 10;

/// Least number of remaining candidates for which a search moves to the scan threads. The event loop completes
/// smaller ones sooner.
pub const SCAN_CANDIDATES_MIN: u64 = 2_048;

/// Candidates that a scan thread examines before the next search has its turn: about a millisecond.
pub const SCAN_ENTRIES_MAX: u32 = 4_096;

/// Most searches on the scan threads. Further ones stay on the event loops.
pub const SCANS_MAX: usize = 128;

/// Most searches of one identity on the scan threads, so that others find room there.
pub const SCANS_OF_IDENTITY_MAX: usize = SCANS_MAX / 2;

/// Most clients of searches without an index whose use of the scan threads is remembered.
pub const SCAN_TALLIES_MAX: usize = if cfg!(test) { 100 } else { 8_192 };

/// Most shapes of filters in the statistics about missing indexes, most missing indexes of one, and most filters that
/// are shown with a proposal. All together occupy less than 100 KiB.
pub const ADVISED_SHAPES_MAX: usize = 64;
/// See [`ADVISED_SHAPES_MAX`].
pub const ADVISED_INDEXES_MAX: usize = 8;
/// See [`ADVISED_SHAPES_MAX`].
pub const ADVISED_FILTERS_MAX: usize = 3;

/// Most clients whose work each event loop counts in a period. With names of [`CLIENT_NAME_SIZE_MAX`], those of two
/// periods occupy at most 128 KiB.
pub const CLIENTS_KEPT_MAX: usize = 128;
/// Octets of a client's DN that are kept with its work.
pub const CLIENT_NAME_SIZE_MAX: usize = 256;
/// Time over which the work of clients is counted; that of the period before is shown too.
pub const CLIENTS_PERIOD: Duration = Duration::from_secs(300);
/// Number of clients that the monitor shows.
pub const TOP_CLIENTS_MAX: usize = 20;
/// Most indexes whose use each event loop counts.
pub const INDEXES_COUNTED_MAX: usize = 1_024;

/// Bytes of results that wait for the client of one search before its threads pause, without the results being made.
/// With [`SCANS_MAX`], all of them occupy at most 64 MiB.
pub const SCAN_BYTES_WAITING_MAX: usize = 512 << 10;

/// Most parts of one search, with or without results, that wait for an earlier one.
pub const SCAN_PIECES_WAITING_MAX: usize = 256;

/// Nice value of scan threads, as in nice(1): 19 is the lowest priority.
pub const SCAN_NICENESS: i32 = 19;

/// Most prefetch threads, by default, for data larger than memory: as many page reads as a disk can do well at a
/// time.
pub const READ_AHEAD_THREADS: usize = 64;

/// Memory that the machine must have for each of them: a thread occupies half a megabyte once it has worked.
pub const READ_AHEAD_MEMORY_PER_THREAD: u64 = 16 << 20;

/// Nice value of prefetch threads: event loops, whose clients may need pages in memory, go first.
pub const READ_AHEAD_NICENESS: i32 = 10;

/// Requests that one thread prefetches in a row.
pub const READ_AHEAD_MESSAGES: usize = 4;

/// Prefetch jobs that one thread takes at a time, so that their pages are requested from the disk together.
pub const READ_AHEAD_PAGES: usize = 16;

/// Requests of one connection that are checked for missing pages together.
pub const READ_AHEAD_LOOKS: usize = 16;

/// Entries of a search that the event loop checks for missing pages; a thread traverses a search with more.
pub const READ_AHEAD_LOOK_ENTRIES: u32 = 4;

/// Most prefetch rounds in a row for the next request. A path from a root to a row has a handful of pages, and a
/// request has a few such paths. If more rounds are needed, memory is so short that pages are evicted before they are
/// read.
pub const READ_AHEAD_ROUNDS: u8 = 32;

/// Interval at which an event loop checks its waits for the disk.
pub const COLD_TICK: Duration = Duration::from_millis(100);

/// Wait for the disk in a tick, an eighth of it, from which on the loop has requests prefetched. Shorter waits cost
/// less than a dry run of each request.
pub const COLD_WAIT_MIN: Duration = Duration::from_micros(12_500);

/// Least number of missing pages in a tick for which prefetching begins, however long the loop waited.
pub const COLD_PAGES_MIN: u32 = 8;

/// Ticks without such waits after which the loop stops prefetching.
pub const COLD_TICKS: u32 = 20;

/// Idle time after which an event loop releases its snapshot, so that its pages can be reused.
pub const PARK_AFTER: Duration = Duration::from_millis(10);

/// Readiness events taken from the kernel at a time.
pub const EVENTS_MAX: usize = 1_024;

/// Most changes of all connections that wait for the writer. At this number, connections that bring more are not read
/// until there is room.
pub const WRITES_QUEUED_MAX: usize = 65_536;

/// Most bytes of changes of all connections that wait for the writer.
pub const WRITES_QUEUED_BYTES_MAX: usize = 64 << 20;

/// Rate at which a node copies its data while it serves clients, in bytes of rows: clients and other nodes use the
/// same disk.
pub const COPY_BYTES_PER_SECOND: u64 = 96 << 20;

/// Most changes in one batch, which share one sync.
pub const BATCH_WRITES_MAX: usize = 1_024;

/// Bytes of changes in one batch, after which it takes no more.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Most entries that a start loads, which it does in one batch: all or none.
pub const LOAD_ENTRIES_MAX: usize = 10_000;

/// Most hashes of binds that wait, for each hash thread: about ten seconds of Argon2id. At this number the answer is
/// busy. The same number may wait for changes of passwords.
pub const HASHES_PER_THREAD_MAX: usize = 512;

/// Fraction of the hashes for changes that one identity may have waiting, over all its sources.
pub const HASH_IDENTITY_DIVISOR: u64 = 4;

/// Wrong passwords in a row from one source after which its binds wait for those of others.
pub const SOURCE_FAILURES_MAX: u32 = 3;

/// Binds of one source answered busy in a row, after which its binds wait for those of others.
pub const SOURCE_REFUSALS_MAX: u32 = 16;

/// The same as [`SOURCE_FAILURES_MAX`] for a source from which passwords were right before: an application with many
/// users.
pub const GOOD_SOURCE_FAILURES_MAX: u32 = 100;

/// Time after which the reputation of a source is forgotten.
pub const REPUTATION_FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Time after a bind in which its user may change the own codes and application passwords.
pub const RECENT_PROOF_TIME: Duration = Duration::from_secs(5 * 60);

/// Default lifetime of a cached verification of a password.
pub const BIND_CACHE: Duration = Duration::from_secs(60);

/// Most verified passwords in the cache, some 50 octets each: 6 MB.
pub const VERIFIED_BINDS_MAX: usize = 65_536;

/// Most changes of a transaction. The writer makes all of them at once, and other changes wait meanwhile.
pub const TRANSACTION_CHANGES_MAX: usize = 1_000;

/// Most bytes of the messages of a transaction, each with [`TRANSACTION_CHANGE_BYTES`].
pub const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// Bytes that a change of a transaction takes besides its message, in the account of memory.
pub const TRANSACTION_CHANGE_BYTES: usize = 1 << 10;

/// Most octets of the copies of entries in the answer to a transaction (RFC 4527).
pub const TRANSACTION_COPIES_BYTES_MAX: usize = 2 << 20;

/// Time after which a transaction is aborted that the client does not end, by default.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Most clear passwords in one request, each of which takes the pool some 20 ms. More are refused. A deleted password
/// counts once for every password of the entry.
pub const CLEAR_PASSWORDS_MAX: usize = 16;

/// Most failures of an account that wait to be recorded: as many as an entry keeps.
pub const FAILURES_NOTED_MAX: usize = 100;

/// Most accounts with unrecorded events. Further events are dropped until the writer has caught up.
pub const UNWRITTEN_ACCOUNTS_MAX: usize = 100_000;

/// Most gathered last logins; the same number may be on the way to the writer. At this number they are written early.
/// They take some 13 MB: a table of 2^19 places before it grows.
pub const LOGINS_MAX: usize = 458_752;

/// The same for nodes of a cluster: a stopping node keeps in memory all changes that the log does not have yet.
pub const CLUSTER_LOGINS_MAX: usize = 57_344;

/// Fraction of the precision of their policy for which last logins wait. Writing them takes the same time.
pub const LOGIN_WAIT_DIVISOR: u32 = 16;

/// Longest wait of last logins before they begin to be written.
pub const LOGIN_WAIT_MAX: Duration = Duration::from_secs(300);

/// Shortest wait; last logins that could wait for less are written at once.
pub const LOGIN_WAIT_MIN: Duration = Duration::from_secs(1);

/// Interval at which a portion of the last logins is written.
pub const LOGIN_TICK: Duration = Duration::from_secs(1);

/// Interval between checks whether the writer has room for last logins.
pub const LOGIN_RETRY: Duration = Duration::from_millis(5);

/// Longest time that last logins wait for room in the queue of the writer.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Wrong passwords of an account from one source that are answered at once.
pub const GUESSES_FREE: u32 = 3;
/// Delay of the answer to the next one; it doubles with each.
pub const GUESS_DELAY_FIRST: Duration = Duration::from_millis(250);
/// Longest delay of an answer.
pub const GUESS_DELAY_MAX: Duration = Duration::from_secs(8);
/// Most delayed answers about an account for one source; further binds are answered busy.
pub const GUESSES_DELAYED_MAX: u32 = 8;
/// Time without a failure after which earlier failures are forgotten.
pub const GUESSES_FORGOTTEN_AFTER: Duration = Duration::from_secs(900);
/// Most accounts and sources whose failures are counted: some 10 MB.
pub const GUESSES_MAX: usize = 100_000;

/// Most octets of a file of forbidden passwords, which is kept in memory.
pub const BAD_WORDS_SIZE_MAX: u64 = 64 << 20;
/// Most octets of a line of a file of breached passwords.
pub const BREACHED_LINE_MAX: usize = 128;

/// Default timeout of each step of a bind at another server.
pub const PASS_THROUGH_SECONDS: u64 = 5;

/// Most binds at another server at a time, by default.
pub const PASS_THROUGH_THREADS: usize = 8;

/// Most passwords that wait, for each thread that verifies them by a bind at another server.
pub const PASS_THROUGH_JOBS_PER_THREAD_MAX: usize = 64;

/// Accepted difference to the clock of the issuer of tokens in seconds, by default.
pub const CLOCK_SKEW_SECONDS: u32 = 60;

/// Most unfinished Kerberos exchanges of all connections: a context of MIT's library takes a few KiB. At this number
/// the answer to another is busy.
pub const KERBEROS_EXCHANGES_MAX: usize = 4_096;

/// Bytes charged for a SASL exchange that waits for its client's next message: most take less, and those of Kerberos
/// about as much.
pub const SASL_EXCHANGE_BYTES: usize = 8 << 10;

/// Maximum number of SASL exchanges for Verify Credentials that wait on one connection for the client's next message. A
/// further one replaces the oldest.
pub const VERIFYING_MAX: usize = 16;

/// Most tokens of one Kerberos exchange: Kerberos has one, SPNEGO at most a few.
pub const KERBEROS_TOKENS_MAX: u8 = 8;

/// Most logged octets of the library's message about a token.
pub const KERBEROS_REASON_MAX: usize = 512;

/// Most logged octets of the trace of an anonymous bind.
pub const SASL_TRACE_MAX: usize = 255;

/// Longest time without progress while a message is incomplete or answers are unread.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest time for a client to read the notice that its connection ends.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time for operations to finish when the server stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// [`LINGER_TIMEOUT`] when the server stops.
pub const DRAIN_LINGER_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval at which a stopping server checks whether all connections are finished.
pub const DRAIN_TICK: Duration = Duration::from_millis(50);

/// Interval between checks for timeouts, while a connection may reach one.
pub const TICK: Duration = Duration::from_secs(1);

/// Silence after which a connection from the network is closed, by default.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(900);

/// Time limit for the first request of a connection from the network, by default.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between an event loop's checks for silent connections, and the number of connections in one check: a
/// check of a hundred thousand would delay the others.
pub const SILENCE_SWEEP: Duration = Duration::from_secs(1);
/// See [`SILENCE_SWEEP`].
pub const SILENCE_SWEEP_MAX: usize = 8_192;

/// File descriptors that connections may not use: for the store, which needs one for each segment of its redo log,
/// and for the rest of the server. See the module `descriptors`.
pub const DESCRIPTORS_RESERVED: u64 = 128;

/// Fraction of all descriptors that is reserved if there are few.
pub const DESCRIPTORS_RESERVED_DIVISOR: u64 = 4;

/// Fraction of the reserved ones that the administrator's connections, by a socket of the file system, may use, so
/// that one is free when the store has taken some.
pub const DESCRIPTORS_TRUSTED_DIVISOR: u64 = 2;

/// Pause of accepting when the process or the system has no file descriptors or memory left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections accepted before others get their turn.
pub const ACCEPTS_PER_PASS_MAX: usize = 64;

/// Interval between log entries about paused accepting or refused connections.
pub const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Most URLs on which a server listens: a connection stores the index of its own in an octet.
pub const LISTENERS_MAX: usize = 250;

/// Connections that wait in the kernel to be accepted.
pub const LISTEN_BACKLOG: i32 = 4_096;

/// Silence after which the kernel probes whether a peer is still there.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);

/// Interval between such probes; three without an answer end the connection.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Delay after a failed slice of index rows, usually for lack of room on the disk, before the next try without a
/// change between.
pub const INDEX_SLICE_RETRY: Duration = Duration::from_secs(2);

/// Most log lines in an interval about operations that failed by a defect of the server, for each kind of defect.
pub const FAULT_LINES_MAX: usize = 4;

/// Interval of [`FAULT_LINES_MAX`].
pub const FAULT_LINES_INTERVAL: Duration = Duration::from_secs(60);

/// Batches of changes between two slices of index rows, while changes are waiting.
pub const BATCHES_PER_INDEX_SLICE: u32 = 16;

/// Random bytes that the writer requests from the system at a time. It needs 16 for each change.
pub const RANDOM_BLOCK_SIZE: usize = 4 << 10;

/// Bytes of events that an event loop gathers before it passes them on.
pub const AUDIT_BUFFER_BYTES: usize = 64 << 10;

/// Longest time that a busy loop keeps events.
pub const AUDIT_HAND_OVER: Duration = Duration::from_millis(100);

/// Most bytes of events that wait to be written. Above it requests wait, or events are lost and counted.
pub const AUDIT_WAITING_BYTES_MAX: usize = 8 << 20;

/// Approximate bytes of events in one block: as many as are worth compressing together.
pub const AUDIT_BLOCK_BYTES: usize = 512 << 10;

/// Longest wait of a request for a position. A longer one is cut to this.
pub const POSITION_WAIT_MAX: Duration = Duration::from_secs(30);

/// Most connections of an event loop whose request waits for a position.
pub const POSITION_WAITERS_MAX: usize = 1_024;

/// Longest time that the thread of the audit trail waits for more events.
pub const AUDIT_GATHER: Duration = Duration::from_millis(100);

/// Interval between syncs of the trail while events arrive. A power cut may lose the reads and binds of this time.
pub const AUDIT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before a failed write is retried.
pub const AUDIT_RETRY: Duration = Duration::from_millis(500);

/// Most changes by which the audit trail may lag the log while it cannot be written. Above it requests wait, or the
/// changes count as lost.
pub const AUDIT_LAG_CHANGES_MAX: u64 = 100_000;

/// Approximate bytes of events in an answer to a reader of the trail; it may have one block more.
pub const TRAIL_ANSWER_BYTES: usize = 1 << 20;

/// Most requests about settings that wait for their thread.
pub const SETTINGS_REQUESTS_MAX: usize = 8;

/// Most requests for entries of the backup that wait for their thread.
pub const BACKUP_READS_MAX: usize = 4;

/// Time that a request waits for the restore of its moment, before it is answered busy.
pub const BACKUP_READ_WAIT: Duration = Duration::from_secs(3);

/// Time after the last request for which a moment of the backup stays restored.
pub const BACKUP_COPY_KEPT: Duration = Duration::from_secs(10 * 60);

/// Time for which the end of the backup, which grows, serves further requests for the same moment.
pub const BACKUP_COPY_FRESH: Duration = Duration::from_secs(60);

/// Sample from which sizes of indexes are computed.
pub const INDEX_SAMPLE: SampleBounds = SampleBounds { entries_max: 1_000, rows_max: 200_000 };

/// Shortest time between two measurements of the sizes of indexes.
pub const INDEX_SIZES_FRESH: Duration = Duration::from_secs(10);

/// The time between two measurements is at least this many times that which one takes.
pub const INDEX_SIZES_PAUSE: u32 = 100;

/// Bytes of an entry or a tree of the backup in an answer.
pub const BACKUP_ENTRY_BYTES: usize = 8 << 20;

/// Entries of a tree of the backup in an answer. A transaction that restores them has as many changes.
pub const BACKUP_TREE_ENTRIES_MAX: usize = TRANSACTION_CHANGES_MAX;

/// Values elsewhere that name an entry of a tree of the backup, in an answer.
pub const BACKUP_TREE_NAMES_MAX: usize = 20_000;

/// Bytes of these values, with the names of their entries.
pub const BACKUP_TREE_NAMES_BYTES: usize = 4 << 20;

/// Time after which a rehearsal of access rules for a client begins with no further requester.
pub const REHEARSAL_TIME: Duration = Duration::from_secs(2);

/// Entries of such a rehearsal.
pub const REHEARSAL_ENTRIES: u64 = 1_000;

/// Users of such a rehearsal that names none.
pub const REHEARSAL_USERS: usize = 20;

/// Most changes that its answer lists.
pub const REHEARSAL_LINES: usize = 100;

/// Most entries that are compared with the rules of proposed settings for a client.
pub const PLAN_ENTRIES_MAX: u64 = 200_000;

/// Most requests for the trail that wait for its thread.
pub const TRAIL_READS_MAX: usize = 16;

/// Most bytes of records in an answer to a replica; the first record may be larger.
pub const LOG_BLOCK_BYTES: usize = 512 << 10;

/// Most requests of replicas that wait for records.
pub const LOG_READS_MAX: usize = 1_024;

/// Longest time that a request of a replica waits for records.
pub const LOG_WAIT_MAX: Duration = Duration::from_secs(2);

/// Bytes of blocks of records that are kept because other replicas may ask for them; the last block may be larger.
pub const LOG_BLOCKS_BYTES: usize = 8 << 20;

/// Time by which each answer to a replica delays the records that come after it, so that answers to many replicas do
/// not take the time of changes.
pub const LOG_ANSWER_PAUSE: Duration = Duration::from_micros(200);

/// Longest such delay.
pub const LOG_PAUSE_MAX: Duration = Duration::from_millis(10);

/// Interval between comparisons of a slice of the data with that of replicas.
pub const COMPARE_INTERVAL: Duration = Duration::from_secs(600);

/// Most bytes of rows in such a slice.
pub const COMPARE_SLICE_BYTES: u64 = 256 << 20;

/// Niceness of the thread that reads a slice, because no client waits for it.
pub const DIGEST_NICENESS: i32 = 19;

/// Most parts that a message about differing data lists.
pub const DIFFERING_PARTS_LOGGED: usize = 20;

/// Time after its last request for which a replica is shown.
pub const CONSUMER_KEPT: Duration = Duration::from_secs(10);

/// Longest wait of a replica for an event.
pub const REPLICA_TICK: Duration = Duration::from_millis(100);

/// Time limit of each step of connecting to a supplier.
pub const REPLICA_CONNECT: Duration = Duration::from_secs(5);

/// Time that a request of a replica waits for records at the supplier.
pub const REPLICA_LOOK: Duration = Duration::from_millis(500);

/// Silence of a supplier after which a replica connects again.
pub const REPLICA_SILENCE: Duration = Duration::from_secs(30);

/// Shortest and longest delay before a replica connects again.
pub const REPLICA_RETRY_MIN: Duration = Duration::from_millis(200);

/// See [`REPLICA_RETRY_MIN`].
pub const REPLICA_RETRY_MAX: Duration = Duration::from_secs(5);

/// Delay before a replica asks again whose supplier has no records for it.
pub const REPLICA_HALTED_RETRY: Duration = Duration::from_secs(30);

/// Most answers with records that were read and not applied.
pub const BLOCKS_WAITING_MAX: usize = 4;

/// Bytes of records that a replica applies in one commit, after which it takes no more.
pub const APPLY_BYTES_MAX: usize = 1 << 20;

/// Delay after records could not be applied.
pub const APPLY_RETRY: Duration = Duration::from_millis(500);

/// Time for which a change waits on a replica before its client is refused.
pub const FORWARD_PATIENCE: Duration = Duration::from_secs(15);

/// Most changes that a replica forwards together.
pub const FORWARD_MAX: usize = 128;

/// Bytes of changes that a replica forwards together, after which it takes no more.
pub const FORWARD_BYTES_MAX: usize = 1 << 20;

/// Time after its last use from which a connection for changes is probed first.
pub const FORWARD_IDLE: Duration = Duration::from_secs(1);

/// Longest time that a replica which stops waits for answers to changes.
pub const REPLICA_STOP: Duration = Duration::from_secs(5);

/// Bytes of a part of a copy of the data, before it is compressed.
pub const COPY_PART_BYTES: usize = 1 << 20;

/// Most requests for parts that wait.
pub const COPY_READS_MAX: usize = 256;

/// Parts that a new replica asks for before it has the first of them.
pub const COPY_PIPELINE: usize = 4;

/// Tries of a new replica to copy the data, and the delay between them.
pub const COPY_TRIES: u32 = 10;

/// See [`COPY_TRIES`].
pub const COPY_RETRY: Duration = Duration::from_secs(1);

/// Time after which a request is answered although the copy is still being made.
pub const COPY_WAIT: Duration = Duration::from_secs(1);

/// Time after its last use for which a copy is kept.
pub const COPY_KEPT: Duration = Duration::from_secs(60);

/// Rate at which a copy for replicas is made, in bytes of rows a second.
pub const REPLICA_COPY_BYTES_PER_SECOND: u64 = 512 << 20;

/// Bytes of a copy that are received before they are synced.
pub const COPY_SYNC_BYTES: u64 = 64 << 20;

/// Longest text of a filter or a name in an event. The rest is cut off.
pub const AUDIT_TEXT_SIZE_MAX: usize = 1_024;

/// Longest part of a session tracking control that is kept.
pub const TRACKING_SIZE_MAX: usize = 256;

/// Most session tracking controls of a request that are kept.
pub const TRACKING_MAX: usize = 4;

/// Most attributes that an event names.
pub const AUDIT_ATTRIBUTES_MAX: usize = 64;

const _: () = assert!(AUDIT_BLOCK_BYTES + AUDIT_BUFFER_BYTES < audit::limits::PAYLOAD_BYTES_MAX);
const _: () = assert!(WRITES_QUEUED_BYTES_MAX >= ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(SLICE_BYTES_MAX <= UNSENT_MAX && BUFFER_SIZE <= BUFFER_KEPT_SIZE_MAX);
const _: () = assert!(SCAN_BYTES_WAITING_MAX >= SLICE_BYTES_MAX);
const _: () = assert!(REQUEST_MEMORY_MIN >= 4 * ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(UNCHARGED_MAX < BUFFER_SIZE && OUTSTANDING_SEARCH_BYTES_MAX <= OUTSTANDING_BYTES_MAX);
const _: () = assert!(PARTIAL_COPY_MAX < BUFFER_SIZE && BATCH_WRITES_MAX <= WRITES_QUEUED_MAX);
const _: () = assert!(RANDOM_BLOCK_SIZE.is_multiple_of(16));

/// Octets of answers that are encrypted ahead of the socket: what a TLS connection occupies in addition to
/// [`UNSENT_MAX`].
pub const TLS_CHUNK_MAX: usize = 64 << 10;

/// Longest time for a proxy to name its client.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for a client to do its part of a TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Most octets of a client's part of a TLS handshake, mainly its certificates.
pub const TLS_HANDSHAKE_SIZE_MAX: usize = 64 << 10;

/// Largest file of certificates or keys, in octets.
pub const TLS_FILE_SIZE_MAX: u64 = 16 << 20;

/// Interval between checks of the certificate files.
pub const CERTIFICATE_WATCH: Duration = Duration::from_secs(10);

/// Time before the expiry of a certificate from which on the server warns.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(30 * 86_400);

/// Interval between these warnings.
pub const CERTIFICATE_WARNING_INTERVAL: Duration = Duration::from_secs(86_400);

/// Validity in days of the authority that signs the server's own certificate.
pub const OWN_AUTHORITY_DAYS: i64 = 7_300;

/// Validity in days of the server's own certificate. Apple's systems refuse more than 825.
pub const OWN_CERTIFICATE_DAYS: i64 = 730;

/// Number of days before expiry at which the server's own certificate is renewed.
pub const OWN_CERTIFICATE_RENEWAL_DAYS: i64 = 90;

/// Most that the clocks of clients may lag that of a server that makes a certificate.
pub const CERTIFICATE_CLOCK_SKEW: Duration = Duration::from_secs(86_400);

/// Longest time that a reload waits for all event loops to apply the new settings.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(10);
