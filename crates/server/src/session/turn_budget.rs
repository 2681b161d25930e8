//! Limit on the time for which one connection may occupy its event loop.

use std::time::Instant;

use crate::limits::{TURN_LARGE_REQUEST_SIZE, TURN_REQUESTS_PER_LOOK, TURN_TIME_MAX};

/// Used part of a connection's turn. Requests that arrived together are handled one after another for at most
/// [`TURN_TIME_MAX`]. Then the other connections of the loop have their turns.
#[derive(Debug, Default)]
pub(crate) struct TurnBudget {
    /// Time of the first clock reading, from which the turn is measured.
    began: Option<Instant>,
    requests: usize,
}

impl TurnBudget {
    /// Counts a request of `request_size` octets. Returns true if the turn ends after it.
    ///
    /// The clock is read after each large request, because its filter may be costly, and after every
    /// [`TURN_REQUESTS_PER_LOOK`]th request. A turn with one small request does not read the clock.
    pub(crate) fn is_used_up(&mut self, request_size: usize, now: impl Fn() -> Instant) -> bool {
        self.requests += 1;
        if request_size < TURN_LARGE_REQUEST_SIZE && !self.requests.is_multiple_of(TURN_REQUESTS_PER_LOOK) {
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

    /// Returns how many of `count` requests one turn handles, if each takes a quarter of the maximum time.
    fn requests_in_one_turn(count: usize, size: usize) -> usize {
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
        assert_eq!(requests_in_one_turn(100, TURN_LARGE_REQUEST_SIZE), 5);
        assert_eq!(requests_in_one_turn(3, TURN_LARGE_REQUEST_SIZE), 3);
    }

    #[test]
    fn small_requests_end_a_turn_at_the_second_clock_reading() {
        assert_eq!(requests_in_one_turn(1_000, 60), 2 * TURN_REQUESTS_PER_LOOK);
        assert_eq!(requests_in_one_turn(1, 60), 1);
    }
}
