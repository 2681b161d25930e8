//! [`Readiness`]: whether every event loop answers, and whether changes are accepted.
//!
//! A thread sends each event loop a probe every second, which the loop answers by a read of its own, and looks whether
//! there is room for changes. So a server that accepts connections but does not serve them is not ready.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::LOOP_ANSWER_MAX;

/// Answers of the event loops to the latest probes. The threads of the server share it.
#[derive(Debug)]
pub(crate) struct Readiness {
    started: Instant,
    loops: Box<[Answers]>,
    /// Reason that changes are refused.
    refusal: Mutex<Option<String>>,
}

/// Times of one event loop, in milliseconds since the start.
#[derive(Debug, Default)]
struct Answers {
    asked: AtomicU64,
    answered: AtomicU64,
}

impl Readiness {
    pub(crate) fn new(loop_count: usize, now: Instant) -> Readiness {
        let loops = (0..loop_count).map(|_| Answers::default()).collect();
        Readiness { started: now, loops, refusal: Mutex::default() }
    }

    /// Returns true if an event loop is to be sent a probe: it has answered the one before.
    pub(crate) fn ask(&self, event_loop: usize, now: Instant) -> bool {
        let Some(answers) = self.loops.get(event_loop) else { return false };
        let is_answered = answers.answered.load(Ordering::Acquire) >= answers.asked.load(Ordering::Relaxed);
        if is_answered {
            answers.asked.store(self.millis(now), Ordering::Relaxed);
        }
        is_answered
    }

    /// Notes that an event loop has read something.
    pub(crate) fn answer(&self, event_loop: u16, now: Instant) {
        if let Some(answers) = self.loops.get(usize::from(event_loop)) {
            answers.answered.store(self.millis(now), Ordering::Release);
        }
    }

    /// Sets the reason that changes are refused.
    pub(crate) fn set_refusal(&self, reason: Option<String>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Returns the reason that changes are refused.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the reason that reads are not served, if an event loop does not answer.
    pub(crate) fn silent(&self, now: Instant) -> Option<String> {
        let now = self.millis(now);
        self.loops.iter().enumerate().find_map(|(number, answers)| {
            let silence = Duration::from_millis(now.saturating_sub(answers.answered.load(Ordering::Acquire)));
            (silence > LOOP_ANSWER_MAX)
                .then(|| format!("event loop {number} has not answered for {} seconds", silence.as_secs()))
        })
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_loop_is_noticed_within_five_seconds() {
        let begin = Instant::now();
        let after = |millis| begin + Duration::from_millis(millis);
        let readiness = Readiness::new(2, begin);
        assert_eq!(readiness.silent(after(1_000)), None, "the loops start");
        for second in 1..=10 {
            let now = after(second * 1_000);
            for event_loop in [0, 1] {
                let is_asked = readiness.ask(event_loop, now);
                // The second loop hangs from the third second on, and gets no more probes.
                assert_eq!(is_asked, event_loop == 0 || second <= 3, "second {second}");
                if is_asked && (event_loop == 0 || second < 3) {
                    readiness.answer(u16::try_from(event_loop).unwrap(), after(second * 1_000 + 1));
                }
            }
            let silent = readiness.silent(after(second * 1_000 + 10));
            assert_eq!(silent.is_some(), second >= 5, "within five seconds: {second} {silent:?}");
        }
        assert!(readiness.silent(after(10_000)).unwrap().starts_with("event loop 1 "));
        readiness.answer(1, after(10_500));
        assert_eq!(readiness.silent(after(10_600)), None);
        assert!(readiness.ask(1, after(11_000)));
    }
}
