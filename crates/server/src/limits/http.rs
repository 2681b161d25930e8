//! Limits of the HTTP listeners of metrics and of the console.

use std::time::Duration;

/// Maximum number of open connections to an HTTP listener (metrics or console). If there are more, the oldest one
/// without a request is closed.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 1_024;

/// Divisor of the process's file descriptors: the result is the maximum number of HTTP connections, if it is less than
/// [`HTTP_CONNECTIONS_MAX`].
pub(crate) const HTTP_CONNECTIONS_DESCRIPTORS_DIVISOR: u64 = 8;

/// Divisor of the maximum number of HTTP connections: the result is the maximum number from one address.
pub(crate) const HTTP_CONNECTIONS_SHARE_DIVISOR: usize = 2;

/// Time for which a new HTTP connection without a request cannot be evicted. While all connections are newer, further
/// clients wait in the kernel. So at most 10,240 connections per second are accepted.
pub(crate) const HTTP_GRACE: Duration = Duration::from_millis(100);

/// Maximum number of HTTP connections accepted before the accepted ones are served.
pub(crate) const HTTP_ACCEPTS_PER_PASS: usize = 128;

/// Maximum number of HTTP connections served, the newest first, before new ones are accepted.
pub(crate) const HTTP_TURNS_PER_PASS: usize = 16;

/// Maximum duration of an HTTP connection.
pub(crate) const HTTP_CONNECTION_TIME: Duration = Duration::from_secs(10);

/// Maximum size of an HTTP request, and of a response that the client has not read, in octets.
pub(crate) const HTTP_BUFFER_MAX: usize = 16 << 10;

/// Delay before accepting HTTP connections again when the system had no file descriptors or memory.
pub(crate) const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
