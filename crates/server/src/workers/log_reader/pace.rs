//! The pace at which records are sent to replicas.
//!
//! A replica that has all records waits for the next commit. If the supplier sent every commit to every replica at
//! once, it would spend more time on answers than on changes when there are many replicas. Therefore it sends records
//! in rounds. Each round ends at the *served position*. This position advances after a pause. The pause grows with the
//! number of answers, and with the number of records of the round, because a supplier that makes many changes needs its
//! processor for them.
//!
//! Replicas at the served position wait together, and share the octets of their answer. A replica before the served
//! position is answered at once. A commit after a quiet time is sent at once.

use std::time::Instant;

use crate::limits::{LOG_ANSWER_PAUSE, LOG_PAUSE_MAX, LOG_RECORD_PAUSE, LOG_RECORDS_PAUSE_MAX};

/// The served position and the pause after it.
#[derive(Default)]
pub(super) struct Pace {
    served: u64,
    /// Time at which the served position last advanced.
    moved: Option<Instant>,
    /// Number of records by which the served position advanced at `moved`.
    records: u32,
    /// Number of answers since `moved`.
    answers: u32,
    pause_end: Option<Instant>,
}

impl Pace {
    /// Returns the position up to which records are sent.
    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// Returns the end of the pause, if there is one. Until then a commit does not advance the served position.
    pub(super) fn pause_end(&self) -> Option<Instant> {
        self.pause_end
    }

    /// Advances the served position to `newest`, unless there is a pause.
    pub(super) fn go_on(&mut self, newest: u64, now: Instant) {
        if self.pause_end.is_some_and(|end| now < end) {
            return;
        }
        self.pause_end = None;
        if newest > self.served {
            self.records = u32::try_from(newest - self.served).unwrap_or(u32::MAX);
            (self.served, self.moved, self.answers) = (newest, Some(now), 0);
        }
    }

    /// Counts answers with records.
    pub(super) fn answered(&mut self, answers: usize, now: Instant) {
        self.answers = self.answers.saturating_add(u32::try_from(answers).unwrap_or(u32::MAX));
        let of_records = LOG_RECORD_PAUSE.saturating_mul(self.records).min(LOG_RECORDS_PAUSE_MAX);
        let pause =
            LOG_ANSWER_PAUSE.saturating_mul(self.answers).saturating_add(of_records).min(LOG_PAUSE_MAX);
        if answers > 0
            && let Some(moved) = self.moved
        {
            self.pause_end = Some(moved + pause).filter(|end| *end > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_delays_later_records() {
        let (mut pace, started) = (Pace::default(), Instant::now());
        pace.go_on(1, started);
        assert_eq!((pace.served(), pace.pause_end()), (1, None), "the first commit is served at once");
        pace.answered(3, started);
        let end = started + LOG_RECORD_PAUSE + LOG_ANSWER_PAUSE * 3;
        assert_eq!(pace.pause_end(), Some(end));
        pace.go_on(9, end - LOG_ANSWER_PAUSE);
        assert_eq!(pace.served(), 1);
        // Another replica is answered during the pause.
        pace.answered(1, end - LOG_ANSWER_PAUSE);
        pace.go_on(9, end);
        assert_eq!((pace.served(), pace.pause_end()), (1, Some(end + LOG_ANSWER_PAUSE)));
        pace.go_on(9, end + LOG_ANSWER_PAUSE);
        assert_eq!((pace.served(), pace.pause_end()), (9, None));
    }

    #[test]
    fn records_of_a_round_delay_the_next_round() {
        for (records, expected) in [
            (1, LOG_RECORD_PAUSE),
            (20, LOG_RECORD_PAUSE * 20),
            (10_000, LOG_RECORDS_PAUSE_MAX),
            (u64::MAX - 7, LOG_RECORDS_PAUSE_MAX),
        ] {
            let (mut pace, started) = (Pace::default(), Instant::now());
            pace.go_on(7, started);
            pace.answered(1, started);
            let later = started + LOG_PAUSE_MAX;
            pace.go_on(7 + records, later);
            pace.answered(1, later);
            assert_eq!(pace.pause_end(), Some(later + LOG_ANSWER_PAUSE + expected), "{records} records");
        }
    }

    #[test]
    fn the_pause_is_bounded_and_follows_only_answers_with_new_records() {
        let (mut pace, started) = (Pace::default(), Instant::now());
        pace.go_on(7, started);
        pace.answered(1_000_000, started);
        assert_eq!(pace.pause_end(), Some(started + LOG_PAUSE_MAX));
        let later = started + LOG_PAUSE_MAX * 2;
        pace.go_on(7, later);
        assert_eq!(pace.pause_end(), None);
        // An answer to a replica that lacked old records causes no pause.
        pace.answered(1, later);
        assert_eq!(pace.pause_end(), None);
        pace.go_on(8, later);
        assert_eq!(pace.served(), 8);
    }
}
