//! All limits of the server.
//!
//! What a message may contain is bounded by [`ldap::DecodeLimits`], what an operation may cost by the directory; here
//! stands what a connection may hold, how much work waits where, and how long anybody waits for anybody. Those that an
//! operator may set (see [`crate::config`]) are defaults here.

use std::time::Duration;

/// Connections open at a time, by default. What comes above it is closed at once.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Bytes for remembering where rows are, all event loops and the writer together, by default: enough for the rows that
/// look-ups by an indexed value need of some two million entries, taken only as they are asked for. See
/// [`store::View::cache_rows`].
pub const ROW_CACHE_BYTES: usize = 256 << 20;

/// The part of all memory that is spent on this by default, if that is less: where memory is short, pages are worth
/// more.
pub const ROW_CACHE_MEMORY_DIVISOR: u64 = 16;

/// The part of the memory for remembering rows that is the writer's: a change asks for few rows, for each of them
/// several times.
pub const ROW_CACHE_WRITER_DIVISOR: usize = 8;

/// Memory that sorting the rows of indexes takes, in bytes, where indexes are built while nobody serves the data. What
/// does not fit is sorted in temporary files beside it.
pub const INDEX_BUILD_MEMORY: usize = 256 << 20;

/// How many quarters of all memory data may have that is read in at the start, by default: the rest is for what is not
/// data, and for data that is added.
pub const WARM_UP_MEMORY_QUARTERS: u64 = 3;

/// How nice the thread that reads it in is to the others: who asks meanwhile goes first.
pub const WARM_UP_NICENESS: i32 = 19;

/// The same of the thread that backs up.
pub const BACKUP_NICENESS: i32 = 10;

/// Interval between checks for a due backup.
pub const BACKUP_LOOK: Duration = Duration::from_secs(1);

/// Delay before a failed backup is retried, unless the next one is due sooner.
pub const BACKUP_RETRY: Duration = Duration::from_secs(60);

/// A log that keeps fewer records than this is backed up when it is time, not when it is about to forget some.
pub const BACKUP_RECORDS_MIN: u64 = 2_000;

/// Searches that listen for changes at a time, by default. One more is answered busy.
pub const PERSISTENT_SEARCHES_MAX: usize = 10_000;

/// The part of them that an identity has, and a source, once half of all are there.
pub const PERSISTENT_SEARCHES_SHARE_DIVISOR: usize = 8;

/// The part of them that is kept for the administrator.
pub const PERSISTENT_SEARCHES_RESERVE_DIVISOR: usize = 16;

/// Steps in which the feed of an event loop goes through the log, between which the loop serves others.
pub const FEED_STEPS: u32 = 1_000;

/// How long the feed of an event loop waits at most for searches that still tell of its last change set.
pub const FEED_PATIENCE: Duration = Duration::from_millis(100);

/// Connections that are open at a time to the listener of metrics. Above it, the oldest without a request gives way.
pub const HTTP_CONNECTIONS_MAX: usize = 256;

/// Connections that one address may have there.
pub const HTTP_CONNECTIONS_SHARE: usize = 128;

/// Time that each connection there has to send its request before it may have to give way to others. While all
/// connections are newer, the kernel holds further clients: 10,240 connections a second at most.
pub const HTTP_GRACE: Duration = Duration::from_millis(25);

/// Connections that are accepted there before those that were accepted are served.
pub const HTTP_ACCEPTS_PER_PASS: usize = 8;

/// How long each of them may take in all.
pub const HTTP_CONNECTION_TIME: Duration = Duration::from_secs(10);

/// Octets of a request there, and of answers that the peer has not read.
pub const HTTP_BUFFER_MAX: usize = 16 << 10;

/// For how long nobody is accepted there after the system had no room.
pub const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The part of all connections that one address may have once half of them are in use, by default.
pub const CONNECTIONS_SHARE_DIVISOR: usize = 8;

/// Addresses of which connections are counted, but for those that have some open.
pub const SOURCES_MAX: usize = 100_000;

