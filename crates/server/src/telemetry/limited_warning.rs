//! Warnings that untrusted clients can cause as often as they want. Each occurrence is counted, but the rate of the log
//! lines is bounded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::limits::WARNING_INTERVAL;

/// The number of occurrences of one kind of warning, and the time of its last log line.
#[derive(Debug, Default)]
pub(crate) struct LimitedWarning {
    count: AtomicU64,
    /// Time of the last log line, and the number of occurrences up to then.
    logged: Mutex<Option<(Instant, u64)>>,
}

impl LimitedWarning {
    /// Returns the number of occurrences.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts an occurrence. Returns `None` if it must not be logged. Otherwise returns the text with which the log
    /// line must end. It contains the number of occurrences that were not logged.
    pub(crate) fn happened(&self, now: Instant) -> Option<String> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        // The time and the number are replaced in one step. Therefore a poisoned lock is usable.
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match *logged {
            Some((at, _)) if now.saturating_duration_since(at) < WARNING_INTERVAL => None,
            before => {
                *logged = Some((now, count));
                Some(match count.saturating_sub(before.map_or(0, |(_, count)| count) + 1) {
                    0 => String::new(),
                    more => format!("; {more} more like it before"),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_states_the_number_of_omitted_lines() {
        let (seldom, now) = (LimitedWarning::default(), Instant::now());
        assert_eq!(seldom.happened(now), Some(String::new()));
        assert_eq!((seldom.happened(now), seldom.happened(now)), (None, None));
        assert_eq!(seldom.happened(now + WARNING_INTERVAL).as_deref(), Some("; 2 more like it before"));
        assert_eq!(seldom.happened(now + WARNING_INTERVAL * 2), Some(String::new()));
    }
}
