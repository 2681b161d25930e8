//! Age of the data that a node of a cluster returns. A node that cannot read the log does not know which changes it
//! lacks; it knows when it last had all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Last time at which a node had the whole log, and the age up to which it may serve reads.
#[derive(Debug)]
pub(crate) struct ReadAge {
    max: Duration,
    began: Instant,
    /// Milliseconds from `began` to the last such time, plus one; 0 while none is known.
    complete: AtomicU64,
}

impl ReadAge {
    /// Makes a record without a known time.
    pub(crate) fn new(max: Duration, now: Instant) -> ReadAge {
        ReadAge { max, began: now, complete: AtomicU64::new(0) }
    }

    /// Notes that this node has all that was in the log at that time.
    pub(crate) fn is_complete_as_of(&self, at: Instant) {
        let millis =
            u64::try_from(at.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX - 1);
        self.complete.fetch_max(millis.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns the reason to refuse reads now, if the data may be too old.
    pub(crate) fn too_old(&self, now: Instant) -> Option<String> {
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
        // Answers may arrive out of order.
        age.is_complete_as_of(after(1_000));
        assert_eq!(age.too_old(after(9_000)), None);
        assert!(age.too_old(after(9_001)).is_some());
    }
}
