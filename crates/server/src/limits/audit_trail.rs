//! Limits of the audit trail.

use std::time::Duration;

/// Size of the events that an event loop gathers before it passes them to the thread of the audit trail, in octets.
pub const AUDIT_BUFFER_BYTES: usize = 64 << 10;

/// Maximum time for which a busy event loop gathers events for the audit trail.
pub const AUDIT_HAND_OVER: Duration = Duration::from_millis(100);

/// Maximum size in octets of the events that wait to be written to the audit trail. If more events wait, requests wait,
/// or events are lost and counted.
pub const AUDIT_WAITING_BYTES_MAX: usize = 8 << 20;

/// Approximate size of the events in one block of the audit trail, in octets. A block of this size compresses well.
pub const AUDIT_BLOCK_BYTES: usize = 512 << 10;

/// Maximum time for which the thread of the audit trail waits for more events.
pub const AUDIT_GATHER: Duration = Duration::from_millis(100);

/// Interval between two syncs of the audit trail while events arrive. A power failure may lose the reads and binds of
/// this time.
pub const AUDIT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before a failed write to the audit trail is repeated.
pub const AUDIT_RETRY: Duration = Duration::from_millis(500);

/// Maximum number of changes in the log that are missing in the audit trail because it cannot be written. If there are
/// more, requests wait, or the changes count as lost.
pub const AUDIT_LAG_CHANGES_MAX: u64 = 100_000;

/// Approximate size of the events in one answer to a reader of the audit trail, in octets. The answer may be larger by
/// one block.
pub const TRAIL_ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of requests for the audit trail that wait for the thread that answers them.
pub const TRAIL_READS_MAX: usize = 16;

/// Maximum size in octets of the text of a filter or name in an event. A longer text is cut off.
pub const AUDIT_TEXT_SIZE_MAX: usize = 1_024;

/// Maximum size in octets of a recorded field of a session tracking control.
pub const TRACKING_SIZE_MAX: usize = 256;

/// Maximum number of session tracking controls of one request that are recorded.
pub const TRACKING_MAX: usize = 4;

/// Maximum number of attributes of one request that an event contains.
pub const AUDIT_ATTRIBUTES_MAX: usize = 64;
