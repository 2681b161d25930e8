//! Counts of failed password guesses by account and source. The more guesses fail, the longer the next answer is
//! delayed.
//!
//! A right password is answered at once, and each source has its own count. Therefore attackers cannot lock a user out.
//! A source that serves many users, such as a web application, is delayed only for the account whose password was
//! wrong.
//!
//! The table is bounded. If it is full, old counts are dropped. If none is old, wrong passwords for other pairs of
//! account and source are not delayed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use directory::Requester;

use crate::limits::{
    GUESS_DELAY_FIRST, GUESS_DELAY_MAX, GUESSES_DELAYED_MAX, GUESSES_FORGOTTEN_AFTER, GUESSES_FREE,
    GUESSES_MAX,
};
use crate::net::request_memory::Source;

/// The account that a bind names, and the source of the bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GuessKey {
    account: u64,
    source: Source,
}

impl GuessKey {
    /// Returns the key for a bind of `name`. `requester` is the identity that the session gets if the bind succeeds. An
    /// unknown name counts like a known name, so that timing does not reveal which names exist.
    pub(crate) fn of(requester: &Requester, name: &str, source: Source) -> GuessKey {
        GuessKey { account: account_number(requester, name), source }
    }
}

/// Returns a number for an account. It is derived from the id of the account's entry, or from the name if there is no
/// entry.
pub(crate) fn account_number(requester: &Requester, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    match requester {
        Requester::User { id, .. } => id.0.hash(&mut hasher),
        Requester::Administrator { .. } | Requester::Anonymous => name.to_lowercase().hash(&mut hasher),
    }
    hasher.finish()
}

/// The table of failed guesses.
#[derive(Default)]
pub(crate) struct Guesses {
    table: Mutex<HashMap<GuessKey, Failures>>,
}

struct Failures {
    count: u32,
    last: Instant,
    /// Ends of the last delays, at most [`GUESSES_DELAYED_MAX`]. A delay counts until its end, even if the client
    /// closes the connection before. Otherwise a client could evade the limit by closing its connections.
    delay_ends: Vec<Instant>,
}

impl Guesses {
    /// Returns true if so many answers for the key are being delayed that further guesses are refused without
    /// verification.
    pub(crate) fn are_too_many(&self, key: &GuessKey, now: Instant) -> bool {
        self.lock().get(key).is_some_and(|failures| failures.delayed(now) >= GUESSES_DELAYED_MAX)
    }

    /// Counts a failure. Returns the delay of its answer, at least `delay_min`; `None` if there are too few failures
    /// for a delay.
    pub(crate) fn failed(&self, key: GuessKey, now: Instant, delay_min: Duration) -> Option<Duration> {
        let mut table = self.lock();
        if table.len() >= GUESSES_MAX && !table.contains_key(&key) {
            table.retain(|_, failures| failures.delayed(now) > 0 || !failures.are_old(now));
            if table.len() >= GUESSES_MAX {
                return None;
            }
        }
        let failures = table.entry(key).or_insert(Failures { count: 0, last: now, delay_ends: Vec::new() });
        if failures.are_old(now) {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        let delay = delay_of(failures.count)?.max(delay_min);
        failures.add_delay(now, now + delay);
        Some(delay)
    }

    /// Clears the failures of the key after a success, unless answers are still being delayed.
    pub(crate) fn succeeded(&self, key: &GuessKey, now: Instant) {
        let mut table = self.lock();
        if table.get(key).is_some_and(|failures| failures.delayed(now) == 0) {
            table.remove(key);
        }
    }

    /// The counts are consistent after every step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<GuessKey, Failures>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    fn are_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= GUESSES_FORGOTTEN_AFTER
    }

    /// Returns the number of answers that are being delayed.
    fn delayed(&self, now: Instant) -> usize {
        self.delay_ends.iter().filter(|end| **end > now).count()
    }

