//! File descriptors: the number that connections may use, and the number reserved for everything else.
//!
//! In addition to connections, the process holds descriptors for:
//!
//! - the epoll instance and the waker of each event loop, of the acceptor, and of the signal handler;
//! - the listening sockets and the log file;
//! - the store: the lock, the directory, the data file twice, and the segments of the redo log that are not
//!   checkpointed yet. Usually these are a few segments, and one more segment for every 32 MiB that are not
//!   checkpointed;
//! - temporarily: files below `/proc`, the node file and schema files of a reload, a socket to the service manager,
//!   sort files of an import.
//!
//! No counter is needed. A new descriptor gets the lowest free number (POSIX, open). Therefore at least N other
//! descriptors are open when a descriptor gets the number N. A connection whose descriptor number is too high is closed
//! at once, so that the reserve stays free and the store always gets a descriptor.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::limits::{DESCRIPTORS_RESERVED, DESCRIPTORS_RESERVED_DIVISOR, DESCRIPTORS_TRUSTED_DIVISOR};

/// Limits on the descriptors of the process and of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorLimits {
    /// Maximum number of descriptors of the process.
    pub(crate) open_max: u64,
    /// Number of descriptors that connections may not use.
    pub(crate) reserved: u64,
    /// Number of reserved descriptors that trusted connections may use.
    for_trusted: u64,
}

impl DescriptorLimits {
    /// Returns the limits of this process.
    pub(crate) fn read() -> DescriptorLimits {
        DescriptorLimits::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(open_max: u64) -> DescriptorLimits {
        let reserved = DESCRIPTORS_RESERVED.min(open_max / DESCRIPTORS_RESERVED_DIVISOR);
        DescriptorLimits { open_max, reserved, for_trusted: reserved / DESCRIPTORS_TRUSTED_DIVISOR }
    }

    /// Returns true if a connection may keep the descriptor with this number. A connection is trusted if its peer may
    /// act as the administrator.
    pub(crate) fn admits(&self, descriptor: u64, is_trusted: bool) -> bool {
        let withheld = if is_trusted { self.reserved - self.for_trusted } else { self.reserved };
        descriptor < self.open_max - withheld
    }

    /// Returns the maximum number of connections if everything else uses `others` descriptors.
    pub(crate) fn connections_max(&self, others: u64) -> u64 {
        (self.open_max - self.reserved).saturating_sub(others)
    }
}

/// Returns the number of open descriptors of the process; 0 if the kernel does not report it.
pub(crate) fn open_count() -> u64 {
    // The listing itself uses one descriptor.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1) as u64)
}

/// Raises the soft limit on descriptors to the hard limit. The usual soft limit of 1,024 protects programs that use
/// `select`. This program does not use `select`.
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
    fn descriptors_are_reserved_for_the_server_and_the_administrator() {
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
