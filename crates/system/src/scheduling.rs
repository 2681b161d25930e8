//! How the scheduler shares cores between threads that serve clients and background work.
//!
//! On a machine with few cores, background work shares a core with an event loop. A thread that wakes gets the core
//! when the running thread has used up its slice, which the scheduler checks at a tick: every 4 ms at 250 Hz. A thread
//! that yields gives the core up at once, if another thread waits for it: [`CooperativeYield`].
//!
//! A thread that always has work keeps the core for a whole slice after each yield. So a thread that waited in a yield
//! works for as long as it waited before it yields again: both get half of the core.
//!
//! Threads that serve clients ask for short slices: [`use_short_slices`].

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Least time between two yields: one costs about half a microsecond where nobody waits.
const WORK_MIN: Duration = Duration::from_micros(50);
/// Most time between two yields.
const WORK_MAX: Duration = Duration::from_millis(10);

/// A short slice: enough for a request or two, and the shortest that the system allows (sched_setattr(2)).
const SHORT_SLICE: Duration = Duration::from_micros(100);

/// Asks the scheduler to give this thread its time in short slices, soon after it wakes: for threads that serve
/// clients. The thread's share of the processor stays the same, so this needs no privileges. Linux before 6.12 ignores
/// it, and a thread that does not have a normal policy is left alone.
///
/// # Errors
/// The system refuses; nothing has changed.
pub fn use_short_slices() -> io::Result<()> {
    let mut attributes = attributes()?;
    let policy = i32::try_from(attributes.sched_policy).unwrap_or(-1);
    if policy != libc::SCHED_OTHER && policy != libc::SCHED_BATCH {
        return Ok(());
    }
    attributes.sched_runtime = SHORT_SLICE.as_nanos() as u64;
    // SAFETY: thread 0 is the caller; the system only reads the structure, which says its own size; there are no flags.
    let code = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The scheduling attributes of this thread.
fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: all fields are numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let len = size_of_val(&attributes);
    // SAFETY: thread 0 is the caller; the system writes no more than `len` bytes to the structure; there are no flags.
    let code = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, len, 0) };
    if code == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Makes this thread, and no other of the process, run behind others as nice(1) does.
///
/// # Errors
/// The system refuses; nothing has changed.
pub fn set_thread_niceness(niceness: i32) -> io::Result<()> {
    // On Linux priorities belong to threads, whatever the name of the call says.
    Ok(rustix::process::setpriority_process(None, niceness)?)
}

/// Yields the processor now and then: for background work that shares a core with threads that serve clients.
#[derive(Debug)]
pub struct CooperativeYield {
    /// When to yield next.
    next: Instant,
}

impl Default for CooperativeYield {
    fn default() -> CooperativeYield {
        CooperativeYield { next: Instant::now() + WORK_MIN }
    }
}

impl CooperativeYield {
    /// Yields if it is time to. Call it after every few tens of microseconds of work; mostly it only reads the clock.
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

/// How long to work after a yield that took so long.
fn work_after(waited: Duration) -> Duration {
    waited.clamp(WORK_MIN, WORK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_slices_change_nothing_else() {
        let change = || {
            set_thread_niceness(5).unwrap();
            let before = attributes().unwrap();
            use_short_slices().unwrap();
            (before, attributes().unwrap())
        };
        let (before, after) = thread::spawn(change).join().unwrap();
        assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, 5));
        // Older systems do not know slices and report 0.
        let is_known = before.sched_runtime != 0;
        assert_eq!(after.sched_runtime, if is_known { 100_000 } else { 0 });
    }

    #[test]
    fn a_long_wait_is_followed_by_long_work() {
        assert_eq!(work_after(Duration::ZERO), WORK_MIN);
        assert_eq!(work_after(Duration::from_millis(4)), Duration::from_millis(4));
        assert_eq!(work_after(Duration::from_secs(1)), WORK_MAX);
    }
}
