//! Limits of traces, and of the requests to their receiver.

use std::time::Duration;

/// Maximum size in octets of the finished operations that wait to be sent as traces. Further operations are lost and
/// counted.
pub(crate) const TRACE_WAITING_BYTES_MAX: usize = 4 << 20;

/// Maximum number of operations in a request to the receiver.
pub(crate) const TRACE_BATCH: usize = 512;

/// Time for which operations are gathered into one request.
pub(crate) const TRACE_GATHER: Duration = Duration::from_secs(1);

/// Time limit of a request to the receiver.
pub(crate) const TRACE_REQUEST: Duration = Duration::from_secs(10);

/// Time limit of a request to the receiver while the server stops.
pub(crate) const TRACE_LAST_REQUEST: Duration = Duration::from_secs(2);

/// Delay after the first failed request to the receiver.
pub(crate) const TRACE_RETRY_MIN: Duration = Duration::from_secs(1);

/// Maximum delay after a failed request to the receiver.
pub(crate) const TRACE_RETRY_MAX: Duration = Duration::from_secs(60);

/// Interval between log entries about traces that cannot be sent.
pub(crate) const TRACE_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of octets that are read of the receiver's answer.
pub(crate) const TRACE_ANSWER_BYTES_MAX: usize = 64 << 10;

/// Maximum size of the file with the headers for the receiver, in octets.
pub(crate) const TRACE_HEADER_FILE_BYTES_MAX: u64 = 64 << 10;
