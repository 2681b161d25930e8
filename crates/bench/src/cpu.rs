//! The CPU time of another process, and what a hypervisor takes, as the kernel counts them.

use std::io;
use std::time::Duration;

/// Clock ticks a second in /proc: USER_HZ, which is 100 on every Linux architecture that Pando runs on.
const TICKS_PER_SECOND: u64 = 100;

/// The user and system time that a process has used until now, threads that have ended included. In steps of 10 ms, so
/// measure over seconds.
///
/// # Errors
/// When there is no such process, or /proc is not Linux's.
pub fn process_time(id: u32) -> io::Result<Duration> {
    times(id).map(|[own, _]| own)
}

/// The same with that of all children that it has waited for. A process that has ended and was not reaped yet still has
/// it.
///
/// # Errors
/// As [`process_time`].
pub fn process_time_with_children(id: u32) -> io::Result<Duration> {
    times(id).map(|[own, children]| own + children)
}

fn times(id: u32) -> io::Result<[Duration; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    parse_stat(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected form of /proc/PID/stat"))
}

/// utime, stime, cutime and cstime are the 14th to 17th fields; the second, the program's name in parentheses, may
/// contain spaces.
fn parse_stat(stat: &str) -> Option<[Duration; 2]> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut time = || -> Option<Duration> {
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
    };
    Some([time()?, time()?])
}

/// The processor time that this machine was ready to use until now and its hypervisor gave to other machines, all
/// processors together: what `top` calls steal. Zero on a machine that is no guest.
///
/// # Errors
/// /proc is not Linux's.
pub fn stolen_time() -> io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    parse_stolen(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected form of /proc/stat"))
}

/// The eighth figure of the first line, which is the sum of those of all processors.
fn parse_stolen(stat: &str) -> Option<Duration> {
    let figures = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = figures.split_whitespace().nth(7)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_times_whatever_the_program_is_called() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 7 8 20 0 1 0 100 1000 10";
        assert_eq!(parse_stat(stat), Some([Duration::from_secs(2), Duration::from_millis(150)]));
        assert_eq!(parse_stat("nothing"), None);
        assert!(process_time(std::process::id()).is_ok());
    }

    #[test]
    fn reads_what_the_hypervisor_took() {
        let stat = "cpu  3204 10 685 1467 71 1 231 150 20 30\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse_stolen(stat), Some(Duration::from_millis(1500)));
        assert_eq!(parse_stolen("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(parse_stolen(""), None);
        assert!(stolen_time().is_ok());
    }
}
