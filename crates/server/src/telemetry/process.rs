//! Processor time and memory of this process.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// Clock ticks per second in `/proc`: `USER_HZ`, which is 100 on all Linux systems.
const TICKS_PER_SECOND: u64 = 100;

/// Resources that the process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// Processor time in user mode.
    pub(crate) user: Duration,
    /// Processor time in the kernel.
    pub(crate) system: Duration,
    /// Private memory in bytes. Does not include pages of the mapped data file, which the kernel can reclaim.
    pub(crate) private_bytes: u64,
    /// Resident memory in bytes, including pages of the mapped data file.
    pub(crate) resident_bytes: u64,
}

impl ProcessUsage {
    /// Reads `/proc`. Missing values are 0.
    pub(crate) fn read() -> ProcessUsage {
        let file = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let (user, system) = processor_time(&file("stat")).unwrap_or_default();
        let status = file("status");
        ProcessUsage {
            user,
            system,
            private_bytes: kibibytes(&status, "RssAnon:").unwrap_or(0) << 10,
            resident_bytes: kibibytes(&status, "VmRSS:").unwrap_or(0) << 10,
        }
    }
}

/// Returns utime and stime in `/proc/PID/stat`, fields 14 and 15. The second field is the name of the program in
/// parentheses, which may contain any character. So the fields are counted from the last closing parenthesis.
fn processor_time(stat: &str) -> Option<(Duration, Duration)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
    };
    Some((next()?, next()?))
}

/// Returns the number of bytes that were read from a disk because they were not in memory. Does not use
/// `/proc/self/io`, which only root may open if the process permits no core dumps.
pub(crate) fn bytes_read(whose: UsageWho) -> Option<u64> {
    /// Unit of getrusage(2), independent of the disk.
    const BLOCK_SIZE: u64 = 512;
    Some(u64::try_from(getrusage(whose).ok()?.block_reads()).ok()? * BLOCK_SIZE)
}

/// Returns the nanoseconds for which a thread ran or waited for a processor, from `/proc/PID/task/TID/schedstat`. The
/// rest of its time it slept.
pub(crate) fn time_used(schedstat: &str) -> Option<u64> {
    let mut numbers = schedstat.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    numbers.next()??.checked_add(numbers.next()??)
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        let stat = "12 (pan) do) S 1 1 1 0 -1 4194560 1 2 3 4 150 25 0 0 20 0 1 0 1 2 3";
        let expected = (Duration::from_millis(1_500), Duration::from_millis(250));
        assert_eq!(processor_time(stat), Some(expected));
        assert_eq!(processor_time("12 (pando"), None);
        assert!(bytes_read(UsageWho::RUSAGE_SELF) >= bytes_read(UsageWho::RUSAGE_THREAD));
        assert_eq!((time_used("120 30 4\n"), time_used("120\n"), time_used("0 x")), (Some(150), None, None));
        assert_eq!(kibibytes("VmRSS:\t  77 kB\nRssAnon:\t  12 kB\n", "RssAnon:"), Some(12));
        assert_eq!(kibibytes("", "RssAnon:"), None);
        assert!(ProcessUsage::read().private_bytes > 0);
    }
}
