//! Limits of the copy of a followed server's tree, and of the connection to that server.

use std::time::Duration;

/// Maximum number of changes of a followed server in one batch.
pub(crate) const FOLLOW_BATCH_CHANGES: usize = 512;
/// Maximum size of the changes of a followed server in one batch, in octets of memory.
pub(crate) const FOLLOW_BATCH_BYTES: usize = 1 << 20;

/// Maximum size of a followed server's changes that wait for other changes, in octets. For example, an entry waits if
/// it arrives before its superior.
pub(crate) const FOLLOW_WAITING_BYTES_MAX: usize = 256 << 20;

/// Maximum size of a followed server's entries that are held in memory until their group of changes ends, in octets. An
/// entry is held if it names other entries.
pub(crate) const FOLLOW_LINKS_BYTES_MAX: usize = 64 << 20;

/// Maximum number of entries that are recorded and logged as not copied. Any further entries are only counted.
pub(crate) const FOLLOW_REJECTED_MAX: usize = 10_000;

/// Interval between two checks of the entries that a followed slapd may have changed without sending a message about
/// it.
pub(crate) const FOLLOW_RECHECK: Duration = Duration::from_secs(5);

/// Interval between two late checks of the entries that a followed slapd may have changed without sending a message.
/// Late checks are necessary because a busy slapd makes such changes late.
pub(crate) const FOLLOW_RECHECK_LATE: Duration = Duration::from_secs(60);

/// Maximum number of entries that one check reads again.
pub(crate) const FOLLOW_RECHECKED_MAX: usize = 10_000;

/// Number of entries that a check reads before the source's messages are processed again.
pub(crate) const FOLLOW_RECHECK_SLICE: usize = 100;

/// Time for which a check waits for a message of the source after each slice of entries.
pub(crate) const FOLLOW_RECHECK_WAIT: Duration = Duration::from_millis(1);

/// Maximum number of times that entries are read again at the end of a refresh. The entries are read again whenever
/// other entries were renamed during the previous reading.
pub(crate) const FOLLOW_REREADS_MAX: usize = 10;

/// Maximum number of entries of a refresh whose entryCSN is recorded. The newest entries are recorded.
pub(crate) const FOLLOW_NEWEST_MAX: usize = 100_000;

/// Time without a message after which the followed server is asked for a message. If no answer arrives within the same
/// time, the connection counts as broken.
pub(crate) const FOLLOW_SILENCE: Duration = Duration::from_secs(60);

/// Time limit of each step of connecting to the followed server.
pub(crate) const FOLLOW_CONNECT: Duration = Duration::from_secs(30);

/// Minimum delay before the next connection to the followed server.
pub(crate) const FOLLOW_RETRY_MIN: Duration = Duration::from_millis(250);
/// Maximum delay before the next connection to the followed server.
pub(crate) const FOLLOW_RETRY_MAX: Duration = Duration::from_secs(60);

/// Interval at which a followed server is asked for changes if it does not send them by itself.
pub(crate) const FOLLOW_POLL: Duration = Duration::from_millis(500);

/// Number of polls after which an entry that waits for other entries is given up. If the source sends changes by
/// itself, its cookies are counted instead of polls.
pub(crate) const FOLLOW_PATIENCE: u32 = 10;

/// Maximum number of changes in the answer to a poll.
pub(crate) const FOLLOW_POLL_CHANGES: u32 = 1_000;
/// Maximum size of the changed attributes in the answer to a poll, in octets.
pub(crate) const FOLLOW_POLL_BYTES: u32 = 1 << 20;

/// Number of changed entries that are read in one search, so that a distant source is not asked for each alone.
pub(crate) const FOLLOW_READ_ENTRIES: usize = 32;
/// Size of the values from which the other entries of such a search are read one by one, in octets.
pub(crate) const FOLLOW_READ_BYTES: usize = 16 << 20;

/// Number of entries per page that are requested from a polled server.
pub(crate) const FOLLOW_PAGE_ENTRIES: u32 = 500;

/// Interval at which a thread that waits for the followed server checks whether this server stops.
pub(crate) const FOLLOW_LOOK: Duration = Duration::from_millis(250);