/// Requests of one connection that have no answer yet. At this number nothing more is read from it.
pub const OUTSTANDING_MAX: usize = 1_024;

/// Bytes of answers that one connection may have unsent. At this number its searches pause and nothing more is read
/// from it, so a slow reader holds this much memory and one entry, however much it asked for.
pub const UNSENT_MAX: usize = 256 << 10;

/// The most that a table `[[limit]]` may put in its place.
pub const UNSENT_OWN_MAX: usize = 4 << 20;

/// Size of a pooled buffer: what one read takes at most, about 200 small requests.
pub const BUFFER_SIZE: usize = 16 << 10;

/// Buffers that grew above this are freed after use instead of kept.
pub const BUFFER_KEPT_SIZE_MAX: usize = 256 << 10;

/// Free buffers that one event loop keeps.
pub const BUFFERS_KEPT_MAX: usize = 64;

/// The beginning of a message is kept in a buffer of its own size up to here, so that peers that send a few bytes and
/// wait cost a few bytes.
pub const PARTIAL_COPY_MAX: usize = 2 << 10;

/// Bytes that the outstanding requests of one connection hold before it takes no further one. The one that reaches it
/// is taken, so a connection holds this much, one request, and [`UNSENT_MAX`].
pub const HELD_BYTES_MAX: usize = 4 << 20;

/// The same of its searches alone: at this number, too, only the oldest of them goes on. A search that waits for its
/// turn is as well off in the socket; a change waits for a sync that all share.
pub const HELD_SEARCH_BYTES_MAX: usize = 256 << 10;

/// Bytes of a connection that are not charged to anybody: less than this is held by every request under way.
pub const UNCHARGED_MAX: usize = 4 << 10;

/// The part of all memory that requests may hold by default, all connections together. They hold at most twice that;
/// see `request_memory`.
pub const REQUEST_MEMORY_DIVISOR: u64 = 8;

/// The least that requests may hold.
pub const REQUEST_MEMORY_MIN: usize = 128 << 20;

/// The part of it that the requests of one source and identity may hold.
pub const HOLDER_DIVISOR: usize = 4;

/// As much as this part of it comes on top for administrators.
pub const REQUEST_MEMORY_RESERVE_DIVISOR: usize = 8;

/// Bytes that connections of an event loop have let go of, from which on it gives memory back to the system when it is
/// next idle.
pub const GIVE_BACK_MIN: usize = 16 << 20;

/// Interval at which a connection that waits for memory checks again.
pub const MEMORY_RETRY: Duration = Duration::from_millis(10);

/// Interval between log entries about the same continuing problem.
pub const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Reads from one connection before the others get their turn.
pub const READS_PER_TURN_MAX: usize = 16;

/// How long requests that one connection sent at once are carried out before the others get their turn.
pub const TURN_TIME_MAX: Duration = Duration::from_millis(2);

/// Requests between two looks at how long a turn takes.
pub const TURN_REQUESTS_PER_LOOK: usize = 16;

/// Octets of a request after which it is looked at how long the turn takes: what is large may have been a lot of work.
pub const TURN_LARGE_REQUEST_SIZE: usize = 1024;

/// Entries a search looks at before the others get their turn: a fraction of a millisecond.
pub const SLICE_ENTRIES_MAX: u32 = 250;

/// How long a pass of an event loop spends on connections that want more turns before it looks for new requests again.
pub const READY_TIME_MAX: Duration = Duration::from_millis(1);

/// Bytes of answers that one slice of a search appends.
pub const SLICE_BYTES_MAX: usize = 64 << 10;

/// Candidates that a search must have left to go to the scan threads; fewer are done sooner on the event loop.
pub const SCAN_CANDIDATES_MIN: u64 = 2_048;

/// Candidates that a scan thread looks at before the next search has its turn: about a millisecond.
pub const SCAN_ENTRIES_MAX: u32 = 4_096;

/// Searches that scan threads work on at a time. What comes above it stays on the event loops.
pub const SCANS_MAX: usize = 128;

