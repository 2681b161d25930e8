//! Limits of authentication: password hashing, failed binds, recorded logins, Kerberos and SASL.

use std::time::Duration;

/// Maximum number of hashes that wait, per hash thread. With Argon2id they take about ten seconds. At this number a
/// bind is answered `busy`. Changes of passwords have a separate queue with the same limit.
pub const HASHES_PER_THREAD_MAX: usize = 512;

/// Divisor of the maximum number of waiting hashes for changes. The quotient is the maximum for one identity from all
/// of its sources.
pub const HASH_IDENTITY_DIVISOR: u64 = 4;

/// Number of consecutive wrong passwords from one source after which its binds have lower priority: they wait until no
/// bind of another source is waiting.
pub const SOURCE_FAILURES_MAX: u32 = 3;

/// Number of consecutive binds of one source that were answered `busy`, after which its binds have lower priority: they
/// wait until no bind of another source is waiting.
pub const SOURCE_REFUSALS_MAX: u32 = 16;

/// Replaces [`SOURCE_FAILURES_MAX`] for a source that has sent correct passwords before, such as an application with
/// many users.
pub const GOOD_SOURCE_FAILURES_MAX: u32 = 100;

/// Time after which a source's wrong passwords are forgotten.
pub const REPUTATION_FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Time after a bind for which its user may change their own TOTP codes and application passwords.
pub const RECENT_PROOF_TIME: Duration = Duration::from_secs(5 * 60);

/// Default time for which the verification of a password stays in the cache.
pub const BIND_CACHE: Duration = Duration::from_secs(60);

/// Maximum number of verified passwords in the cache. Each occupies about 50 octets. The full cache occupies 6 MB.
pub const VERIFIED_BINDS_MAX: usize = 65_536;

/// Maximum number of clear passwords in one request. Each takes a hash thread about 20 ms. A request with more is
/// refused. Deleting a clear password counts once for every password of the entry.
pub const CLEAR_PASSWORDS_MAX: usize = 16;

/// Maximum number of an account's failures that wait to be recorded. An entry stores no more than this number.
pub const FAILURES_NOTED_MAX: usize = 100;

/// Maximum number of accounts with events that are not recorded yet. At this number, events of further accounts are
/// dropped.
pub const UNWRITTEN_ACCOUNTS_MAX: usize = 100_000;

/// Maximum number of last logins that are gathered. At this number they are written early. The writer's queue may
/// contain the same number again. The gathered logins occupy about 13 MB: a hash table with 2^19 slots just before it
/// would grow.
pub const LOGINS_MAX: usize = 458_752;

/// Maximum number of last logins that a cluster node gathers, in place of [`LOGINS_MAX`]. A node that stops keeps all
/// changes in memory that are not yet in the log.
pub const CLUSTER_LOGINS_MAX: usize = 57_344;

/// Divisor of the precision of last logins that the password policy states. The quotient is the time for which last
/// logins are gathered. Writing them takes the same time.
pub const LOGIN_WAIT_DIVISOR: u32 = 16;

/// Maximum time for which last logins are gathered before they are written.
pub const LOGIN_WAIT_MAX: Duration = Duration::from_secs(300);

/// Minimum time for which last logins are gathered. If the time would be shorter, each login is written at once.
pub const LOGIN_WAIT_MIN: Duration = Duration::from_secs(1);

/// Interval at which a part of the gathered last logins is written.
pub const LOGIN_TICK: Duration = Duration::from_secs(1);

/// Interval at which a thread checks again whether the writer's queue has room for last logins.
pub const LOGIN_RETRY: Duration = Duration::from_millis(5);

/// Maximum time for which last logins wait for room in the writer's queue.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Number of wrong passwords for an account from one source that are answered without a delay.
pub const GUESSES_FREE: u32 = 3;
/// Delay of the answer to the first wrong password after [`GUESSES_FREE`]. The delay doubles with each further wrong
/// password.
pub const GUESS_DELAY_FIRST: Duration = Duration::from_millis(250);
/// Maximum delay of the answer to a wrong password.
pub const GUESS_DELAY_MAX: Duration = Duration::from_secs(8);
/// Maximum number of delayed answers to one source about one account. At this number further binds are answered `busy`.
pub const GUESSES_DELAYED_MAX: usize = 8;
/// Time without a failure after which earlier failures are forgotten.
pub const GUESSES_FORGOTTEN_AFTER: Duration = Duration::from_secs(900);
/// Maximum number of pairs of account and source whose failures are counted. They occupy about 10 MB, and the
/// ends of their delays at most 13 MB.
pub const GUESSES_MAX: usize = 100_000;

/// Maximum size of a file of forbidden words, in octets. The words are kept in memory.
pub const BAD_WORDS_SIZE_MAX: u64 = 64 << 20;
/// Maximum size of a line in a file of breached passwords, in octets.
pub const BREACHED_LINE_MAX: usize = 128;

/// Default time limit of each step of a bind at another server.
pub const PASS_THROUGH_SECONDS: u64 = 5;

/// Default maximum number of concurrent binds at another server.
pub const PASS_THROUGH_THREADS: usize = 8;

/// Maximum number of passwords per verification thread that wait to be verified by a bind at another server.
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
/// further exchange replaces the oldest exchange.
pub const VERIFYING_MAX: usize = 16;

/// Maximum number of tokens of one Kerberos exchange. Kerberos itself needs one, and SPNEGO needs a few.
pub const KERBEROS_TOKENS_MAX: u8 = 8;

/// Maximum number of octets of the Kerberos library's message about a token that are logged.
pub const KERBEROS_REASON_MAX: usize = 512;

/// Maximum number of octets of the trace information in an anonymous bind that are logged.
pub const SASL_TRACE_MAX: usize = 255;
