//! All limits of a node. Those that an administrator may set (see [`NodeSettings`](crate::NodeSettings)) have their
//! defaults here.

use std::time::Duration;

/// Default time that a change waits for a node that decides it, or for the log, before its client is refused.
pub const CHANGE_PATIENCE: Duration = Duration::from_secs(15);

/// Delay between two tries of a node to claim, to reach the writer, or to reach Kafka.
pub const RETRY: Duration = Duration::from_millis(250);

/// Delay of a node that failed twice in a row to commit messages of the log.
pub const START_OVER: Duration = Duration::from_secs(5);

/// Most changes in one batch, and in one frame between nodes. Fewer than the operation ids remembered of a node.
pub const BATCH_WRITES_MAX: usize = 512;

/// Bytes of changes in one batch or frame, after which it takes no more.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Bytes of messages that a node applies in one commit; one more message may follow.
pub const FOLLOW_BYTES_MAX: usize = 4 << 20;

/// Most bytes of messages that have been read and not been applied. A single message may be larger.
pub const READ_BYTES_MAX: usize = 64 << 20;

/// Most connections of other nodes.
pub const CONNECTIONS_MAX: usize = 64;

/// Most frames of other nodes that wait for their answers: one for each connection.
pub const FRAMES_MAX: usize = CONNECTIONS_MAX;

/// Time limit of a frame between nodes.
pub const FRAME_PATIENCE: Duration = Duration::from_secs(60);

/// Rate at which a node copies its data, in bytes of rows a second: clients and other nodes use the same disk.
pub const COPY_BYTES_PER_SECOND: u64 = 96 << 20;

/// Rate at which a node sends a copy of its data to another, in bytes a second.
pub const SEND_BYTES_PER_SECOND: u64 = 48 << 20;

/// Interval between comparisons of a slice of all nodes' data, by default.
pub const DIGEST_INTERVAL: Duration = Duration::from_secs(3_600);

/// Default size of a slice, in bytes of rows.
pub const DIGEST_SLICE_BYTES: u64 = 1 << 30;

/// Niceness of the threads that read slices and copy data, because no client waits for them.
pub const BACKGROUND_NICENESS: i32 = 19;

/// Time to wait for missing node digests before comparing without them.
pub const DIGEST_PATIENCE: Duration = Duration::from_secs(600);

/// Shortest interval between two announcements of what a node has committed.
pub const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_secs(60);

/// Interval between snapshots that a node makes on its own, by default.
pub const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Delay after a snapshot that failed.
pub const SNAPSHOT_RETRY: Duration = Duration::from_secs(600);

/// Delay between two tries of the writer to delete from the log.
pub const TRIM_INTERVAL: Duration = Duration::from_secs(10);

/// Most keys of a cluster that a node keeps.
pub const KEYS_MAX: usize = 4_096;

/// Time that the writer waits for nodes without the new key once most nodes have it.
pub const KEY_PATIENCE: Duration = Duration::from_secs(10);

/// Delay between two tries of a node to offer a key, to announce that it has one, or to fetch it.
pub const KEY_RETRY: Duration = Duration::from_secs(2);

/// Validity of the certificates of a cluster, in days.
pub const CERTIFICATE_DAYS: i64 = 3_650;

/// Days before the end of its certificate at which a node warns.
pub const CERTIFICATE_WARNING_DAYS: i64 = 90;

/// Milliseconds without a sign of life after which a writer loses the election. Kafka's brokers accept no fewer unless
/// they are set to.
pub const SESSION_TIMEOUT: u32 = 6_000;

/// Milliseconds for which an append is tried.
pub const APPEND_TIMEOUT: u32 = 10_000;

/// Most bytes that Kafka adds to a message: the head of a batch of one, and a key.
pub const MESSAGE_OVERHEAD: usize = 1_024;
