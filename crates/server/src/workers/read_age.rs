//! Age of the data that a node of a cluster, or a replica, returns.
//!
//! A server that cannot read the log does not know which changes it lacks, but it knows when it last had all of them.
//! The data of the writer, or of a promoted replica, is never old, because that server appends to the log itself and
//! lacks no change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Last time at which a server had the whole log, and the maximum age of the data that it returns.
#[derive(Debug)]
pub(crate) struct ReadAge {
    max: Duration,
    began: Instant,
    /// Time at which the server last had the whole log, in milliseconds since `began`, plus one; 0 if unknown.
    complete: AtomicU64,
    /// Whether this server is the writer, whose data is never old.
    is_writer: AtomicBool,
}

impl ReadAge {
    /// Creates the state for data of unknown age.
    pub(crate) fn new(max: Duration, now: Instant) -> ReadAge {
        ReadAge { max, began: now, complete: AtomicU64::new(0), is_writer: AtomicBool::new(false) }
    }

    /// Records that this server has all changes that were in the log at the time `at`.
    pub(crate) fn is_complete_as_of(&self, at: Instant) {
        let millis =
            u64::try_from(at.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX - 1);
        self.complete.fetch_max(millis.saturating_add(1), Ordering::Relaxed);
    }

    /// Records whether this server is the writer from now on. If it ceases to be the writer, its data begins to age.
    pub(crate) fn decides(&self, is_writer: bool, now: Instant) {
        if self.is_writer.swap(is_writer, Ordering::Relaxed) && !is_writer {
            self.is_complete_as_of(now);
        }
    }

    /// Returns the reason to refuse reads at `now`; `None` if the data is not too old.
    pub(crate) fn too_old(&self, now: Instant) -> Option<String> {
        if self.is_writer.load(Ordering::Relaxed) {
            return None;
        }
        let Some(millis) = self.complete.load(Ordering::Relaxed).checked_sub(1) else {
            return Some(
                "this server has not had all of the log since it started: ask another server".to_owned(),
            );
        };
        let age = now.saturating_duration_since(self.began + Duration::from_millis(millis));
        (age > self.max).then(|| {
            let (age, max) = (age.as_secs(), self.max.as_secs());
            format!(
                "this server may lack changes of {age} seconds, and {max} are allowed (read_age_seconds): ask another \
                 server"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_not_older_than_allowed() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let age = ReadAge::new(Duration::from_secs(5), start);
        assert!(age.too_old(start).unwrap().contains("since it started"));
        age.is_complete_as_of(start);
        assert_eq!(age.too_old(after(5_000)), None);
        assert!(age.too_old(after(5_001)).unwrap().contains("changes of 5 seconds, and 5 are allowed"));
        age.is_complete_as_of(after(4_000));
        // Reports may arrive out of order.
        age.is_complete_as_of(after(1_000));
        assert_eq!(age.too_old(after(9_000)), None);
        assert!(age.too_old(after(9_001)).is_some());
    }

    #[test]
    fn the_data_of_the_writer_is_never_old() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let age = ReadAge::new(Duration::from_secs(5), start);
        age.decides(false, after(60));
        assert!(age.too_old(after(60)).unwrap().contains("since it started"), "it never was the writer");
        age.decides(true, after(60));
        assert_eq!(age.too_old(after(3_600)), None);
        age.decides(false, after(3_600));
        assert_eq!(age.too_old(after(3_605)), None);
        assert!(age.too_old(after(3_606)).is_some());
    }
}
