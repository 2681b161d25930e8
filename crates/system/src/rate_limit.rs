//! Rate limit for background work, so that it does not slow down other work.

use std::time::{Duration, Instant};

/// Limits the average rate of a thread's work since the start.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    begun: Instant,
    per_second: u64,
}

impl RateLimit {
    /// Starts a limit of `per_second` units of work, measured from now on.
    pub fn new(per_second: u64) -> RateLimit {
        RateLimit { begun: Instant::now(), per_second }
    }

    /// Sleeps until the work `done` since the start is within the limit.
    pub fn wait(&self, done: u64) {
        std::thread::sleep(self.due(done).saturating_sub(self.begun.elapsed()));
    }

    /// Returns the minimum time that `done` units of work may take.
    fn due(&self, done: u64) -> Duration {
        Duration::from_millis(done.saturating_mul(1_000) / self.per_second.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_due_time_is_the_amount_divided_by_the_rate() {
        let due = |per_second, done| RateLimit::new(per_second).due(done).as_millis();
        assert_eq!(due(48 << 20, 0), 0);
        assert_eq!(due(48 << 20, 24 << 20), 500);
        assert_eq!(due(u64::MAX, 1 << 50), 0);
        assert_eq!(due(0, 2), 2_000, "nothing a second is one");
        assert_eq!(due(1_000, u64::MAX), u128::from(u64::MAX / 1_000));
    }
}
