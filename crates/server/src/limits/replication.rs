//! Limits of replication: the log, copies of the data, comparisons and forwarded changes.

use std::time::Duration;

/// Maximum time without an answer of a replica's supplier. After that time the replica is not ready for changes.
pub const SUPPLIER_ANSWER_MAX: Duration = Duration::from_secs(3);

/// Maximum size of the records in an answer to a replica, in octets. The first record may be larger than this.
pub const LOG_BLOCK_BYTES: usize = 512 << 10;

/// Maximum number of requests by replicas that wait for records.
pub const LOG_READS_MAX: usize = 1_024;

/// Maximum time for which a replica's request waits for records.
pub const LOG_WAIT_MAX: Duration = Duration::from_secs(2);

/// Size of the blocks of records that are cached for other replicas, in octets. The last block may exceed this size.
pub const LOG_BLOCKS_BYTES: usize = 8 << 20;

/// Each answer to a replica delays the next records by this time. If there are many replicas, this leaves processor
/// time for changes.
pub const LOG_ANSWER_PAUSE: Duration = Duration::from_micros(200);

/// Each record that is sent to replicas delays the next records by this time, up to [`LOG_RECORDS_PAUSE_MAX`]. So a few
/// changes a second arrive at once, and many changes arrive in a few large answers.
pub const LOG_RECORD_PAUSE: Duration = Duration::from_micros(50);

/// Maximum delay by [`LOG_RECORD_PAUSE`].
pub const LOG_RECORDS_PAUSE_MAX: Duration = Duration::from_millis(3);

/// Maximum total delay of records that follow others.
pub const LOG_PAUSE_MAX: Duration = Duration::from_millis(20);

/// Interval at which a slice of the data is compared with the replicas.
pub const COMPARE_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum size of the slice of data in one comparison, in octets of rows.
pub const COMPARE_SLICE_BYTES: u64 = 256 << 20;

/// Nice value of the thread that reads the slice for a comparison. No client waits for it.
pub const DIGEST_NICENESS: i32 = 19;

/// Maximum number of differing parts of the data that a message lists.
pub const DIFFERING_PARTS_LOGGED: usize = 20;

/// Maximum number of replicas that have their own figures in the metrics.
pub const REPLICAS_NAMED_MAX: usize = 100;

/// Time for which the monitor shows a replica after its last request.
pub const CONSUMER_KEPT: Duration = Duration::from_secs(10);

/// Maximum time for which a replica waits for an event.
pub const REPLICA_TICK: Duration = Duration::from_millis(100);

/// Time limit of each step when a replica connects to its supplier.
pub const REPLICA_CONNECT: Duration = Duration::from_secs(5);

/// Time for which the supplier may keep a replica's request until there are records.
pub const REPLICA_LOOK: Duration = Duration::from_millis(500);

/// Time without an answer of the supplier after which a replica connects again.
pub const REPLICA_SILENCE: Duration = Duration::from_secs(30);

/// Minimum delay before a replica connects again.
pub const REPLICA_RETRY_MIN: Duration = Duration::from_millis(200);

/// Maximum delay before a replica connects again.
pub const REPLICA_RETRY_MAX: Duration = Duration::from_secs(5);

/// Delay before a replica asks its supplier again, if the supplier has no records for it.
pub const REPLICA_HALTED_RETRY: Duration = Duration::from_secs(30);

/// Maximum number of answers with records that a replica has received and not yet applied.
pub const BLOCKS_WAITING_MAX: usize = 4;

/// Size of a commit in octets at which a replica adds no further records to it.
pub const APPLY_BYTES_MAX: usize = 1 << 20;

/// Delay before a replica tries again to apply records.
pub const APPLY_RETRY: Duration = Duration::from_millis(500);

/// Maximum time for which a change waits on a replica. After that time the client's request is refused.
pub const FORWARD_PATIENCE: Duration = Duration::from_secs(15);

/// Maximum number of changes that a replica forwards in one group.
pub const FORWARD_MAX: usize = 128;

/// Size of a group of forwarded changes in octets at which a replica adds no further change to it.
pub const FORWARD_BYTES_MAX: usize = 1 << 20;

/// Idle time after which a connection for forwarded changes is tested before it is used again.
pub const FORWARD_IDLE: Duration = Duration::from_secs(1);

/// Maximum time for which a replica that stops waits for the answers to forwarded changes.
pub const REPLICA_STOP: Duration = Duration::from_secs(5);

/// Size of a part of a copy of the data, in octets before compression.
pub const COPY_PART_BYTES: usize = 1 << 20;

/// Maximum number of requests for parts of a copy that wait for the thread that answers them.
pub const COPY_READS_MAX: usize = 256;

/// Number of parts that a new replica requests before the first of them has arrived.
pub const COPY_PIPELINE: usize = 4;

/// Maximum number of attempts that a new replica makes to copy the data.
pub const COPY_TRIES: u32 = 10;

/// Delay between two attempts to copy the data.
pub const COPY_RETRY: Duration = Duration::from_secs(1);

/// Maximum time for which a request for a part waits until the copy is ready. If the copy is not ready then, the answer
/// contains no part.
pub const COPY_WAIT: Duration = Duration::from_secs(1);

/// Time for which a copy of the data remains on disk after its last use.
pub const COPY_KEPT: Duration = Duration::from_secs(60);

/// Rate at which a copy for replicas is made, in octets of rows per second.
pub const REPLICA_COPY_BYTES_PER_SECOND: u64 = 512 << 20;

/// Number of received octets after which a replica syncs the copy that it is receiving.
pub const COPY_SYNC_BYTES: u64 = 64 << 20;
