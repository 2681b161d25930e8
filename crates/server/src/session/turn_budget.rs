//! How long one connection has its event loop for itself.

use std::time::Instant;

use crate::limits::{TURN_LARGE_REQUEST_SIZE, TURN_REQUESTS_PER_LOOK, TURN_TIME_MAX};

/// What is used up of a turn. Requests that were sent at once are carried out one after another, but no longer than
/// [`TURN_TIME_MAX`]: the others of the same loop have their turn before the rest.
#[derive(Debug, Default)]
pub(crate) struct TurnBudget {
    /// Since when the time counts: when the clock was looked at first.
    began: Option<Instant>,
    requests: usize,
}

impl TurnBudget {
    /// Counts a request of this many octets. Whether others have their turn before the next one.
    ///
    /// The clock is looked at after large requests, whose filters may be, and now and then after others: most turns
    /// are one small request, which pays nothing.
    pub(crate) fn is_used_up(&mut self, request_size: usize, now: impl Fn() -> Instant) -> bool {
        self.requests += 1;
        let looks =
            request_size >= TURN_LARGE_REQUEST_SIZE || self.requests.is_multiple_of(TURN_REQUESTS_PER_LOOK);
        if !looks {
            return false;
        }
        let began = *self.began.get_or_insert_with(&now);
        now().saturating_duration_since(began) >= TURN_TIME_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How many of so many requests are carried out in one turn, where each takes a quarter of the time.
    fn carried_out(count: usize, size: usize) -> usize {
        let clock = Cell::new(Instant::now());
        let mut turn = TurnBudget::default();
        for carried_out in 1..=count {
            clock.set(clock.get() + TURN_TIME_MAX / 4);
            if turn.is_used_up(size, || clock.get()) {
                return carried_out;
            }
        }
        count
    }

    #[test]
    fn large_requests_end_a_turn_when_its_time_is_over() {
        assert_eq!(carried_out(100, TURN_LARGE_REQUEST_SIZE), 5);
        assert_eq!(carried_out(3, TURN_LARGE_REQUEST_SIZE), 3);
    }

    #[test]
    fn small_requests_end_a_turn_at_the_second_look() {
        assert_eq!(carried_out(1_000, 60), 2 * TURN_REQUESTS_PER_LOOK);
        assert_eq!(carried_out(1, 60), 1);
    }
}
