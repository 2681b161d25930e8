//! Bounds on the requests to a bucket that has a backup.

use std::time::Duration;

/// Bytes of a part of a file that is uploaded to a bucket, which are kept in memory.
pub(crate) const BUCKET_PART_BYTES: usize = 16 << 20;

/// Most parts of a file that S3 takes.
pub(crate) const BUCKET_PARTS_MAX: usize = 10_000;

/// Most bytes that are read of a small file of a bucket.
pub(crate) const BUCKET_SMALL_BYTES: u64 = 64 << 10;

/// Longest time until the head of a response to a request of at most one part.
pub(crate) const BUCKET_REQUEST: Duration = Duration::from_secs(120);

/// Most bytes of a response of a bucket that is not an object: a page of a list, or an error.
pub(crate) const BUCKET_ANSWER_BYTES: u64 = 16 << 20;

/// Most bytes of such responses from one list to the next: the list of some 300,000 objects.
pub(crate) const BUCKET_LIST_BYTES: u64 = 128 << 20;

/// Longest time without a byte of a response.
pub(crate) const BUCKET_STALL: Duration = Duration::from_secs(30);

/// Most repetitions of a request that failed for reasons that may pass.
pub(crate) const BUCKET_RETRIES: usize = 8;

/// Longest time for all attempts at a request.
pub(crate) const BUCKET_RETRY_TIME: Duration = Duration::from_secs(150);

/// Interval at which a request to a bucket looks whether the server stops.
pub(crate) const BUCKET_STOP_LOOK: Duration = Duration::from_millis(200);

/// Longest time to abort an upload.
pub(crate) const BUCKET_ABORT: Duration = Duration::from_secs(5);

/// Time without renewal after which the lock of a bucket is void.
pub(crate) const BUCKET_LEASE: Duration = Duration::from_secs(1_800);

/// Age of the lock of a bucket at which its holder renews it.
pub(crate) const BUCKET_LEASE_RENEWED: Duration = Duration::from_secs(120);

/// Time after which a process that replaced a void lock of a bucket reads whose lock it is.
pub(crate) const BUCKET_LOCK_SETTLED: Duration = Duration::from_secs(1);
