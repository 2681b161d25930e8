//! [`Courtesy`]: work that nobody waits for lets those go first for whom somebody does.
//!
//! Where there are few cores, the folder and whoever makes an index work on the core of an event loop. A thread that
//! wakes gets the core when the one that has it has used up its slice, which the system sees at a tick: 4 ms with a
//! clock of 250 Hz, for all requests that come meanwhile. A thread that yields gives it up at once, to whoever waits,
//! and to nobody where nobody does.
//!
//! Yielding is not giving way for ever. Somebody who always has work keeps the core for a whole slice of his own each
//! time; so who had to wait works for as long as that took before yielding again, and gets the half that is due.
//!
//! Those who go first ask the system for it: [`take_short_turns`].

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Least time between two yields: one costs about half a microsecond where nobody waits.
const WORK_MIN: Duration = Duration::from_micros(50);
/// Most time between two yields.
const WORK_MAX: Duration = Duration::from_millis(10);

/// A turn of those who take short ones: what a request or two need, and as short as the system allows
/// (sched_setattr(2)).
const SHORT_TURN: Duration = Duration::from_micros(100);

/// Has the system give this thread its processor time in short turns, soon after it wakes: for threads that somebody
/// waits for, and that work a little at a time. It gets as much of a processor as it would otherwise, so it takes no
/// privileges. Systems that cannot (Linux before 6.12) change nothing, and so does a thread that the system does not
/// schedule like most.
///
/// # Errors
/// The system refuses; nothing has changed.
#[allow(unsafe_code)]
pub fn take_short_turns() -> io::Result<()> {
    let mut attributes = turns()?;
    let policy = i32::try_from(attributes.sched_policy).unwrap_or(-1);
    if policy != libc::SCHED_OTHER && policy != libc::SCHED_BATCH {
        return Ok(());
    }
    attributes.sched_runtime = SHORT_TURN.as_nanos() as u64;
    // SAFETY: thread 0 is the caller; the system only reads the structure, which says its own size; there are no flags.
    let code = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How the system gives this thread its time.
#[allow(unsafe_code)]
fn turns() -> io::Result<libc::sched_attr> {
    // SAFETY: all fields are numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let len = size_of_val(&attributes);
    // SAFETY: thread 0 is the caller; the system writes no more than `len` bytes to the structure; there are no flags.
    let code = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, len, 0) };
    if code == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

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
    /// Lets others go first if it is time to. To be called after every few tens of microseconds of work: where it is
    /// not, it costs a reading of the clock.
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
    fn short_turns_change_nothing_else() {
        let take = || {
            rustix::process::setpriority_process(None, 5).unwrap();
            let before = turns().unwrap();
            take_short_turns().unwrap();
            (before, turns().unwrap())
        };
        let (before, after) = thread::spawn(take).join().unwrap();
        assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, 5));
        // Older systems know no turns of this kind and say 0.
        let is_known = before.sched_runtime != 0;
        assert_eq!(after.sched_runtime, if is_known { 100_000 } else { 0 });
    }

    #[test]
    fn who_waited_long_works_long() {
        assert_eq!(work_after(Duration::ZERO), WORK_MIN);
        assert_eq!(work_after(Duration::from_millis(4)), Duration::from_millis(4));
        assert_eq!(work_after(Duration::from_secs(1)), WORK_MAX);
    }
}
