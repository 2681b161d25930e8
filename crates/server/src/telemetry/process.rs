//! Processor time and memory of the server's process.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// Clock ticks per second in the files of `/proc`: `USER_HZ`, which is 100 on all Linux systems.
const TICKS_PER_SECOND: u64 = 100;

/// Resources that the process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// Processor time in user mode.
    pub(crate) user: Duration,
    /// Processor time in the kernel.
    pub(crate) system: Duration,
    /// Private memory in bytes. The mapped pages of the data file are not included, because the kernel can reclaim
    /// them.
    pub(crate) private_bytes: u64,
    /// Resident memory in bytes. The mapped pages of the data file are included.
    pub(crate) resident_bytes: u64,
}

impl ProcessUsage {
    /// Reads the values from `/proc`. A value that is missing there becomes 0.
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

/// Returns the times in user mode and in the kernel, which are fields 14 and 15 of `/proc/PID/stat`. The second field
/// is the name of the program in parentheses and may contain any character. Therefore the fields are counted from the
/// last closing parenthesis.
fn processor_time(stat: &str) -> Option<(Duration, Duration)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
    };
    Some((next()?, next()?))
}

/// Returns the number of bytes that were read from disks because they were not in memory. `/proc/self/io` has this
/// number too, but if the process forbids core dumps, only root may open that file.
pub(crate) fn bytes_read(whose: UsageWho) -> Option<u64> {
    /// Unit of the numbers of getrusage(2). It does not depend on the disk.
    const BLOCK_SIZE: u64 = 512;
    Some(u64::try_from(getrusage(whose).ok()?.block_reads()).ok()? * BLOCK_SIZE)
}

/// Returns the number of nanoseconds for which a thread ran or waited for a processor, from the text of
/// `/proc/PID/task/TID/schedstat`. At all other times the thread slept.
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
    fn usage_is_read_from_proc_files() {
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