    /// Adds the end of a delay. If there are [`GUESSES_DELAYED_MAX`] already, drops the earliest end.
    fn add_delay(&mut self, now: Instant, end: Instant) {
        self.delay_ends.retain(|other| *other > now);
        if self.delay_ends.len() >= GUESSES_DELAYED_MAX {
            self.delay_ends.sort_unstable();
            self.delay_ends.remove(0);
        }
        self.delay_ends.push(end);
    }
}

fn delay_of(count: u32) -> Option<Duration> {
    let doublings = count.checked_sub(GUESSES_FREE + 1)?.min(16);
    Some((GUESS_DELAY_FIRST * (1 << doublings)).min(GUESS_DELAY_MAX))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn key(name: &str, address: [u8; 4]) -> GuessKey {
        GuessKey::of(&Requester::Anonymous, name, Source::Network(IpAddr::from(address)))
    }

    #[test]
    fn failed_binds_of_an_account_from_one_source_double_the_delay() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let anna = key("cn=anna", [10, 0, 0, 1]);
        let delay = |key| guesses.failed(key, now, Duration::ZERO);
        for _ in 0..GUESSES_FREE {
            assert_eq!(delay(anna), None);
        }
        assert_eq!(delay(key("CN=Anna", [10, 0, 0, 1])), Some(GUESS_DELAY_FIRST), "however it is spelt");
        assert_eq!(delay(anna), Some(2 * GUESS_DELAY_FIRST));
        assert_eq!(delay(key("cn=bert", [10, 0, 0, 1])), None, "another account");
        assert_eq!(delay(key("cn=anna", [10, 0, 0, 2])), None, "another source");
        for _ in 0..40 {
            delay(anna);
        }
        assert_eq!(delay(anna), Some(GUESS_DELAY_MAX));
        let longer = 2 * GUESS_DELAY_MAX;
        assert_eq!(guesses.failed(anna, now, longer), Some(longer), "the policy demands a longer delay");
        let later = now + GUESSES_FORGOTTEN_AFTER;
        assert_eq!(guesses.failed(anna, later, Duration::ZERO), None, "forgotten");
        for _ in 0..10 {
            guesses.failed(anna, later, Duration::ZERO);
        }
        let later = later + GUESS_DELAY_MAX;
        guesses.succeeded(&anna, later);
        assert_eq!(guesses.failed(anna, later, Duration::ZERO), None, "a success ends it");
    }

    /// A delayed answer was counted until its connection closed. An attacker that closed each connection soon after the
    /// verification was never refused.
    #[test]
    fn the_number_of_delayed_answers_is_limited_until_their_delays_end() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let anna = key("cn=anna", [10, 0, 0, 1]);
        let free = usize::try_from(GUESSES_FREE).unwrap();
        for failures in 0..free + GUESSES_DELAYED_MAX {
            assert!(!guesses.are_too_many(&anna, now), "{failures}");
            guesses.failed(anna, now, Duration::ZERO);
        }
        assert!(guesses.are_too_many(&anna, now));
        guesses.succeeded(&anna, now);
        assert!(guesses.are_too_many(&anna, now), "delayed answers still count");
        // Guesses whose verification began earlier may still fail.
        for _ in 0..10 {
            guesses.failed(anna, now, Duration::ZERO);
        }
        let almost = now + GUESS_DELAY_MAX - Duration::from_millis(1);
        assert!(guesses.are_too_many(&anna, almost));
        assert!(!guesses.are_too_many(&anna, now + GUESS_DELAY_MAX));
    }

    #[test]
    fn the_table_is_bounded() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for number in 0..GUESSES_MAX + 10 {
            guesses.failed(key(&number.to_string(), [10, 0, 0, 1]), now, Duration::ZERO);
        }
        assert_eq!(guesses.lock().len(), GUESSES_MAX);
        guesses.failed(key("new", [10, 0, 0, 1]), now + GUESSES_FORGOTTEN_AFTER, Duration::ZERO);
        assert_eq!(guesses.lock().len(), 1, "expired rows are removed");
    }
}
