//! File descriptors: how many of them connections may take, and how many are kept for everything else.
//!
//! Beside connections, the process holds descriptors for:
//!
//! - two for each event loop (its epoll instance and its waker), and the same of the acceptor and of the signals;
//! - the listening sockets, the log file;
//! - the store: the lock, the directory, the data file twice, and a segment of the redo log for what is not folded yet:
//!   a few as a rule, and one more for every 32 MiB that are written faster than the disk folds them;
//! - for a moment: files below `/proc`, the node file and schema files of a reload, a socket to the service manager,
//!   sort files of an import.
//!
//! What is not there when a connection comes is counted by the kernel: it gives a new descriptor the lowest number that
//! is free (POSIX, open), so one with the number N says that N others are taken. A connection whose number is too high
//! is closed at once. So whatever the others hold, as many as the reserve are free after it, and the store finds one
//! when it wants one.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::limits::{DESCRIPTORS_RESERVED, DESCRIPTORS_RESERVED_DIVISOR, DESCRIPTORS_TRUSTED_DIVISOR};

/// How many descriptors the process may have, and who may take which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorLimits {
    /// All of them.
    pub(crate) open_max: u64,
    /// Those that are kept from connections.
    pub(crate) reserved: u64,
    /// Those of them that the administrator's connections may take.
    for_trusted: u64,
}

impl DescriptorLimits {
    /// As the process is limited now.
    pub(crate) fn read() -> DescriptorLimits {
        DescriptorLimits::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(open_max: u64) -> DescriptorLimits {
        let reserved = DESCRIPTORS_RESERVED.min(open_max / DESCRIPTORS_RESERVED_DIVISOR);
        DescriptorLimits { open_max, reserved, for_trusted: reserved / DESCRIPTORS_TRUSTED_DIVISOR }
    }

    /// Whether a connection may keep the descriptor of this number. `is_trusted`: whether it is of somebody who may be
    /// the administrator.
    pub(crate) fn admits(&self, descriptor: u64, is_trusted: bool) -> bool {
        let kept = if is_trusted { self.reserved - self.for_trusted } else { self.reserved };
        descriptor < self.open_max - kept
    }

    /// How many connections there can be where `others` have so many descriptors.
    pub(crate) fn connections_max(&self, others: u64) -> u64 {
        (self.open_max - self.reserved).saturating_sub(others)
    }
}

/// How many descriptors the process has open now; 0 where the kernel does not say.
pub(crate) fn open_count() -> u64 {
    // One is that of the listing itself.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1) as u64)
}

/// Every connection is a file descriptor, and the usual soft limit of 1,024 is for programs that use `select`, which
/// this one does not: take what the hard limit allows.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit on open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_kept_from_connections_and_some_of_these_for_the_administrator() {
        let check = |open_max, first_kept, first_kept_from_all| {
            let limits = DescriptorLimits::of(open_max);
            assert!(limits.admits(first_kept - 1, false) && !limits.admits(first_kept, false), "{open_max}");
            assert!(limits.admits(first_kept, true), "{open_max}");
            assert!(limits.admits(first_kept_from_all - 1, true), "{open_max}");
            assert!(!limits.admits(first_kept_from_all, true), "{open_max}");
            assert_eq!(limits.connections_max(20), first_kept - 20);
        };
        check(1 << 20, (1 << 20) - 128, (1 << 20) - 64);
        check(1_024, 896, 960);
        check(256, 192, 224);
        check(64, 48, 56);
        assert!(DescriptorLimits::of(u64::MAX).admits(1 << 20, false), "without a limit");
        assert_eq!(DescriptorLimits::of(64).connections_max(60), 0);
        assert!(open_count() > 2);
    }
}
