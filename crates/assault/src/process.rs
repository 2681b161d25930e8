//! Kernel statistics of the attacked server and of this process.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Octets in a mebibyte.
pub(crate) const MIB: u64 = 1 << 20;

/// Maximum time until unused memory is released.
const GIVE_BACK: Duration = Duration::from_secs(20);

/// Interval between checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Raises the number of descriptors of this process to its limit: attacks hold thousands of connections.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the number of connections that this process can open. Some descriptors of the limit are reserved for other
/// purposes.
pub(crate) fn connections_possible() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| (limit as usize).saturating_sub(200))
}

/// Memory of a process in octets, from `/proc/PID/status`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    id: u32,
    before: u64,
}

impl Memory {
    /// Starts the measurement, and resets the peak.
    pub(crate) fn watch(id: u32) -> Memory {
        // The value 5 resets the peak; see proc_pid_clear_refs(5).
        let _ = fs::write(format!("/proc/{id}/clear_refs"), "5");
        Memory { id, before: field(id, "VmRSS:") }
    }

    /// Returns the growth of resident memory since the start, in octets.
    pub(crate) fn growth(&self) -> u64 {
        field(self.id, "VmRSS:").saturating_sub(self.before)
    }

    /// Returns the maximum growth since the start, in octets.
    pub(crate) fn peak_growth(&self) -> u64 {
        field(self.id, "VmHWM:").saturating_sub(self.before)
    }

    /// Returns the resident memory at the start, in octets.
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// Waits until the peak has not grown for `quiet`, or until `end`.
    pub(crate) fn settle(&self, quiet: Duration, end: Instant) {
        let (mut peak, mut since) = (self.peak_growth(), Instant::now());
        while since.elapsed() < quiet && Instant::now() < end {
            std::thread::sleep(LOOK_AGAIN);
            let now = self.peak_growth();
            if now > peak {
                (peak, since) = (now, Instant::now());
            }
        }
    }

    /// Waits, for a limited time, until the growth is below `octets`. Returns the growth.
    pub(crate) fn given_back(&self, octets: u64) -> u64 {
        wait_until(GIVE_BACK, || self.growth() <= octets);
        self.growth()
    }
}

/// Returns a field of `/proc/PID/status`, converted from kB to octets; 0 if the process has ended.
fn field(id: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Returns the number of open descriptors of a process.
pub(crate) fn descriptors(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).map_or(0, |entries| entries.count())
}

/// Calls `is_so` repeatedly until it returns true, at most for `longest`. Returns the last result.
pub(crate) fn wait_until(longest: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if started.elapsed() > longest {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
