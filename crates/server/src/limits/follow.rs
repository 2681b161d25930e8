//! Limits of a copy of another server, and of the connection to that server.

use std::time::Duration;

/// Maximum number of changes of a followed server in one batch.
pub(crate) const FOLLOW_BATCH_CHANGES: usize = 512;
/// Maximum size of the changes of a followed server in one batch, in octets of memory.
pub(crate) const FOLLOW_BATCH_BYTES: usize = 1 << 20;

/// Maximum size of changes of a followed server that wait for other changes, in octets. Example: an entry that arrives
/// before its superior.
pub(crate) const FOLLOW_WAITING_BYTES_MAX: usize = 256 << 20;

/// Maximum size of entries of a followed server that are retained until their group of changes ends because they name
/// other entries, in octets.
pub(crate) const FOLLOW_LINKS_BYTES_MAX: usize = 64 << 20;

/// Maximum number of entries that are recorded and logged as not copied. Further ones are only counted.
pub(crate) const FOLLOW_REJECTED_MAX: usize = 10_000;

/// Interval between two checks of entries that a followed slapd may have changed without a message.
pub(crate) const FOLLOW_RECHECK: Duration = Duration::from_secs(5);

/// Interval between two late checks of such entries, because a busy slapd changes them late.
pub(crate) const FOLLOW_RECHECK_LATE: Duration = Duration::from_secs(60);

/// Maximum number of entries that one of these checks reads again.
pub(crate) const FOLLOW_RECHECKED_MAX: usize = 10_000;

/// Number of entries that a check reads at a time before messages of the source are processed.
pub(crate) const FOLLOW_RECHECK_SLICE: usize = 100;

/// Time to wait for a message of the source between two slices of a check.
pub(crate) const FOLLOW_RECHECK_WAIT: Duration = Duration::from_millis(1);

/// Maximum number of times that entries are read again at the end of a refresh because other entries were renamed
/// meanwhile.
pub(crate) const FOLLOW_REREADS_MAX: usize = 10;

/// Maximum number of entries of a refresh whose entryCSNs are recorded: the newest ones.
pub(crate) const FOLLOW_NEWEST_MAX: usize = 100_000;

/// Maximum time without a message of the followed server before it is asked for one. After the same time without an
/// answer the connection counts as broken.
pub(crate) const FOLLOW_SILENCE: Duration = Duration::from_secs(60);

/// Time limit of each step of connecting to the followed server.
pub(crate) const FOLLOW_CONNECT: Duration = Duration::from_secs(30);

/// Minimum delay before the next connection to the followed server.
pub(crate) const FOLLOW_RETRY_MIN: Duration = Duration::from_millis(250);
/// Maximum delay before the next connection to the followed server.
pub(crate) const FOLLOW_RETRY_MAX: Duration = Duration::from_secs(60);

/// Interval at which a followed server that does not send changes by itself is polled.
pub(crate) const FOLLOW_POLL: Duration = Duration::from_millis(500);

/// Number of polls, or of cookies of a source that sends changes, after which an entry that waits for others is given
/// up.
pub(crate) const FOLLOW_PATIENCE: u32 = 10;

/// Maximum number of changes in the answer to a poll.
pub(crate) const FOLLOW_POLL_CHANGES: u32 = 1_000;
/// Maximum size of the changed attributes in the answer to a poll, in octets.
pub(crate) const FOLLOW_POLL_BYTES: u32 = 1 << 20;

/// Number of entries per page that a polled server sends.
pub(crate) const FOLLOW_PAGE_ENTRIES: u32 = 500;

/// Interval at which a wait for the followed server checks whether the server stops.
pub(crate) const FOLLOW_LOOK: Duration = Duration::from_millis(250);
