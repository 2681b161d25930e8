//! All limits of the proxy.

use std::time::Duration;

/// Maximum size of a message that is forwarded, in bytes.
pub const MESSAGE_SIZE_MAX: usize = 64 << 20;

/// Maximum size of the responses to one request, or of all pages of a paged search but the last, that are stored for
/// the comparison, in bytes, for each server.
pub const EXCHANGE_BYTES_MAX: usize = 16 << 20;

/// Default maximum memory for exchanges that wait for their replay, in bytes.
pub const QUEUE_BYTES_DEFAULT: usize = 256 << 20;

/// Number of bytes that an exchange occupies in addition to its messages.
pub(crate) const EXCHANGE_OVERHEAD: usize = 512;

/// Default maximum number of connected clients.
pub const CONNECTIONS_DEFAULT: usize = 4_096;

/// Number of threads that replay requests.
pub(crate) const WORKERS: usize = 8;

/// Maximum number of groups of differences. Differences that belong to none of these groups are only counted.
pub(crate) const GROUPS_MAX: usize = 1_000;

/// Maximum number of examples of a group.
pub(crate) const EXAMPLES_MAX: usize = 3;

/// Maximum length of a group's name or an example, in characters.
pub(crate) const TEXT_MAX: usize = 240;

/// Maximum number of paged search cookies that are stored for each connection.
pub(crate) const COOKIES_MAX: usize = 16;

/// Maximum number of octets that are read from a socket at a time.
pub(crate) const READ_SIZE: usize = 64 << 10;

/// Maximum time to connect, including the TLS handshake.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// Maximum time for an answer of the server on which requests are replayed.
pub(crate) const ANSWER: Duration = Duration::from_secs(60);

/// Maximum time that a switch waits for the replay of all changes.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// Interval at which a switch checks the queue.
pub(crate) const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// Maximum time for a command on the control socket.
pub(crate) const COMMAND: Duration = Duration::from_secs(5);

/// Maximum length of a command on the control socket, in bytes.
pub(crate) const COMMAND_SIZE_MAX: usize = 64;

/// Minimum number of requests of a kind for which latencies are compared.
pub(crate) const LATENCY_COUNT_MIN: u64 = 100;

/// A kind of request counts as slower on the new server if its median latency exceeds the old server's by this factor,
/// and by [`SLOWER_MICROS`].
pub(crate) const SLOWER_FACTOR: u64 = 2;

/// Minimum difference between the median latencies in microseconds: see [`SLOWER_FACTOR`].
pub(crate) const SLOWER_MICROS: u64 = 1_000;