/// Bytes of results of one search that wait for its client before its threads pause; those being made come on top. With
/// [`SCANS_MAX`] that bounds what all of them hold: 64 MiB.
pub const SCAN_BYTES_WAITING_MAX: usize = 512 << 10;

/// Pieces of one search, with or without results, that wait for one before them.
pub const SCAN_PIECES_WAITING_MAX: usize = 256;

/// Nice value of scan threads, as in nice(1): 19 is the lowest priority.
pub const SCAN_NICENESS: i32 = 19;

/// Threads that read ahead where data is larger than memory, at most, by default: as many pages asked of a disk at a
/// time as it likes to have.
pub const READ_AHEAD_THREADS: usize = 64;

/// Memory that there must be for each of them: a thread takes half a megabyte once it has worked.
pub const READ_AHEAD_MEMORY_PER_THREAD: u64 = 16 << 20;

/// How nice they are to the others: event loops, whose clients may want what is in memory, go first.
pub const READ_AHEAD_NICENESS: i32 = 10;

/// Requests that one thread reads ahead in a row.
pub const READ_AHEAD_MESSAGES: usize = 4;

/// Jobs of pages that one thread takes at a time: so many are asked of the disk together.
pub const READ_AHEAD_PAGES: usize = 16;

/// Requests of one connection that are looked at for missing pages together.
pub const READ_AHEAD_LOOKS: usize = 16;

/// Entries of a search that are looked at for missing pages; a search with more is gone through by another thread.
pub const READ_AHEAD_LOOK_ENTRIES: u32 = 4;

/// How often in a row the request that is next may want pages. A way from a root to a row has a handful, and a request
/// a few of those; above that memory is so short that pages are gone before they are read.
pub const READ_AHEAD_ROUNDS: u8 = 32;

/// Interval at which an event loop checks whether it had to wait for the disk.
pub const COLD_TICK: Duration = Duration::from_millis(100);

/// Time that a loop waits for the disk in a tick, an eighth of it, from which on it has requests read ahead: to wait
/// less costs less than to go the way of each request first.
pub const COLD_WAIT_MIN: Duration = Duration::from_micros(12_500);

/// Pages in a tick below which none of that is done, whatever else kept the loop from working.
pub const COLD_PAGES_MIN: u32 = 8;

/// Ticks without such waiting after which it looks at requests itself again.
pub const COLD_TICKS: u32 = 20;

/// Idleness after which an event loop lets go of its position of the store, whose pages can be reused from then on.
pub const PARK_AFTER: Duration = Duration::from_millis(10);

/// Readiness events taken from the kernel at a time.
pub const EVENTS_MAX: usize = 1_024;

/// Changes that wait for the writer, all connections together. At this number connections that bring more are not read
/// until there is room again.
pub const WRITES_QUEUED_MAX: usize = 65_536;

/// Bytes of changes that wait for the writer, all connections together.
pub const WRITES_QUEUED_BYTES_MAX: usize = 64 << 20;

/// How fast a node copies its data beside what it does, in bytes of rows: clients and other nodes use the same disk.
pub const COPY_BYTES_PER_SECOND: u64 = 96 << 20;

/// Changes in one batch, which share one sync.
pub const BATCH_WRITES_MAX: usize = 1_024;

/// Bytes of changes in one batch, after which it takes no more.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Entries that a start loads, which it does in one batch: all or none.
pub const LOAD_ENTRIES_MAX: usize = 10_000;

/// Hashes that wait to be computed for binds, for each thread that does it: about ten seconds of Argon2id. At this
/// number the answer is busy. As many may wait for changes of passwords.
pub const HASHES_PER_THREAD_MAX: usize = 512;

/// The part of the hashes for changes that one identity may have waiting, wherever it asks from.
pub const HASH_IDENTITY_DIVISOR: u64 = 4;

/// Wrong passwords in a row from one source after which its binds wait for those of others.
pub const SOURCE_FAILURES_MAX: u32 = 3;

