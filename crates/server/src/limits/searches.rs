//! Limits of searches: slices, scan threads, prefetching, persistent searches and index advice.

use std::time::Duration;

use directory::index::sizes::SampleBounds;

/// Default maximum number of persistent searches. If there are more, a search is answered `busy`.
pub const PERSISTENT_SEARCHES_MAX: usize = 10_000;

/// Divisor of [`PERSISTENT_SEARCHES_MAX`]. The quotient is the maximum number for one identity or one source. This
/// maximum applies only while at least half of [`PERSISTENT_SEARCHES_MAX`] searches are running.
pub const PERSISTENT_SEARCHES_SHARE_DIVISOR: usize = 8;

/// Divisor of [`PERSISTENT_SEARCHES_MAX`]. The quotient is the number of searches that are reserved for the
/// administrator.
pub const PERSISTENT_SEARCHES_RESERVE_DIVISOR: usize = 16;

/// Maximum number of steps through the log that an event loop makes for its persistent searches before it serves
/// connections again.
pub const FEED_STEPS: u32 = 1_000;

/// Maximum time for which an event loop waits for persistent searches that are still sending notifications about the
/// last set of changes. After that time it reads further changes.
pub const FEED_PATIENCE: Duration = Duration::from_millis(100);

/// Maximum number of entries that a search examines in one slice. After it, other connections have their turns. A slice
/// takes less than a millisecond.
pub const SLICE_ENTRIES_MAX: u32 = 250;

/// Maximum time that an event loop spends on connections with unfinished work. After that, it checks whether new
/// requests have arrived.
pub const READY_TIME_MAX: Duration = Duration::from_millis(1);

/// Maximum size of the results that a search adds in one slice, in octets.
pub const SLICE_BYTES_MAX: usize = 64 << 10;

/// Minimum number of remaining candidates with which a search moves to the scan threads. The event loop itself finishes
/// a smaller search sooner.
pub const SCAN_CANDIDATES_MIN: u64 = 2_048;

/// Maximum number of candidates that a scan thread examines before it continues with another search. These candidates
/// take about a millisecond.
pub const SCAN_ENTRIES_MAX: u32 = 4_096;

/// Maximum number of searches on the scan threads. Any further searches stay on the event loops.
pub const SCANS_MAX: usize = 128;

/// Maximum number of searches of one identity on the scan threads. Therefore one identity cannot use up [`SCANS_MAX`].
pub const SCANS_OF_IDENTITY_MAX: usize = SCANS_MAX / 2;

/// Maximum number of clients whose use of the scan threads by unindexed searches is recorded.
pub const SCAN_TALLIES_MAX: usize = if cfg!(test) { 100 } else { 8_192 };

/// Maximum number of filter shapes in the statistics about missing indexes. Together with [`ADVISED_INDEXES_MAX`] and
/// [`ADVISED_FILTERS_MAX`], it limits the size of the statistics to less than 100 KiB.
pub const ADVISED_SHAPES_MAX: usize = 64;
/// Maximum number of missing indexes that are recorded for one filter shape.
pub const ADVISED_INDEXES_MAX: usize = 8;
/// Maximum number of filters that are shown with a proposed index.
pub const ADVISED_FILTERS_MAX: usize = 3;

/// Size in octets of the results that wait for the client of one search. At this size the scan threads stop working on
/// the search. Together with [`SCANS_MAX`], it limits all waiting results to 64 MiB.
pub const SCAN_BYTES_WAITING_MAX: usize = 512 << 10;

/// Maximum number of completed parts of one search that wait for an earlier part. Parts without results count too.
pub const SCAN_PIECES_WAITING_MAX: usize = 256;

/// Nice value of the scan threads. 19 is the lowest priority.
pub const SCAN_NICENESS: i32 = 19;

/// Default maximum number of prefetch threads, for data that is larger than memory. A disk can perform about as many
/// page reads at once.
pub const READ_AHEAD_THREADS: usize = 64;

/// Memory that the machine must have for each prefetch thread, in octets. After its first work, a thread occupies half
/// a megabyte.
pub const READ_AHEAD_MEMORY_PER_THREAD: u64 = 16 << 20;

/// Nice value of the prefetch threads. The event loops run before them, because their clients may need only pages that
/// are in memory.
pub const READ_AHEAD_NICENESS: i32 = 10;

/// Maximum number of requests that one thread prefetches in a row.
pub const READ_AHEAD_MESSAGES: usize = 4;

/// Maximum number of prefetch jobs that one thread takes at a time. The thread requests the pages of these jobs from
/// the disk together.
pub const READ_AHEAD_PAGES: usize = 16;

/// Maximum number of requests of one connection that are checked for missing pages at a time.
pub const READ_AHEAD_LOOKS: usize = 16;

/// Maximum number of entries for which the event loop itself checks a search for missing pages. If there are more
/// entries, a prefetch thread checks the search.
pub const READ_AHEAD_LOOK_ENTRIES: u32 = 4;

/// Maximum number of prefetch rounds in a row for one request. A request follows a few paths of about five pages each,
/// from a root to a row. If more rounds are necessary, memory is so short that pages are evicted before they are read.
pub const READ_AHEAD_ROUNDS: u8 = 32;

/// Interval at which an event loop checks how long it has waited for the disk.
pub const COLD_TICK: Duration = Duration::from_millis(100);

/// Minimum wait for the disk in one [tick](COLD_TICK) that starts prefetching. It is an eighth of the tick. A shorter
/// wait costs less than a dry run of each request.
pub const COLD_WAIT_MIN: Duration = Duration::from_micros(12_500);

/// Minimum number of missing pages in one tick that starts prefetching, however long the loop has waited.
pub const COLD_PAGES_MIN: u32 = 8;

/// Number of consecutive ticks with a wait of less than [`COLD_WAIT_MIN`] after which an event loop stops prefetching.
pub const COLD_TICKS: u32 = 20;

/// Maximum size of the sample from which the sizes of indexes are estimated.
pub const INDEX_SAMPLE: SampleBounds = SampleBounds { entries_max: 1_000, rows_max: 200_000 };

/// Minimum time between two measurements of the sizes of indexes.
pub const INDEX_SIZES_FRESH: Duration = Duration::from_secs(10);

/// Factor on the duration of a measurement of the sizes of indexes. The product is another minimum for the time between
/// two measurements.
pub const INDEX_SIZES_PAUSE: u32 = 100;
