//! The CPU time of another process, as the kernel counts it.

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

/// The same with that of all children that it has waited for. A process that has ended and was not reaped yet still has it.
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

/// utime, stime, cutime and cstime are the 14th to 17th fields; the second, the program's name in parentheses, may contain spaces.
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
}