/// Binds of one source answered busy, one after another, from which on they wait for those of others, too.
pub const SOURCE_REFUSALS_MAX: u32 = 16;

/// Wrong passwords in a row of a source from which passwords were right before: an application's, with many users.
pub const GOOD_SOURCE_FAILURES_MAX: u32 = 100;

/// Time after which what a source was known for is forgotten.
pub const REPUTATION_FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Default lifetime of a cached verification of a password.
pub const BIND_CACHE: Duration = Duration::from_secs(60);

/// Verified passwords that are known at a time, some 50 octets each: 6 MB.
pub const VERIFIED_BINDS_MAX: usize = 65_536;

/// Clear passwords in one request, each of which costs the pool some 20 ms; more are refused. One that is deleted
/// counts once for every password that the entry has.
pub const CLEAR_PASSWORDS_MAX: usize = 16;

/// Failures of an account that wait to be recorded: as many as an entry keeps.
pub const FAILURES_NOTED_MAX: usize = 100;

/// Accounts of which something waits to be recorded; more are not recorded until the writer has caught up.
pub const UNWRITTEN_ACCOUNTS_MAX: usize = 100_000;

/// Last logins that are gathered; as many again may be on their way to the writer. At this number they are written
/// before their time. Some 13 MB each: what a table of 2^19 places takes before it grows.
pub const LOGINS_MAX: usize = 458_752;

/// The same in a cluster, whose nodes hold all changes that the log does not have yet when they stop.
pub const CLUSTER_LOGINS_MAX: usize = 57_344;

/// Last logins wait for the precision of their policy, divided by this; and for so long they are then written.
pub const LOGIN_WAIT_DIVISOR: u32 = 16;

/// The longest that last logins wait before they begin to be written.
pub const LOGIN_WAIT_MAX: Duration = Duration::from_secs(300);

/// Last logins that could wait for less are written at once.
pub const LOGIN_WAIT_MIN: Duration = Duration::from_secs(1);

/// Interval at which a portion of the last logins is written.
pub const LOGIN_TICK: Duration = Duration::from_secs(1);

/// Interval between checks whether the writer has room for last logins.
pub const LOGIN_RETRY: Duration = Duration::from_millis(5);

/// Longest time that last logins wait for room in the queue of the writer.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Wrong passwords of an account from one source that are answered at once.
pub const GUESSES_FREE: u32 = 3;
/// How long the answer to the next one takes; it doubles with each.
pub const GUESS_DELAY_FIRST: Duration = Duration::from_millis(250);
/// The longest that an answer takes.
pub const GUESS_DELAY_MAX: Duration = Duration::from_secs(8);
/// Answers about an account that wait for one source; further binds are answered busy.
pub const GUESSES_DELAYED_MAX: u32 = 8;
/// Time without a failure after which those before are forgotten.
pub const GUESSES_FORGOTTEN_AFTER: Duration = Duration::from_secs(900);
/// Accounts and sources of which failures are counted: some 10 MB.
pub const GUESSES_MAX: usize = 100_000;

/// Octets of a file of bad passwords that is kept in memory.
pub const BAD_WORDS_SIZE_MAX: u64 = 64 << 20;
/// Octets of a line of a file of breached passwords.
pub const BREACHED_LINE_MAX: usize = 128;

/// Default timeout of each step of a bind at another server.
pub const PASS_THROUGH_SECONDS: u64 = 5;

/// Binds at another server at a time, unless the settings say otherwise.
pub const PASS_THROUGH_THREADS: usize = 8;

/// Passwords that wait for a thread which asks another server.
pub const PASS_THROUGH_JOBS_PER_THREAD_MAX: usize = 64;

/// By how many seconds the clock of who gives tokens out may differ, unless the settings say otherwise.
pub const CLOCK_SKEW_SECONDS: u32 = 60;

