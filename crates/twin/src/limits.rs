//! Every bound of the proxy.

use std::time::Duration;

/// Maximum size of a message that is forwarded, in bytes.
pub const MESSAGE_SIZE_MAX: usize = 64 << 20;

/// Maximum size of the responses to one request that are kept for the comparison, in bytes, on each side.
pub const EXCHANGE_BYTES_MAX: usize = 16 << 20;

/// Memory for exchanges that wait for their replay, in bytes, by default.
pub const QUEUE_BYTES_DEFAULT: usize = 256 << 20;

/// Bytes that an exchange counts besides its messages.
pub(crate) const EXCHANGE_OVERHEAD: usize = 512;

/// Maximum number of connected clients, by default.
pub const CONNECTIONS_DEFAULT: usize = 4_096;

/// Threads that replay.
pub(crate) const WORKERS: usize = 8;

/// Maximum number of groups of differences. Differences beyond them are only counted.
pub(crate) const GROUPS_MAX: usize = 1_000;

/// Maximum number of examples of a group.
pub(crate) const EXAMPLES_MAX: usize = 3;

/// Maximum length of a group's name or an example, in characters.
pub(crate) const TEXT_MAX: usize = 240;

/// Cookies of paged searches that are kept for each connection.
pub(crate) const COOKIES_MAX: usize = 16;

/// Octets read from a socket at a time.
pub(crate) const READ_SIZE: usize = 64 << 10;

/// Time limit of connecting, including the handshake of TLS.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// Time limit of an answer of the server on which requests are replayed.
pub(crate) const ANSWER: Duration = Duration::from_secs(60);

/// Time that a switch waits until all changes are replayed.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// Interval in which a switch looks at the queue.
pub(crate) const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// Time limit of a command on the control socket.
pub(crate) const COMMAND: Duration = Duration::from_secs(5);

/// Maximum length of a command on the control socket, in bytes.
pub(crate) const COMMAND_SIZE_MAX: usize = 64;

/// Requests of a kind after which their latencies are judged.
pub(crate) const LATENCY_COUNT_MIN: u64 = 100;

/// A kind of request is slower on the new server if its median exceeds this multiple of the old server's ...
pub(crate) const SLOWER_FACTOR: u64 = 2;

/// ... and exceeds it by this many microseconds.
pub(crate) const SLOWER_MICROS: u64 = 1_000;
