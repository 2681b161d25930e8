//! Limits of requests to a bucket that stores a backup.

use std::time::Duration;

/// Size of a part of a file that is uploaded to a bucket, in octets. A part is held in memory.
pub(crate) const BUCKET_PART_BYTES: usize = 16 << 20;

/// Maximum number of parts of a file in S3.
pub(crate) const BUCKET_PARTS_MAX: usize = 10_000;

/// Maximum size of a small file of a bucket that is read, in octets.
pub(crate) const BUCKET_SMALL_BYTES: u64 = 64 << 10;

/// Time limit for the response headers of a request that sends at most one part.
pub(crate) const BUCKET_REQUEST: Duration = Duration::from_secs(120);

/// Maximum size of a response that is not an object, such as a page of a list or an error, in octets.
pub(crate) const BUCKET_ANSWER_BYTES: u64 = 16 << 20;

/// Maximum total size of such responses between two lists, in octets: enough for a list of some 300,000 objects.
pub(crate) const BUCKET_LIST_BYTES: u64 = 128 << 20;

/// Maximum time without a byte of a response.
pub(crate) const BUCKET_STALL: Duration = Duration::from_secs(30);

/// Maximum number of retries of a request after transient failures.
pub(crate) const BUCKET_RETRIES: usize = 8;

/// Maximum time for all attempts at a request.
pub(crate) const BUCKET_RETRY_TIME: Duration = Duration::from_secs(150);

/// Interval at which a request to a bucket checks whether the server stops.
pub(crate) const BUCKET_STOP_LOOK: Duration = Duration::from_millis(200);

/// Time limit for aborting an upload.
pub(crate) const BUCKET_ABORT: Duration = Duration::from_secs(5);

/// Time without renewal after which the lock of a bucket is invalid.
pub(crate) const BUCKET_LEASE: Duration = Duration::from_secs(1_800);

/// Age of the lock of a bucket at which its holder renews it.
pub(crate) const BUCKET_LEASE_RENEWED: Duration = Duration::from_secs(120);

/// Delay after which a process that replaced an invalid lock of a bucket verifies that the lock is its own.
pub(crate) const BUCKET_LOCK_SETTLED: Duration = Duration::from_secs(1);
