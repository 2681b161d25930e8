//! [`Readiness`]: whether every event loop answers, and whether the server accepts changes.
//!
//! Every second, a thread sends a probe to each event loop. The loop reads from the directory before it answers the
//! probe. The thread also checks whether the disk has room for changes. Therefore a server that accepts connections but
//! does not serve them is not ready.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::PROBE_ANSWER_MAX;

/// The event loops' answers to the last probes, and the last check of the disk. All threads of the server share this
/// struct.
#[derive(Debug)]
pub(crate) struct Readiness {
    started: Instant,
    loops: Box<[Answers]>,
    space: Mutex<SpaceCheck>,
}

/// The last completed check whether the disk has room for changes.
#[derive(Debug)]
struct SpaceCheck {
    started: Instant,
    /// The reason why changes are refused, if they are.
    refusal: Option<String>,
}

/// Times of the last probe of an event loop and of its last answer, in milliseconds since the start of the server.
#[derive(Debug, Default)]
struct Answers {
    probed: AtomicU64,
    answered: AtomicU64,
}

impl Readiness {
    pub(crate) fn new(loop_count: usize, now: Instant) -> Readiness {
        let loops = (0..loop_count).map(|_| Answers::default()).collect();
        Readiness { started: now, loops, space: Mutex::new(SpaceCheck { started: now, refusal: None }) }
    }

    /// Returns true if the caller must send a probe to an event loop, and records the time of the probe. Returns false
    /// while the previous probe has no answer.
    pub(crate) fn begin_probe(&self, event_loop: usize, now: Instant) -> bool {
        let Some(answers) = self.loops.get(event_loop) else { return false };
        let is_answered = answers.answered.load(Ordering::Acquire) >= answers.probed.load(Ordering::Relaxed);
        if is_answered {
            answers.probed.store(self.millis(now), Ordering::Relaxed);
        }
        is_answered
    }

    /// Records that an event loop answers its probe at `now`.
    pub(crate) fn answer(&self, event_loop: u16, now: Instant) {
        if let Some(answers) = self.loops.get(usize::from(event_loop)) {
            answers.answered.store(self.millis(now), Ordering::Release);
        }
    }

    /// Records the result of a check of the disk that began at `started`. `refusal` is the reason why changes are
    /// refused, if they are.
    pub(crate) fn set_refusal(&self, started: Instant, refusal: Option<String>) {
        *self.space.lock().unwrap_or_else(PoisonError::into_inner) = SpaceCheck { started, refusal };
    }

    /// Returns the reason why changes are refused, if they are. The result of a check is valid for a limited time. If
    /// the disk does not respond, no new check completes. The missing result is then the reason.
    pub(crate) fn refusal(&self, now: Instant) -> Option<String> {
        let space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_duration_since(space.started);
        if age > PROBE_ANSWER_MAX {
            let age = age.as_secs();
            return Some(format!(
                "the free space is unknown for {age} seconds: the disk does not answer in time"
            ));
        }
        space.refusal.clone()
    }

    /// Returns the reason why the server does not answer reads, if there is one: an event loop has not answered its
    /// probe in time, or no probes are sent any more.
    pub(crate) fn silent(&self, now: Instant) -> Option<String> {
        let now = self.millis(now);
        self.loops.iter().enumerate().find_map(|(number, answers)| {
            let silence = Duration::from_millis(now.saturating_sub(answers.answered.load(Ordering::Acquire)));
            let is_probed = answers.probed.load(Ordering::Relaxed) > answers.answered.load(Ordering::Acquire);
            let problem = if is_probed { "has not answered" } else { "was not asked" };
            (silence > PROBE_ANSWER_MAX)
                .then(|| format!("event loop {number} {problem} for {} seconds", silence.as_secs()))
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
                let is_probed = readiness.begin_probe(event_loop, now);
                // The second loop hangs from the third second on. It is sent no further probes.
                assert_eq!(is_probed, event_loop == 0 || second <= 3, "second {second}");
                if is_probed && (event_loop == 0 || second < 3) {
                    readiness.answer(u16::try_from(event_loop).unwrap(), after(second * 1_000 + 1));
                }
            }
            let silent = readiness.silent(after(second * 1_000 + 10));
            assert_eq!(silent.is_some(), second >= 5, "within five seconds: {second} {silent:?}");
        }
        assert!(readiness.silent(after(10_000)).unwrap().starts_with("event loop 1 has not answered"));
        readiness.answer(1, after(10_500));
        assert_eq!(readiness.silent(after(10_600)), None);
        assert!(readiness.begin_probe(1, after(11_000)));
        assert!(readiness.silent(after(16_000)).unwrap().starts_with("event loop 0 was not asked"));
    }

    #[test]
    fn the_result_of_a_disk_check_expires_within_five_seconds() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let readiness = Readiness::new(1, begin);
        assert_eq!(readiness.refusal(after(1)), None, "the first check has not ended");
        assert!(readiness.refusal(after(5)).unwrap().contains("unknown for 5 seconds"), "it hangs");
        readiness.set_refusal(after(6), Some("full".to_owned()));
        assert_eq!(readiness.refusal(after(7)).as_deref(), Some("full"));
        // The result of a later check replaces the earlier result.
        readiness.set_refusal(after(7), None);
        assert_eq!(readiness.refusal(after(8)), None);
        assert!(readiness.refusal(after(12)).is_some());
    }
}
