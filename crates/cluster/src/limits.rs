//! All limits of a node, including the defaults of the settings of administrators
//! ([`NodeSettings`](crate::NodeSettings)).

use std::time::Duration;

/// Default time that a change may wait for the log or for the node that decides it. After that time the change is
/// refused.
pub const CHANGE_PATIENCE: Duration = Duration::from_secs(15);

/// Delay between attempts of a node to claim, to reach the writer, or to reach Kafka.
pub const RETRY: Duration = Duration::from_millis(250);

/// Time for which a node reports that it is not ready for changes, after the log or the writer did not accept a change.
pub const FAILURE_NOTED: Duration = Duration::from_secs(5);

/// Delay before a node reads again, if it has failed twice in a row to commit messages of the log.
pub const START_OVER: Duration = Duration::from_secs(5);

/// Maximum number of changes in one batch, and in one frame between nodes. It is less than the number of operation ids
/// that are stored per node.
pub const BATCH_WRITES_MAX: usize = 512;

/// Bytes of changes after which a batch or frame accepts no more.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Bytes of messages after which a node commits. The last message may exceed the limit.
pub const FOLLOW_BYTES_MAX: usize = 4 << 20;

/// Maximum bytes of messages that were read and not applied yet. A single message may be larger.
pub const READ_BYTES_MAX: usize = 64 << 20;

/// Maximum number of connections from other nodes.
pub const CONNECTIONS_MAX: usize = 64;

/// Maximum number of frames from other nodes that wait for their answers: one for each connection.
pub const FRAMES_MAX: usize = CONNECTIONS_MAX;

/// Time limit for a frame between nodes and its answers.
pub const FRAME_PATIENCE: Duration = Duration::from_secs(60);

/// Rate at which a node copies its data, in bytes of rows a second. The rate is limited because clients and other nodes
/// use the same disk.
pub const COPY_BYTES_PER_SECOND: u64 = 96 << 20;

/// Rate at which a node sends a copy of its data to another node, in bytes a second.
pub const SEND_BYTES_PER_SECOND: u64 = 48 << 20;

/// Default interval between comparisons of a slice of all nodes' data.
pub const DIGEST_INTERVAL: Duration = Duration::from_secs(3_600);

/// Default size of a slice, in bytes of rows.
pub const DIGEST_SLICE_BYTES: u64 = 1 << 30;

/// Niceness of the threads that read slices and copy data, because no client waits for them.
pub const BACKGROUND_NICENESS: i32 = 19;

/// Time to wait for missing node digests before comparing without them.
pub const DIGEST_PATIENCE: Duration = Duration::from_secs(600);

/// Minimum interval between two announcements of a node's commits.
pub const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_secs(60);

/// Default interval between the snapshots that a node makes by itself.
pub const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Delay after a failed snapshot before the next attempt.
pub const SNAPSHOT_RETRY: Duration = Duration::from_secs(600);

/// Delay between two attempts of the writer to delete from the log.
pub const TRIM_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of keys that a node stores.
pub const KEYS_MAX: usize = 4_096;

/// Time that the writer waits for nodes without the new key once most nodes have it.
pub const KEY_PATIENCE: Duration = Duration::from_secs(10);

/// Delay between two attempts of a node to offer a key, to announce that it has the offered key, or to fetch the key.
pub const KEY_RETRY: Duration = Duration::from_secs(2);

/// Validity of the certificates of a cluster, in days.
pub const CERTIFICATE_DAYS: i64 = 3_650;

/// Number of days before the end of its certificate at which a node begins to warn.
pub const CERTIFICATE_WARNING_DAYS: i64 = 90;

/// Milliseconds without a heartbeat after which a writer loses the election. Kafka's brokers accept no lower value by
/// default.
pub const SESSION_TIMEOUT: u32 = 6_000;

/// Milliseconds for which Kafka retries an append.
pub const APPEND_TIMEOUT: u32 = 10_000;

/// Maximum number of bytes that Kafka adds to a message: the head of a record batch with one record, and a key.
pub const MESSAGE_OVERHEAD: usize = 1_024;
