//! Bounds on traces and on their receiver.

use std::time::Duration;

/// Bytes of finished operations that wait to be sent as traces; further ones are lost and counted.
pub(crate) const TRACE_WAITING_BYTES_MAX: usize = 4 << 20;

/// Most operations in one request with traces.
pub(crate) const TRACE_BATCH: usize = 512;

/// Time for which operations are gathered into one request with traces.
pub(crate) const TRACE_GATHER: Duration = Duration::from_secs(1);

/// Longest request with traces.
pub(crate) const TRACE_REQUEST: Duration = Duration::from_secs(10);

/// Longest request with traces while the server stops.
pub(crate) const TRACE_LAST_REQUEST: Duration = Duration::from_secs(2);

/// First pause after a request with traces that failed.
pub(crate) const TRACE_RETRY_MIN: Duration = Duration::from_secs(1);

/// Longest pause after a request with traces that failed.
pub(crate) const TRACE_RETRY_MAX: Duration = Duration::from_secs(60);

/// Interval between log entries about traces that cannot be sent.
pub(crate) const TRACE_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Largest answer of a receiver of traces that is read.
pub(crate) const TRACE_ANSWER_BYTES_MAX: usize = 64 << 10;

/// Largest file with headers for the receiver of traces that is read.
pub(crate) const TRACE_HEADER_FILE_BYTES_MAX: u64 = 64 << 10;