/// Exchanges of Kerberos that clients have begun and not ended, all connections together: a context of MIT's library
/// takes a few KiB. At this number the answer to another is busy.
pub const KERBEROS_EXCHANGES_MAX: usize = 4_096;

/// Bytes that an exchange of SASL is counted as which waits for its client's next message: most have less, and those of
/// Kerberos about as much.
pub const SASL_EXCHANGE_BYTES: usize = 8 << 10;

/// Tokens of one exchange of Kerberos that are taken: Kerberos has one, SPNEGO at most a few.
pub const KERBEROS_TOKENS_MAX: u8 = 8;

/// Octets of the library's words about a token that are logged.
pub const KERBEROS_REASON_MAX: usize = 512;

/// Octets of the trace of an anonymous bind that are logged.
pub const SASL_TRACE_MAX: usize = 255;

/// Longest time without a byte of progress while a message is half sent or answers are unread.
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

/// Silence after which a connection from the network is closed, unless a setting says otherwise.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(900);

/// Time that a connection from the network has for its first request, unless a setting says otherwise.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How often an event loop looks for silent connections, and at how many at once: a look at a hundred thousand would
/// keep the others waiting.
pub const SILENCE_SWEEP: Duration = Duration::from_secs(1);
/// See [`SILENCE_SWEEP`].
pub const SILENCE_SWEEP_MAX: usize = 8_192;

/// File descriptors that are kept from connections: for the store, which needs one for each segment of its redo log,
/// and for the rest of the server. The module `descriptors` says more.
pub const DESCRIPTORS_RESERVED: u64 = 128;

/// The part of all descriptors that is kept where there are few.
pub const DESCRIPTORS_RESERVED_DIVISOR: u64 = 4;

/// The part of those that connections of the administrator, by a socket of the file system, may take, so that there is
/// one when the store has taken some.
pub const DESCRIPTORS_TRUSTED_DIVISOR: u64 = 2;

/// Pause of accepting when the process or the system has no file descriptors or memory left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections accepted before others get their turn.
pub const ACCEPTS_PER_PASS_MAX: usize = 64;

/// Interval between log entries about paused accepting or refused connections.
pub const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// URLs that a server listens on: a connection keeps in an octet which of them is its own.
pub const LISTENERS_MAX: usize = 250;

/// Connections that wait in the kernel to be accepted.
pub const LISTEN_BACKLOG: i32 = 4_096;

/// Silence after which the kernel asks whether a peer is still there.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);

/// Between two such questions; three without an answer end the connection.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// After a slice of index rows that failed, for want of room on the disk as a rule, until the next try without a change
/// between.
pub const INDEX_SLICE_RETRY: Duration = Duration::from_secs(2);

/// Lines in the log, within the interval, about operations that failed by a fault of the server's, for each kind of
/// fault.
pub const FAULT_LINES_MAX: usize = 4;

/// The interval of [`FAULT_LINES_MAX`].
pub const FAULT_LINES_INTERVAL: Duration = Duration::from_secs(60);

/// Batches of changes between two slices of index rows, while changes are waiting.
pub const BATCHES_PER_INDEX_SLICE: u32 = 16;

/// Random bytes taken from the system at a time by the writer, which needs 16 for each change.
pub const RANDOM_BLOCK_SIZE: usize = 4 << 10;

/// Bytes of events that an event loop gathers before it hands them over.
pub const AUDIT_BUFFER_BYTES: usize = 64 << 10;

/// How long events stay with a loop that is busy.
pub const AUDIT_HAND_OVER: Duration = Duration::from_millis(100);

/// Bytes of events that wait to be written. Beyond them requests are held back, or events are lost and counted.
pub const AUDIT_WAITING_BYTES_MAX: usize = 8 << 20;

/// Bytes of events in one block, about: as many as are worth compressing together.
pub const AUDIT_BLOCK_BYTES: usize = 512 << 10;

/// Longest wait of a request for a position. A longer one is cut to this.
pub const POSITION_WAIT_MAX: Duration = Duration::from_secs(30);

