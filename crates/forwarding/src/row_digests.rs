//! Digests of the rows of a slice. Nodes of a cluster compare their data with these digests, and so do replicas and
//! suppliers. The rows are read on the caller's thread, at most at [`DIGEST_BYTES_PER_SECOND`].

use std::ops::ControlFlow;
use std::sync::Weak;
use std::time::Instant;

use directory::{Snapshot, digest};
use replication::digest::{Parts, RollingDigest};
use replication::{PlannedSlice, Slice};
use system::RateLimit;

/// Maximum rate of reading a slice, in bytes per second. It is limited because clients use the same disk and page
/// cache.
pub const DIGEST_BYTES_PER_SECOND: u64 = 64 << 20;

/// Bytes of rows between two checks of the clock.
const PACE_BYTES: u64 = 1 << 20;

/// Error of a thread whose owner has ended. No user sees it.
const ENDED: &str = "the server ends";

/// Limit on the rate of reading rows. Reading stops when the owner drops its strong reference.
struct Pace {
    started: Instant,
    limit: RateLimit,
    bytes: u64,
    looked_at: u64,
    alive: Weak<()>,
}

impl Pace {
    fn new(alive: Weak<()>) -> Pace {
        Pace {
            started: Instant::now(),
            limit: RateLimit::new(DIGEST_BYTES_PER_SECOND),
            bytes: 0,
            looked_at: 0,
            alive,
        }
    }

    /// Counts bytes to be read, and waits if necessary. Breaks if the owner has ended.
    fn step(&mut self, bytes: u64) -> ControlFlow<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes - self.looked_at < PACE_BYTES {
            return ControlFlow::Continue(());
        }
        self.looked_at = self.bytes;
        self.limit.wait(self.bytes);
        match self.alive.strong_count() {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Plans the slice that begins at the row key `from`, from the rows of a snapshot. Stops if the owner drops its
/// reference to `alive`.
///
/// # Errors
/// The store failed, or the owner ended.
pub fn plan(
    snapshot: &Snapshot,
    from: Vec<u8>,
    bytes_max: u64,
    alive: Weak<()>,
) -> Result<PlannedSlice, String> {
    let mut pace = Pace::new(alive);
    let planned = digest::plan(snapshot, &from, bytes_max, &mut |bytes| pace.step(bytes));
    let (to, bytes) = planned.map_err(|error| error.to_string())?.ok_or(ENDED)?;
    Ok(PlannedSlice { slice: Slice { from, to }, bytes })
}

/// Computes the digests of the rows of a slice, by part. Stops if the owner drops its reference to `alive`.
///
/// # Errors
/// The store failed, or the owner ended.
pub fn digests(snapshot: &Snapshot, slice: &Slice, alive: Weak<()>) -> Result<Parts, String> {
    let (mut pace, mut rows) = (Pace::new(alive), 0_u64);
    let mut parts = Parts::new();
    // The digest of the last part is cached, because most rows belong to the same part as the previous row.
    let mut last: (String, RollingDigest) = Default::default();
    let mut add = |part: &str, key: &[u8], value: &[u8]| {
        if last.0 != part {
            let next = parts.remove(part).unwrap_or_default();
            let (name, digest) = std::mem::replace(&mut last, (part.to_owned(), next));
            parts.insert(name, digest);
        }
        last.1.add(key, value);
        rows += 1;
        pace.step(digest::row_cost(key, value))
    };
    let rows_wanted = digest::RowSlice { from: &slice.from, to: &slice.to };
    if digest::each_row(snapshot, rows_wanted, &mut add).map_err(|error| error.to_string())?.is_break() {
        return Err(ENDED.to_owned());
    }
    tracing::debug!(
        rows,
        bytes = pace.bytes,
        millis = pace.started.elapsed().as_millis(),
        "a slice is summed up"
    );
    parts.insert(last.0, last.1);
    parts.remove("");
    Ok(parts)
}
