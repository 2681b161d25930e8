//! Bounds on a copy of another server, and on the connection to it.

use std::time::Duration;

/// Changes of a followed server that are made together, and their octets in memory.
pub(crate) const FOLLOW_BATCH_CHANGES: usize = 512;
/// See [`FOLLOW_BATCH_CHANGES`].
pub(crate) const FOLLOW_BATCH_BYTES: usize = 1 << 20;

/// Octets of changes of a followed server that wait for others, such as entries that come before their superiors.
pub(crate) const FOLLOW_WAITING_BYTES_MAX: usize = 256 << 20;

/// Octets of entries of a followed server that are kept until their group of changes ends, because they name others.
pub(crate) const FOLLOW_LINKS_BYTES_MAX: usize = 64 << 20;

/// Entries of a followed server that are remembered and logged as not copied; further ones are only counted.
pub(crate) const FOLLOW_REJECTED_MAX: usize = 10_000;

/// Interval between two checks of entries that a followed slapd may have changed without a message.
pub(crate) const FOLLOW_RECHECK: Duration = Duration::from_secs(5);

/// Interval between two later checks of the same entries: a busy slapd changes them late.
pub(crate) const FOLLOW_RECHECK_LATE: Duration = Duration::from_secs(60);

/// Most entries that are read again at such a check.
pub(crate) const FOLLOW_RECHECKED_MAX: usize = 10_000;

/// Entries that are read again at a time, before messages of the source are taken.
pub(crate) const FOLLOW_RECHECK_SLICE: usize = 100;

/// Wait for a message of the source between two such slices.
pub(crate) const FOLLOW_RECHECK_WAIT: Duration = Duration::from_millis(1);

/// Most times that entries are read again at the end of a refresh, because others were renamed meanwhile.
pub(crate) const FOLLOW_REREADS_MAX: usize = 10;

/// Entries of a refresh of a followed server whose entryCSNs are remembered, the latest ones.
pub(crate) const FOLLOW_NEWEST_MAX: usize = 100_000;

/// Longest time without a message of the followed server before it is asked for one, and again until the connection
/// counts as broken.
pub(crate) const FOLLOW_SILENCE: Duration = Duration::from_secs(60);

/// Longest wait for the followed server's network at each step of a connection.
pub(crate) const FOLLOW_CONNECT: Duration = Duration::from_secs(30);

/// Shortest and longest pause before the next connection to the followed server.
pub(crate) const FOLLOW_RETRY_MIN: Duration = Duration::from_millis(250);
/// See [`FOLLOW_RETRY_MIN`].
pub(crate) const FOLLOW_RETRY_MAX: Duration = Duration::from_secs(60);

/// Interval between questions for changes to a followed server that does not send them by itself.
pub(crate) const FOLLOW_POLL: Duration = Duration::from_millis(500);

/// Questions for changes, or cookies of a source that sends them, after which an entry that waits for others is given
/// up.
pub(crate) const FOLLOW_PATIENCE: u32 = 10;

/// Most changes, and octets of changed attributes, of an answer to such a question.
pub(crate) const FOLLOW_POLL_CHANGES: u32 = 1_000;
/// See [`FOLLOW_POLL_CHANGES`].
pub(crate) const FOLLOW_POLL_BYTES: u32 = 1 << 20;

/// Entries that such a server sends at a time.
pub(crate) const FOLLOW_PAGE_ENTRIES: u32 = 500;

/// Interval at which a wait for the followed server looks whether the server stops.
pub(crate) const FOLLOW_LOOK: Duration = Duration::from_millis(250);
