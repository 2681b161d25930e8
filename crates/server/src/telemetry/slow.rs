//! Operations that took longer than a threshold. Each is counted, but the rate of the log lines is bounded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::limits::{SLOW_LINES_MAX, SLOW_LINES_PERIOD};

/// The number of slow operations, and the log lines about them in the current period.
#[derive(Debug, Default)]
pub(crate) struct SlowOperations {
    count: AtomicU64,
    period: Mutex<Option<Period>>,
}

#[derive(Debug)]
struct Period {
    began: Instant,
    lines: u32,
    /// Number of operations that were not logged since the last log line.
    omitted: u64,
}

impl SlowOperations {
    /// Returns the number of slow operations.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a slow operation. Returns `None` if it must not be logged. Otherwise returns the number of operations
    /// that were not logged since the last log line.
    pub(crate) fn happened(&self, now: Instant) -> Option<u64> {
        self.count.fetch_add(1, Ordering::Relaxed);
        // The period is consistent after each statement. Therefore a poisoned lock is usable.
        let mut period = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        let period = period.get_or_insert(Period { began: now, lines: 0, omitted: 0 });
        if now.saturating_duration_since(period.began) >= SLOW_LINES_PERIOD {
            (period.began, period.lines) = (now, 0);
        }
        if period.lines >= SLOW_LINES_MAX {
            period.omitted += 1;
            return None;
        }
        period.lines += 1;
        Some(std::mem::take(&mut period.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_limited_and_the_next_one_counts_the_omitted() {
        let (slow, now) = (SlowOperations::default(), Instant::now());
        for _ in 0..SLOW_LINES_MAX {
            assert_eq!(slow.happened(now), Some(0));
        }
        assert_eq!((slow.happened(now), slow.happened(now)), (None, None));
        assert_eq!(slow.happened(now + SLOW_LINES_PERIOD), Some(2));
        assert_eq!(slow.happened(now + SLOW_LINES_PERIOD), Some(0));
        assert_eq!(slow.count(), u64::from(SLOW_LINES_MAX) + 4);
    }
}