/// Most connections of an event loop whose request waits for a position.
pub const POSITION_WAITERS_MAX: usize = 1_024;

/// Longest time that the thread of the audit trail waits for more events.
pub const AUDIT_GATHER: Duration = Duration::from_millis(100);

/// Interval between syncs of the trail while events arrive. A power cut may lose this much of reads and binds.
pub const AUDIT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before a failed write is retried.
pub const AUDIT_RETRY: Duration = Duration::from_millis(500);

/// Changes by which the trail may be behind the log while it cannot be written. Beyond them requests are held back, or
/// the changes count as lost.
pub const AUDIT_CHANGES_BEHIND_MAX: u64 = 100_000;

/// Bytes of events in an answer to who reads the trail, about: a block more.
pub const TRAIL_ANSWER_BYTES: usize = 1 << 20;

/// Requests for the trail that wait for its thread.
pub const TRAIL_READS_MAX: usize = 16;

/// Longest text of a filter or a name in an event. The rest is cut off.
pub const AUDIT_TEXT_SIZE_MAX: usize = 1_024;

/// Longest part of a session tracking control that is kept.
pub const TRACKING_SIZE_MAX: usize = 256;

/// Session tracking controls of a request that are kept.
pub const TRACKING_MAX: usize = 4;

/// Attributes that an event names, at most.
pub const AUDIT_ATTRIBUTES_MAX: usize = 64;

const _: () = assert!(AUDIT_BLOCK_BYTES + AUDIT_BUFFER_BYTES < audit::limits::PAYLOAD_BYTES_MAX);
const _: () = assert!(WRITES_QUEUED_BYTES_MAX >= ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(SLICE_BYTES_MAX <= UNSENT_MAX && BUFFER_SIZE <= BUFFER_KEPT_SIZE_MAX);
const _: () = assert!(SCAN_BYTES_WAITING_MAX >= SLICE_BYTES_MAX);
const _: () = assert!(REQUEST_MEMORY_MIN >= 4 * ldap::MESSAGE_SIZE_MAX);
const _: () = assert!(UNCHARGED_MAX < BUFFER_SIZE && HELD_SEARCH_BYTES_MAX <= HELD_BYTES_MAX);
const _: () = assert!(PARTIAL_COPY_MAX < BUFFER_SIZE && BATCH_WRITES_MAX <= WRITES_QUEUED_MAX);
const _: () = assert!(RANDOM_BLOCK_SIZE.is_multiple_of(16));

/// Octets of answers that are encrypted ahead of the socket: what a TLS connection holds on top of [`UNSENT_MAX`].
pub const TLS_CHUNK_MAX: usize = 64 << 10;

/// Longest time for a proxy to name its client.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for a client to do its part of a TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Octets of a client's part of a TLS handshake. Its certificates are most of it.
pub const TLS_HANDSHAKE_SIZE_MAX: usize = 64 << 10;

/// Largest file of certificates or keys, in octets.
pub const TLS_FILE_SIZE_MAX: u64 = 16 << 20;

/// Interval between checks of the certificate files.
pub const CERTIFICATE_WATCH: Duration = Duration::from_secs(10);

/// A certificate that expires sooner is warned of.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(30 * 86_400);

/// How often it is warned of.
pub const CERTIFICATE_WARNING_INTERVAL: Duration = Duration::from_secs(86_400);

/// Validity in days of the authority that signs the server's own certificate.
pub const OWN_AUTHORITY_DAYS: i64 = 7_300;

/// Validity in days of the server's own certificate. Apple's systems refuse more than 825.
pub const OWN_CERTIFICATE_DAYS: i64 = 730;

/// Number of days before expiry at which the server's own certificate is renewed.
pub const OWN_CERTIFICATE_RENEWAL_DAYS: i64 = 90;

/// By how much the clocks of clients may be behind that of a server that makes a certificate.
pub const CERTIFICATE_CLOCK_SKEW: Duration = Duration::from_secs(86_400);

/// Longest time that a reload waits for all event loops to apply the new settings.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(10);
