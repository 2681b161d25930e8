//! Limits of the HTTP listeners of the metrics and of the console.

use std::time::Duration;

/// Maximum number of open connections to an HTTP listener. If there are more, the oldest connection without a request
/// is closed.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 1_024;

/// Divisor of the number of file descriptors of the process. The quotient is the maximum number of HTTP connections, if
/// it is less than [`HTTP_CONNECTIONS_MAX`].
pub(crate) const HTTP_CONNECTIONS_DESCRIPTORS_DIVISOR: u64 = 8;

/// Divisor of the maximum number of HTTP connections. The quotient is the maximum number from one address.
pub(crate) const HTTP_CONNECTIONS_SHARE_DIVISOR: usize = 2;

/// Time for which a new HTTP connection without a request is not closed in favour of another. While the age of every
/// connection is less than this time, further clients wait in the kernel. Therefore at most [`HTTP_CONNECTIONS_MAX`]
/// connections are accepted in this time.
pub(crate) const HTTP_GRACE: Duration = Duration::from_millis(100);

/// Maximum number of HTTP connections that are accepted before the accepted connections are served.
pub(crate) const HTTP_ACCEPTS_PER_PASS: usize = 128;

/// Maximum number of HTTP connections that are served before new connections are accepted. The newest connections are
/// served first.
pub(crate) const HTTP_TURNS_PER_PASS: usize = 16;

/// Maximum duration of an HTTP connection.
pub(crate) const HTTP_CONNECTION_TIME: Duration = Duration::from_secs(10);

/// Maximum size of an HTTP request in octets. Also the maximum size of a response that the client has not read.
pub(crate) const HTTP_BUFFER_MAX: usize = 16 << 10;

/// Delay before HTTP connections are accepted again if the system had no file descriptors or memory.
pub(crate) const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
