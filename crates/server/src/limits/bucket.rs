//! Limits of the requests to a bucket with a backup.

use std::time::Duration;

/// Size of a part of a file that is uploaded to a bucket, in octets. The part is held in memory.
pub(crate) const BUCKET_PART_BYTES: usize = 16 << 20;

/// Maximum number of parts of a file in S3.
pub(crate) const BUCKET_PARTS_MAX: usize = 10_000;

/// Maximum number of octets of a small file that are read from a bucket.
pub(crate) const BUCKET_SMALL_BYTES: u64 = 64 << 10;

/// Time limit until the headers of a response arrive. A request sends at most one part.
pub(crate) const BUCKET_REQUEST: Duration = Duration::from_secs(120);

/// Maximum size of a response that is held in memory, in octets. Examples: a page of a list, an error.
pub(crate) const BUCKET_ANSWER_BYTES: u64 = 16 << 20;

/// Maximum total size of the responses held in memory between two lists, in octets. This is enough for a list of about
/// 300,000 objects.
pub(crate) const BUCKET_LIST_BYTES: u64 = 128 << 20;

/// Maximum time for which a response may send nothing.
pub(crate) const BUCKET_STALL: Duration = Duration::from_secs(30);

/// Maximum number of repetitions of a request after failures that may be transient.
pub(crate) const BUCKET_RETRIES: usize = 8;

/// Maximum time for a request and all of its repetitions.
pub(crate) const BUCKET_RETRY_TIME: Duration = Duration::from_secs(150);

/// Interval at which a waiting request checks whether the server stops.
pub(crate) const BUCKET_STOP_LOOK: Duration = Duration::from_millis(200);

/// Time limit of the request that aborts an upload.
pub(crate) const BUCKET_ABORT: Duration = Duration::from_secs(5);

/// Time after which the lock of a bucket becomes void if it is not renewed.
pub(crate) const BUCKET_LEASE: Duration = Duration::from_secs(1_800);

/// Age of the lock of a bucket at which its holder renews it.
pub(crate) const BUCKET_LEASE_RENEWED: Duration = Duration::from_secs(120);

/// Time that a process waits after it has replaced a void lock of a bucket. After the wait, it checks whether its own
/// lock is still there.
pub(crate) const BUCKET_LOCK_SETTLED: Duration = Duration::from_secs(1);
