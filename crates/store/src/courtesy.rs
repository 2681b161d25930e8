//! [`Courtesy`]: work that nobody waits for lets those go first for whom somebody does.
//!
//! Where there are few cores, the folder and whoever makes an index work on the core of an event loop. A thread that wakes gets the core when the one that has it has
//! used up its slice, which the system sees at a tick: 4 ms with a clock of 250 Hz, for all requests that come meanwhile. A thread that yields gives it up at
//! once, to whoever waits, and to nobody where nobody does.
//!
//! Yielding is not giving way for ever. Somebody who always has work keeps the core for a whole slice of his own each time; so who had to wait works for as long as
//! that took before yielding again, and gets the half that is due.

use std::thread;
use std::time::{Duration, Instant};

/// Least time between two yields: one costs about half a microsecond where nobody waits.
const WORK_MIN: Duration = Duration::from_micros(50);
/// Most time between two yields.
const WORK_MAX: Duration = Duration::from_millis(10);

/// When a thread is to yield next.
#[derive(Debug)]
pub struct Courtesy {
    next: Instant,
}

impl Default for Courtesy {
    fn default() -> Courtesy {
        Courtesy { next: Instant::now() + WORK_MIN }
    }
}

impl Courtesy {
    /// Lets others go first if it is time to. To be called after every few tens of microseconds of work: where it is not, it costs a reading of the clock.
    pub fn breathe(&mut self) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        thread::yield_now();
        let back = Instant::now();
        self.next = back + work_after(back.saturating_duration_since(now));
    }
}

/// How long to work after a yield that took so long.
fn work_after(waited: Duration) -> Duration {
    waited.clamp(WORK_MIN, WORK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_long_works_long() {
        assert_eq!(work_after(Duration::ZERO), WORK_MIN);
        assert_eq!(work_after(Duration::from_millis(4)), Duration::from_millis(4));
        assert_eq!(work_after(Duration::from_secs(1)), WORK_MAX);
    }
}
