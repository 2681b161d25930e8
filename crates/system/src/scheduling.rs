//! Sharing cores between threads that serve clients and background work.
//!
//! On a machine with few cores, background work shares a core with an event loop. A thread that wakes gets the core
//! when the running thread has used up its time slice, which the scheduler checks at a tick: every 4 ms at 250 Hz. A
//! thread that yields ([`CooperativeYield`]) gives up the core at once if another thread waits for it.
//!
//! If the other thread always has work, it keeps the core for a whole slice after each yield. So if a yield took a
//! while, the yielding thread works for the same time before it yields again. Each thread then gets half of the core.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Minimum time between two yields: a yield costs about half a microsecond if no thread waits.
const WORK_MIN: Duration = Duration::from_micros(50);
/// Maximum time between two yields.
const WORK_MAX: Duration = Duration::from_millis(10);

/// Lowers the priority of this thread as nice(1) does. Other threads of the process keep their priority.
///
/// # Errors
/// The system refuses. The priority is unchanged.
pub fn set_thread_niceness(niceness: i32) -> io::Result<()> {
    // On Linux this call affects one thread, despite its name.
    Ok(rustix::process::setpriority_process(None, niceness)?)
}

/// Does the same as [`set_thread_niceness`]. If the system refuses, logs a warning that begins with `failed`.
pub fn lower_priority(niceness: i32, failed: &str) {
    if let Err(error) = set_thread_niceness(niceness) {
        tracing::warn!(%error, "{failed} and may slow down others");
    }
}

/// Yields the processor at intervals, for background work that shares a core with threads that serve clients.
#[derive(Debug)]
pub struct CooperativeYield {
    /// Time of the next yield.
    next: Instant,
}

impl Default for CooperativeYield {
    fn default() -> CooperativeYield {
        CooperativeYield { next: Instant::now() + WORK_MIN }
    }
}

impl CooperativeYield {
    /// Yields if the next yield is due. Call it after every few tens of microseconds of work. Most calls only read the
    /// clock.
    pub fn maybe_yield(&mut self) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        thread::yield_now();
        let back = Instant::now();
        self.next = back + work_after(back.saturating_duration_since(now));
    }
}

/// Returns how long the thread may work after a yield that took `waited`.
fn work_after(waited: Duration) -> Duration {
    waited.clamp(WORK_MIN, WORK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_lasts_as_long_as_the_wait_within_bounds() {
        assert_eq!(work_after(Duration::ZERO), WORK_MIN);
        assert_eq!(work_after(Duration::from_millis(4)), Duration::from_millis(4));
        assert_eq!(work_after(Duration::from_secs(1)), WORK_MAX);
    }
}
