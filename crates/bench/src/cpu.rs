//! CPU time of another process, and time taken by a hypervisor, as counted by the kernel.

use std::io;
use std::time::Duration;

/// Clock ticks per second in /proc (USER_HZ). The value is 100 on every Linux architecture that Pando supports.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the user and system time that a process has used, including threads that have ended. The resolution is 10
/// ms, so measure over seconds.
///
/// # Errors
/// There is no such process, or /proc does not have Linux's format.
pub fn process_time(id: u32) -> io::Result<Duration> {
    times(id).map(|[own, _]| own)
}

/// Returns the same time as [`process_time`], plus the time of all children for which the process has waited. Also
/// works for a process that has ended and was not reaped yet.
///
/// # Errors
/// The same as for [`process_time`].
pub fn process_time_with_children(id: u32) -> io::Result<Duration> {
    times(id).map(|[own, children]| own + children)
}

fn times(id: u32) -> io::Result<[Duration; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    parse_stat(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected form of /proc/PID/stat"))
}

/// Parses utime, stime, cutime and cstime, the 14th to 17th fields. The second field, the program's name in
/// parentheses, may contain spaces.
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

/// Returns the stolen time of all processors in total: the time in which this machine was ready to run and its
/// hypervisor ran other machines. `top` shows it as steal. The time is zero on a machine that is not a guest.
///
/// # Errors
/// /proc does not have Linux's format.
pub fn stolen_time() -> io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    parse_stolen(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected form of /proc/stat"))
}

/// Parses the stolen time: the eighth number of the first line; that line has the sums over all processors.
fn parse_stolen(stat: &str) -> Option<Duration> {
    let figures = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = figures.split_whitespace().nth(7)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_times_are_parsed_for_any_program_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 7 8 20 0 1 0 100 1000 10";
        assert_eq!(parse_stat(stat), Some([Duration::from_secs(2), Duration::from_millis(150)]));
        assert_eq!(parse_stat("nothing"), None);
        assert!(process_time(std::process::id()).is_ok());
    }

    #[test]
    fn stolen_time_is_parsed() {
        let stat = "cpu  3204 10 685 1467 71 1 231 150 20 30\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse_stolen(stat), Some(Duration::from_millis(1500)));
        assert_eq!(parse_stolen("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(parse_stolen(""), None);
        assert!(stolen_time().is_ok());
    }
}
